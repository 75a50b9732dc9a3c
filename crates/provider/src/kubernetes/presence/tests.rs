//! Pods that go while they are tracked, and servers that cannot be watched.

use std::convert::Infallible;

use axum::extract::{Path, Query, State as Shared};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::*;
use crate::kubernetes::connect;

const TEMPO: PresenceTiming = PresenceTiming {
    look: Duration::from_millis(200),
    retry: Duration::from_millis(20),
    retry_last: Duration::from_millis(50),
};

/// Times in which nothing is looked up: what happens is known from lists and watches alone.
const WATCHES: PresenceTiming = PresenceTiming { look: Duration::from_secs(3600), ..TEMPO };

/// Longest time for a fact to come true; reached only by a test that fails.
const DEADLINE: Duration = Duration::from_secs(20);

/// A server with Pods of one namespace.
struct Server {
    /// By name.
    pods: Mutex<BTreeMap<String, String>>,
    /// All that happened: a version is a number of them, and a watch begins behind its version.
    events: watch::Sender<Vec<String>>,
    forbids: Forbids,
    /// It sends lists as watches.
    streams: bool,
    /// The queries that it has answered.
    queries: Mutex<Vec<BTreeMap<String, String>>>,
}

/// Requests that a server refuses.
#[derive(Clone, Copy, PartialEq)]
enum Forbids {
    Nothing,
    /// Whole lists, and watches.
    Watches,
    All,
}

/// The uid of a Pod that cannot be read; and of one of which only the uid can, with a time that no type for times reads.
const UNREADABLE: &str = "unreadable";
const LABELS: &str = "odd labels";

fn pod(name: &str, uid: &str) -> Value {
    let time = "10000-01-01T22:59:59Z";
    match uid {
        UNREADABLE => return json!({ "kind": "PartialObjectMetadata", "metadata": { "name": name, "uid": 7 } }),
        LABELS => {
            let managers = json!([{ "manager": "x", "time": time }]);
            let metadata = json!({ "name": name, "uid": uid, "labels": 7, "ownerReferences": [{}], "managedFields": managers, "deletionTimestamp": time });
            return json!({ "kind": "PartialObjectMetadata", "metadata": metadata });
        }
        _ => {}
    }
    let owner =
        json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "9", "controller": true });
    let metadata = json!({
        "name": name, "namespace": "shop", "uid": uid, "ownerReferences": [owner], "labels": { "app": "web", "other": "label" },
    });
    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata })
}

impl Server {
    async fn start(forbids: Forbids) -> (Arc<Self>, Client) {
        Self::start_with(forbids, true).await
    }

    async fn start_with(forbids: Forbids, streams: bool) -> (Arc<Self>, Client) {
        let events = watch::Sender::default();
        let server = Arc::new(Self { pods: Mutex::default(), events, forbids, streams, queries: Mutex::default() });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let app =
            Router::new().route("/api/v1/namespaces/{namespace}/pods", get(answer)).with_state(Arc::clone(&server));
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        (server, connect::client(kube::Config::new(address.parse().unwrap())).unwrap())
    }

    fn put(&self, name: &str, uid: &str) {
        let mut pods = self.pods.lock().unwrap();
        pods.insert(name.to_owned(), uid.to_owned());
        self.send("ADDED", name, uid);
    }

    fn delete(&self, name: &str) {
        let mut pods = self.pods.lock().unwrap();
        let uid = pods.remove(name).unwrap();
        self.send("DELETED", name, &uid);
    }

    fn send(&self, event: &str, name: &str, uid: &str) {
        let line = json!({ "type": event, "object": pod(name, uid) }).to_string() + "\n";
        self.events.send_modify(|events| events.push(line));
    }
}

