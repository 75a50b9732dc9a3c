//! The streams of one client, sans-io: one for all kinds of resources, or one or more for each kind, which then share one session, so
//! that what has to follow each other does so across streams too.
//!
//! Nothing is asked of the session while some stream has not said everything yet: then it is the latest that is said next, and what
//! waits for a client that does not read is what one look at the session gave. Nothing here costs more for there being many streams.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::event::Node;
use crate::fleet::Fleet;
use crate::resource::TypeUrl;
use crate::session::{Session, Violation, Wants};
use crate::wire::read::{Discovery, Said};
use crate::wire::{Request, Response, StreamId, Variant, WholeRequest};

#[cfg(test)]
mod tests;

/// One client with all its streams.
pub(crate) struct Streams {
    session: Session,
    /// One stream is for everything; its number is 0.
    aggregated: bool,
    outlets: BTreeMap<StreamId, Outlet>,
    /// How many streams there are of each kind.
    kinds: BTreeMap<TypeUrl, usize>,
    latest: StreamId,
    /// Responses that no stream has taken yet.
    unsaid: usize,
    /// Of how many streams the client does not take what was said.
    behind: usize,
    /// There was something to do while a stream had not said everything yet.
    due: bool,
}

/// One stream.
struct Outlet {
    kind: Option<TypeUrl>,
    /// What a SotW client wants on it.
    wants: BTreeMap<TypeUrl, Wants>,
    /// What is to be said on it.
    responses: VecDeque<Response>,
    /// The client does not take what was said on it.
    behind: bool,
}

impl Streams {
    /// A client without any stream yet.
    pub(crate) fn new(fleet: &mut Fleet, node: Arc<Node>, variant: Variant, aggregated: bool) -> Self {
        let session = Session::new(fleet, node, variant, aggregated);
        let (outlets, kinds) = (BTreeMap::new(), BTreeMap::new());
        Self { session, aggregated, outlets, kinds, latest: 0, unsaid: 0, behind: 0, due: false }
    }

    /// The client gets no secrets, and nothing that needs one.
    pub(crate) fn withhold_secrets(&mut self) {
        self.session.withhold_secrets();
    }

    /// What the client has and is to have.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// One more stream, for one kind; an aggregated client has but one, for all.
    pub(crate) fn open(&mut self, kind: Option<TypeUrl>) -> StreamId {
        self.latest += StreamId::from(!self.aggregated);
        if let Some(kind) = &kind {
            *self.kinds.entry(kind.clone()).or_default() += 1;
        }
        self.outlets
            .insert(self.latest, Outlet { kind, wants: BTreeMap::new(), responses: VecDeque::new(), behind: false });
        self.latest
    }

    /// Whether one stream is for everything.
    pub(crate) fn is_aggregated(&self) -> bool {
        self.aggregated
    }

    /// Some stream that has not ended.
    pub(crate) fn any(&self) -> Option<StreamId> {
        self.outlets.keys().next().copied()
    }

    /// Takes a message in.
    ///
    /// # Errors
    /// The client asks for more than it may: its stream is to be ended.
    pub(crate) fn receive(
        &mut self,
        fleet: &mut Fleet,
        stream: StreamId,
        message: Discovery,
        now: Duration,
    ) -> Result<(), Violation> {
        let Some(outlet) = self.outlets.get_mut(&stream) else { return Ok(()) };
        match message.said {
            Said::Delta(request) => self.session.receive(fleet, Request { stream, ..request }, now),
            Said::Sotw(request) => {
                let request = WholeRequest { stream, ..request };
                let wants = outlet.wants.entry(TypeUrl::from(&*request.type_url)).or_default();
                self.session.receive_whole(fleet, wants, request, now)
            }
        }
    }

    /// Collects what the client can be told now for the streams that it is for, each of which `wake` is told. Nothing while some of
    /// them have something to say still. Gives the time at which to look again.
    pub(crate) fn advance(
        &mut self,
        fleet: &mut Fleet,
        now: Duration,
        mut wake: impl FnMut(StreamId),
    ) -> Option<Duration> {
        self.due = self.unsaid > 0;
        if self.due {
            return None;
        }
        for response in self.session.advance(fleet, now) {
            let Some(outlet) = self.outlets.get_mut(&response.stream) else { continue };
            if response.whole.is_some() {
                outlet.wants.entry(response.type_url.clone()).or_default().latest = Some(response.nonce);
            }
            wake(response.stream);
            outlet.responses.push_back(response);
            self.unsaid += 1;
        }
        self.session.next_deadline(fleet, now)
    }

    /// The next response of a stream. If there is none, whether somebody is to call [`Self::advance`].
    pub(crate) fn next(&mut self, stream: StreamId) -> Result<Response, bool> {
        match self.outlets.get_mut(&stream).and_then(|outlet| outlet.responses.pop_front()) {
            Some(response) => {
                self.unsaid -= 1;
                Ok(response)
            }
            // else the last of them that has something to say does it
            None => Err(self.unsaid == 0 && std::mem::take(&mut self.due)),
        }
    }

    /// The client does not take what was said on this stream, and so does not look: nobody waits for it any more.
    pub(crate) fn fall_behind(&mut self, fleet: &mut Fleet, stream: StreamId) {
        let Some(outlet) = self.outlets.get_mut(&stream) else { return };
        self.behind += usize::from(!std::mem::replace(&mut outlet.behind, true));
        self.session.fall_behind(fleet);
    }

    /// It has taken all of it. [`Self::advance`] is to be called.
    pub(crate) fn catch_up(&mut self, stream: StreamId, now: Duration) {
        let Some(outlet) = self.outlets.get_mut(&stream) else { return };
        let behind = std::mem::take(&mut outlet.behind);
        self.caught_up(behind, now);
    }

    /// One stream fewer is behind, if it was.
    fn caught_up(&mut self, behind: bool, now: Duration) {
        self.behind -= usize::from(behind);
        if behind && self.behind == 0 {
            self.session.catch_up(now);
        }
    }

    /// A stream has ended, and others may go on: it may have been the one that knew when to look again.
    pub(crate) fn close(&mut self, fleet: &mut Fleet, stream: StreamId, now: Duration) {
        let Some(outlet) = self.outlets.remove(&stream) else { return };
        self.unsaid -= outlet.responses.len();
        self.caught_up(outlet.behind, now);
        self.due = true;
        let Some(kind) = outlet.kind else { return };
        let others = self.kinds.get_mut(&kind).is_some_and(|streams| {
            *streams -= 1;
            *streams > 0
        });
        if others {
            self.session.let_go(&kind, stream, now);
        } else {
            self.kinds.remove(&kind);
            if !self.outlets.is_empty() {
                self.session.close(fleet, &kind, now);
            }
        }
    }

    /// All streams have ended.
    pub(crate) fn leave(self, fleet: &mut Fleet) {
        self.session.leave(fleet);
    }
}
