//! The suite's program and the definitions of Gateway API of the same version, as the scripts of `tools` leave them.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};

use crate::enter;
use crate::place::Place;

/// The version that Chancery is for; others are for comparison.
pub(crate) const NEWEST: &str = "v1.7.0";

/// Which definitions, and which suite.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Release {
    /// The version of the Gateway API: one that `lab/conformance` pins.
    #[arg(long = "gateway-api", default_value = NEWEST, value_parser = version, value_name = "VERSION")]
    pub(crate) version: String,
    /// The channel whose definitions are installed; another one wants another lab.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) channel: Channel,
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gateway API {}, {} channel", self.version, self.channel)
    }
}

/// It becomes part of a path.
fn version(text: &str) -> Result<String, String> {
    let is_number = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    let numbers = text.strip_prefix('v').map(|numbers| numbers.split('.').filter(|part| is_number(part)).count());
    if numbers == Some(3) && text.matches('.').count() == 2 {
        Ok(text.to_owned())
    } else {
        Err("like v1.7.0".to_owned())
    }
}

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
pub(crate) fn suite(place: &Place, release: &Release) -> anyhow::Result<PathBuf> {
    Ok(installed(place, ("conformance", &release.version), "install-conformance")?.join("bin"))
}

/// Enters the lab and installs the definitions of a channel.
pub(crate) fn install(place: &Place, release: &Release) -> anyhow::Result<ExitCode> {
    enter::all(place)?;
    apply(place, release)?;
    eprintln!("{release}");
    Ok(ExitCode::SUCCESS)
}

/// Installs the definitions of a channel into the lab that this process has entered.
pub(crate) fn apply(place: &Place, release: &Release) -> anyhow::Result<()> {
    let folder = installed(place, ("gateway-api", &release.version), "install-definitions")?;
    let folder = folder.join(release.channel.to_string());
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
    ensure!(output.status.success(), "the definitions of {release} cannot be installed: {}", why.trim());
    Ok(())
}

/// What a script of `tools` has left.
fn installed(place: &Place, (what, version): (&str, &str), script: &str) -> anyhow::Result<PathBuf> {
    let folder = place.project(".tools").join(what).join(version);
    ensure!(folder.is_dir(), "{} is missing; `tools/{script} {version}` makes it, once", folder.display());
    Ok(folder)
}
