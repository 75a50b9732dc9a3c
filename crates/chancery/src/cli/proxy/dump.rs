//! What Envoy's `/config_dump` says (`envoy.admin.v3.ConfigDump`), as columns for people.

use std::collections::BTreeSet;

use api::problem::printable;
use clap::ValueEnum;
use serde_json::Value;

use crate::cli::columns::{Screen, columns, columns_on};

/// What there is of an Envoy's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Where it listens
    Listeners,
    /// Which host names and routes it has
    Routes,
    /// Where it can send requests
    Clusters,
    /// The addresses behind clusters
    Endpoints,
    /// Certificates and authorities, without private keys
    Secrets,
    /// What it was started with
    Bootstrap,
}

impl Kind {
    /// Those that are listed.
    const LISTED: [Self; 5] = [Self::Listeners, Self::Routes, Self::Clusters, Self::Endpoints, Self::Secrets];

    /// The message that has them.
    const fn message(self) -> &'static str {
        match self {
            Self::Listeners => "ListenersConfigDump",
            Self::Routes => "RoutesConfigDump",
            Self::Clusters => "ClustersConfigDump",
            Self::Endpoints => "EndpointsConfigDump",
            Self::Secrets => "SecretsConfigDump",
            Self::Bootstrap => "BootstrapConfigDump",
        }
    }

    /// The field of an entry that holds the resource.
    const fn field(self) -> &'static str {
        match self {
            Self::Listeners => "listener",
            Self::Routes => "route_config",
            Self::Clusters => "cluster",
            Self::Endpoints => "endpoint_config",
            Self::Secrets => "secret",
            Self::Bootstrap => "bootstrap",
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Listeners => "listeners",
            Self::Routes => "routes",
            Self::Clusters => "clusters",
            Self::Endpoints => "endpoints",
            Self::Secrets => "secrets",
            Self::Bootstrap => "bootstrap",
        }
    }

    /// What is shown of each beside its name and state.
    const fn headers(self) -> &'static [&'static str] {
        match self {
            Self::Listeners => &["ADDRESS", "CHAINS"],
            Self::Routes | Self::Bootstrap => &[],
            Self::Clusters => &["TYPE"],
            Self::Endpoints => &["ADDRESS", "HEALTH", "ZONE", "PRIORITY"],
            Self::Secrets => &["HOLDS"],
        }
    }
}

/// The part of a dump that is about a kind; null where Envoy has nothing of it.
pub(super) fn kind(dump: &Value, kind: Kind) -> &Value {
    let is_it = |part: &&Value| text(part, "@type").rsplit('.').next() == Some(kind.message());
    list(dump, "configs").iter().find(is_it).unwrap_or(&Value::Null)
}

/// How much there is of each kind.
pub(super) fn summary(dump: &Value) -> String {
    let row = |of: Kind| {
        let all = entries(dump, of);
        let count = |wanted: &str| all.iter().filter(|entry| entry.state.starts_with(wanted)).count().to_string();
        let cells = [of.word().to_owned(), count("active"), count("warming"), count("refused"), count("static")];
        cells.to_vec()
    };
    columns(&["KIND", "ACTIVE", "WARMING", "REFUSED", "STATIC"], Kind::LISTED.map(row))
}

/// The names of all of a kind, or of each kind behind its word, each once.
pub(super) fn names(dump: &Value, of: Option<Kind>) -> String {
    let of_kind = |of: Kind| entries(dump, of).iter().map(|entry| name(of, entry)).collect::<BTreeSet<_>>();
    let one = |name: &str| format!("{}\n", printable(name));
    match of {
        Some(of) => of_kind(of).iter().map(|name| one(name)).collect(),
        None => Kind::LISTED
            .into_iter()
            .flat_map(|of| of_kind(of).into_iter().map(move |name| one(&format!("{}/{name}", of.word()))))
            .collect(),
    }
}

/// All of a kind but routes, which have columns of their own.
pub(super) fn table(dump: &Value, of: Kind, wide: bool, screen: Screen) -> String {
    let entries = entries(dump, of);
    if entries.is_empty() {
        return format!("no {}\n", of.word());
    }
    let mut headers = vec!["NAME", "STATE"];
    headers.extend(of.headers());
    headers.extend(wide.then_some(["VERSION", "UPDATED"]).into_iter().flatten());
    let rows = entries.iter().flat_map(|entry| {
        details(of, entry.resource).into_iter().map(move |details| {
            let mut row = vec![name(of, entry), entry.state.clone()];
            row.extend(details);
            row.extend(
                wide.then(|| [text(entry.said, "version_info"), text(entry.said, "last_updated")])
                    .into_iter()
                    .flatten(),
            );
            row
        })
    });
    columns_on(screen, &headers, rows)
}

