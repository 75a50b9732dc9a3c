//! What has been said on one stream, and what is to be said next. A message is written when it can be sent, from what is true then:
//! nothing is queued but the answers to responses.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use super::Variant;
use super::cache::{Cache, Held, Kind};
use super::message::Request;
use crate::resource::TypeUrl;

/// The answer to one response.
struct Answer {
    nonce: String,
    /// State of the world: the version that was accepted; none if it is refused.
    version: Option<String>,
    /// Why it is refused.
    error: Option<String>,
}

/// One kind of resources that was asked for on this stream.
#[derive(Default)]
struct Channel {
    /// The names that the server has been told.
    asked: BTreeSet<Arc<str>>,
    /// State of the world: the nonce and the version of the last answer, which every later message repeats.
    nonce: String,
    version: String,
    answers: VecDeque<Answer>,
    /// Names that are asked for no more, or anew: the server has to be told that before it is told anything else.
    dropped: BTreeSet<Arc<str>>,
    /// State of the world: the server was told of no version, and nothing has been asked for since: it sends everything.
    anew: bool,
}

/// See the module.
pub(super) struct Stream {
    variant: Variant,
    /// Said with the first message; then empty.
    node: Bytes,
    /// Only versions from this server mean something to it; none if all do.
    versions_of: Option<Arc<str>>,
    channels: BTreeMap<TypeUrl, Channel>,
    /// Kinds about which there may be something to say.
    pending: BTreeSet<TypeUrl>,
}

/// A message, and the names that it asks for for the first time on its stream.
pub(super) struct Said {
    pub(super) message: Bytes,
    pub(super) type_url: TypeUrl,
    pub(super) asked: Vec<Arc<str>>,
}

impl Stream {
    /// A stream that begins by asking for everything that is wanted.
    pub(super) fn new(variant: Variant, node: Bytes, versions_of: Option<Arc<str>>, cache: &Cache) -> Self {
        let pending = cache.kinds.keys().cloned().collect();
        Self { variant, node, versions_of, channels: BTreeMap::new(), pending }
    }

    /// Something else may be wanted of this kind.
    pub(super) fn look_at(&mut self, type_url: &TypeUrl) {
        if let Some(channel) = self.channels.get_mut(type_url) {
            channel.anew = false;
        }
        self.pending.insert(type_url.clone());
    }

    /// This name is asked for no more. If it is again before the server was told, it is told both.
    pub(super) fn drop_name(&mut self, type_url: &TypeUrl, name: &Arc<str>) {
        if let Some(channel) = self.channels.get_mut(type_url) {
            channel.dropped.insert(Arc::clone(name));
        }
    }

    /// Whether this kind was asked for on this stream: anything else that comes is not answered, as that would be asking.
    pub(super) fn has_asked(&self, type_url: &TypeUrl) -> bool {
        self.channels.contains_key(type_url)
    }

    /// Whether all of this kind comes on this stream whatever was held before.
    pub(super) fn is_anew(&self, type_url: &TypeUrl) -> bool {
        self.channels.get(type_url).is_some_and(|channel| channel.anew)
    }

    /// A response has been dealt with, and parts of it are refused for this reason.
    pub(super) fn answer(&mut self, type_url: &TypeUrl, nonce: String, version: String, error: Option<String>) {
        // a message with an empty nonce would not be an answer
        if let Some(channel) = self.channels.get_mut(type_url).filter(|_| !nonce.is_empty()) {
            let version = error.is_none().then_some(version);
            channel.answers.push_back(Answer { nonce, version, error });
            self.pending.insert(type_url.clone());
        }
    }

