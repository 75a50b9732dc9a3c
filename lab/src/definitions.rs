//! The suite's program and the definitions of Gateway API of the same version, as the scripts of `tools` leave them.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};

use crate::enter;
use crate::place::Place;

/// The version of both.
pub(crate) const VERSION: &str = "v1.7.0";

/// Which fields and kinds there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Channel {
    /// What is stable.
    #[default]
    Standard,
    /// What may still change, too.
    Experimental,
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standard => "standard",
            Self::Experimental => "experimental",
        })
    }
}

/// The folder of the suite's programs.
pub(crate) fn suite(place: &Place) -> anyhow::Result<PathBuf> {
    Ok(installed(place, "conformance", "install-conformance")?.join("bin"))
}

/// Enters the lab and installs the definitions of a channel.
pub(crate) fn install(place: &Place, channel: Channel) -> anyhow::Result<ExitCode> {
    enter::all(place)?;
    apply(place, channel)?;
    eprintln!("Gateway API {VERSION}, {channel} channel");
    Ok(ExitCode::SUCCESS)
}

/// Installs the definitions of a channel into the lab that this process has entered.
pub(crate) fn apply(place: &Place, channel: Channel) -> anyhow::Result<()> {
    let folder = installed(place, "gateway-api", "install-definitions")?.join(channel.to_string());
    let entries = std::fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    // They are too long for the annotation that kubectl otherwise leaves.
    let mut command = enter::command(place, "kubectl".into());
    command.args(["apply", "--server-side"]);
    for file in &files {
        command.arg("-f").arg(file);
    }
    let output = command.output().context("starting kubectl")?;
    let why = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the definitions of the {channel} channel cannot be installed: {}", why.trim());
    Ok(())
}

/// What a script of `tools` has left.
fn installed(place: &Place, what: &str, script: &str) -> anyhow::Result<PathBuf> {
    let folder = place.project(".tools").join(what).join("current");
    ensure!(folder.is_dir(), "{} is missing; tools/{script} makes it, once", folder.display());
    Ok(folder)
}
