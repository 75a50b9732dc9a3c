//! `chancery explain`: which objects make what a workload gets, and which do not.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use api::problem::printable;
use clap::Args;

use super::columns::columns;
use super::descriptors::DescriptorArgs;
use super::running::{CHOICE, Running, RunningArgs};
use super::{Format, LinkArgs, Outcome, PermissionArgs, WrongUsage};
use crate::explain::{Answer, Explained, Resource, Source, Unused};
use crate::offline::Offline;

/// Arguments of `chancery explain`.
#[derive(Debug, Args)]
#[command(after_help = CHOICE)]
pub(crate) struct ExplainArgs {
    /// Which workload: `shop/web-1`, or `web-1` of --namespace, else of the namespace default; `pod/` may stand before it
    workload: String,
    /// Files and folders with YAML or JSON; `-` is standard input. Without any a running Chancery is asked
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The same, with an option
    #[arg(long = "file", short = 'f', value_name = "PATH")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    links: LinkArgs,
    #[command(flatten)]
    permissions: PermissionArgs,
    #[command(flatten)]
    running: RunningArgs,
    #[command(flatten)]
    descriptors: DescriptorArgs,
    /// How to print
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// Prints; an error, and exit code 1, if there is no such workload.
pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<Outcome> {
    let workload = workload(&args.workload, args.running.namespace().unwrap_or("default"))?;
    args.descriptors.install()?;
    let paths = [&args.files[..], &args.paths].concat();
    let answer = if paths.is_empty() {
        asked(&args.running, &workload)?
    } else {
        Offline::load(&paths, args.links.links(), &args.permissions)?.explain(&workload)
    };
    let explained = match answer {
        Answer::Workload(explained) => explained,
        Answer::Unknown(words) => anyhow::bail!(words),
    };
    let text = match args.output {
        Format::Json => format!("{}\n", serde_json::to_string_pretty(&explained)?),
        Format::Yaml => crate::yaml::document(&serde_json::to_value(&explained)?),
        Format::Name => {
            explained.resources.iter().map(|one| format!("{}/{}\n", one.kind, printable(&one.name))).collect()
        }
        Format::Table | Format::Wide => tables(&explained, args.output == Format::Wide),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Outcome::Fine)
}

/// What a running one says.
fn asked(running: &RunningArgs, workload: &str) -> anyhow::Result<Answer> {
    let running = Running::find(running)?;
    let text = running.get(&running.leader()?, &format!("/explain?workload={workload}"))?;
    serde_json::from_slice(&text).context("a Chancery of another version answers otherwise")
}

/// `namespace/name` of what was asked for.
fn workload(word: &str, namespace: &str) -> Result<String, WrongUsage> {
    let parts: Vec<&str> = word.split('/').collect();
    let is_name = |part: &&str| {
        !part.is_empty() && part.chars().all(|letter| letter.is_ascii_alphanumeric() || "-.".contains(letter))
    };
    let wrong = |why: &str| {
        WrongUsage(format!(
            "{word}: {why}; workloads are explained, as NAMESPACE/NAME, NAME, pod/NAME or pod/NAMESPACE/NAME"
        ))
    };
    if !parts.iter().all(is_name) {
        return Err(wrong("this is no name"));
    }
    match *parts.as_slice() {
        [name] | ["pod" | "pods" | "workload", name] => Ok(format!("{namespace}/{name}")),
        ["gateway" | "gateways", ..] => Err(wrong(
            "what makes the configuration of a Gateway is told by `chancery status` and `chancery translate --to ir`",
        )),
        [namespace, name] | ["pod" | "pods" | "workload", namespace, name] => Ok(format!("{namespace}/{name}")),
        _ => Err(wrong("this is no workload")),
    }
}

fn tables(explained: &Explained, wide: bool) -> String {
    let place = explained.place.as_ref().map(|place| format!(" ({place})")).unwrap_or_default();
    let labels: Vec<String> = explained.labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
    let labels = if labels.is_empty() { "without labels".to_owned() } else { labels.join(", ") };
    let mut text = format!("{}{place}: {labels}\n\n", explained.workload);
    text.push_str(&given(&explained.resources, wide));
    for (title, unused) in [("For it, and cannot be used:", &explained.unusable), ("Not for it:", &explained.others)] {
        if !unused.is_empty() {
            text.push_str(&format!("\n{title}\n"));
            text.push_str(&unused_table(unused));
        }
    }
    text
}

fn given(resources: &[Resource], wide: bool) -> String {
    if resources.is_empty() {
        return "No object gives it anything.\n".to_owned();
    }
    let running = resources.iter().any(|resource| resource.state.is_some());
    let mut headers = vec!["RESOURCE", "NAME"];
    headers.extend(running.then_some("STATE"));
    headers.extend(["MADE BY", "WRITTEN AT", "SELECTED BY"]);
    headers.extend(wide.then_some("PRIORITY"));
    headers.push("DETAIL");
    let rows = resources.iter().flat_map(|resource| {
        let row = move |(at, source): (usize, &Source)| {
            // What follows for the same resource stands below it.
            let first = |text: &str| if at == 0 { text.replace('\n', " ") } else { String::new() };
            let mut row = vec![first(&resource.kind), first(&resource.name)];
            row.extend(running.then(|| first(resource.state.as_deref().unwrap_or_default())));
            row.extend([source.object.clone(), place(source.place.as_deref()), selected(&source.selector)]);
            row.extend(wide.then(|| source.priority.to_string()));
            row.push(detail(source));
            row
        };
        resource.objects.iter().enumerate().map(row)
    });
    columns(&headers, rows)
}

fn unused_table(unused: &[Unused]) -> String {
    let row =
        |one: &Unused| vec![one.object.clone(), place(one.place.as_deref()), one.reasons.join("; ").replace('\n', " ")];
    columns(&["OBJECT", "WRITTEN AT", "WHY"], unused.iter().map(row))
}

fn place(place: Option<&str>) -> String {
    place.unwrap_or("-").to_owned()
}

fn selected(selector: &[String]) -> String {
    if selector.is_empty() { "every workload".to_owned() } else { selector.join(", ") }
}

fn detail(source: &Source) -> String {
    let left_out = source.left_out.iter().map(|words| format!("left out: {words}"));
    let missing = source.missing.iter().map(|words| format!("missing: {words}"));
    left_out.chain(missing).collect::<Vec<_>>().join("; ")
}
