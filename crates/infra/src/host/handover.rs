//! The handover of listening sockets from an Envoy to its successor, so that both accept from one queue and no connection is refused or lost.
//!
//! The successor believes that it is the second epoch of a hot restart, and asks its parent for the socket of each listener. Chancery is
//! that parent: it fetches each socket from the predecessor, as its child, and passes it on. All other messages end here, so the
//! predecessor keeps its admin interface and drains when Chancery says so. The port is never bound a second time: `enable_reuse_port`
//! stays off, and two Gateways cannot share one.
//!
//! A message has its length (8 bytes, big-endian) and `HotRestartMessage` (hot_restart.proto of Envoy) in protobuf.

use std::fs::Permissions;
use std::io::{IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketAddrUnix, UCred, getsockname, recvmsg, sendmsg_addr,
};
use rustix::process::geteuid;
use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::time::{sleep, timeout};

use super::layout::write_whole;
use super::token::random;
use super::{Error, ProxyPaths};

#[cfg(test)]
mod tests;

/// The folder of shared memory, which Envoy has 104 bytes of for each base id.
const SHARED_MEMORY: &str = "/dev/shm";

/// The size of that memory, and where its flags are: its size, its version and two locks of 40 bytes come before them (hot restart version 11.104).
/// The only flag means that an Envoy is starting.
const MEMORY_SIZE: u64 = 104;
const MEMORY_FLAGS: u64 = 96;

/// Envoy multiplies a base id by ten and adds up to two, and keeps the sum in 31 bits in one place.
const BASES: u32 = (i32::MAX as u32 - 2) / 10;

/// The longest message (`MaxSendmsgSize` of Envoy).
const LONGEST: usize = 4096;

/// An Envoy answers from its main thread, which a big configuration can keep busy for a while.
const ANSWER: Duration = Duration::from_secs(5);

/// An Envoy tries for ten seconds to send an answer, and then ends itself. So the socket for it stays longer than that.
const LINGER: Duration = Duration::from_secs(15);

/// The names that the sockets of two Envoys of a proxy begin with, in turn.
const NAMES: [&str; 2] = ["hot.a", "hot.b"];

/// The part of an Envoy's arguments that says which sockets and memory it shares with its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lineage {
    base: u32,
    /// 1 of an Envoy that took over sockets, else 0.
    epoch: u32,
    /// Its name is of [`NAMES`] at this place.
    name: usize,
}

impl Lineage {
    /// Draws the lineage of an Envoy that takes over nothing, and removes what the one before it shared; none if there is no shared memory.
    pub(crate) fn first(paths: &ProxyPaths) -> Option<Self> {
        forget(paths);
        // An Envoy that finds no room there dies of a bus error.
        tempfile::tempfile_in(SHARED_MEMORY).and_then(|mut file| file.write_all(&[0; MEMORY_SIZE as usize])).ok()?;
        let [a, b, c, d, ..] = random();
        let lineage = Self::starting(u32::from_be_bytes([a, b, c, d]) % BASES);
        // On a full disk its 104 bytes stay until the machine restarts.
        let _full = write_whole(&paths.memory, lineage.base.to_string().as_bytes());
        Some(lineage)
    }

    const fn starting(base: u32) -> Self {
        Self { base, epoch: 0, name: 0 }
    }

    /// Returns the lineage of an Envoy that runs; none if it was started without.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let words: Vec<&str> = line.split(|byte| *byte == 0).map(std::str::from_utf8).collect::<Result<_, _>>().ok()?;
        let value = |option: &str| words.iter().skip_while(|word| **word != option).nth(1).copied();
        let path = value("--socket-path")?;
        let lineage = Self {
            base: value("--base-id")?.parse().ok()?,
            epoch: value("--restart-epoch")?.parse().ok()?,
            name: NAMES.iter().position(|name| *name == path)?,
        };
        (lineage.base < BASES && lineage.epoch < 2).then_some(lineage)
    }

    /// Returns the lineage of an Envoy that takes over from this one; none if the memory that they share is gone.
    pub(crate) fn next(self) -> Option<Self> {
        let next = Self { base: self.base, epoch: 1, name: 1 - self.name.min(1) };
        // Another user could have made one after ours was removed at the end of a session; while it is there, only its owner removes it.
        let memory = std::fs::symlink_metadata(self.memory()).ok()?;
        let is_ours = memory.is_file() && memory.uid() == geteuid().as_raw() && memory.len() == MEMORY_SIZE;
        is_ours.then_some(next)
    }

    /// Returns the last arguments of an Envoy.
    pub(crate) fn arguments(lineage: Option<Self>) -> Vec<String> {
        let Some(lineage) = lineage else { return vec!["--disable-hot-restart".to_owned()] };
        let words = [
            ("--base-id", lineage.base.to_string()),
            ("--restart-epoch", lineage.epoch.to_string()),
            ("--socket-path", lineage.name().to_owned()),
        ];
        words.into_iter().flat_map(|(option, value)| [option.to_owned(), value]).collect()
    }

    /// Takes back the mark that a successor left which ended before it served: no other could start next to this Envoy.
    pub(crate) fn unmark(self) {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(self.memory());
        let Some(file) = file.ok().filter(|file| file.metadata().is_ok_and(|file| file.len() == MEMORY_SIZE)) else {
            return;
        };
        if let Err(error) = file.write_all_at(&[0; 8], MEMORY_FLAGS) {
            tracing::warn!(%error, "the next envoy of this gateway cannot start next to the one that serves");
        }
    }

    /// The file of the memory that it shares with its successors.
    pub(crate) fn memory(self) -> PathBuf {
        Path::new(SHARED_MEMORY).join(format!("envoy_shared_memory_{}", self.base * 10))
    }

    fn name(self) -> &'static str {
        NAMES.get(self.name).copied().unwrap_or_default()
    }

    /// The socket of a role, of this Envoy's or of the one `after` it.
    fn socket(self, role: &str, after: u32) -> String {
        format!("{}_{role}_{}", self.name(), self.base * 10 + (self.epoch + after) % 3)
    }
}