    /// The next message, kind by kind.
    pub(super) fn next(&mut self, cache: &Cache) -> Option<Said> {
        while let Some(type_url) = self.pending.first().cloned() {
            let kind = cache.kinds.get(&type_url);
            if let Some((request, asked)) = kind.and_then(|kind| self.request(&type_url, kind)) {
                let node = std::mem::take(&mut self.node);
                let request = Request { node, type_url: type_url.as_str().to_owned(), ..request };
                return Some(Said { message: request.encode(self.variant), type_url, asked });
            }
            self.pending.remove(&type_url);
        }
        None
    }

    fn request(&mut self, type_url: &TypeUrl, kind: &Kind) -> Option<(Request, Vec<Arc<str>>)> {
        let Some(channel) = self.channels.get_mut(type_url) else {
            if kind.names.is_empty() {
                return None;
            }
            let channel = self.channels.entry(type_url.clone()).or_default();
            channel.asked.clone_from(&kind.names);
            let mut request = Request { subscribe: texts(&kind.names), ..Request::default() };
            match self.variant {
                Variant::Delta => request.initial = initial_versions(kind, self.versions_of.as_ref()),
                Variant::Sotw => {
                    request.version = initial_version(kind, self.versions_of.as_ref());
                    channel.version.clone_from(&request.version);
                    channel.anew = request.version.is_empty();
                }
            }
            return Some((request, kind.names.iter().cloned().collect()));
        };
        let dropped = std::mem::take(&mut channel.dropped);
        let is_gone = |name: &&Arc<str>| dropped.contains(*name) || !kind.names.contains(*name);
        let gone: Vec<Arc<str>> = channel.asked.iter().filter(is_gone).cloned().collect();
        let mut new: Vec<Arc<str>> = kind.names.difference(&channel.asked).cloned().collect();
        if gone.iter().any(|name| kind.names.contains(name)) {
            // with the next message
            new.clear();
        }
        let answer = channel.answers.pop_front();
        if answer.is_none() && new.is_empty() && gone.is_empty() {
            return None;
        }
        gone.iter().for_each(|name| {
            channel.asked.remove(name);
        });
        channel.asked.extend(new.iter().cloned());
        let request = match self.variant {
            Variant::Delta => {
                let (nonce, error) = answer.map_or((String::new(), None), |answer| (answer.nonce, answer.error));
                Request { subscribe: texts(&new), unsubscribe: texts(&gone), nonce, error, ..Request::default() }
            }
            Variant::Sotw => channel.whole(answer),
        };
        Some((request, new))
    }
}

impl Channel {
    /// State of the world: every message says everything.
    fn whole(&mut self, answer: Option<Answer>) -> Request {
        let mut error = None;
        if let Some(answer) = answer {
            (self.nonce, error) = (answer.nonce, answer.error);
            if let Some(version) = answer.version {
                self.version = version;
            }
        }
        let (nonce, version) = (self.nonce.clone(), self.version.clone());
        Request { subscribe: texts(&self.asked), nonce, version, error, ..Request::default() }
    }
}

/// All that is held, with its versions, or with one that no server knows where they mean nothing to this one.
fn initial_versions(kind: &Kind, versions_of: Option<&Arc<str>>) -> BTreeMap<String, String> {
    let held = kind.entries.iter().filter_map(|(name, entry)| Some((name, entry.held()?)));
    let version = |held: &Held| {
        let means = versions_of.is_none_or(|server| held.source == *server);
        if means { held.version.to_string() } else { String::new() }
    };
    held.map(|(name, held)| (name.to_string(), version(held))).collect()
}

/// The version that was accepted last, as long as all is held that came with it and nothing else is asked for.
fn initial_version(kind: &Kind, versions_of: Option<&Arc<str>>) -> String {
    let means = versions_of.is_none_or(|server| kind.source == *server);
    let whole = means && !kind.lossy && !kind.names.iter().any(|name| kind.is_awaited(name));
    if whole { kind.version.clone() } else { String::new() }
}

fn texts<'a>(names: impl IntoIterator<Item = &'a Arc<str>>) -> Vec<String> {
    names.into_iter().map(|name| name.to_string()).collect()
}
