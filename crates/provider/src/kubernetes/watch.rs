//! The protocol of one target: list, then watch from there, for ever.
//!
//! ```text
//!            ┌──── 410, or what nobody understands ────┐
//!            ▼                                         │
//!  begin ─▶ list ──── end ────▶ watch from position ───┤
//!            ▲ broken off          │    ▲              │
//!            └───── wait ──────────┘    └─── ended, silent, broken off (wait if it failed)
//! ```
//!
//! A list comes as a watch that begins with what there is, from servers that can do that (Kubernetes 1.32): one object at a time is in memory, and
//! the watch goes on from there. From others it comes in pages.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use kube::api::{ListParams, WatchParams};
use kube::client::Body;
use kube::core::Request;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::kubernetes::call::{BUSY, Caller, Failure, Status};
use crate::kubernetes::lines::{self, Lines};
use crate::kubernetes::pace::Backoff;
use crate::kubernetes::seen::{self, Bookmark, Line, Page, PageMetadata, Seen, Version};
use crate::kubernetes::target::{Resource, Target};

/// Objects of a page: with 1.5 MB each, what etcd takes, 150 MB, which an answer may have. Longer pages of an author's objects would fail, and with them all lists
/// of the kind.
const PAGE: u32 = 100;

/// Of kinds whose objects may have a megabyte each.
const PAGE_OF_LARGE: u32 = 50;

/// Which watch.
pub(crate) type Id = u64;

/// What a watch has to say.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) watch: Id,
    pub(crate) news: News,
}

/// See [`Message`].
#[derive(Debug)]
pub(crate) enum News {
    /// A list begins.
    Begin,
    /// Objects of the list, or what happened since.
    Events(Vec<Event>),
    /// The list is complete: whatever it did not have is gone.
    End,
    /// It is being tried again; what was said before still holds.
    Trouble(Failure),
    /// The server answers again.
    Well,
}

/// What happened to an object.
#[derive(Debug)]
pub(crate) enum Event {
    Applied(Seen),
    Deleted(Seen),
    /// An object that does not say who it is.
    Nameless(String),
}

/// Follows a target until nobody listens any more. With `once` only its list is wanted.
pub(crate) async fn run(caller: Caller, target: Target, once: bool, outbox: Outbox) {
    let backoff = Backoff::new(caller.pace.retry_first, caller.pace.retry_last);
    let mut watch =
        Watch { caller, target, outbox, backoff, position: None, streams: true, troubled: false, busy: None };
    loop {
        let began = Instant::now();
        let outcome = watch.next(once).await;
        if began.elapsed() >= watch.caller.pace.retry_last {
            watch.backoff.reset();
        }
        let failure = match outcome {
            Ok(()) if once && watch.position.is_some() => return,
            // The server ends every watch after a while. Of one that ends at once the next waits.
            Ok(()) if began.elapsed() >= watch.caller.pace.retry_first => continue,
            Ok(()) => None,
            Err(Failure::Closed) => return,
            Err(failure) => Some(failure),
        };
        if let Some(failure) = failure
            && watch.failed(failure).await.is_err()
        {
            return;
        }
        sleep(watch.backoff.wait()).await;
    }
}

/// Where messages go.
#[derive(Clone)]
pub(crate) struct Outbox {
    pub(crate) watch: Id,
    pub(crate) sender: mpsc::Sender<Message>,
}

impl Outbox {
    async fn send(&self, news: News) -> Result<(), Failure> {
        let message = Message { watch: self.watch, news };
        self.sender.send(message).await.map_err(|_| Failure::Closed)
    }
}

struct Watch {
    caller: Caller,
    target: Target,
    outbox: Outbox,
    backoff: Backoff,
    /// Everything up to here has been told; none before the first list, or when the list has to be had again.
    position: Option<Version>,
    /// Whether the server gives lists as watches, as far as is known.
    streams: bool,
    /// Whether trouble was told that is not over.
    troubled: bool,
    /// The server has asked to wait since then.
    busy: Option<Instant>,
}

