//! Tests of what is kept of policies.

use std::sync::Arc;

use super::PolicyAttachment;
use crate::decode::{Decoded, read};
use crate::problem::Severity;
use crate::yaml::documents;

/// A policy of a kind with this spec.
fn decoded(kind: &str, spec: &str) -> Decoded {
    let text = format!(
        "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: {kind}\nmetadata: {{name: p, labels: {{a: b}}}}\nspec: {spec}\n"
    );
    let file: Arc<str> = "a.yaml".into();
    read(&documents(&text).next().expect("a document"), &file)
}

fn attachment(kind: &str, spec: &str) -> PolicyAttachment {
    let decoded = decoded(kind, spec);
    let object = decoded.object().unwrap_or_else(|| panic!("{kind} {spec}: {:?}", decoded.problems));
    object.attachment().expect("a policy")
}

fn guards(kind: &str, spec: &str) -> Vec<String> {
    let found = attachment(kind, &format!("{{targetRefs: [{TARGET}], {spec}}}"));
    assert_eq!(found.fault, None, "{kind} {spec}");
    found.guards.iter().map(ToString::to_string).collect()
}

const TARGET: &str = "{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}";

#[test]
fn fields_that_guard_are_named_and_others_are_not() {
    let none: [&str; 0] = [];
    for (kind, spec, wanted) in [
        ("SecurityPolicy", "jwt: {providers: []}, authorization: {}", &["spec.jwt", "spec.authorization"][..]),
        ("SecurityPolicy", "mergeType: StrategicMerge", &none),
        ("SecurityPolicy", "authorization: null", &none),
        ("SecurityPolicy", "newGuard: 1", &["spec.newGuard"]),
        ("EnvoyExtensionPolicy", "lua: [], somethingNew: {}", &["spec.lua", "spec.somethingNew"]),
        ("ClientTrafficPolicy", "tcpKeepalive: {}, http3: {}, connection: {bufferLimit: 1Mi}", &none),
        ("ClientTrafficPolicy", "tls: {alpnProtocols: [h2]}, headers: {requestID: Disable}", &none),
        (
            "ClientTrafficPolicy",
            "tls: {clientValidation: {}, minVersion: '1.3'}",
            &["spec.tls.clientValidation", "spec.tls.minVersion"],
        ),
        (
            "ClientTrafficPolicy",
            "tls: {maxVersion: '1.3', ciphers: [], ecdhCurves: [], signatureAlgorithms: []}",
            &["spec.tls.maxVersion", "spec.tls.ciphers", "spec.tls.ecdhCurves", "spec.tls.signatureAlgorithms"],
        ),
        (
            "ClientTrafficPolicy",
            "clientIPDetection: {}, path: {}, proxyProtocol: {}, enableProxyProtocol: false",
            &["spec.clientIPDetection", "spec.path", "spec.proxyProtocol", "spec.enableProxyProtocol"],
        ),
        ("ClientTrafficPolicy", "connection: {connectionLimit: {value: 1}}", &["spec.connection.connectionLimit"]),
        (
            "ClientTrafficPolicy",
            "headers: {earlyRequestHeaders: {}, xForwardedClientCert: {}}",
            &["spec.headers.earlyRequestHeaders", "spec.headers.xForwardedClientCert"],
        ),
        (
            "BackendTrafficPolicy",
            "rateLimit: {}, requestBuffer: {}, proxyProtocol: {}, retry: {}",
            &["spec.rateLimit", "spec.requestBuffer", "spec.proxyProtocol"],
        ),
    ] {
        assert_eq!(guards(kind, spec), wanted, "{kind} {spec}");
    }
}

#[test]
fn misspelt_guards_are_faults() {
    for (kind, spec) in [
        ("ClientTrafficPolicy", "clientIPDetecton: {}"),
        ("ClientTrafficPolicy", "clientValidation: {}"),
        ("ClientTrafficPolicy", "tls: []"),
        ("BackendTrafficPolicy", "ratelimit: {}"),
        ("BackendTrafficPolicy", "requestBuffers: {}"),
    ] {
        let found = attachment(kind, &format!("{{targetRefs: [{TARGET}], {spec}}}"));
        assert!(found.fault.is_some(), "{kind} {spec}");
        assert_eq!(&*found.target_refs[0].name, "r", "{kind} {spec}");
    }
}

#[test]
fn faults_of_fields_that_do_not_guard_are_harmless() {
    let spec = format!("{{targetRefs: [{TARGET}], circuitBreaker: {{maxConnections: -1}}}}");
    assert_eq!(attachment("BackendTrafficPolicy", &spec).fault, None);
}

#[test]
fn targets_are_read_however_they_are_written() {
    for (spec, name, section) in [
        ("targetRefs: [{kind: HTTPRoute, name: r, sectionName: one}]", "r", Some("one")),
        ("targetRefs: {group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}", "r", None),
        ("targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: 5}]", "5", None),
        ("targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r, sectionName: [x]}]", "r", None),
        ("targetRef: {kind: HTTPRoute, name: r}", "r", None),
    ] {
        let found = attachment("SecurityPolicy", &format!("{{{spec}, jwt: {{}}}}"));
        let target = found.targets().next().expect(spec);
        assert_eq!(
            (&*target.kind, &*target.name, target.section_name.as_deref()),
            ("HTTPRoute", name, section),
            "{spec}"
        );
        assert!(found.fault.is_some() || !found.target_faults.is_empty(), "{spec}");
        assert_eq!(found.guards.len(), 1, "{spec}");
    }
}

#[test]
fn selectors_are_read_with_their_namespaces() {
    let spec = "{targetSelectors: [{kind: HTTPRoute, matchLabels: {team: a}, namespaces: {from: All}}], jwt: {}}";
    let found = attachment("SecurityPolicy", spec);
    let [selector] = &*found.target_selectors else { panic!("{found:?}") };
    assert_eq!((&*selector.group, selector.labels.match_labels.get("team")), ("gateway.networking.k8s.io", Some("a")));
    assert_eq!(selector.namespaces.as_ref().map(|namespaces| namespaces.from.as_str()), Some("All"));
    assert_eq!(found.fault, None);
}

#[test]
fn unread_kinds_of_gateway_groups_are_warnings() {
    let decoded = decoded("HTTPRouteFilter", "{directResponse: {}}");
    let [problem] = &*decoded.problems else { panic!("{:?}", decoded.problems) };
    assert_eq!(problem.severity, Severity::Warning);
    assert!(problem.text.contains("the kind HTTPRouteFilter of gateway.envoyproxy.io is not read"), "{problem}");
}
