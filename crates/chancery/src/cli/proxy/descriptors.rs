//! `chancery proxy descriptors`: what an Envoy binary knows.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use clap::Args;
use descriptors::{Found, descriptor_set, file_descriptors, ordered};

use crate::cli::{Outcome, WrongUsage};

/// Arguments of `chancery proxy descriptors`.
#[derive(Debug, Args)]
pub(super) struct DescriptorsArgs {
    /// The Envoy: a file of this machine, which is read and not run
    binary: PathBuf,
    /// Write them to this file, for `--descriptors` [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes every descriptor that the binary was linked with.
pub(super) fn run(args: &DescriptorsArgs) -> anyhow::Result<Outcome> {
    let to_terminal = args.output.is_none() && std::io::stdout().is_terminal();
    WrongUsage::unless(!to_terminal, || {
        "descriptors are bytes: give --output FILE, or send them to a file".to_owned()
    })?;
    let binary = std::fs::read(&args.binary).with_context(|| format!("cannot read {}", args.binary.display()))?;
    let found = file_descriptors(&binary);
    let files = ordered(&found, found.keys().map(String::as_str));
    let messages = files.iter().map(|found| found.file.message_type.len()).sum::<usize>();
    ensure!(
        messages > 0,
        "{} carries no protobuf descriptors: is it an Envoy, and not a script that starts one, or packed?",
        args.binary.display()
    );
    write(args, &files)?;
    let is_envoys = |found: &&Found| found.file.name().starts_with("envoy/");
    let (all, own) = (files.len(), files.iter().copied().filter(is_envoys).count());
    writeln!(std::io::stderr(), "{all} files, {own} of Envoy's API; {messages} messages that are in no other")?;
    Ok(Outcome::Fine)
}

fn write(args: &DescriptorsArgs, files: &[&Found]) -> anyhow::Result<()> {
    let set = descriptor_set(files);
    match &args.output {
        Some(file) => std::fs::write(file, set).with_context(|| format!("cannot write {}", file.display())),
        None => Ok(std::io::stdout().write_all(&set)?),
    }
}
