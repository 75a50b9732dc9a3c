//! What is between the server and the model of Envoy: the streams, each in its order, and for SotW the translation that makes of the model
//! a client that names all it wants, and that takes what a response of clusters or listeners does not list for removed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::envoy::{Deed, Envoy, dislikes};
use super::rig::Way;
use crate::fleet::Fleet;
use crate::resource::{Resource, TypeUrl};
use crate::snapshot::Item;
use crate::streams::Streams;
use crate::wire::read::{self, Discovery};
use crate::wire::{Request, Response, StreamId, Text, Variant, WholeRequest};

/// What a SotW client remembers of one kind on one stream.
#[derive(Default)]
struct Kind {
    names: BTreeSet<Text>,
    /// The version of the last response that it accepted.
    version: Text,
    /// The nonce of the last response on this stream.
    nonce: Text,
}

/// A stream by the client's number.
#[derive(Default)]
struct Stream {
    /// The server's number, once it has heard of it.
    number: Option<StreamId>,
    to_server: VecDeque<Said>,
    to_client: VecDeque<Response>,
}

/// See the module.
pub(super) struct Link {
    pub(super) way: Way,
    /// The client refuses what others take.
    pub(super) picky: bool,
    kinds: BTreeMap<(StreamId, Text), Kind>,
    streams: BTreeMap<StreamId, Stream>,
}

/// What the client does.
#[derive(Debug)]
enum Said {
    Delta(Request),
    Whole { type_url: Text, names: Vec<Text>, version: Text, nonce: Text, error: Option<String> },
    End,
}

impl Link {
    pub(super) fn new(way: Way, picky: bool) -> Self {
        Self { way, picky, kinds: BTreeMap::new(), streams: BTreeMap::new() }
    }

    /// The connection has broken.
    pub(super) fn reconnect(&mut self) {
        self.streams.clear();
        for kind in self.kinds.values_mut() {
            kind.nonce = Text::new();
            kind.names.clear();
        }
    }

    /// One stream has broken; how the server calls it, if it ever heard of it.
    pub(super) fn cut(&mut self, stream: StreamId) -> Option<StreamId> {
        for kind in self.kinds.iter_mut().filter(|((of, _), _)| *of == stream).map(|(_, kind)| kind) {
            kind.nonce = Text::new();
            kind.names.clear();
        }
        self.streams.remove(&stream)?.number
    }

    /// Streams on which something is on its way to the server.
    pub(super) fn up(&self) -> Vec<StreamId> {
        self.streams.iter().filter(|(_, stream)| !stream.to_server.is_empty()).map(|(id, _)| *id).collect()
    }

    /// Streams on which something is on its way to the client.
    pub(super) fn down(&self) -> Vec<StreamId> {
        self.streams.iter().filter(|(_, stream)| !stream.to_client.is_empty()).map(|(id, _)| *id).collect()
    }

    /// Whether something is on its way.
    pub(super) fn is_busy(&self) -> bool {
        !self.up().is_empty() || !self.down().is_empty()
    }

    /// The next that the client did on a stream reaches the server. What it was.
    pub(super) fn hear(
        &mut self,
        id: StreamId,
        streams: &mut Streams,
        fleet: &mut Fleet,
        now: Duration,
    ) -> Option<String> {
        let stream = self.streams.get_mut(&id)?;
        let said = stream.to_server.pop_front()?;
        let shown = format!("{said:?}").replace("type.googleapis.com/envoy.", "");
        let said = match said {
            Said::End => {
                let number = self.streams.remove(&id)?.number;
                number.iter().for_each(|number| streams.close(fleet, *number, now));
                return Some(shown);
            }
            Said::Delta(request) => read::Said::Delta(request),
            Said::Whole { type_url, names, version, nonce, error } => {
                read::Said::Sotw(WholeRequest { stream: 0, type_url, names, version, nonce, error })
            }
        };
        let message = Discovery { node: None, said };
        let kind = Some(TypeUrl::from(message.type_url())).filter(|_| !self.way.aggregated);
        let number = *stream.number.get_or_insert_with(|| streams.open(kind));
        streams.receive(fleet, number, message, now).expect("within the bounds");
        Some(shown)
    }

