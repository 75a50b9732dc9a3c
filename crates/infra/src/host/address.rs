//! At which addresses clients reach a proxy, for the Gateway's status.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use nix::ifaddrs::getifaddrs;

/// Addresses of documentation networks (RFC 5737, RFC 3849): the route to them is the default route.
const OUTSIDE: [(&str, &str); 2] = [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")];

/// The addresses that clients can use, sorted: those that were asked for and are here; for every interface (nothing asked, or an
/// unspecified address) 127.0.0.1 and the address by which this machine reaches others, where it has one.
pub(crate) fn client_addresses(asked: &[IpAddr], ports: &[u16]) -> Vec<SocketAddr> {
    let given = asked.iter().copied().filter(|address| !address.is_unspecified());
    let mut addresses: Vec<IpAddr> = given.filter(|address| is_here(*address)).collect();
    if asked.is_empty() || asked.iter().any(IpAddr::is_unspecified) {
        addresses.push(IpAddr::V4(Ipv4Addr::LOCALHOST));
        addresses.extend(outside_address());
    }
    let pairs = addresses.iter().flat_map(|address| ports.iter().map(|port| SocketAddr::new(*address, *port)));
    let mut pairs: Vec<SocketAddr> = pairs.collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// The addresses of these that this machine does not have: nothing can be bound there.
pub(crate) fn missing_addresses(asked: &[IpAddr]) -> Vec<IpAddr> {
    asked.iter().copied().filter(|address| !is_here(*address)).collect()
}

/// Returns the addresses of this machine's interfaces; none if the system does not list them. Link-local ones of IPv6 are left out: without the scope of an
/// interface they reach nothing, and each container that starts brings one.
pub fn machine_addresses() -> BTreeSet<IpAddr> {
    let found = getifaddrs().into_iter().flatten().filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
    });
    let has_scope = |address: &IpAddr| matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    found.filter(|address| !has_scope(address)).collect()
}

/// Binding a UDP socket asks nobody and keeps no TCP port; only the kernel's own word that there is no such address counts.
fn is_here(address: IpAddr) -> bool {
    !UdpSocket::bind((address, 0)).is_err_and(|error| error.kind() == ErrorKind::AddrNotAvailable)
}

/// Connecting a UDP socket sends nothing and makes the kernel choose the address that it would send from.
fn outside_address() -> Option<IpAddr> {
    OUTSIDE.iter().find_map(|(any, target)| {
        let socket = UdpSocket::bind(any).ok()?;
        socket.connect(target).ok()?;
        let address = socket.local_addr().ok()?.ip();
        (!address.is_unspecified() && !address.is_loopback()).then_some(address)
    })
}

#[cfg(test)]
mod tests;
