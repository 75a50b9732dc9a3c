//! That what somebody else changes is put right, and that an autoscaler is left alone.

use std::sync::Arc;

use ir::infra::kubernetes::Extra;
use serde_json::json;

use crate::harness::Namespace;
use crate::stage::{Stage, fleet, name, settings};

#[test]
fn what_somebody_changes_of_ours_is_put_right_and_what_is_theirs_stays() {
    let namespace = Namespace::make("drift");
    let mut stage = Stage::new(&namespace.lab, "drift", &["drift"]);
    let gateway = fleet("drift", "gw");
    stage.want([&gateway]);
    stage.until_ready(&gateway.fleet);
    let name = name(&gateway);
    let (service, deployment, config) =
        (format!("service/{name}"), format!("deployment/{name}"), format!("configmap/{name}"));

    namespace.run(&["annotate", &service, "theirs=stays"]);
    namespace.run(&["patch", &service, "--type=merge", "--patch", r#"{"spec":{"type":"ClusterIP"}}"#]);
    namespace.until("the type", &service, |found| (found["spec"]["type"] == "LoadBalancer").then_some(()));
    namespace.run(&["scale", &deployment, "--replicas=3"]);
    namespace.until("the replicas", &deployment, |found| (found["spec"]["replicas"] == 1).then_some(()));
    namespace.run(&["patch", &config, "--type=merge", "--patch", r#"{"data":{"bootstrap.json":null,"more":"x"}}"#]);
    let bootstrap = |found: &serde_json::Value| found["data"]["bootstrap.json"].is_string().then_some(());
    namespace.until("the bootstrap", &config, bootstrap);
    assert_eq!(namespace.get(&config).unwrap()["data"]["more"], "x");
    let label = "gateway.networking.k8s.io/gateway-name";
    namespace.run(&["label", &service, &format!("{label}-")]);
    namespace.until("the label", &service, |found| (found["metadata"]["labels"][label] == "gw").then_some(()));
    namespace.run(&["delete", &config]);
    namespace.until("another ConfigMap", &config, bootstrap);
    assert_eq!(namespace.get(&service).unwrap()["metadata"]["annotations"]["theirs"], "stays");
    // one that somebody keeps from going is made anew when it is gone
    namespace.run(&[
        "patch",
        &config,
        "--type=merge",
        "--patch",
        r#"{"metadata":{"finalizers":["example.org/holds"]}}"#,
    ]);
    let before = namespace.get(&config).unwrap()["metadata"]["uid"].clone();
    namespace.run(&["delete", &config, "--wait=false"]);
    namespace.until("the end", &config, |found| found["metadata"]["deletionTimestamp"].as_str().map(drop));
    namespace.run(&["patch", &config, "--type=merge", "--patch", r#"{"metadata":{"finalizers":null}}"#]);
    namespace.until("another one", &config, |found| (found["metadata"]["uid"] != before).then_some(()));
    // who goes on changing it does not get it for good
    for replicas in 2..8 {
        namespace.run(&["scale", &deployment, &format!("--replicas={replicas}")]);
    }
    namespace.until("the replicas", &deployment, |found| (found["spec"]["replicas"] == 1).then_some(()));
}

#[test]
fn an_autoscaler_decides_how_many_there_are() {
    let namespace = Namespace::make("autoscaler");
    let mut stage = Stage::new(&namespace.lab, "autoscaler", &["autoscaler"]);
    let mut gateway = fleet("autoscaler", "gw");
    settings(&mut gateway).workload.replicas = Some(2);
    stage.want([&gateway]);
    stage.until_ready(&gateway.fleet);
    let deployment = format!("deployment/{}", name(&gateway));

    let field = |name: &str, value: u32| (Arc::from(name), Arc::new(json!(value)));
    let spec = [field("minReplicas", 3), field("maxReplicas", 5)].into();
    settings(&mut gateway).autoscaler = Some(Extra { spec, ..Extra::default() });
    stage.want([&gateway]);
    // the number is let go without a fall to one
    let autoscaler = format!("hpa/{}", name(&gateway));
    namespace.until("the autoscaler", &autoscaler, |_| Some(()));
    assert!(namespace.get(&deployment).unwrap()["spec"]["replicas"].as_u64().unwrap() >= 2);
    namespace.until("three", &deployment, |found| (found["status"]["availableReplicas"] == 3).then_some(()));
    settings(&mut gateway).labels = [("team".into(), "a".into())].into();
    stage.want([&gateway]);
    namespace.until("the label", &deployment, |found| {
        let labels = &found["spec"]["template"]["metadata"]["labels"];
        (labels["team"] == "a").then(|| assert_eq!(found["spec"]["replicas"], 3))
    });
    let fields = namespace.run(&["get", &deployment, "--show-managed-fields", "--output=json"]);
    let fields: serde_json::Value = serde_json::from_str(&fields).unwrap();
    let entries = fields["metadata"]["managedFields"].as_array().unwrap();
    let ours = entries.iter().find(|entry| entry["manager"] == "chancery").unwrap();
    assert!(ours["fieldsV1"]["f:spec"].get("f:replicas").is_none());
}
