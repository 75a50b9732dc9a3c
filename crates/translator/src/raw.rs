//! Resources of Envoy's that users wrote: for which workloads each is, and what those of one name come to.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use api::raw::{LabelCondition, RawSecretRef, STRICT, WorkloadSelector, is_strict};
use api::{Kind, LabelSelector, Labels, ObjectKey, Raw, RefusalKind, Secret};
use ir::raw::{RawFault, RawOutput, RawPart, RawReading, RawRefusal, RawRules, ReadRaw};
use ir::{EndpointSetName, FleetName, RawName, RawResource};
use serde_json::Value as Json;

use crate::key::{InFleet, Seniority};
use crate::reference::{Grants, Permit, RefFault, RefReason, Reference, permit};
use trial::{Known, MadeOf, Offer, Verdict};

mod secret;
#[cfg(test)]
mod tests;
pub(crate) mod trial;

pub(crate) const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";
pub(crate) const ENDPOINTS: &str = "envoy.config.endpoint.v3.ClusterLoadAssignment";
const EXTENSION: &str = "envoy.config.core.v3.TypedExtensionConfig";
const SECRET: &str = "envoy.extensions.transport_sockets.tls.v3.Secret";
const ROUTE_CONFIGURATION: &str = "envoy.config.route.v3.RouteConfiguration";
const VIRTUAL_HOST: &str = "envoy.config.route.v3.VirtualHost";
const RUNTIME: &str = "envoy.service.runtime.v3.Runtime";

/// For whom an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Aim {
    /// None: those of its own.
    pub(crate) namespaces: Option<LabelSelector>,
    /// None: every workload of a namespace.
    selector: Option<WorkloadSelector>,
}

impl Aim {
    pub(crate) fn of(object: &Raw) -> Self {
        Self {
            namespaces: object.spec.namespace_selector.as_deref().cloned(),
            selector: object.spec.workload_selector.as_deref().cloned(),
        }
    }

    /// Where all workloads of a namespace are that it may select.
    pub(crate) fn anchor(&self, namespace: &Arc<str>) -> Anchor {
        let label = self.selector.as_ref().and_then(WorkloadSelector::anchor);
        Anchor::of(namespace, label)
    }

    /// Whether it selects a workload of a namespace that counts.
    pub(crate) fn selects(&self, labels: &Labels) -> bool {
        self.selector.as_ref().is_none_or(|selector| selector.matches(labels))
    }

    /// What a workload of a namespace that counts has to have, and whether one with these labels has it.
    pub(crate) fn conditions(&self, labels: &Labels) -> Vec<LabelCondition<'_>> {
        self.selector.as_ref().map(|selector| selector.conditions(labels)).unwrap_or_default()
    }
}

/// Workloads of a namespace: all, or those with a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Anchor {
    namespace: Arc<str>,
    label: Option<(Box<str>, Box<str>)>,
}

impl Anchor {
    fn of(namespace: &Arc<str>, label: Option<(&str, &str)>) -> Self {
        Self { namespace: Arc::clone(namespace), label: label.map(|(name, value)| (name.into(), value.into())) }
    }
}

/// All anchors at which a workload is found.
pub(crate) fn anchors(workload: &ObjectKey, labels: &Labels) -> Vec<Anchor> {
    let namespace: Arc<str> = workload.namespace().into();
    let labels = labels.iter().map(Some).chain([None]);
    labels.map(|label| Anchor::of(&namespace, label)).collect()
}

/// The fleet of a workload's proxies.
pub(crate) fn fleet(workload: &ObjectKey) -> FleetName {
    FleetName::of_workload(workload.namespace(), workload.name())
}

/// An object that selects a workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Selected {
    pub(crate) object: ObjectKey,
    pub(crate) workload: ObjectKey,
}

/// Precedence among objects for one resource: the greater priority, then the older object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RawRank {
    pub(crate) priority: Reverse<i32>,
    pub(crate) seniority: Seniority,
}

impl RawRank {
    pub(crate) fn of(key: &ObjectKey, object: &Raw) -> Self {
        let seniority = Seniority { age: (&object.meta).into(), object: key.clone() };
        Self { priority: Reverse(object.spec.priority), seniority }
    }
}

