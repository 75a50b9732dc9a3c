//! Limits of clients as values: the defaults, and what is left of them where memory is short.

use std::time::Duration;

use super::super::grpc::LARGEST_REQUEST;

/// So many per second in the long run, and so many at once.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// In a second.
    pub per_second: u32,
    /// At once, after a time of silence.
    pub burst: u32,
}

/// Bytes that a connection costs with a stream, besides [`Limits::buffer`] (measured: 60 KB).
const CONNECTION_COSTS: u64 = 64 << 10;

/// Bounds of [`Limits::buffer`]. With the least, the library keeps 320 small frames of a client that is slowed down ([`super::super::connection`]):
/// an Envoy that begins sends 20.
const LEAST_BUFFER: u64 = 128 << 10;
const MOST_BUFFER: u64 = 512 << 10;

/// Bytes that a connection costs at most whose client may send so many before they are taken.
const fn cost_of_connection(buffer: u64) -> u64 {
    CONNECTION_COSTS + buffer / 2 * 3
}

/// Bytes that a name costs at most that a client has asked for or has been sent (measured: 235 to 270 bytes where each has a state of its own,
/// some bytes where they came together and are shared).
const NAME_COSTS: u64 = 320;

/// However little memory there is: places for some proxies, and the names of a small configuration for each.
const FEWEST_PLACES: usize = 64;
const FEWEST_NAMES: usize = 64 << 10;

/// See [`Limits::places`].
const PLACES: usize = 16_384;

/// See [`Limits::names`].
const NAMES: usize = 16 << 20;

/// What one identity may take at a listener. All proxies of a Gateway may have the same identity.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections of the server, of all listeners and identities together. The default is 16,384: 10,000 proxies and their successors while they
    /// reconnect. Each costs about 60 KB, and up to [`Self::buffer`].
    pub places: usize,
    /// Bytes that the client of a connection may send on all its streams before they are taken, an eighth of it on one: its HTTP/2 windows.
    /// The default is 512 KiB, where memory is short 128 KiB. In small frames they cost up to half as much again, which is why the library
    /// ends a connection with too many of those. All connections of an identity have [`Self::connections`] times as much at most.
    pub buffer: u32,
    /// Connections that an identity, or a source address before its handshake is done, may have of the last quarter of [`Self::places`]: of
    /// these it gets none if it has as many already. The default is an eighth of all, 2,048.
    pub share: usize,
    /// Connections. The default is 12,000 and some, three quarters of [`Self::places`]: 10,000 proxies of one Gateway and a fifth of them
    /// reconnecting.
    pub connections: usize,
    /// Calls under way, until their answers are on their way. The default is four for each connection: a discovery stream, a stream of load reports,
    /// and two for people.
    pub calls: usize,
    /// The same of all identities and listeners. Of the last quarter none goes to an identity that has more than an eighth of all, but for the first
    /// four of each. The default is a third more than [`Self::calls`].
    pub all_calls: usize,
    /// Streams of one connection at a time. The default is 16,384: a client that asks for each kind apart opens one for each endpoint set
    /// and route configuration, and for a moment two while a cluster changes. What they cost together
    /// is bounded by [`Self::calls`], [`Self::names`] and [`Self::bytes`]; what is not read of them by 96 KiB and some 160 answers for each connection.
    pub streams: u32,
    /// Requests of one stream; one of more than 16 KiB counts as several. The default is 1,000 in a second: Envoy acknowledges one response
    /// in 1 ms; and 4,000 at once: a first start that asks for 1,000 clusters one by one, four kinds of resources.
    pub stream: Rate,
    /// Requests of all streams, and new calls. The default is 20,000 in a second, which at 10 µs each is a fifth of a core; and
    /// 200,000 at once: 10,000 proxies that come back after a restart, 20 messages each.
    pub all: Rate,
    /// What answers to people cost (client status; reflection waits for it and costs nothing), in requests: those of proxies do not wait
    /// for it. The default is 10,000 in a second, a
    /// tenth of a core, and 20,000 at once: what 400,000 names cost.
    pub answers: Rate,
    /// Bytes of requests that are not complete yet, of all streams; further ones wait, each with what its first frame brought (16 KiB, which
    /// for all of [`Self::calls`] is 48 KiB for each connection). Of all identities it is twice
    /// that, and of the last quarter none goes to an identity that has more than an eighth. The default is 256 MiB: 4,000 proxies at a time that begin with their node (61 KB), 700 that
    /// come back with the names of 10,000 clusters each (370 KB), or 16 of the largest requests that are read.
    pub bytes: usize,
    /// Names that its clients ask for, have been sent or say that they have, together. The default is 16 Mi: 10,000 proxies with 1,000
    /// clusters and two thirds as many other names each. At up to 320 bytes each (measured: 235 of one that is asked for and not there, 270
    /// of a cluster that comes with all others) that is 5 GB.
    pub names: usize,
    /// The same of all identities and listeners. Of the last quarter none goes to an identity that has more than an eighth of all. The
    /// default is a third more than [`Self::names`].
    pub all_names: usize,
    /// Bytes of all those names, as if none were shared with the fleet. The default is 1 GiB: 64 for each of [`Self::names`].
    pub name_bytes: usize,
    /// How long such a request may take to be complete, in time in which the server listens. The default is a minute: 16 MiB at 2 Mbit/s.
    /// Half of it is given at the beginning, the rest with the bytes that come: an Envoy that takes 50,000 routes says nothing for some
    /// 15 s, and who announces much and sends nothing keeps the room from others for 30 s.
    pub complete: Duration,
    /// A discovery stream ends when its client has taken nothing for so long of what waits for it: what is kept of a client is as large as
    /// what it is sent. The default is two minutes, after which the system gives a connection up too: an Envoy that takes 50,000 routes does
    /// not read for some 15 s.
    pub taken: Duration,
    /// How long a connection lasts, give or take a tenth, so that connections that began together do not end together; none: as
    /// long as its client likes. The default is half an hour: clients then spread over the servers that there are, and one whose
    /// authority was taken from the trust bundle is out by then even if its certificate is good for a year. To an Envoy it is a
    /// reconnect without any effect on requests.
    pub age: Option<Duration>,
    /// TLS handshakes under way at the listener, of clients that have begun to speak; a turn that is free goes to the source address that has
    /// the fewest. The default is 512: a core does 1,000 in a second, and each keeps at most 64 KiB of what its client sent.
    pub handshakes: usize,
    /// Time that a client may be silent at first, and that its handshake may take then. The default is 5 s, some round trips across
    /// the world.
    pub handshake: Duration,
}

