//! What is said of a pod, as a function of what is known of it. Phases and conditions follow kubelet's rules.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
    HostIP, Pod, PodCondition, PodIP, PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::board::{Ended, Facts, Record, State};
use crate::network::NODE;

/// The status, beside which the one before gives the times of conditions that did not change.
pub(crate) fn of(pod: &Pod, facts: &Facts, address: Ipv4Addr, began: Timestamp, before: &[PodCondition]) -> PodStatus {
    let spec = pod.spec.clone().unwrap_or_default();
    let phase = phase(&spec, facts);
    let initial = spec.init_containers.as_deref().unwrap_or_default();
    let statuses = |containers: &[Container]| -> Vec<ContainerStatus> {
        containers.iter().map(|container| container_status(container, &record(facts, &container.name))).collect()
    };
    let (reason, message) = facts.failed.clone().unzip();
    PodStatus {
        conditions: Some(conditions(pod, &spec, facts, phase, before)),
        reason: reason.map(str::to_owned),
        message,
        host_ip: Some(NODE.to_string()),
        host_ips: Some(vec![HostIP { ip: NODE.to_string() }]),
        pod_ip: facts.sandbox.then(|| address.to_string()),
        pod_ips: facts.sandbox.then(|| vec![PodIP { ip: address.to_string() }]),
        phase: Some(phase.to_owned()),
        start_time: Some(Time(began)),
        init_container_statuses: (!initial.is_empty()).then(|| statuses(initial)),
        container_statuses: Some(statuses(&spec.containers)),
        observed_generation: pod.metadata.generation,
        ..PodStatus::default()
    }
}

fn record(facts: &Facts, name: &str) -> Record {
    facts.containers.get(name).cloned().unwrap_or_default()
}

/// An init container that runs beside the others.
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Whether all init containers have done what the others wait for, or the others wait no more.
fn is_initialized(spec: &PodSpec, facts: &Facts) -> bool {
    let began = |record: &Record| record.last.is_some() || !matches!(record.state, State::Waiting { .. });
    let any_began = spec.containers.iter().any(|container| began(&record(facts, &container.name)));
    any_began
        || spec.init_containers.iter().flatten().all(|container| {
            let record = record(facts, &container.name);
            if is_sidecar(container) {
                record.started
            } else {
                matches!(record.state, State::Ended(Ended { code: 0, .. }))
            }
        })
}

/// The phase.
fn phase(spec: &PodSpec, facts: &Facts) -> &'static str {
    if facts.failed.is_some() {
        return "Failed";
    }
    let policy = spec.restart_policy.as_deref().unwrap_or("Always");
    let all: Vec<Record> = spec.containers.iter().map(|container| record(facts, &container.name)).collect();
    if !is_initialized(spec, facts) {
        let failed = spec.init_containers.iter().flatten().filter(|container| !is_sidecar(container)).any(
            |container| matches!(record(facts, &container.name).state, State::Ended(Ended { code, .. }) if code != 0),
        );
        return if failed && policy == "Never" { "Failed" } else { "Pending" };
    }
    if all.iter().any(|record| matches!(record.state, State::Waiting { .. }) && record.last.is_none()) {
        return "Pending";
    }
    if all.iter().any(|record| matches!(record.state, State::Running { .. })) || policy == "Always" {
        return "Running";
    }
    let code = |record: &Record| match &record.state {
        State::Ended(ended) => Some(ended.code),
        _ => None,
    };
    if all.iter().all(|record| code(record) == Some(0)) {
        return "Succeeded";
    }
    // one that waits starts again, and so will one that failed unless it never may
    if policy == "Never" && all.iter().all(|record| code(record).is_some()) { "Failed" } else { "Running" }
}

