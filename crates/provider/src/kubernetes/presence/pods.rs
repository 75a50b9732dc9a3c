//! [`PodWatch`]: lists Pods and watches them. Each is reduced to [`PodMetadata`] as it comes: authors write most of a Pod, half a megabyte of it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource as _;
use kube::api::{ListParams, WatchParams};
use kube::core::Request;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::PodFacts;
use crate::kubernetes::call::{Caller, Failure, Status};
use crate::kubernetes::lines::{self, Lines};
use crate::kubernetes::seen::{self, Bookmark, Page, Version, Word};

/// Objects in a page of a list, where a server does not send lists one object at a time. The metadata of one has up to some 3 MB (256 KB of annotations that
/// are as long again in `managedFields`, and labels in place of the rest of 1.5 MB), so a page has 30 MB at most, and is parsed one object at a time.
const PAGE: u32 = 10;

/// Duration of a watch that is requested, in seconds; and the silence after which one is taken for dead.
const WATCH: u32 = 240;
const SILENCE: Duration = Duration::from_secs(270);

/// Longest silence within a list that comes as a watch.
const LIST_SILENCE: Duration = Duration::from_secs(30);

/// Time between warnings of a watch about Pods that cannot be read: authors can write one as often as they like.
const WARNINGS: Duration = Duration::from_secs(60);

/// Longest kind and longest name of a controller that are kept: an API server bounds names of objects by this, but not those in references.
const LONGEST: usize = 253;

/// The fields of a Pod that are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodMetadata {
    pub(super) uid: Arc<str>,
    version: Version,
    pub(super) facts: PodFacts,
}

/// An event of a watch.
#[derive(Debug)]
pub(super) enum PodEvent {
    /// A list begins.
    Begin,
    /// A Pod that is there.
    Shown(PodMetadata),
    /// One that is deleted.
    Deleted(PodMetadata),
    /// The list is complete.
    Listed,
}

/// Lists and watches the Pods of a namespace, or of all.
pub(super) struct PodWatch {
    caller: Caller,
    path: String,
    /// Labels that are kept.
    kept: &'static [&'static str],
    /// All events up to here were sent; none before the first list is complete.
    position: Option<Version>,
    /// The server sends lists as watches, as far as is known.
    streams: bool,
    /// The last warning about a Pod that cannot be read.
    warned: Option<Instant>,
}

