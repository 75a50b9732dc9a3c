//! Tests of what is kept of policies.

use std::sync::Arc;

use super::PolicyAttachment;
use crate::decode::{Decoded, read};
use crate::kind::Object;
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

/// Returns the remnant of a text whose only object is a policy that cannot be used.
fn remnant(text: &str) -> (Object, PolicyAttachment) {
    let file: Arc<str> = "a.yaml".into();
    let decoded = read(&documents(text).next().expect("a document"), &file);
    let [object] = &*decoded.objects else { panic!("{text}: {decoded:?}") };
    assert!(object.is_remnant() && object.is_guard(), "{text}: {decoded:?}");
    assert!(decoded.problems.iter().any(|problem| problem.severity == Severity::Error), "{text}: {decoded:?}");
    (object.clone(), object.attachment().expect("a policy"))
}

const SPEC: &str = "spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}], jwt: {}}";

#[test]
fn policies_that_cannot_be_used_leave_their_targets() {
    for (head, key) in [
        (
            "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: SecurityPolicy\nmetadata: {name: p, labels: {a: 1}}",
            "default/p",
        ),
        (
            "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: SecurityPolicy\nmetadata: {name: p, namespace: x, generation: a}",
            "x/p",
        ),
        (
            "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: SecurityPolicy\nmetadata: {name: p, namespace: Prod}",
            "prod/p",
        ),
        (
            "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: SecurityPolicy\nmetadata: {name: 12, namespace: [a]}",
            "default/12",
        ),
        ("apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: SecurityPolicy\nmetadata: {}", "default/(no name)"),
        ("apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: SecurityPolicy", "default/(no name)"),
        ("apiVersion: gateway.envoyproxy.io/v1\nkind: SecurityPolicy\nmetadata: {name: p}", "default/p"),
        ("apiVersion: Gateway.EnvoyProxy.io/v1\nkind: SecurityPolicy\nmetadata: {name: p}", "default/p"),
        ("apiVersion: gateway.envoyproxi.io/v1alpha1\nkind: SecurityPolicy\nmetadata: {name: p}", "default/p"),
        ("apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: securitypolicy\nmetadata: {name: p}", "default/p"),
        ("apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: SecurityPolcy\nmetadata: {name: p}", "default/p"),
        ("kind: SecurityPolicy\nmetadata: {name: p}", "default/p"),
        (
            "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: SecurityPolicy\nmetadata: {name: p}\nmetadata: {name: q}",
            "default/p",
        ),
        ("apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: SecurityPolicy\nmetadata: !mine {name: p}", "default/p"),
        ("apiVersion: v1\nkind: Service\nmetadata: {name: p}\nkind: SecurityPolicy", "default/p"),
    ] {
        let (object, found) = remnant(&format!("{head}\n{SPEC}\n"));
        assert_eq!(object.key().to_string(), format!("SecurityPolicy {key}"), "{head}");
        let [target] = &*found.target_refs else { panic!("{head}: {found:?}") };
        assert_eq!((&*target.kind, &*target.name, found.for_all), ("HTTPRoute", "r", false), "{head}");
        assert_eq!(found.guards.len(), 1, "{head}: {found:?}");
    }
}

#[test]
fn items_of_misspelt_lists_of_policies_are_remnants() {
    let item = format!("- metadata: {{name: p}}\n  {SPEC}\n- metadata: {{name: q}}\n  {SPEC}\n");
    for kind in ["Securitypolicylist", "securitypolicylist"] {
        let text = format!(
            "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: {kind}\nmetadata: {{resourceVersion: '1'}}\nitems:\n{item}"
        );
        let file: Arc<str> = "a.yaml".into();
        let decoded = read(&documents(&text).next().expect("a document"), &file);
        let keys: Vec<String> = decoded.objects.iter().map(|object| object.key().to_string()).collect();
        assert_eq!(keys, ["SecurityPolicy default/p", "SecurityPolicy default/q"]);
        assert!(decoded.objects.iter().all(Object::is_remnant));
        let errors = decoded.problems.iter().filter(|problem| problem.severity == Severity::Error);
        let of: Vec<String> =
            errors.map(|problem| problem.object.as_ref().map(ToString::to_string).unwrap_or_default()).collect();
        assert_eq!(of, keys);
    }
}

