//! Secrets of others: the audit log of the API server says which Chancery requested.

use std::sync::Arc;

use serde_json::Value;
use tests::{certificate, objects, wait};

use crate::cluster::served;
use crate::harness::{Lab, Namespace};

const FOREIGN_CLASS: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: foreign}
spec: {controllerName: example.org/theirs}
";

fn gateway(name: &str, class: &str, secret: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: {name}}}\nspec:\n  gatewayClassName: {class}\n  \
         listeners:\n  - {{name: https, protocol: HTTPS, port: 443, tls: {{certificateRefs: [{secret}]}}}}\n"
    )
}

/// Gateways of `from` may name Secrets here.
fn grant(from: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\nmetadata: {{name: permit}}\nspec:\n  \
         from: [{{group: gateway.networking.k8s.io, kind: Gateway, namespace: {from}}}]\n  to: [{{group: \"\", kind: Secret}}]\n"
    )
}

/// A backend that trusts a `ConfigMap`.
const BACKEND: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: ca}
data: {ca.crt: nothing}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: Backend
metadata: {name: far}
spec:
  endpoints: [{fqdn: {hostname: far.example, port: 443}}]
  tls: {caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]}
";

/// Requests of Chancery for objects of a resource in a namespace, as (verb, stage).
fn asked(lab: &Lab, resource: &str, namespace: &str) -> Vec<(String, String)> {
    let log = std::fs::read_to_string(lab.state().join("log/audit.log")).unwrap();
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_chancery =
        events.filter(|event| event["user"]["username"] == "system:serviceaccount:chancery-system:chancery");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    // A request for all namespaces is one for this, unless it selects Chancery's own labels.
    let concerns = |event: &Value| {
        let object = &event["objectRef"];
        let is_of_all = object["namespace"].is_null() && !text(&event["requestURI"]).contains("labelSelector=");
        object["resource"] == resource && (object["namespace"] == namespace || is_of_all)
    };
    let meant = of_chancery.filter(concerns);
    meant.map(|event| (text(&event["verb"]), text(&event["stage"]))).collect()
}

/// Watches of Chancery that are open now.
fn watches(lab: &Lab, resource: &str, namespace: &str) -> isize {
    let all = asked(lab, resource, namespace);
    let at = |stage: &str| all.iter().filter(|(verb, found)| verb == "watch" && found == stage).count();
    isize::try_from(at("ResponseStarted")).unwrap() - isize::try_from(at("ResponseComplete")).unwrap()
}

/// Waits until the first listener of a Gateway says this of its references.
fn until_resolved(namespace: &Namespace, gateway: &str, reason: &str) {
    namespace.until(&format!("ResolvedRefs: {reason}"), &format!("gateway/{gateway}"), |gateway| {
        let conditions = gateway.pointer("/status/listeners/0/conditions")?.as_array()?;
        conditions.iter().any(|one| one["type"] == "ResolvedRefs" && one["reason"] == reason).then_some(())
    });
}

#[test]
fn secrets_of_others_are_not_requested() {
    let lab = served();
    let make = |name| Namespace::make_in(Arc::clone(&lab), name);
    let (ours, foreign, elsewhere) = (make("secrets-ours"), make("secrets-foreign"), make("secrets-elsewhere"));
    let pair = certificate::self_signed(&["x.example"], false).unwrap();
    let secret = |name: &str| objects::tls_secret(name, &pair.certificate, &pair.key);
    foreign.apply(FOREIGN_CLASS);
    foreign.apply(&secret("own"));
    foreign.apply(&gateway("web", "foreign", "{name: own}"));
    foreign.apply(BACKEND);
    elsewhere.apply(&secret("theirs"));
    ours.apply(&secret("own"));
    ours.apply(&gateway("web", "chancery", "{name: theirs, namespace: secrets-elsewhere}"));
    ours.apply(&gateway("fine", "chancery", "{name: own}"));
    until_resolved(&ours, "web", "RefNotPermitted");
    until_resolved(&ours, "fine", "ResolvedRefs");
    assert_ne!(asked(&lab, "secrets", "secrets-ours"), []);
    for (resource, namespace) in
        [("secrets", "secrets-foreign"), ("configmaps", "secrets-foreign"), ("secrets", "secrets-elsewhere")]
    {
        assert_eq!(asked(&lab, resource, namespace), [], "{resource} of {namespace}");
    }

    // As long as a grant lets it be named it is watched.
    elsewhere.apply(&grant("secrets-ours"));
    until_resolved(&ours, "web", "ResolvedRefs");
    assert!(watches(&lab, "secrets", "secrets-elsewhere") > 0, "each replica watches it");
    elsewhere.run(&["delete", "referencegrant", "permit"]);
    until_resolved(&ours, "web", "RefNotPermitted");
    let ended = || (watches(&lab, "secrets", "secrets-elsewhere") == 0).then_some(());
    wait::until("the watch to end with the grant", ended).unwrap();
    assert_eq!(asked(&lab, "secrets", "secrets-foreign"), []);
    assert_eq!(asked(&lab, "configmaps", "secrets-foreign"), []);
}
