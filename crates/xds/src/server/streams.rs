//! The streams of one client: one for all kinds of resources, or one for each kind, which then share one session, so that what
//! has to follow each other does so across streams too.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use super::{Cell, Shared, locked};
use crate::event::Node;
use crate::fleet::Fleet;
use crate::resource::TypeUrl;
use crate::session::{Session, Violation, Wants};
use crate::wire::read::Discovery;
use crate::wire::{Request, Response, StreamId, Variant, WholeRequest};

/// What a discovery method is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Purpose {
    pub(super) variant: Variant,
    /// The kind of a stream that is for one kind; none: all kinds (ADS).
    pub(super) kind: Option<TypeUrl>,
}

/// Fleet, node and variant.
type Who = (Arc<str>, Arc<Node>, Variant);

/// The clients of a connection that have a stream for each kind.
#[derive(Default)]
pub(super) struct Siblings(Mutex<BTreeMap<Who, Weak<Client>>>);

/// One client with all its streams.
pub(super) struct Client {
    pub(super) fleet: Arc<str>,
    pub(super) node: Arc<Node>,
    pub(super) cell: Arc<Cell>,
    inner: Mutex<Inner>,
}

struct Inner {
    /// None once the last stream is gone.
    session: Option<Session>,
    streams: Vec<Outlet>,
    latest: StreamId,
    /// There was something to do while a stream had not said everything yet.
    due: bool,
}

/// One stream of a client.
struct Outlet {
    id: StreamId,
    kind: Option<TypeUrl>,
    /// What a SotW client wants on it.
    wants: BTreeMap<TypeUrl, Wants>,
    /// What is to be said on it.
    responses: VecDeque<Response>,
    waker: Option<Waker>,
}

