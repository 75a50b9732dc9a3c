//! `HTTPRoute` and `GRPCRoute`: from the object, its Gateways and its backends to route entries per fleet, and what is to be said about it.

mod attach;
mod compile;
mod filter;
mod matching;
mod spelling;
mod target;

use std::sync::Arc;

use api::reference::ParentRef;
use api::{FieldPath, Kind, ObjectKey, Problem, RouteObject, Severity};
use ir::FleetName;
use ir::route::{Action, PathMatch, ValueMatch};

pub(crate) use self::attach::Verdict;
use self::attach::{Attachment, Taken, attach};
pub use self::compile::rule_names;
pub(crate) use self::compile::{Answers, fail};
use self::compile::{Flavour, compile};
pub(crate) use self::filter::check_token;
pub(crate) use self::matching::lower;
use self::target::{Sends, Targets};
use crate::backend::{BackendFault, Sendable};
use crate::backend_traffic_policy::PolicyTarget;
use crate::gateway;
use crate::hostname::Hostname;
use crate::key::{Age, BackendKey, ClusterTarget, Place, Rank, Transport};
use crate::listener::{Owner, Refusal, RouteScope};
use crate::reference::{Grants, Permit, RefFault};
use crate::route_budget::{Admission, CLUSTER, Claim, ClusterCharge, ClusterPayer, GatewayCharge, RouteCost};

/// What a route asks of the tables. Plain maps implement it too, for tests.
pub(crate) trait Lookup: Grants {
    /// What routes may know of a Gateway or `ListenerSet`; none if it is not there or not ours.
    fn scope(&mut self, parent: &ObjectKey) -> Option<Arc<RouteScope>>;
    /// Gateways of ours that take routes which name none.
    fn default_gateways(&mut self) -> Vec<ObjectKey>;
    /// Whether one is there at all, ours or not.
    fn has_parent(&mut self, parent: &ObjectKey) -> bool;
    /// Ports and protocols of the listeners of a scope, in its order.
    fn ports(&mut self, parent: &ObjectKey) -> Option<Arc<[ListenerPort]>>;
    /// The labels of a namespace are selected.
    fn selects(&mut self, selector: &api::LabelSelector, namespace: &str) -> bool;
    /// Whether a backend is there and can be reached.
    fn backend(&mut self, permit: &Permit, port: Option<u16>, transport: Transport) -> Result<Sendable, BackendFault>;
    /// Whether nobody is behind it: none of its endpoints takes requests.
    fn is_empty(&mut self, backend: &BackendKey) -> bool;
    /// Whether there is any policy in a namespace.
    fn has_policies(&mut self, namespace: &str) -> bool;
    /// The policy that a route or one of its rules is the target of.
    fn policy(&mut self, target: &PolicyTarget) -> Option<ObjectKey>;
}

/// What a redirect has to know of its listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenerPort {
    pub(crate) port: u16,
    pub(crate) tls: bool,
}

/// All that follows from one route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouteOutcome {
    /// The route itself: shared, not copied.
    pub(crate) route: RouteObject,
    /// Parents that are ours, in the order of the spec.
    pub(crate) parents: Box<[ParentOutcome]>,
    /// One per fleet.
    pub(crate) attached: Box<[Arc<AttachedRoute>]>,
    /// What is wrong with it; nothing, as a rule.
    pub(crate) faults: Option<Box<Faults>>,
}

/// What is wrong with a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// The first reference, in the order of the spec, that leads nowhere.
    pub(crate) bad_reference: Option<RefFault>,
    /// Rules that cannot be used as written, in words.
    pub(crate) unusable: Option<Box<Unusable>>,
    /// Rules that have nothing to forward to, in words.
    pub(crate) idle: Box<[Arc<str>]>,
    /// Everything there is to say, for `status` and `validate`.
    pub(crate) problems: Box<[Arc<Problem>]>,
}

/// One of the route's parents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParentOutcome {
    /// Which of the route's parent references; [`ParentOutcome::DEFAULT`] of a default Gateway, which it does not name.
    pub(crate) index: u32,
    pub(crate) owner: Arc<Owner>,
    /// Accepted, or why not.
    pub(crate) verdict: Verdict,
}

impl ParentOutcome {
    /// No route has so many parents.
    pub(crate) const DEFAULT: u32 = u32::MAX;

    /// The Gateway, where the route does not name it.
    fn default_gateway(&self) -> Option<ObjectKey> {
        gateway::of_fleet(&self.owner.fleet).filter(|_| self.index == Self::DEFAULT)
    }
}

