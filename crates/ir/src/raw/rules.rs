//! Rules of the operator for resources as users wrote them: their powers, and the addresses to which nothing of theirs leads.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use super::power::{NAMED, SHOWN};
use super::{Power, Powers, RawFault, RawRefusal, RawResource};
use crate::address::{self, ALLOW_LINK_LOCAL, ClosedAddresses};
use crate::socket;

/// An address to which a resource leads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RawAddress {
    /// The address or name, as written; empty: that of any endpoint, which stands elsewhere.
    pub host: Box<str>,
    /// The port; 0 where it is not known.
    pub port: u16,
    /// The field's path in the resource, as in [`RawFault`].
    pub path: Box<str>,
}

/// A socket of the file system that a resource uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RawSocket {
    /// Its path, as written.
    pub socket: Box<str>,
    /// The field's path in the resource, as in [`RawFault`].
    pub path: Box<str>,
}

/// The operator's rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawRules {
    /// The powers that are allowed.
    pub powers: Powers,
    /// Addresses that nothing leads to; those of Chancery with [`Power::Admin`] only.
    pub closed: Arc<ClosedAddresses>,
    /// Folders of Chancery and its proxies, whose sockets nothing uses.
    pub folders: Arc<[PathBuf]>,
    /// Proxies may run on this machine, so that its loopback is theirs too.
    pub here: bool,
    /// Ports of other Gateways on this machine, which a patch does not bind; none where each proxy has ports of its own.
    pub claimed: Option<Arc<BTreeSet<u16>>>,
}

