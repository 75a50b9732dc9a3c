//! `chancery proxy`: which proxies are connected to a running Chancery, and what one of them has.

mod config;
mod descriptors;
mod dump;
mod routes;

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, bail};
use api::problem::printable;
use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::Value;

use super::columns::{Screen, columns_on};
use super::running::{CHOICE, Running, RunningArgs};
use super::status::begin_again;
use super::{Format, Outcome};

/// Arguments of `chancery proxy`.
#[derive(Debug, Args)]
#[command(after_help = CHOICE)]
pub(crate) struct ProxyArgs {
    #[command(subcommand)]
    deed: Deed,
    #[command(flatten)]
    running: RunningArgs,
}

#[derive(Debug, Subcommand)]
enum Deed {
    /// Which proxies are connected, and how each stands to its configuration; exit code 1 if one refuses something
    List {
        /// How to print
        #[arg(long, short, value_enum, default_value_t = Format::Table)]
        output: Format,
        /// Stay, and print again whenever something changed
        #[arg(long, short)]
        watch: bool,
    },
    /// What a proxy has, as its Envoy says itself (without private keys): how much of each kind, or one kind
    Config(config::ConfigArgs),
    /// Read the descriptors of all messages out of an Envoy binary, private filters included; no Chancery has to run
    Descriptors(descriptors::DescriptorsArgs),
}

/// Exit code 1 if a proxy refuses something.
pub(crate) fn run(args: &ProxyArgs) -> anyhow::Result<Outcome> {
    let running = || Running::find(&args.running);
    match &args.deed {
        Deed::List { output, watch } => list(&running()?, *output, *watch),
        Deed::Config(args) => config::run(&running()?, args),
        Deed::Descriptors(args) => descriptors::run(args),
    }
}

/// A proxy that is connected, as the admin API tells it.
#[derive(Debug, Clone, Deserialize)]
struct Proxy {
    name: String,
    gateway: String,
    address: Option<String>,
    program: String,
    version: String,
    accepted: usize,
    pending: usize,
    refused: usize,
    refusals: Vec<Refusal>,
    /// The Pod of the replica to which it is connected.
    replica: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct Refusal {
    kind: String,
    name: String,
    text: String,
}

/// How often a watch looks again: proxies have no revision to wait for.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

fn list(running: &Running, output: Format, watch: bool) -> anyhow::Result<Outcome> {
    let mut data = listed(running)?;
    let mut last = String::new();
    loop {
        let proxies = proxies(&data)?;
        let text = printed(&data, &proxies, output)?;
        let same = std::mem::replace(&mut last, text) == last;
        if !same || !watch {
            if watch && matches!(output, Format::Table | Format::Wide) {
                begin_again()?;
            }
            write!(std::io::stdout(), "{last}")?;
            std::io::stdout().flush()?;
        }
        if !watch {
            let fine = proxies.iter().all(|proxy| proxy.refused == 0);
            return Ok(if fine { Outcome::Fine } else { Outcome::Problems });
        }
        data = listed_again(running);
    }
}

/// Those of the requested namespace.
fn listed(running: &Running) -> anyhow::Result<Vec<Value>> {
    let mut data = connected(running)?;
    let namespace = |proxy: &Value| {
        let gateway = proxy.get("gateway").and_then(Value::as_str).unwrap_or_default();
        let of_objects = gateway.strip_prefix("workload/").unwrap_or(gateway);
        of_objects.split_once('/').map(|(namespace, _)| namespace.to_owned())
    };
    data.retain(|proxy| running.namespace().is_none_or(|wanted| namespace(proxy).as_deref() == Some(wanted)));
    Ok(data)
}

/// The next list of a watch. A process that ends may be started again.
fn listed_again(running: &Running) -> Vec<Value> {
    let mut complained = false;
    loop {
        std::thread::sleep(LOOK_AGAIN);
        match listed(running) {
            Ok(data) => return data,
            Err(error) if !complained => {
                let _unread = writeln!(std::io::stderr(), "{error:#}; waiting for it");
                complained = true;
            }
            Err(_) => {}
        }
    }
}

fn printed(data: &[Value], proxies: &[Proxy], output: Format) -> anyhow::Result<String> {
    Ok(match output {
        Format::Json => format!("{}\n", serde_json::to_string_pretty(&data)?),
        Format::Yaml if data.is_empty() => "[]\n".to_owned(),
        Format::Yaml => crate::yaml::documents(data),
        Format::Name => proxies.iter().map(|proxy| format!("{}\n", printable(&proxy.name))).collect(),
        Format::Table => table(proxies, false, Screen::of_stdout()) + &refusals(proxies),
        Format::Wide => table(proxies, true, Screen::of_stdout().uncut()) + &refusals(proxies),
    })
}

/// What every replica says of the proxies that are connected to it, by name. One that does not answer is told of; it is an error if none does.
fn connected(running: &Running) -> anyhow::Result<Vec<Value>> {
    let (mut all, mut answered, mut first) = (Vec::new(), false, None);
    for replica in running.all()? {
        let said = running.get(&replica, "/proxies").and_then(|text| {
            serde_json::from_slice(&text).context("the admin API answered something that is no list of proxies")
        });
        match said {
            Ok(said) => {
                let said: Vec<Value> = said;
                let with_replica = |mut proxy: Value| {
                    if let (Some(pod), Some(fields)) = (replica.pod(), proxy.as_object_mut()) {
                        fields.insert("replica".to_owned(), pod.into());
                    }
                    proxy
                };
                all.extend(said.into_iter().map(with_replica));
                answered = true;
            }
            Err(error) if first.is_none() => first = Some(error),
            Err(error) => writeln!(std::io::stderr(), "{error:#}")?,
        }
    }
    match first {
        Some(error) if !answered => return Err(error),
        Some(error) => writeln!(std::io::stderr(), "{error:#}")?,
        None => {}
    }
    all.sort_by_cached_key(|proxy| proxy.get("name").and_then(Value::as_str).map(str::to_owned));
    Ok(all)
}

fn proxies(data: &[Value]) -> anyhow::Result<Vec<Proxy>> {
    let proxy = |value: &Value| Proxy::deserialize(value).context("a replica of another version answers otherwise");
    data.iter().map(proxy).collect()
}

fn table(proxies: &[Proxy], wide: bool, screen: Screen) -> String {
    if proxies.is_empty() {
        return "no proxy is connected\n".to_owned();
    }
    let in_cluster = proxies.iter().any(|proxy| proxy.replica.is_some());
    let mut headers = vec!["NAME", "GATEWAY", "PROGRAM", "STATE"];
    headers.extend(wide.then_some("CONFIGURATION"));
    headers.extend(in_cluster.then_some("REPLICA"));
    headers.extend(wide.then_some("ADDRESS"));
    let row = |proxy: &Proxy| {
        let program = format!("{} {}", proxy.program, proxy.version).trim().to_owned();
        let mut row = vec![proxy.name.clone(), proxy.gateway.clone(), program, proxy.state()];
        row.extend(wide.then(|| proxy.standing()));
        row.extend(in_cluster.then(|| proxy.replica.clone().unwrap_or_default()));
        row.extend(wide.then(|| proxy.address.clone().unwrap_or_else(|| "-".to_owned())));
        row
    };
    columns_on(screen, &headers, proxies.iter().map(row))
}

/// What is refused, a paragraph each.
fn refusals(proxies: &[Proxy]) -> String {
    let mut text = String::new();
    for proxy in proxies {
        for Refusal { kind, name, text: words } in &proxy.refusals {
            text.push_str(&format!("\n{} refuses {kind} {name}:\n  {}\n", proxy.name, words.trim()));
        }
        let more = proxy.refused.saturating_sub(proxy.refusals.len());
        if more > 0 {
            text.push_str(&format!("\n{} refuses {more} more\n", proxy.name));
        }
    }
    text
}

impl Proxy {
    /// `ok`, or how much of its configuration it has not accepted.
    fn state(&self) -> String {
        let counted = [(self.refused, "refused"), (self.pending, "pending")];
        let others = counted.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
        let others = others.collect::<Vec<_>>().join(", ");
        if others.is_empty() { "ok".to_owned() } else { others }
    }

