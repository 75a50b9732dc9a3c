//! Host names of a port's listeners, so that those inside one or around one are found without looking at all of them.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::{ListenerPlan, Socket};
use crate::hostname::Hostname;

/// By port the host names of accepted listeners: on one port each has its own.
#[derive(Default)]
pub(super) struct PortHosts<'a> {
    ports: BTreeMap<Socket, Hosts<'a>>,
}

/// Host names with their labels turned round (`*.a.com` is `com.a.`, every host is empty): what a wildcard covers begins with it.
type Hosts<'a> = BTreeMap<String, &'a Hostname>;

impl<'a> PortHosts<'a> {
    pub(super) fn of(listeners: &'a [ListenerPlan]) -> Self {
        let mut found = Self::default();
        for listener in listeners.iter().filter(|listener| listener.refused.is_none()) {
            found.ports.entry(listener.socket()).or_default().insert(turned(&listener.hostname), &listener.hostname);
        }
        found
    }

    /// All but the listener's own, in no order that means anything.
    pub(super) fn others(&self, listener: &ListenerPlan) -> impl Iterator<Item = &'a Hostname> {
        let own = listener.hostname.clone();
        self.hosts(listener).into_iter().flat_map(|hosts| hosts.values().copied()).filter(move |host| **host != own)
    }

    /// How many there are on the listener's port.
    pub(super) fn count(&self, listener: &ListenerPlan) -> usize {
        self.hosts(listener).map_or(0, BTreeMap::len)
    }

    /// Those inside the listener's own.
    pub(super) fn narrower(&self, listener: &ListenerPlan) -> impl Iterator<Item = &'a Hostname> {
        let wide = listener.hostname.is_wide().then(|| turned(&listener.hostname));
        let hosts = self.hosts(listener).zip(wide);
        hosts.into_iter().flat_map(|(hosts, start)| {
            let range = hosts.range::<str, _>((Bound::Excluded(&*start), Bound::Unbounded));
            let inside: Vec<_> =
                range.take_while(|(host, _)| host.starts_with(&start)).map(|(_, host)| *host).collect();
            inside
        })
    }

    /// Whether another one has hosts in common with the listener's own.
    pub(super) fn overlap(&self, listener: &ListenerPlan) -> bool {
        let around =
            |hosts: &Hosts<'_>| listener.hostname.broader().any(|broader| hosts.contains_key(&turned(&broader)));
        self.narrower(listener).next().is_some() || self.hosts(listener).is_some_and(around)
    }

    fn hosts(&self, listener: &ListenerPlan) -> Option<&Hosts<'a>> {
        self.ports.get(&listener.socket())
    }
}

fn turned(hostname: &Hostname) -> String {
    let Some(text) = hostname.as_text() else { return String::new() };
    let (labels, end) = text.strip_prefix("*.").map_or((&**text, ""), |rest| (rest, "."));
    let mut turned = labels.split('.').rev().collect::<Vec<_>>().join(".");
    turned.push_str(end);
    turned
}

#[cfg(test)]
mod tests;
