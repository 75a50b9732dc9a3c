//! What is between the server and the model of Envoy: nothing for delta; for SotW the translation that makes of the model a client
//! that names all it wants, and that takes what a response of clusters or listeners does not list for removed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::envoy::Envoy;
use crate::fleet::Fleet;
use crate::resource::Resource;
use crate::session::{Session, Wants};
use crate::snapshot::Item;
use crate::wire::{Request, Response, Variant, WholeRequest};

/// What a SotW client remembers of one kind.
#[derive(Default)]
struct Kind {
    names: BTreeSet<String>,
    /// The version of the last response that it accepted.
    version: String,
    /// The nonce of the last response on this stream.
    nonce: String,
    /// What the server makes of it.
    wants: Wants,
}

/// See the module.
pub(super) struct Link {
    pub(super) variant: Variant,
    kinds: BTreeMap<String, Kind>,
    /// On its way to the server.
    pub(super) out: VecDeque<Said>,
}

/// A message of the client.
#[derive(Debug)]
pub(super) enum Said {
    Delta(Request),
    Whole(WholeRequest),
}

impl Link {
    pub(super) fn new(variant: Variant) -> Self {
        Self { variant, kinds: BTreeMap::new(), out: VecDeque::new() }
    }

    /// The stream has broken.
    pub(super) fn reconnect(&mut self) {
        self.out.clear();
        for kind in self.kinds.values_mut() {
            kind.nonce.clear();
            kind.names.clear();
            kind.wants = Wants::default();
        }
    }

    /// A message of the client reaches the server.
    pub(super) fn request(&mut self, session: &mut Session, fleet: &mut Fleet, said: Said, now: Duration) {
        let result = match said {
            Said::Delta(request) => session.receive(fleet, request, now),
            Said::Whole(request) => {
                let wants = self.kinds.get_mut(&request.type_url).map(|kind| &mut kind.wants).expect("it is known");
                session.receive_whole(fleet, wants, request, now)
            }
        };
        result.expect("within the bounds");
    }

    /// The client says what it has to say, in words of this moment.
    pub(super) fn collect(&mut self, envoy: &mut Envoy) {
        for request in std::mem::take(&mut envoy.out) {
            let said = match self.variant {
                Variant::Delta => Said::Delta(request),
                Variant::Sotw => Said::Whole(self.whole(request)),
            };
            self.out.push_back(said);
        }
    }

    fn whole(&mut self, request: Request) -> WholeRequest {
        let kind = self.kinds.entry(request.type_url.clone()).or_default();
        kind.names.extend(request.subscribe);
        for name in &request.unsubscribe {
            kind.names.remove(name);
        }
        let nonce = if request.nonce.is_empty() { kind.nonce.clone() } else { request.nonce };
        WholeRequest {
            stream: 0,
            type_url: request.type_url,
            names: kind.names.iter().cloned().collect(),
            version: kind.version.clone(),
            nonce,
            error: request.error,
        }
    }

    /// The server says something.
    pub(super) fn sent(&mut self, response: &Response) {
        self.kinds.entry(response.type_url.as_str().to_owned()).or_default().wants.latest = response.nonce;
    }

    /// A message of the server reaches the client.
    pub(super) fn response(&mut self, envoy: &mut Envoy, mut response: Response) {
        response.puts.iter_mut().for_each(spoil);
        let Some(whole) = response.whole.clone() else {
            envoy.receive(&response);
            return self.collect(envoy);
        };
        let kind = self.kinds.entry(response.type_url.as_str().to_owned()).or_default();
        kind.nonce = response.nonce.to_string();
        let told = Self::difference(envoy, response.clone());
        envoy.receive(&told);
        if envoy.has_accepted(&told) {
            kind.version = whole.version.to_string();
        }
        self.collect(envoy);
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
        response.puts = all;
        response.puts.retain(|item| held.get(item.name()) != Some(&Some(item.version())));
        response
    }
}

/// What is made of several has a version that says nothing; the model takes it for bad if a part is.
fn spoil(item: &mut Arc<Item>) {
    let bad = item.parts.iter().find(|part| (80..100).contains(&part.version().0));
    if let Some(version) = bad.map(|part| part.version()) {
        *item = Item::new(Arc::new(Resource { version, ..(*item.resource).clone() }), item.seq);
    }
}
