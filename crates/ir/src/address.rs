//! Addresses that nothing leads to on behalf of an author: those at which Chancery listens; link-local ones and those of clouds' metadata services,
//! which give a machine its credentials, unless the operator allows it.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

#[cfg(test)]
mod tests;

const LINK_LOCAL: &str = "is a link-local address, where clouds give a machine its credentials";
const METADATA: &str = "is an address of a cloud's metadata service, which gives a machine its credentials";

/// Metadata services outside the link-local ranges: Alibaba Cloud, Azure (wire server), Oracle Cloud (classic).
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];

/// The same of IPv6: AWS (instances, Pods), Google Cloud.
const METADATA_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

/// Names of metadata services, in lower case.
const METADATA_NAMES: [&str; 9] = [
    "instance-data",
    "instance-data.ec2.internal",
    "metadata",
    "metadata.azure.internal",
    "metadata.goog",
    "metadata.google.internal",
    "metadata.oraclecloud.com",
    "metadata.platformequinix.com",
    "metadata.tencentyun.com",
];

/// The setting that lets backends lead to such addresses.
pub const ALLOW_LINK_LOCAL: &str = "the operator allows it with extensionApis.enableLinkLocalBackends of the static configuration, or --allow-link-local";

/// The addresses, as this process knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClosedAddresses {
    /// Addresses at which Chancery listens.
    pub listeners: BTreeSet<SocketAddr>,
    /// Addresses of this machine: a listener on all addresses is reached by each.
    pub machine: BTreeSet<IpAddr>,
    /// Ports of Chancery's Service at each node of a cluster. Which addresses nodes have is not known here, so they are closed at each address.
    pub node_ports: BTreeSet<u16>,
    /// Name and namespace of each Service at which Chancery is reached, in a cluster.
    pub services: BTreeSet<(Box<str>, Box<str>)>,
    /// Backends may lead to link-local addresses and to the metadata services of clouds.
    pub link_local: bool,
}

impl ClosedAddresses {
    /// Returns true if Chancery listens there, however the address is spelled. One of IPv6 that stands for one of IPv4 is read as that too.
    #[must_use]
    pub fn is_own(&self, address: IpAddr, port: u16) -> bool {
        let embedded = if let IpAddr::V6(address) = address { embedded(address) } else { Vec::new() };
        self.is_own_as_spelled(address, port)
            || embedded.into_iter().any(|address| self.is_own_as_spelled(address.into(), port))
    }

    fn is_own_as_spelled(&self, address: IpAddr, port: u16) -> bool {
        let address = address.to_canonical();
        // A connection to the unspecified address reaches this machine (Linux). A link-local address may be one of this machine: which it has is not followed.
        let is_link_local = || matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
        let is_here =
            || address.is_loopback() || address.is_unspecified() || is_link_local() || self.machine.contains(&address);
        let leads_there = |listener: &SocketAddr| {
            let own = listener.ip().to_canonical();
            own == address || own.is_unspecified() && is_here() || address.is_unspecified() && own.is_loopback()
        };
        self.node_ports.contains(&port)
            || self.listeners.iter().any(|listener| listener.port() == port && leads_there(listener))
    }

    /// Returns true if Chancery listens on a port at any address.
    #[must_use]
    pub fn has_port(&self, port: u16) -> bool {
        self.node_ports.contains(&port) || self.listeners.iter().any(|listener| listener.port() == port)
    }

    /// Returns true if a name is one that a cluster's resolver gives to Chancery's Service or its replicas: with or without `svc` and what follows it,
    /// short in its own namespace, or of a Pod there.
    #[must_use]
    pub fn is_own_name(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let labels: Vec<&str> = host.split('.').collect();
        self.services.iter().any(|(service, namespace)| {
            let is_here = |rest: &[&str]| match rest {
                [first, second] | [first, second, "svc", ..] => **first == **service && **second == **namespace,
                [_, second, "pod", ..] => **second == **namespace,
                _ => false,
            };
            *host == **service || (0..labels.len()).filter_map(|at| labels.get(at..)).any(is_here)
        })
    }

    /// Says why nothing leads to an address, in words that follow it, but for those of Chancery.
    #[must_use]
    pub fn refuses(&self, address: IpAddr) -> Option<&'static str> {
        refusal(address).filter(|_| !self.link_local)
    }

    /// Says the same of a name.
    #[must_use]
    pub fn refuses_name(&self, host: &str) -> Option<&'static str> {
        refusal_of_name(host).filter(|_| !self.link_local)
    }
}

/// Returns true for `localhost` and the names below it (RFC 6761, 6.3).
#[must_use]
pub fn is_localhost(host: &str) -> bool {
    let host = host.trim_end_matches('.');
    host.rsplit('.').next().is_some_and(|last| last.eq_ignore_ascii_case("localhost"))
}

/// Returns the addresses that a text stands for without any resolver: an address in one of its spellings, in brackets or with a zone too, or a name of
/// the loopback address. None: it is a name, and resolvers say to where it leads.
#[must_use]
pub fn literal(host: &str) -> Vec<IpAddr> {
    let host = host.trim();
    let bare = host.strip_prefix('[').map_or(host, |rest| rest.strip_suffix(']').unwrap_or(rest));
    let bare = bare.split('%').next().unwrap_or_default();
    if let Ok(address) = bare.parse::<IpAddr>() {
        return vec![address];
    }
    if is_localhost(bare) {
        return vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    }
    numbers(bare.trim_end_matches('.')).into_iter().map(IpAddr::from).collect()
}