    /// The client does what it has to do, in words of this moment.
    pub(super) fn collect(&mut self, envoy: &mut Envoy) {
        for deed in std::mem::take(&mut envoy.out) {
            let (stream, said) = match deed {
                Deed::Say(request) => (request.stream, self.said(request)),
                Deed::End(stream) => {
                    self.kinds.retain(|(of, _), _| *of != stream);
                    // what is on its way is not heard any more
                    self.streams.entry(stream).or_default().to_client.clear();
                    (stream, Said::End)
                }
            };
            self.streams.entry(stream).or_default().to_server.push_back(said);
        }
    }

    fn said(&mut self, request: Request) -> Said {
        if self.way.variant == Variant::Delta {
            return Said::Delta(request);
        }
        let kind = self.kinds.entry((request.stream, request.type_url.clone())).or_default();
        kind.names.extend(request.subscribe);
        for name in &request.unsubscribe {
            kind.names.remove(name);
        }
        let nonce = if request.nonce.is_empty() { kind.nonce.clone() } else { request.nonce };
        let (names, version) = (kind.names.iter().cloned().collect(), kind.version.clone());
        Said::Whole { type_url: request.type_url, names, version, nonce, error: request.error }
    }

    /// The server says what there is to say. Each is shown before it is on its way.
    pub(super) fn sent(&mut self, streams: &mut Streams, mut show: impl FnMut(&Response)) {
        let mut responses = Vec::new();
        for (id, stream) in &self.streams {
            let next = || streams.next(stream.number?).ok().map(|response| (*id, response));
            responses.extend(std::iter::from_fn(next));
        }
        responses.sort_by_key(|(_, response)| response.nonce);
        for (id, response) in responses {
            show(&response);
            let stream = self.streams.get_mut(&id).expect("it is there");
            if !stream.to_server.iter().any(|said| matches!(said, Said::End)) {
                stream.to_client.push_back(response);
            }
        }
    }

    /// The next message of the server on a stream reaches the client. What it was.
    pub(super) fn deliver(&mut self, id: StreamId, envoy: &mut Envoy) -> Option<Response> {
        let mut response = self.streams.get_mut(&id)?.to_client.pop_front()?;
        let shown = response.clone();
        response.stream = id;
        let mut puts = response.puts.to_vec();
        puts.iter_mut().for_each(|item| spoil(item, self.picky));
        response.puts = puts.into();
        match response.whole.clone() {
            None => envoy.receive(&response),
            Some(whole) => {
                let kind = self.kinds.entry((id, response.type_url.as_str().into())).or_default();
                kind.nonce = response.nonce.to_string().into();
                let told = Self::difference(envoy, response);
                envoy.receive(&told);
                if envoy.has_accepted(&told) {
                    kind.version = whole.version.to_string().into();
                }
            }
        }
        self.collect(envoy);
        Some(shown)
    }

    /// What a complete response comes to for a client that has this.
    fn difference(envoy: &Envoy, mut response: Response) -> Response {
        let Some(all) = response.whole.as_mut().and_then(|whole| whole.all.take()) else {
            response.removed.clear();
            return response;
        };
        let held = envoy.holds(&response.type_url);
        let listed: BTreeSet<Arc<str>> = all.iter().map(|item| Arc::clone(item.name())).collect();
        response.removed = held.keys().filter(|name| !listed.contains(*name)).cloned().collect();
        response.puts = all.into_iter().filter(|item| held.get(item.name()) != Some(&Some(item.version()))).collect();
        response
    }
}

/// What is made of several has a version that says nothing; the model takes it for bad if a part is.
fn spoil(item: &mut Arc<Item>, picky: bool) {
    let is_bad = |part: &&Arc<Item>| (80..100).contains(&part.version().0) || picky && dislikes(part.version());
    if let Some(version) = item.parts.iter().find(is_bad).map(|part| part.version()) {
        *item = Item::new(Arc::new(Resource { version, ..(*item.resource).clone() }), item.seq);
    }
}