impl PodWatch {
    /// Prepares a watch of a namespace; an empty name is all.
    pub(super) fn new(caller: Caller, namespace: &str, kept: &'static [&'static str]) -> Self {
        let path = Pod::url_path(&(), Some(namespace).filter(|name| !name.is_empty()));
        Self { caller, path, kept, position: None, streams: true, warned: None }
    }

    /// Returns the Pods of a name, of which there is one at most, without a watch.
    pub(super) async fn find(&self, name: &str) -> Result<Vec<PodMetadata>, Failure> {
        // The right is to list; to get a single object is another right.
        let this = ListParams::default().fields(&format!("metadata.name={name}"));
        let request = Request::new(&self.path).list_metadata(&this).map_err(unusable)?;
        let text = self.caller.whole(request).await?;
        let Page { items, .. } = serde_json::from_slice(&text).map_err(garbled)?;
        // One that cannot be read may be there.
        let pods = items
            .unwrap_or_default()
            .into_iter()
            .map(|item| read(item.get(), self.kept))
            .collect::<Result<Vec<_>, _>>();
        Ok(pods.map_err(garbled)?.into_iter().flatten().collect())
    }

    /// Lists if need be, and watches from there to the watch's end. After a failure the next one begins with a list.
    pub(super) async fn next(&mut self, emit: &mut (dyn FnMut(PodEvent) + Send)) -> Result<(), Failure> {
        let outcome = self.go_on(emit).await;
        if outcome.is_err() {
            self.position = None;
        }
        match outcome {
            Err(Failure::Invalid(_)) if std::mem::take(&mut self.streams) => Ok(()),
            Err(Failure::Gone) => Ok(()),
            outcome => outcome,
        }
    }

    async fn go_on(&mut self, emit: &mut (dyn FnMut(PodEvent) + Send)) -> Result<(), Failure> {
        if self.position.is_none() {
            emit(PodEvent::Begin);
            if !self.streams {
                self.pages(emit).await?;
            }
        }
        self.stream(emit).await
    }

    /// Lists page by page.
    async fn pages(&mut self, emit: &mut (dyn FnMut(PodEvent) + Send)) -> Result<(), Failure> {
        let mut next = None;
        loop {
            let how = ListParams { limit: Some(PAGE), continue_token: next.take(), ..ListParams::default() };
            let request = Request::new(&self.path).list_metadata(&how).map_err(unusable)?;
            let text = self.caller.whole(request).await?;
            let Page { metadata, items } = serde_json::from_slice(&text).map_err(garbled)?;
            for item in items.unwrap_or_default() {
                if let Some(pod) = self.readable(item.get()) {
                    emit(PodEvent::Shown(pod));
                }
            }
            next = metadata.next.filter(|token| !token.is_empty());
            if next.is_none() {
                let version = metadata.resource_version.filter(|version| !version.is_empty());
                let version = version.ok_or_else(|| Failure::Away("a list has no resourceVersion".to_owned()))?;
                self.position = Some(Version::new(&version));
                emit(PodEvent::Listed);
                return Ok(());
            }
        }
    }

    /// Watches to the watch's end, from a version on, or with all Pods first.
    async fn stream(&mut self, emit: &mut (dyn FnMut(PodEvent) + Send)) -> Result<(), Failure> {
        let how = WatchParams { timeout: Some(WATCH), bookmarks: true, ..WatchParams::default() };
        let how = WatchParams { send_initial_events: self.position.is_none(), ..how };
        let from = self.position.clone().unwrap_or_default();
        let request = Request::new(&self.path).watch_metadata(&how, from.as_str()).map_err(unusable)?;
        let mut body = self.caller.begin(request).await?;
        let mut lines = Lines::default();
        loop {
            let silence = if self.position.is_some() { SILENCE } else { LIST_SILENCE };
            let Ok(frame) = timeout(silence, body.frame()).await else {
                // One that does not know lists of this form may wait for ever instead of saying so.
                self.streams &= self.position.is_some();
                return self.ended();
            };
            let Some(Ok(frame)) = frame else { return self.ended() };
            let Ok(data) = frame.into_data() else { continue };
            let complete = lines.push(&data).ok_or_else(|| Failure::Away("an object is too long".to_owned()))?;
            for line in lines::each(&complete) {
                self.take(&line, emit)?;
            }
        }
    }

    /// Handles the end of a watch, which is nothing unusual unless it was to begin with a list.
    fn ended(&self) -> Result<(), Failure> {
        match self.position {
            Some(_) => Ok(()),
            None => Err(Failure::Away("a list breaks off".to_owned())),
        }
    }

    /// Takes one line of a watch.
    fn take(&mut self, line: &Bytes, emit: &mut (dyn FnMut(PodEvent) + Send)) -> Result<(), Failure> {
        let text = std::str::from_utf8(line).map_err(garbled)?;
        let (event, object) = seen::event(text).map_err(garbled)?;
        let event = match &*event {
            "ADDED" | "MODIFIED" => PodEvent::Shown,
            "DELETED" => PodEvent::Deleted,
            "BOOKMARK" => return self.bookmark(object, emit),
            "ERROR" => return Err(serde_json::from_str::<Status>(object).unwrap_or_default().failure()),
            _ => return Ok(()),
        };
        let Some(pod) = self.readable(object) else { return Ok(()) };
        if let Some(position) = self.position.as_mut().filter(|_| !pod.version.is_empty()) {
            position.clone_from(&pod.version);
        }
        emit(event(pod));
        Ok(())
    }

    /// Reads a Pod, and warns of one that cannot be read: it is left out, and costs no other.
    fn readable(&mut self, text: &str) -> Option<PodMetadata> {
        let error = match read(text, self.kept) {
            Ok(pod) => return pod,
            Err(error) => error,
        };
        if self.warned.is_none_or(|at| at.elapsed() >= WARNINGS) {
            self.warned = Some(Instant::now());
            warn!(
                path = self.path,
                %error,
                "a Pod of the API server cannot be read: it is ignored, and others like it for a minute without a further line"
            );
        }
        None
    }

    /// Notes the progress of a watch; a bookmark with [`seen::LIST_END`] ends a list.
    fn bookmark(&mut self, object: &str, emit: &mut (dyn FnMut(PodEvent) + Send)) -> Result<(), Failure> {
        let Bookmark { metadata } = serde_json::from_str(object).map_err(garbled)?;
        let Some(version) = metadata.resource_version.filter(|version| !version.is_empty()) else { return Ok(()) };
        let was_listed = self.position.is_some();
        if !was_listed && !metadata.annotations.contains_key(seen::LIST_END) {
            return Err(Failure::Invalid("the server does not send lists as watches".to_owned()));
        }
        self.position = Some(Version::new(&version));
        if !was_listed {
            emit(PodEvent::Listed);
        }
        Ok(())
    }
}

