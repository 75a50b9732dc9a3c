//! Statuses that are written to an API server that others write to as well.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use api::status::{Condition, ConditionStatus, GatewayClassStatus, Status};
use api::{Kind, ObjectKey, Timestamp};
use axum::Router;
use axum::body::Bytes;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{Board, Gather, Refused, WriterOptions, write};
use crate::kubernetes::seen::Seen;
use crate::kubernetes::target::Resource;
use crate::kubernetes::{Error, Observed, Pace, connect};

const DEADLINE: Duration = Duration::from_secs(60);

/// Objects by their path, each with what was written to it.
#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    version: u64,
    writes: BTreeMap<String, usize>,
    /// Somebody else writes between our reading and our writing, so many times.
    intruders: usize,
    /// Every write is answered so.
    refusal: Option<StatusCode>,
}

/// A server, a writer, and what it is given.
struct Stage {
    state: Arc<Mutex<State>>,
    changed: watch::Receiver<u64>,
    observed: Observed,
    board: Board,
    leads: watch::Sender<bool>,
    refused: watch::Receiver<Refused>,
    server: JoinHandle<()>,
    writer: JoinHandle<Result<(), Error>>,
    stop: CancellationToken,
}

impl Stage {
    async fn new() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let (change, changed) = watch::channel(0);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::clone(&state);
        let app = Router::new().fallback(move |method: Method, uri: Uri, body: Bytes| {
            let answer = answer(&mut shared.lock().unwrap(), &method, uri.path(), &body);
            change.send_modify(|count| *count += 1);
            async move { answer }
        });
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let observed = Observed::new("us");
        let board = Board::new(Gather { quiet: Duration::from_millis(5), most: Duration::from_millis(20) });
        let (leads, follows) = watch::channel(false);
        let (refusing, refused) = watch::channel(Vec::new());
        let stop = CancellationToken::new();
        let pace =
            Pace { retry_first: Duration::from_millis(1), retry_last: Duration::from_millis(10), ..Pace::default() };
        let options = WriterOptions {
            client: connect::client(kube::Config::new(address.parse().unwrap())).unwrap(),
            controller: "us".into(),
            observed: observed.clone(),
            pace,
            settle: Duration::from_mins(10),
            clock: || Timestamp(0),
        };
        let writer = tokio::spawn(write(options, board.clone(), follows, refusing, stop.clone()));
        Self { state, changed, observed, board, leads, refused, server, writer, stop }
    }

    /// One that writes.
    async fn leading() -> Self {
        let stage = Self::new().await;
        let mut opening = stage.board.opening();
        stage.leads.send_replace(true);
        timeout(DEADLINE, opening.wait_for(|open| *open)).await.expect("it opens").unwrap();
        stage
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// An object is there, with this status.
    fn class(&self, name: &str, status: &Value) -> ObjectKey {
        let key = ObjectKey::of(Kind::GatewayClass, "", name);
        let metadata = json!({ "name": name, "resourceVersion": "1", "generation": 2 });
        let object = json!({ "metadata": metadata, "spec": { "other": 1 }, "status": status });
        self.lock().objects.insert(path(name), object.clone());
        let text = Bytes::from(object.to_string());
        self.observed.note(&Seen::look(Resource::Kind(Kind::GatewayClass, "v1"), &text).unwrap());
        key
    }

    /// Waits until the objects are so.
    async fn until(&mut self, holds: impl Fn(&State) -> bool) {
        let state = Arc::clone(&self.state);
        let found = timeout(DEADLINE, self.changed.wait_for(|_| holds(&state.lock().unwrap()))).await;
        assert!(found.is_ok(), "it does not come: {:?}", state.lock().unwrap().objects);
    }

    async fn end(self) {
        self.stop.cancel();
        timeout(DEADLINE, self.writer).await.expect("it ends").unwrap().unwrap();
        self.server.abort();
    }
}

fn path(name: &str) -> String {
    format!("/apis/gateway.networking.k8s.io/v1/gatewayclasses/{name}")
}

