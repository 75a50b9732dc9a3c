//! Listeners of one Gateway and its `ListenerSet`s against each other (Gateway API "Distinct Listeners"), and against other Gateways of the machine.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use api::ObjectKey;

use super::host::PortHosts;
use super::{ListenerPlan, Refusal, Socket, Speaks};
use crate::hostname::Hostname;
use crate::key::ClusterTarget;

/// Ports of a Gateway. In a cluster each is a port of its Service and one of the 2,768 that a cluster has for nodes (30000 to 32767): ten Gateways with as
/// many have room. On a machine each is a socket for each worker of its Envoy.
pub(super) const MOST_PORTS: usize = 256;

/// Ports of it that the sets of one namespace may add: as many as one set has listeners, so that four namespaces that take all have to act together.
pub(super) const MOST_PORTS_OF_A_NAMESPACE: usize = 64;

/// Listeners of a Gateway that the sets of one other namespace may add: eight sets of the 64 that one may have. A proxy takes 72 KB for a listener with a
/// host name and a certificate (measured), 37 MB for all of these, and builds them again with each change of one that shares their port.
const MOST_LISTENERS_OF_A_NAMESPACE: usize = 512;

/// Backends of external authorization that these may name together: a proxy has a cluster for each, with all endpoints of the backend.
const MOST_AUTHORITIES_OF_A_NAMESPACE: usize = 32;

/// Marks listeners that share a port and cannot be told apart. Of one object no winner is chosen: all of them are conflicted. Those of an object
/// that comes later lose against those that were accepted before, and are in nobody's way. `owned` says how many each object has, in order.
pub(crate) fn mark_conflicts(listeners: &mut [ListenerPlan], owned: impl Iterator<Item = usize>) {
    let mut taken: BTreeMap<Socket, Taken> = BTreeMap::new();
    let mut rest = listeners;
    for count in owned {
        let Some((own, later)) = rest.split_at_mut_checked(count) else { return };
        for listener in own.iter_mut() {
            let conflict = taken.get(&listener.socket()).and_then(|taken| taken.conflict(listener));
            refuse(listener, conflict);
        }
        mark_twins(own);
        for listener in own.iter().filter(|listener| listener.refused.is_none()) {
            if let Some(family) = family(listener) {
                let taken = taken.entry(listener.socket()).or_insert_with(|| Taken { family, hosts: HashSet::new() });
                taken.hosts.insert(listener.hostname.clone());
            }
        }
        rest = later;
    }
}

/// What earlier objects have of a port.
struct Taken {
    family: Speaks,
    hosts: HashSet<Hostname>,
}

impl Taken {
    /// Why a listener cannot be beside those: whose they are may be a secret of another namespace.
    fn conflict(&self, listener: &ListenerPlan) -> Option<Refusal> {
        let port = listener.port;
        if !judged(listener) {
            None
        } else if family(listener) != Some(self.family) {
            let text = format!("port {port} is used with another protocol by a listener that comes before this one");
            Some(Refusal::new("ProtocolConflict", text))
        } else if self.hosts.contains(&listener.hostname) {
            let reason = same_host(listener);
            let host = if reason == "HostnameConflict" { " with the same host name" } else { "" };
            Some(Refusal::new(reason, format!("a listener that comes before this one has port {port}{host}")))
        } else {
            None
        }
    }
}

/// One whose host name or port cannot be read stands in nobody's way.
fn judged(listener: &ListenerPlan) -> bool {
    listener.speaks.is_some() && !listener.odd_hostname && listener.port > 0
}

/// HTTPS and TLS are told apart by the server name.
fn family(listener: &ListenerPlan) -> Option<Speaks> {
    listener.speaks.map(|speaks| if speaks.has_server_names() { Speaks::Https } else { speaks })
}

/// Without host names only one can have the port.
fn same_host(listener: &ListenerPlan) -> &'static str {
    if listener.speaks.is_some_and(|speaks| !speaks.has_hosts()) { "ProtocolConflict" } else { "HostnameConflict" }
}

fn refuse(listener: &mut ListenerPlan, conflict: Option<Refusal>) {
    if let Some(conflict) = conflict {
        listener.refused = Some(conflict.clone());
        listener.conflict = Some(conflict);
    }
}

/// Marks the listeners of one object that cannot be told apart.
fn mark_twins(listeners: &mut [ListenerPlan]) {
    let mut ports: BTreeMap<Socket, Vec<usize>> = BTreeMap::new();
    let candidates = listeners.iter().enumerate();
    for (index, listener) in candidates.filter(|(_, listener)| judged(listener) && listener.conflict.is_none()) {
        ports.entry(listener.socket()).or_default().push(index);
    }
    for ((port, _), members) in ports.iter().filter(|(_, members)| members.len() > 1) {
        let seen: Vec<_> = members.iter().filter_map(|index| listeners.get(*index)).cloned().collect();
        let mixed = seen.windows(2).any(|pair| matches!(pair, [one, two] if family(one) != family(two)));
        for index in members {
            let Some(listener) = listeners.get_mut(*index) else { continue };
            let twin = seen.iter().find(|other| other.name != listener.name && other.hostname == listener.hostname);
            let conflict = if mixed {
                let text = format!(
                    "port {port} is used with different protocols by listeners of this object: none of them is served; move one to another port"
                );
                Some(Refusal::new("ProtocolConflict", text))
            } else {
                twin.map(|twin| {
                    let same = if twin.speaks == listener.speaks { "port, protocol" } else { "port" };
                    let text = format!("listener {} has the same {same} and host name", twin.name);
                    Refusal::new(same_host(listener), text)
                })
            };
            refuse(listener, conflict);
        }
    }
}