/// Why rules cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unusable {
    /// `UnsupportedValue` or `IncompatibleFilters`.
    pub(crate) reason: &'static str,
    /// In words, rule by rule.
    pub(crate) text: Arc<str>,
    /// Not one rule is left.
    pub(crate) all: bool,
}

/// A route in a fleet: its entries and the clusters that they need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedRoute {
    /// Whose.
    pub(crate) fleet: FleetName,
    /// Precedence among equal matches.
    pub(crate) age: Age,
    /// Listeners that take it, by parent in the order of that.
    pub(crate) listeners: Box<[AttachedListener]>,
    /// Sorted, each once.
    pub(crate) clusters: Box<[ClusterTarget]>,
}

impl AttachedRoute {
    /// Some of its requests are tried again within a budget.
    pub(crate) fn has_retry_budget(&self) -> bool {
        let within = |entry: &Entry| match &entry.route.action {
            Action::Forward(forward) => forward.destinations.iter().any(|one| one.filters.retry_budget),
            _ => false,
        };
        self.listeners.iter().any(|listener| listener.entries.iter().any(within))
    }

    /// The memory that it takes, in entries: each listener takes less than one, and what listeners share is there once.
    pub(crate) fn weight(&self) -> u32 {
        let (mut sum, mut before) = (0_u32, None);
        for listener in &self.listeners {
            let own = u32::try_from(1 + listener.hostnames.len() / 16).unwrap_or(u32::MAX);
            let is_shared = before.is_some_and(|before| Arc::ptr_eq(before, &listener.entries));
            sum = sum.saturating_add(own).saturating_add(if is_shared { 0 } else { total(&listener.entries) });
            before = Some(&listener.entries);
        }
        sum
    }

    /// The regular expressions of its matches: what a proxy is most likely to refuse.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &str> {
        let entries = self.listeners.iter().flat_map(|listener| listener.entries.iter());
        entries.flat_map(|entry| expressions(&entry.route))
    }
}

/// The regular expressions of a match.
pub(crate) fn expressions(route: &ir::Route) -> impl Iterator<Item = &str> {
    let path = match &route.matches.path {
        PathMatch::Regex(text) => Some(&**text),
        _ => None,
    };
    let named = route.matches.headers.iter().chain(&route.matches.query);
    path.into_iter().chain(named.filter_map(|named| match &named.value {
        ValueMatch::Regex(text) => Some(&**text),
        ValueMatch::Exact(_) => None,
    }))
}

/// A listener that takes a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttachedListener {
    /// Its id.
    pub(crate) listener: Arc<str>,
    /// It counts as attached (the route is accepted there).
    pub(crate) counted: bool,
    /// The route's own host names that meet the listener's; [`Hostname::ANY`] where the route names none.
    pub(crate) hostnames: Box<[Hostname]>,
    /// In the order of the route.
    pub(crate) entries: Arc<[Entry]>,
}

/// One match of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) rank: Rank,
    pub(crate) place: Place,
    /// Entries as which it counts on one listener under one host name ([`crate::route_budget::weight`]).
    pub(crate) weight: u32,
    pub(crate) route: Arc<ir::Route>,
}

impl RouteOutcome {
    /// Everything there is to say.
    pub(crate) fn problems(&self) -> &[Arc<Problem>] {
        self.faults.as_deref().map_or(&[], |faults| &faults.problems)
    }

    /// No parent takes it that would.
    fn refuse(&mut self, refusal: &Refusal) {
        for parent in self.parents.iter_mut().filter(|parent| parent.verdict == Verdict::Accepted) {
            parent.verdict = Verdict::Refused(Box::new(refusal.clone()));
        }
    }

    /// Says at each parent that would take it why it is not attached to that Gateway.
    fn exclude(&mut self, key: &ObjectKey, cost: &RouteCost, admission: &Admission, problems: &mut Vec<Finding>) {
        let (mut first, mut more) = (None, 0_usize);
        for (fleet, exclusion) in admission.excluded() {
            let Some(charge) = cost.gateways.iter().find(|charge| charge.fleet == *fleet) else { continue };
            let refusal = exclusion.refusal(key.namespace(), fleet, charge.entries);
            if charge.claim != Claim::Default {
                problems.push(Finding::error("spec", &*refusal.text));
            } else if first.is_none() {
                first = Some(refusal.text.clone());
            } else {
                more += 1;
            }
            let of_fleet = |parent: &&mut ParentOutcome| parent.owner.fleet == *fleet;
            for parent in self.parents.iter_mut().filter(of_fleet) {
                if parent.verdict == Verdict::Accepted {
                    parent.verdict = Verdict::Refused(Box::new(refusal.clone()));
                }
            }
        }
        // Others make default Gateways, any number of them.
        if let Some(text) = first {
            let more = if more == 0 { String::new() } else { format!(" (and so at {more} more)") };
            problems.push(Finding::warning("spec.useDefaultGateways", format!("{text}{more}")));
        }
    }

