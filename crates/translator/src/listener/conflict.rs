//! Listeners of one Gateway against each other (Gateway API "Distinct Listeners"), and against other Gateways of the machine.

use std::collections::BTreeMap;

use api::ObjectKey;

use super::{ListenerPlan, Refusal, Speaks};

/// Marks listeners that share a port and cannot be told apart: no winner is chosen, all of them are conflicted. One whose
/// host name cannot be read stands in nobody's way.
pub(crate) fn mark_conflicts(listeners: &mut [ListenerPlan]) {
    let mut ports: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for (index, listener) in
        listeners.iter().enumerate().filter(|(_, listener)| listener.speaks.is_some() && !listener.odd_hostname)
    {
        ports.entry(listener.port).or_default().push(index);
    }
    for (port, members) in ports.iter().filter(|(_, members)| members.len() > 1) {
        let seen: Vec<_> = members.iter().filter_map(|index| listeners.get(*index)).cloned().collect();
        // HTTPS and TLS are told apart by the server name.
        let family = |listener: &ListenerPlan| {
            listener.speaks.map(|speaks| if speaks.has_server_names() { Speaks::Https } else { speaks })
        };
        let mixed = seen.windows(2).any(|pair| matches!(pair, [one, two] if family(one) != family(two)));
        for index in members {
            let Some(listener) = listeners.get_mut(*index) else { continue };
            let twin = seen.iter().find(|other| other.name != listener.name && other.hostname == listener.hostname);
            let conflict = if mixed {
                let text = format!("port {port} is used with different protocols in this Gateway");
                Refusal::new("ProtocolConflict", text)
            } else if let Some(twin) = twin {
                let same = if twin.speaks == listener.speaks { "port, protocol" } else { "port" };
                let text = format!("listener {} has the same {same} and host name", twin.name);
                // Without host names only one can have the port.
                let is_tcp = listener.speaks == Some(Speaks::Tcp);
                Refusal::new(if is_tcp { "ProtocolConflict" } else { "HostnameConflict" }, text)
            } else {
                continue;
            };
            listener.refused = Some(conflict.clone());
            listener.conflict = Some(conflict);
        }
    }
}

/// Marks the listeners of a port with TLS whose host names overlap (condition `OverlappingTLSConfig`).
pub(crate) fn mark_overlaps(listeners: &mut [ListenerPlan]) {
    let is_one =
        |listener: &ListenerPlan| listener.speaks.is_some_and(Speaks::has_server_names) && listener.refused.is_none();
    let seen: Vec<_> =
        listeners.iter().map(|listener| (is_one(listener), listener.port, listener.hostname.clone())).collect();
    for (index, listener) in listeners.iter_mut().enumerate() {
        let overlaps = |(other, (counts, port, hostname)): (usize, &(bool, u16, crate::hostname::Hostname))| {
            other != index && *counts && *port == listener.port && hostname.intersect(&listener.hostname).is_some()
        };
        listener.overlaps = is_one(listener) && seen.iter().enumerate().any(overlaps);
    }
}

/// Marks the listeners whose port an older Gateway of this machine has.
pub(crate) fn mark_taken(listeners: &mut [ListenerPlan], mut rival: impl FnMut(u16) -> Option<ObjectKey>) {
    for listener in listeners.iter_mut().filter(|listener| listener.refused.is_none()) {
        if let Some(winner) = rival(listener.port) {
            let text = format!("port {} belongs to {winner}, which is older or comes first by name", listener.port);
            listener.refused = Some(Refusal::new("PortUnavailable", text).at("port"));
        }
    }
}
