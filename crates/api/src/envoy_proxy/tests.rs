//! What becomes of settings that are combined with others.

use serde_json::{Value, json};

use super::kubernetes::EnvoyWorkload;
use super::*;
use crate::{Object, json::read};

/// The spec as an API server gives it.
fn spec(written: &Value) -> EnvoyProxySpec {
    let text = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": written}).to_string();
    let decoded = read(Kind::EnvoyProxy, &text).unwrap();
    assert_eq!(decoded.problems, []);
    match decoded.object() {
        Some(Object::EnvoyProxy(proxy)) => proxy.spec.clone(),
        other => panic!("{other:?}"),
    }
}

fn deployment(fields: &Value) -> Value {
    json!({"provider": {"type": "Kubernetes", "kubernetes": {"envoyDeployment": fields}}})
}

fn workload(spec: &EnvoyProxySpec) -> &EnvoyWorkload {
    spec.provider.as_ref().unwrap().kubernetes.as_ref().unwrap().envoy_deployment.as_ref().unwrap()
}

/// `own` over `base`: the names of environment variables, the number of Pods, and the threads.
fn combined(how: &MergeType) -> (Vec<String>, Option<u32>, Option<u32>) {
    let env = |name| json!({"env": [{"name": name, "value": "1"}]});
    let own = spec(&deployment(&json!({"container": env("OWN")})));
    let mut base = deployment(&json!({"container": env("BASE"), "replicas": 3}));
    base["concurrency"] = json!(2);
    let merged = own.over(&spec(&base), how).unwrap();
    let names = workload(&merged).container.fields["env"].as_array().unwrap().iter();
    let mut names: Vec<_> = names.map(|variable| variable["name"].as_str().unwrap().to_owned()).collect();
    names.sort_unstable();
    (names, workload(&merged).replicas, merged.concurrency)
}

#[test]
fn each_way_of_combining_keeps_something_else_of_what_is_behind() {
    let words = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(combined(&MergeType::Replace), (words(&["OWN"]), None, None));
    assert_eq!(combined(&MergeType::JsonMerge), (words(&["OWN"]), Some(3), Some(2)));
    assert_eq!(combined(&MergeType::StrategicMerge), (words(&["BASE", "OWN"]), Some(3), Some(2)));
    assert_eq!(combined(&MergeType::Unknown("Odd".into())), combined(&MergeType::Replace));
}

#[test]
fn a_field_that_is_null_is_taken_away_and_what_is_null_behind_is_not_there() {
    let own = spec(&json!({"mergeType": "JSONMerge", "concurrency": null}));
    for how in [MergeType::JsonMerge, MergeType::StrategicMerge] {
        let merged = own.over(&spec(&json!({"concurrency": 2, "ipFamily": "IPv4", "telemetry": null})), &how).unwrap();
        assert_eq!((merged.concurrency, merged.ip_family, merged.telemetry), (None, Some(IpFamily::Ipv4), None));
    }
}

#[test]
fn what_is_combined_can_be_combined_once_more() {
    let first = spec(&json!({"concurrency": 1})).over(&spec(&json!({"ipFamily": "IPv4"})), &MergeType::JsonMerge);
    let whole = first.unwrap().over(&spec(&json!({"concurrency": 3, "extraArgs": ["-a"]})), &MergeType::JsonMerge);
    let whole = whole.unwrap();
    assert_eq!(
        (whole.concurrency, whole.ip_family, &*whole.extra_args),
        (Some(1), Some(IpFamily::Ipv4), &["-a".into()][..])
    );
}

#[test]
fn a_null_in_a_patch_stays_one_also_when_settings_are_combined() {
    let patch = json!({"spec": {"paused": null, "replicas": 2}});
    let patched = spec(&deployment(&json!({"patch": {"value": patch}})));
    let value = |spec: &EnvoyProxySpec| (*workload(spec).patch.as_ref().unwrap().value.0).clone();
    assert_eq!(value(&patched), patch);
    for how in [MergeType::JsonMerge, MergeType::StrategicMerge] {
        let merged = spec(&json!({"concurrency": 1})).over(&patched, &how).unwrap();
        assert_eq!(value(&merged), patch, "{how:?}");
    }
}

#[test]
fn what_cannot_be_combined_says_where() {
    let own = spec(&deployment(&json!({"container": {"env": [{"$patch": "odd"}]}})));
    let base = spec(&deployment(&json!({"container": {"env": [{"name": "A"}]}})));
    let fault = own.over(&base, &MergeType::StrategicMerge).unwrap_err();
    assert_eq!(&*fault.path, "spec");
    assert!(fault.text.contains("provider.kubernetes.envoyDeployment.container.env"), "{fault:?}");
}