/// What an object gives a workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct OfferKey {
    pub(crate) target: InFleet<RawName>,
    pub(crate) rank: RawRank,
}

/// What an object holds, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) aim: Arc<Aim>,
    pub(crate) rank: RawRank,
    pub(crate) reading: RawReading,
    /// It cannot be used, and resource, aim and rank are those of the form before.
    pub(crate) is_earlier: bool,
    /// Why what it refers to cannot be used; then there is no resource either.
    pub(crate) fault: Option<RefFault>,
    /// Fields beside `config` that nobody reads, in words.
    pub(crate) unread: Box<[Arc<str>]>,
}

impl Read {
    /// Removes the resource if it does what the operator does not allow, with an error for each.
    pub(crate) fn within(self: &Arc<Self>, rules: &RawRules) -> Arc<Self> {
        let refused = self.reading.resource.as_ref().map(|resource| rules.refuse(resource, || None));
        let Some(refused) = refused.filter(|refused| !refused.is_empty()) else { return Arc::clone(self) };
        let mut judged = Self::clone(self);
        judged.reading.resource = None;
        judged.reading.errors.extend(refused);
        Arc::new(judged)
    }

    /// Of an object that was edited by mistake what it was before, as that reads now: with the Secret of today, if it may still be used.
    pub(crate) fn or(&self, earlier: &Self) -> Self {
        let Self { aim, rank, reading, fault, .. } = earlier.clone();
        let reading = RawReading { resource: reading.resource, ..self.reading.clone() };
        Self { aim, rank, reading, is_earlier: true, fault, unread: self.unread.clone() }
    }
}

/// Returns the reason for metrics of a fault of a raw resource or patch.
#[must_use]
pub fn refusal(of: RawRefusal) -> RefusalKind {
    match of {
        RawRefusal::OwnAddress => RefusalKind::OwnAddress,
        RawRefusal::LinkLocal => RefusalKind::LinkLocal,
        RawRefusal::Power => RefusalKind::RawPower,
        RawRefusal::Socket => RefusalKind::Socket,
    }
}

/// Where Secrets are found.
pub(crate) trait Lookup: Grants {
    fn secret(&mut self, permit: &Permit) -> Option<Arc<Secret>>;
}

/// Bytes of Secrets that the objects of one namespace may be filled with, once for each object: 1,000 certificates with keys of 8 KB, or 8 of the largest
/// Secrets. Each object takes 1.8 to 2.2 times as much (400 of 1 MB took 0.7 to 0.85 GB, measured), so 20 MB of a namespace.
pub(crate) const MOST_SECRETS: u64 = 8 << 20;

/// The Secret that an object names.
pub(crate) fn secret_use(object: &Raw) -> Option<ObjectKey> {
    let to = object.spec.secret_ref.as_deref()?;
    let namespace = to.namespace.as_deref().unwrap_or(object.meta.key.namespace());
    Some(ObjectKey::of(Kind::Secret, namespace, &to.name))
}

/// Bytes of the Secret that an object is filled with; 0 if none.
pub(crate) fn secret_bytes(object: &Raw, lookup: &mut impl Lookup) -> u64 {
    let Some(to) = object.spec.secret_ref.as_deref() else { return 0 };
    if object.meta.key.kind().and_then(Kind::message) != Some(SECRET) {
        return 0;
    }
    let Ok(permit) = permit(lookup, &object.meta.key, secret_reference(to)) else { return 0 };
    let Some(secret) = lookup.secret(&permit) else { return 0 };
    let length = |key: &str| secret.spec.get(key).map_or(0, |content| content.len() as u64);
    match to.key.as_deref() {
        Some(key) => length(key),
        None => secret.spec.keys().map(length).sum(),
    }
}

/// Whether an object may be filled with the content of a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filling {
    /// As it says.
    Allowed,
    /// Older objects of its namespace have left too few bytes.
    Crowded,
}

