//! Which objects make what a workload gets: as data, which a running process answers with and the command line prints.

use std::collections::BTreeMap;

use api::{Kind, ObjectKey};
use engine::Graph;
use serde::{Deserialize, Serialize};
use store::{RawState, Store};
use translator::{Given, GivenBy, LeftOut, Missing, Outputs};

/// What is answered.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Answer {
    /// The workload is there.
    Workload(Box<Explained>),
    /// It is not: what to say of that.
    Unknown(String),
}

/// A workload.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Explained {
    /// `namespace/name`.
    pub(crate) workload: String,
    /// Where it is written.
    pub(crate) place: Option<String>,
    /// Its labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// What it gets.
    pub(crate) resources: Vec<Resource>,
    /// Objects that are for it and give it nothing.
    pub(crate) unusable: Vec<Unused>,
    /// Objects of the namespace that are for others.
    pub(crate) others: Vec<Unused>,
}

/// A resource of Envoy's.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resource {
    /// The short name of its message, for example `RouteConfiguration`.
    pub(crate) kind: String,
    /// Its name.
    pub(crate) name: String,
    /// What the proxies made of it; none offline.
    pub(crate) state: Option<String>,
    /// The objects that it is made of, in the order of precedence.
    pub(crate) objects: Vec<Source>,
}

/// An object that a resource is made of.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Source {
    /// `Kind namespace/name`.
    pub(crate) object: String,
    /// `file:line`.
    pub(crate) place: Option<String>,
    /// The conditions of its selector, all of which hold; empty: it is for every workload of the namespace.
    pub(crate) selector: Vec<String>,
    /// `spec.priority`.
    pub(crate) priority: i32,
    /// What of it does not count, and why.
    pub(crate) left_out: Vec<String>,
    /// What it names and the workload does not get.
    pub(crate) missing: Vec<String>,
}

/// An object of which the workload gets nothing.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Unused {
    /// `Kind namespace/name`.
    pub(crate) object: String,
    /// `file:line`.
    pub(crate) place: Option<String>,
    /// Why.
    pub(crate) reasons: Vec<String>,
}

/// Names that are listed in place of one that is not there; of more of them their number is told.
const MAX_NAMES: usize = 10;

/// What is to be said of a workload, `namespace/name`. `offline`: there are no proxies.
pub(crate) fn answer(store: &Store, graph: &Graph, outputs: Outputs, name: &str, offline: bool) -> Answer {
    let (namespace, own) = name.split_once('/').unwrap_or(("default", name));
    let workload = ObjectKey::of(Kind::Pod, namespace, own);
    let Some(found) = translator::explain(graph, store.tables(), outputs, &workload) else {
        return Answer::Unknown(unknown(store, graph, name));
    };
    let place = |key: &ObjectKey| store.origin(key).filter(|origin| origin.line > 0).map(|origin| origin.to_string());
    let source = |by: &GivenBy| Source {
        object: by.object.to_string(),
        place: place(&by.object),
        selector: by.selector.clone(),
        priority: by.priority,
        left_out: left_out(by),
        missing: by.missing.iter().map(missing).collect(),
    };
    let resource = |given: &Given| Resource {
        kind: given.name.kind().to_owned(),
        name: given.name.name.to_string(),
        state: (!offline).then(|| state(given, found.connected)),
        objects: given.by.iter().map(source).collect(),
    };
    let unused = |(key, reasons): &(ObjectKey, Vec<String>)| Unused {
        object: key.to_string(),
        place: place(key),
        reasons: reasons.clone(),
    };
    Answer::Workload(Box::new(Explained {
        workload: format!("{namespace}/{own}"),
        place: place(&workload),
        labels: found.labels.iter().map(|(label, value)| (label.to_owned(), value.to_owned())).collect(),
        resources: found.given.iter().map(resource).collect(),
        unusable: found.unusable.iter().map(unused).collect(),
        others: found.others.iter().map(unused).collect(),
    }))
}

/// Which workloads there are instead.
fn unknown(store: &Store, graph: &Graph, name: &str) -> String {
    let full = |key: &ObjectKey| format!("{}/{}", key.namespace(), key.name());
    let mut all: Vec<String> = store.tables().keys(graph, Kind::Pod).map(full).collect();
    all.sort();
    let own = name.rsplit('/').next().unwrap_or(name);
    let elsewhere = all.iter().find(|one| one.rsplit('/').next() == Some(own)).map(String::as_str);
    let near = elsewhere.or_else(|| api::nearest(name, all.iter().map(String::as_str)));
    let meant = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    let listed = match all.len() {
        0 => "there is none: workloads are objects of the kind Pod".to_owned(),
        count if count > MAX_NAMES => format!("there are {count}"),
        _ => format!("there are {}", all.join(", ")),
    };
    let (namespace, _) = name.split_once('/').unwrap_or(("default", name));
    let is_gateway = store.tables().get(graph, &ObjectKey::of(Kind::Gateway, namespace, own)).is_some();
    let other = if is_gateway {
        format!("; of the Gateway {own} `chancery status gateway {namespace}/{own}` tells")
    } else {
        String::new()
    };
    format!("no workload is called {name}{meant} ({listed}){other}")
}

fn left_out(by: &GivenBy) -> Vec<String> {
    let edit = by.is_earlier.iter().flatten().map(|error| format!("its last edit: {error}"));
    let claimed = match &by.left_out {
        LeftOut::Nothing => Vec::new(),
        LeftOut::All(by) => vec![format!("all of it: {by} comes first")],
        LeftOut::Refused(words) => {
            vec![format!("it as it is now: the proxy refused the resource with it, and accepts it without: {words}")]
        }
        LeftOut::Waiting => {
            vec!["it as it is now, until it is known which object the proxy refused the resource for".to_owned()]
        }
        LeftOut::Parts(parts) => parts.iter().map(|(claim, by)| format!("{claim} is that of {by}")).collect(),
    };
    edit.chain(claimed).collect()
}

fn missing(missing: &Missing) -> String {
    match missing {
        Missing::Awaited(name) => format!("{} {}, which it waits for", name.kind(), name.name),
        Missing::Absent(name) => {
            format!("{} {}, unless the proxy's bootstrap has it", name.kind(), name.name)
        }
        Missing::Service(port) => format!("the port {port} of a Service"),
    }
}

fn state(given: &Given, connected: bool) -> String {
    match &given.state {
        _ if !connected => "no proxy is connected".to_owned(),
        Some(RawState::Accepted) => "in use".to_owned(),
        Some(RawState::Refused(words)) => format!("refused: {words}"),
        // Nobody tells of acknowledged endpoints.
        None if given.name.message.ends_with(".ClusterLoadAssignment") => "sent".to_owned(),
        None => "not acknowledged yet".to_owned(),
    }
}
