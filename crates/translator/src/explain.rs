//! Why a workload gets what it gets, for people. It is asked for seldom, so it is worked out from the objects then, and no table holds it.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Labels, ObjectKey, ReferenceGrant};
use engine::Graph;
use ir::{RawName, RawResource};
use store::{FactKey, RawState, Tables};

use crate::key::InFleet;
use crate::output::Outputs;
use crate::raw::{self, Aim, Composed, Lost, OfferKey, Read, Selected};
use crate::reference::pod::{self, Guest};

/// What a workload gets, from whom, and what it does not get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Its labels.
    pub labels: Labels,
    /// A proxy of it is connected.
    pub connected: bool,
    /// What it gets, in order.
    pub given: Vec<Given>,
    /// Objects that are for it, or would be, and of which nothing can be used; with the reasons.
    pub unusable: Vec<(ObjectKey, Vec<String>)>,
    /// Objects of its namespace that are not for it, and of others that would be if that namespace let them; with what of their selectors does not hold.
    pub others: Vec<(ObjectKey, Vec<String>)>,
}

/// A resource of Envoy's that a workload gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// What it is.
    pub name: RawName,
    /// What the proxies made of it; none where they have not answered.
    pub state: Option<RawState>,
    /// Objects that give it, the one that comes first at the beginning.
    pub by: Vec<GivenBy>,
}

/// An object that gives a resource, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenBy {
    /// The object.
    pub object: ObjectKey,
    /// `spec.priority`.
    pub priority: i32,
    /// The conditions of its selector as `kubectl` writes them; none: it is for every workload of the namespace.
    pub selector: Vec<String>,
    /// What is wrong with the object as it is; then its form before counts.
    pub is_earlier: Option<Vec<String>>,
    /// What of it does not count.
    pub left_out: LeftOut,
    /// What it names and no object gives this workload.
    pub missing: Vec<Missing>,
}

/// What of an object does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// Nothing.
    Nothing,
    /// All of it: this object comes first.
    All(ObjectKey),
    /// All of it, or its last change: the proxy refused what the objects came to together with it, in these words.
    Refused(Arc<str>),
    /// The same, while it is found out whether it is to blame.
    Waiting,
    /// Some parts: each with the object that has its name.
    Parts(Vec<(Arc<str>, ObjectKey)>),
}

/// What is named and not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A resource without which the one that names it is not sent.
    Awaited(RawName),
    /// A resource that may be in the proxy's own bootstrap.
    Absent(RawName),
    /// A port of a Service: `namespace/service/port`.
    Service(Arc<str>),
}

/// An object that is for the workload and can be used.
struct Offer<'g> {
    object: &'g ObjectKey,
    read: &'g Read,
    resource: &'g Arc<RawResource>,
}

/// Why a workload (a `Pod`) gets what it gets; none if there is no such workload.
#[must_use]
pub fn explain(graph: &Graph, tables: Tables, outputs: Outputs, workload: &ObjectKey) -> Option<Explanation> {
    let labels = &graph.get(tables.pods, workload)?.meta.labels;
    let fleet = raw::fleet(workload);
    let mut objects: Vec<(&ObjectKey, &Arc<Read>)> = graph.iter(outputs.raw_readings).collect();
    objects.sort_by(|a, b| a.0.cmp(b.0));
    let (mut unusable, mut others) = (rejected(graph, tables, workload), Vec::new());
    let mut offers: BTreeMap<OfferKey, Offer<'_>> = BTreeMap::new();
    for (object, read) in objects {
        if graph.get(outputs.raw_selected, &Selected { object: object.clone(), workload: workload.clone() }).is_none() {
            let why = unmet(graph, tables, (object, &read.aim), (workload, labels));
            others.extend(why.map(|why| (object.clone(), why)));
            continue;
        }
        let Some(resource) = &read.reading.resource else {
            unusable.push((object.clone(), errors(read)));
            continue;
        };
        let target = InFleet { fleet: fleet.clone(), name: resource.id.clone() };
        offers.insert(OfferKey { target, rank: read.rank.clone() }, Offer { object, read, resource });
    }
    let mut by_name: BTreeMap<&RawName, BTreeMap<&OfferKey, &Offer<'_>>> = BTreeMap::new();
    for (key, offer) in &offers {
        by_name.entry(&key.target.name).or_default().insert(key, offer);
    }
    let [ports, ..] = outputs.endpoint_sets.rows;
    let missing = |resource: &RawResource| {
        let named = resource.names.iter().filter(|name| !by_name.contains_key(name)).map(absent);
        let port = resource
            .endpoints
            .iter()
            .filter(|set| graph.get(ports, set).is_none())
            .map(|set| Missing::Service(set.0.clone()));
        named.chain(port).collect()
    };
    let given = by_name.iter().filter_map(|(name, offers)| {
        let target = InFleet { fleet: fleet.clone(), name: (*name).clone() };
        let composed = graph.get(outputs.raw_composed, &target)?.as_ref()?;
        let fact = FactKey::of_kind(fleet.0.clone(), name.kind(), &name.name);
        let by = offers.values().map(|offer| given_by(offer, composed, labels, missing)).collect();
        Some(Given { name: (*name).clone(), state: graph.get(tables.raw_state, &fact).cloned(), by })
    });
    let given = given.collect();
    Some(Explanation {
        labels: labels.clone(),
        connected: graph.get(tables.connected, &fleet.0).is_some(),
        given,
        unusable,
        others,
    })
}

