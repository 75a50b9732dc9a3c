//! `Gateway.spec.addresses`: what each entry asks for, and which address it gets (GEP-5093).

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use api::Gateway;
use api::gateway::{AddressType, GatewaySpecAddress};
use store::ProxyFacts;

use crate::listener::Refusal;

/// The address of a Kubernetes Service in its cluster.
const CLUSTER: &str = "Cluster";

/// Says nothing of where an address is reachable; every implementation knows it.
const SENTINEL: &str = "testing.x-k8s.io/sentinel";

/// Of `Programmed`: no entry has its address.
const NOT_ASSIGNED: &str = "AddressNotAssigned";

/// Of `Accepted`: an address is of another type.
const UNSUPPORTED: &str = "UnsupportedAddress";

/// Of `Programmed`: an address that is named cannot be had.
const NOT_USABLE: &str = "AddressNotUsable";

/// From where an address shall be reachable, in the order in which entries choose: of two that can have the same address the one that
/// can have no other goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Cluster,
    Sentinel,
    Any,
}

/// An entry that can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    /// None: any.
    value: Option<IpAddr>,
    scope: Scope,
}

/// What the entries ask for, or why one cannot be had whatever the proxies get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AddressPlan {
    entries: Vec<Result<Request, Refusal>>,
    /// Their numbers as written.
    numbers: Vec<usize>,
    /// Proxies run on this machine, and bind them all: a Service asks for the first only.
    file_mode: bool,
}

/// An address of a Gateway, and from where it is reachable.
pub(crate) type Given = (IpAddr, &'static str);

/// Which entries have an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Assignment {
    /// Sorted, each once.
    pub(crate) given: Vec<Given>,
    /// Entries without one, by their number.
    pub(crate) lacking: Vec<(usize, Refusal)>,
}

impl AddressPlan {
    /// What a Gateway asks for. With files there is no Service whose address it could have.
    pub(crate) fn of(gateway: &Gateway, file_mode: bool) -> Self {
        let entries = gateway.spec.addresses.iter().enumerate();
        let entries: Vec<_> = entries.map(|(index, entry)| request(index, entry, file_mode)).collect();
        let written = |index| gateway.meta.written_index("spec.addresses", index);
        Self { numbers: (0..entries.len()).map(written).collect(), entries, file_mode }
    }

