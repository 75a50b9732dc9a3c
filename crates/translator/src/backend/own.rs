//! Places of Chancery's own that no backend leads to, and the sockets that an operator lets Backends name.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use api::RefusalKind;
use ir::ClosedAddresses;
use ir::address::{ALLOW_LINK_LOCAL, is_localhost, is_loopback, of_pod_name};
use ir::infra::kubernetes::CONFIG_PORT;

use crate::hostname::Hostname;

#[cfg(test)]
mod tests;

/// The reason of a backend that leads nowhere, for its author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// None: it is only written wrong.
    pub(crate) reason: Option<RefusalKind>,
    pub(crate) words: String,
}

impl Refused {
    pub(crate) fn because(reason: RefusalKind, words: String) -> Self {
        Self { reason: Some(reason), words }
    }

    pub(crate) fn wrong(words: impl Into<String>) -> Self {
        Self { reason: None, words: words.into() }
    }
}

/// The one table of places that belong to Chancery and its proxies. Each port and folder that Chancery serves joins it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnPlaces {
    /// Folders whose sockets no `Backend` names, absolute, each by the name that was given and by the one without links.
    pub folders: Vec<PathBuf>,
    /// Folders below which a socket has to be that a `Backend` names, by both names as well. None: on this machine anywhere else, in a
    /// cluster nowhere.
    pub socket_roots: Vec<PathBuf>,
    /// Addresses that no backend leads to.
    pub addresses: ClosedAddresses,
}

impl OwnPlaces {
    /// Returns true if Chancery listens there, however the address is spelled.
    pub fn is_own(&self, address: IpAddr, port: u16) -> bool {
        self.addresses.is_own(address, port)
    }

    /// Returns true if Chancery listens there, on this port or on any.
    pub(crate) fn is_own_at(&self, address: IpAddr, port: Option<u16>) -> bool {
        let listeners = self.addresses.listeners.iter().map(std::net::SocketAddr::port);
        port.map_or_else(
            || listeners.into_iter().any(|port| self.is_own(address, port)),
            |port| self.is_own(address, port),
        )
    }

    /// Says why no backend leads to an address, in words that follow it, but for those of Chancery.
    pub(crate) fn refuses_address(&self, address: IpAddr) -> Option<&'static str> {
        self.addresses.refuses(address)
    }

    /// Returns true if no backend leads there.
    pub(crate) fn is_closed(&self, address: IpAddr, port: u16) -> bool {
        self.is_own(address, port) || self.refuses_address(address).is_some()
    }

    /// Says why a name and port may not be resolved and sent to. In a cluster `loopback` is false: there a proxy's own loopback shows
    /// its configuration.
    pub(crate) fn refuses_host(&self, host: &str, port: u16, loopback: bool) -> Option<Refused> {
        let own = |words| Some(Refused::because(RefusalKind::OwnAddress, words));
        let good = Hostname::parse(host).is_some() && !host.starts_with('*') && port > 0;
        if !good {
            return Some(Refused::wrong(format!("{host:?} port {port} is not a host to resolve")));
        }
        // 127.1, 2130706433 and 0x7f.1 are addresses to some resolvers; no name ends so (RFC 1123, 2.1).
        if host.rsplit('.').next().is_some_and(is_number) {
            let words = format!("{host:?} ends in a number, so that it is no name; write an address under ip");
            return Some(Refused::wrong(words));
        }
        if self.addresses.is_own_name(host) {
            return own(format!("{host:?} is a name of Chancery"));
        }
        if let Some(words) = self.addresses.refuses_name(host) {
            return Some(Refused::because(RefusalKind::LinkLocal, format!("{host:?} {words}; {ALLOW_LINK_LOCAL}")));
        }
        if let Some(refused) = of_pod_name(host).into_iter().find_map(|ip| self.refuses_pod(host, (ip, port), loopback))
        {
            return Some(refused);
        }
        let is_local = is_localhost(host);
        if is_local && !loopback {
            return own(format!("{host:?} is a name of the loopback address"));
        }
        if is_local
            && [[127, 0, 0, 1].into(), IpAddr::from(std::net::Ipv6Addr::LOCALHOST)]
                .iter()
                .any(|ip| self.is_own(*ip, port))
        {
            return own(format!("Chancery listens at {host:?} port {port}"));
        }
        // Nothing is known of what the name leads to: the way to a proxy's own loopback is shut.
        let is_shown = port == CONFIG_PORT && !loopback;
        let words = || format!("{host:?} port {CONFIG_PORT} may be the proxy's own, which shows its configuration");
        is_shown.then(words).and_then(own)
    }

    /// Says why a name of a Pod is not resolved, which stands for this address.
    fn refuses_pod(&self, host: &str, (ip, port): (IpAddr, u16), loopback: bool) -> Option<Refused> {
        if self.is_own(ip, port) || (is_loopback(ip) || ip.is_unspecified()) && !loopback {
            let words = format!("{host:?} is a name of {ip}, at which Chancery or the proxy itself listens");
            return Some(Refused::because(RefusalKind::OwnAddress, words));
        }
        let words = self.refuses_address(ip)?;
        let words = format!("{host:?} is a name of {ip}, which {words}; {ALLOW_LINK_LOCAL}");
        Some(Refused::because(RefusalKind::LinkLocal, words))
    }

    /// Returns true if no `Backend` on this machine leads to this path, which has no links.
    pub fn is_closed_path(&self, path: &str) -> bool {
        self.refuses_path(path, true).is_some()
    }

    /// Says why a socket of the file system may not be a backend. `here`: proxies run on this machine, and `resolved` is where the path leads
    /// after links, as the source of the objects found it, or its words why that is not known.
    pub(crate) fn refuses_socket(&self, path: &str, here: bool, resolved: Result<&str, &str>) -> Option<String> {
        if let Some(words) = self.refuses_path(path, here) {
            return Some(format!("{path:?} {words}"));
        }
        if !here {
            return None;
        }
        match resolved {
            Ok(resolved) => {
                let words = self.refuses_path(resolved, here)?;
                Some(format!("{path:?} is a link to {resolved:?}, which {words}"))
            }
            Err(words) => Some(format!("{path:?} {words}")),
        }
    }

    fn refuses_path(&self, path: &str, here: bool) -> Option<String> {
        if let Some(words) = ir::socket::refuses_path(path, &self.folders) {
            return Some(words);
        }
        let is_below = |folders: &[PathBuf]| folders.iter().any(|folder| Path::new(path).starts_with(folder));
        match &*self.socket_roots {
            [] if here => None,
            [] => Some(
                "is a Unix socket, which is not allowed here; the operator allows folders with --backend-sockets"
                    .to_owned(),
            ),
            roots => (!is_below(roots))
                .then(|| "is not below a folder that the operator allows (--backend-sockets)".to_owned()),
        }
    }
}

/// Returns true if a label is a number in decimal, octal or hexadecimal digits, as the C library reads addresses (inet_aton(3)).
fn is_number(label: &str) -> bool {
    let hexadecimal = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    match hexadecimal {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}
