//! Tables of resources that users wrote for workloads.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Labels, ObjectKey, Raw, ReferenceGrant};
use engine::{Cx, Graph, Index, Table};
use ir::raw::RawOutput;
use ir::{EndpointSetName, FleetName, RawName};
use store::{FactKey, RawState, Tables};

use super::backend::{EndpointSet, Secrets};
use super::{Base, EndpointSets};
use crate::key::{Age, InFleet, Seniority};
use crate::lookup::{RawTables, Reader, selects_namespace};
use crate::raw::trial::Known;
use crate::raw::{self, Aim, Anchor, Composed, Filling, OfferKey, RawOutcome, Read, Selected};
use crate::reference::pod::{self, Guest};

/// What workloads get, by the set of endpoints that comes along.
pub(crate) type RawBySet = Index<EndpointSetName, InFleet<RawName>, Arc<RawOutput>>;

/// What the objects for one resource of a workload come to.
pub(crate) type ComposedRows = Table<InFleet<RawName>, Option<Arc<Composed>>>;

/// What workloads get, and what became of each object.
#[derive(Clone, Copy)]
pub(crate) struct Raws {
    /// Fleets of workloads.
    pub(crate) fleets: Table<FleetName, ObjectKey>,
    /// What the objects for each come to.
    pub(crate) composed: ComposedRows,
    pub(crate) outputs: Table<InFleet<RawName>, Arc<RawOutput>>,
    /// Those with the endpoints of a Service.
    pub(crate) by_set: RawBySet,
    pub(crate) outcomes: Table<ObjectKey, Arc<RawOutcome>>,
    /// What each object holds.
    pub(crate) readings: Table<ObjectKey, Arc<Read>>,
    /// Who is for whom.
    pub(crate) selected: Table<Selected, ()>,
}

/// What the outcome of an object is made from.
#[derive(Clone, Copy)]
struct Sources {
    inputs: Tables,
    workloads_of: Index<ObjectKey, Selected, ()>,
    composed: ComposedRows,
    services: Table<EndpointSetName, EndpointSet>,
}

pub(super) fn raws(g: &mut Graph, base: &Base, secrets: Secrets, sets: EndpointSets) -> Raws {
    let (inputs, own) = (base.inputs, base.own);
    let workloads = g.map("workload", inputs.pods, |_, _, pod| Arc::new(pod.meta.labels.clone()));
    // A folder may have Pods for which nobody ever writes anything.
    let by_namespace = g.index("raw_by_namespace", inputs.raw, |key, _| [Arc::<str>::from(key.namespace())]);
    let by_guest = g.index("pod_grant", inputs.reference_grants, |_, grant| pod::guests(grant));
    let by_host = g.index("pod_grant_by_namespace", inputs.reference_grants, |key, grant| {
        (!pod::guests(grant).is_empty()).then(|| Arc::<str>::from(key.namespace()))
    });
    let fleets = g.derive("workload_fleet", workloads, move |cx, key, _| {
        let namespace = Arc::from(key.namespace());
        let is_meant = cx.any(by_namespace, &namespace) || cx.any(by_host, &namespace);
        is_meant.then(|| (raw::fleet(key), key.clone()))
    });
    let by_label = g.index("workload_by_label", workloads, |key, labels: &Arc<Labels>| raw::anchors(key, labels));
    let namespaces = base.namespaces;
    let readings = readings(g, base, secrets);
    // A table of its own, so that an edit of a resource selects nothing anew.
    let aims = g.map("raw_aim", readings, |_, _, read: &Arc<Read>| Arc::clone(&read.aim));
    let hosts = Hosts { namespaces, by_guest };
    let selected = g.derive("raw_selected", aims, move |cx, object, aim| hosts.selected(cx, object, aim, by_label));
    let offers = g.derive("raw_offer", selected, move |cx, Selected { object, workload }, ()| {
        let read = cx.get(readings, object)?;
        let (resource, rank) = (read.reading.resource.clone()?, read.rank.clone());
        let target = InFleet { fleet: raw::fleet(workload), name: resource.id.clone() };
        Some((OfferKey { target, rank }, resource))
    });
    let by_target = g.index("raw_offer_by_target", offers, |key: &OfferKey, _| [key.target.clone()]);
    let composed = g.group("raw_composed", by_target, move |cx, target: &InFleet<RawName>, offers| {
        let known = || Known {
            refusals: cx.get(inputs.refusals, &fact(target)).map(|refusals| &**refusals),
            accepted: cx.get(own.raw_accepted, target).map(|made_of| &***made_of).unwrap_or_default(),
            before: cx.get(own.raw_before, target).map(|bytes| &**bytes),
            is_silent: target.name.message == raw::ENDPOINTS,
        };
        raw::compose(offers.iter(), known).map(Arc::new)
    });
    let outputs = g.derive("raw_output", composed, move |cx, key, found| {
        let has = |name: &RawName| cx.contains(composed, &InFleet { fleet: key.fleet.clone(), name: name.clone() });
        found.as_ref().map(|found| (key.clone(), Arc::new(found.output(has))))
    });
    let workloads_of = g.index("workload_by_raw", selected, |key: &Selected, ()| [key.object.clone()]);
    let by_set = g.index("raw_by_set", outputs, |_, output: &Arc<RawOutput>| output.resource.endpoints.clone());
    let [services, ..] = sets.rows;
    let sources = Sources { inputs, workloads_of, composed, services };
    let outcomes = g.derive("raw_outcome", inputs.raw, move |cx, key, object| {
        let read = Arc::clone(cx.get(readings, key)?);
        Some((key.clone(), Arc::new(outcome(cx, sources, read, object))))
    });
    Raws { fleets, composed, outputs, by_set, outcomes, readings, selected }
}