/// Objects of the namespace that cannot be read at all, so that nobody knows for whom they are.
fn rejected(graph: &Graph, tables: Tables, workload: &ObjectKey) -> Vec<(ObjectKey, Vec<String>)> {
    let is_raw = |key: &ObjectKey| key.kind().is_some_and(|kind| kind.message().is_some());
    let here = graph.iter(tables.rejected).filter(|(key, _)| key.namespace() == workload.namespace() && is_raw(key));
    // Of one whose earlier form is in force that form is told.
    let mut all: Vec<_> = here
        .filter(|(key, _)| graph.get(tables.raw, key).is_none())
        .map(|(key, rejected)| (key.clone(), vec![rejected.words.to_string()]))
        .collect();
    all.sort();
    all
}

fn given_by(
    offer: &Offer<'_>,
    composed: &Composed,
    labels: &Labels,
    missing: impl Fn(&RawResource) -> Vec<Missing>,
) -> GivenBy {
    let Offer { object, read, resource } = offer;
    let verdict = &composed.verdict;
    let left_out = match (verdict.refused.get(object), composed.lost.get(object)) {
        (Some(words), _) => LeftOut::Refused(Arc::clone(words)),
        (None, _) if verdict.waiting.contains(object) => LeftOut::Waiting,
        (None, None) => LeftOut::Nothing,
        (None, Some(Lost::All(by))) => LeftOut::All(by.clone()),
        (None, Some(Lost::Parts(parts) | Lost::EveryPart(parts))) => LeftOut::Parts(parts.clone()),
    };
    let conditions = read.aim.conditions(labels);
    let counts = !composed.lost.get(object).is_some_and(Lost::is_all);
    GivenBy {
        object: (*object).clone(),
        priority: read.rank.priority.0,
        selector: conditions.into_iter().map(|condition| condition.words).collect(),
        is_earlier: read.is_earlier.then(|| errors(read)),
        missing: if counts { missing(resource) } else { Vec::new() },
        left_out,
    }
}

fn absent(name: &RawName) -> Missing {
    if raw::is_waited_for(name) { Missing::Awaited(name.clone()) } else { Missing::Absent(name.clone()) }
}

/// Why an object is not for a workload; none where nobody would think that it is: in another namespace, and with other labels.
fn unmet(
    graph: &Graph,
    tables: Tables,
    (object, aim): (&ObjectKey, &Aim),
    (workload, labels): (&ObjectKey, &Labels),
) -> Option<Vec<String>> {
    let namespace = workload.namespace();
    if object.namespace() == namespace {
        let mut unmet = unmet_labels(aim, labels);
        if unmet.is_empty() {
            unmet.push(format!("spec.namespaceSelector does not hold for the namespace {namespace}"));
        }
        return Some(unmet);
    }
    if aim.namespaces.is_none() || !aim.selects(labels) {
        return None;
    }
    let lets_in = |(key, grant): (&ObjectKey, &Arc<ReferenceGrant>)| {
        let is_meant = key.namespace() == namespace && pod::grants_pod(grant, workload);
        is_meant && pod::guests(grant).contains(&Guest::of(object))
    };
    Some(vec![if graph.iter(tables.reference_grants).any(lets_in) {
        format!("spec.namespaceSelector does not hold for the namespace {namespace}")
    } else {
        format!("no ReferenceGrant in {namespace} allows it, from {} to this Pod", object.namespace())
    }])
}

/// What of a selector does not hold: `app=web: it has app=api`.
fn unmet_labels(aim: &Aim, labels: &Labels) -> Vec<String> {
    let conditions = aim.conditions(labels);
    let unmet = conditions.iter().filter(|condition| !condition.holds);
    let words = unmet.map(|condition| match labels.get(condition.label) {
        Some(value) => format!("{}: it has {}={value}", condition.words, condition.label),
        None => format!("{}: it has no label {}", condition.words, condition.label),
    });
    words.collect()
}

fn errors(read: &Read) -> Vec<String> {
    let reference = read.fault.iter().map(|fault| format!("spec.secretRef: {}", fault.text));
    read.reading.errors.iter().map(raw::fault).chain(reference).collect()
}