    /// Nothing is asked for: any address will do.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn requests(&self) -> impl Iterator<Item = &Request> {
        self.entries.iter().flatten()
    }

    /// Values that are asked for, and whether any address will do as well: none of them in the cluster.
    fn values(&self) -> (Vec<IpAddr>, bool) {
        let outside = || self.requests().filter(|request| request.scope != Scope::Cluster);
        let mut values: Vec<IpAddr> = outside().filter_map(|request| request.value).collect();
        values.sort_unstable();
        values.dedup();
        (values, outside().any(|request| request.value.is_none()))
    }

    /// Where listeners bind, sorted; empty is everywhere. In a cluster the addresses are those of the Service.
    pub(crate) fn bound(&self) -> Vec<IpAddr> {
        let (values, any) = self.values();
        if any || !self.file_mode { Vec::new() } else { values }
    }

    /// The same one by one, but for those that are missing: none stands for everywhere. Empty where none is left.
    pub(crate) fn places(&self, is_missing: impl Fn(&IpAddr) -> bool) -> Vec<Option<IpAddr>> {
        let bound = self.bound();
        if bound.is_empty() {
            return vec![None];
        }
        bound.into_iter().filter(|address| !is_missing(address)).map(Some).collect()
    }

    /// What proxies on this machine, or their Service, shall have: an unspecified one is any.
    pub(crate) fn asked(&self) -> Vec<IpAddr> {
        let (mut values, any) = self.values();
        if any && self.file_mode && !values.is_empty() {
            values.push(Ipv4Addr::UNSPECIFIED.into());
        }
        values
    }

    /// Values that are asked for in the cluster.
    pub(crate) fn asked_in_cluster(&self) -> Vec<IpAddr> {
        let inside = self.requests().filter(|request| request.scope == Scope::Cluster);
        inside.filter_map(|request| request.value).collect()
    }

    /// How many addresses of the cluster are asked for.
    pub(crate) fn count_in_cluster(&self) -> usize {
        self.requests().filter(|request| request.scope == Scope::Cluster).count()
    }

    /// Nobody outside the cluster shall reach the Gateway.
    pub(crate) fn is_inside_only(&self) -> bool {
        self.requests().next().is_some() && self.requests().all(|request| request.scope == Scope::Cluster)
    }

    /// Addresses are asked for, and none of them can be had: this must not become all.
    pub(crate) fn is_void(&self) -> bool {
        !self.entries.is_empty() && self.requests().next().is_none()
    }

    /// Entries that cannot be had whatever the proxies get, but for those of which one costs the Gateway ([`unsupported`]).
    pub(crate) fn refused(&self) -> impl Iterator<Item = &Refusal> {
        self.entries.iter().filter_map(|entry| entry.as_ref().err()).filter(|refusal| refusal.reason != UNSUPPORTED)
    }

    /// Whether it depends on the proxies that an entry has its address.
    pub(crate) fn is_possible(&self, index: usize) -> bool {
        self.entries.get(index).is_some_and(Result::is_ok)
    }

    /// Which entries have an address; none as long as nothing is known of the proxies' addresses. Without entries all addresses are
    /// given.
    pub(crate) fn assign(&self, facts: Option<&ProxyFacts>) -> Option<Assignment> {
        let refused = self.entries.iter().enumerate().filter_map(|(index, entry)| Some((index, entry.clone().err()?)));
        let lacking: Vec<_> = refused.collect();
        if self.is_void() {
            return Some(Assignment { given: Vec::new(), lacking });
        }
        let pool = Pool::of(facts.filter(|facts| is_known(facts))?);
        let mut assignment = Assignment { given: Vec::new(), lacking };
        if self.entries.is_empty() {
            assignment.given = pool.outside.iter().map(|address| (*address, pool.routability(*address))).collect();
            return Some(assignment);
        }
        let requests = self.entries.iter().enumerate();
        let mut requests: Vec<_> = requests.filter_map(|(index, entry)| Some((index, *entry.as_ref().ok()?))).collect();
        requests.sort_by_key(|(_, request)| (request.value.is_none(), request.scope));
        for (index, request) in requests {
            let is_free = |address: &IpAddr| assignment.given.iter().all(|(given, _)| given != address);
            match pool.candidates(request).find(is_free) {
                Some(address) => assignment.given.push((address, pool.routability_for(request.scope, address))),
                None => assignment.lacking.push((index, pool.lack(index, request))),
            }
        }
        assignment.given.sort_unstable();
        assignment.lacking.sort_by_key(|(index, _)| *index);
        Some(assignment)
    }

    /// What of the addresses keeps a Gateway from being programmed.
    pub(crate) fn fault(&self, facts: Option<&ProxyFacts>) -> Option<Refusal> {
        if self.entries.is_empty() {
            return None;
        }
        let assignment = self.assign(facts);
        // Where one was not tried nobody knows that none can be had.
        let outside = self.requests().filter(|request| request.scope == Scope::Any && request.value.is_some());
        let is_tried = self.file_mode || outside.count() < 2;
        if let Some(assignment) = assignment.as_ref().filter(|assignment| is_tried && assignment.given.is_empty()) {
            return Some(Refusal::new(NOT_ASSIGNED, self.words(&assignment.lacking)));
        }
        let lacking = assignment.iter().flat_map(|assignment| assignment.lacking.iter().map(|(_, refusal)| refusal));
        lacking.chain(self.refused()).find(|refusal| refusal.reason == NOT_USABLE).cloned()
    }

    /// What is told of entries without an address.
    pub(crate) fn words(&self, lacking: &[(usize, Refusal)]) -> String {
        match lacking {
            [(_, refusal)] if self.entries.len() == 1 => refusal.text.to_string(),
            _ => {
                let number = |index: usize| self.numbers.get(index).copied().unwrap_or(index);
                let one = |(index, refusal): &(usize, Refusal)| {
                    format!("spec.addresses[{}]: {}", number(*index), refusal.text)
                };
                lacking.iter().map(one).collect::<Vec<_>>().join("; ")
            }
        }
    }
}

/// An entry of a type that is not supported, which costs the Gateway.
pub(crate) fn unsupported(gateway: &Gateway) -> Option<Refusal> {
    gateway.spec.addresses.iter().enumerate().find_map(|(index, entry)| of_another_type(index, entry))
}

fn of_another_type(index: usize, entry: &GatewaySpecAddress) -> Option<Refusal> {
    let text = format!("addresses of type {} are not supported, IPAddress is", entry.address_type);
    let refusal = Refusal::new(UNSUPPORTED, text).at(format!("spec.addresses[{index}].type"));
    (entry.address_type != AddressType::IpAddress).then_some(refusal)
}

