//! `chancery validate`: checks files and points at what is wrong; nothing is started.

use std::io::Write as _;
use std::path::PathBuf;

use api::Severity;
use clap::Args;

use super::descriptors::DescriptorArgs;
use super::{LinkArgs, Outcome, PermissionArgs, colours};
use crate::offline::Offline;

/// Arguments of `chancery validate`.
#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// The same, with an option
    #[arg(long = "file", short = 'f', value_name = "PATH")]
    files: Vec<PathBuf>,
    /// Files and folders with YAML or JSON; `-` is standard input
    #[arg(value_name = "PATH", required_unless_present = "files")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    links: LinkArgs,
    #[command(flatten)]
    descriptors: DescriptorArgs,
    #[command(flatten)]
    permissions: PermissionArgs,
    /// Also print notes
    #[arg(long)]
    notes: bool,
}

/// Prints every problem, then one line with their numbers; exit code 1 if there is an error or a warning.
pub(crate) fn run(args: &ValidateArgs) -> anyhow::Result<Outcome> {
    args.descriptors.install()?;
    let paths = [&args.files[..], &args.paths].concat();
    let offline = Offline::load(&paths, args.links.links(), &args.permissions)?;
    let problems = offline.problems();
    let mut out = std::io::stdout().lock();
    for problem in problems.iter().filter(|problem| args.notes || problem.severity != Severity::Note) {
        writeln!(out, "{}", crate::diagnostics::render(problem, colours()))?;
    }
    let count = |severity| problems.iter().filter(|problem| problem.severity == severity).count();
    let (errors, warnings, notes) = (count(Severity::Error), count(Severity::Warning), count(Severity::Note));
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let more = if notes > 0 && !args.notes { " (--notes prints them)" } else { "" };
    let unusable = match offline.unusable() {
        0 => String::new(),
        count => format!(" and {count} that cannot be used"),
    };
    writeln!(
        out,
        "{} object{}{unusable}: {errors} error{}, {warnings} warning{}, {notes} note{}{more}",
        offline.objects(),
        plural(offline.objects()),
        plural(errors),
        plural(warnings),
        plural(notes)
    )?;
    Ok(if errors + warnings > 0 { Outcome::Problems } else { Outcome::Fine })
}