/// Reads the objects, and then judges what they hold by the operator's rules: where Chancery and its machine have another address, nothing is parsed again.
fn readings(g: &mut Graph, base: &Base, secrets: Secrets) -> Table<ObjectKey, Arc<Read>> {
    let (inputs, own, settings) = (base.inputs, base.own, base.settings);
    let read = base.options.read_raw;
    let tables = RawTables { inputs, grants: base.grants, secrets, pairs_served: own.pairs_served };
    let late = late(g, base, tables);
    let parse = move |cx: &mut Cx<'_>, object: &Raw| {
        let is_late = cx.contains(late, &object.meta.key);
        let filling = if is_late { Filling::Crowded } else { Filling::Allowed };
        Arc::new(raw::read(read, object, filling, &mut Reader { cx, tables }))
    };
    let parsed = g.map("raw_parsed", inputs.raw, move |cx, _, object| parse(cx, object));
    let judged =
        g.map("raw_judged", parsed, move |cx, _, found: &Arc<Read>| Read::within(found, &settings.raw_rules(cx)));
    let broken = g.derive("raw_broken", judged, |_, key, found: &Arc<Read>| {
        (!found.reading.errors.is_empty()).then(|| (key.clone(), ()))
    });
    let earlier = g.derive("raw_earlier", broken, move |cx, key, ()| {
        let object = Arc::clone(cx.get(inputs.raw, key)?);
        let earlier = Arc::clone(cx.get(own.raw_served, key)?);
        // Another object of the name has no earlier form.
        (earlier.meta.uid() == object.meta.uid()).then(|| (key.clone(), parse(cx, &earlier)))
    });
    g.map("raw_reading", judged, move |cx, key, found: &Arc<Read>| {
        let is_good = found.reading.errors.is_empty();
        let earlier = if is_good { None } else { cx.get(earlier, key).cloned() };
        match earlier {
            Some(earlier) => Arc::new(found.or(&Read::within(&earlier, &settings.raw_rules(cx)))),
            None => Arc::clone(found),
        }
    })
}

/// Objects for whose Secrets older ones of their namespace have left too few bytes. One that is served in its earlier form counts as the larger one.
fn late(g: &mut Graph, base: &Base, tables: RawTables) -> Table<ObjectKey, ()> {
    let (inputs, own) = (base.inputs, base.own);
    let bytes = g.derive("raw_secret_bytes", inputs.raw, move |cx, key, object| {
        let earlier = cx.get(own.raw_served, key).cloned();
        let mut reader = Reader { cx, tables };
        let earlier = earlier.map_or(0, |earlier| raw::secret_bytes(&earlier, &mut reader));
        let bytes = raw::secret_bytes(object, &mut reader).max(earlier);
        (bytes > 0).then(|| (Seniority { age: Age::from(&object.meta), object: key.clone() }, bytes))
    });
    let by_namespace = g
        .index("raw_secret_bytes_by_namespace", bytes, |key: &Seniority, _| [Arc::<str>::from(key.object.namespace())]);
    g.derive_group("late_raw_secret", by_namespace, |_, _, members| {
        let mut left = raw::MOST_SECRETS;
        let late = members.iter().filter(|(_, bytes)| match left.checked_sub(**bytes) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        });
        late.map(|(key, _)| (key.object.clone(), ())).collect::<Vec<_>>()
    })
}

/// Under what name proxies' words on a resource are noted.
fn fact(InFleet { fleet, name }: &InFleet<RawName>) -> FactKey {
    FactKey::of_kind(Arc::clone(&fleet.0), name.kind(), &name.name)
}

