//! Our server on the other end of simulated connections: clients with their streams, and their fleet, fed with bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use crate::client::{Frames, LinkId};
use crate::fleet::Fleet;
use crate::resource::{Change, Need, Resource, TypeUrl, Version};
use crate::saved::SavedFleet;
use crate::streams::Streams;
use crate::wire::read::{Discovery, Said};
use crate::wire::write::{Step, Writing};
use crate::wire::{Request, Response, StreamId, Variant};

/// Names a connection: streams for one kind each that come on the same one are of one client.
pub(super) type Connection = u64;

/// What a resource of the simulation holds: its name in field 1, where all these kinds have it, and its version in one that none has.
pub(super) fn body(name: &str, version: u32) -> Bytes {
    let version = format!("@{version}");
    let length = |text: &str| char::from(u8::try_from(text.len()).expect("short"));
    format!("\n{}{name}z{}{version}", length(name), length(&version)).into()
}

/// A change to a resource.
pub(super) fn change(type_url: &TypeUrl, name: &str, version: Option<u32>) -> Change {
    let (type_url, name): (_, Arc<str>) = (type_url.clone(), name.into());
    let Some(number) = version else { return Change::Remove { type_url, name } };
    let body = [body(&name, number)];
    Change::Put(Resource::new(type_url, name, Version(u128::from(number)), body).into())
}

/// The server's end of a stream.
struct End {
    frames: Frames,
    connection: Connection,
    /// What it is for; none: for all kinds.
    kind: Option<TypeUrl>,
    /// Its number among those of its client, once something was said on it.
    stream: Option<StreamId>,
    /// Another one of the client is, or was, for the same kind: what that one leaves goes to this one, to be sure.
    inherits: bool,
    sent: Sent,
}

/// What this stream has told its client.
#[derive(Default)]
struct Sent {
    has: BTreeMap<Need, Version>,
    /// The names of each response that is not answered, and when it was sent.
    responses: BTreeMap<String, (Duration, Vec<Need>)>,
    /// The names of those that were refused.
    refused: Vec<Need>,
}

impl Sent {
    /// Clusters of responses whose answers count as withheld: they go again (R11a).
    fn withheld(&self, now: Duration) -> BTreeSet<Need> {
        let late = self.responses.values().filter(|(at, _)| now >= *at + Duration::from_secs(5));
        late.flat_map(|(_, keys)| keys).filter(|key| key.type_url == TypeUrl::Cluster).cloned().collect()
    }

    /// A response goes out. What of it the client had, and had not asked for again.
    fn note(&mut self, response: &Response, now: Duration) -> Vec<Need> {
        let kind = &response.type_url;
        let key = |name: &Arc<str>| Need::new(kind.clone(), Arc::clone(name));
        let withheld = self.withheld(now);
        let names = response.puts.iter().map(|item| key(item.name())).collect();
        self.responses.insert(response.nonce.to_string(), (now, names));
        let mut again = Vec::new();
        for item in &*response.puts {
            let (key, version) = (key(item.name()), item.version());
            // EDS follows every CDS, changed or not (R1)
            let due = *kind == TypeUrl::Endpoints || withheld.contains(&key);
            if self.has.insert(key.clone(), version) == Some(version) && !due {
                again.push(key);
            }
        }
        for name in &response.removed {
            self.has.remove(&key(name));
        }
        again
    }

    /// What the client says may make it right to send something again.
    fn hear(&mut self, request: &Request, doubts: &BTreeSet<Need>) {
        let type_url = TypeUrl::from(&*request.type_url);
        let initial = request.initial_versions.iter();
        let held = initial.filter_map(|(name, version)| Some((Need::new(type_url.clone(), &**name), (*version)?)));
        self.has.extend(held.filter(|(key, _)| !doubts.contains(key)));
        for name in request.subscribe.iter().chain(&request.unsubscribe) {
            let listed = request.initial_versions.iter().any(|(held, _)| held == name);
            if name.ends_with("/*") {
                let stem = name.trim_end_matches('*');
                self.has.retain(|key, _| key.type_url != type_url || !key.name.starts_with(stem));
            } else if name == "*" && !request.unsubscribe.is_empty() {
                self.has.retain(|key, _| key.type_url != type_url);
            } else if !listed {
                self.has.remove(&Need::new(type_url.clone(), &**name));
            }
        }
        // after a refusal each resource of the response goes again
        let (_, answered) = self.responses.remove(&*request.nonce).unwrap_or_default();
        for key in answered.into_iter().filter(|_| request.error.is_some()) {
            self.has.remove(&key);
            self.refused.push(key);
        }
    }
}

/// See the module.
pub(super) struct Server {
    variant: Variant,
    pub(super) fleet: Fleet,
    ends: BTreeMap<LinkId, End>,
    clients: BTreeMap<Connection, Streams>,
    /// Was on its way when a stream ended, or refused on it: it is sent to be sure.
    doubts: BTreeSet<Need>,
    /// It runs.
    pub(super) up: bool,
    /// What was sent to a stream that had it, and had not asked again.
    pub(super) repeated: Vec<String>,
    /// What is kept of the fleet, lagging behind.
    file: Vec<u8>,
    spoken: u32,
}

