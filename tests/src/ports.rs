//! Ports for those whose number is written down before they bind it, so that they cannot leave the choice to the kernel.
//!
//! A port that was free a moment ago may be another test's when it is bound. These are held by a name that the kernel lets one process
//! have at a time and frees with it: that of an abstract Unix socket (unix(7)), which is of the same network as the port. None is among
//! the ports that the kernel chooses for others (ip(7), `ip_local_port_range`).

use std::net::Ipv4Addr;
use std::ops::Range;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, PoisonError};

use tokio::net::TcpSocket;

/// Those that are given, all below what the kernel chooses from: a whole run of all tests takes a few hundred.
const PORTS: Range<u16> = 20_000..32_768;

/// What this process holds, until it ends.
static HELD: Mutex<Held> = Mutex::new(Held { left: PORTS, names: Vec::new() });

struct Held {
    left: Range<u16>,
    names: Vec<UnixDatagram>,
}

/// Ports that nobody listens on, and that no other test gets as long as this process lives.
///
/// # Errors
/// If there are none.
pub fn free_ports<const N: usize>() -> anyhow::Result<[u16; N]> {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let mut ports = [0; N];
    for port in &mut ports {
        *port = held.take()?;
    }
    Ok(ports)
}

impl Held {
    fn take(&mut self) -> anyhow::Result<u16> {
        for port in self.left.by_ref() {
            let name = SocketAddr::from_abstract_name(format!("chancery test port {port}"))?;
            let Ok(name) = UnixDatagram::bind_addr(&name) else { continue };
            if nobody_listens(port) {
                self.names.push(name);
                return Ok(port);
            }
        }
        anyhow::bail!("none of the ports {PORTS:?} is left")
    }
}

/// It may be a stranger's. This binds it and does not listen: what listens would keep it from its owner after it is closed here, in a
/// process that another thread is starting and that has a copy until it runs its program (fork(2)).
fn nobody_listens(port: u16) -> bool {
    let bind = || {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv4Addr::UNSPECIFIED, port).into())
    };
    bind().is_ok()
}
