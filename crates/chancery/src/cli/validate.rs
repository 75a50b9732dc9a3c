//! `chancery validate`: checks files and points at what is wrong; nothing is started.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

use api::{Problem, Severity};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

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
    /// How to print: for people, or for machines (SARIF 2.1.0 is what code reviews and editors take)
    #[arg(long, short, value_enum, default_value_t = ReportFormat::Text)]
    output: ReportFormat,
}

/// The reader of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    /// As a compiler prints them
    Text,
    /// JSON, with the numbers
    Json,
    /// SARIF 2.1.0
    Sarif,
}

/// Prints every problem, then one line with their numbers; exit code 1 if there is an error or a warning, or nothing that is read.
pub(crate) fn run(args: &ValidateArgs) -> anyhow::Result<Outcome> {
    args.descriptors.install()?;
    let paths = [&args.files[..], &args.paths].concat();
    let offline = Offline::load(&paths, args.links.links(), &args.permissions)?;
    let mut problems = offline.problems();
    problems.extend(nothing_read(&offline, &problems, &paths));
    let mut out = std::io::stdout().lock();
    let shown = || problems.iter().filter(|problem| args.notes || problem.severity != Severity::Note);
    match args.output {
        ReportFormat::Sarif => writeln!(out, "{:#}", crate::sarif::log(shown(), &std::env::current_dir()?))?,
        ReportFormat::Json => writeln!(out, "{:#}", json(&offline, &problems, shown()))?,
        ReportFormat::Text => {
            for problem in shown() {
                writeln!(out, "{}", crate::diagnostics::render(problem, colours()))?;
            }
            writeln!(out, "{}", summary(&offline, &problems, args.notes))?;
        }
    }
    let is_fine = problems.iter().all(|problem| problem.severity == Severity::Note);
    Ok(if is_fine { Outcome::Fine } else { Outcome::Problems })
}

/// A warning where no object is read and nothing says why.
fn nothing_read(offline: &Offline, problems: &[Problem], paths: &[PathBuf]) -> Option<Problem> {
    let is_said = offline.objects() > 0 || problems.iter().any(|problem| problem.severity != Severity::Note);
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let names = "of files those are read whose names end with .yaml, .yml or .json";
    let text = format!("no object that is read in {}: {names}", paths.join(", "));
    (!is_said).then(|| Problem::unbound(Severity::Warning, text))
}

/// The numbers, in one line.
fn summary(offline: &Offline, problems: &[Problem], notes_are_shown: bool) -> String {
    let count = |severity| problems.iter().filter(|problem| problem.severity == severity).count();
    let counted = |count: usize, of: &str| format!("{count} {of}{}", if count == 1 { "" } else { "s" });
    let notes = count(Severity::Note);
    let more = if notes > 0 && !notes_are_shown { " (--notes prints them)" } else { "" };
    let unusable = match offline.unusable() {
        0 => String::new(),
        count => format!(" and {count} that cannot be used"),
    };
    format!(
        "{}{unusable}: {}, {}, {}{more}{}",
        counted(offline.objects(), "object"),
        counted(count(Severity::Error), "error"),
        counted(count(Severity::Warning), "warning"),
        counted(notes, "note"),
        unread(problems),
    )
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

/// The numbers, and each problem that is shown.
fn json<'p>(offline: &Offline, problems: &[Problem], shown: impl Iterator<Item = &'p Problem>) -> Value {
    let count = |severity| problems.iter().filter(|problem| problem.severity == severity).count();
    json!({
        "objects": offline.objects(),
        "rejected": offline.unusable(),
        "errors": count(Severity::Error),
        "warnings": count(Severity::Warning),
        "notes": count(Severity::Note),
        "problems": crate::report::problems(shown),
    })
}
