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
use crate::kubernetes::target::{Resource, Target};
use crate::kubernetes::{Error, Observed, Pace, connect};

mod conflicts;

const DEADLINE: Duration = Duration::from_secs(60);

/// Objects by their path, each with what was written to it.
#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    version: u64,
    writes: BTreeMap<String, usize>,
    /// Paths that were written, in the order of time.
    written: Vec<String>,
    reads: usize,
    attempts: usize,
    /// Another client writes between our reading and our writing, so many times.
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

    /// One that writes to a server which answers every write so, with a class whose status waits.
    async fn refused(refusal: StatusCode) -> (Self, ObjectKey) {
        let stage = Self::leading().await;
        stage.lock().refusal = Some(refusal);
        let key = stage.class("one", &Value::Null);
        stage.board.put(key.clone(), Some(accepted("Mine")));
        (stage, key)
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

    /// An object without a status is there.
    fn object(&self, kind: Kind, name: &str) -> ObjectKey {
        let target = Target::one(Resource::Kind(kind, "v1"), &ObjectKey::of(kind, "default", name));
        let metadata = json!({ "name": name, "namespace": "default", "resourceVersion": "1", "generation": 1 });
        let object = json!({ "metadata": metadata, "spec": { "other": 1 } });
        self.lock().objects.insert(format!("{}/{name}", target.path()), object.clone());
        let seen = Seen::look(target.resource, &Bytes::from(object.to_string())).unwrap();
        self.observed.note(&seen);
        seen.key
    }

    /// A class is there, with this status.
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
        state.reads += 1;
        let found = state.objects.get(path);
        return found
            .map_or_else(|| StatusCode::NOT_FOUND.into_response(), |object| object.to_string().into_response());
    }
    state.attempts += 1;
    if let Some(refusal) = state.refusal {
        return (refusal, json!({ "code": refusal.as_u16(), "message": "no" }).to_string()).into_response();
    }
    let path = path.trim_end_matches("/status");
    let new: Value = serde_json::from_slice(body).unwrap();
    let Some(old) = state.objects.get_mut(path) else { return StatusCode::NOT_FOUND.into_response() };
    state.version += 1;
    if state.intruders > 0 {
        state.intruders -= 1;
        old["metadata"]["resourceVersion"] = format!("i{}", state.version).into();
    }
    if old["metadata"]["resourceVersion"] != new["metadata"]["resourceVersion"] {
        return (StatusCode::CONFLICT, json!({ "code": 409 }).to_string()).into_response();
    }
    // Of what comes the server takes the status alone.
    old["metadata"]["resourceVersion"] = format!("w{}", state.version).into();
    old["status"] = new["status"].clone();
    let answer = old.to_string().into_response();
    *state.writes.entry(path.to_owned()).or_default() += 1;
    state.written.push(path.to_owned());
    answer
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
async fn a_status_is_written_with_what_the_watch_has_and_read_again_only_after_a_conflict() {
    let mut stage = Stage::leading().await;
    let theirs = json!({ "conditions": [{ "type": "example.com/Theirs", "status": "True", "reason": "Theirs", "message": "" }] });
    let key = stage.class("one", &theirs);
    stage.board.put(key.clone(), Some(accepted("First")));
    stage.until(|state| state.written.len() == 1).await;
    assert_eq!(stage.lock().reads, 0);
    let conditions = stage.lock().objects[&path("one")]["status"]["conditions"].clone();
    assert_eq!([&conditions[0]["reason"], &conditions[1]["reason"]], ["Theirs", "First"], "others keep theirs");
    assert_eq!(stage.lock().objects[&path("one")]["spec"], json!({ "other": 1 }));
    // The watch has not heard of that yet.
    stage.board.put(key, Some(accepted("Second")));
    stage.until(|state| state.written.len() == 2).await;
    assert_eq!(stage.lock().reads, 1);
    assert_eq!(stage.lock().objects[&path("one")]["status"]["conditions"][1]["reason"], "Second");
    stage.end().await;
}

#[tokio::test]
async fn a_gateway_is_among_the_first_of_thousands_that_wait() {
    let mut stage = Stage::new().await;
    let mut opening = stage.board.opening();
    stage.lock().refusal = Some(StatusCode::TOO_MANY_REQUESTS);
    stage.leads.send_replace(true);
    timeout(DEADLINE, opening.wait_for(|open| *open)).await.expect("it opens").unwrap();
    let backends: Vec<ObjectKey> = (0..5_000).map(|at| stage.object(Kind::Backend, &format!("b{at}"))).collect();
    let gateway = stage.object(Kind::Gateway, "gateway");
    for key in backends.into_iter().chain([gateway]) {
        stage.board.put(key, Some(accepted("Mine")));
    }
    stage.lock().refusal = None;
    stage.until(|state| state.written.len() >= 32).await;
    let first = stage.lock().written[..32].join(" ");
    assert!(first.contains("/gateways/"), "{first}");
    stage.end().await;
}

#[tokio::test]
async fn a_server_that_asks_to_wait_is_given_time() {
    let (mut stage, _) = Stage::refused(StatusCode::TOO_MANY_REQUESTS).await;
    stage.until(|state| state.attempts >= 5).await;
    assert!(stage.refused.borrow().is_empty(), "that is no problem yet");
    stage.lock().refusal = None;
    stage.until(|state| reason(state, "one").is_some()).await;
    stage.end().await;
}

#[tokio::test]
async fn what_is_refused_is_told_and_written_once_it_may_be() {
    let (mut stage, key) = Stage::refused(StatusCode::FORBIDDEN).await;
    let told = timeout(DEADLINE, stage.refused.wait_for(|refused| !refused.is_empty())).await.expect("it is told");
    assert_eq!(told.unwrap()[0].0, key);
    stage.lock().refusal = None;
    stage.until(|state| reason(state, "one").is_some()).await;
    timeout(DEADLINE, stage.refused.wait_for(Vec::is_empty)).await.expect("it is withdrawn").unwrap();
    stage.end().await;
}

#[tokio::test]
async fn who_leads_no_longer_tells_nothing() {
    let (mut stage, _) = Stage::refused(StatusCode::FORBIDDEN).await;
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
