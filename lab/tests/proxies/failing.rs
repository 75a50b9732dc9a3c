//! Refusals, namespaces that go, an API server that is away, ends at any moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use infra::kubernetes::PodsState;
use ir::infra::kubernetes::{Patch, PatchType, ServiceType};
use serde_json::json;
use tests::wait;

use crate::harness::{Lab, Namespace};
use crate::stage::{Stage, fleet, name, patch, settings};

#[test]
fn what_the_server_refuses_is_told_in_its_words_and_costs_nothing_else() {
    let namespace = Namespace::make("refusing");
    let mut stage = Stage::new(&namespace.lab, "refusing", &["refusing"]);
    let mut gateway = fleet("refusing", "gw");
    settings(&mut gateway).service.service_type = ServiceType::ClusterIp;
    stage.want([&gateway]);
    stage.until_ready(&gateway.fleet);
    let object = format!("service/{}", name(&gateway));
    let address = |service: &serde_json::Value| service["spec"]["clusterIP"].clone();
    let before = address(&namespace.get(&object).unwrap());

    // an address that is no more to be changed: the rest is done all the same
    gateway.addresses = vec!["10.255.255.254".parse().unwrap()];
    gateway.ports = vec![80, 10_081];
    settings(&mut gateway).workload.pod_labels = [("example.com/version".into(), "2".into())].into();
    stage.want([&gateway]);
    let state = stage.until("what is missing", &gateway.fleet, |state| {
        let (_, words) = state.missing_addresses.first()?;
        words.contains("the API server says: ").then(|| state.clone())
    });
    let (missing, words) = &state.missing_addresses[0];
    assert_eq!(missing, &gateway.addresses[0]);
    assert!(words.contains("clusterIP") && words.contains("may not change once set"), "{words}");
    assert!(state.faults.is_empty() && state.problem.is_none(), "nothing else is to blame");
    assert!(state.ready);
    let has_port = |found: &serde_json::Value| (found["spec"]["ports"][1]["port"] == 10_081).then(|| address(found));
    assert_eq!(namespace.until("another port", &object, has_port), before);
    let changed = |found: &serde_json::Value| {
        (found.pointer("/spec/template/metadata/labels")?["example.com/version"] == "2").then_some(())
    };
    namespace.until("what else changed", &format!("deployment/{}", name(&gateway)), changed);

    // a patch that breaks the Deployment, for the server and for us
    gateway.addresses.clear();
    let mut broken = patch(json!({ "image": 7 }));
    settings(&mut gateway).workload.patch = Some(broken.clone());
    stage.want([&gateway]);
    let state = stage.until_problem(&gateway.fleet, &["refuses Deployment", "image"]);
    assert_eq!(&*state.faults[0].path, "spec.provider.kubernetes.envoyDeployment");
    broken = Patch { patch_type: PatchType::JsonMerge, value: json!({ "kind": "Job" }).into() };
    settings(&mut gateway).workload.patch = Some(broken);
    stage.want([&gateway]);
    let state = stage.until_problem(&gateway.fleet, &["changes kind, which is fixed"]);
    assert_eq!(&*state.faults[0].path, "spec.provider.kubernetes.envoyDeployment.patch.value");
    assert!(state.ready);

    settings(&mut gateway).workload.patch = Some(patch(json!({})));
    settings(&mut gateway).workload.replicas = Some(0);
    stage.want([&gateway]);
    let state = stage.until_problem(&gateway.fleet, &["has 0 replicas"]);
    assert!(state.faults.is_empty());
}

/// What it has to be allowed, in each namespace.
const ROLE: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: chancery}
rules:
- {apiGroups: [''], resources: [serviceaccounts, configmaps, services], verbs: [get, list, watch, create, patch, delete]}
- {apiGroups: [apps], resources: [deployments, daemonsets], verbs: [get, list, watch, create, patch, delete]}
- {apiGroups: [autoscaling], resources: [horizontalpodautoscalers], verbs: [get, list, watch, create, patch, delete]}
- {apiGroups: [policy], resources: [poddisruptionbudgets], verbs: [get, list, watch, create, patch, delete]}
";

#[test]
fn roles_in_namespaces_suffice_and_rights_that_lack_are_told() {
    let namespace = Namespace::make("rights");
    let mut stage = Stage::with_rights_of(&namespace.lab, "rights:default", &["rights"]);
    let mut gateway = fleet("rights", "gw");
    settings(&mut gateway).service.service_type = ServiceType::NodePort;
    stage.want([&gateway]);
    stage.until_problem(&gateway.fleet, &["may not be read; allow get, list and watch on them", "forbidden"]);
    namespace.apply(ROLE);
    namespace.run(&["create", "rolebinding", "chancery", "--role=chancery", "--serviceaccount=rights:default"]);
    stage.until_ready(&gateway.fleet);
    stage.until("the right that lacks", &gateway.fleet, |state| {
        state.unassigned.as_ref()?.contains("allow list and watch on nodes").then_some(())
    });
    let outside = fleet("elsewhere", "gw");
    stage.want([&gateway, &outside]);
    stage.until_problem(&outside.fleet, &["the namespace elsewhere is not one of those"]);
    stage.want([]);
    stage.until_gone(&gateway.fleet);
}

