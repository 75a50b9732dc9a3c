//! The server's state machine as the fuzzer drives it: clients of one fleet, in messages as they are on the wire. There only where
//! something is built for fuzzing (`cfg(fuzzing)`), and with the tests, so that what breaks it does not build.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use crate::event::Node;
use crate::fleet::Fleet;
use crate::resource::{Change, TypeUrl, Version};
use crate::saved::SavedFleet;
pub use crate::saved::fuzzing::{Choose, journal, transaction};
pub use crate::server::fuzzing::{Desk, admit, messages, pings, refusal};
use crate::snapshot::Look;
use crate::streams::Streams;
use crate::wire::Variant;
use crate::wire::read::Discovery;
use crate::wire::write::{Step, Writing};

#[cfg(test)]
mod tests;

/// How a client speaks.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// Delta, or state of the world.
    pub delta: bool,
    /// One stream for everything.
    pub aggregated: bool,
    /// What is known of Envoy holds.
    pub envoy: bool,
}

/// A fleet.
pub struct World(Fleet);

impl Default for World {
    fn default() -> Self {
        let mut fleet = Fleet::new("fleet".into());
        fleet.keep(true);
        Self(fleet)
    }
}

impl World {
    /// The fleet changes.
    pub fn publish(&mut self, changes: Vec<Change>) {
        self.0.publish(changes);
    }

    /// The fleet begins with what was saved.
    pub fn restore(&mut self, saved: SavedFleet) {
        self.0.restore(saved);
    }

    /// The fleet has nothing to say until it is published again.
    pub fn withdraw(&mut self) {
        self.0.withdraw();
    }

    /// What clients that refuse nothing should have under a name.
    #[must_use]
    pub fn target(&self, type_url: &TypeUrl, name: &str) -> Option<Version> {
        self.0.snapshot().target(type_url, name).map(|item| item.version())
    }

    /// A client comes.
    pub fn connect(&mut self, way: Way, id: &str) -> Connection {
        let user_agent = if way.envoy { "envoy" } else { "other" };
        let node = Node { id: id.into(), user_agent: user_agent.into(), ..Node::default() };
        let variant = if way.delta { Variant::Delta } else { Variant::Sotw };
        Connection { variant, streams: Streams::new(&mut self.0, Arc::new(node), variant, way.aggregated) }
    }

    /// What happened is taken by somebody, and saved.
    pub fn forget_events(&mut self) {
        drop((self.0.take_events(), self.0.take_unsaved(&"fleet".into())));
    }
}

/// A client's streams.
pub struct Connection {
    variant: Variant,
    streams: Streams,
}

impl Connection {
    /// Opens a stream, for one kind or, if it is the only one, for all.
    pub fn open(&mut self, kind: Option<TypeUrl>) -> u32 {
        self.streams.open(kind)
    }

    /// Takes a message in; false if its stream is to end.
    pub fn receive(&mut self, world: &mut World, stream: u32, message: Vec<u8>, now: Duration) -> bool {
        let Ok(message) = Discovery::decode(self.variant, Bytes::from(message)) else { return false };
        !message.has_long_name() && self.streams.receive(&mut world.0, stream, message, now).is_ok()
    }

    /// Looks at what there is to say; when to look again.
    pub fn advance(&mut self, world: &mut World, now: Duration) -> Option<Duration> {
        self.streams.advance(&mut world.0, now, |_| {})
    }

    /// The next response of a stream, without the head of gRPC.
    pub fn next(&mut self, stream: u32) -> Option<Bytes> {
        let (mut writing, mut bytes) = (Writing::new(self.streams.next(stream).ok()?), BytesMut::new());
        while !matches!(writing.step(&mut bytes, usize::MAX), Step::Done) {}
        Some(bytes.freeze().slice(5..))
    }

    /// A stream ends.
    pub fn close(&mut self, world: &mut World, stream: u32, now: Duration) {
        self.streams.close(&mut world.0, stream, now);
    }

    /// The client goes.
    pub fn leave(self, world: &mut World) {
        self.streams.leave(&mut world.0);
    }

    /// How many things are kept for the client.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.streams.session().entries()
    }
}