/// Our conditions; those of others stay as they are in the API server.
fn conditions(pod: &Pod, spec: &PodSpec, facts: &Facts, phase: &str, before: &[PodCondition]) -> Vec<PodCondition> {
    let over = matches!(phase, "Succeeded" | "Failed");
    let unready: Vec<&str> = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().flatten().filter(|container| is_sidecar(container)))
        .filter(|container| !record(facts, &container.name).ready)
        .map(|container| container.name.as_str())
        .collect();
    let waiting: Vec<&str> = spec
        .init_containers
        .iter()
        .flatten()
        .filter(|container| !matches!(record(facts, &container.name).state, State::Ended(Ended { code: 0, .. })))
        .map(|container| container.name.as_str())
        .collect();
    let initialized = is_initialized(spec, facts);
    let containers = unready.is_empty() && initialized;
    let names = |what: &str, names: &[&str]| format!("containers with {what} status: [{}]", names.join(" "));
    let why_unready = || match over {
        true => ("PodCompleted", String::new()),
        false => ("ContainersNotReady", names("unready", &unready)),
    };
    let (gates, gate_message) = gates(pod, spec);
    let ready = match (containers, gates) {
        (true, true) => Ok(()),
        (true, false) => Err(("ReadinessGatesNotReady", gate_message)),
        (false, _) => Err(why_unready()),
    };
    let all = [
        ("PodReadyToStartContainers", if facts.sandbox { Ok(()) } else { Err(("", String::new())) }),
        (
            "Initialized",
            if initialized { Ok(()) } else { Err(("ContainersNotInitialized", names("incomplete", &waiting))) },
        ),
        ("Ready", ready),
        ("ContainersReady", if containers { Ok(()) } else { Err(why_unready()) }),
        ("PodScheduled", Ok(())),
    ];
    all.into_iter().map(|(kind, state)| condition(kind, state, pod, before)).collect()
}

/// Whether all readiness gates are open; if not, which is closed.
fn gates(pod: &Pod, spec: &PodSpec) -> (bool, String) {
    let now = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let is_true = |kind: &str| now.iter().any(|condition| condition.type_ == kind && condition.status == "True");
    let closed = spec.readiness_gates.iter().flatten().find(|gate| !is_true(&gate.condition_type));
    match closed {
        None => (true, String::new()),
        Some(gate) => (
            false,
            format!("corresponding condition of pod readiness gate \"{}\" is not \"True\".", gate.condition_type),
        ),
    }
}

fn condition(kind: &str, state: Result<(), (&str, String)>, pod: &Pod, before: &[PodCondition]) -> PodCondition {
    let status = if state.is_ok() { "True" } else { "False" };
    let (reason, message) = state.err().unzip();
    let same = before.iter().find(|condition| condition.type_ == kind && condition.status == status);
    let since = same.and_then(|condition| condition.last_transition_time.clone());
    PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.filter(|reason| !reason.is_empty()).map(str::to_owned),
        message: message.filter(|message| !message.is_empty()),
        last_transition_time: since.or_else(|| Some(Time(whole_seconds(super::now())))),
        observed_generation: pod.metadata.generation,
        ..PodCondition::default()
    }
}

/// The API has no parts of seconds: what is written has to be what is read.
pub(crate) fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

fn container_status(container: &Container, record: &Record) -> ContainerStatus {
    let image = container.image.clone().unwrap_or_default();
    let running = matches!(record.state, State::Running { .. });
    ContainerStatus {
        name: container.name.clone(),
        state: Some(state(&record.state)),
        last_state: record.last.as_ref().map(|last| state(&State::Ended(last.clone()))),
        ready: record.ready,
        started: Some(record.started && running),
        restart_count: record.restarts,
        image_id: if record.id.is_empty() { String::new() } else { format!("lab://{image}") },
        image,
        container_id: (!record.id.is_empty()).then(|| record.id.clone()),
        ..ContainerStatus::default()
    }
}

fn state(state: &State) -> ContainerState {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    match state {
        State::Waiting { reason, message } => ContainerState {
            waiting: Some(ContainerStateWaiting { reason: text(reason), message: text(message) }),
            ..ContainerState::default()
        },
        State::Running { since } => ContainerState {
            running: Some(ContainerStateRunning { started_at: Some(Time(whole_seconds(*since))) }),
            ..ContainerState::default()
        },
        State::Ended(ended) => ContainerState {
            terminated: Some(ContainerStateTerminated {
                exit_code: ended.code.into(),
                reason: text(ended.reason),
                message: text(&ended.message),
                started_at: Some(Time(whole_seconds(ended.began))),
                finished_at: Some(Time(whole_seconds(ended.finished))),
                container_id: text(&ended.id),
                ..ContainerStateTerminated::default()
            }),
            ..ContainerState::default()
        },
    }
}

#[cfg(test)]
mod tests;
