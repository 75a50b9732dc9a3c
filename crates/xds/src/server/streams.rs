//! The streams of one client as tasks that wake each other. What they say is decided in [`crate::streams`].

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use super::gate::Caller;
use super::grpc::{Broken, Code};
use super::limits::Names;
use super::{Cell, Shared, locked};
use crate::event::Node;
use crate::fleet::Fleet;
use crate::resource::TypeUrl;
use crate::session::Session;
use crate::streams::Streams;
use crate::wire::read::Discovery;
use crate::wire::{Response, StreamId, Variant};

/// What a discovery method is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Purpose {
    pub(super) variant: Variant,
    /// The kind of a stream that is for one kind; none: all kinds (ADS).
    pub(super) kind: Option<TypeUrl>,
}

/// Identity, fleet, node and variant.
type Who = (Arc<str>, Arc<str>, Arc<Node>, Variant);

/// The clients of a connection.
#[derive(Default)]
pub(super) struct Siblings {
    /// Where it comes from; none: a Unix socket.
    from: Option<IpAddr>,
    /// Those that have a stream for each kind.
    clients: Mutex<BTreeMap<Who, Weak<SharedClient>>>,
}

/// One client with all its streams.
pub(super) struct SharedClient {
    pub(super) fleet: Arc<str>,
    pub(super) node: Arc<Node>,
    /// Where it comes from; none: a Unix socket.
    pub(super) from: Option<IpAddr>,
    pub(super) cell: Arc<Cell>,
    inner: Mutex<Inner>,
}

struct Inner {
    /// None once the last stream is gone.
    streams: Option<Streams>,
    /// Of streams that have nothing to say; none where one stream is for everything, which wakes itself.
    wakers: BTreeMap<StreamId, Waker>,
    /// The stream that looks when the fleet changes.
    watches: Option<StreamId>,
    /// What it costs its identity.
    names: Names,
    /// It has begun to ask for something: the names that it is sent next are charged.
    begins: bool,
}

impl Siblings {
    /// None yet, of a connection from here.
    pub(super) fn of(from: Option<IpAddr>) -> Self {
        Self { from, clients: Mutex::default() }
    }

    /// The client of a stream, and the stream's number there: for one kind of several, the one that has streams for others already.
    pub(super) fn client(
        &self,
        shared: &Shared,
        purpose: &Purpose,
        caller: &Caller,
        fleet: Arc<str>,
        node: Node,
    ) -> (Arc<SharedClient>, StreamId) {
        let node = Arc::new(node);
        let new = |fleet, node| {
            let client = Arc::new(SharedClient::new(shared, purpose, caller, fleet, (node, self.from)));
            client.look(|session| client.cell.clients.add(session.id(), &client));
            let stream = client.add(purpose).unwrap_or_default();
            (client, stream)
        };
        if purpose.kind.is_none() {
            return new(fleet, node);
        }
        let mut clients = locked(&self.clients);
        clients.retain(|_, client| client.strong_count() > 0);
        let key = (Arc::clone(caller.name()), Arc::clone(&fleet), Arc::clone(&node), purpose.variant);
        if let Some(client) = clients.get(&key).and_then(Weak::upgrade)
            && let Some(stream) = client.add(purpose)
        {
            return (client, stream);
        }
        let (client, stream) = new(fleet, node);
        clients.insert(key, Arc::downgrade(&client));
        (client, stream)
    }
}

impl SharedClient {
    fn new(
        shared: &Shared,
        purpose: &Purpose,
        caller: &Caller,
        fleet: Arc<str>,
        (node, from): (Arc<Node>, Option<IpAddr>),
    ) -> Self {
        let new = |fleet: &mut Fleet| Streams::new(fleet, Arc::clone(&node), purpose.variant, purpose.kind.is_none());
        let (cell, mut streams) = shared.with_fleet(&fleet, new);
        if !caller.has_secrets() {
            streams.withhold_secrets();
        }
        let inner = Inner {
            streams: Some(streams),
            wakers: BTreeMap::new(),
            watches: None,
            names: caller.names(),
            begins: false,
        };
        Self { fleet, node, from, cell, inner: Mutex::new(inner) }
    }

    /// One more stream; none if the last one has just ended.
    fn add(&self, purpose: &Purpose) -> Option<StreamId> {
        let mut inner = self.inner();
        let stream = inner.streams.as_mut()?.open(purpose.kind.clone());
        inner.watches.get_or_insert(stream);
        Some(stream)
    }

