//! Whether a proxy may have a port, told before it asks: the right to bind it, and who has it already. Nothing is bound
//! here, so that a question never takes a port away from the proxy that it is asked for.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use ir::{FleetName, Infra};

/// Bit of `CAP_NET_BIND_SERVICE` (capabilities(7)).
const NET_BIND_SERVICE: u32 = 10;

/// Ports below this one need the right, where the kernel does not say otherwise (ip(7)).
const UNPRIVILEGED_START: u16 = 1024;

/// Bytes of a system file that are read: 150 per socket in `/proc/net/tcp`, which may have many.
const MAX_TABLE: usize = 64 << 20;

/// A socket that listens, as `/proc/net/tcp` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listening {
    address: IpAddr,
    port: u16,
    inode: u64,
}

/// Whether a proxy started by this process from the program `envoy` may bind `port`; port 0 and unknown facts are allowed.
///
/// # Errors
/// Why not and what helps, for people.
pub fn port_permission(port: u16, envoy: Option<&Path>) -> Result<(), String> {
    let first_free = read_number("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap_or(UNPRIVILEGED_START);
    if port == 0 || port >= first_free || envoy.is_some_and(has_file_right) {
        return Ok(());
    }
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return Ok(()) };
    if child_may_bind(&status, rustix::process::geteuid().is_root()) {
        return Ok(());
    }
    let program = envoy.map_or_else(|| "the envoy program".to_owned(), |path| path.display().to_string());
    Err(format!(
        "port {port} is below {first_free} and Envoy may not bind it; use a higher port, lower the limit with \
         `sysctl net.ipv4.ip_unprivileged_port_start={port}`, or give the right with \
         `setcap cap_net_bind_service=+ep {program}`"
    ))
}

/// Ports that the kernel gives to outgoing connections (`ip_local_port_range`): one that is listened on is lost to these.
const OUTGOING_RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// A Gateway may have so many of them before it is warned of: 1 of 441 that there are by default.
const MANY_OUTGOING: usize = 64;

/// Says what is wrong with many ports that the kernel gives to outgoing connections of all programs of the machine.
pub(crate) fn outgoing_ports<'p>(ports: impl Iterator<Item = &'p u16>) -> Option<String> {
    let text = std::fs::read_to_string(OUTGOING_RANGE).ok()?;
    let mut numbers = text.split_whitespace().filter_map(|number| number.parse::<u16>().ok());
    let (first, last) = (numbers.next()?, numbers.next()?);
    let count = ports.filter(|port| (first..=last).contains(*port)).count();
    (count > MANY_OUTGOING).then(|| {
        format!(
            "{count} ports of this Gateway are among those that the kernel gives to outgoing connections of all programs ({first} to {last}), \
             which lack them; use other ports, or another range with `sysctl net.ipv4.ip_local_port_range`"
        )
    })
}

/// Which sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Those that accept connections.
    Tcp,
    /// Those that take datagrams of anybody.
    Udp,
}

impl Table {
    /// Where the kernel shows them, and the state that they have there (proc(5)): `TCP_LISTEN`, and `TCP_CLOSE` of what is not connected.
    fn of(self) -> ([&'static str; 2], &'static str) {
        match self {
            Self::Tcp => (["/proc/net/tcp", "/proc/net/tcp6"], "0A"),
            Self::Udp => (["/proc/net/udp", "/proc/net/udp6"], "07"),
        }
    }

    /// What the kernel shows now; of a table that cannot be read, nothing.
    fn sockets(self) -> Vec<Listening> {
        let (paths, state) = self.of();
        let tables = paths.map(|path| read_bounded(Path::new(path)));
        tables.iter().flat_map(|table| table.lines().filter_map(|line| parse_listening(line, state))).collect()
    }
}

/// What listens on this machine now. Read once for all ports that are asked for: the tables may be long, and to find out whose a socket is
/// takes a look at every process.
pub struct Listeners {
    /// All but our own process's.
    others: Vec<Listening>,
    /// The processes that have sockets, by these.
    owners: OnceCell<BTreeMap<u64, u32>>,
}

impl Listeners {
    /// All but those of the process `ours`.
    #[must_use]
    pub fn read(table: Table, ours: Option<u32>) -> Self {
        let own = || ours.map(inodes).unwrap_or_default();
        let before = own();
        let mut others = table.sockets();
        // it may have opened some meanwhile, or closed some
        let own = &own() | &before;
        others.retain(|socket| !own.contains(&socket.inode));
        Self { others, owners: OnceCell::new() }
    }

    /// Whether nobody listens on `port` at an address that collides with one of `addresses` (none: every interface).
    ///
    /// # Errors
    /// Who has the port, for people; the process is named where this user may see it.
    pub fn is_free(&self, addresses: &[IpAddr], port: u16) -> Result<(), String> {
        let taken = self.others.iter().find(|socket| socket.port == port && collides(socket.address, addresses));
        let Some(taken) = taken else { return Ok(()) };
        let who = self.owner(taken.inode);
        let who = who.map_or_else(|| "another process".to_owned(), |(pid, name)| format!("{name} (process {pid})"));
        Err(format!("port {port} is taken by {who}, which listens at {}; end it or use another port", taken.address))
    }

    fn owner(&self, inode: u64) -> Option<(u32, String)> {
        let pid = *self.owners.get_or_init(owners).get(&inode)?;
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Some((pid, name.trim().escape_default().to_string()))
    }
}

/// Where a proxy takes datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// None: every interface.
    addresses: Vec<IpAddr>,
    ports: Vec<u16>,
}

