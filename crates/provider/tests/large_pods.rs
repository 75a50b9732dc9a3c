//! Memory for Pods of which each carries as many annotations as an API server takes. A process of its own, so that its peak is that of this test.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Query;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use futures::StreamExt as _;
use provider::kubernetes::presence::{PodId, Presence, PresenceTiming, follow};
use tokio_util::sync::CancellationToken;

/// Pods of an author, and annotations of each: 256 KB of them, and the same names once more in `managedFields`.
const PODS: usize = 100;
const ANNOTATIONS: usize = 52_000;

/// Growth that is allowed, in KB: a few objects of 1 MB at a time. Whole pages of whole objects take 1.3 GB.
const ALLOWED: u64 = 100 << 10;

/// Longest time for a fact to come true; reached only by a test that fails.
const DEADLINE: Duration = Duration::from_secs(120);

fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

fn pod(uid: &str, large: bool) -> Bytes {
    let count = if large { ANNOTATIONS } else { 0 };
    let annotations: Vec<String> = (0..count).map(|at| format!("\"{at:05}\":\"\"")).collect();
    let fields: Vec<String> = (0..count).map(|at| format!("\"f:{at:05}\":{{}}")).collect();
    let metadata = format!(
        "{{\"name\":\"p\",\"namespace\":\"shop\",\"uid\":\"{uid}\",\"annotations\":{{{}}},\"managedFields\":[{{\"fieldsV1\":{{{}}}}}]}}",
        annotations.join(","),
        fields.join(","),
    );
    format!("{{\"kind\":\"PartialObjectMetadata\",\"metadata\":{metadata}}}").into()
}

/// Answers with [`PODS`] large Pods of one text and a small one: as a list, and as a watch that begins with one.
async fn answer(Query(query): Query<BTreeMap<String, String>>) -> Response {
    let (large, small) = (pod("1", true), pod("2", false));
    let is_watch = query.contains_key("watch");
    if !is_watch && query.contains_key("fieldSelector") {
        let list = ["{\"metadata\":{\"resourceVersion\":\"9\"},\"items\":[".into(), small, "]}".into()];
        return Body::from_stream(futures::stream::iter(list.map(Ok::<Bytes, Infallible>))).into_response();
    }
    let page = query.get("limit").map_or(PODS, |limit| limit.parse().unwrap()).min(PODS);
    let all = std::iter::repeat_n(large, if is_watch { PODS } else { page }).chain([small]);
    let parts: Vec<Bytes> = if is_watch {
        let lines = all.flat_map(|pod| ["{\"type\":\"ADDED\",\"object\":".into(), pod, "}\n".into()]);
        let end = "{\"resourceVersion\":\"9\",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}";
        lines.chain([format!("{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{end}}}}}\n").into()]).collect()
    } else {
        let begin: Bytes = "{\"metadata\":{\"resourceVersion\":\"9\"},\"items\":[".into();
        let items = all.enumerate().flat_map(|(at, pod)| [if at > 0 { "," } else { "" }.into(), pod]);
        std::iter::once(begin).chain(items).chain(["]}".into()]).collect()
    };
    let parts = futures::stream::iter(parts.into_iter().map(Ok::<_, Infallible>));
    let rest = futures::stream::pending().take(usize::from(is_watch && query.contains_key("sendInitialEvents")));
    Body::from_stream(parts.chain(rest)).into_response()
}

#[tokio::test]
async fn pods_of_an_author_take_little_memory() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let app = Router::new().route("/api/v1/namespaces/shop/pods", get(answer));
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let client = kube::Client::try_from(kube::Config::new(address.parse().unwrap())).unwrap();
    let (presence, stop) = (Presence::new(&["app"]), CancellationToken::new());
    let before = peak();
    let timing = PresenceTiming { look: Duration::from_secs(3600), ..PresenceTiming::default() };
    // Its uid is that of no Pod, so the end of the list ends it.
    let id = PodId { namespace: "shop".into(), name: "q".into(), uid: "3".into() };
    let gone = presence.track(&id);
    tokio::spawn(follow(presence.clone(), client, timing, stop.clone()));
    let mut ended = gone.subscribe();
    tokio::time::timeout(DEADLINE, ended.wait_for(|gone| *gone)).await.expect("the list is complete").unwrap();
    stop.cancel();
    let grown = peak() - before;
    eprintln!("{PODS} Pods of 1 MB: the peak grew by {grown} KB");
    assert!(grown < ALLOWED, "the peak grew by {grown} KB");
}