/// Workloads by what they may be looked for.
type ByLabel = Index<Anchor, ObjectKey, Arc<Labels>>;

/// In which namespaces the workloads are that an object may be for.
#[derive(Clone, Copy)]
struct Hosts {
    namespaces: Table<ObjectKey, Arc<Labels>>,
    by_guest: Index<Guest, ObjectKey, Arc<ReferenceGrant>>,
}

/// Namespaces with the grants that allow it; none is needed in the object's own.
type Near = BTreeMap<Arc<str>, Vec<Arc<ReferenceGrant>>>;

impl Hosts {
    /// The workloads that an object is for.
    fn selected(self, cx: &mut Cx<'_>, object: &ObjectKey, aim: &Aim, by_label: ByLabel) -> Vec<(Selected, ())> {
        let near = self.of(cx, object, aim);
        let found = near.iter().flat_map(|(namespace, grants)| {
            let members = cx.members(by_label, &aim.anchor(namespace));
            let is_meant =
                |workload: &ObjectKey| grants.is_empty() || grants.iter().any(|grant| pod::grants_pod(grant, workload));
            let found = members.iter().filter(|(workload, labels)| aim.selects(labels) && is_meant(workload));
            let selected = found.map(|(workload, _)| Selected { object: object.clone(), workload: workload.clone() });
            selected.map(|selected| (selected, ())).collect::<Vec<_>>()
        });
        found.collect()
    }

    fn of(self, cx: &mut Cx<'_>, object: &ObjectKey, aim: &Aim) -> Near {
        let own = || Arc::<str>::from(object.namespace());
        let Some(selector) = &aim.namespaces else { return Near::from([(own(), Vec::new())]) };
        let mut near = Near::new();
        if selects_namespace(cx, self.namespaces, selector, &own()) {
            near.insert(own(), Vec::new());
        }
        for (key, grant) in cx.members(self.by_guest, &Guest::of(object)) {
            let is_own = key.namespace() == object.namespace();
            if !is_own && selects_namespace(cx, self.namespaces, selector, key.namespace()) {
                near.entry(key.namespace().into()).or_default().push(Arc::clone(grant));
            }
        }
        near
    }
}

fn outcome(cx: &mut Cx<'_>, sources: Sources, read: Arc<Read>, object: &Raw) -> RawOutcome {
    let Sources { inputs, workloads_of, composed, services } = sources;
    let (key, reading) = (&object.meta.key, &read.reading);
    let set = reading.resource.as_ref().and_then(|resource| resource.endpoints.clone());
    let mut outcome = RawOutcome {
        generation: object.meta.generation,
        abroad: read.aim.namespaces.is_some(),
        selected: 0,
        connected: 0,
        accepted: 0,
        refused: None,
        missing: BTreeMap::new(),
        lost: None,
        no_service: set.filter(|set| !cx.contains(services, set)),
        read: Arc::clone(&read),
    };
    for Selected { workload, .. } in cx.keys(workloads_of, key) {
        outcome.selected += 1;
        let Some(resource) = &reading.resource else { continue };
        let fleet = raw::fleet(workload);
        let target = InFleet { fleet: fleet.clone(), name: resource.id.clone() };
        let found = cx.get(composed, &target).and_then(Option::as_ref);
        let lost = found.and_then(|found| found.lost.get(key).cloned());
        outcome.lost = outcome.lost.or(lost);
        let mut is_there =
            |name: &RawName| cx.contains(composed, &InFleet { fleet: fleet.clone(), name: name.clone() });
        let missing: Vec<RawName> = resource.names.iter().filter(|name| !is_there(name)).cloned().collect();
        let homeless = raw::home(&resource.id, is_there).err();
        for name in missing.into_iter().chain(homeless) {
            outcome.missing.entry(name).or_insert_with(|| (workload.clone(), 0)).1 += 1;
        }
        if !cx.contains(inputs.connected, &fleet.0) {
            continue;
        }
        outcome.connected += 1;
        let mut refuse = |words: &Arc<str>| {
            outcome.refused.get_or_insert_with(|| (workload.clone(), Arc::clone(words), 0)).2 += 1;
        };
        if let Some(words) = found.and_then(|found| found.verdict.refused.get(key)) {
            refuse(words);
            continue;
        }
        if found.is_some_and(|found| found.verdict.waiting.contains(key)) {
            continue;
        }
        match cx.get(inputs.raw_state, &fact(&target)) {
            Some(RawState::Accepted) => outcome.accepted += 1,
            Some(RawState::Refused(words)) => refuse(words),
            // Nobody tells of acknowledged endpoints: they are many, and Envoy refuses few.
            None if resource.id.message == raw::ENDPOINTS => outcome.accepted += 1,
            None => {}
        }
    }
    outcome
}