impl Watch {
    /// The next list or watch, to its end.
    async fn next(&mut self, once: bool) -> Result<(), Failure> {
        match self.position.clone() {
            // Of a list alone no watch is wanted.
            None if self.streams && !once => self.stream("", true).await,
            None => self.pages().await,
            Some(position) => self.stream(position.as_str(), false).await,
        }
    }

    /// Something failed: what has to be asked differently, and what has to be told.
    async fn failed(&mut self, failure: Failure) -> Result<(), Failure> {
        match failure {
            Failure::Gone => {
                self.position = None;
                return Ok(());
            }
            Failure::Invalid(_) if self.streams && self.position.is_none() => {
                self.streams = false;
                return Ok(());
            }
            Failure::Busy(_) if self.busy.get_or_insert_with(Instant::now).elapsed() < BUSY => return Ok(()),
            Failure::Missing => self.position = None,
            Failure::Invalid(_) => self.position = None,
            _ => {}
        }
        self.troubled = true;
        self.outbox.send(News::Trouble(failure)).await
    }

    /// The server answered.
    async fn well(&mut self) -> Result<(), Failure> {
        self.busy = None;
        if std::mem::take(&mut self.troubled) {
            self.outbox.send(News::Well).await?;
        }
        Ok(())
    }

    /// All objects, page by page.
    async fn pages(&mut self) -> Result<(), Failure> {
        let mut next = None;
        let mut begun = false;
        loop {
            let text = self.caller.whole(self.page_request(next.take())?).await?;
            self.well().await?;
            if !std::mem::replace(&mut begun, true) {
                self.outbox.send(News::Begin).await?;
            }
            let (events, metadata) = page(self.target.resource, &text)?;
            self.outbox.send(News::Events(events)).await?;
            next = metadata.next.filter(|token| !token.is_empty());
            if next.is_none() {
                let version = metadata.resource_version.filter(|version| !version.is_empty());
                let version = version.ok_or_else(|| Failure::Away("a list has no resourceVersion".to_owned()))?;
                self.position = Some(Version::new(&version));
                return self.outbox.send(News::End).await;
            }
        }
    }

    fn page_request(&self, next: Option<String>) -> Result<http::Request<Vec<u8>>, Failure> {
        let large = self.target.resource.kind().is_some_and(super::is_named);
        let parameters = ListParams {
            field_selector: self.target.field_selector(),
            limit: Some(if large { PAGE_OF_LARGE } else { PAGE }),
            continue_token: next,
            ..ListParams::default()
        };
        let request = Request::new(self.target.path());
        let request = match self.target.resource {
            Resource::Kind(..) => request.list(&parameters),
            Resource::Definitions => request.list_metadata(&parameters),
        };
        request.map_err(|error| Failure::Away(error.to_string()))
    }

    /// A watch to its end: what happens from a version on, or, where `listing`, all objects first.
    async fn stream(&mut self, from: &str, listing: bool) -> Result<(), Failure> {
        let mut body = self.caller.begin(self.stream_request(from, listing)?).await?;
        self.well().await?;
        if listing {
            self.outbox.send(News::Begin).await?;
        }
        let mut lines = Lines::default();
        loop {
            let Some(part) = self.part(&mut body).await else { return self.ended() };
            let complete = lines.push(&part).ok_or_else(|| Failure::Away("an object is too long".to_owned()))?;
            self.take(&complete).await?;
        }
    }

    fn stream_request(&self, from: &str, listing: bool) -> Result<http::Request<Vec<u8>>, Failure> {
        let parameters = WatchParams {
            field_selector: self.target.field_selector(),
            timeout: Some(self.caller.pace.watch_seconds()),
            bookmarks: true,
            send_initial_events: listing,
            ..WatchParams::default()
        };
        let request = Request::new(self.target.path());
        let request = match self.target.resource {
            Resource::Kind(..) => request.watch(&parameters, from),
            Resource::Definitions => request.watch_metadata(&parameters, from),
        };
        request.map_err(|error| Failure::Away(error.to_string()))
    }

    /// The next bytes; none where the watch ends, breaks off or is silent: all the same, another one goes on.
    async fn part(&mut self, body: &mut Body) -> Option<Bytes> {
        loop {
            let Ok(frame) = timeout(self.caller.pace.silence, body.frame()).await else {
                // A server that does not know lists of this form may wait for ever instead of saying so.
                self.streams &= self.position.is_some();
                return None;
            };
            if let Ok(data) = frame?.ok()?.into_data() {
                return Some(data);
            }
        }
    }