fn answer(state: &mut State, method: &Method, path: &str, body: &[u8]) -> Response {
    if *method == Method::GET {
        let Some(object) = state.objects.get(path).cloned() else { return StatusCode::NOT_FOUND.into_response() };
        if state.intruders > 0 {
            state.intruders -= 1;
            state.version += 1;
            let version = format!("i{}", state.version);
            state.objects.get_mut(path).unwrap()["metadata"]["resourceVersion"] = version.into();
        }
        return object.to_string().into_response();
    }
    if let Some(refusal) = state.refusal {
        return (refusal, json!({ "code": refusal.as_u16(), "message": "no" }).to_string()).into_response();
    }
    let path = path.trim_end_matches("/status");
    let mut new: Value = serde_json::from_slice(body).unwrap();
    let Some(old) = state.objects.get(path) else { return StatusCode::NOT_FOUND.into_response() };
    if old["metadata"]["resourceVersion"] != new["metadata"]["resourceVersion"] {
        return (StatusCode::CONFLICT, json!({ "code": 409 }).to_string()).into_response();
    }
    assert_eq!(old["spec"], new["spec"], "nothing but the status is written");
    state.version += 1;
    new["metadata"]["resourceVersion"] = format!("w{}", state.version).into();
    state.objects.insert(path.to_owned(), new.clone());
    *state.writes.entry(path.to_owned()).or_default() += 1;
    new.to_string().into_response()
}

/// A class that is accepted, for this reason.
fn accepted(reason: &str) -> Status {
    let condition = Condition {
        condition_type: "Accepted".into(),
        status: ConditionStatus::True,
        observed_generation: 1,
        last_transition_time: None,
        reason: reason.into(),
        message: "".into(),
    };
    Status::GatewayClass(GatewayClassStatus { conditions: vec![condition], supported_features: Vec::new() })
}

