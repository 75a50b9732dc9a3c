//! The shell: sockets, streams and threads around the state machines.
//!
//! One task per connection polls the connection and its streams; nothing is detached. A stream is a response body that is asked
//! for bytes only when the client takes them: a slow client costs its own buffers, is told the latest state when it reads again,
//! and holds up nobody.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::event::Event;
use crate::fleet::Fleet;
use crate::load::LoadReports;
use crate::resource::FleetUpdate;

mod accept;
mod backlog;
mod bugs;
mod call;
mod calm;
mod clients;
mod connection;
mod exchange;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod gate;
mod grpc;
mod handshakes;
mod health;
mod lately;
mod limits;
mod load;
mod outbox;
mod patience;
mod percent;
mod places;
mod records;
mod reflection;
mod refusals;
mod roster;
mod saving;
mod services;
mod spawned;
mod status;
mod stream;
mod streams;
mod tls;
mod together;
mod unread;
mod untaken;

#[cfg(test)]
mod tests;

pub use clients::{ClientState, MOST_REFUSALS, Refusal};
pub use gate::{Cleartext, Fleets, FleetsOf, Gate, Identity, KnownTokens, Revoked, TokenError, VerifyToken, Verifying};
use limits::Totals;
pub use limits::{Limits, Rate};
use outbox::Outbox;
use places::Places;
use reflection::Descriptors;
use refusals::RefusalCounters;
pub use refusals::RefusalReason;
use roster::Roster;
pub use tls::{Pem, Tls, TlsError};

/// Why no listener was opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The operating system refuses.
    #[error("cannot listen on {place}: {reason}; see that its directory exists and can be written")]
    Bind {
        /// Path or address.
        place: String,
        /// Its reason.
        reason: std::io::Error,
    },
    /// A live process listens there.
    #[error("another process listens on {0}; end it or use another state directory")]
    InUse(PathBuf),
    /// Something else is where the socket should be.
    #[error("cannot listen on {0}: there is a file that is no socket; move it away or remove it")]
    NoSocket(PathBuf),
    /// Clients are told apart by what they say: that is for clients on this machine only.
    #[error("{0} is not a loopback address; plain xDS over TCP is for this machine only")]
    NotLoopback(SocketAddr),
    /// The server has been stopped.
    #[error("the xDS server is stopped")]
    Stopped,
}

/// A fleet with what its streams wait on.
struct Cell {
    fleet: Mutex<Fleet>,
    /// There is no such fleet any more. Set and read only while the fleet is locked.
    dropped: AtomicBool,
    /// The number of the latest change.
    seq: watch::Sender<u64>,
    clients: Roster,
}

struct Shared {
    fleets: Mutex<BTreeMap<Arc<str>, Arc<Cell>>>,
    outbox: Outbox,
    desk: load::Desk,
    saving: saving::Saving,
    runtime: Handle,
    tasks: Mutex<JoinSet<()>>,
    sockets: Mutex<BTreeMap<PathBuf, watch::Sender<bool>>>,
    stop: watch::Sender<bool>,
    epoch: Instant,
    descriptors: Arc<Descriptors>,
    refusals: Arc<RefusalCounters>,
    /// Of clients on Unix sockets.
    limits: OnceLock<Limits>,
    /// What the clients of all listeners take together, as the limits of the first allow.
    taken: OnceLock<(Places, Arc<Totals>)>,
}

/// The xDS server. Clones are the same server.
#[derive(Clone)]
pub struct Server(Arc<Shared>);

impl Server {
    /// Starts a server on a runtime. What its clients do comes through `events` in batches, in order; when that channel is full,
    /// later facts about a thing take the place of earlier ones that were not taken yet.
    #[must_use]
    pub fn start(runtime: &Handle, events: mpsc::Sender<Vec<Event>>) -> Self {
        let shared = Arc::new(Shared {
            fleets: Mutex::default(),
            outbox: Outbox::default(),
            desk: load::Desk::default(),
            saving: saving::Saving::default(),
            runtime: runtime.clone(),
            tasks: Mutex::new(JoinSet::new()),
            sockets: Mutex::default(),
            stop: watch::Sender::new(false),
            epoch: Instant::now(),
            descriptors: Arc::default(),
            refusals: Arc::default(),
            limits: OnceLock::new(),
            taken: OnceLock::new(),
        });
        let (mail, mut stop) = (Arc::clone(&shared), shared.stop.subscribe());
        locked(&shared.tasks).spawn_on(
            async move {
                let mut work = async || {
                    tokio::select! {
                        () = mail.outbox.deliver(&events) => {}
                        () = mail.tell_loads() => {}
                        () = stopped(&mut stop) => {}
                    }
                };
                while !bugs::survived("what tells of xDS clients", work()).await {}
            },
            runtime,
        );
        Self(shared)
    }

