//! The plain manifests (`deploy/kubernetes`) in a real API server: they are taken, and give the rights that are meant.

use serde_json::json;

use super::harness::{Lab, Namespace};

/// Objects as they are written for Envoy Gateway, with fields that the definitions do not name.
const OBJECTS: &str = "
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyProxy
metadata: {name: p}
spec:
  notYetInvented: {a: 1}
  concurrency: 2
  telemetry: {metrics: {prometheus: {disable: true}}}
  provider:
    type: Kubernetes
    kubernetes:
      envoyPDB: {minAvailable: 50%}
      envoyDeployment: {patch: {type: StrategicMerge, value: {spec: {paused: null, replicas: 2}}}}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
metadata: {name: t}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: g}]
  loadBalancer: {type: ConsistentHash, consistentHash: {type: SourceIP}}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: Backend
metadata: {name: b}
spec: {type: DynamicResolver}
";

/// The lab's own, with the definitions of the Gateway API and the manifests.
fn installed(namespace: &'static str) -> Namespace {
    let lab = Lab::shared();
    lab.verb(&["definitions"]);
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("deploy/kubernetes");
    lab.verb(&["exec", "kubectl", "apply", "--server-side", "--kustomize", folder.to_str().unwrap()]);
    Namespace::make_in(lab, namespace)
}

#[test]
fn the_account_may_do_what_the_program_does_and_no_more() {
    let namespace = installed("install-rights");
    let may = |verb: &str, resource: &str, within: &str| {
        // what stands behind a stroke is else the name of one object
        let (resource, part) = resource.strip_suffix("/status").map_or((resource, ""), |whole| (whole, "status"));
        let account = "system:serviceaccount:chancery-system:chancery";
        let words =
            ["auth", "can-i", verb, resource, "--subresource", part, "--quiet", "--as", account, "--namespace", within];
        namespace.lab.exec(&[&["kubectl"], &words[..]].concat()).is_some()
    };
    for (verb, resource, within) in [
        ("watch", "httproutes.gateway.networking.k8s.io", "install-rights"),
        ("update", "gateways.gateway.networking.k8s.io/status", "install-rights"),
        ("list", "customresourcedefinitions.apiextensions.k8s.io", ""),
        ("create", "tokenreviews.authentication.k8s.io", ""),
        ("patch", "deployments.apps", "install-rights"),
        ("watch", "pods", "install-rights"),
        ("update", "leases.coordination.k8s.io/chancery", "chancery-system"),
        ("update", "secrets/chancery-ca", "chancery-system"),
        ("create", "secrets", "chancery-system"),
    ] {
        assert!(may(verb, resource, within), "{verb} {resource} in {within:?}");
    }
    for (verb, resource, within) in [
        ("update", "gateways.gateway.networking.k8s.io", "install-rights"),
        ("create", "secrets", "install-rights"),
        ("delete", "secrets/chancery-ca", "chancery-system"),
        ("update", "secrets/other", "chancery-system"),
        ("update", "leases.coordination.k8s.io/other", "chancery-system"),
        ("update", "leases.coordination.k8s.io", "install-rights"),
        ("delete", "pods", "install-rights"),
        ("create", "pods", "chancery-system"),
        ("create", "clusterroles.rbac.authorization.k8s.io", ""),
    ] {
        assert!(!may(verb, resource, within), "{verb} {resource} in {within:?}");
    }
}

#[test]
fn the_definitions_keep_what_they_do_not_name() {
    let namespace = installed("install-definitions");
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    std::fs::write(file.path(), OBJECTS).unwrap();
    // kubectl's own merge would leave the nulls out
    namespace.run(&["apply", "--server-side", "--filename", file.path().to_str().unwrap()]);
    let proxy = namespace.get("envoyproxy/p").unwrap();
    assert_eq!(proxy["spec"]["notYetInvented"], json!({"a": 1}));
    assert_eq!(proxy["spec"]["telemetry"], json!({"metrics": {"prometheus": {"disable": true}}}));
    assert_eq!(proxy.pointer("/spec/provider/kubernetes/envoyPDB/minAvailable"), Some(&json!("50%")));
    let patch = "/spec/provider/kubernetes/envoyDeployment/patch/value/spec";
    assert_eq!(proxy.pointer(patch), Some(&json!({"paused": null, "replicas": 2})));
    let policy = namespace.get("btp/t").unwrap();
    assert_eq!(policy["spec"]["loadBalancer"]["consistentHash"]["type"], "SourceIP");
    namespace.run(&[
        "patch",
        "backend/b",
        "--subresource=status",
        "--type=merge",
        "--patch",
        r#"{"status": {"conditions": []}}"#,
    ]);
    assert_eq!(namespace.get("backend/b").unwrap()["status"], json!({"conditions": []}));
}

#[test]
fn helm_refuses_to_rename_the_controller_of_a_class() {
    const EARLIER: &str = "controllerName=gateway.envoyproxy.io/gatewayclass-controller";
    let lab = Lab::shared();
    lab.verb(&["definitions"]);
    let namespace = Namespace::make_in(lab, "install-names");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (program, chart) = (root.join(".tools/helm/current/bin/helm"), root.join("charts/chancery"));
    let helm = |verb: &str, values: &[&str]| {
        let values: Vec<&str> = values.iter().flat_map(|value| ["--set", value]).collect();
        let mut command = namespace.lab.command("exec");
        command.arg(&program).args([verb, "renamed"]).arg(&chart).args(["--skip-crds", "--namespace", namespace.name]);
        let output = command.args(["--set", "replicas=1,gatewayClass.name=renamed"]).args(values).output().unwrap();
        (output.status.success(), super::harness::text(&output))
    };
    let names = || {
        let class = namespace.get("gatewayclass/renamed").unwrap();
        let config = namespace.get("configmap/renamed").unwrap();
        (
            class["spec"]["controllerName"].clone(),
            config["data"]["chancery.yaml"].as_str().unwrap().contains(&EARLIER[15..]),
        )
    };
    let installed = helm("install", &[EARLIER]);
    assert!(installed.0, "{}", installed.1);
    let kept = (json!(EARLIER[15..]), true);
    for values in
        [&[][..], &["gatewayClass.create=false"], &["gatewayClass.name=another"], &["controllerName=a.example/b"]]
    {
        let (done, words) = helm("upgrade", values);
        assert!(!done && words.contains(&format!("--set {EARLIER}")), "{values:?}: {words}");
        assert!(words.contains("GatewayClass renamed"), "{values:?}: {words}");
        assert_eq!(names(), kept, "{values:?} changed nothing");
    }
    let (done, words) = helm("upgrade", &[EARLIER]);
    assert!(done, "{words}");
    assert_eq!(names(), kept);
    let mut leave = namespace.lab.command("exec");
    let left = leave.arg(&program).args(["uninstall", "renamed", "--wait", "--namespace", namespace.name]).output();
    assert!(left.unwrap().status.success());
}
