//! Memory for objects with Chancery's labels into which their authors wrote as much as an API server takes. A process of its own, so that its peak is that of
//! this test.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query};
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use infra::kubernetes::{ClusterOptions, Options, Pace, ProxyObjects, Scope, run};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Accounts of an author, and entries of each: 256 KB of annotations, and the same names once more in `managedFields`.
const ACCOUNTS: usize = 100;
const ENTRIES: usize = 52_000;

/// Growth that is allowed, in KB: a few objects of 1 MB at a time. Whole pages of whole objects take 1.3 GB.
const ALLOWED: u64 = 100 << 10;

/// Longest time for a fact to come true; reached only by a test that fails.
const DEADLINE: Duration = Duration::from_secs(120);

fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

fn account() -> Bytes {
    let annotations: Vec<String> = (0..ENTRIES).map(|at| format!("\"{at:05}\":\"\"")).collect();
    let fields: Vec<String> = (0..ENTRIES).map(|at| format!("\"f:{at:05}\":{{}}")).collect();
    let managed = format!(
        "[{{\"manager\":\"chancery\",\"operation\":\"Apply\",\"apiVersion\":\"v1\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{{{}}}}}]",
        fields.join(",")
    );
    let metadata = format!(
        "{{\"name\":\"x\",\"namespace\":\"shop\",\"uid\":\"1\",\"resourceVersion\":\"5\",\"annotations\":{{{}}},\"managedFields\":{managed}}}",
        annotations.join(",")
    );
    format!("{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata}}}").into()
}

/// Answers with accounts of one text, and nothing of other kinds: as a list, and as a watch that begins with one.
async fn answer(Path(path): Path<String>, Query(query): Query<BTreeMap<String, String>>) -> Response {
    let count = if path.ends_with("serviceaccounts") { ACCOUNTS } else { 0 };
    let is_watch = query.contains_key("watch");
    let is_list = !is_watch || query.contains_key("sendInitialEvents");
    let page = query.get("limit").map_or(count, |limit| limit.parse().unwrap()).min(count);
    let all = std::iter::repeat_n(account(), if is_watch { count } else { page });
    let parts: Vec<Bytes> = if is_watch {
        let lines = all.flat_map(|object| ["{\"type\":\"ADDED\",\"object\":".into(), object, "}\n".into()]);
        let end = "{\"resourceVersion\":\"9\",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}";
        let end = format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"X\",\"apiVersion\":\"v1\",\"metadata\":{end}}}}}\n"
        );
        if is_list { lines.chain([end.into()]).collect() } else { Vec::new() }
    } else {
        let begin: Bytes =
            "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"metadata\":{\"resourceVersion\":\"9\"},\"items\":[".into();
        let items = all.enumerate().flat_map(|(at, object)| [if at > 0 { "," } else { "" }.into(), object]);
        std::iter::once(begin).chain(items).chain(["]}".into()]).collect()
    };
    let parts = futures::stream::iter(parts.into_iter().map(Ok::<_, Infallible>));
    let rest = futures::stream::pending().take(usize::from(is_watch));
    Body::from_stream(parts.chain(rest)).into_response()
}

#[tokio::test]
async fn objects_of_an_author_take_little_memory() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let app = Router::new().route("/{*path}", axum::routing::get(answer));
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let client = kube::Client::try_from(kube::Config::new(address.parse().unwrap())).unwrap();
    let before = peak();
    let proxies = watch::Sender::new(Arc::new(ProxyObjects::default()));
    let mut seen = proxies.subscribe();
    let cluster = ClusterOptions {
        controller: "c".into(),
        namespace: "system".into(),
        xds_host: "chancery".into(),
        xds_port: 18_000,
        audience: "chancery".into(),
        envoy_repository: "envoy".into(),
        envoy_tag: "1".into(),
        own_image: "chancery".into(),
        authorities: "".into(),
    };
    let (_options, cluster) = watch::channel(Arc::new(cluster));
    let options = Options { client, scope: Scope::All, cluster, pace: Pace::default(), proxies };
    let (_wanted, wanted) = watch::channel(Arc::default());
    let (_leading, leading) = watch::channel(false);
    let (facts, _inbox) = mpsc::channel(16);
    let stop = CancellationToken::new();
    let running = tokio::spawn(run(options, wanted, leading, facts, stop.clone()));
    let listed = seen.wait_for(|proxies| proxies.is_listed());
    drop(tokio::time::timeout(DEADLINE, listed).await.expect("all is listed").unwrap());
    stop.cancel();
    running.await.unwrap().unwrap();
    let grown = peak() - before;
    eprintln!("{ACCOUNTS} accounts of 1 MB: the peak grew by {grown} KB");
    assert!(grown < ALLOWED, "the peak grew by {grown} KB");
}