#[test]
fn targets_that_cannot_be_read_are_for_everything() {
    for (spec, for_all, further) in [
        ("{targetRefs: one, jwt: {}}", true, 0),
        ("{targetRefs: [one], jwt: {}}", true, 0),
        ("{targetRefs: [{}], jwt: {}}", true, 0),
        ("{jwt: {}}", true, 0),
        ("[]", true, 0),
        ("{targetSelectors: [{matchLabels: {a: b}}], jwt: {}}", true, 0),
        ("{targetrefs: [{kind: HTTPRoute, name: r}], jwt: {}}", false, 1),
        (
            "{target: [{kind: HTTPRoute, name: r}], targetRef: {kind: HTTPRoute, name: s}, targetsRef: [{kind: HTTPRoute, name: t}]}",
            false,
            2,
        ),
        ("{targetRefs: [{name: r}], jwt: {}}", false, 0),
        ("{targetRefs: [{kind: HTTPRoute}], jwt: {}}", false, 0),
        ("[{targetRefs: [{kind: HTTPRoute, name: r}], jwt: {}}]", false, 0),
    ] {
        let found = attachment("SecurityPolicy", spec);
        assert_eq!((found.for_all, found.further.len()), (for_all, further), "{spec}: {found:?}");
        assert!(found.remnant || spec.starts_with('['), "{spec}: {found:?}");
    }
    let many = vec!["{kind: HTTPRoute, name: r}"; 100].join(", ");
    let found = attachment("SecurityPolicy", &format!("{{targetRefs: [{many}], jwt: {{}}}}"));
    assert!(found.for_all && found.target_refs.len() == 64, "{found:?}");
    // Those of misspelt fields count, too.
    let few = vec!["{kind: HTTPRoute, name: r}"; 30].join(", ");
    let found = attachment(
        "SecurityPolicy",
        &format!("{{targetrefs: [{few}], TargetRefs: [{few}], targetRefs: [{few}], jwt: {{}}}}"),
    );
    assert_eq!((found.for_all, found.further.len(), found.target_refs.len()), (true, 60, 4), "{found:?}");
}

#[test]
fn selectors_that_cannot_be_read_select_all_of_their_kind() {
    for spec in [
        "{targetSelectors: {kind: HTTPRoute, matchLabels: {a: b}}, jwt: {}}",
        "{targetSelectors: [{kind: HTTPRoute, matchExpressions: [{key: a, operator: NotExist}]}], jwt: {}}",
        "{targetSelectors: [{kind: HTTPRoute, matchLabels: {a: 1}}], jwt: {}}",
        "{targetSelectors: [{kind: HTTPRoute, matchlabels: {a: b}}], jwt: {}}",
    ] {
        let found = attachment("SecurityPolicy", spec);
        let [selector] = &*found.target_selectors else { panic!("{spec}: {found:?}") };
        assert_eq!(&*selector.kind, "HTTPRoute", "{spec}");
        let reads = spec.contains("targetSelectors: {");
        assert_eq!(selector.labels.match_labels.is_empty(), !reads, "{spec}: {found:?}");
        assert!(!found.for_all && selector.labels.match_expressions.is_empty(), "{spec}: {found:?}");
    }
}

#[test]
fn policies_that_guard_nothing_and_cannot_be_used_are_not_read() {
    for text in [
        "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: BackendTrafficPolicy\nmetadata: {name: p, labels: {a: 1}}\nspec: {targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}], retry: {}}\n",
        "apiVersion: v1\nkind: Service\nmetadata: {name: p, labels: {a: 1}}\n",
        "kind: Service: x\n",
    ] {
        let file: Arc<str> = "a.yaml".into();
        let decoded = read(&documents(text).next().expect("a document"), &file);
        assert_eq!(decoded.objects, [], "{text}");
    }
    assert!(!attachment("SecurityPolicy", "{}").for_all);
}

#[test]
fn an_api_server_may_store_what_cannot_be_used() {
    for (text, for_all) in [
        (
            r#"{"metadata": {"name": "p", "namespace": "x", "labels": {"a": 1}}, "spec": {"targetRefs": [{"kind": "HTTPRoute", "name": "r"}], "jwt": {}}}"#,
            false,
        ),
        (r#"{"metadata": {"name": "p", "namespace": "x"}, "spec": {"targetRefs": "r", "jwt": {}}}"#, true),
        (r#"{"metadata": {"name": "p", "namespace": "x"}, "spec": "r"}"#, true),
    ] {
        let decoded = crate::json::read(crate::Kind::SecurityPolicy, text).expect("JSON");
        let [object] = &*decoded.objects else { panic!("{text}: {decoded:?}") };
        let found = object.attachment().expect("a policy");
        assert!(found.remnant && found.fault.is_some() && found.for_all == for_all, "{text}: {found:?}");
        assert_eq!(object.key().to_string(), "SecurityPolicy x/p");
    }
}

#[test]
fn two_texts_unite_targets_and_guards() {
    let object = |kind: &str, spec: &str| decoded(kind, spec).object().cloned().expect("a policy");
    let spec = |name: &str, field: &str| {
        format!("{{targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {name}}}], {field}: {{}}}}")
    };
    let one = object("BackendTrafficPolicy", &spec("r", "retry"));
    let two = object("BackendTrafficPolicy", &spec("s", "rateLimit"));
    let fault = || "written twice".to_owned();
    assert_eq!(two.united(&one, fault), None, "the other one guards nothing");
    let united = one.united(&two, fault).expect("it guards").attachment().expect("a policy");
    assert_eq!((&*united.further[0].name, united.guards.len(), united.fault.is_some()), ("s", 1, true));
    let same = object("BackendTrafficPolicy", &spec("r", "rateLimit"));
    assert_eq!(same.united(&same, fault), None);
    assert!(one.united(&same, fault).is_some(), "the first one does not guard");
}
