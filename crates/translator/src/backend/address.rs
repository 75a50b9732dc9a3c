//! Link-local addresses and those of clouds' metadata services, which give a machine its credentials: no backend leads to them unless the operator
//! allows it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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

/// Says why no backend leads to an address, in words that follow it; none if one may. Addresses of IPv6 that stand for one of IPv4 are read as that.
pub(crate) fn refusal(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => refusal_v4(address),
        IpAddr::V6(address) => {
            let own = if address.is_unicast_link_local() {
                Some(LINK_LOCAL)
            } else {
                METADATA_V6.contains(&address).then_some(METADATA)
            };
            own.or_else(|| embedded(address).into_iter().flatten().find_map(refusal_v4))
        }
    }
}

/// Says the same of a name.
pub(crate) fn refusal_of_name(host: &str) -> Option<&'static str> {
    let host = host.trim_end_matches('.');
    let is_known = METADATA_NAMES.iter().any(|name| name.eq_ignore_ascii_case(host));
    is_known.then_some("is a name of a cloud's metadata service, which gives a machine its credentials")
}

fn refusal_v4(address: Ipv4Addr) -> Option<&'static str> {
    if address.is_link_local() { Some(LINK_LOCAL) } else { METADATA_V4.contains(&address).then_some(METADATA) }
}

/// Returns the addresses of IPv4 that one of IPv6 may lead to.
fn embedded(address: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let v4 = |high: u16, low: u16| {
        let ([one, two], [three, four]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(one, two, three, four)
    };
    match (a, b, c, d, e, f) {
        // Mapped and compatible (RFC 4291, 2.5.5), translated (RFC 2765).
        (0, 0, 0, 0, 0, 0 | 0xffff) | (0, 0, 0, 0, 0xffff, 0) => [Some(v4(g, h)), None],
        // NAT64 (RFC 6052, RFC 8215).
        (0x64, 0xff9b, ..) => [Some(v4(g, h)), None],
        // 6to4 (RFC 3056).
        (0x2002, high, low, ..) => [Some(v4(high, low)), None],
        // Teredo (RFC 4380): the server, and the client with its bits turned round.
        (0x2001, 0, high, low, ..) => [Some(v4(high, low)), Some(v4(!g, !h))],
        // ISATAP (RFC 5214).
        (.., 0 | 0x200, 0x5efe) => [Some(v4(g, h)), None],
        _ => [None, None],
    }
}
