//! What is said of pods.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::super::board::{Ended, Facts, Record, State};
use super::of;

fn ended(code: u8) -> State {
    let time = Timestamp::UNIX_EPOCH;
    State::Ended(Ended {
        code,
        reason: "Error",
        message: String::new(),
        began: time,
        finished: time,
        id: String::new(),
    })
}

fn running(ready: bool) -> Record {
    Record { state: State::Running { since: Timestamp::UNIX_EPOCH }, ready, started: true, ..Record::default() }
}

fn is(state: State) -> Record {
    Record { state, ..Record::default() }
}

fn pod(spec: Value) -> Pod {
    serde_json::from_value(json!({ "metadata": { "name": "p" }, "spec": spec })).unwrap()
}

fn status(pod: &Pod, containers: &[(&str, Record)]) -> PodStatus {
    let containers = containers.iter().map(|(name, record)| ((*name).to_owned(), record.clone())).collect();
    let facts = Facts { containers, sandbox: true, failed: None };
    of(pod, &facts, Ipv4Addr::new(10, 244, 1, 1), Timestamp::UNIX_EPOCH, &[])
}

fn condition(status: &PodStatus, kind: &str) -> (String, String) {
    let all = status.conditions.as_ref().unwrap();
    let found = all.iter().find(|condition| condition.type_ == kind).unwrap();
    (found.status.clone(), found.reason.clone().unwrap_or_default())
}

fn check_phase(policy: &str, containers: &[(&str, Record)], expect: &str) {
    let names: Vec<Value> = containers.iter().map(|(name, _)| json!({ "name": name })).collect();
    let pod = pod(json!({ "restartPolicy": policy, "containers": names }));
    assert_eq!(status(&pod, containers).phase.as_deref(), Some(expect), "{policy} {containers:?}");
}

#[test]
fn the_phase_follows_from_the_containers() {
    check_phase("Always", &[("a", Record::default())], "Pending");
    check_phase("Always", &[("a", running(false)), ("b", Record::default())], "Pending");
    check_phase("Always", &[("a", running(false))], "Running");
    check_phase("Always", &[("a", is(ended(1)))], "Running");
    check_phase("Never", &[("a", is(ended(0))), ("b", is(ended(0)))], "Succeeded");
    check_phase("Never", &[("a", is(ended(0))), ("b", is(ended(1)))], "Failed");
    check_phase("Never", &[("a", is(ended(1))), ("b", running(true))], "Running");
    check_phase("OnFailure", &[("a", is(ended(1)))], "Running");
}

#[test]
fn a_crashing_container_is_running_for_its_pod() {
    let State::Ended(last) = ended(1) else { panic!() };
    let waits = State::Waiting { reason: "CrashLoopBackOff", message: String::new() };
    check_phase("Always", &[("a", Record { last: Some(last), ..is(waits) })], "Running");
}

#[test]
fn init_containers_come_first() {
    let pod =
        pod(json!({ "restartPolicy": "Never", "initContainers": [{ "name": "i" }], "containers": [{ "name": "a" }] }));
    let waits = status(&pod, &[("i", running(false))]);
    assert_eq!(waits.phase.as_deref(), Some("Pending"));
    assert_eq!(condition(&waits, "Initialized"), ("False".to_owned(), "ContainersNotInitialized".to_owned()));
    assert_eq!(status(&pod, &[("i", is(ended(1)))]).phase.as_deref(), Some("Failed"));
    let done = status(&pod, &[("i", is(ended(0))), ("a", running(true))]);
    assert_eq!((done.phase.as_deref(), condition(&done, "Ready").0.as_str()), (Some("Running"), "True"));
}

#[test]
fn a_pod_is_ready_when_its_containers_are_and_its_gates_are_open() {
    let spec = json!({ "containers": [{ "name": "a" }], "readinessGates": [{ "conditionType": "example.com/open" }] });
    let mut pod = pod(spec);
    let unready = status(&pod, &[("a", running(false))]);
    assert_eq!(condition(&unready, "Ready"), ("False".to_owned(), "ContainersNotReady".to_owned()));
    let closed = status(&pod, &[("a", running(true))]);
    assert_eq!(condition(&closed, "Ready"), ("False".to_owned(), "ReadinessGatesNotReady".to_owned()));
    assert_eq!(condition(&closed, "ContainersReady").0, "True");
    let open = json!({ "conditions": [{ "type": "example.com/open", "status": "True" }] });
    pod.status = serde_json::from_value(open).unwrap();
    assert_eq!(condition(&status(&pod, &[("a", running(true))]), "Ready").0, "True");
}

#[test]
fn a_condition_keeps_its_time_while_it_stays() {
    let pod = pod(json!({ "containers": [{ "name": "a" }] }));
    let long_ago = Some(Time(Timestamp::UNIX_EPOCH));
    let mut before = status(&pod, &[("a", running(true))]).conditions.unwrap();
    before.iter_mut().for_each(|condition| condition.last_transition_time = long_ago.clone());
    let facts = |ready| Facts { containers: [("a".to_owned(), running(ready))].into(), sandbox: true, failed: None };
    let time = |ready, kind: &str| {
        let after = of(&pod, &facts(ready), Ipv4Addr::LOCALHOST, Timestamp::UNIX_EPOCH, &before);
        after.conditions.unwrap().into_iter().find(|condition| condition.type_ == kind).unwrap().last_transition_time
    };
    assert_eq!(time(true, "Ready"), long_ago);
    assert_ne!(time(false, "Ready"), long_ago);
    assert_eq!(time(false, "Initialized"), long_ago);
}
