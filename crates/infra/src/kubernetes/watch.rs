//! News of Chancery's objects in the API server: one task for each kind (and namespace), and one for nodes while their addresses are needed.
//!
//! A list comes as a watch that begins with all objects, one at a time, or in small pages from a server that cannot do that. Each object is reduced to what is
//! kept of it as it comes: authors can write megabytes into one, and label as many of them as they like.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Request;
use kube::{Client, Resource};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::call::{Caller, Failure, causes, failure};
use super::object::ObjectKind;
use super::pace::{Backoff, Pace};
use super::seen::{ObjectId, Raw, Seen, resource};

/// Duration of a watch that is requested, in seconds; one that is silent for longer is dead, and the next one goes on where it was.
const WATCH_SECONDS: u32 = 150;
const SILENCE: Duration = Duration::from_secs(160);

/// Objects in a page of a list, where a server does not send lists as watches. One has up to some 3 MB of JSON (1.5 MB, and the names of its fields once more in
/// `managedFields`), so a page of one kind has 30 MB at most, and those of the 7 kinds 210 MB.
const PAGE: u32 = 10;

/// Time between warnings of a watch about objects that cannot be read: authors can write one as often as they like.
const WARNINGS: Duration = Duration::from_secs(60);

/// The annotation of the bookmark that ends a list.
const LIST_END: &str = "k8s.io/initial-events-end";

/// The objects that a task watches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    /// None: nodes.
    pub(super) kind: Option<ObjectKind>,
    /// None: all.
    pub(super) namespace: Option<Arc<str>>,
}

/// News from a task.
#[derive(Debug)]
pub(super) struct News {
    pub(super) target: Target,
    pub(super) event: Event,
}

#[derive(Debug)]
pub(super) enum Event {
    Objects(Told<ObjectId, Seen>),
    /// Nodes by their names, each with its addresses.
    Nodes(Told<Arc<str>, Vec<IpAddr>>),
    /// It may not be read, in the server's words.
    Forbidden(String),
}

/// An event of objects with identities `I`, of which values `V` are kept.
#[derive(Debug)]
pub(super) enum Told<I, V> {
    /// All objects: others are gone.
    Listed(Vec<(I, V)>),
    Changed(I, Box<V>),
    /// It is gone, or nothing is kept of it any more.
    Gone(I),
}

/// Lists and watches until the receiver is dropped. While the server is away nothing is sent, and it is tried again. An object in another namespace than its
/// Gateway's counts only in that of the controller.
pub(super) async fn follow(
    caller: Caller,
    target: Target,
    (labels, controller): (Option<String>, Arc<str>),
    sender: mpsc::Sender<News>,
) {
    let Some(kind) = target.kind else {
        let source = Source::new::<Raw>(&caller, ("v1", "Node", "nodes"), None);
        let read = |node: &Raw| Some((node.metadata.name.as_deref()?.into(), Some(node.node_addresses())));
        return forward(Watch::new(source, caller.pace, read), target, Event::Nodes, sender).await;
    };
    let source = Source::new::<Raw>(&caller, kind.names(), target.namespace.as_deref());
    let source = Source { labels, metadata_only: !kind.has_facts(), ..source };
    let read = move |object: &Raw| Seen::read(kind, object, &controller);
    forward(Watch::new(source, caller.pace, read), target, Event::Objects, sender).await;
}

async fn forward<K, I, V, R>(
    mut watch: Watch<K, I, V, R>,
    target: Target,
    event: fn(Told<I, V>) -> Event,
    sender: mpsc::Sender<News>,
) where
    K: Resource + Clone + DeserializeOwned + Send + 'static,
    R: Fn(&K) -> Option<(I, Option<V>)>,
    I: PartialEq,
{
    let mut trouble = None;
    loop {
        let event = match watch.next().await {
            Ok(change) => {
                trouble = None;
                event(change)
            }
            Err(error) => {
                let words = causes(&error);
                if trouble.as_ref() != Some(&words) {
                    tracing::warn!(
                        ?target,
                        error = words,
                        "objects cannot be watched: statuses and changes that depend on them wait; it is tried again"
                    );
                }
                trouble = Some(words);
                let Some(words) = forbidden(&error) else { continue };
                Event::Forbidden(words)
            }
        };
        if sender.send(News { target: target.clone(), event }).await.is_err() {
            return;
        }
    }
}

/// Objects to list and watch.
pub(super) struct Source {
    client: Client,
    request: Request,
    labels: Option<String>,
    fields: Option<String>,
    /// Nothing but metadata is needed.
    metadata_only: bool,
}