/// Reads what an object holds.
pub(crate) fn read(read: ReadRaw, object: &Raw, filling: Filling, lookup: &mut impl Lookup) -> Read {
    let key = &object.meta.key;
    let (mut reading, fault) = match key.kind().and_then(Kind::message) {
        Some(SECRET) => read_secret(read, object, filling, lookup),
        Some(message) => (read_config(read, message, object, &object.spec.config.0), None),
        None => (RawReading::default(), None),
    };
    if let Some(word) = object.meta.annotation(STRICT).filter(|word| !["true", "false"].contains(word)) {
        let text = format!("the annotation {STRICT} is {word:?}, which says nothing; write \"true\" or \"false\"");
        reading.ignored.push(RawFault::new("", text));
    }
    Read {
        aim: Arc::new(Aim::of(object)),
        rank: RawRank::of(key, object),
        reading: with_service(object, reading),
        is_earlier: false,
        fault,
        unread: object.spec.ignored.iter().map(|field| field.to_string().into()).collect(),
    }
}

fn read_config(read: ReadRaw, message: &'static str, object: &Raw, config: &Json) -> RawReading {
    match &object.spec.fault {
        // The path is that of the object, and the words say it.
        Some(fault) => wrong("", fault),
        None => read(message, config, is_strict(&object.meta)),
    }
}

fn read_secret(
    read: ReadRaw,
    object: &Raw,
    filling: Filling,
    lookup: &mut impl Lookup,
) -> (RawReading, Option<RefFault>) {
    let config = &*object.spec.config.0;
    let fill = |to: &RawSecretRef| match filling {
        Filling::Allowed => filled(config, object, to, lookup),
        Filling::Crowded => Err(unusable(&format!(
            "Secret {}: older objects of this namespace leave too few of the {} MiB of Secrets that all may be filled with together, each of them \
             counting; name a smaller Secret or a key of it, or use one object for several workloads",
            to.name,
            MOST_SECRETS >> 20
        ))),
    };
    let (config, fault) = match object.spec.secret_ref.as_deref().map(fill) {
        None => (Cow::Borrowed(config), None),
        Some(Ok(config)) => (Cow::Owned(config), None),
        Some(Err(fault)) => (Cow::Borrowed(config), Some(fault)),
    };
    let written = &object.spec.config.0;
    let lacking = || object.spec.secret_ref.is_none().then(|| secret::lacking(written)).flatten();
    let mut reading = if let Some(path) = secret::inline(written) {
        wrong(
            &path,
            "what is secret does not belong into an object: put it into a Secret and name that in spec.secretRef",
        )
    } else if let Some(path) = lacking().filter(|_| object.spec.fault.is_none()) {
        wrong(path, "there is nothing secret in it: name the Secret that holds it in spec.secretRef")
    } else {
        read_config(read, SECRET, object, &config)
    };
    // What is wrong is told at its place, without what was found there: it may be what is secret.
    reading.errors.iter_mut().chain(&mut reading.ignored).for_each(hush);
    if fault.is_some() {
        reading.resource = None;
        reading.errors.retain(|error| !secret::comes_later(&error.path));
    }
    (reading, fault)
}

fn wrong(path: &str, text: impl ToString) -> RawReading {
    let fault = RawFault::new(path, text.to_string());
    RawReading { errors: vec![fault], ..RawReading::default() }
}

/// Leaves out what an error quotes.
fn hush(fault: &mut RawFault) {
    if let Some((said, _)) = fault.text.split_once(", found ") {
        fault.text = said.into();
    }
}

fn filled(config: &Json, object: &Raw, to: &RawSecretRef, lookup: &mut impl Lookup) -> Result<Json, RefFault> {
    let permit = permit(lookup, &object.meta.key, secret_reference(to))?;
    let Some(secret) = lookup.secret(&permit) else {
        return Err(RefFault {
            reason: RefReason::NotFound,
            text: format!("{} does not exist", permit.target()).into(),
        });
    };
    secret::filled(config, &secret, to.key.as_deref()).map_err(|text| unusable(&format!("{}: {text}", permit.target())))
}

