//! `chancery validate`: checks files and points at what is wrong; nothing is started.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

use api::{Problem, Severity};
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

/// Prints every problem, then one line with their numbers; exit code 1 if there is an error or a warning, or nothing that is read.
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
    let unread = unread(&problems);
    let is_empty = offline.objects() == 0 && errors + warnings == 0;
    let warnings = warnings + usize::from(is_empty);
    if is_empty {
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let names = "of files those are read whose names end with .yaml, .yml or .json";
        writeln!(out, "warning: no object that is read in {}: {names}", paths.join(", "))?;
    }
    let unusable = match offline.unusable() {
        0 => String::new(),
        count => format!(" and {count} that cannot be used"),
    };
    writeln!(
        out,
        "{} object{}{unusable}: {errors} error{}, {warnings} warning{}, {notes} note{}{more}{unread}",
        offline.objects(),
        plural(offline.objects()),
        plural(errors),
        plural(warnings),
        plural(notes)
    )?;
    Ok(if errors + warnings > 0 { Outcome::Problems } else { Outcome::Fine })
}

/// Kinds of which nothing is read, of which notes may be hidden: `; not read: 2 Deployment, 1 Job`.
fn unread(problems: &[Problem]) -> String {
    let notes = problems.iter().filter(|problem| problem.severity == Severity::Note);
    let kinds = notes.filter_map(|problem| problem.object.as_ref()).filter(|object| object.kind().is_none());
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    kinds.for_each(|object| *counts.entry(object.kind_name()).or_default() += 1);
    let named: Vec<String> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    if named.is_empty() { String::new() } else { format!("; not read: {}", named.join(", ")) }
}