    /// The first reference that leads nowhere.
    pub(crate) fn bad_reference(&self) -> Option<&RefFault> {
        self.faults.as_deref()?.bad_reference.as_ref()
    }

    /// Rules that cannot be used.
    pub(crate) fn unusable(&self) -> Option<&Unusable> {
        self.faults.as_deref()?.unusable.as_deref()
    }

    /// Rules that have nothing to forward to, in words.
    pub(crate) fn idle(&self) -> &[Arc<str>] {
        self.faults.as_deref().map_or(&[], |faults| &faults.idle)
    }

    /// The parents with their references, namespace filled in.
    pub(crate) fn parents(&self) -> impl Iterator<Item = (ParentRef, &ParentOutcome)> {
        let namespace = self.route.meta().namespace();
        self.parents.iter().filter_map(move |parent| {
            if let Some(gateway) = parent.default_gateway() {
                return Some((ParentRef::of_gateway(&gateway), parent));
            }
            let mut reference = self.route.parent_refs().get(parent.index as usize)?.clone();
            reference.namespace.get_or_insert_with(|| namespace.into());
            Some((reference, parent))
        })
    }
}

/// What follows from a route, and what it costs where it is attached; reads only what its references lead to.
pub(crate) fn evaluate(
    lookup: &mut impl Lookup,
    key: &ObjectKey,
    route: &RouteObject,
    admission: &Admission,
) -> (RouteOutcome, RouteCost) {
    let mut problems = Vec::new();
    let mut cost = RouteCost::default();
    let attachment = attach(lookup, key, route, &mut problems);
    let mut outcome = RouteOutcome {
        route: route.clone(),
        parents: attachment.parents.into(),
        attached: Box::default(),
        faults: None,
    };
    let mut faults = Faults::default();
    if !outcome.parents.is_empty() {
        let listeners = || attachment.fleets.iter().flat_map(|fleet| &fleet.listeners);
        let sends = Sends {
            as_it_comes: listeners().any(|listener| listener.passes_tls),
            by_itself: listeners().any(|listener| !listener.passes_tls),
        };
        let mut targets = Targets::new(lookup, key, sends);
        let rules = compile(&mut targets, route, &mut problems);
        let (mut clusters, bad_reference) = targets.finish(&mut problems);
        cost.clusters = charges(key, &attachment.fleets, &clusters);
        if key.kind() == Some(Kind::UdpRoute) {
            // Datagrams go to a cluster of their listener, which has endpoints of all that the route names.
            clusters = Box::default();
        }
        faults.bad_reference = bad_reference;
        faults.unusable = rules.unusable.clone();
        faults.idle = rules.idle.clone();
        if let Some(unusable) = faults.unusable.as_ref().filter(|unusable| unusable.all) {
            outcome.refuse(&Refusal::new(unusable.reason, unusable.text.clone()));
        }
        let mut variants = Variants::new(&rules);
        cost.gateways = variants.count(key, &attachment.fleets, &clusters);
        outcome.exclude(key, &cost, admission, &mut problems);
        let age = Age::from(route.meta());
        let fleets = attachment.fleets.into_iter().filter(|attachment| admission.admits(&cost, &attachment.fleet));
        outcome.attached = fleets.map(|fleet| fill(fleet, &mut variants, &clusters, age)).collect();
    }
    faults.problems = problems.into_iter().map(|problem| Arc::new(problem.of(key))).collect();
    outcome.faults = (faults != Faults::default()).then(|| Box::new(faults));
    (outcome, cost)
}