fn secret_reference(to: &RawSecretRef) -> Reference<'_> {
    Reference {
        group: Kind::Secret.group(),
        kind: Kind::Secret.name(),
        namespace: to.namespace.as_deref(),
        name: &to.name,
    }
}

fn unusable(text: &str) -> RefFault {
    RefFault { reason: RefReason::InvalidKind, text: text.into() }
}

/// Endpoints that are those of a Service.
fn with_service(object: &Raw, mut reading: RawReading) -> RawReading {
    let Some(service) = object.spec.service.as_deref() else { return reading };
    if let Some(resource) = &mut reading.resource {
        let set = format!("{}/{}/{}", object.meta.namespace(), service.name, service.port);
        Arc::make_mut(resource).endpoints = Some(set.into());
    }
    reading
}

/// What the offers for one resource come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Composed {
    pub(crate) resource: Arc<RawResource>,
    pub(crate) parts: Vec<Arc<[u8]>>,
    /// What all of them name.
    pub(crate) names: Vec<RawName>,
    /// Objects of which something is left out, with words; whether nothing of it counts.
    pub(crate) lost: BTreeMap<ObjectKey, Lost>,
    /// Where several objects make it, what is in it of each.
    pub(crate) made_of: MadeOf,
    /// Objects that are left out because proxies refused what they came to.
    pub(crate) verdict: Verdict,
}

/// What of an object does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// All of it, because of this object.
    All(ObjectKey),
    /// Some parts: each what it claims, and who has that.
    Parts(Vec<(Arc<str>, ObjectKey)>),
    /// The same, and these are all.
    EveryPart(Vec<(Arc<str>, ObjectKey)>),
}

impl Lost {
    /// Whether nothing of the object counts.
    pub(crate) fn is_all(&self) -> bool {
        matches!(self, Self::All(_) | Self::EveryPart(_))
    }
}

/// Puts the offers for one resource together that proxies do not refuse, in the order of their rank.
pub(crate) fn compose<'a>(
    offers: impl Iterator<Item = (&'a OfferKey, &'a Arc<RawResource>)>,
    known: impl FnOnce() -> Known<'a>,
) -> Option<Composed> {
    let offers: Vec<Offer<'a>> = offers.map(|(key, resource)| (&key.rank.seniority.object, resource)).collect();
    let is_joint = offers.len() > 1 && offers.iter().all(|(_, resource)| has_parts(resource));
    if !is_joint {
        return merge(&offers);
    }
    let (chosen, verdict) = trial::choose(offers, known());
    let made_of = chosen.iter().map(|(object, resource)| ((*object).clone(), Arc::clone(resource))).collect();
    Some(Composed { made_of, verdict, ..merge(&chosen)? })
}

