//! Status of Gateways and their listeners: from the plan, from counts of routes, and from what proxies report.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use api::gateway::AddressType;
use api::reference::RouteGroupKind;
use api::status::{Condition, GatewayStatus, GatewayStatusAddress, ListenerStatus};
use api::{Kind, ObjectKey};
use ir::{ClusterName, FleetName, ListenerName};
use store::{ClusterState, ListenerState, ProxyFacts};

use super::{RESOLVED, Writer, unsupported};
use crate::closing::Closing;
use crate::gateway::address::{AddressPlan, Assignment};
use crate::gateway::{GatewayPlan, NO_LISTENER};
use crate::key::Transport;
use crate::listener::{ListenerPlan, Refusal, listener_name};
use crate::listener_set::SetDraft;

/// What a Gateway's status asks of the tables.
pub(crate) trait Lookup {
    /// Returns the parts of a Gateway or `ListenerSet` that policies close.
    fn closing(&mut self, object: &ObjectKey) -> Option<Arc<Closing>>;
    /// Routes that are attached to a listener.
    fn attached(&mut self, listener: &ListenerPlan) -> u32;
    /// What is known of the proxies; none if there is nothing yet.
    fn proxies(&mut self) -> Option<Arc<ProxyFacts>>;
    /// What the proxies made of a listener.
    fn listener(&mut self, name: &ListenerName) -> Option<ListenerState>;
    /// What the proxies made of a cluster.
    fn cluster(&mut self, name: &ClusterName) -> Option<ClusterState>;
    /// The words of proxies that refuse a listener which others may have taken.
    fn disputed(&mut self, name: &ListenerName) -> Option<Arc<str>>;
    /// The words of a proxy that refused a certificate or bundle of a listener.
    fn refused_secret(&mut self, listener: &ListenerPlan) -> Option<Arc<str>>;
}

