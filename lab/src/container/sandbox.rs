//! What the containers of a pod share: a process holds it while it can read its standard input.

use std::io::{Read as _, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::sethostname;

/// The namespaces, by their names in `/proc/PID/ns`.
pub(crate) const SHARED: [&str; 3] = ["net", "uts", "ipc"];

/// What it says when they are there.
pub(crate) const HELD: &str = "held";

/// Makes namespaces, sets what the pod wants set in them (`net.ipv4.ip_unprivileged_port_start=0`), and holds them.
pub(crate) fn hold(hostname: &str, sysctls: &[String]) -> anyhow::Result<ExitCode> {
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWIPC)
        .context("making namespaces")?;
    sethostname(hostname).context("setting the name of the host")?;
    for sysctl in sysctls {
        let (name, value) = sysctl.split_once('=').context("a sysctl without a value")?;
        let file = format!("/proc/sys/{}", name.replace('.', "/"));
        std::fs::write(&file, value).with_context(|| format!("setting {name}"))?;
    }
    writeln!(std::io::stdout(), "{HELD}")?;
    let _end = std::io::stdin().read(&mut [0]);
    Ok(ExitCode::SUCCESS)
}