/// Marks the listeners of a port with TLS whose host names overlap (condition `OverlappingTLSConfig`).
pub(crate) fn mark_overlaps(listeners: &mut [ListenerPlan]) {
    let hosts = PortHosts::of(listeners);
    let is_one =
        |listener: &ListenerPlan| listener.speaks.is_some_and(Speaks::has_server_names) && listener.refused.is_none();
    let overlaps: Vec<bool> = listeners.iter().map(|listener| is_one(listener) && hosts.overlap(listener)).collect();
    for (listener, overlaps) in listeners.iter_mut().zip(overlaps) {
        listener.overlaps = overlaps;
    }
}

/// Marks the listeners whose port an older Gateway of this machine has.
pub(crate) fn mark_taken(listeners: &mut [ListenerPlan], mut rival: impl FnMut(Socket) -> Option<ObjectKey>) {
    for listener in listeners.iter_mut().filter(|listener| listener.refused.is_none()) {
        if let Some(winner) = rival(listener.socket()) {
            let winner = if listener.is_of_set() { "another Gateway".to_owned() } else { winner.to_string() };
            let text = format!("port {} belongs to {winner}, which is older or comes first by name", listener.port);
            listener.refused = Some(Refusal::new("PortUnavailable", text).at("port"));
        }
    }
}

/// Marks the listeners of sets that are too many for the namespace of these, the youngest sets first. A listener whose filters name one backend too many
/// keeps its host name and lets nothing pass. The Gateway's `own` namespace may have as many as it likes.
pub(crate) fn mark_surplus(listeners: &mut [ListenerPlan], own: &str) {
    let mut counts: BTreeMap<Box<str>, (usize, BTreeSet<ClusterTarget>)> = BTreeMap::new();
    for listener in listeners.iter_mut().filter(|listener| listener.refused.is_none()) {
        let of_others = namespace_of_set(listener).filter(|namespace| *namespace != own);
        let Some(namespace) = of_others.map(Box::<str>::from) else { continue };
        let (count, authorities) = counts.entry(namespace).or_default();
        if *count >= MOST_LISTENERS_OF_A_NAMESPACE {
            let text = format!(
                "listener {} is one too many: the ListenerSets of one namespace may have {MOST_LISTENERS_OF_A_NAMESPACE} listeners on a Gateway, in \
                 which older sets come first; remove some, use a wildcard host name, or use another Gateway",
                listener.name
            );
            listener.refused = Some(Refusal::new("TooManyListeners", text));
            continue;
        }
        *count += 1;
        let new: Vec<ClusterTarget> =
            listener.gate.clusters.iter().filter(|target| !authorities.contains(*target)).cloned().collect();
        if authorities.len().saturating_add(new.len()) <= MOST_AUTHORITIES_OF_A_NAMESPACE {
            authorities.extend(new);
            continue;
        }
        let text = format!(
            "its filters name one backend too many, so nothing may pass: those of the ListenerSets of one namespace may name \
             {MOST_AUTHORITIES_OF_A_NAMESPACE} backends on a Gateway; name fewer",
        );
        listener.gate.close(text.as_str().into());
        listener.misgated.get_or_insert(Refusal::new("TooManyBackends", text).at("filters.requests"));
    }
}

/// The namespace of the set that a listener is of.
pub(super) fn namespace_of_set(listener: &ListenerPlan) -> Option<&str> {
    listener.is_of_set().then(|| listener.id.split('/').next().unwrap_or_default())
}

/// The words for a listener whose Gateway has as many ports as it may have.
pub(super) fn too_many_ports(port: u16) -> String {
    format!(
        "port {port} is one too many: a Gateway has {MOST_PORTS} ports, of which {MOST_PORTS_OF_A_NAMESPACE} can be of the ListenerSets of one \
         namespace; use a port that the Gateway has, or another Gateway"
    )
}

/// Marks the listeners whose port is one too many for the Service of a Gateway in a cluster: it is one object for all, which the API server takes whole
/// or not at all. Those of the Gateway itself and of older sets come first.
pub(crate) fn mark_crowded(listeners: &mut [ListenerPlan]) {
    let mut ports: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    let mut taken: BTreeSet<Socket> = BTreeSet::new();
    let mut crowded = Vec::new();
    for (index, listener) in listeners.iter().enumerate() {
        if listener.refused.is_some() || taken.contains(&listener.socket()) {
            continue;
        }
        let namespace = namespace_of_set(listener);
        let own = ports.entry(namespace).or_default();
        if taken.len() >= MOST_PORTS || namespace.is_some() && *own >= MOST_PORTS_OF_A_NAMESPACE {
            crowded.push(index);
            continue;
        }
        *own += 1;
        taken.insert(listener.socket());
    }
    for index in crowded {
        let Some(listener) = listeners.get_mut(index) else { continue };
        let text = too_many_ports(listener.port);
        listener.refused = Some(Refusal::new("PortUnavailable", text).at("port"));
    }
}