    /// Sets what clients of Unix sockets may take, and those of all listeners together: before the first listener.
    pub fn bound(&self, limits: Limits) {
        if self.0.limits.set(limits).is_err() {
            tracing::debug!("the limits of xDS clients are set already");
        }
    }

    /// The encoded `google.protobuf.FileDescriptorSet` from which clients are told what messages look like (gRPC reflection). It is
    /// not read before somebody asks.
    pub fn describe(&self, descriptors: &'static [u8]) {
        self.0.descriptors.set(descriptors);
    }

    /// Makes changes known: each fleet's at once, and its clients are woken. May be called from any thread. It waits
    /// for no client to read or to answer, only for the fleet's lock, which each of its streams has while a message is taken in or what can
    /// be said is collected. An update without changes says of a fleet that is new that it has nothing: before its first update a fleet's
    /// clients get no answer at all.
    pub fn publish(&self, updates: Vec<FleetUpdate>) {
        for FleetUpdate { fleet, changes } in updates {
            self.0.with_fleet(&fleet, |fleet| fleet.publish(changes));
        }
    }

    /// A fleet is no more: its clients keep what they have and get no answers. What was published and not removed is kept, so that
    /// the fleet is whole when something is published for it again, to these clients too.
    pub fn forget(&self, fleet: &Arc<str>) {
        let (cell, ()) = self.0.with_fleet(fleet, Fleet::withdraw);
        self.0.drop_if_idle(fleet, &cell);
    }

    /// Listens on a Unix socket, mode 0600, whose streams all belong to one fleet, for processes of our user and root that bring this token
    /// (`authorization: Bearer TOKEN`; none is for tests and benchmarks: a proxy of our user connects wherever the author of a route says). A dead process's socket is taken over; so is
    /// the part of an earlier listener of this path whose file somebody has removed, and its streams end.
    ///
    /// # Errors
    /// The socket cannot be made, a live process has it, or another file is there.
    pub fn listen_unix(&self, path: &Path, fleet: Arc<str>, token: Option<Arc<str>>) -> Result<(), ListenError> {
        accept::unix(&self.0, path, Gate::of(fleet, token, self.0.limits.get().copied().unwrap_or_default()))
    }

    /// Ends a listener of [`Self::listen_unix`], its streams, and removes the socket. On return the path is free for another.
    pub fn close_unix(&self, path: &Path) {
        if let Some(stop) = locked(&self.0.sockets).remove(path) {
            accept::unlink(path);
            stop.send_replace(true);
        }
    }

    /// Listens on a loopback address, in cleartext. Gives the address, with the port that was chosen if it was 0.
    ///
    /// # Errors
    /// The address cannot be had or is not a loopback address.
    pub fn listen_tcp(&self, address: SocketAddr, gate: Gate) -> Result<SocketAddr, ListenError> {
        accept::tcp(&self.0, address, gate, None)
    }

    /// Listens on any address, for clients with a certificate of an authority that `tls` trusts. Gives the address, with the port
    /// that was chosen if it was 0.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn listen_tls(&self, address: SocketAddr, tls: Tls, gate: Gate) -> Result<SocketAddr, ListenError> {
        accept::tcp(&self.0, address, gate, Some(tls))
    }

    /// Every client that is connected, by fleet. It takes each client's lock in turn, for what is copied of a client: 50,000 names are some
    /// 10 ms.
    #[must_use]
    pub fn clients(&self) -> Vec<ClientState> {
        clients::all(&self.0)
    }

    /// Returns how often clients were refused, slowed down or ended since the start, for each reason.
    #[must_use]
    pub fn refusals(&self) -> Vec<(RefusalReason, u64)> {
        self.0.refusals.all()
    }

    /// Asks every client that offers load reports for these, those that are connected at once; none asks them for no more.
    pub fn ask_for_loads(&self, reports: Option<LoadReports>) {
        self.0.ask_for_loads(reports);
    }

    /// Ends all streams, with a grace of `within` for what is on its way, and removes the sockets.
    pub async fn stop(&self, within: Duration) {
        self.0.stop.send_replace(true);
        for (path, _stop) in std::mem::take(&mut *locked(&self.0.sockets)) {
            accept::unlink(&path);
        }
        let mut tasks = std::mem::take(&mut *locked(&self.0.tasks));
        let all = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(within, all).await.is_err() {
            tracing::debug!("streams were cut off");
        }
    }
}

