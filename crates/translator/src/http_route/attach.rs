//! Which listeners take a route: parents, sections, kinds, namespaces and host names (Gateway API section "Route attachment").

use std::sync::Arc;

use api::http_route::HttpRouteFilter;
use api::reference::{GatewayScope, ParentRef};
use api::{Kind, ObjectKey, RouteObject, Severity};
use ir::FleetName;

use super::{Finding, ListenerPort, Lookup, ParentOutcome};
use crate::hostname::Hostname;
use crate::key::ClusterTarget;
use crate::listener::{Namespaces, Refusal, RouteScope, ScopeListener, Takes};
use crate::reference::{did_you_mean, unfit};

/// Accepted on one parent, or the reason why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// At least one listener takes the route.
    Accepted,
    /// No listener takes it, or not one rule can be used.
    Refused(Box<Refusal>),
}

/// What attaching a route gave.
pub(super) struct Attachments {
    /// Parents that are ours, in the order of the spec.
    pub(super) parents: Vec<ParentOutcome>,
    /// One per Gateway that takes the route somewhere.
    pub(super) fleets: Vec<Attachment>,
}

/// A Gateway that takes the route.
pub(super) struct Attachment {
    pub(super) fleet: FleetName,
    pub(super) listeners: Vec<Taken>,
    /// The route names nothing of it: it is a default Gateway.
    pub(super) is_default: bool,
}

/// A listener that takes the route.
pub(super) struct Taken {
    pub(super) id: Arc<str>,
    name: Arc<str>,
    /// Its own host name.
    hostname: Hostname,
    pub(super) port: Option<ListenerPort>,
    /// TLS of clients goes to the backend as it comes.
    pub(super) passes_tls: bool,
    pub(super) hostnames: Box<[Hostname]>,
    /// Clusters that it asks before it chooses a route.
    pub(super) asked: Arc<[ClusterTarget]>,
    /// Its place: the parent, and which of that one's listeners it is.
    at: (ObjectKey, usize),
}

/// Judges every parent reference on its own; what listeners take is joined per Gateway.
pub(super) fn attach(
    lookup: &mut impl Lookup,
    key: &ObjectKey,
    route: &RouteObject,
    problems: &mut Vec<Finding>,
) -> Attachments {
    let parent_refs = route.parent_refs();
    let mut found = Attachments { parents: Vec::with_capacity(parent_refs.len()), fleets: Vec::new() };
    let defaults = defaults(lookup, route, problems);
    // What is wrong with those that were left out is told at them.
    let is_none_written = parent_refs.is_empty() && route.meta().written_index("spec.parentRefs", 0) == 0;
    if is_none_written && route.use_default_gateways().is_none_or(|scope| *scope == GatewayScope::None) {
        problems.push(Finding::warning(
            "spec",
            "no parentRefs: the route is attached to no Gateway; write parentRefs: [{name: GATEWAY}]",
        ));
    }
    let mut own = None;
    let redirects = redirects(route);
    // Parents that are not there: with no other one the route serves nothing.
    let mut nowhere = Vec::new();
    // Parents of other controllers, which may take what ours do not.
    let mut others = false;
    for (index, parent) in (0_u32..).zip(parent_refs.iter()) {
        let object = parent.object(key.namespace());
        if !matches!(object.kind(), Some(Kind::Gateway | Kind::ListenerSet)) {
            let text = unfit(&parent.group, &parent.kind, "a parent here", &[Kind::Gateway, Kind::ListenerSet]);
            problems.push(Finding::warning(format!("spec.parentRefs[{index}]"), text));
            continue;
        }
        let Some(scope) = lookup.scope(&object) else {
            let exists = lookup.has_parent(&object);
            others |= exists;
            nowhere.extend((!exists).then_some(problems.len()));
            problems.push(not_ours(index, &object, exists));
            continue;
        };
        let hostnames = own.get_or_insert_with(|| own_hostnames(route.hostnames(), problems));
        let (verdict, taken) =
            judge(lookup, Judged { key, parent, object: &object, scope: &scope, hostnames, redirects });
        if let Verdict::Refused(refusal) = &verdict {
            let path = refusal.path(&format!("spec.parentRefs[{index}]"));
            problems.push(Finding::error(path, &*refusal.text));
        }
        join(&mut found.fleets, &scope.owner.fleet, taken, false);
        found.parents.push(ParentOutcome { index, owner: scope.owner.clone(), verdict });
    }
    for gateway in &defaults {
        let Some(scope) = lookup.scope(gateway) else { continue };
        let hostnames = own.get_or_insert_with(|| own_hostnames(route.hostnames(), problems));
        let parent = &ParentRef::of_gateway(gateway);
        let judged = Judged { key, parent, object: gateway, scope: &scope, hostnames, redirects };
        let (verdict, taken) = judge(lookup, judged);
        if let Verdict::Refused(refusal) = &verdict {
            let text = format!("default {gateway}: {}", refusal.text);
            problems.push(Finding::warning(refusal.path("spec.useDefaultGateways"), text));
        }
        join(&mut found.fleets, &scope.owner.fleet, taken, true);
        found.parents.push(ParentOutcome { index: ParentOutcome::DEFAULT, owner: scope.owner.clone(), verdict });
    }
    if !others && let Some(own) = &own {
        problems.extend(unserved(route.hostnames(), own, &found.fleets));
    }
    if nowhere.len() == parent_refs.len() && defaults.is_empty() {
        for at in nowhere {
            problems.get_mut(at).into_iter().for_each(|problem| problem.severity = Severity::Error);
        }
    }
    found
}