impl Server {
    pub(super) fn new(variant: Variant) -> Self {
        Self {
            variant,
            fleet: Fleet::new("fleet".into()),
            ends: BTreeMap::new(),
            clients: BTreeMap::new(),
            doubts: BTreeSet::new(),
            up: true,
            repeated: Vec::new(),
            file: Vec::new(),
            spoken: 0,
        }
        .keeping()
    }

    fn keeping(mut self) -> Self {
        self.fleet.keep(true);
        self
    }

    /// The process ends, and with it all that it knew but for what it had written.
    pub(super) fn die(&mut self) {
        let sent = std::mem::take(&mut self.ends).into_values().map(|end| end.sent);
        let doubts = sent.flat_map(|sent| sent.responses.into_values().flat_map(|(_, keys)| keys).chain(sent.refused));
        self.doubts.extend(doubts);
        let (file, doubts) = (std::mem::take(&mut self.file), std::mem::take(&mut self.doubts));
        let repeated = std::mem::take(&mut self.repeated);
        *self = Self { up: false, repeated, doubts, ..Self::new(self.variant) };
        if !file.is_empty() {
            let saved = SavedFleet::read(&file.clone().into()).expect("what was written");
            // what was in doubt when it was written is sent to be sure
            self.doubts.extend(saved.doubts.values().flat_map(|doubt| &doubt.needs).cloned());
            self.fleet.restore(saved);
        }
        self.file = file;
    }

    /// Writes what is to be saved, now and then.
    fn save(&mut self) {
        self.spoken += 1;
        let unsaved = self.spoken.is_multiple_of(5).then(|| self.fleet.take_unsaved(&"fleet".into())).flatten();
        if let Some(unsaved) = unsaved {
            if unsaved.is_whole() {
                self.file.clear();
            }
            unsaved.parts().for_each(|part| self.file.extend(part));
        }
    }

    /// A stream is opened on a connection, for one kind or for all.
    pub(super) fn open(&mut self, link: LinkId, connection: Connection, kind: Option<TypeUrl>) {
        let mut inherits = false;
        for end in self.ends.values_mut().filter(|end| end.connection == connection && end.kind == kind) {
            (inherits, end.inherits) = (true, true);
        }
        let (frames, sent) = (Frames::default(), Sent::default());
        self.ends.insert(link, End { frames, connection, kind, stream: None, inherits, sent });
    }

    pub(super) fn has(&self, link: LinkId) -> bool {
        self.ends.contains_key(&link)
    }

    /// The server sees that a stream has ended.
    pub(super) fn close(&mut self, link: LinkId, now: Duration) {
        let Some(End { connection, stream, sent, .. }) = self.ends.remove(&link) else { return };
        self.doubts.extend(sent.responses.into_values().flat_map(|(_, keys)| keys).chain(sent.refused));
        let (Some(stream), Some(client)) = (stream, self.clients.get_mut(&connection)) else { return };
        client.close(&mut self.fleet, stream, now);
        if client.any().is_none()
            && let Some(client) = self.clients.remove(&connection)
        {
            client.leave(&mut self.fleet);
        }
    }

    /// Bytes come in on a stream.
    pub(super) fn receive(&mut self, link: LinkId, bytes: &[u8], now: Duration) {
        let Some(end) = self.ends.get_mut(&link) else { return };
        end.frames.push(bytes);
        while let Some(message) = end.frames.next_message().expect("a frame") {
            let mut request = Discovery::decode(self.variant, message).expect("a request");
            let (fleet, variant, aggregated) = (&mut self.fleet, self.variant, end.kind.is_none());
            let node = request.node.take();
            let client = self.clients.entry(end.connection).or_insert_with(|| {
                let node = node.expect("the first message of a stream says who the client is");
                Streams::new(fleet, Arc::new(node), variant, aggregated)
            });
            let stream = *end.stream.get_or_insert_with(|| client.open(end.kind.clone()));
            if let Said::Delta(delta) = &request.said {
                end.sent.hear(delta, &self.doubts);
            }
            client.receive(fleet, stream, request, now).expect("within the bounds");
        }
    }

    /// All that the server has to say now, by stream.
    pub(super) fn speak(&mut self, now: Duration) -> Vec<(LinkId, Bytes)> {
        self.save();
        let mut said = Vec::new();
        for (connection, client) in &mut self.clients {
            let mut speakers = Vec::new();
            client.advance(&mut self.fleet, now, |stream| speakers.push(stream));
            for stream in speakers {
                let response = client.next(stream).expect("it was woken");
                let of = |end: &End| end.connection == *connection && end.stream == Some(stream);
                let (link, end) = self.ends.iter_mut().find(|(_, end)| of(end)).expect("an open stream");
                let again = end.sent.note(&response, now);
                if self.variant == Variant::Delta && !end.inherits {
                    self.repeated.extend(again.into_iter().map(|key| format!("{link:?}: {key:?}")));
                }
                let (mut writing, mut bytes) = (Writing::new(response), BytesMut::new());
                while let Step::More | Step::Flush = writing.step(&mut bytes, usize::MAX) {}
                said.push((*link, bytes.freeze()));
            }
        }
        said
    }

    pub(super) fn next_deadline(&self, now: Duration) -> Option<Duration> {
        self.clients.values().filter_map(|client| client.session().next_deadline(&self.fleet, now)).min()
    }
}
