//! Listeners of `ListenerSet`s inside more general ones of their port: requests for their host names are theirs.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::ObjectKey;

use super::host::PortHosts;
use super::{ListenerPlan, Socket};
use crate::hostname::Hostname;

/// A listener of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SetListener {
    pub(crate) set: ObjectKey,
    pub(crate) id: Arc<str>,
    pub(crate) name: Arc<str>,
}

/// Host names inside one listener's, with the listeners of sets that have them; none: the Gateway's own listener has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shadows(BTreeMap<Hostname, Option<Arc<SetListener>>>);

impl Shadows {
    /// The listener of a set that answers for all of a host name.
    pub(crate) fn find(&self, hostname: &Hostname) -> Option<&Arc<SetListener>> {
        let mut names = std::iter::once(hostname.clone()).chain(hostname.broader());
        names.find_map(|name| self.0.get(&name))?.as_ref()
    }
}

/// Returns the general listeners, by id, inside which a set has one. `by_owner`: the listeners of the Gateway and of each of its sets.
pub(crate) fn shadows<'p>(
    all: &[ListenerPlan],
    by_owner: impl Iterator<Item = (Option<&'p ObjectKey>, &'p [ListenerPlan])>,
) -> Vec<(Arc<str>, Shadows)> {
    let mut of_sets: BTreeMap<(Socket, Hostname), Arc<SetListener>> = BTreeMap::new();
    for (set, listeners) in by_owner {
        let Some(set) = set else { continue };
        for plan in listeners.iter().filter(|listener| listener.refused.is_none()) {
            let listener = SetListener { set: set.clone(), id: plan.id.clone(), name: plan.name.clone() };
            of_sets.insert((plan.socket(), plan.hostname.clone()), Arc::new(listener));
        }
    }
    // Most Gateways have no sets.
    if of_sets.is_empty() {
        return Vec::new();
    }
    let hosts = PortHosts::of(all);
    let general = all.iter().filter(|listener| listener.hostname.is_wide() && listener.refused.is_none());
    let rows = general.filter_map(|listener| {
        let socket = listener.socket();
        let of_set = |name: &Hostname| of_sets.get(&(socket, name.clone())).cloned();
        let inside: BTreeMap<_, _> = hosts.narrower(listener).map(|name| (name.clone(), of_set(name))).collect();
        inside.values().any(Option::is_some).then(|| (listener.id.clone(), Shadows(inside)))
    });
    rows.collect()
}
