//! The requests that a loopback port answers: those whose `Host` and `Origin` no page from elsewhere can send.
//!
//! A browser on this machine sends a page's requests to any address. A page whose own name resolves to 127.0.0.1 for a moment (DNS rebinding)
//! may even read the answers, and its requests carry that name in `Host`. So only names that no other site can own are answered.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The longest name that DNS has (RFC 1035, 2.3.4).
const MAX_NAME: usize = 253;

/// A host as `Host` and `Origin` name it, without its port. Names are in lower case and without a last dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A DNS name.
    Name(String),
    /// Four numbers with dots.
    Ipv4(Ipv4Addr),
    /// In brackets where a port may follow.
    Ipv6(Ipv6Addr),
}

impl Host {
    /// Returns true for `localhost`, addresses in 127.0.0.0/8, and `::1`.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Name(name) => name == "localhost",
            Self::Ipv4(address) => address.is_loopback(),
            Self::Ipv6(address) => address.is_loopback(),
        }
    }

    /// Reads `name`, `name:port`, `address` or `[address]:port`; nothing else.
    #[must_use]
    pub fn with_port(text: &str) -> Option<(Self, Option<u16>)> {
        if let Some(rest) = text.strip_prefix('[') {
            let (address, rest) = rest.split_once(']')?;
            return Some((Self::Ipv6(address.parse().ok()?), port(rest)?));
        }
        let end = text.find(':').unwrap_or(text.len());
        let (host, rest) = text.split_at_checked(end)?;
        Some((Self::name_or_ipv4(host)?, port(rest)?))
    }

    fn name_or_ipv4(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse() {
            return Some(Self::Ipv4(address));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let is_in_one = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(is_in_one);
        let is_name = name.len() <= MAX_NAME && name.split('.').all(is_label);
        // `127.1` and `0x7f.1` are addresses for some resolvers: a name ends with a label that is no number.
        let is_number =
            name.rsplit('.').next().is_some_and(|last| last.starts_with(|first: char| first.is_ascii_digit()));
        (is_name && !is_number).then_some(Self::Name(name))
    }
}

impl FromStr for Host {
    type Err = &'static str;

    /// A host as the command line names it: without a port, and an IPv6 address with or without brackets.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Ipv6(address));
        }
        match Self::with_port(text) {
            Some((host, None)) => Ok(host),
            _ => Err("a host name or an IP address without a port, such as admin.example.com"),
        }
    }
}

/// Nothing, or a colon and a number; `None` for anything else.
fn port(text: &str) -> Option<Option<u16>> {
    let Some(digits) = text.strip_prefix(':') else { return text.is_empty().then_some(None) };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok().map(Some)).flatten()
}

/// The reason why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostRefusal {
    /// `Host`, or the host of the request's URI, is missing, several, malformed or none that is answered.
    Host,
    /// `Origin` is not the host that is asked.
    Origin,
}

impl fmt::Display for HostRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => {
                "the Host of this request is not answered here: use localhost or a loopback address, or start Chancery with --admin-host NAME"
            }
            Self::Origin => "the Origin of this request is another site: pages from elsewhere are not answered",
        })
    }
}

/// The hosts that are answered in addition to loopback.
#[derive(Debug, Clone, Default)]
pub struct AllowedHosts(pub Vec<Host>);

impl AllowedHosts {
    /// Checks the values of all `Host` headers, the host of an absolute request URI, and the values of all `Origin` headers.
    ///
    /// # Errors
    /// The request is to be refused, for this reason.
    pub fn check<'h>(
        &self,
        hosts: impl IntoIterator<Item = &'h [u8]>,
        uri: Option<&str>,
        origins: impl IntoIterator<Item = &'h [u8]>,
    ) -> Result<(), HostRefusal> {
        let mut hosts = hosts.into_iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(HostRefusal::Host) };
        let host = std::str::from_utf8(host).ok().and_then(Host::with_port).ok_or(HostRefusal::Host)?;
        let named = uri.map_or(Some(host.clone()), Host::with_port).ok_or(HostRefusal::Host)?;
        let answered = |host: &Host| host.is_loopback() || self.0.contains(host);
        // RFC 9112, 3.2.2: the URI counts where it names a host. Where the two differ, one of them was put in by another.
        if !answered(&host.0) || named.0 != host.0 {
            return Err(HostRefusal::Host);
        }
        let mut origins = origins.into_iter();
        match (origins.next(), origins.next()) {
            (None, None) => Ok(()),
            (Some(origin), None) if is_same(origin, &host) => Ok(()),
            _ => Err(HostRefusal::Origin),
        }
    }
}

/// Returns true if an origin (RFC 6454, 6.2) is this host and port; a port that is not written is that of the origin's scheme.
fn is_same(origin: &[u8], (host, port): &(Host, Option<u16>)) -> bool {
    let split = std::str::from_utf8(origin).ok().and_then(|text| text.split_once("://"));
    let Some((scheme, rest)) = split else { return false };
    let default = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return false,
    };
    Host::with_port(rest)
        .is_some_and(|(other, its_port)| other == *host && its_port.unwrap_or(default) == port.unwrap_or(default))
}

#[cfg(test)]
mod tests;
