//! Listening sockets, each with a task that owns its connections.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use rustix::process::geteuid;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::bugs;
use super::connection::{self, Came};
use super::gate::{Gate, Peer};
use super::handshakes::Handshakes;
use super::lately::Lately;
use super::limits::Limits;
use super::patience::Patience;
use super::places::{Places, SourceNetwork};
use super::records::InRecords;
use super::refusals::{RefusalCounters, RefusalReason};
use super::tls::{self, Tls};
use super::{ListenError, Shared, locked, stopped};

/// Connections that the system keeps for us until they are accepted: all clients of a listener come at once when it is there again after
/// a restart, and one that the system turns away tries again after 1 s, 3 s, 7 s and so on. The system may have a lower limit of its own
/// (`net.core.somaxconn`, usually 4,096).
const BACKLOG: i32 = 16_384;

/// A connection on which nothing is heard is asked by the system after this time, and then this often; one that does not answer for as
/// long as [`LOST`] is gone. That costs neither side's process anything, unlike a PING of HTTP/2.
const ASKED_AFTER: Duration = Duration::from_secs(30);
const ASKED_EVERY: Duration = Duration::from_secs(15);

/// Who takes nothing for so long is gone. An Envoy that has been sent 50,000 routes does not read for a quarter of a minute.
const LOST: Duration = Duration::from_mins(2);

/// Pause after a failed accept (out of file descriptors): long enough not to spin, short beside a client's back-off of 0.1 s to 1 s.
const PAUSE: Duration = Duration::from_millis(50);

/// How often a failed accept is logged: it may fail for as long as descriptors are wanting.
const TELL: Duration = Duration::from_secs(1);

/// So many reasons for refusals are logged in this time at most.
const MOST_REASONS: usize = 8;

/// A byte stream of either kind.
pub(super) trait Io: AsyncRead + AsyncWrite + InRecords + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + InRecords + Unpin + Send> Io for T {}

/// A listening socket of any kind.
enum Listening {
    Unix(UnixListener),
    Tcp(TcpListener),
    Tls(TcpListener, Shaking),
}

/// State that the handshakes of a listener share.
#[derive(Clone)]
struct Shaking {
    tls: Tls,
    turns: Handshakes,
    /// Time that a client may be silent, and then that a handshake may take.
    longest: Duration,
    /// Words of refusals that were logged.
    logged: Arc<Mutex<Lately>>,
    refusals: Arc<RefusalCounters>,
}

impl Shaking {
    fn new(tls: Tls, limits: &Limits, refusals: Arc<RefusalCounters>) -> Self {
        let logged = Arc::new(Mutex::new(Lately::new(MOST_REASONS, TELL)));
        Self { tls, turns: Handshakes::new(limits.handshakes), longest: limits.handshake, logged, refusals }
    }

    /// Shakes hands as soon as the client speaks and there is a turn for where it comes from.
    async fn shake(&self, stream: TcpStream, from: SocketAddr) -> Result<(Box<dyn Io>, Peer), String> {
        tokio::select! {
            biased;
            readable = stream.readable() => readable.map_err(|error| tls::words(&error))?,
            () = Patience::new(self.longest) => return Err("nothing was said in time".to_owned()),
        }
        let _turn = self.turns.turn(SourceNetwork::from(from.ip())).await;
        tokio::select! {
            biased;
            done = self.tls.accept(stream, from.ip()) => match done {
                Ok((io, peer)) => Ok((io, peer)),
                Err(error) => Err(tls::words(&error)),
            },
            () = Patience::new(self.longest) => Err("no handshake in time".to_owned()),
        }
    }

    /// Logs that there was no handshake, each reason once in a second: anybody can make us do so.
    fn tell(&self, from: SocketAddr, words: &str) {
        self.refusals.count(RefusalReason::Handshake);
        if locked(&self.logged).is_news(words) {
            tracing::info!(%from, "an xDS connection is refused: {words}");
        }
    }
}

/// A connection that has been accepted.
enum Arriving {
    Here(Box<dyn Io>, Peer, Option<IpAddr>),
    /// It has to shake hands first.
    Tls(TcpStream, SocketAddr, Shaking),
}