fn reason(state: &State, name: &str) -> Option<String> {
    let condition = &state.objects.get(&path(name))?["status"]["conditions"][0];
    condition["reason"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn the_latest_of_many_is_written_and_what_is_there_already_is_not() {
    let mut stage = Stage::leading().await;
    let key = stage.class("one", &Value::Null);
    let same = stage.class("same", &serde_json::to_value(accepted("Same")).unwrap());
    for at in 0..50 {
        stage.board.put(key.clone(), Some(accepted(&format!("R{at}"))));
        stage.board.put(same.clone(), Some(accepted("Same")));
    }
    stage.until(|state| reason(state, "one").as_deref() == Some("R49")).await;
    let last = stage.class("last", &Value::Null);
    stage.board.put(last, Some(accepted("Last")));
    stage.until(|state| reason(state, "last").is_some()).await;
    assert!(stage.lock().writes[&path("one")] < 50);
    assert_eq!(stage.lock().writes.get(&path("same")), None);
    stage.end().await;
}

#[tokio::test]
async fn one_of_a_later_generation_is_not_replaced_by_an_earlier_one() {
    let mut stage = Stage::leading().await;
    let of = |generation: i64, reason: &str| {
        let mut status = accepted(reason);
        if let Status::GatewayClass(class) = &mut status {
            class.conditions[0].observed_generation = generation;
        }
        status
    };
    let key = stage.class("one", &serde_json::to_value(of(2, "Later")).unwrap());
    let other = stage.class("other", &Value::Null);
    stage.board.put(key.clone(), Some(of(1, "Earlier")));
    stage.board.put(other, Some(accepted("Other")));
    stage.until(|state| reason(state, "other").is_some()).await;
    assert_eq!(reason(&stage.lock(), "one").as_deref(), Some("Later"));
    stage.board.put(key, Some(of(2, "Now")));
    stage.until(|state| reason(state, "one").as_deref() == Some("Now")).await;
    assert_eq!(stage.lock().writes[&path("one")], 1);
    stage.end().await;
}

#[tokio::test]
async fn a_change_of_somebody_else_in_between_is_kept() {
    let mut stage = Stage::leading().await;
    stage.lock().intruders = 3;
    let key = stage.class("one", &Value::Null);
    stage.board.put(key, Some(accepted("Mine")));
    stage.until(|state| reason(state, "one").as_deref() == Some("Mine")).await;
    assert_eq!(stage.lock().writes[&path("one")], 1);
    assert!(stage.refused.borrow().is_empty(), "that is nothing to tell");
    stage.end().await;
}

#[tokio::test]
async fn what_is_refused_is_told_and_written_once_it_may_be() {
    let mut stage = Stage::leading().await;
    stage.lock().refusal = Some(StatusCode::FORBIDDEN);
    let key = stage.class("one", &Value::Null);
    stage.board.put(key.clone(), Some(accepted("Mine")));
    let told = timeout(DEADLINE, stage.refused.wait_for(|refused| !refused.is_empty())).await.expect("it is told");
    assert_eq!(told.unwrap()[0].0, key);
    stage.lock().refusal = None;
    stage.until(|state| reason(state, "one").is_some()).await;
    timeout(DEADLINE, stage.refused.wait_for(Vec::is_empty)).await.expect("it is withdrawn").unwrap();
    stage.end().await;
}

#[tokio::test]
async fn who_leads_no_longer_tells_nothing() {
    let mut stage = Stage::leading().await;
    stage.lock().refusal = Some(StatusCode::FORBIDDEN);
    let key = stage.class("one", &Value::Null);
    stage.board.put(key, Some(accepted("Mine")));
    timeout(DEADLINE, stage.refused.wait_for(|refused| !refused.is_empty())).await.expect("it is told").unwrap();
    stage.leads.send_replace(false);
    timeout(DEADLINE, stage.refused.wait_for(Vec::is_empty)).await.expect("it is withdrawn").unwrap();
    stage.end().await;
}

#[tokio::test]
async fn only_who_leads_writes() {
    let mut stage = Stage::new().await;
    let key = stage.class("one", &Value::Null);
    stage.board.put(key.clone(), Some(accepted("Early")));
    let mut opening = stage.board.opening();
    stage.leads.send_replace(true);
    timeout(DEADLINE, opening.wait_for(|open| *open)).await.expect("it opens").unwrap();
    stage.board.put(key, Some(accepted("Now")));
    stage.until(|state| reason(state, "one").is_some()).await;
    assert_eq!(reason(&stage.lock(), "one").as_deref(), Some("Now"));
    stage.leads.send_replace(false);
    timeout(DEADLINE, opening.wait_for(|open| !*open)).await.expect("it closes").unwrap();
    stage.end().await;
}

#[tokio::test]
async fn an_object_that_is_gone_has_no_status() {
    let mut stage = Stage::leading().await;
    let gone = stage.class("gone", &Value::Null);
    stage.lock().objects.clear();
    stage.board.put(gone, Some(accepted("Mine")));
    let key = stage.class("one", &Value::Null);
    stage.board.put(key, Some(accepted("Mine")));
    stage.until(|state| reason(state, "one").is_some()).await;
    assert!(stage.refused.borrow().is_empty());
    stage.end().await;
}

#[tokio::test]
async fn what_changes_on_the_server_is_told_while_somebody_writes() {
    let stage = Stage::leading().await;
    let key = stage.class("one", &serde_json::to_value(accepted("Theirs")).unwrap());
    let changed = timeout(DEADLINE, stage.observed.changed()).await.expect("it is told");
    assert_eq!(changed, [key]);
    stage.end().await;
}

#[tokio::test]
async fn who_begins_to_lead_takes_nothing_back_before_it_can_know() {
    let mut stage = Stage::leading().await;
    let programmed = |word: &str, reason: &str| {
        json!({ "conditions": [
        { "type": "Programmed", "status": word, "reason": reason, "message": "", "observedGeneration": 1 },
    ] })
    };
    let key = stage.class("waits", &programmed("True", "Programmed"));
    let waiting = |reason: &str| {
        let condition = Condition {
            condition_type: "Programmed".into(),
            status: ConditionStatus::False,
            observed_generation: 1,
            last_transition_time: None,
            reason: reason.into(),
            message: "".into(),
        };
        Status::GatewayClass(GatewayClassStatus { conditions: vec![condition], supported_features: Vec::new() })
    };
    stage.board.put(key.clone(), Some(waiting("Pending")));
    let other = stage.class("other", &Value::Null);
    stage.board.put(other, Some(accepted("Mine")));
    stage.until(|state| reason(state, "other").is_some()).await;
    assert_eq!(reason(&stage.lock(), "waits").as_deref(), Some("Programmed"));
    stage.board.put(key, Some(waiting("Invalid")));
    stage.until(|state| reason(state, "waits").as_deref() == Some("Invalid")).await;
    stage.end().await;
}

#[tokio::test]
async fn who_is_corrected_without_end_slows_down_and_says_why() {
    let mut stage = Stage::leading().await;
    let key = stage.class("one", &Value::Null);
    let theirs = serde_json::to_value(accepted("Theirs")).unwrap();
    for time in 1..=3 {
        stage.board.put(key.clone(), Some(accepted("Mine")));
        stage.until(|state| state.writes.get(&path("one")) == Some(&time)).await;
        // somebody else has another opinion
        stage.class("one", &theirs);
    }
    stage.board.put(key.clone(), Some(accepted("Mine")));
    let told = timeout(DEADLINE, stage.refused.wait_for(|refused| !refused.is_empty())).await.expect("it is told");
    let told = told.unwrap().clone();
    assert!(told[0].0 == key && told[0].1.contains("controllerName us"), "{told:?}");
    // news are no correction
    stage.board.put(key, Some(accepted("New")));
    stage.until(|state| reason(state, "one").as_deref() == Some("New")).await;
    timeout(DEADLINE, stage.refused.wait_for(Vec::is_empty)).await.expect("it is withdrawn").unwrap();
    stage.end().await;
}