/// One resource in one state.
pub(super) struct Entry<'a> {
    /// What is said of it.
    pub(super) said: &'a Value,
    pub(super) resource: &'a Value,
    /// In which list it stands, or that it is refused and why.
    pub(super) state: String,
}

/// A listener stands in one entry with all of its states, of other kinds there is a list for each state.
pub(super) fn entries(dump: &Value, of: Kind) -> Vec<Entry<'_>> {
    let lists = kind(dump, of).as_object().into_iter().flatten();
    let lists = lists.filter_map(|(name, entries)| Some((name, entries.as_array()?)));
    lists.flat_map(|(name, all)| all.iter().flat_map(move |entry| states(of, name, entry))).collect()
}

fn states<'a>(of: Kind, list: &str, said: &'a Value) -> Vec<Entry<'a>> {
    let of_list = ["static", "warming"].into_iter().find(|word| list.contains(word)).unwrap_or("active");
    let field = |said: &'a Value| said.get(of.field());
    let mut all = Vec::new();
    if let Some(resource) = field(said) {
        all.push(Entry { said, resource, state: of_list.to_owned() });
    }
    for state in ["active", "warming", "draining"] {
        if let Some(said) = said.get(format!("{state}_state"))
            && let Some(resource) = field(said)
        {
            all.push(Entry { said, resource, state: state.to_owned() });
        }
    }
    if let Some(error) = said.get("error_state") {
        let resource = error.get("failed_configuration").unwrap_or(said);
        let words = text(error, "details").replace('\n', " ");
        all.push(Entry { said, resource, state: format!("refused: {words}") });
    }
    all
}

pub(super) fn name(of: Kind, entry: &Entry<'_>) -> String {
    let field = if of == Kind::Endpoints { "cluster_name" } else { "name" };
    // Of a secret it stands beside it; an entry without a name is a static one's.
    let names = [text(entry.resource, field), text(entry.said, "name")];
    names.into_iter().find(|name| !name.is_empty()).unwrap_or_else(|| "-".to_owned())
}

/// The cells of a resource, a row for each part of it.
fn details(of: Kind, resource: &Value) -> Vec<Vec<String>> {
    match of {
        Kind::Listeners => {
            let chains =
                list(resource, "filter_chains").len() + usize::from(resource.get("default_filter_chain").is_some());
            vec![vec![address(resource.get("address")), chains.to_string()]]
        }
        Kind::Clusters => {
            let custom = resource.pointer("/cluster_type/name").and_then(Value::as_str);
            let known = resource.get("type").and_then(Value::as_str).unwrap_or("STATIC");
            vec![vec![custom.unwrap_or(known).to_owned()]]
        }
        Kind::Endpoints => {
            let of_locality = |locality: &Value| {
                let zone = locality.pointer("/locality/zone").and_then(Value::as_str).unwrap_or("-").to_owned();
                let priority = locality.get("priority").and_then(Value::as_u64).unwrap_or_default().to_string();
                let row = |one: &Value| {
                    let health = one.get("health_status").and_then(Value::as_str).unwrap_or("UNKNOWN").to_owned();
                    vec![address(one.pointer("/endpoint/address")), health, zone.clone(), priority.clone()]
                };
                list(locality, "lb_endpoints").iter().map(row).collect::<Vec<_>>()
            };
            or_none(list(resource, "endpoints").iter().flat_map(of_locality).collect(), 4)
        }
        Kind::Secrets => {
            let kinds = ["tls_certificate", "validation_context", "session_ticket_keys", "generic_secret"];
            let holds = kinds.into_iter().find(|kind| resource.get(kind).is_some()).unwrap_or("-");
            vec![vec![holds.replace('_', " ")]]
        }
        Kind::Routes | Kind::Bootstrap => Vec::new(),
    }
}

/// What has no parts is there all the same.
fn or_none(rows: Vec<Vec<String>>, columns: usize) -> Vec<Vec<String>> {
    if rows.is_empty() { vec![vec!["-".to_owned(); columns]] } else { rows }
}

/// `address:port`, or the path of a socket.
fn address(address: Option<&Value>) -> String {
    let at = |pointer: &str| address.and_then(|address| address.pointer(pointer));
    let ip = at("/socket_address/address").and_then(Value::as_str);
    match (ip, at("/socket_address/port_value").and_then(Value::as_u64), at("/pipe/path").and_then(Value::as_str)) {
        (Some(ip), port, _) if ip.contains(':') => format!("[{ip}]:{}", port.unwrap_or_default()),
        (Some(ip), port, _) => format!("{ip}:{}", port.unwrap_or_default()),
        (None, _, Some(path)) => path.to_owned(),
        (None, _, None) => "-".to_owned(),
    }
}

pub(super) fn list<'a>(holder: &'a Value, key: &str) -> &'a [Value] {
    holder.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn text(holder: &Value, key: &str) -> String {
    holder.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}