/// Removes the memory that the Envoys of these files shared. Those that run keep it, and hand nothing over any more.
pub(crate) fn forget(paths: &ProxyPaths) {
    let base = std::fs::read_to_string(&paths.memory).ok().and_then(|text| text.parse().ok());
    if let Some(base) = base.filter(|base| *base < BASES) {
        let _absent = std::fs::remove_file(Lineage::starting(base).memory());
        let _absent = std::fs::remove_file(&paths.memory);
    }
}

/// Removes the sockets that Envoys of a folder left; none may run.
pub(crate) fn remove_sockets(folder: &Path) {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let is_left = |name: &&str| NAMES.iter().any(|left| name.starts_with(left));
    for name in names.filter_map(|name| name.into_string().ok()).filter(|name| is_left(&name.as_str())) {
        let _absent = std::fs::remove_file(folder.join(name));
    }
}

/// The two ends at which Chancery stands between an Envoy and its successor.
#[derive(Debug)]
pub(crate) struct Handover {
    /// The successor's parent.
    parent: UnixDatagram,
    successor: PathBuf,
    /// The predecessor's child.
    child: UnixDatagram,
    predecessor: PathBuf,
    /// The folder of the sockets, open: a path through it is short enough for a socket.
    _folder: OwnedFd,
}

/// The end of a handover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The successor accepts from the sockets.
    Done,
    /// The predecessor hands nothing over: it is gone, or hangs.
    Silent,
}

/// A message of the successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    /// It wants the socket of a listener.
    Socket,
    /// It wants its parent's admin interface closed, and has to get an answer.
    Admin,
    /// Its listeners accept: its parent is to stop.
    Drain,
    /// Its parent is to end. It says nothing after this.
    Terminate,
    /// Anything else.
    Other,
}

impl Handover {
    /// Stands between an Envoy and the successor that is about to be started.
    pub(crate) fn open(paths: &ProxyPaths, from: Lineage, to: Lineage) -> Result<Self, Error> {
        let (folder, short) = open_folder(paths)?;
        let bind = |name: String| bind(&short, &name).map_err(Error::file("open", &paths.sockets));
        // Left by an Envoy that had the name before.
        for (role, after) in [("parent", 0), ("child", 0), ("udp_parent", 0), ("udp_child", 0)] {
            let _absent = std::fs::remove_file(short.join(to.socket(role, after)));
        }
        let before = Lineage { epoch: 0, ..to };
        Ok(Self {
            parent: bind(before.socket("parent", 0))?,
            successor: short.join(to.socket("child", 0)),
            child: bind(from.socket("child", 1))?,
            predecessor: short.join(from.socket("parent", 0)),
            _folder: folder,
        })
    }

    /// Answers the successor until it has all sockets and accepts from them.
    pub(crate) async fn serve(&self, predecessor: u32, successor: u32) -> std::io::Result<Outcome> {
        loop {
            let (request, _none) = message_of(&self.parent, successor).await?;
            match Request::of(&request) {
                Request::Socket => {
                    let Ok(Ok((answer, sockets))) = timeout(ANSWER, self.fetch(&request, predecessor)).await else {
                        return Ok(Outcome::Silent);
                    };
                    if !sockets.iter().all(|socket| is_requested(&request, socket)) {
                        tracing::warn!(
                            pid = predecessor,
                            "envoy hands over a socket that its successor did not ask for"
                        );
                        return Ok(Outcome::Silent);
                    }
                    self.answer(&answer, &sockets).await?;
                }
                Request::Admin => self.answer(ADMIN_CLOSED, &[]).await?,
                Request::Drain | Request::Other => {}
                Request::Terminate => return Ok(Outcome::Done),
            }
        }
    }