impl Limits {
    /// The same for clients on this machine: their connections have no age.
    pub(in crate::server) fn local(self) -> Self {
        Self { age: None, ..self }
    }

    /// The same as far as a process can have them that may use so many bytes of memory: three eighths for connections and what waits in
    /// them, five sixteenths for the names of clients, a sixteenth for requests of one identity that are not complete. The rest is for what is
    /// served.
    #[must_use]
    pub fn within(self, memory: u64) -> Self {
        let part = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let for_connections = memory / 8 * 3;
        let places = self.places.min(part(for_connections / cost_of_connection(LEAST_BUFFER)));
        let all_names = self.all_names.min(part(memory / 16 * 5 / NAME_COSTS)).max(FEWEST_NAMES);
        let names = self.names.min(all_names / 4 * 3);
        let bytes = self.bytes.min(part(memory / 16).max(LARGEST_REQUEST.0));
        let name_bytes = self.name_bytes.min(names.saturating_mul(64));
        Self { all_names, names, name_bytes, bytes, ..self }.with_places_in(places, for_connections)
    }

    /// The same with so many connections at a time, which share the memory that connections have: an identity has three quarters of them at
    /// most, and of the last quarter what an eighth of all leaves it.
    #[must_use]
    pub fn with_places(self, places: usize) -> Self {
        let each = cost_of_connection(self.buffer.into());
        self.with_places_in(places, each.saturating_mul(self.places as u64))
    }

    fn with_places_in(self, places: usize, memory: u64) -> Self {
        let places = places.max(FEWEST_PLACES);
        let buffer = (memory / places as u64).saturating_sub(CONNECTION_COSTS) / 3 * 2;
        let buffer = buffer.clamp(LEAST_BUFFER, MOST_BUFFER);
        let buffer = u32::try_from(buffer).unwrap_or(u32::MAX);
        let calls = places * 3;
        let (share, connections, all_calls) = (places / 8, places / 4 * 3, places * 4);
        Self { places, buffer, share, connections, calls, all_calls, ..self }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            places: PLACES,
            buffer: MOST_BUFFER as u32,
            share: PLACES / 8,
            connections: PLACES / 4 * 3,
            calls: PLACES * 3,
            all_calls: PLACES * 4,
            streams: 16_384,
            stream: Rate { per_second: 1_000, burst: 4_000 },
            all: Rate { per_second: 20_000, burst: 200_000 },
            answers: Rate { per_second: 10_000, burst: 20_000 },
            bytes: 256 << 20,
            names: NAMES,
            all_names: NAMES.div_ceil(3) * 4,
            name_bytes: 1 << 30,
            complete: Duration::from_secs(60),
            taken: Duration::from_mins(2),
            age: Some(Duration::from_secs(30 * 60)),
            handshakes: 512,
            handshake: Duration::from_secs(5),
        }
    }
}
