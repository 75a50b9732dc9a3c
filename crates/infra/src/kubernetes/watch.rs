//! What the API server has of our objects, as news: one task for each kind (and namespace), and one for nodes while somebody needs their
//! addresses.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::Api;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::call::{Caller, Failure, causes, failure};
use super::object::ObjectKind;
use super::pace::Backoff;
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
pub(super) enum Told {
    /// All there is: whatever this lacks is gone.
    Listed(Vec<Raw>),
    Changed(Box<Raw>),
    Gone(Box<Raw>),
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
    let mut backoff = Backoff::new(caller.pace.away);
    let config = watcher::Config::default().timeout(WATCH_SECONDS);
    let config = labels.iter().fold(config, |config, labels| config.labels(labels));
    let begin = || Box::pin(watcher(api.clone(), config.clone()));
    let (mut events, mut lists, mut listed) = (begin(), true, Vec::new());
    loop {
        // the library bounds a silent watch, not a list
        let bound = if lists { caller.pace.answer } else { Duration::MAX };
        let told = match timeout(bound, events.next()).await {
            Err(_) => {
                events = begin();
                None
            }
            Ok(None) => return,
            Ok(Some(Ok(event))) => {
                // said before anything is asked
                if !matches!(event, Event::Init) {
                    backoff.reset();
                }
                lists = matches!(event, Event::Init | Event::InitApply(_));
                told(event, &mut listed)
            }
            Ok(Some(Err(error))) => {
                tracing::debug!(kind = names.1, error = causes(&error), "cannot watch");
                let forbidden = forbidden(&error);
                sleep(backoff.wait()).await;
                forbidden.map(Told::Forbidden)
            }
        };
        let Some(event) = told else { continue };
        if sender.send(News { target: target.clone(), event }).await.is_err() {
            return;
        }
    }
}

/// What is to be told of an event.
fn told(event: Event<Raw>, listed: &mut Vec<Raw>) -> Option<Told> {
    match event {
        Event::Init => listed.clear(),
        Event::InitApply(raw) => listed.push(raw),
        Event::InitDone => return Some(Told::Listed(std::mem::take(listed))),
        Event::Apply(raw) => return Some(Told::Changed(Box::new(raw))),
        Event::Delete(raw) => return Some(Told::Gone(Box::new(raw))),
    }
    None
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
