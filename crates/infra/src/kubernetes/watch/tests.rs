//! Lists and watches of a server with objects of an author.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Mutex;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::*;
use crate::kubernetes::name::{Owner, watched};

/// Longest time for an event; reached only by a test that fails.
const DEADLINE: Duration = Duration::from_secs(20);

/// A server with `ConfigMap`s of the namespace `shop`: of even numbers with labels of a Gateway, of odd ones without.
struct Server {
    streams: bool,
    count: usize,
    /// Objects that stand before the others in a list.
    first: Vec<Value>,
    /// Lines of watches after the list.
    later: Vec<String>,
    requests: Mutex<Vec<(String, BTreeMap<String, String>)>>,
}

fn object(at: usize, labelled: bool) -> Value {
    let mut labels = json!({ "chancery.io/controller": "c-1" });
    if labelled {
        labels["gateway.envoyproxy.io/owning-gateway-name"] = json!("gw");
        labels["gateway.envoyproxy.io/owning-gateway-namespace"] = json!("shop");
    }
    let metadata = json!({ "name": format!("c-{at:03}"), "namespace": "shop", "resourceVersion": at.to_string(), "labels": labels });
    json!({ "kind": "PartialObjectMetadata", "metadata": metadata })
}

fn line(event: &str, object: &Value) -> String {
    json!({ "type": event, "object": object }).to_string() + "\n"
}

async fn answer(
    State(server): State<Arc<Server>>,
    headers: HeaderMap,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    let accept = headers.get("accept").map(|accept| accept.to_str().unwrap().to_owned());
    server.requests.lock().unwrap().push((accept.unwrap_or_default(), query.clone()));
    if query.contains_key("watch") {
        let is_list = query.contains_key("sendInitialEvents");
        if is_list && !server.streams {
            let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 422, "message": "forbidden", "reason": "Invalid" });
            return (StatusCode::UNPROCESSABLE_ENTITY, Json(status)).into_response();
        }
        let mut lines: Vec<String> = Vec::new();
        if is_list {
            lines.extend(server.first.iter().map(|object| line("ADDED", object)));
            lines.extend((0..server.count).map(|at| line("ADDED", &object(at, at % 2 == 0))));
            let metadata = json!({ "resourceVersion": "900", "annotations": { LIST_END: "true" } });
            lines.push(line("BOOKMARK", &json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata })));
        }
        lines.extend(server.later.iter().cloned());
        let lines = futures::stream::iter(lines.into_iter().map(Ok::<_, Infallible>)).chain(futures::stream::pending());
        return axum::body::Body::from_stream(lines).into_response();
    }
    let limit: usize = query["limit"].parse().unwrap();
    let from: usize = query.get("continue").map_or(0, |token| token.parse().unwrap());
    let first = if from == 0 { server.first.clone() } else { Vec::new() };
    let others = (from..server.count.min(from + limit)).map(|at| object(at, at % 2 == 0));
    let items: Vec<Value> = first.into_iter().chain(others).collect();
    let more = (from + limit < server.count).then(|| (from + limit).to_string());
    Json(json!({ "metadata": { "resourceVersion": "900", "continue": more }, "items": items })).into_response()
}

/// Returns the first events of a watch of `ConfigMap`s, and the requests for them.
async fn events(
    streams: bool,
    later: Vec<String>,
    count: usize,
) -> (Vec<Event>, Vec<(String, BTreeMap<String, String>)>) {
    events_with((streams, Vec::new(), Pace::default()), later, count).await
}

/// Returns the same with objects that stand before the others.
async fn events_with(
    (streams, first, pace): (bool, Vec<Value>, Pace),
    later: Vec<String>,
    count: usize,
) -> (Vec<Event>, Vec<(String, BTreeMap<String, String>)>) {
    let server = Arc::new(Server { streams, count: 25, first, later, requests: Mutex::default() });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let app = Router::new().fallback(answer).with_state(Arc::clone(&server));
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let client = Client::try_from(kube::Config::new(address.parse().unwrap())).unwrap();
    let target = Target { kind: Some(ObjectKind::ConfigMap), namespace: Some("shop".into()) };
    let (sender, mut inbox) = mpsc::channel(16);
    let labels = (Some(watched("c-1")), "system".into());
    tokio::spawn(follow(Caller { client, pace }, target, labels, sender));
    let mut found = Vec::new();
    while found.len() < count {
        let news = timeout(DEADLINE, inbox.recv()).await.expect("an event").unwrap();
        found.push(news.event);
    }
    let requests = server.requests.lock().unwrap().clone();
    (found, requests)
}

