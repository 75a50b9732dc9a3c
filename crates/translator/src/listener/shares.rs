//! Shares of the ports of a machine: how many a Gateway has there, and how many the objects of one namespace have on all Gateways.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::conflict::{MOST_PORTS, MOST_PORTS_OF_A_NAMESPACE};
use super::{ListenerPlan, Refusal, Socket, conflict};
use crate::key::Seniority;

/// Ports of this machine that the Gateways and `ListenerSet`s of one namespace may have together: those of four full Gateways. A machine has 64,511 of them,
/// of which 28,232 (`ip_local_port_range`) are for its outgoing connections: 27 namespaces that take all have to act together. An Envoy takes
/// 38 KB for a port (measured), 39 MB for all of these.
const MOST_PORTS_OF_A_NAMESPACE_HERE: usize = 1_024;

/// A namespace and one of its Gateways, or one on which its `ListenerSet`s are: in order of precedence.
pub(crate) type ShareKey = (Arc<str>, Seniority);

/// The bound that keeps a port from a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortBound {
    Gateway,
    Namespace,
}

/// The ports that a Gateway and its sets want.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortShares {
    /// The Gateway's own, on which the listeners of sets may be as well.
    own: BTreeSet<Socket>,
    /// Those that it may have, by the namespace of the objects that want them, in order of precedence.
    pub(crate) by_namespace: BTreeMap<Arc<str>, Vec<Socket>>,
    /// Those beyond the bounds of the Gateway.
    surplus: BTreeSet<(Arc<str>, Socket)>,
}

impl PortShares {
    /// Deals out the ports of a Gateway: to itself, then to its sets in order of precedence.
    pub(crate) fn of<'a>(
        namespace: &str,
        own: impl Iterator<Item = Socket>,
        sets: impl Iterator<Item = (&'a str, Vec<Socket>)>,
    ) -> Self {
        let mut shares = Self::default();
        let mut taken: BTreeSet<Socket> = BTreeSet::new();
        for socket in own.filter(|socket| taken.insert(*socket)) {
            shares.own.insert(socket);
            shares.by_namespace.entry(namespace.into()).or_default().push(socket);
        }
        let mut seen: BTreeSet<(Arc<str>, Socket)> = BTreeSet::new();
        let mut added: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for (namespace, sockets) in sets {
            let namespace: Arc<str> = namespace.into();
            for socket in sockets {
                if shares.own.contains(&socket) || !seen.insert((Arc::clone(&namespace), socket)) {
                    continue;
                }
                let added = added.entry(Arc::clone(&namespace)).or_default();
                let is_new = !taken.contains(&socket);
                if is_new && (taken.len() >= MOST_PORTS || *added >= MOST_PORTS_OF_A_NAMESPACE) {
                    shares.surplus.insert((Arc::clone(&namespace), socket));
                    continue;
                }
                *added += usize::from(is_new);
                taken.insert(socket);
                shares.by_namespace.entry(Arc::clone(&namespace)).or_default().push(socket);
            }
        }
        shares
    }

    /// The bound that keeps a port from the listeners of a namespace, whose ports on this Gateway that come `late` are known by namespace.
    pub(crate) fn bound(
        &self,
        (gateway, namespace): (&str, &str),
        socket: Socket,
        is_late: impl FnOnce(&str) -> bool,
    ) -> Option<PortBound> {
        // A port of the Gateway is the Gateway's, whichever listeners share it.
        let payer = if self.own.contains(&socket) { gateway } else { namespace };
        if self.surplus.contains(&(payer.into(), socket)) {
            Some(PortBound::Gateway)
        } else {
            is_late(payer).then_some(PortBound::Namespace)
        }
    }
}

/// The ports of a namespace that come too late, by the Gateway: those of its youngest ones. `all` are in order of precedence.
pub(crate) fn late<'a>(
    all: impl Iterator<Item = (&'a ShareKey, &'a Arc<[Socket]>)>,
) -> Vec<(ShareKey, Arc<BTreeSet<Socket>>)> {
    let mut left = MOST_PORTS_OF_A_NAMESPACE_HERE;
    let mut late = Vec::new();
    for (key, sockets) in all {
        let beyond: BTreeSet<Socket> = sockets.iter().skip(left).copied().collect();
        left = left.saturating_sub(sockets.len());
        if !beyond.is_empty() {
            late.push((key.clone(), Arc::new(beyond)));
        }
    }
    late
}

/// Marks the listeners whose port is one too many on this machine. `bound`: by the namespace of the listener, none for the Gateway's own.
pub(crate) fn mark_late(
    listeners: &mut [ListenerPlan],
    mut bound: impl FnMut(Option<&str>, Socket) -> Option<PortBound>,
) {
    for listener in listeners.iter_mut().filter(|listener| listener.refused.is_none()) {
        let port = listener.port;
        let text = match bound(conflict::namespace_of_set(listener), listener.socket()) {
            None => continue,
            Some(PortBound::Gateway) => conflict::too_many_ports(port),
            Some(PortBound::Namespace) => format!(
                "port {port} is one too many: the Gateways and ListenerSets of one namespace have {MOST_PORTS_OF_A_NAMESPACE_HERE} ports on this \
                 machine, of which the oldest Gateways have theirs first; use fewer ports, with several host names on one"
            ),
        };
        listener.refused = Some(Refusal::new("PortUnavailable", text).at("port"));
    }
}