async fn answer(
    Shared(server): Shared<Arc<Server>>,
    Path(namespace): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    assert_eq!(namespace, "shop");
    let name = query.get("fieldSelector").and_then(|selector| selector.strip_prefix("metadata.name="));
    if server.forbids == Forbids::All || (server.forbids == Forbids::Watches && name.is_none()) {
        return StatusCode::FORBIDDEN.into_response();
    }
    server.queries.lock().unwrap().push(query.clone());
    let pods = server.pods.lock().unwrap();
    let version = server.events.borrow().len();
    if query.contains_key("watch") {
        let (mut first, mut seen) = (Vec::new(), query["resourceVersion"].parse().unwrap_or(0_usize));
        if query.contains_key("sendInitialEvents") {
            if !server.streams {
                let status = json!({ "kind": "Status", "code": 422, "message": "sendInitialEvents is forbidden" });
                return (StatusCode::UNPROCESSABLE_ENTITY, Json(status)).into_response();
            }
            let line = |event: &str, object: Value| json!({ "type": event, "object": object }).to_string() + "\n";
            first.extend(pods.iter().map(|(name, uid)| line("ADDED", pod(name, uid))));
            let end = json!({ "resourceVersion": version.to_string(), "annotations": { "k8s.io/initial-events-end": "true" } });
            first.push(line("BOOKMARK", json!({ "kind": "Pod", "apiVersion": "v1", "metadata": end })));
            seen = version;
        }
        let events = futures::stream::unfold((server.events.subscribe(), seen), |(mut events, seen)| async move {
            let line = events.wait_for(|events| events.len() > seen).await.ok()?[seen].clone();
            Some((line, (events, seen + 1)))
        });
        let lines = futures::stream::iter(first).chain(events).map(Ok::<_, Infallible>);
        return axum::body::Body::from_stream(lines).into_response();
    }
    let page: usize = query.get("limit").map_or(usize::MAX, |limit| limit.parse().unwrap());
    let skipped: usize = query.get("continue").map_or(0, |token| token.parse().unwrap());
    let named = pods.iter().filter(|(found, _)| name.is_none_or(|name| name == *found));
    let mut rest = named.skip(skipped);
    let items: Vec<Value> = rest.by_ref().take(page).map(|(name, uid)| pod(name, uid)).collect();
    let more = rest.next().map(|_| (skipped + page).to_string());
    let metadata = json!({ "resourceVersion": version.to_string(), "continue": more });
    Json(json!({ "kind": "PartialObjectMetadataList", "metadata": metadata, "items": items })).into_response()
}

/// Follows until it is dropped.
struct Following(Presence, CancellationToken);

impl Following {
    fn start(client: Client, timing: PresenceTiming) -> Self {
        let (presence, stop) = (Presence::new(&["app"]), CancellationToken::new());
        tokio::spawn(follow(presence.clone(), client, timing, stop.clone()));
        Self(presence, stop)
    }

    fn track(&self, name: &str, uid: &str) -> Gone {
        self.0.track(&PodId { namespace: "shop".into(), name: name.into(), uid: uid.into() })
    }