/// The three values that a fact can have: it holds, it does not (yet), nobody can know.
enum Delivered {
    Yes,
    /// To some proxies, or at some addresses; in words.
    Partly(Arc<str>),
    /// Reason and words.
    No(&'static str, Arc<str>),
    Offline,
}

/// The status of a Gateway of ours. `offline`: there are no proxies and never will be.
pub(crate) fn status(lookup: &mut impl Lookup, key: &ObjectKey, plan: &GatewayPlan, offline: bool) -> GatewayStatus {
    let writer = Writer { generation: plan.generation };
    let facts = if offline { None } else { lookup.proxies() };
    let refused = plan.refused.as_ref();
    let told = Told::new(writer, (&plan.fleet, &plan.addresses), refused, facts.as_deref(), offline);
    let closing = lookup.closing(key);
    let entries = told.listeners(lookup, plan.own_listeners(), closing.as_deref());
    let mut conditions = vec![
        gateway_accepted(writer, plan, entries.accepted),
        gateway_programmed(writer, plan, &entries, facts.as_deref(), offline),
        gateway_references(writer, plan),
    ];
    conditions.extend(closing.and_then(|closing| unsupported::of_whole(writer, Kind::Gateway, &closing)));
    if plan.is_default {
        conditions.push(writer.yes("DefaultGateway", "DefaultGateway", "the Gateway has default scope All"));
    }
    if plan.insecure_clients {
        let text = "clients without a valid certificate are let through (AllowInsecureFallback)";
        conditions.push(writer.yes("InsecureFrontendValidationMode", "ConfigurationChanged", text));
    }
    let assignment = plan.addresses.assign(facts.as_deref());
    conditions.extend(addresses_assigned(writer, plan, assignment.as_ref(), facts.as_deref()));
    GatewayStatus {
        addresses: addresses(plan, assignment.as_ref(), facts.as_deref()),
        attached_listener_sets: plan.takes_sets.then(|| attached_sets(plan, facts.as_deref())),
        conditions,
        listeners: entries.rows,
    }
}

/// How many sets are accepted.
fn attached_sets(plan: &GatewayPlan, facts: Option<&ProxyFacts>) -> u32 {
    let is_usable = |listener: &ListenerPlan| usable(listener, facts);
    let is_accepted =
        |(draft, listeners): &(&SetDraft, &[ListenerPlan])| draft.is_admitted && listeners.iter().any(is_usable);
    let count = if plan.not_accepted().is_some() { 0 } else { plan.sets().filter(is_accepted).count() };
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// It can get requests, as far as objects and ports go.
fn usable(listener: &ListenerPlan, facts: Option<&ProxyFacts>) -> bool {
    listener.serves() && facts.and_then(|facts| refused_port(facts, listener)).is_none()
}

/// What listeners of one object are told from.
pub(super) struct Told<'a> {
    pub(super) writer: Writer,
    pub(super) fleet: &'a FleetName,
    /// Why the Gateway as a whole cannot be served.
    pub(super) refused: Option<&'a Refusal>,
    pub(super) facts: Option<&'a ProxyFacts>,
    pub(super) offline: bool,
    /// Where listeners are bound; one that is none stands for every interface. Empty where their addresses are not there.
    places: Vec<Option<IpAddr>>,
}

/// Entries of listeners, and how many of them are accepted, of use, and at proxies.
pub(super) struct Entries {
    pub(super) rows: Vec<ListenerStatus>,
    pub(super) accepted: usize,
    pub(super) usable: usize,
    pub(super) programmed: usize,
}

impl<'a> Told<'a> {
    pub(super) fn new(
        writer: Writer,
        (fleet, addresses): (&'a FleetName, &AddressPlan),
        refused: Option<&'a Refusal>,
        facts: Option<&'a ProxyFacts>,
        offline: bool,
    ) -> Self {
        let places = addresses.places(|address| facts.is_some_and(|facts| facts.is_missing(address)));
        Self { writer, fleet, refused, facts, offline, places }
    }

    /// Entries of the listeners of an object, of which policies close something or nothing.
    pub(super) fn listeners(
        &self,
        lookup: &mut impl Lookup,
        listeners: &[ListenerPlan],
        closing: Option<&Closing>,
    ) -> Entries {
        let mut entries = Entries { rows: Vec::with_capacity(listeners.len()), accepted: 0, usable: 0, programmed: 0 };
        for listener in listeners {
            let port_refused = self.facts.and_then(|facts| refused_port(facts, listener));
            let delivered = if self.offline { Delivered::Offline } else { delivered(self, lookup, listener) };
            let is_delivered = matches!(delivered, Delivered::Yes | Delivered::Partly(_));
            entries.programmed += usize::from(listener.serves() && is_delivered);
            entries.accepted += usize::from(listener.not_accepted().is_none() && port_refused.is_none());
            entries.usable += usize::from(usable(listener, self.facts));
            let mut conditions = listener_conditions(self, listener, (port_refused, delivered));
            let closed = closing.and_then(|closing| unsupported::of_listener(self.writer, &listener.name, closing));
            conditions.extend(closed);
            entries.rows.push(ListenerStatus {
                name: (&*listener.name).into(),
                supported_kinds: listener.kinds.iter().map(|kind| RouteGroupKind::of(*kind)).collect(),
                attached_routes: lookup.attached(listener),
                conditions,
            });
        }
        entries
    }
}

/// Why proxies cannot serve a listener's port, if that is so.
pub(crate) fn refused_port(facts: &ProxyFacts, listener: &ListenerPlan) -> Option<Arc<str>> {
    let (port, transport) = listener.socket();
    let refused = match transport {
        Transport::Tcp => &facts.refused_ports,
        Transport::Udp => &facts.refused_udp_ports,
    };
    refused.iter().find(|(refused, _)| *refused == port).map(|(_, why)| why.clone())
}

fn delivered(told: &Told<'_>, lookup: &mut impl Lookup, listener: &ListenerPlan) -> Delivered {
    match told.facts {
        Some(ProxyFacts { problem: Some(problem), .. }) => return Delivered::No("Pending", problem.clone()),
        Some(facts) => {
            if let Some(why) = refused_port(facts, listener) {
                return Delivered::No("PortUnavailable", why);
            }
        }
        None => {}
    }
    if let Some(words) = lookup.refused_secret(listener) {
        return Delivered::No("Invalid", words);
    }
    if listener.socket().1 == Transport::Udp
        && let Some(lacking) = datagrams_undelivered(lookup, &listener_name(told.fleet, listener.socket(), None))
    {
        return lacking;
    }
    bound(told, lookup, listener)
}

/// What proxies made of a listener at each of its addresses: one that serves at some is of use.
fn bound(told: &Told<'_>, lookup: &mut impl Lookup, listener: &ListenerPlan) -> Delivered {
    let several = told.places.len() > 1;
    let (mut at, mut lacking): (Vec<String>, Option<(&str, String)>) = (Vec::new(), None);
    for place in &told.places {
        let name = listener_name(told.fleet, listener.socket(), *place);
        let here = place.filter(|_| several).map(|address| format!(" at {address}")).unwrap_or_default();
        match lookup.listener(&name) {
            Some(ListenerState::Accepted) => match lookup.disputed(&name) {
                None => at.push(here),
                Some(words) => {
                    let words = format!("some proxies have acknowledged it{here}, others refuse it: {words}");
                    return Delivered::Partly(words.into());
                }
            },
            Some(ListenerState::Refused(words)) => {
                let before = lacking.filter(|(reason, _)| *reason == "Invalid").map(|(_, words)| words + "; ");
                let words = format!("{}the proxy refused it{here}: {words}", before.unwrap_or_default());
                lacking = Some(("Invalid", words));
            }
            None => {
                lacking.get_or_insert_with(|| ("Pending", format!("no proxy has acknowledged it{here} yet")));
            }
        }
    }
    match lacking {
        Some((_, words)) if !at.is_empty() => {
            Delivered::Partly(format!("proxies have acknowledged it{}; {words}", at.join(" and")).into())
        }
        Some((reason, words)) => Delivered::No(reason, words.into()),
        None if at.is_empty() => Delivered::No("Pending", "none of its addresses is on this machine".into()),
        None => Delivered::Yes,
    }
}

/// What keeps the cluster of a listener that takes datagrams, which has its name and belongs to no route, from being used.
fn datagrams_undelivered(lookup: &mut impl Lookup, name: &ListenerName) -> Option<Delivered> {
    match lookup.cluster(&ClusterName(name.0.clone()))? {
        ClusterState::Refused(words) => {
            Some(Delivered::No("Invalid", format!("the proxy refused its cluster: {words}").into()))
        }
        ClusterState::Stalled => Some(Delivered::No("Pending", "its cluster does not become ready".into())),
        _ => None,
    }
}

fn listener_conditions(
    told: &Told<'_>,
    listener: &ListenerPlan,
    (port_refused, delivered): (Option<Arc<str>>, Delivered),
) -> Vec<Condition> {
    let writer = told.writer;
    let mut conditions = Vec::with_capacity(5);
    conditions.push(match (listener.not_accepted(), &port_refused) {
        (Some(refusal), _) => writer.no("Accepted", refusal.reason, &refusal.text),
        (None, Some(why)) => writer.no("Accepted", "PortUnavailable", why),
        (None, None) => writer.yes("Accepted", "Accepted", "the listener is accepted"),
    });
    conditions.push(listener_programmed(told, listener, delivered));
    conditions.push(match listener.unresolved.as_ref().or(listener.untrusted.as_ref()) {
        Some(refusal) => writer.no("ResolvedRefs", refusal.reason, &refusal.text),
        None => writer.yes("ResolvedRefs", "ResolvedRefs", RESOLVED),
    });
    if let Some(conflict) = &listener.conflict {
        conditions.push(writer.yes("Conflicted", conflict.reason, &conflict.text));
    }
    if listener.overlaps {
        let text = if listener.is_stream() {
            "host names of this port overlap; a connection goes where the most specific one leads"
        } else {
            "host names of this port overlap; requests on a connection for another one are answered with 421"
        };
        conditions.push(writer.yes("OverlappingTLSConfig", "OverlappingHostnames", text));
    }
    conditions
}

fn listener_programmed(told: &Told<'_>, listener: &ListenerPlan, delivered: Delivered) -> Condition {
    let writer = told.writer;
    if let Some(conflict) = &listener.conflict {
        return writer.no("Programmed", conflict.reason, &conflict.text);
    }
    let own = listener.not_accepted().or(listener.unresolved.as_ref());
    if let Some(refusal) = told.refused.or(own.filter(|_| !listener.serves() || listener.misgated.is_some())) {
        return writer.no("Programmed", "Invalid", &refusal.text);
    }
    match delivered {
        Delivered::Yes => writer.yes("Programmed", "Programmed", "every proxy has acknowledged it"),
        Delivered::Partly(words) => writer.yes("Programmed", "Programmed", &words),
        Delivered::No(reason, why) => writer.no("Programmed", reason, &why),
        Delivered::Offline => writer.unknown("Programmed", "Pending", OFFLINE),
    }
}

/// For translation without proxies.
pub(super) const OFFLINE: &str = "translated offline, no proxy is asked";

fn gateway_accepted(writer: Writer, plan: &GatewayPlan, accepted: usize) -> Condition {
    if let Some(refusal) = &plan.refused {
        return writer.no("Accepted", refusal.reason, &refusal.text);
    }
    if accepted == 0 {
        return writer.no("Accepted", "ListenersNotValid", NO_LISTENER);
    }
    if accepted < plan.own_listeners().len() {
        return writer.yes("Accepted", "ListenersNotValid", "some listeners cannot be used");
    }
    match &plan.missing_class {
        None => writer.yes("Accepted", "Accepted", "the Gateway is accepted"),
        Some(class) => {
            let text =
                format!("the Gateway is accepted; its GatewayClass {class:?} is not there, so it is taken as ours");
            writer.yes("Accepted", "Accepted", &text)
        }
    }
}

fn gateway_programmed(
    writer: Writer,
    plan: &GatewayPlan,
    entries: &Entries,
    facts: Option<&ProxyFacts>,
    offline: bool,
) -> Condition {
    let kind = "Programmed";
    if let Some(refusal) = &plan.refused {
        return writer.no(kind, "Invalid", &refusal.text);
    }
    if let Some(fault) = plan.addresses.fault(facts) {
        return writer.no(kind, fault.reason, &fault.text);
    }
    if entries.accepted == 0 || !plan.own_listeners().iter().any(ListenerPlan::serves) {
        return writer.no(kind, "Invalid", "no listener can be programmed");
    }
    if offline {
        return writer.unknown(kind, "Pending", OFFLINE);
    }
    if let Some((reason, words)) = facts.and_then(|facts| hindrance(&plan.addresses, facts)) {
        return writer.no(kind, reason, words);
    }
    if entries.programmed > 0 {
        return writer.yes(kind, "Programmed", "the proxies have acknowledged the configuration");
    }
    writer.no(kind, "Pending", NOT_YET)
}

/// Proxies that have not taken anything.
pub(super) const NOT_YET: &str = "no proxy has acknowledged a listener yet";

/// What keeps proxies of a Gateway from serving anything, beside [`AddressPlan::fault`].
pub(super) fn hindrance<'a>(addresses: &AddressPlan, facts: &'a ProxyFacts) -> Option<(&'static str, &'a Arc<str>)> {
    // One that lacks beside others is told, and the others serve.
    let unassigned = facts.unassigned.as_ref().filter(|_| addresses.is_empty());
    let problem = facts.problem.as_ref().map(|words| ("NoResources", words));
    let unassigned = unassigned.map(|words| ("AddressNotAssigned", words));
    problem.or(unassigned).or_else(|| Some(("Pending", facts.awaited.as_ref()?)))
}

fn gateway_references(writer: Writer, plan: &GatewayPlan) -> Condition {
    let kind = "ResolvedRefs";
    if let Some(refusal) = &plan.unresolved {
        return writer.no(kind, refusal.reason, &refusal.text);
    }
    match plan.own_listeners().iter().find_map(|listener| Some((listener, listener.unresolved.as_ref()?))) {
        Some((listener, refusal)) => {
            writer.no(kind, "ListenersNotResolved", &format!("listener {}: {}", listener.name, refusal.text))
        }
        None => writer.yes(kind, "ResolvedRefs", RESOLVED),
    }
}

/// Whether there is an address for each entry (GEP-5093); without entries, any address. None as long as nothing is known of them.
fn addresses_assigned(
    writer: Writer,
    plan: &GatewayPlan,
    assignment: Option<&Assignment>,
    facts: Option<&ProxyFacts>,
) -> Option<Condition> {
    let kind = "AddressesAssigned";
    let Assignment { given, lacking } = assignment?;
    if plan.addresses.is_empty() {
        let lacks = facts.and_then(|facts| facts.unassigned.as_deref());
        return Some(match lacks.filter(|_| given.is_empty()) {
            Some(words) => writer.no(kind, "NotAssigned", words),
            None => writer.yes(kind, kind, "the Gateway has addresses"),
        });
    }
    Some(match (given.is_empty(), lacking.is_empty()) {
        (_, true) => writer.yes(kind, kind, "every address that is asked for is assigned"),
        (true, false) => writer.no(kind, "NotAssigned", &plan.addresses.words(lacking)),
        (false, false) => writer.no(kind, "PartiallyAssigned", &plan.addresses.words(lacking)),
    })
}

/// Addresses and host names that really lead to proxies, each once: of those that are asked for, one for each entry.
fn addresses(
    plan: &GatewayPlan,
    assignment: Option<&Assignment>,
    facts: Option<&ProxyFacts>,
) -> Vec<GatewayStatusAddress> {
    let write = |address_type, value: &str, routability: &str| GatewayStatusAddress {
        address_type,
        value: value.into(),
        routability: plan.tells_routability.then(|| routability.into()),
    };
    let given = assignment.iter().flat_map(|assignment| &assignment.given);
    let given = given.map(|(address, routability)| write(AddressType::IpAddress, &address.to_string(), routability));
    let hostnames: BTreeSet<_> = facts.iter().flat_map(|facts| facts.hostnames.iter()).collect();
    let hostnames = hostnames.iter().filter(|_| plan.addresses.is_empty());
    let hostnames = hostnames.map(|hostname| write(AddressType::Hostname, hostname, ""));
    given.chain(hostnames).take(MOST_ADDRESSES).collect()
}

/// Bound of the API (`GatewayStatus.addresses`).
const MOST_ADDRESSES: usize = 16;