/// Gateways to which the route is attached without naming them (GEP-3793). One that it names as a whole too has its entry there.
fn defaults(lookup: &mut impl Lookup, route: &RouteObject, problems: &mut Vec<Finding>) -> Vec<ObjectKey> {
    const FIELD: &str = "spec.useDefaultGateways";
    match route.use_default_gateways() {
        Some(GatewayScope::All) => {}
        Some(GatewayScope::Unknown(word)) => {
            problems.push(Finding::warning(FIELD, format!("{word:?} is not known, All is")));
            return Vec::new();
        }
        Some(GatewayScope::None) | None => return Vec::new(),
    }
    let mut gateways = lookup.default_gateways();
    if gateways.is_empty() {
        let text = "there is no default Gateway: one with spec.defaultScope All would be";
        problems.push(Finding::warning(FIELD, text));
    }
    let own = route.meta().namespace();
    let whole = |parent: &&ParentRef| parent.section_name.is_none() && parent.port.is_none();
    let named: Vec<ObjectKey> = route.parent_refs().iter().filter(whole).map(|parent| parent.object(own)).collect();
    gateways.retain(|gateway| !named.contains(gateway));
    gateways
}

/// A parent that has no entry in the status: most likely a slip of the pen where there is no such object at all.
fn not_ours(index: u32, parent: &ObjectKey, exists: bool) -> Finding {
    let path = format!("spec.parentRefs[{index}].name");
    if exists {
        let of_set = "is for no Gateway that is here, or for one of another controller";
        let text = if parent.kind() == Some(Kind::ListenerSet) { of_set } else { "belongs to another controller" };
        return Finding::note(path, format!("{parent} {text}"));
    }
    let finding = Finding::warning(path, format!("{parent} does not exist, the route is not attached to it"));
    finding.naming(parent.clone())
}

/// Some filter of the route is a redirect.
fn redirects(route: &RouteObject) -> bool {
    let redirects = |filters: &[HttpRouteFilter]| {
        filters.iter().any(|filter| matches!(filter, HttpRouteFilter::RequestRedirect(_)))
    };
    let RouteObject::HttpRoute(route) = route else { return false };
    let mut rules = route.spec.rules.iter();
    rules.any(|rule| redirects(&rule.filters) || rule.backend_refs.iter().any(|target| redirects(&target.filters)))
}

/// One parent reference with all that decides about it.
struct Judged<'a> {
    key: &'a ObjectKey,
    parent: &'a ParentRef,
    /// What it leads to.
    object: &'a ObjectKey,
    scope: &'a RouteScope,
    hostnames: &'a [Hostname],
    /// The route redirects, and so has to know the ports of its listeners.
    redirects: bool,
}