    /// A watch is over, which is nothing unusual, unless it was to begin with a list.
    fn ended(&self) -> Result<(), Failure> {
        match self.position {
            Some(_) => Ok(()),
            None => Err(Failure::Away("a list breaks off".to_owned())),
        }
    }

    /// Takes complete lines, and tells them together.
    async fn take(&mut self, complete: &Bytes) -> Result<(), Failure> {
        let mut events = Vec::new();
        let mut outcome = Ok(());
        let watching = self.position.is_some();
        for line in lines::each(complete) {
            match self.line(&line, &mut events) {
                Ok(false) => {}
                Ok(true) => {
                    self.outbox.send(News::Events(std::mem::take(&mut events))).await?;
                    self.outbox.send(News::End).await?;
                }
                Err(failure) => {
                    outcome = Err(failure);
                    break;
                }
            }
        }
        // A list that works is no sign that the watch after it will.
        if watching && outcome.is_ok() {
            self.backoff.reset();
        }
        if !events.is_empty() {
            self.outbox.send(News::Events(events)).await?;
        }
        outcome
    }

    /// One line; true: the list is complete with it.
    fn line(&mut self, line: &Bytes, events: &mut Vec<Event>) -> Result<bool, Failure> {
        let text = std::str::from_utf8(line).map_err(garbled)?;
        let (event, object) = seen::event(text).map_err(garbled)?;
        let event = match &*event {
            "ADDED" | "MODIFIED" => Event::Applied,
            "DELETED" => Event::Deleted,
            "BOOKMARK" => return Ok(self.bookmark(object)),
            "ERROR" => return Err(serde_json::from_str::<Status>(object).unwrap_or_default().failure()),
            _ => return Ok(false),
        };
        match Seen::look(self.target.resource, &line.slice_ref(object.as_bytes())) {
            Ok(seen) => events.extend(self.is_news(&seen).then(|| event(seen))),
            Err(error) => {
                // One that nobody can read may stand for anything.
                serde_json::from_str::<Line<'_>>(text).map_err(garbled)?;
                events.push(Event::Nameless(error));
            }
        }
        Ok(false)
    }

    /// Whether something that happened was not told before.
    fn is_news(&mut self, seen: &Seen) -> bool {
        // The objects of a list are in no order of time.
        let Some(position) = &mut self.position else { return true };
        match (position.number(), seen.version.number()) {
            (Some(position), Some(version)) if version <= position => return false,
            _ if !seen.version.is_empty() => position.clone_from(&seen.version),
            _ => {}
        }
        true
    }

    /// How far the watch has come; true where it ends the list.
    fn bookmark(&mut self, text: &str) -> bool {
        let Ok(Bookmark { metadata }) = serde_json::from_str(text) else { return false };
        let Some(version) = metadata.resource_version.filter(|version| !version.is_empty()) else { return false };
        let ends = self.position.is_none() && metadata.annotations.contains_key(seen::LIST_END);
        if ends || self.position.is_some() {
            self.position = Some(Version::new(&version));
        }
        ends
    }
}

fn garbled(error: impl std::fmt::Display) -> Failure {
    Failure::Invalid(format!("what a watch gives is no JSON: {error}"))
}

/// The objects of a page, and how it goes on.
fn page(resource: Resource, text: &Bytes) -> Result<(Vec<Event>, PageMetadata), Failure> {
    let garbled = |error: &dyn std::fmt::Display| Failure::Away(format!("what a list gives is no JSON: {error}"));
    let json = std::str::from_utf8(text).map_err(|error| garbled(&error))?;
    let Page { metadata, items } = serde_json::from_str(json).map_err(|error| garbled(&error))?;
    let look = |item: &serde_json::value::RawValue| {
        let text = text.slice_ref(item.get().as_bytes());
        Seen::look(resource, &text).map_or_else(Event::Nameless, Event::Applied)
    };
    Ok((items.unwrap_or_default().into_iter().map(look).collect(), metadata))
}