impl Siblings {
    /// The client of a stream, and the stream's number there: for one kind of several, the one that has streams for others already.
    pub(super) fn client(
        &self,
        shared: &Shared,
        purpose: &Purpose,
        fleet: Arc<str>,
        node: Node,
    ) -> (Arc<Client>, StreamId) {
        let node = Arc::new(node);
        let new = |fleet, node| {
            let client = Arc::new(Client::new(shared, purpose, fleet, node));
            client.look(|session| client.cell.clients.add(session.id(), &client));
            let stream = client.add(purpose).unwrap_or_default();
            (client, stream)
        };
        if purpose.kind.is_none() {
            return new(fleet, node);
        }
        let mut clients = locked(&self.0);
        clients.retain(|_, client| client.strong_count() > 0);
        let key = (Arc::clone(&fleet), Arc::clone(&node), purpose.variant);
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

impl Client {
    fn new(shared: &Shared, purpose: &Purpose, fleet: Arc<str>, node: Arc<Node>) -> Self {
        let new = |fleet: &mut Fleet| Session::new(fleet, Arc::clone(&node), purpose.variant, purpose.kind.is_none());
        let (cell, session) = shared.with_fleet(&fleet, new);
        let inner = Inner { session: Some(session), streams: Vec::new(), latest: 0, due: false };
        Self { fleet, node, cell, inner: Mutex::new(inner) }
    }

    /// One more stream; none if the last one has just ended.
    fn add(&self, purpose: &Purpose) -> Option<StreamId> {
        let mut inner = self.inner();
        inner.session.as_ref()?;
        inner.latest += 1;
        let (id, kind) = (inner.latest, purpose.kind.clone());
        inner.streams.push(Outlet { id, kind, wants: BTreeMap::new(), responses: VecDeque::new(), waker: None });
        Some(id)
    }

    /// Takes a message in.
    pub(super) fn receive(&self, shared: &Shared, stream: StreamId, message: Discovery) -> Result<(), Violation> {
        let mut inner = self.inner();
        let inner = &mut *inner;
        let Some(session) = &mut inner.session else { return Ok(()) };
        let Some(outlet) = inner.streams.iter_mut().find(|outlet| outlet.id == stream) else { return Ok(()) };
        let now = shared.now();
        shared.with(&self.cell, |fleet| match message {
            Discovery::Delta(delta) => {
                let request = Request::from(delta);
                if let Some(kind) = &outlet.kind {
                    session.carry(kind, request.subscribe.iter(), stream);
                }
                session.receive(fleet, request, now)
            }
            Discovery::Sotw(sotw) => {
                let request = WholeRequest::from(sotw);
                let wants = outlet.wants.entry(TypeUrl::from(request.type_url.as_str())).or_default();
                if let Some(kind) = &outlet.kind {
                    // all names stand in each request: those that are new are asked for here
                    let new = request.names.iter().filter(|name| !wants.names.contains(*name));
                    session.carry(kind, new, stream);
                }
                session.receive_whole(fleet, wants, request, now)
            }
        })
    }

    /// Collects what the client can be told now, and hands it to the streams that it is for. Nothing while some of them have something to
    /// say still: then it is the latest that is said next, and what waits is bounded. Gives the time at which to look again.
    pub(super) fn advance(&self, shared: &Shared) -> Option<Duration> {
        let mut inner = self.inner();
        let inner = &mut *inner;
        inner.due = inner.streams.iter().any(|stream| !stream.responses.is_empty());
        let session = inner.session.as_mut().filter(|_| !inner.due)?;
        let now = shared.now();
        let (responses, deadline) =
            shared.with(&self.cell, |fleet| (session.advance(fleet, now), session.next_deadline(fleet, now)));
        for response in responses {
            let carries = |stream: &&mut Outlet| match response.stream {
                0 => stream.kind.as_ref().is_none_or(|kind| *kind == response.type_url),
                id => stream.id == id,
            };
            if let Some(stream) = inner.streams.iter_mut().find(carries) {
                if response.whole.is_some() {
                    stream.wants.entry(response.type_url.clone()).or_default().latest = response.nonce;
                }
                stream.responses.push_back(response);
                stream.waker.take().into_iter().for_each(Waker::wake);
            }
        }
        deadline
    }

    /// The next response of a stream. If there is none, its task is woken when there is; true: it is to call [`Self::advance`].
    pub(super) fn next(&self, stream: StreamId, cx: &Context<'_>) -> (Option<Response>, bool) {
        let mut inner = self.inner();
        let Some(outlet) = inner.streams.iter_mut().find(|outlet| outlet.id == stream) else { return (None, false) };
        let response = outlet.responses.pop_front();
        if response.is_none() && outlet.kind.is_some() {
            outlet.waker = Some(cx.waker().clone());
        }
        // else the last of them that has something to say does it
        let said = inner.streams.iter().all(|outlet| outlet.responses.is_empty());
        let due = said && response.is_none() && std::mem::take(&mut inner.due);
        (response, due)
    }

    /// A stream has ended; with the last one the client leaves.
    pub(super) fn leave(&self, shared: &Shared, stream: StreamId) {
        let mut inner = self.inner();
        let ended = inner.streams.iter().position(|outlet| outlet.id == stream);
        let ended = ended.map(|index| inner.streams.remove(index));
        if !inner.streams.is_empty() {
            let inner = &mut *inner;
            if let (Some(session), Some(kind)) = (&mut inner.session, ended.and_then(|outlet| outlet.kind)) {
                let others = inner.streams.iter().any(|outlet| outlet.kind.as_ref() == Some(&kind));
                shared.with(&self.cell, |fleet| match others {
                    true => session.let_go(&kind, stream),
                    false => session.close(fleet, &kind),
                });
            }
            // it may have been the one that knew when to look again
            inner.streams.iter_mut().filter_map(|outlet| outlet.waker.take()).for_each(Waker::wake);
            inner.due = true;
            return;
        }
        if let Some(session) = inner.session.take() {
            self.cell.clients.remove(session.id());
            shared.with(&self.cell, |fleet| session.leave(fleet));
        }
        drop(inner);
        shared.drop_if_idle(&self.fleet, &self.cell);
    }

    /// Looks at the session; none once the last stream is gone.
    pub(super) fn look<T>(&self, see: impl FnOnce(&Session) -> T) -> Option<T> {
        self.inner().session.as_ref().map(see)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        locked(&self.inner)
    }
}
