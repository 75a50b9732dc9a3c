//! Replicas that want to lead, and an API server with one lease.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{LeaderOptions, Terms, lead};
use crate::kubernetes::connect;

const DEADLINE: Duration = Duration::from_secs(60);

/// Short, so that tests are.
const TERMS: Terms = Terms {
    duration: Duration::from_secs(1),
    renew_deadline: Duration::from_millis(600),
    retry: Duration::from_millis(50),
};

/// The lease, with its version, and whether the server answers.
#[derive(Default)]
struct State {
    lease: Option<Value>,
    version: u64,
    down: bool,
}

struct Server {
    state: Arc<Mutex<State>>,
    address: String,
    task: JoinHandle<()>,
}

impl Server {
    async fn start() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::clone(&state);
        let app = Router::new().fallback(move |method: Method, body: Bytes| {
            let answer = answer(&mut shared.lock().unwrap(), &method, &body);
            async move { answer }
        });
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { state, address, task }
    }

    fn replica(&self, identity: &str) -> Replica {
        let options = LeaderOptions {
            client: connect::client(kube::Config::new(self.address.parse().unwrap())).unwrap(),
            namespace: "ns".into(),
            name: "chancery".into(),
            identity: identity.into(),
            terms: TERMS,
            clock: || api::Timestamp(0),
        };
        let (sender, leads) = watch::channel(false);
        let stop = CancellationToken::new();
        Replica { task: tokio::spawn(lead(options, sender, stop.clone())), leads, stop }
    }

    fn holder(&self) -> Value {
        self.state.lock().unwrap().lease.clone().unwrap_or_default()["spec"]["holderIdentity"].clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn answer(state: &mut State, method: &Method, body: &[u8]) -> Response {
    if state.down {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let current = state.lease.as_ref().map(|lease| lease["metadata"]["resourceVersion"].clone());
    if *method == Method::GET {
        return match &state.lease {
            Some(lease) => lease.to_string().into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        };
    }
    let mut lease: Value = serde_json::from_slice(body).unwrap();
    let fits = match method {
        &Method::POST => current.is_none(),
        _ => current == Some(lease["metadata"]["resourceVersion"].clone()),
    };
    if !fits {
        return (StatusCode::CONFLICT, json!({ "code": 409 }).to_string()).into_response();
    }
    state.version += 1;
    lease["metadata"]["resourceVersion"] = state.version.to_string().into();
    // What a real one does with fields that it has in its schema.
    state.lease = Some(lease.clone());
    lease.to_string().into_response()
}

struct Replica {
    task: JoinHandle<()>,
    leads: watch::Receiver<bool>,
    stop: CancellationToken,
}

impl Replica {
    async fn leads(&mut self, wanted: bool) {
        timeout(DEADLINE, self.leads.wait_for(|leads| *leads == wanted)).await.expect("it is told in time").unwrap();
    }

    fn is_leading(&self) -> bool {
        *self.leads.borrow()
    }

    async fn stop(self) {
        self.stop.cancel();
        timeout(DEADLINE, self.task).await.expect("it ends").unwrap();
    }
}

#[tokio::test]
async fn one_of_several_leads_and_the_next_follows_at_once_when_it_ends() {
    let server = Server::start().await;
    let mut first = server.replica("first");
    first.leads(true).await;
    assert_eq!(server.holder(), "first");
    let mut second = server.replica("second");
    // It has looked at the lease several times.
    let version = server.state.lock().unwrap().version;
    while server.state.lock().unwrap().version < version + 5 {
        assert!(first.is_leading() && !second.is_leading());
        tokio::task::yield_now().await;
    }
    first.stop().await;
    assert_eq!(server.holder(), "", "it is given back");
    second.leads(true).await;
    assert_eq!(server.holder(), "second");
}

#[tokio::test]
async fn who_dies_without_a_word_is_followed_when_the_lease_is_over() {
    let server = Server::start().await;
    let mut first = server.replica("first");
    first.leads(true).await;
    first.task.abort();
    let mut second = server.replica("second");
    second.leads(true).await;
    let lease = server.state.lock().unwrap().lease.clone().unwrap();
    assert_eq!((&lease["spec"]["holderIdentity"], &lease["spec"]["leaseTransitions"]), (&json!("second"), &json!(1)));
}

#[tokio::test]
async fn who_cannot_renew_ceases_to_lead_and_leads_again_when_it_can() {
    let server = Server::start().await;
    let mut only = server.replica("only");
    only.leads(true).await;
    server.state.lock().unwrap().down = true;
    only.leads(false).await;
    server.state.lock().unwrap().down = false;
    only.leads(true).await;
}

#[tokio::test]
async fn fields_that_are_not_ours_stay() {
    let server = Server::start().await;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "chancery", "resourceVersion": "7", "labels": { "a": "b" } },
        "spec": { "holderIdentity": "", "leaseTransitions": 3 },
    });
    *server.state.lock().unwrap() = State { lease: Some(lease), version: 7, down: false };
    let mut only = server.replica("only");
    only.leads(true).await;
    let lease = server.state.lock().unwrap().lease.clone().unwrap();
    assert_eq!(lease["metadata"]["labels"]["a"], "b");
    assert_eq!(lease["spec"]["leaseTransitions"], 4);
}