impl Source {
    /// All objects of a kind, or those of a namespace.
    pub(super) fn new<K: Resource<DynamicType = kube::core::ApiResource>>(
        caller: &Caller,
        names: (&str, &str, &str),
        namespace: Option<&str>,
    ) -> Self {
        let path = K::url_path(&resource(names), namespace);
        Self::at(caller.client.clone(), path)
    }

    /// Objects at a path of the API server.
    pub(super) fn at(client: Client, path: String) -> Self {
        Self { client, request: Request::new(path), labels: None, fields: None, metadata_only: false }
    }

    fn path(&self) -> &str {
        &self.request.url_path
    }

    /// Those with these labels.
    pub(super) fn labels(self, selector: String) -> Self {
        Self { labels: Some(selector), ..self }
    }

    /// Those with these fields.
    pub(super) fn fields(self, selector: String) -> Self {
        Self { fields: Some(selector), ..self }
    }

    /// Begins a watch from a version on; an empty one: from all objects on.
    async fn watch<K>(&self, from: &str) -> kube::Result<BoxStream<'static, kube::Result<WatchEvent<K>>>>
    where
        K: Clone + DeserializeOwned + Send + 'static,
    {
        let how = WatchParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            timeout: Some(WATCH_SECONDS),
            bookmarks: true,
            send_initial_events: from.is_empty(),
        };
        let request =
            if self.metadata_only { self.request.watch_metadata(&how, from) } else { self.request.watch(&how, from) };
        let request = request.map_err(kube::Error::BuildRequest)?;
        Ok(self.client.request_events::<K>(request).await?.boxed())
    }

    async fn page(&self, next: Option<String>) -> kube::Result<Page> {
        let how = ListParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            limit: Some(PAGE),
            continue_token: next,
            ..ListParams::default()
        };
        let request = if self.metadata_only { self.request.list_metadata(&how) } else { self.request.list(&how) };
        self.client.request(request.map_err(kube::Error::BuildRequest)?).await
    }
}

/// A page of a list. Each object is read alone, so that one that cannot be read costs no other.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default)]
    items: Vec<Box<RawValue>>,
}