fn judge(lookup: &mut impl Lookup, judged: Judged<'_>) -> (Verdict, Vec<Taken>) {
    let Judged { key, parent, object, scope, hostnames, redirects } = judged;
    // Only those who have to know a port look at ports: a change of one then costs the others nothing.
    let ports = if parent.port.is_some() || redirects { lookup.ports(object) } else { None };
    let port_of = |index: usize| ports.as_deref().and_then(|ports| ports.get(index)).copied();
    let named = |(index, listener): &(usize, &ScopeListener)| {
        parent.section_name.as_deref().is_none_or(|name| name == &*listener.name)
            && parent.port.is_none_or(|port| port_of(*index).is_some_and(|listener| listener.port == port))
    };
    let (mut any_named, mut any_admitted, mut taken) = (false, false, Vec::new());
    for (index, listener) in scope.listeners.iter().enumerate().filter(named) {
        any_named = true;
        if !listener.takes.has(key.kind()) || !admits(lookup, &listener.namespaces, object, key) {
            continue;
        }
        any_admitted = true;
        let meets = |host: &&Hostname| listener.hostname.intersect(host).is_some();
        let hostnames: Box<[Hostname]> = hostnames.iter().filter(meets).cloned().collect();
        if !hostnames.is_empty() {
            taken.push(Taken {
                id: listener.id.clone(),
                name: listener.name.clone(),
                hostname: listener.hostname.clone(),
                port: port_of(index),
                passes_tls: listener.passes_tls,
                hostnames,
                asked: listener.asked.clone(),
                at: (object.clone(), index),
            });
        }
    }
    let verdict = match (any_named, any_admitted, taken.is_empty()) {
        (false, ..) => refused(no_listener(parent, scope)),
        (_, false, _) => {
            let named = scope.listeners.iter().enumerate().filter(named).map(|(_, listener)| listener);
            refused(not_allowed(&named.collect::<Vec<_>>(), object, key))
        }
        (.., true) => {
            // Looked for again, for most routes are taken.
            let named = scope.listeners.iter().enumerate().filter(named).map(|(_, listener)| listener);
            let admits =
                |one: &&ScopeListener| one.takes.has(key.kind()) && admits(lookup, &one.namespaces, object, key);
            let admitting: Vec<_> = named.filter(admits).collect();
            let text = if hostnames.is_empty() { UNUSABLE.to_owned() } else { no_common_host(&admitting) };
            refused(Refusal::new("NoMatchingListenerHostname", text).at("spec.hostnames"))
        }
        _ => Verdict::Accepted,
    };
    (verdict, taken)
}

fn refused(refusal: Refusal) -> Verdict {
    Verdict::Refused(Box::new(refusal))
}

const UNUSABLE: &str = "no host name of the route can be used";

/// So many listeners are named at most with their host names.
const MOST_NAMED: usize = 3;

fn no_common_host(listeners: &[&ScopeListener]) -> String {
    let named = listeners.iter().take(MOST_NAMED);
    let named: Vec<String> = named.map(|one| format!("{} accepts {}", one.name, one.hostname.domain())).collect();
    let more = match listeners.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" ({more} more)"),
    };
    format!("no host name of the route matches a listener: {}{more}", named.join(", "))
}

/// No listener of that name or port.
fn no_listener(parent: &ParentRef, scope: &RouteScope) -> Refusal {
    let (kind, name) = (&parent.kind, &parent.name);
    let (text, at) = match (parent.section_name.as_deref(), parent.port) {
        (Some(section), port) => {
            let port = port.map(|port| format!(" on port {port}")).unwrap_or_default();
            let meant = did_you_mean(section, scope.listeners.iter().map(|listener| &*listener.name));
            let meant = if port.is_empty() { meant } else { String::new() };
            (format!("{kind} {name} has no listener {section}{port}{meant}"), "sectionName")
        }
        (None, Some(port)) => (format!("{kind} {name} has no listener on port {port}"), "port"),
        (None, None) => (format!("{kind} {name} has no listener"), "name"),
    };
    Refusal::new("NoMatchingParent", text).at(at)
}

/// Kinds or namespaces do not admit the route, or the listeners cannot be used at all.
fn not_allowed(named: &[&ScopeListener], parent: &ObjectKey, route: &ObjectKey) -> Refusal {
    let nothing = |listener: &&ScopeListener| match &listener.takes {
        Takes::Nothing(text) => Some(format!("listener {} is not accepted: {text}", listener.name)),
        Takes::Kinds(_) => None,
    };
    let kind = route.kind_name();
    let takes_none = match named {
        [one] => format!("listener {} takes no {kind}", one.name),
        _ => format!("no listener takes objects of kind {kind}"),
    };
    let text = match named.iter().find_map(nothing) {
        Some(text) if named.iter().all(|listener| nothing(listener).is_some()) => text,
        _ if named.iter().any(|listener| listener.takes.has(route.kind())) => {
            let from = route.namespace();
            format!(
                "{takes_none} from namespace {from}; set allowedRoutes.namespaces.from: All or Selector in {parent}"
            )
        }
        _ => match protocols(route.kind()) {
            Some(protocols) => {
                format!(
                    "{takes_none} (protocol, allowedRoutes.kinds); it needs a listener with protocol {protocols} that allows the kind"
                )
            }
            None => format!("{takes_none} (protocol, allowedRoutes.kinds)"),
        },
    };
    Refusal::new("NotAllowedByListeners", text)
}