/// Of what has no parts the first counts; of what has, the parts of all count, but for one that claims what an earlier one has.
fn merge(offers: &[Offer<'_>]) -> Option<Composed> {
    let (winner, first) = *offers.first()?;
    let (mut parts, mut names, mut lost) = (Vec::new(), Vec::new(), BTreeMap::new());
    let mut claimed: BTreeMap<&Arc<str>, &ObjectKey> = BTreeMap::new();
    for (object, resource) in offers.iter().copied() {
        if object != winner && !has_parts(resource) {
            lost.insert(object.clone(), Lost::All(winner.clone()));
            continue;
        }
        let (mut refused, counted) = (Vec::new(), parts.len());
        if object != winner && (resource.says_more || resource.tail.is_some()) {
            let items = if resource.id.message == ENDPOINTS { "endpoints" } else { "virtual_hosts" };
            refused.push((format!("everything besides {items}").into(), winner.clone()));
        }
        for part in &resource.parts {
            // Within one object it is the proxy's matter.
            let taken = |claim: &&Arc<str>| claimed.get(*claim).is_some_and(|by| *by != object);
            if let Some(claim) = part.claims.iter().find(taken) {
                refused.extend(claimed.get(claim).map(|by| (what_is_lost(part, claim), (*by).clone())));
                continue;
            }
            claimed.extend(part.claims.iter().map(|claim| (claim, object)));
            parts.push(Arc::clone(&part.bytes));
        }
        if !refused.is_empty() && counted == parts.len() {
            lost.insert(object.clone(), Lost::EveryPart(refused));
            continue;
        }
        if !refused.is_empty() {
            lost.insert(object.clone(), Lost::Parts(refused));
        }
        names.extend(resource.names.iter().cloned());
    }
    names.sort_unstable();
    names.dedup();
    let (made_of, verdict) = (MadeOf::new(), Verdict::default());
    Some(Composed { resource: Arc::clone(first), parts, names, lost, made_of, verdict })
}

/// A part is left out as a whole, also where only one of its domains is another's.
fn what_is_lost(part: &RawPart, claim: &Arc<str>) -> Arc<str> {
    match part.claims.first() {
        Some(name) if name != claim => format!("{name} (its {claim})").into(),
        _ => Arc::clone(claim),
    }
}

/// Whether it is of a kind that is put together from several objects.
fn has_parts(resource: &RawResource) -> bool {
    [ROUTE_CONFIGURATION, ENDPOINTS].contains(&resource.id.message)
}

impl Composed {
    /// What the workload gets, that needs what it gets besides.
    pub(crate) fn output(&self, mut has: impl FnMut(&RawName) -> bool) -> RawOutput {
        RawOutput {
            resource: Arc::clone(&self.resource),
            parts: self.parts.clone(),
            needs: self.names.iter().filter(|name| has(name) || is_waited_for(name)).cloned().collect(),
        }
    }
}

/// What a proxy would serve without: a listener without its routes answers 404. A cluster may be in the bootstrap.
pub(crate) fn is_waited_for(name: &RawName) -> bool {
    ![CLUSTER, EXTENSION].contains(&name.message)
}

/// Of a virtual host, in whose name that of its route configuration is in front, up to the last `/`: the route configuration if it is not there.
pub(crate) fn home(id: &RawName, is_there: impl FnOnce(&RawName) -> bool) -> Result<(), RawName> {
    let Some((configuration, _)) = id.name.rsplit_once('/').filter(|_| id.message == VIRTUAL_HOST) else {
        return Ok(());
    };
    let configuration = RawName { message: ROUTE_CONFIGURATION, name: configuration.into() };
    if is_there(&configuration) { Ok(()) } else { Err(configuration) }
}

/// When proxies ask for a resource that has to be named; none: they ask for all of its kind.
pub(crate) fn asked_for(id: &RawName) -> Option<&'static str> {
    match id.message {
        ROUTE_CONFIGURATION => Some("they ask for it where a listener or a scope of theirs names it"),
        VIRTUAL_HOST => {
            Some("they ask for it where its route configuration says vhds, and a request is for its domain")
        }
        SECRET | EXTENSION => Some("they ask for it where a listener or a cluster of theirs names it"),
        RUNTIME => Some("they ask for it where their bootstrap names it"),
        _ => None,
    }
}

/// What became of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawOutcome {
    pub(crate) generation: i64,
    pub(crate) read: Arc<Read>,
    /// Whether it is for workloads of other namespaces.
    pub(crate) abroad: bool,
    /// Workloads that it selects.
    pub(crate) selected: usize,
    /// Those of which a proxy is connected.
    pub(crate) connected: usize,
    /// Those of these that use it.
    pub(crate) accepted: usize,
    /// The first that refuses it, with its words; and how many do.
    pub(crate) refused: Option<(ObjectKey, Arc<str>, usize)>,
    /// What it names and a workload does not have: the first of these; and how many lack it.
    pub(crate) missing: BTreeMap<RawName, (ObjectKey, usize)>,
    /// The port of a Service that is not there.
    pub(crate) no_service: Option<EndpointSetName>,
    /// What of it does not count, at the first of the workloads where that is so.
    pub(crate) lost: Option<Lost>,
}

/// What is wrong with an object, with its place.
pub(crate) fn fault(fault: &RawFault) -> String {
    if fault.path.is_empty() { fault.text.to_string() } else { format!("spec.config.{}: {}", fault.path, fault.text) }
}