fn listed(event: &Event) -> Vec<(&str, &Owner)> {
    let Event::Objects(Told::Listed(all)) = event else { panic!("{event:?}") };
    all.iter().map(|(id, seen)| (&*id.name, &seen.owner)).collect()
}

#[tokio::test]
async fn list_streams_metadata_and_keeps_objects_of_gateways() {
    let later = vec![line("MODIFIED", &object(2, false)), line("ADDED", &object(40, true))];
    let (found, requests) = events(true, later, 3).await;
    let all = listed(&found[0]);
    assert_eq!(all.len(), 13, "objects without a Gateway are not kept: {all:?}");
    assert!(matches!(&found[1], Event::Objects(Told::Gone(id)) if &*id.name == "c-002"), "{:?}", found[1]);
    assert!(matches!(&found[2], Event::Objects(Told::Changed(id, _)) if &*id.name == "c-040"), "{:?}", found[2]);
    let [(accept, query)] = requests.as_slice() else { panic!("{requests:?}") };
    assert!(accept.contains("PartialObjectMetadata"), "{accept}");
    assert_eq!(query["sendInitialEvents"], "true");
}

#[tokio::test]
async fn list_comes_in_small_pages_from_servers_that_cannot_stream() {
    let (found, requests) = events(false, vec![line("DELETED", &object(4, true))], 2).await;
    assert_eq!(listed(&found[0]).len(), 13);
    assert!(matches!(&found[1], Event::Objects(Told::Gone(id)) if &*id.name == "c-004"), "{:?}", found[1]);
    let limits: Vec<_> = requests.iter().filter_map(|(_, query)| query.get("limit")).collect();
    assert_eq!(limits, ["10"; 3]);
    assert!(requests.iter().all(|(accept, _)| accept.contains("PartialObjectMetadata")), "{requests:?}");
    let (_, last) = requests.last().unwrap();
    assert_eq!(last["resourceVersion"], "900", "it goes on where the list ended");
}

/// An object with a time that no type for times reads, among its fields' managers, as an API server gives it back.
fn of_year_10000(at: usize) -> Value {
    let mut object = object(at, true);
    object["metadata"]["managedFields"] =
        json!([{ "manager": "x", "operation": "Update", "time": "10000-01-01T22:59:59Z" }]);
    object
}

/// An object that cannot be read at all.
fn unreadable(at: usize) -> Value {
    let mut object = object(at, true);
    object["metadata"]["deletionTimestamp"] = json!("10000-01-01T22:59:59Z");
    object["metadata"]["generation"] = json!("many");
    object
}

#[tokio::test]
async fn unreadable_object_costs_no_other() {
    for streams in [true, false] {
        // A pause after a failure would last longer than the test.
        let pace = Pace { away: (Duration::from_secs(3_600), Duration::from_secs(3_600)), ..Pace::default() };
        let first = vec![unreadable(70), of_year_10000(71)];
        let mut later: Vec<String> = (0..24).map(|_| line("MODIFIED", &unreadable(2))).collect();
        later.extend(["{\"type\":\"MODIFIED\",\"object\":7}\n".to_owned(), "7\n".to_owned()]);
        later.push(line("MODIFIED", &of_year_10000(40)));
        let (found, _) = events_with((streams, first, pace), later, 2).await;
        let all = listed(&found[0]);
        assert!(all.iter().any(|(name, _)| *name == "c-071"), "times of managers are not read: {all:?}");
        assert_eq!(all.len(), 14, "all but the one that cannot be read, streams: {streams}");
        assert!(matches!(&found[1], Event::Objects(Told::Changed(id, _)) if &*id.name == "c-040"), "{:?}", found[1]);
    }
}