/// The protocols of listeners that can take routes of a kind.
fn protocols(route: Option<Kind>) -> Option<&'static str> {
    match route? {
        Kind::HttpRoute | Kind::GrpcRoute => Some("HTTP or HTTPS"),
        Kind::TcpRoute => Some("TCP"),
        Kind::TlsRoute => Some("TLS"),
        Kind::UdpRoute => Some("UDP"),
        _ => None,
    }
}

fn admits(lookup: &mut impl Lookup, namespaces: &Namespaces, parent: &ObjectKey, route: &ObjectKey) -> bool {
    namespaces.admit(parent.namespace(), route.namespace(), |selector| lookup.selects(selector, route.namespace()))
}

/// Several parent references may lead to one Gateway; each listener is taken once.
fn join(fleets: &mut Vec<Attachment>, fleet: &FleetName, taken: Vec<Taken>, is_default: bool) {
    if taken.is_empty() {
        return;
    }
    match fleets.iter_mut().find(|attachment| attachment.fleet == *fleet) {
        None => fleets.push(Attachment { fleet: fleet.clone(), listeners: taken, is_default }),
        Some(attachment) => {
            attachment.is_default &= is_default;
            attachment.listeners.extend(taken);
            attachment.listeners.sort_by(|one, two| one.at.cmp(&two.at));
            attachment.listeners.dedup_by(|one, two| one.at == two.at);
        }
    }
}

/// The route's host names; one that is none is left out, and a route that names only such ones meets nobody.
fn own_hostnames(hostnames: &[Box<str>], problems: &mut Vec<Finding>) -> Vec<Hostname> {
    if hostnames.is_empty() {
        return vec![Hostname::ANY];
    }
    let mut names = Vec::with_capacity(hostnames.len());
    for (index, text) in hostnames.iter().enumerate() {
        match Hostname::parse(text) {
            Some(name) => names.push(name),
            None => {
                let text = format!(
                    "{text:?} is not a host name, it is ignored; a name is labels of letters, digits and dashes"
                );
                problems.push(Finding::error(format!("spec.hostnames[{index}]"), text));
            }
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// Host names of the route that no listener has that takes the route: nothing is served for them, though the rest of it is.
fn unserved(written: &[Box<str>], own: &[Hostname], fleets: &[Attachment]) -> Vec<Finding> {
    let taken = || fleets.iter().flat_map(|fleet| &fleet.listeners);
    // Nearly always, and then there is no name to look at.
    if taken().next().is_none() || taken().any(|listener| listener.hostnames.len() == own.len()) {
        return Vec::new();
    }
    let mut listeners: Vec<String> =
        taken().map(|listener| format!("{} has {}", listener.name, listener.hostname.domain())).collect();
    listeners.dedup();
    let more = listeners.len().saturating_sub(MAX_LISTENERS);
    listeners.truncate(MAX_LISTENERS);
    let more = if more > 0 { format!(", and {more} others") } else { String::new() };
    let plural = if listeners.len() == 1 { "listener" } else { "listeners:" };
    let listeners = format!("{plural} {}{more}", listeners.join(", "));
    let is_served = |name: &Hostname| taken().any(|listener| listener.hostnames.contains(name));
    let unserved = written.iter().enumerate().filter_map(|(index, text)| {
        let name = Hostname::parse(text).filter(|name| !is_served(name))?;
        let text = format!(
            "no listener of this route takes {}, so nothing is served for it ({listeners}); add a listener for it, or leave it out",
            name.domain()
        );
        Some(Finding::warning(format!("spec.hostnames[{index}]"), text))
    });
    unserved.collect()
}

/// Listeners that are named in a message; of more of them their number is told.
const MAX_LISTENERS: usize = 3;