impl Listening {
    /// The next connection; none if it is refused.
    async fn accept(&self) -> io::Result<Option<Arriving>> {
        match self {
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let user = stream.peer_cred()?.uid();
                if !is_trusted(user) {
                    tracing::warn!(user, "an xDS connection is refused: the socket is of another user");
                    return Ok(None);
                }
                Ok(Some(Arriving::Here(Box::new(stream), Peer::Unix, None)))
            }
            Self::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                Ok(Some(Arriving::Here(Box::new(stream), Peer::Loopback, Some(from.ip()))))
            }
            Self::Tls(listener, shaking) => {
                let (stream, from) = listener.accept().await?;
                Ok(Some(Arriving::Tls(stream, from, shaking.clone())))
            }
        }
    }
}

impl Arriving {
    /// Where it comes from; none: a Unix socket.
    fn from(&self) -> Option<IpAddr> {
        match self {
            Self::Here(_, _, from) => *from,
            Self::Tls(_, from, ..) => Some(from.ip()),
        }
    }

    /// The source address if it is counted: clients in cleartext are all of this machine.
    fn counted(&self) -> Option<IpAddr> {
        self.from().filter(|_| matches!(self, Self::Tls(..)))
    }

    /// The connection once it is known who is there; none if that is nobody who may.
    async fn finish(self) -> Option<(Box<dyn Io>, Peer)> {
        let (stream, from, shaking) = match self {
            Self::Here(io, peer, _) => return Some((io, peer)),
            Self::Tls(stream, from, shaking) => (stream, from, shaking),
        };
        let shaken = shaking.shake(stream, from).await;
        shaken.inspect_err(|words| shaking.tell(from, words)).ok()
    }
}

/// Whether processes of this user may have what we have: our own and root.
fn is_trusted(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

pub(super) fn unix(shared: &Arc<Shared>, path: &Path, gate: Gate) -> Result<(), ListenError> {
    let failed = |reason| ListenError::Bind { place: path.display().to_string(), reason };
    clear_dead_socket(path)?;
    let listener = bind_unseen(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    rustix::net::listen(&listener, BACKLOG).map_err(|error| failed(error.into()))?;
    listener.set_nonblocking(true).map_err(failed)?;
    let inside = shared.runtime.enter();
    let listener = UnixListener::from_std(listener).map_err(failed)?;
    drop(inside);
    let stop = watch::Sender::new(false);
    let stopped = stop.subscribe();
    if let Some(old) = locked(&shared.sockets).insert(path.to_owned(), stop) {
        old.send_replace(true);
    }
    spawn(shared, Listening::Unix(listener), gate, stopped)
}

/// Binds a socket without its folder's name: the kernel shows to all users under which paths sockets were bound (`/proc/net/unix`), and who knows
/// the folder of a proxy could lead an Envoy there by a link.
fn bind_unseen(path: &Path) -> std::io::Result<std::os::unix::net::UnixListener> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(ErrorKind::InvalidInput.into());
    };
    let folder = std::fs::File::open(folder)?;
    std::os::unix::net::UnixListener::bind(Path::new(&format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name))
}

pub(super) fn tcp(
    shared: &Arc<Shared>,
    address: SocketAddr,
    gate: Gate,
    tls: Option<Tls>,
) -> Result<SocketAddr, ListenError> {
    if tls.is_none() && !address.ip().is_loopback() {
        return Err(ListenError::NotLoopback(address));
    }
    let failed = |reason| ListenError::Bind { place: address.to_string(), reason };
    let listener = std::net::TcpListener::bind(address).map_err(failed)?;
    rustix::net::listen(&listener, BACKLOG).map_err(|error| failed(error.into()))?;
    watch_over(&listener).map_err(|error| failed(error.into()))?;
    listener.set_nonblocking(true).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    let inside = shared.runtime.enter();
    let listener = TcpListener::from_std(listener).map_err(failed)?;
    drop(inside);
    let listening = match tls {
        Some(tls) => Listening::Tls(listener, Shaking::new(tls, gate.limits(), Arc::clone(&shared.refusals))),
        None => Listening::Tcp(listener),
    };
    spawn(shared, listening, gate, shared.stop.subscribe())?;
    Ok(bound)
}

