//! What the API server has of our objects, as news: one task for each kind (and namespace), and one for nodes while somebody needs their
//! addresses.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::call::{Caller, Failure, causes, failure};
use super::object::ObjectKind;
use super::pace::{Backoff, Pace};
use super::seen::{Raw, resource};

/// How long a watch is asked to last; one that has said nothing for that long, nor ended, is dead and begins again where it was.
const WATCH_SECONDS: u32 = 150;

/// What a task looks at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    /// None: nodes.
    pub(super) kind: Option<ObjectKind>,
    /// None: all.
    pub(super) namespace: Option<Arc<str>>,
}

/// What a task has to say.
#[derive(Debug)]
pub(super) struct News {
    pub(super) target: Target,
    pub(super) event: Told,
}

#[derive(Debug)]
pub(super) enum Told<K = Raw> {
    /// All there is: whatever this lacks is gone.
    Listed(Vec<K>),
    Changed(Box<K>),
    Gone(Box<K>),
    /// We may not look, in the server's words.
    Forbidden(String),
}

/// Lists and watches until nobody listens any more. While the server is away it says nothing and tries again.
pub(super) async fn follow(caller: Caller, target: Target, labels: Option<String>, sender: mpsc::Sender<News>) {
    let names = target.kind.map_or(("v1", "Node", "nodes"), ObjectKind::names);
    let client = caller.client.clone();
    let api: Api<Raw> = match &target.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource(names)),
        None => Api::all_with(client, &resource(names)),
    };
    let config = labels.iter().fold(watcher::Config::default(), |config, labels| config.labels(labels));
    let mut watch = Watch::new(api, config, caller.pace);
    while let Some(event) = watch.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                tracing::debug!(kind = names.1, error = causes(&error), "cannot watch");
                let Some(words) = forbidden(&error) else { continue };
                Told::Forbidden(words)
            }
        };
        if sender.send(News { target: target.clone(), event }).await.is_err() {
            return;
        }
    }
}

/// Lists and watches objects of a kind, within bounds of time, and waits after a failure.
pub(super) struct Watch<K: Resource<DynamicType: Clone> + 'static> {
    api: Api<K>,
    config: watcher::Config,
    pace: Pace,
    backoff: Backoff,
    events: BoxStream<'static, watcher::Result<Event<K>>>,
    /// It is listing: the library bounds a silent watch, not a list.
    lists: bool,
    listed: Vec<K>,
    /// The last answer was a failure.
    has_failed: bool,
}

impl<K> Watch<K>
where
    K: Resource + Clone + DeserializeOwned + fmt::Debug + Send + 'static,
    K::DynamicType: Clone,
{
    pub(super) fn new(api: Api<K>, config: watcher::Config, pace: Pace) -> Self {
        let config = config.timeout(WATCH_SECONDS);
        let events = watcher(api.clone(), config.clone()).boxed();
        let backoff = Backoff::new(pace.away);
        Self { api, config, pace, backoff, events, lists: true, listed: Vec::new(), has_failed: false }
    }

    /// Waits for the next event; none: there is no further one.
    pub(super) async fn next(&mut self) -> Option<watcher::Result<Told<K>>> {
        loop {
            if std::mem::take(&mut self.has_failed) {
                sleep(self.backoff.wait()).await;
            }
            let bound = if self.lists { self.pace.answer } else { Duration::MAX };
            let event = match timeout(bound, self.events.next()).await {
                Ok(Some(Ok(event))) => event,
                Ok(Some(Err(error))) => {
                    self.has_failed = true;
                    return Some(Err(error));
                }
                Ok(None) => return None,
                Err(_) => {
                    self.events = watcher(self.api.clone(), self.config.clone()).boxed();
                    continue;
                }
            };
            // The server has answered nothing before a list begins.
            if !matches!(event, Event::Init) {
                self.backoff.reset();
            }
            self.lists = matches!(event, Event::Init | Event::InitApply(_));
            match event {
                Event::Init => self.listed.clear(),
                Event::InitApply(object) => self.listed.push(object),
                Event::InitDone => return Some(Ok(Told::Listed(std::mem::take(&mut self.listed)))),
                Event::Apply(object) => return Some(Ok(Told::Changed(Box::new(object)))),
                Event::Delete(object) => return Some(Ok(Told::Gone(Box::new(object)))),
            }
        }
    }
}

fn forbidden(error: &watcher::Error) -> Option<String> {
    let (watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error)) = error else {
        return None;
    };
    match (error, failure(error)) {
        (kube::Error::Api(status), Failure::Refused(text)) if matches!(status.code, 401 | 403) => Some(text),
        _ => None,
    }
}