#[test]
fn in_a_namespace_that_goes_nothing_is_tried_for_ever() {
    let namespace = Namespace::make("going");
    namespace.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: holds, finalizers: [example.org/holds]}}");
    let mut stage = Stage::new(&namespace.lab, "going", &["going"]);
    let gateway = fleet("going", "gw");
    stage.want([&gateway]);
    stage.until_ready(&gateway.fleet);
    namespace.run(&["delete", "namespace", "going", "--wait=false"]);
    stage.until_problem(&gateway.fleet, &["the namespace going is being deleted"]);
    stage.want([]);
    stage.until_gone(&gateway.fleet);
    namespace.run(&["patch", "configmap/holds", "--type=merge", "--patch", r#"{"metadata":{"finalizers":null}}"#]);
    wait::until("the end of the namespace", || namespace.get("namespace/going").is_none().then_some(())).unwrap();
}

#[test]
fn an_end_in_the_middle_is_made_good_by_the_next() {
    let namespace = Namespace::make("middle");
    let fleets: Vec<_> = (0..8).map(|number| fleet("middle", &format!("gw-{number}"))).collect();
    for at_least in [1, 8, 15, 22] {
        let stage = Stage::new(&namespace.lab, "middle", &["middle"]);
        stage.want(&fleets);
        let selector = "app.kubernetes.io/managed-by=chancery";
        wait::until("some objects", || {
            let kinds = "serviceaccounts,configmaps,services,deployments";
            let found = namespace.run(&["get", kinds, "--selector", selector, "--output=name"]);
            (found.lines().count() >= at_least).then_some(())
        })
        .unwrap();
        stage.end();
    }
    let mut stage = Stage::new(&namespace.lab, "middle", &["middle"]);
    stage.want(&fleets[..6]);
    fleets[..6].iter().for_each(|gateway| stage.until_ready(&gateway.fleet));
    for gateway in &fleets[6..] {
        let object = format!("deployment/{}", name(gateway));
        wait::until(&object, || namespace.get(&object).is_none().then_some(())).unwrap();
    }
}

/// Of what a fleet has.
const RESOURCES: [&str; 4] = ["configmaps", "deployments", "serviceaccounts", "services"];

/// How often objects of each resource were applied since the server started. The lab applies others, the lease of its node for one.
fn applied(lab: &Lab) -> BTreeMap<String, u64> {
    let metrics = lab.exec(&["kubectl", "get", "--raw", "/metrics"]).unwrap();
    let mut all = BTreeMap::new();
    for line in metrics.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
        let label = |name: &str| {
            let mut labels = line.split(['{', ',']).filter_map(|label| label.split_once("=\""));
            labels.find(|(own, _)| *own == name).map(|(_, value)| value.trim_end_matches('"'))
        };
        let resource = label("resource").filter(|resource| RESOURCES.contains(resource));
        // what the server did not do, as it was just starting, say, is tried again
        let done = label("verb") == Some("APPLY") && label("code").is_some_and(|code| code.starts_with("20"));
        if let Some(resource) = resource.filter(|_| done) {
            let count: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
            *all.entry(resource.to_owned()).or_default() += count as u64;
        }
    }
    all
}

#[test]
fn an_api_server_that_is_away_changes_nothing_and_a_restart_writes_nothing() {
    let lab = Arc::new(Lab::own());
    let namespace = Namespace::make_in(Arc::clone(&lab), "outage");
    let mut stage = Stage::new(&lab, "outage", &[]);
    let mut gateway = fleet("outage", "gw");
    stage.want([&gateway]);
    stage.until_ready(&gateway.fleet);
    let reached = |state: &PodsState| state.addresses.first().map(|_| state.clone());
    let before = stage.until("an address", &gateway.fleet, reached);

    lab.verb(&["stop", "kube-apiserver"]);
    gateway.ports = vec![80, 8080];
    stage.want([&gateway]);
    lab.verb(&["start", "kube-apiserver"]);
    let object = format!("service/{}", name(&gateway));
    namespace.until("the port", &object, |found| (found["spec"]["ports"][1]["port"] == 8080).then_some(()));
    // one that comes after all that, and is served later than all of it is counted
    let other = fleet("outage", "other");
    stage.want([&gateway, &other]);
    stage.until_ready(&other.fleet);
    let after = stage.told(&gateway.fleet).unwrap().unwrap();
    assert_eq!((after.ready, after.problem, after.hostnames), (before.ready, before.problem, before.hostnames));
    assert_eq!(after.addresses[0], before.addresses[0]);
    stage.end();

    // one that finds all as it shall be
    let mut expected = applied(&lab);
    assert!(expected["services"] >= 2, "{expected:?}");
    let mut stage = Stage::new(&lab, "outage", &[]);
    stage.want([&gateway, &other]);
    stage.until_ready(&gateway.fleet);
    // and has looked at it by then: a fleet that comes later is served
    let last = fleet("outage", "last");
    stage.want([&gateway, &other, &last]);
    stage.until_ready(&last.fleet);
    for resource in RESOURCES {
        *expected.entry(resource.to_owned()).or_default() += 1;
    }
    assert_eq!(applied(&lab), expected);
}