/// Has the system find out which connections of a listener are gone without a word (RFC 1122, 4.2.3.6; RFC 5482). They inherit it, as
/// they do that small writes go out at once.
fn watch_over(listener: &std::net::TcpListener) -> rustix::io::Result<()> {
    sockopt::set_tcp_nodelay(listener, true)?;
    sockopt::set_socket_keepalive(listener, true)?;
    sockopt::set_tcp_keepidle(listener, ASKED_AFTER)?;
    sockopt::set_tcp_keepintvl(listener, ASKED_EVERY)?;
    sockopt::set_tcp_user_timeout(listener, u32::try_from(LOST.as_millis()).unwrap_or(u32::MAX))
}

/// Removes a socket of ours. Whoever closes it does so at once, and not the task that ends later: by then the path may be another's.
pub(super) fn unlink(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::debug!(%error, "the xDS socket was removed by someone else");
    }
}

/// Removes the socket of a process that is no more. Anything else is somebody's, who knows what for.
fn clear_dead_socket(path: &Path) -> Result<(), ListenError> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(ListenError::NoSocket(path.to_owned()));
    }
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(ListenError::InUse(path.to_owned()));
    }
    std::fs::remove_file(path).map_err(|reason| ListenError::Bind { place: path.display().to_string(), reason })
}

fn spawn(shared: &Arc<Shared>, socket: Listening, gate: Gate, stop: watch::Receiver<bool>) -> Result<(), ListenError> {
    if *shared.stop.borrow() {
        return Err(ListenError::Stopped);
    }
    let mut tasks = locked(&shared.tasks);
    while tasks.try_join_next().is_some() {}
    tasks.spawn_on(serve(Arc::clone(shared), socket, gate, stop), &shared.runtime);
    Ok(())
}

/// Accepts until told to stop, then waits for its connections, which are told too.
async fn serve(shared: Arc<Shared>, socket: Listening, gate: Gate, mut stop: watch::Receiver<bool>) {
    let (places, totals) = shared.taken(&gate);
    let places = places.clone();
    if !matches!(socket, Listening::Tls(..)) {
        places.keep_for_machine();
    }
    gate.count_in(totals);
    let mut connections = Connections { shared, gate, places, ended: watch::Sender::new(false), tasks: JoinSet::new() };
    while !bugs::survived("what accepts xDS connections", connections.accept(&socket, &mut stop)).await {}
    drop(socket);
    connections.ended.send_replace(true);
    while let Some(ended) = connections.tasks.join_next().await {
        bugs::note(ended);
    }
}

/// The connections of a listener.
struct Connections {
    shared: Arc<Shared>,
    gate: Gate,
    places: Places,
    /// Tells them to end.
    ended: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Connections {
    /// Accepts until told to stop.
    async fn accept(&mut self, socket: &Listening, stop: &mut watch::Receiver<bool>) {
        let mut all = self.shared.stop.subscribe();
        let mut last = None;
        loop {
            tokio::select! {
                () = stopped(stop) => return,
                () = stopped(&mut all) => return,
                Some(ended) = self.tasks.join_next(), if !self.tasks.is_empty() => bugs::note(ended),
                accepted = socket.accept() => match accepted {
                    Ok(None) => {}
                    Ok(Some(arriving)) => self.add(arriving),
                    Err(error) => {
                        if last.is_none_or(|last: Instant| last.elapsed() >= TELL) {
                            last = Some(Instant::now());
                            tracing::warn!(%error, "cannot accept an xDS connection; trying again");
                        }
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        }
    }

    /// Gives a connection its place, or closes it.
    fn add(&mut self, arriving: Arriving) {
        let Ok(place) = self.places.arrive(arriving.counted()) else { return };
        let (shared, gate, stop) = (Arc::clone(&self.shared), self.gate.clone(), self.ended.subscribe());
        let number = place.number();
        let task = self.tasks.spawn(async move {
            let from = arriving.from();
            if let Some((io, peer)) = arriving.finish().await {
                connection::serve(shared, Came { io, peer, from, gate, place }, stop).await;
            }
        });
        self.places.begin(number, task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_user_and_root_are_trusted() {
        let own = geteuid().as_raw();
        assert!(is_trusted(own) && is_trusted(0));
        assert!(!is_trusted(own + 1) && !is_trusted(u32::MAX));
    }
}