impl Shared {
    /// What is counted of the clients of all listeners, one of which has this gate.
    fn taken(&self, gate: &Gate) -> &(Places, Arc<Totals>) {
        self.taken.get_or_init(|| {
            let limits = self.limits.get().unwrap_or_else(|| gate.limits());
            let totals = Totals::new(limits, Arc::clone(&self.refusals));
            (Places::new(limits, Arc::clone(&self.refusals)), Arc::new(totals))
        })
    }

    /// The time for the state machines.
    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Does something with the fleet of this name, if need be one that nothing was published for yet. It is not dropped meanwhile, and no
    /// other fleet waits for it.
    fn with_fleet<T>(&self, name: &Arc<str>, work: impl FnOnce(&mut Fleet) -> T) -> (Arc<Cell>, T) {
        loop {
            let cell = self.cell(name);
            let fleet = locked(&cell.fleet);
            if !cell.dropped.load(Ordering::Relaxed) {
                let result = self.work(&cell, fleet, work);
                return (cell, result);
            }
        }
    }

    fn cell(&self, name: &Arc<str>) -> Arc<Cell> {
        let new = || {
            let fleet = Mutex::new(self.saving.begin(Fleet::new(Arc::clone(name))));
            let (dropped, seq) = (AtomicBool::new(false), watch::Sender::new(0));
            Arc::new(Cell { fleet, dropped, seq, clients: Roster::default() })
        };
        Arc::clone(locked(&self.fleets).entry(Arc::clone(name)).or_insert_with(new))
    }

    /// Looks at the fleet of this name; none if there is none.
    fn look<T>(&self, fleet: &str, look: impl FnOnce(&Fleet) -> T) -> Option<T> {
        let cell = locked(&self.fleets).get(fleet).cloned()?;
        let seen = look(&locked(&cell.fleet));
        Some(seen)
    }

    /// Does something with a fleet, wakes its streams if it changed and hands on what happened.
    fn with<T>(&self, cell: &Cell, work: impl FnOnce(&mut Fleet) -> T) -> T {
        self.work(cell, locked(&cell.fleet), work)
    }

    fn work<T>(&self, cell: &Cell, mut fleet: MutexGuard<'_, Fleet>, work: impl FnOnce(&mut Fleet) -> T) -> T {
        let (before, had_unsaved) = ((fleet.seq(), fleet.stage()), fleet.has_unsaved());
        let result = work(&mut fleet);
        let seq = fleet.seq();
        let changed = (seq, fleet.stage()) != before;
        let to_save = !had_unsaved && fleet.has_unsaved();
        self.outbox.put(fleet.take_events());
        drop(fleet);
        if to_save {
            self.saving.wake();
        }
        if changed {
            cell.seq.send_replace(seq);
        }
        result
    }

    /// Drops a fleet that has neither resources nor clients.
    fn drop_if_idle(&self, name: &str, cell: &Cell) {
        // nobody waits for all fleets while this one is at work
        if !locked(&cell.fleet).is_idle() {
            return;
        }
        let mut fleets = locked(&self.fleets);
        let fleet = locked(&cell.fleet);
        if fleet.is_idle() && !cell.dropped.swap(true, Ordering::Relaxed) {
            fleets.remove(name);
            if fleet.is_kept() {
                self.saving.forget(&name.into());
            }
        }
    }
}

/// Waits until told to stop, or until nobody is left who could tell.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        tracing::trace!("nobody is left who could tell");
    }
}

/// The value, whoever panicked before. What the shell itself does under a lock is a line or two, and whole. A fleet's work is not: a panic
/// in the midst of it leaves what was done until then, and all clients go on with that until the process ends. The client in whose turn
/// it happened loses its connection (`bugs::note`) and says anew what it has; who published gets the panic, and Chancery ends with its
/// core. A fleet that answers nobody any more would be worse.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