impl RawRules {
    /// Returns a fault for each thing that a resource does and is not allowed, but for what it does before it is changed.
    #[must_use]
    pub fn refuse(&self, resource: &RawResource, before: impl FnOnce() -> Option<Arc<RawResource>>) -> Vec<RawFault> {
        let is_refused = |leads: &RawAddress| self.refuses(leads).is_some();
        let uses: Vec<_> = resource.uses.iter().filter(|found| !self.powers.has(found.power)).collect();
        let leads: Vec<_> = self.addresses(resource).into_iter().filter(|leads| is_refused(leads)).collect();
        let sockets: Vec<_> = resource.sockets.iter().filter(|found| self.refuses_socket(found).is_some()).collect();
        let bound: Vec<_> = resource.bound.iter().filter(|found| self.refuses_bound(found).is_some()).collect();
        if uses.is_empty() && leads.is_empty() && sockets.is_empty() && bound.is_empty() {
            return Vec::new();
        }
        let before = before();
        let before = before.as_deref();
        let uses = uses.into_iter().filter(|found| {
            let same = |own: &super::PowerUse| (own.power, &own.what) == (found.power, &found.what);
            !before.is_some_and(|before| before.uses.iter().any(same))
        });
        let mut faults = self.powers.refuse(uses);
        let own: BTreeSet<_> = before.map(|before| self.addresses(before)).into_iter().flatten().collect();
        let own: BTreeSet<_> = own.iter().map(|own| (&own.host, own.port)).collect();
        let leads = leads.iter().filter(|found| !own.contains(&(&found.host, found.port)));
        let fault = |found: &Cow<'_, RawAddress>| {
            let (refusal, text) = self.refuses(found)?;
            Some(RawFault::new(found.path.clone(), text).refusing(refusal))
        };
        faults.extend(leads.filter_map(fault).take(NAMED));
        let sockets = sockets
            .into_iter()
            .filter(|found| !before.is_some_and(|before| before.sockets.iter().any(|own| own.socket == found.socket)));
        faults.extend(sockets.filter_map(|found| self.refuses_socket(found)).take(NAMED));
        let is_new = |found: &&RawAddress| {
            let same = |own: &RawAddress| (&own.host, own.port) == (&found.host, found.port);
            !before.is_some_and(|before| before.bound.iter().any(same))
        };
        faults.extend(bound.into_iter().filter(is_new).filter_map(|found| self.refuses_bound(found)).take(NAMED));
        faults
    }

    /// Returns the addresses of a resource, and each of its endpoints with the ports of Chancery that stand without an address: a health check goes to
    /// its port at each endpoint. On this machine such a port is refused wherever the endpoints are.
    fn addresses<'r>(&self, resource: &'r RawResource) -> Vec<Cow<'r, RawAddress>> {
        let all = || resource.addresses.iter();
        let mut found: Vec<_> = all().map(Cow::Borrowed).collect();
        if self.here {
            return found;
        }
        let bare = all().filter(|leads| leads.host.is_empty() && self.closed.has_port(leads.port));
        let ports: BTreeMap<u16, &RawAddress> = bare.map(|leads| (leads.port, leads)).collect();
        let hosts: BTreeSet<&str> = all().map(|leads| &*leads.host).filter(|host| !host.is_empty()).collect();
        for (port, leads) in ports {
            let with_port =
                hosts.iter().map(|host| RawAddress { host: (*host).into(), port, path: leads.path.clone() });
            found.extend(with_port.map(Cow::Owned));
        }
        found
    }

    /// Refuses a socket, with the power too.
    fn refuses_socket(&self, RawSocket { socket, path }: &RawSocket) -> Option<RawFault> {
        // A name in a space of its own, in which Chancery and its proxies have none (unix(7), abstract).
        if socket.starts_with('@') {
            return None;
        }
        let words = socket::refuses_path(socket, &self.folders)?;
        let shown: String = socket.chars().take(SHOWN).collect();
        let text = format!(
            "it uses the socket {shown:?}, which {words}: the resource is refused; write the absolute path of a socket elsewhere"
        );
        Some(RawFault::new(path.clone(), text).refusing(RawRefusal::Socket))
    }

    /// Refuses a port that another Gateway or Chancery has, and one without a number, which cannot be compared with theirs. The address does not matter:
    /// a Gateway may have it at any address.
    fn refuses_bound(&self, RawAddress { host, port, path }: &RawAddress) -> Option<RawFault> {
        let claimed = self.claimed.as_ref()?;
        let shown: String = host.chars().take(SHOWN).collect();
        let (place, words) = if *port == 0 {
            (shown, "without the number of a port")
        } else if claimed.contains(port) {
            (format!("{shown} port {port}"), "which belongs to another Gateway of this machine")
        } else if self.closed.has_port(*port) {
            (format!("{shown} port {port}"), "where Chancery listens")
        } else {
            return None;
        };
        let text = format!(
            "it binds {place}, {words}: the resource is refused; bind a port of this Gateway's own listeners, or one that no other Gateway has"
        );
        Some(RawFault::new(path.clone(), text).refusing(RawRefusal::OwnAddress))
    }

    fn refuses(&self, RawAddress { host, port, .. }: &RawAddress) -> Option<(RawRefusal, String)> {
        let shown: String = host.chars().take(SHOWN).collect();
        let literal: Vec<IpAddr> = address::literal(host).into_iter().chain(address::of_pod_name(host)).collect();
        let words = self.closed.refuses_name(host).or_else(|| literal.iter().find_map(|ip| self.closed.refuses(*ip)));
        if let Some(words) = words {
            let text = format!("it leads to {shown}, which {words}: the resource is refused; {ALLOW_LINK_LOCAL}");
            return Some((RawRefusal::LinkLocal, text));
        }
        if self.powers.has(Power::Admin) || !self.is_own(host, &literal, *port) {
            return None;
        }
        let word = Power::Admin.word();
        let place = if host.is_empty() { format!("port {port}") } else { format!("{shown} port {port}") };
        let text = format!(
            "it leads to {place}, where Chancery listens, which is not allowed: the resource is refused; the operator allows it with \
             {word} in extensionApis.rawResources of the static configuration, or --raw-resources {word}"
        );
        Some((RawRefusal::OwnAddress, text))
    }

    fn is_own(&self, host: &str, literal: &[IpAddr], port: u16) -> bool {
        if host.is_empty() {
            return self.here && self.closed.has_port(port);
        }
        let is_of_proxy = |ip: &IpAddr| {
            let ip = ip.to_canonical();
            !self.here && (ip.is_loopback() || ip.is_unspecified())
        };
        self.closed.is_own_name(host) || literal.iter().any(|ip| !is_of_proxy(ip) && self.closed.is_own(*ip, port))
    }
}

#[cfg(test)]
mod tests;
