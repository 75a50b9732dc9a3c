//! `chancery shutdown`: ends the Envoy of a Pod without loss. A Pod's init container puts this program where Envoy's container finds it
//! (`--install`), and the container's `preStop` hook calls it there (`--admin`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use infra::kubernetes::shutdown::{Outcome as Drained, Shutdown};

use super::Outcome;
use super::run::duration;

/// Arguments of `chancery shutdown`.
#[derive(Debug, Args)]
pub(crate) struct ShutdownArgs {
    /// Copy this program into a folder, and do nothing else
    #[arg(long, value_name = "DIR")]
    install: Option<PathBuf>,
    /// The admin socket of the Envoy that ends
    #[arg(long, value_name = "SOCKET", required_unless_present = "install", conflicts_with = "install")]
    admin: Option<PathBuf>,
    /// How long it goes on taking new connections, while it says that it is not ready
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    min_drain: Duration,
    /// How long all of it may take
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    drain_timeout: Duration,
}

/// Returns when Envoy may be ended; exit code 1 if connections are left.
pub(crate) fn run(args: &ShutdownArgs) -> anyhow::Result<Outcome> {
    if let Some(folder) = &args.install {
        return install(folder).map(|()| Outcome::Fine);
    }
    let socket = args.admin.as_deref().context("--admin is needed")?;
    let how = Shutdown { min_drain: args.min_drain, drain_timeout: args.drain_timeout };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let drained = runtime.block_on(infra::kubernetes::shutdown(socket, how));
    match drained.with_context(|| format!("{}: no Envoy to drain", socket.display()))? {
        Drained::Idle => Ok(Outcome::Fine),
        Drained::Busy(connections) => {
            use std::io::Write as _;
            writeln!(std::io::stderr(), "{connections} connections are left after {:?}", args.drain_timeout)?;
            Ok(Outcome::Problems)
        }
    }
}

/// Appears whole: whoever sees the file can run it.
fn install(folder: &Path) -> anyhow::Result<()> {
    let own = std::env::current_exe().context("finding this program")?;
    let (beside, file) = (folder.join(".chancery"), folder.join("chancery"));
    std::fs::copy(&own, &beside).with_context(|| format!("copying this program to {}", folder.display()))?;
    std::fs::rename(&beside, &file).with_context(|| format!("writing {}", file.display()))
}
