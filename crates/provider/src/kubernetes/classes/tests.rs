//! Which classes get the finalizer, and which lose it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::Kind;
use axum::Router;
use axum::body::Bytes;
use axum::http::{Method, StatusCode, Uri};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{Class, ClassesOptions, IN_USE, finalizers, keep_classes_in_use};
use crate::kubernetes::seen::Seen;
use crate::kubernetes::target::Resource;
use crate::kubernetes::{Observed, Pace, connect};

fn class(finalizers: &[&str], deleted: bool) -> Class {
    let mut metadata = json!({ "resourceVersion": "1", "finalizers": finalizers });
    if deleted {
        metadata["deletionTimestamp"] = Value::from("2026-11-21T10:04:00Z");
    }
    serde_json::from_value(json!({ "metadata": metadata, "spec": { "controllerName": "us" } })).unwrap()
}

#[test]
fn what_is_used_gets_it_and_what_is_not_loses_it() {
    let named = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(finalizers(&class(&["theirs"], false), "us", true), named(&["theirs", IN_USE]));
    assert_eq!(finalizers(&class(&[IN_USE, "theirs"], true), "us", false), named(&["theirs"]));
    assert_eq!(finalizers(&class(&[IN_USE], false), "us", false), named(&[]));
}

#[test]
fn what_is_right_or_somebody_elses_or_being_deleted_stays() {
    assert_eq!(finalizers(&class(&[IN_USE], true), "us", true), None);
    assert_eq!(finalizers(&class(&[], false), "us", false), None);
    assert_eq!(finalizers(&class(&[], false), "them", true), None);
    assert_eq!(finalizers(&class(&[IN_USE], false), "them", false), None);
    assert_eq!(finalizers(&class(&["theirs"], true), "us", true), None);
}

/// Classes on a server that refuses to change the one named `stuck`.
async fn server() -> (Arc<Mutex<BTreeMap<String, Value>>>, kube::Client, watch::Receiver<u64>, JoinHandle<()>) {
    let class = |name: &str| json!({ "metadata": { "name": name, "resourceVersion": "1" }, "spec": { "controllerName": "us" } });
    let all: BTreeMap<String, Value> = ["good", "stuck"].map(|name| (name.to_owned(), class(name))).into();
    let all = Arc::new(Mutex::new(all));
    let (change, changed) = watch::channel(0);
    let shared = Arc::clone(&all);
    let app = Router::new().fallback(move |method: Method, uri: Uri, body: Bytes| {
        let name = uri.path().rsplit('/').next().unwrap().to_owned();
        let mut all = shared.lock().unwrap();
        let class = all.get_mut(&name).unwrap();
        let answer = if method == Method::PATCH && name == "stuck" {
            (StatusCode::FORBIDDEN, json!({ "code": 403, "message": "no" }).to_string())
        } else {
            if method == Method::PATCH {
                let patch: Value = serde_json::from_slice(&body).unwrap();
                class["metadata"]["finalizers"] = patch["metadata"]["finalizers"].clone();
            }
            (StatusCode::OK, class.to_string())
        };
        change.send_modify(|count| *count += 1);
        async move { answer }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (all, connect::client(kube::Config::new(address.parse().unwrap())).unwrap(), changed, task)
}

#[tokio::test]
async fn a_class_that_may_not_be_changed_holds_up_no_other() {
    let (all, client, mut changed, server) = server().await;
    let observed = Observed::new("us");
    for class in all.lock().unwrap().values() {
        let text = Bytes::from(class.to_string());
        observed.note(&Seen::look(Resource::Kind(Kind::GatewayClass, "v1"), &text).unwrap());
    }
    let pace = Pace { retry_first: Duration::from_millis(1), retry_last: Duration::from_millis(5), ..Pace::default() };
    let options = ClassesOptions { client, controller: "us".into(), observed, pace };
    let used = |names: &[&str]| Some(names.iter().map(|name| Arc::from(*name)).collect::<BTreeSet<Arc<str>>>());
    let (tell, in_use) = watch::channel(used(&["good", "stuck"]));
    let (_leads, leading) = watch::channel(true);
    let stop = CancellationToken::new();
    let keeping = tokio::spawn(keep_classes_in_use(options, in_use, leading, stop.clone()));
    let finalizers = || all.lock().unwrap()["good"]["metadata"]["finalizers"].clone();
    let mut until = async |wanted: Value| {
        let found = timeout(Duration::from_secs(60), changed.wait_for(|_| finalizers() == wanted)).await;
        assert!(found.is_ok(), "{:?}", finalizers());
    };
    until(json!([IN_USE])).await;
    tell.send_replace(used(&["stuck"]));
    until(json!([])).await;
    stop.cancel();
    keeping.await.unwrap();
    server.abort();
}