/// The same of all proxies on this machine that take any.
pub(crate) type Datagrams = BTreeMap<FleetName, Claim>;

impl Claim {
    pub(crate) fn of(infra: &Infra) -> Self {
        let any = infra.addresses.iter().any(IpAddr::is_unspecified);
        Self { addresses: if any { Vec::new() } else { infra.addresses.clone() }, ports: infra.udp_ports.clone() }
    }

    /// Such a socket is what the claim asks for.
    fn has(&self, socket: &Listening) -> bool {
        let place = if self.addresses.is_empty() {
            socket.address.is_unspecified()
        } else {
            self.addresses.contains(&socket.address)
        };
        place && self.ports.contains(&socket.port)
    }

    /// Such a socket gets datagrams that are meant for this claim, beside the claim's own or before it: the kernel prefers the narrower one.
    fn suffers(&self, socket: &Listening) -> bool {
        (self.addresses.is_empty() || self.addresses.contains(&socket.address)) && self.ports.contains(&socket.port)
    }
}

/// A socket of a proxy that gets datagrams which are meant for a listener of another one, or for another listener of its own. Envoy keeps the
/// sockets of a listener that is gone as long as connections may drain (ten minutes), reads nothing from them, and gives them up only when
/// it ends (measured).
pub(crate) fn deaf_socket(pid: u32, fleet: &FleetName, datagrams: &Datagrams) -> Option<SocketAddr> {
    if datagrams.is_empty() {
        return None;
    }
    let own = datagrams.get(fleet);
    let inodes = inodes(pid);
    let left = |socket: &Listening| inodes.contains(&socket.inode) && !own.is_some_and(|own| own.has(socket));
    let mut left = Table::Udp.sockets().into_iter().filter(left);
    let deaf = left.find(|socket| datagrams.values().any(|claim| claim.suffers(socket)))?;
    Some(SocketAddr::new(deaf.address, deaf.port))
}

/// What a child has after exec (capabilities(7)): root keeps what it has, others keep their ambient set.
fn child_may_bind(status: &str, root: bool) -> bool {
    let field = if root { "CapEff:" } else { "CapAmb:" };
    let set = status.lines().find_map(|line| line.strip_prefix(field));
    let set = set.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    set.is_none_or(|set| set >> NET_BIND_SERVICE & 1 == 1)
}

/// The program file itself gives the right: `security.capability`, a little-endian `vfs_cap_data` whose first word's
/// lowest bit says "effective" and whose second word is the low half of the permitted set.
fn has_file_right(program: &Path) -> bool {
    let mut value = [0_u8; 24];
    let Ok(length) = rustix::fs::getxattr(program, "security.capability", &mut value) else { return false };
    let word = |at: usize| {
        let bytes = value.get(..length)?.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    word(0).is_some_and(|flags| flags & 1 == 1) && word(4).is_some_and(|set| set >> NET_BIND_SERVICE & 1 == 1)
}

/// A line such as `0: 0100007F:1F90 00000000:0000 0A ... uid timeout inode`, if it has this state (here `0A`).
fn parse_listening(line: &str, state: &str) -> Option<Listening> {
    let mut fields = line.split_whitespace();
    let (address, port) = fields.nth(1)?.split_once(':')?;
    if fields.nth(1)? != state {
        return None;
    }
    Some(Listening {
        address: parse_address(address)?,
        port: u16::from_str_radix(port, 16).ok()?,
        inode: fields.nth(5)?.parse().ok()?,
    })
}

/// Words of four bytes, each as this machine orders them.
fn parse_address(digits: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(digits.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    if digits.len() == 8 {
        return Some(IpAddr::V4(Ipv4Addr::from(word(0)?)));
    }
    let mut octets = [0_u8; 16];
    for (index, chunk) in octets.chunks_exact_mut(4).enumerate() {
        chunk.copy_from_slice(&word(index * 8)?);
    }
    Some(IpAddr::V6(Ipv6Addr::from(octets)))
}

/// Binding one of `wanted` (none: all of IPv4 and IPv6) would meet this socket. `::` takes IPv4 too (ipv6(7)).
fn collides(taken: IpAddr, wanted: &[IpAddr]) -> bool {
    let meets = |wanted: &IpAddr| match (taken.to_canonical(), wanted.to_canonical()) {
        (IpAddr::V6(taken), _) if taken.is_unspecified() => true,
        (_, IpAddr::V6(wanted)) if wanted.is_unspecified() => true,
        (IpAddr::V4(taken), IpAddr::V4(wanted)) => taken == wanted || taken.is_unspecified() || wanted.is_unspecified(),
        (taken, wanted) => taken == wanted,
    };
    wanted.is_empty() || wanted.iter().any(meets)
}

/// The sockets that a process has; none if it may not be looked at.
fn inodes(pid: u32) -> BTreeSet<u64> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return BTreeSet::new() };
    let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.filter_map(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()).collect()
}

/// Which process has which socket. Of several that share one, the first.
fn owners() -> BTreeMap<u64, u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return BTreeMap::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut owners = BTreeMap::new();
    for pid in pids {
        inodes(pid).into_iter().for_each(|inode| _ = owners.entry(inode).or_insert(pid));
    }
    owners
}

fn read_number(path: &str) -> Option<u16> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn read_bounded(path: &Path) -> String {
    use std::io::Read as _;
    let mut text = Vec::new();
    if let Ok(file) = std::fs::File::open(path) {
        let _partial = file.take(MAX_TABLE as u64).read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests;
