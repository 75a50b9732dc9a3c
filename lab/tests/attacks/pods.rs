//! Pods of proxies: what an author of an `EnvoyProxy` may change of them where the operator lists it.

use serde_json::Value;
use tests::wait;

use crate::deploy::{gateway, listed};
use crate::harness::Namespace;

/// The Deployment that is made of a Gateway: its name begins with that of the Gateway.
fn deployment(namespace: &Namespace, gateway: &str) -> Option<Value> {
    let found = namespace.try_run(&["get", "deployments", "--output=json"])?;
    let found: Value = serde_json::from_str(&found).ok()?;
    let begin = format!("{gateway}-");
    let is_meant = |made: &&Value| made["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(&begin));
    found["items"].as_array()?.iter().find(is_meant).cloned()
}

fn until_made(namespace: &Namespace, gateway: &str) -> Value {
    wait::until(&format!("a Deployment of {gateway}"), || deployment(namespace, gateway)).unwrap()
}

/// Waits until an `EnvoyProxy` says this of itself.
fn until_said(namespace: &Namespace, proxy: &str, words: &[&str]) {
    namespace.until(&words.join(", "), &format!("envoyproxy/{proxy}"), |proxy| {
        let said = proxy.pointer("/status/ancestors/0/conditions")?.to_string();
        words.iter().all(|word| said.contains(word)).then_some(())
    });
}

#[test]
fn an_envoy_proxy_gets_no_field_and_no_account_that_is_not_listed() {
    let namespace = Namespace::make_in(listed(), "pods");
    namespace.run(&["create", "serviceaccount", "admin"]);
    namespace.apply("{apiVersion: v1, kind: Secret, metadata: {name: theirs}, stringData: {key: secret}}");
    let volumes = "pod: {volumes: [{name: stolen, secret: {secretName: theirs}}]}";
    let init = "initContainers: [{name: evil, image: evil, command: [steal]}]";
    let patched = "patch: {type: StrategicMerge, value: {spec: {template: {spec: {serviceAccountName: admin, hostNetwork: true}}}}}";
    let evil = format!(
        "{{envoyServiceAccount: {{name: admin}}, envoyDeployment: {{replicas: 1, {volumes}, {init}, {patched}}}}}"
    );
    namespace.apply(&gateway("evil", &evil));
    until_said(
        &namespace,
        "evil",
        &[
            "allowedServiceAccounts",
            "envoyDeployment.patch",
            "envoyDeployment.initContainers",
            "envoyDeployment.pod.volumes",
        ],
    );
    namespace.apply(&gateway("good", "{envoyServiceAccount: {name: plain}, envoyDeployment: {replicas: 2}}"));
    let good = until_made(&namespace, "good");
    assert_eq!(good["spec"]["replicas"], 2);
    assert_eq!(good["spec"]["template"]["spec"]["serviceAccountName"], "plain");

    let pod = until_made(&namespace, "evil")["spec"]["template"]["spec"].clone();
    let made = pod.to_string();
    for word in ["\"serviceAccountName\":\"admin\"", "theirs", "stolen", "steal", "hostNetwork"] {
        assert!(!made.contains(word), "{word}: {made}");
    }
    let pods = namespace.run(&["get", "pods", "--output=json"]);
    assert!(!pods.contains("\"serviceAccountName\": \"admin\""), "{pods}");
}