/// The clusters of a route on each of its Gateways. Datagrams go to a cluster of their listener, so each listener has the endpoints once more.
fn charges(route: &ObjectKey, fleets: &[Attachment], clusters: &[ClusterTarget]) -> Vec<ClusterCharge> {
    let namespace: Arc<str> = route.namespace().into();
    let takes_datagrams = route.kind() == Some(Kind::UdpRoute);
    let mut found = Vec::with_capacity(fleets.len().saturating_mul(clusters.len()));
    for attachment in fleets {
        let payer = ClusterPayer { namespace: Arc::clone(&namespace), fleet: attachment.fleet.clone() };
        let charge = |listener: Option<Arc<str>>| {
            let payer = &payer;
            let of = move |target: &ClusterTarget| ClusterCharge {
                payer: payer.clone(),
                listener: listener.clone(),
                target: target.clone(),
            };
            clusters.iter().map(of)
        };
        if takes_datagrams {
            found.extend(attachment.listeners.iter().flat_map(|listener| charge(Some(listener.id.clone()))));
        } else {
            found.extend(charge(None));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Entries of the rules, made once for all listeners that are to get the same: once more per port where a redirect needs to know it.
struct Variants<'a> {
    rules: &'a compile::Rules<'a>,
    made: Vec<(Flavour, Arc<[Entry]>)>,
}

impl<'a> Variants<'a> {
    fn new(rules: &'a compile::Rules<'a>) -> Self {
        Self { rules, made: Vec::with_capacity(1) }
    }

    fn of(&mut self, listener: &Taken) -> Arc<[Entry]> {
        let flavour = Flavour { port: listener.port.filter(|_| self.rules.redirects), passes_tls: listener.passes_tls };
        if let Some((_, entries)) = self.made.iter().find(|(candidate, _)| *candidate == flavour) {
            return Arc::clone(entries);
        }
        let entries = self.rules.entries(flavour);
        self.made.push((flavour, Arc::clone(&entries)));
        entries
    }

    /// Entries that a route makes on each of its Gateways, clusters included. Those of one listener say how long they are; of others only the number
    /// is looked at, so that the product is known before there is one.
    fn count(&mut self, route: &ObjectKey, fleets: &[Attachment], clusters: &[ClusterTarget]) -> Vec<GatewayCharge> {
        let Some(first) = fleets.iter().flat_map(|fleet| &fleet.listeners).next() else { return Vec::new() };
        let of_rules = total(&self.of(first));
        let narrow = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let of_fleet = |attachment: &Attachment| {
            let places = attachment.listeners.iter().map(|listener| narrow(listener.hostnames.len()));
            let places = places.fold(0, u32::saturating_add);
            let of_clusters = narrow(clusters.len()).saturating_mul(CLUSTER);
            let entries = places.saturating_mul(of_rules.max(1)).saturating_add(of_clusters);
            let fleet = attachment.fleet.clone();
            let is_own = gateway::of_fleet(&fleet).is_some_and(|gateway| gateway.namespace() == route.namespace());
            let claim = match (is_own, attachment.is_default) {
                (true, _) => Claim::Own,
                (false, false) => Claim::Named,
                (false, true) => Claim::Default,
            };
            GatewayCharge { fleet, claim, entries }
        };
        fleets.iter().map(of_fleet).collect()
    }
}

/// Entries as which these count on one listener under one host name.
fn total(entries: &[Entry]) -> u32 {
    entries.iter().map(|entry| entry.weight).fold(0, u32::saturating_add)
}

/// Entries for each listener.
fn fill(
    attachment: Attachment,
    variants: &mut Variants<'_>,
    clusters: &[ClusterTarget],
    age: Age,
) -> Arc<AttachedRoute> {
    let counted = !variants.rules.unusable.as_ref().is_some_and(|unusable| unusable.all);
    let mut clusters = clusters.to_vec();
    // Whom a listener asks its routes need as well as their backends.
    clusters.extend(attachment.listeners.iter().flat_map(|listener| listener.asked.iter().cloned()));
    clusters.sort_unstable();
    clusters.dedup();
    let listeners = attachment.listeners.into_iter().map(|listener| {
        let entries = variants.of(&listener);
        AttachedListener { listener: listener.id, counted, hostnames: listener.hostnames, entries }
    });
    let listeners = listeners.collect();
    Arc::new(AttachedRoute { fleet: attachment.fleet, age, listeners, clusters: clusters.into() })
}

/// A problem before it has its object.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) severity: Severity,
    pub(crate) text: String,
    /// What the field names.
    pub(crate) refers_to: Option<ObjectKey>,
}

impl Finding {
    fn new(severity: Severity, path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), severity, text: text.into(), refers_to: None }
    }

    pub(crate) fn error(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(Severity::Error, path, text)
    }

    pub(crate) fn warning(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(Severity::Warning, path, text)
    }

    pub(crate) fn note(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(Severity::Note, path, text)
    }

    pub(crate) fn naming(self, object: ObjectKey) -> Self {
        Self { refers_to: Some(object), ..self }
    }

    pub(crate) fn of(self, object: &ObjectKey) -> Problem {
        let problem = Problem::of(object, FieldPath::from(self.path), self.severity, self.text);
        Problem { refers_to: self.refers_to, ..problem }
    }
}

#[cfg(test)]
mod tests;