    async fn until_shown(&self, uid: &str) {
        let shown = async {
            while !self.0.state().shown.values().any(|shown| shown.contains(uid)) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(DEADLINE, shown).await.expect("it is shown");
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.1.cancel();
    }
}

async fn until_gone(gone: &Gone) {
    timeout(DEADLINE, gone.subscribe().wait_for(|gone| *gone)).await.expect("it is gone").unwrap();
}

#[tokio::test]
async fn a_pod_that_is_deleted_is_gone_and_the_others_are_not() {
    let (server, client) = Server::start(Forbids::Nothing).await;
    server.put("a", "1");
    server.put("b", "2");
    let following = Following::start(client, WATCHES);
    let (a, b) = (following.track("a", "1"), following.track("b", "2"));
    assert!(Arc::ptr_eq(&a, &following.track("a", "1")), "a Pod that is tracked again has the same handle");
    following.until_shown("1").await;
    server.delete("a");
    until_gone(&a).await;
    assert!(!*b.borrow());
}

#[tokio::test]
async fn pods_come_in_small_pages_where_lists_do_not_stream() {
    let (server, client) = Server::start_with(Forbids::Nothing, false).await;
    (0..25).for_each(|at| server.put(&format!("pod-{at:02}"), &at.to_string()));
    let following = Following::start(client, WATCHES);
    let (last, away) = (following.track("pod-24", "24"), following.track("pod-24", "99"));
    until_gone(&away).await;
    following.until_shown("24").await;
    server.delete("pod-24");
    until_gone(&last).await;
    let queries = server.queries.lock().unwrap();
    let limits: Vec<_> = queries.iter().filter_map(|query| query.get("limit")).collect();
    assert_eq!(limits, ["10"; 3], "a page is bounded by the longest objects: {queries:?}");
}

#[tokio::test]
async fn unreadable_pod_costs_no_other() {
    for streams in [true, false] {
        let (server, client) = Server::start_with(Forbids::Nothing, streams).await;
        server.put("0-bad", UNREADABLE);
        server.put("1-odd", LABELS);
        server.put("a", "1");
        let following = Following::start(client, WATCHES);
        let (a, b, odd) = (following.track("a", "1"), following.track("b", "2"), following.track("1-odd", LABELS));
        following.until_shown("1").await;
        assert!(!*odd.borrow() && following.0.facts(LABELS).is_none_or(|facts| facts == PodFacts::default()));
        (0..24).for_each(|_| server.put("0-bad", UNREADABLE));
        server.put("c", "3");
        following.until_shown("3").await;
        server.delete("a");
        until_gone(&a).await;
        drop(b);
    }
}

#[tokio::test]
async fn list_comes_one_pod_at_a_time() {
    let (server, client) = Server::start(Forbids::Nothing).await;
    server.put("a", "1");
    let following = Following::start(client, WATCHES);
    let _gone = following.track("a", "1");
    following.until_shown("1").await;
    let queries = server.queries.lock().unwrap();
    let whole = queries.iter().filter(|query| !query.contains_key("watch") && !query.contains_key("fieldSelector"));
    assert_eq!(whole.count(), 0, "{queries:?}");
}

#[tokio::test]
async fn another_pod_of_the_same_name_is_another() {
    let (server, client) = Server::start(Forbids::Nothing).await;
    server.put("a", "2");
    let following = Following::start(client, WATCHES);
    let (old, new) = (following.track("a", "1"), following.track("a", "2"));
    until_gone(&old).await;
    assert!(!*new.borrow());
}

#[tokio::test]
async fn where_pods_may_not_be_watched_each_is_looked_for() {
    let (server, client) = Server::start(Forbids::Watches).await;
    server.put("a", "1");
    server.put("b", "2");
    let following = Following::start(client, TEMPO);
    let (a, b) = (following.track("a", "1"), following.track("b", "2"));
    server.delete("a");
    until_gone(&a).await;
    assert!(!*b.borrow());
}

#[tokio::test]
async fn a_pod_whose_handle_is_dropped_is_followed_no_more() {
    let (server, client) = Server::start(Forbids::Nothing).await;
    server.put("a", "1");
    let following = Following::start(client, TEMPO);
    let gone = following.track("a", "1");
    following.until_shown("1").await;
    drop(gone);
    let forgotten = async {
        while !following.0.state().shown.is_empty() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(DEADLINE, forgotten).await.expect("its namespace is watched no more");
    assert!(following.0.state().tracked.is_empty());
}

fn id(name: &str, uid: &str) -> PodId {
    PodId { namespace: "shop".into(), name: name.into(), uid: uid.into() }
}

#[tokio::test]
async fn pod_that_went_is_gone_when_tracked_again() {
    let (server, client) = Server::start(Forbids::Nothing).await;
    server.put("a", "1");
    let following = Following::start(client, WATCHES);
    let gone = following.track("a", "1");
    following.until_shown("1").await;
    server.delete("a");
    until_gone(&gone).await;
    assert!(*following.track("a", "1").borrow(), "its token may still be reviewed as good");
    assert!(!*following.track("a", "2").borrow());
}

#[tokio::test]
async fn first_look_finds_facts_or_the_end() {
    let (server, client) = Server::start(Forbids::Watches).await;
    server.put("a", "1");
    let presence = Presence::new(&["app"]);
    let gone = presence.find(&client, &id("a", "1")).await;
    assert!(!*gone.borrow());
    let facts = presence.facts("1").unwrap();
    assert_eq!(facts.labels, [("app".into(), "web".into())].into());
    assert_eq!(facts.controller, Some(("ReplicaSet".into(), "web-1".into())));
    assert!(!presence.is_uncertain(&id("a", "1")));
    assert!(*presence.find(&client, &id("a", "0")).await.borrow(), "a Pod that no watch has shown is gone");
    assert!(presence.is_uncertain(&id("b", "2")), "it is not tracked");
}

#[tokio::test]
async fn pod_that_cannot_be_looked_up_is_uncertain() {
    let (server, client) = Server::start(Forbids::All).await;
    server.put("a", "1");
    let presence = Presence::new(&["app"]);
    let gone = presence.find(&client, &id("a", "1")).await;
    assert!(!*gone.borrow());
    assert!(presence.is_uncertain(&id("a", "1")));
    assert_eq!(presence.facts("1"), None);
    // The same of one that cannot be read: it may be there.
    let (server, client) = Server::start(Forbids::Watches).await;
    server.put("bad", UNREADABLE);
    let bad = presence.find(&client, &id("bad", UNREADABLE)).await;
    assert!(!*bad.borrow() && presence.is_uncertain(&id("bad", UNREADABLE)));
}

#[test]
fn pods_that_are_gone_are_remembered_for_a_time_and_in_bounds() {
    let mut state = State::default();
    let start = Instant::now();
    state.remember("old", start);
    state.remember("old", start);
    assert_eq!((state.gone.len(), state.went.len()), (1, 1));
    for uid in 0..MOST_GONE {
        state.remember(&uid.to_string(), start + Duration::from_secs(1));
    }
    assert_eq!((state.gone.len(), state.went.len()), (MOST_GONE, MOST_GONE));
    assert!(!state.gone.contains("old") && state.gone.contains("0"));
    state.remember("new", start + Duration::from_secs(1) + REMEMBERED);
    assert_eq!(state.gone.iter().map(|uid| &**uid).collect::<Vec<_>>(), ["new"]);
}