    /// Takes a message in.
    ///
    /// # Errors
    /// The client asks for more than it or its identity may: the stream is to be ended.
    pub(super) fn receive(&self, shared: &Shared, stream: StreamId, message: Discovery) -> Result<(), Broken> {
        let mut inner = self.inner();
        let Inner { streams: Some(streams), names, begins, .. } = &mut *inner else { return Ok(()) };
        let now = shared.now();
        *begins |= message.begins();
        let taken = shared.with(&self.cell, |fleet| streams.receive(fleet, stream, message, now));
        if let Err(violation) = taken {
            names.tell(&format!("{violation}; a stream is ended"));
            return Err(Broken(Code::ResourceExhausted, "more than a stream may hold"));
        }
        if names.set(streams.session().names()) {
            return Err(names.refusal());
        }
        Ok(())
    }

    /// Collects what the client can be told now, and hands it to the streams that it is for. Gives the time at which to look again.
    ///
    /// # Errors
    /// The client would have more names than its identity may: the stream is to be ended before it is sent anything.
    pub(super) fn advance(&self, shared: &Shared) -> Result<Option<Duration>, Broken> {
        let mut inner = self.inner();
        let Inner { streams: Some(streams), wakers, names, begins, .. } = &mut *inner else { return Ok(None) };
        let now = shared.now();
        let wake = |stream| wakers.remove(&stream).into_iter().for_each(Waker::wake);
        let (before, _) = streams.session().names();
        let deadline = shared.with(&self.cell, |fleet| streams.advance(fleet, now, wake));
        let new = streams.session().names().0.saturating_sub(before);
        if *begins && new > 0 {
            *begins = false;
            names.charge_first(new);
        }
        if names.set(streams.session().names()) {
            return Err(names.refusal());
        }
        Ok(deadline)
    }

    /// The next response of a stream. If there is none, its task is woken when there is; true: it is to call [`Self::advance`].
    pub(super) fn next(&self, stream: StreamId, cx: &Context<'_>) -> (Option<Response>, bool) {
        let mut inner = self.inner();
        let Some(streams) = &mut inner.streams else { return (None, false) };
        match streams.next(stream) {
            Ok(response) => (Some(response), false),
            Err(due) => {
                if !streams.is_aggregated() {
                    inner.wakers.insert(stream, cx.waker().clone());
                }
                (None, due)
            }
        }
    }

    /// The client does not take what was said on this stream: nobody waits for it.
    pub(super) fn fall_behind(&self, shared: &Shared, stream: StreamId) {
        if let Some(streams) = &mut self.inner().streams {
            shared.with(&self.cell, |fleet| streams.fall_behind(fleet, stream));
        }
    }

    /// It has taken all of it.
    pub(super) fn catch_up(&self, shared: &Shared, stream: StreamId) {
        if let Some(streams) = &mut self.inner().streams {
            streams.catch_up(stream, shared.now());
        }
    }

    /// Whether this stream is the one that looks when the fleet changes: one is enough, whatever their number.
    pub(super) fn watches(&self, stream: StreamId) -> bool {
        self.inner().watches == Some(stream)
    }

    /// A stream has ended; with the last one the client leaves.
    pub(super) fn leave(&self, shared: &Shared, stream: StreamId) {
        let mut inner = self.inner();
        let Inner { streams: Some(streams), wakers, watches, names, .. } = &mut *inner else { return };
        wakers.remove(&stream);
        let now = shared.now();
        shared.with(&self.cell, |fleet| streams.close(fleet, stream, now));
        names.set(streams.session().names());
        if let Some(other) = streams.any() {
            // it may have been the one that knew when to look again
            *watches = watches.filter(|watching| *watching != stream).or(Some(other));
            watches.and_then(|watching| wakers.remove(&watching)).into_iter().for_each(Waker::wake);
            return;
        }
        names.set((0, 0));
        if let Some(streams) = inner.streams.take() {
            self.cell.clients.remove(streams.session().id());
            shared.with(&self.cell, |fleet| streams.leave(fleet));
        }
        drop(inner);
        shared.drop_if_idle(&self.fleet, &self.cell);
    }

    /// Looks at the session; none once the last stream is gone.
    pub(super) fn look<T>(&self, see: impl FnOnce(&Session) -> T) -> Option<T> {
        self.inner().streams.as_ref().map(|streams| see(streams.session()))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        locked(&self.inner)
    }
}