/// Returns the addresses that a cluster's resolver may give to a name of a Pod, `10-244-1-1.shop.pod.cluster.local`: resolvers read the address from the name, in
/// each namespace, without a look at the Pods.
#[must_use]
pub fn of_pod_name(host: &str) -> Vec<IpAddr> {
    let labels: Vec<&str> = host.trim().trim_end_matches('.').split('.').collect();
    let is_pod = |triple: &&[&str]| matches!(triple, [_, _, word] if word.eq_ignore_ascii_case("pod"));
    let names = labels.windows(3).filter(is_pod).filter_map(|triple| triple.first());
    names
        .filter_map(|name| ['.', ':'].iter().find_map(|mark| name.replace('-', &mark.to_string()).parse().ok()))
        .collect()
}

/// Returns true for an address of the loopback interface, in each spelling.
#[must_use]
pub fn is_loopback(address: IpAddr) -> bool {
    let embedded = if let IpAddr::V6(address) = address { embedded(address) } else { Vec::new() };
    address.is_loopback() || embedded.iter().any(Ipv4Addr::is_loopback)
}

/// Reads one to four numbers in decimal, octal or hexadecimal digits, of which the last fills what is left, as the C library does (inet_aton(3)).
fn numbers(text: &str) -> Option<Ipv4Addr> {
    let parts = text.split('.').map(number).collect::<Option<Vec<u32>>>()?;
    let (last, front) = parts.split_last()?;
    let bits = 32_u32.checked_sub(8 * u32::try_from(front.len()).ok()?).filter(|bits| *bits > 0)?;
    let fits = u64::from(*last) < 1 << bits && front.iter().all(|part| *part < 256);
    let front = front.iter().zip([24, 16, 8]).map(|(part, place)| part << place);
    fits.then(|| Ipv4Addr::from(front.fold(*last, |sum, part| sum | part)))
}

fn number(text: &str) -> Option<u32> {
    let lower = text.to_ascii_lowercase();
    let (digits, base) = match lower.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None if lower.len() > 1 && lower.starts_with('0') => (&*lower, 8),
        None => (&*lower, 10),
    };
    digits.bytes().all(|byte| byte.is_ascii_alphanumeric()).then(|| u32::from_str_radix(digits, base).ok()).flatten()
}

/// Says why no backend leads to an address, in words that follow it; none if one may. Addresses of IPv6 that stand for one of IPv4 are read as that.
fn refusal(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => refusal_v4(address),
        IpAddr::V6(address) => {
            let own = if address.is_unicast_link_local() {
                Some(LINK_LOCAL)
            } else {
                METADATA_V6.contains(&address).then_some(METADATA)
            };
            own.or_else(|| embedded(address).into_iter().find_map(refusal_v4))
        }
    }
}

/// Says the same of a name.
fn refusal_of_name(host: &str) -> Option<&'static str> {
    let host = host.trim_end_matches('.');
    let is_known = METADATA_NAMES.iter().any(|name| name.eq_ignore_ascii_case(host));
    is_known.then_some("is a name of a cloud's metadata service, which gives a machine its credentials")
}

fn refusal_v4(address: Ipv4Addr) -> Option<&'static str> {
    if address.is_link_local() { Some(LINK_LOCAL) } else { METADATA_V4.contains(&address).then_some(METADATA) }
}

/// Returns the addresses of IPv4 that one of IPv6 may lead to.
fn embedded(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match (a, b, c, d, e, f) {
        // Mapped and compatible (RFC 4291, 2.5.5), translated (RFC 2765).
        (0, 0, 0, 0, 0, 0 | 0xffff) | (0, 0, 0, 0, 0xffff, 0) => vec![v4(g, h)],
        // NAT64 (RFC 6052, RFC 8215), with a prefix of each length that translators take.
        (0x64, 0xff9b, ..) => NAT64_PREFIXES.iter().map(|prefix| translated(address, *prefix)).collect(),
        // 6to4 (RFC 3056).
        (0x2002, high, low, ..) => vec![v4(high, low)],
        // Teredo (RFC 4380): the server, and the client with its bits turned round.
        (0x2001, 0, high, low, ..) => vec![v4(high, low), v4(!g, !h)],
        // ISATAP (RFC 5214).
        (.., 0 | 0x200, 0x5efe) => vec![v4(g, h)],
        _ => Vec::new(),
    }
}

/// Octets of prefixes before an address of IPv4 (RFC 6052, 2.2).
const NAT64_PREFIXES: [usize; 6] = [4, 5, 6, 7, 8, 12];

/// Returns the four octets after a prefix. Octet 8 is never one of them (RFC 6052, 2.2).
fn translated(address: Ipv6Addr, prefix: usize) -> Ipv4Addr {
    let octets = address.octets().into_iter().enumerate();
    let mut rest = octets.filter(|(at, _)| *at >= prefix && *at != 8).map(|(_, octet)| octet);
    let mut next = || rest.next().unwrap_or_default();
    Ipv4Addr::new(next(), next(), next(), next())
}