/// Lists and watches objects of a kind, within bounds of time, and waits after a failure. `R` reads the identity of an object, and what is kept of it if anything is.
pub(super) struct Watch<K, I, V, R> {
    source: Source,
    read: R,
    pace: Pace,
    backoff: Backoff,
    /// The server sends lists as watches, as far as is known.
    streams: bool,
    /// All events up to here were returned; none before a list is complete.
    position: Option<String>,
    events: Option<(Instant, BoxStream<'static, kube::Result<WatchEvent<K>>>)>,
    /// Objects of a list that is not complete.
    listed: Vec<(I, V)>,
    /// The last attempt was a failure.
    has_failed: bool,
    /// The last warning about an object that cannot be read.
    warned: Option<Instant>,
}

impl<K, I, V, R> Watch<K, I, V, R>
where
    K: Resource + Clone + DeserializeOwned + Send + 'static,
    R: Fn(&K) -> Option<(I, Option<V>)>,
    I: PartialEq,
{
    pub(super) fn new(source: Source, pace: Pace, read: R) -> Self {
        let backoff = Backoff::new(pace.away);
        let (position, events, listed, warned) = (None, None, Vec::new(), None);
        Self { source, read, pace, backoff, streams: true, position, events, listed, has_failed: false, warned }
    }

    /// Waits for the next event.
    pub(super) async fn next(&mut self) -> kube::Result<Told<I, V>> {
        loop {
            if std::mem::take(&mut self.has_failed) {
                sleep(self.backoff.wait()).await;
            }
            let error = match self.step().await {
                Ok(None) => continue,
                Ok(Some(change)) => {
                    self.backoff.reset();
                    return Ok(change);
                }
                Err(error) => error,
            };
            self.events = None;
            let code = if let kube::Error::Api(status) = &error { status.code } else { 0 };
            if matches!(code, 400 | 422) && self.position.is_none() && std::mem::take(&mut self.streams) {
                continue;
            }
            if code == 410 {
                self.position = None;
            }
            self.has_failed = true;
            return Err(error);
        }
    }

    /// Takes one step; none: there is no event yet.
    async fn step(&mut self) -> kube::Result<Option<Told<I, V>>> {
        let Some((began, events)) = &mut self.events else { return self.begin().await };
        let silence = if self.position.is_some() { SILENCE } else { self.pace.answer };
        match timeout(silence, events.next()).await {
            Ok(Some(Err(error))) if is_unreadable(&error) => {
                self.warn(&error);
                Ok(None)
            }
            Ok(Some(event)) => self.take(event?),
            Ok(None) => {
                // A watch ends after a while. After one that ends at once, and a list that breaks off, the next one waits.
                self.has_failed = self.position.is_none() || began.elapsed() < self.pace.away.0;
                self.events = None;
                Ok(None)
            }
            Err(_) => {
                // A server that does not know lists of this form may wait for ever instead of saying so.
                self.streams &= self.position.is_some();
                self.events = None;
                Ok(None)
            }
        }
    }

    /// Begins a watch, or lists.
    async fn begin(&mut self) -> kube::Result<Option<Told<I, V>>> {
        if self.position.is_none() {
            self.listed.clear();
            if !self.streams {
                return self.pages().await;
            }
        }
        let from = self.position.clone().unwrap_or_default();
        match timeout(self.pace.answer, self.source.watch(&from)).await {
            Ok(events) => self.events = Some((Instant::now(), events?)),
            Err(_) => self.has_failed = true,
        }
        Ok(None)
    }

    /// Lists page by page.
    async fn pages(&mut self) -> kube::Result<Option<Told<I, V>>> {
        let mut next = None;
        loop {
            let Ok(page) = timeout(self.pace.answer, self.source.page(next.take())).await else {
                self.has_failed = true;
                return Ok(None);
            };
            let Page { metadata, items } = page?;
            for item in items {
                match serde_json::from_str(item.get()) {
                    Ok(object) => self.listed.extend(self.kept(&object)),
                    Err(error) => self.warn(&error),
                }
            }
            next = metadata.continue_.filter(|token| !token.is_empty());
            if next.is_none() {
                self.position = metadata.resource_version.filter(|version| !version.is_empty());
                self.has_failed = self.position.is_none();
                return Ok(self.position.is_some().then(|| Told::Listed(std::mem::take(&mut self.listed))));
            }
        }
    }

    /// Warns of an object that cannot be read.
    fn warn(&mut self, error: &(dyn std::error::Error + Send + Sync + 'static)) {
        if self.warned.is_none_or(|at| at.elapsed() >= WARNINGS) {
            self.warned = Some(Instant::now());
            tracing::warn!(
                path = self.source.path(),
                %error,
                "an object of the API server cannot be read: it is ignored, and others like it for a minute without a further line"
            );
        }
    }

    fn kept(&self, object: &K) -> Option<(I, V)> {
        let (id, kept) = (self.read)(object)?;
        Some((id, kept?))
    }

    fn take(&mut self, event: WatchEvent<K>) -> kube::Result<Option<Told<I, V>>> {
        let (object, is_gone) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            WatchEvent::Bookmark(mark) => {
                let ends_list = self.position.is_none();
                if ends_list && !mark.metadata.annotations.contains_key(LIST_END) {
                    (self.streams, self.events) = (false, None);
                    return Ok(None);
                }
                self.position = Some(mark.metadata.resource_version);
                return Ok(ends_list.then(|| Told::Listed(std::mem::take(&mut self.listed))));
            }
        };
        let read = (self.read)(&object);
        if let (Some(position), Some(version)) = (&mut self.position, &object.meta().resource_version) {
            position.clone_from(version);
        }
        let Some((id, kept)) = read else { return Ok(None) };
        if self.position.is_none() {
            if is_gone {
                self.listed.retain(|(known, _)| *known != id);
            } else {
                self.listed.extend(kept.map(|kept| (id, kept)));
            }
            return Ok(None);
        }
        Ok(Some(match kept.filter(|_| !is_gone) {
            Some(kept) => Told::Changed(id, Box::new(kept)),
            None => Told::Gone(id),
        }))
    }
}

/// Returns true for the error of one event that cannot be read. The client takes its line for a status of which nothing is set, unless it is no object at all.
fn is_unreadable(error: &kube::Error) -> bool {
    match error {
        kube::Error::SerdeError(_) => true,
        kube::Error::Api(status) => status.code == 0 && status.status.is_none() && status.message.is_empty(),
        _ => false,
    }
}

/// The words of a server that does not allow a request.
fn forbidden(error: &kube::Error) -> Option<String> {
    match (error, failure(error)) {
        (kube::Error::Api(status), Failure::Refused(text)) if matches!(status.code, 401 | 403) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