    /// Returns the predecessor's answer, with the socket.
    async fn fetch(&self, request: &[u8], predecessor: u32) -> std::io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        self.child.send_to(request, &self.predecessor).await?;
        message_of(&self.child, predecessor).await
    }

    /// Keeps the sockets after a handover that has failed: see [`LINGER`].
    pub(crate) fn linger(self) {
        tokio::spawn(async move {
            sleep(LINGER).await;
            drop(self);
        });
    }

    async fn answer(&self, answer: &[u8], sockets: &[OwnedFd]) -> std::io::Result<()> {
        self.parent.async_io(Interest::WRITABLE, || send(self.parent.as_fd(), answer, sockets, &self.successor)).await
    }
}

/// Opens the folder of a proxy's sockets, and returns a path to it that leaves room for the name of a socket.
fn open_folder(paths: &ProxyPaths) -> Result<(OwnedFd, PathBuf), Error> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(&paths.sockets, flags, Mode::empty());
    let folder = opened.map_err(|error| Error::file("open", &paths.sockets)(error.into()))?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    Ok((folder, short))
}

fn bind(folder: &Path, name: &str) -> std::io::Result<UnixDatagram> {
    let path = folder.join(name);
    let _absent = std::fs::remove_file(&path);
    let socket = UnixDatagram::bind(&path)?;
    // Its folder is this user's alone already.
    std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    set_socket_passcred(&socket, true)?;
    Ok(socket)
}

/// Takes the answers of an Envoy to a handover that a process which is gone had begun, and throws them away: see [`LINGER`].
pub(crate) fn linger(paths: &ProxyPaths, from: Lineage) {
    let child = open_folder(paths).ok().and_then(|(_, short)| bind(&short, &from.socket("child", 1)).ok());
    if let Some(child) = child {
        tokio::spawn(async move {
            sleep(LINGER).await;
            drop(child);
        });
    }
}

/// `reply { shutdown_admin { original_start_time_unix_seconds: 1 } }`
const ADMIN_CLOSED: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 6, 0x12, 4, 0x12, 2, 0x08, 1];

impl Request {
    /// Reads `request { <one of them> {} }`. It is short, so its length has one byte; the second tag says which.
    fn of(message: &[u8]) -> Self {
        match message.get(8..) {
            Some([0x0a, _, 0x0a, ..]) => Self::Socket,
            Some([0x0a, _, 0x12, ..]) => Self::Admin,
            Some([0x0a, _, 0x22, ..]) => Self::Drain,
            Some([0x0a, _, 0x2a, ..]) => Self::Terminate,
            _ => Self::Other,
        }
    }
}

/// Returns true if a socket listens on the port of the requested listener: `tcp://<address>:<port>` is in the request.
fn is_requested(request: &[u8], socket: &OwnedFd) -> bool {
    let port = match getsockname(socket).map(SocketAddr::try_from) {
        Ok(Ok(address)) => address.port(),
        _ => return false,
    };
    let words = String::from_utf8_lossy(request);
    // Fields with numbers can follow, whose bytes are none of these.
    let is_of_address = |letter: &char| letter.is_ascii_hexdigit() || matches!(letter, '.' | ':' | '[' | ']');
    let address = words.split_once("://").map(|(_, rest)| rest.chars().take_while(is_of_address).collect::<String>());
    let asked = address.as_deref().and_then(|address| address.rsplit(':').next());
    asked.and_then(|asked| asked.parse().ok()) == Some(port)
}

/// A message, and the descriptors with it.
type Message = (Vec<u8>, Vec<OwnedFd>);

/// Returns the next message of a process of this user. Those of others are dropped.
async fn message_of(socket: &UnixDatagram, pid: u32) -> std::io::Result<Message> {
    let mut is_said = false;
    loop {
        let (message, sender) = socket.async_io(Interest::READABLE, || receive(socket.as_fd())).await?;
        let of = sender.map(|sender| (sender.uid, u32::try_from(sender.pid.as_raw_nonzero().get())));
        if of == Some((geteuid(), Ok(pid))) {
            return Ok(message);
        }
        if !std::mem::replace(&mut is_said, true) {
            tracing::warn!(
                expected = pid,
                ?of,
                "drops a message of another process than the envoy, and all that follow"
            );
        }
    }
}

/// Reads a message, the descriptors with it (one comes with each answer) and its sender.
fn receive(socket: BorrowedFd<'_>) -> std::io::Result<(Message, Option<UCred>)> {
    let mut message = vec![0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1), ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut message)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    message.truncate(received.bytes);
    let (mut sockets, mut sender) = (Vec::new(), None);
    for part in ancillary.drain() {
        match part {
            RecvAncillaryMessage::ScmRights(descriptors) => sockets.extend(descriptors),
            RecvAncillaryMessage::ScmCredentials(credentials) => sender = Some(credentials),
            _ => {}
        }
    }
    Ok(((message, sockets), sender))
}

fn send(socket: BorrowedFd<'_>, message: &[u8], sockets: &[OwnedFd], to: &Path) -> std::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let sockets: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
    if !sockets.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&sockets)) {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let to = SocketAddrUnix::new(to)?;
    sendmsg_addr(socket, &to, &[IoSlice::new(message)], &mut ancillary, SendFlags::empty())?;
    Ok(())
}