fn garbled(error: impl fmt::Display) -> Failure {
    Failure::Away(format!("the answer about Pods is no JSON: {error}"))
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err asks for")]
fn unusable(error: kube::core::request::Error) -> Failure {
    Failure::Away(error.to_string())
}

/// Reads what is kept of a Pod; none of one without a uid. One of which the labels or the owners cannot be read has none, so it is no proxy.
fn read(text: &str, kept: &[&str]) -> serde_json::Result<Option<PodMetadata>> {
    #[derive(Deserialize)]
    struct Outer<'a> {
        #[serde(borrow)]
        metadata: Metadata<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata<'a> {
        uid: Option<Arc<str>>,
        resource_version: Option<&'a str>,
        #[serde(borrow)]
        labels: Option<&'a RawValue>,
        #[serde(borrow)]
        owner_references: Option<&'a RawValue>,
    }
    let Outer { metadata } = serde_json::from_str(text)?;
    let labels =
        metadata.labels.map(|labels| Labels(kept).deserialize(&mut serde_json::Deserializer::from_str(labels.get())));
    let controller = metadata.owner_references.map(|owners| serde_json::from_str::<Controller>(owners.get()));
    let facts = PodFacts {
        labels: labels.and_then(Result::ok).unwrap_or_default(),
        controller: controller.and_then(Result::ok).and_then(|Controller(controller)| controller),
    };
    let version = Version::new(metadata.resource_version.unwrap_or_default());
    Ok(metadata.uid.map(|uid| PodMetadata { uid, version, facts }))
}

/// Reads labels of these names.
struct Labels<'k>(&'k [&'k str]);

impl<'de> DeserializeSeed<'de> for Labels<'_> {
    type Value = BTreeMap<Arc<str>, Arc<str>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Labels<'_> {
    type Value = BTreeMap<Arc<str>, Arc<str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("labels")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut found = BTreeMap::new();
        while let Some(Word(name)) = map.next_key()? {
            if self.0.contains(&&*name) {
                found.insert(Arc::from(&*name), map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// Kind and name of the one owner of an object that controls it.
struct Controller(Option<(Arc<str>, Arc<str>)>);

impl<'de> Deserialize<'de> for Controller {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Owners;
        #[derive(Deserialize)]
        struct Owner<'a> {
            #[serde(borrow)]
            kind: Word<'a>,
            #[serde(borrow)]
            name: Word<'a>,
            #[serde(default)]
            controller: Option<bool>,
        }
        impl<'de> Visitor<'de> for Owners {
            type Value = Controller;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("owner references")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut owners: S) -> Result<Controller, S::Error> {
                let mut found = None;
                while let Some(Owner { kind: Word(kind), name: Word(name), controller }) = owners.next_element()? {
                    if controller == Some(true) && found.is_none() && kind.len().max(name.len()) <= LONGEST {
                        found = Some((Arc::from(&*kind), Arc::from(&*name)));
                    }
                }
                Ok(Controller(found))
            }
        }
        deserializer.deserialize_seq(Owners)
    }
}

#[cfg(test)]
mod tests;