    /// How it stands to its configuration.
    fn standing(&self) -> String {
        let counted = [(self.pending, "pending"), (self.refused, "refused")];
        let others = counted.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!(", {count} {word}"));
        format!("{} accepted", self.accepted) + &others.collect::<String>()
    }

    /// Whether a person means it: `namespace/pod`, `pod.namespace`, `pod`, or the same of its Gateway behind `gateway/`, or of its workload.
    fn is_meant(&self, word: &str) -> bool {
        if let Some(gateway) = word.strip_prefix("gateway/") {
            return is_called(&self.gateway, gateway);
        }
        let workload = self.gateway.strip_prefix("workload/");
        is_called(&self.name, word)
            || workload.is_some_and(|workload| word == self.gateway || is_called(workload, word))
    }
}

fn is_called(full: &str, word: &str) -> bool {
    let (namespace, name) = full.split_once('/').unwrap_or(("", full));
    word == full || word == name || word.split_once('.').is_some_and(|pair| pair == (name, namespace))
}

/// The one that is meant.
fn find<'a>(proxies: &'a [Proxy], word: &str) -> anyhow::Result<&'a Proxy> {
    let mut meant: Vec<&Proxy> = proxies.iter().filter(|proxy| proxy.is_meant(word)).collect();
    // One that changes replicas is connected to both for a moment.
    meant.dedup_by(|one, other| one.name == other.name);
    match *meant {
        [one] => Ok(one),
        [] if proxies.is_empty() => bail!("no proxy is connected: `chancery status` says why"),
        [] => bail!("no proxy {word} is connected; there are {}", names(proxies.iter())),
        _ => bail!("{word} may be each of {}: say which", names(meant.into_iter())),
    }
}

/// Names that are listed in place of one that is not there; of more of them their number is told.
const MOST_NAMES: usize = 10;

fn names<'a>(proxies: impl ExactSizeIterator<Item = &'a Proxy>) -> String {
    match proxies.len() {
        count if count > MOST_NAMES => format!("{count}; `chancery proxy list` lists them"),
        _ => proxies.map(|proxy| &*proxy.name).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests;