fn request(index: usize, entry: &GatewaySpecAddress, file_mode: bool) -> Result<Request, Refusal> {
    if let Some(refusal) = of_another_type(index, entry) {
        return Err(refusal);
    }
    let at = |refusal: Refusal, field: &str| refusal.at(format!("spec.addresses[{index}].{field}"));
    let scope = scope(entry.routability.as_deref().unwrap_or_default(), file_mode);
    let scope = scope.map_err(|text| at(Refusal::new(NOT_ASSIGNED, text), "routability"))?;
    let value = match entry.value.as_deref().filter(|value| !value.is_empty()).map(str::parse::<IpAddr>) {
        None => None,
        Some(Ok(address)) => Some(address).filter(|address| !address.is_unspecified()),
        Some(Err(_)) => {
            let text = format!("{:?} is not an IP address", entry.value.as_deref().unwrap_or_default());
            return Err(at(Refusal::new(NOT_USABLE, text), "value"));
        }
    };
    Ok(Request { value, scope })
}

fn scope(routability: &str, file_mode: bool) -> Result<Scope, String> {
    match routability {
        "" => Ok(Scope::Any),
        SENTINEL => Ok(Scope::Sentinel),
        CLUSTER if file_mode => {
            Err("routability Cluster is that of a Kubernetes Service, and the proxies of files have none".to_owned())
        }
        CLUSTER => Ok(Scope::Cluster),
        word => {
            let known = if file_mode { "leave it out" } else { "leave it out, or write Cluster" };
            Err(format!("routability {word:?} is not known here: no address is given for it; {known}"))
        }
    }
}

/// Whether anything is known about addresses, that there are none too.
fn is_known(facts: &ProxyFacts) -> bool {
    let none = facts.addresses.is_empty() && facts.cluster_addresses.is_empty() && facts.hostnames.is_empty();
    !none || facts.unassigned.is_some() || !facts.missing_addresses.is_empty()
}

/// The addresses that the proxies of a Gateway have.
struct Pool<'a> {
    facts: &'a ProxyFacts,
    /// Where clients are to come: in the cluster only where there is no other way.
    outside: BTreeSet<IpAddr>,
}

impl<'a> Pool<'a> {
    fn of(facts: &'a ProxyFacts) -> Self {
        Self { facts, outside: facts.addresses.iter().map(SocketAddr::ip).collect() }
    }

    fn routability(&self, address: IpAddr) -> &'static str {
        if self.facts.cluster_addresses.contains(&address) { CLUSTER } else { "" }
    }

    fn routability_for(&self, scope: Scope, address: IpAddr) -> &'static str {
        if scope == Scope::Sentinel { SENTINEL } else { self.routability(address) }
    }

    fn candidates(&self, request: Request) -> impl Iterator<Item = IpAddr> {
        let inside = move |scope| scope == Scope::Cluster || (scope == Scope::Any && request.value.is_some());
        let outside = self.outside.iter().filter(move |_| request.scope != Scope::Cluster);
        let cluster = self.facts.cluster_addresses.iter().filter(move |_| inside(request.scope));
        outside.chain(cluster).copied().filter(move |address| request.value.is_none_or(|value| value == *address))
    }

    fn lack(&self, index: usize, request: Request) -> Refusal {
        let field = if request.value.is_some() { ".value" } else { "" };
        let reason = if request.value.is_some() && request.scope == Scope::Any { NOT_USABLE } else { NOT_ASSIGNED };
        Refusal::new(reason, self.why(request)).at(format!("spec.addresses[{index}]{field}"))
    }

    fn why(&self, request: Request) -> Arc<str> {
        if let Some(value) = request.value {
            let missing = self.facts.missing_addresses.iter().find(|(address, _)| *address == value);
            let taken = || format!("the Gateway has no address {value}, or another entry has it").into();
            return missing.map_or_else(taken, |(_, words)| Arc::clone(words));
        }
        let ProxyFacts { cluster_addresses: inside, hostnames, unassigned, .. } = self.facts;
        let all =
            |found: &mut dyn Iterator<Item = &IpAddr>| found.map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match (request.scope, hostnames.first(), unassigned) {
            (Scope::Cluster, ..) if inside.is_empty() => "the Service has no address in the cluster".into(),
            (Scope::Cluster, ..) => {
                format!("in the cluster the Service has no more than {}", all(&mut inside.iter())).into()
            }
            (_, _, Some(words)) => Arc::clone(words),
            (_, Some(name), _) if self.outside.is_empty() => {
                format!("there is a host name, {name}, and no address; leave out spec.addresses to be reached at it")
                    .into()
            }
            _ => format!("there are no more addresses than {}", all(&mut self.outside.iter())).into(),
        }
    }
}

#[cfg(test)]
mod tests;
