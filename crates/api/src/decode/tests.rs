//! Tests of decoding.

mod chance;
mod routes;

use std::sync::Arc;

use super::{Decoded, read};
use crate::kind::Object;
use crate::problem::Severity;
use crate::yaml::documents;

/// Everything in a text.
fn all(text: &str) -> Decoded {
    let file: Arc<str> = "a.yaml".into();
    let mut out = Decoded::default();
    for document in documents(text) {
        let decoded = read(&document, &file);
        out.objects.extend(decoded.objects);
        out.problems.extend(decoded.problems);
    }
    out
}

/// The problems as lines.
fn lines(decoded: &Decoded) -> Vec<String> {
    decoded.problems.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn fine(text: &str) -> Object {
    let decoded = all(text);
    assert_eq!(lines(&decoded), [""; 0], "{text}");
    decoded.objects.first().cloned().expect("one object")
}

#[test]
fn every_object_has_its_key_and_metadata() {
    let object = fine(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: cart\n  generation: 7\n  creationTimestamp: 2026-11-21T10:04:00Z\n  uid: u\n  labels: {b: '2', a: '1'}\n  annotations:\n    kubectl.kubernetes.io/last-applied-configuration: '{}'\nspec:\n  ports:\n  - port: 80\n    targetPort: http\n",
    );
    let meta = object.meta();
    assert_eq!(meta.key.to_string(), "Service default/cart");
    assert_eq!((meta.generation, meta.uid(), meta.labels.get("a")), (7, Some("u"), Some("1")));
    assert!(
        meta.annotation("kubectl.kubernetes.io/last-applied-configuration").is_none()
            && meta.creation_timestamp().is_some()
    );
    let class = fine(
        "apiVersion: gateway.networking.k8s.io/v1beta1\nkind: GatewayClass\nmetadata: {name: c, namespace: ignored}\nspec: {controllerName: a.b/c}\n",
    );
    assert_eq!(class.key().to_string(), "GatewayClass c");
}

#[test]
fn a_list_is_unfolded() {
    let decoded = all(
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Namespace, metadata: {name: a}}\n- apiVersion: v1\n  kind: Namespace\n  metadata:\n    name: b\n    labels: {c: 1}\n",
    );
    let keys: Vec<_> = decoded.objects.iter().map(|object| object.meta().key.to_string()).collect();
    assert_eq!(keys, ["Namespace a"]);
    assert_eq!(lines(&decoded), ["a.yaml:9:17: error: Namespace b: metadata.labels.c: expected a string, found 1"]);
}

#[test]
fn unknown_fields_are_warnings_with_their_place_and_the_nearest_name() {
    let decoded = all("# top\n---\napiVersion: v1\nkind: Service\nmetadata:\n  name: a\nspec:\n  prots: []\n");
    assert_eq!(
        lines(&decoded),
        [
            "a.yaml:8:3: warning: Service default/a: spec.prots: prots is not a field here and is ignored; did you mean ports?"
        ]
    );
    assert_eq!(decoded.problems[0].snippet.as_deref(), Some("  prots: []"));
    assert_eq!(decoded.objects.len(), 1);
}

#[test]
fn fields_that_are_not_built_yet_are_named() {
    let decoded = all(
        "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: EnvoyProxy\nmetadata: {name: p}\nspec:\n  mergeGateways: true\n  concurrency: 2\n",
    );
    assert_eq!(decoded.objects.len(), 1);
    assert_eq!(
        lines(&decoded),
        [
            "a.yaml:5:3: warning: EnvoyProxy default/p: spec.mergeGateways: mergeGateways is not supported by this version and is ignored"
        ]
    );
}

#[test]
fn kinds_that_are_not_read_are_notes_and_mistyped_ones_are_errors() {
    let decoded = all(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: HttpRoute\nmetadata: {name: r}\n---\napiVersion: v1\nkind: HTTPRoute\n---\napiVersion: gateway.networking.k8s.io/v1alpha2\nkind: HTTPRoute\n---\nkind: Service\n---\n- 1\n",
    );
    assert_eq!(decoded.objects, []);
    assert_eq!(
        lines(&decoded),
        [
            "a.yaml:2:7: note: Deployment d: the kind Deployment of apps is not read",
            "a.yaml:6:7: error: HttpRoute r: kind: there is no kind HttpRoute in gateway.networking.k8s.io; did you mean HTTPRoute?",
            "a.yaml:10:7: error: kind: there is no kind HTTPRoute in the core group; write apiVersion gateway.networking.k8s.io/v1",
            "a.yaml:12:13: error: apiVersion: version v1alpha2 of HTTPRoute is not read; write gateway.networking.k8s.io/v1",
            "a.yaml:15:1: error: apiVersion: apiVersion is missing, or is no string",
            "a.yaml:17:1: error: an object is a map with apiVersion and kind, this is a list",
        ]
    );
}

#[test]
fn in_our_own_groups_there_are_no_other_kinds() {
    let told = |version: &str, kind: &str| {
        let decoded = all(&format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\n"));
        assert_eq!(decoded.objects, []);
        lines(&decoded).concat()
    };
    let cases = [
        ("chancery.io/v1alpha1", "Endpoint", "did you mean EnvoyEndpoint?"),
        ("chancery.io/v1alpha1", "RouteConfiguration", "did you mean EnvoyRoute?"),
        ("bootes.io/v1", "EnvoyListener", "did you mean Listener?"),
        ("bootes.io/v1", "ClusterLoadAssignment", "did you mean Endpoint?"),
        ("bootes.io/v1", "Secret", "there are Cluster, Listener, Route, Endpoint"),
        (
            "gateway.networking.x-k8s.io/v1alpha1",
            "XListenerSet",
            "write kind ListenerSet and apiVersion gateway.networking.k8s.io/v1",
        ),
        ("chancry.io/v1alpha1", "EnvoyEndpoint", "the group chancry.io is not read; did you mean chancery.io?"),
    ];
    for (version, kind, words) in cases {
        let told = told(version, kind);
        assert!(told.contains(": error: ") && told.contains(words), "{told}");
    }
    assert!(told("example.com/v1", "Endpoint").contains(": note: "));
}

#[test]
fn a_syntax_error_has_its_place_and_its_line() {
    let decoded = all("a: 1\n---\nb: 1\nb: 2\n");
    assert_eq!(
        lines(&decoded),
        [
            "a.yaml:1:1: error: kind: kind is missing, or is no string",
            "a.yaml:4:1: error: \"b\" occurs twice in this map"
        ]
    );
    assert_eq!(decoded.problems[1].snippet.as_deref(), Some("b: 2"));
}

#[test]
fn no_problem_shows_anything_of_a_secret() {
    for text in [
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata:\n  tls.key: \"very private\"\n",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  tls.key: 12345private\n  tls.crt: [private]\n",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata:\n  a: private\n  a: private\n",
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Secret\n  data: {a: private, a: private}\n",
        "{\"kind\": \"Secret\", \"data\": {\"a\": \"private\", \"a\": \"private\"}}",
    ] {
        let decoded = all(text);
        assert!(!decoded.problems.is_empty(), "{text}");
        assert!(!format!("{decoded:?}").contains("private"), "{decoded:?}");
    }
}

#[test]
fn a_secret_is_decoded_and_plain_text_wins() {
    let Object::Secret(secret) = fine(
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ntype: kubernetes.io/tls\ndata: {tls.crt: Zm9v, tls.key: Zm9v}\nstringData: {tls.key: bar}\n",
    ) else {
        panic!("a Secret");
    };
    assert_eq!((secret.spec.get("tls.crt"), secret.spec.get("tls.key")), (Some(&b"foo"[..]), Some(&b"bar"[..])));
    assert_eq!(secret.spec.secret_type.as_deref(), Some("kubernetes.io/tls"));
}

#[test]
fn a_bad_item_of_a_list_costs_that_item() {
    let decoded = all(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: s, labels: {kubernetes.io/service-name: x}}\naddressType: IPv4\nports:\n- {name: a, port: 80}\n- {name: b, port: 70000}\nendpoints:\n- addresses: [10.0.0.1]\n- addresses: []\n- {}\n- addresses: [10.0.0.300]\n- addresses: [\"::1\"]\n- addresses: [10.0.0.2]\n  conditions: {ready: maybe}\n",
    );
    let Some(Object::EndpointSlice(slice)) = decoded.object() else { panic!("a slice: {decoded:?}") };
    assert_eq!(slice.spec.endpoints().len(), 1);
    assert_eq!(slice.spec.ports.len(), 1);
    assert_eq!(slice.service_name(), Some("x"));
    assert_eq!(decoded.problems.len(), 6, "{:?}", lines(&decoded));
    let wrong = "a.yaml:12:15: error: EndpointSlice default/s: endpoints[3].addresses[0]: expected an IPv4 address, of which addressType is, found \"10.0.0.300\"";
    assert_eq!(decoded.problems[3].to_string(), wrong);
}

#[test]
fn addresses_of_pods_and_slices_are_those_of_one_machine() {
    let pod = |status: &str| {
        all(&format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{}}\nstatus: {{{status}}}\n"))
    };
    for (status, path) in [
        ("podIP: not-an-ip", "status.podIP"),
        ("podIP: 0.0.0.0", "status.podIP"),
        ("podIP: \"::\"", "status.podIP"),
        ("phase: running", "status.phase"),
    ] {
        let found = pod(status);
        let problem = found.problems.first().expect("a problem");
        assert_eq!((problem.path.as_str(), problem.severity), (path, Severity::Error), "{status}");
        let Some(Object::Pod(pod)) = found.object() else { panic!("a Pod: {found:?}") };
        assert!(pod.spec.address.is_none_or(|address| !address.is_unspecified()), "{status}");
    }
    assert_eq!(lines(&pod("phase: Running, podIP: \"::1\"")), [""; 0]);
    let slice = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: s}\naddressType: IPv4\nendpoints: [{addresses: [0.0.0.0]}]\n";
    let Some(Object::EndpointSlice(slice)) = all(slice).object().cloned() else { panic!("a slice") };
    assert_eq!(slice.spec.endpoints().len(), 0);
}

#[test]
fn what_would_narrow_a_selector_and_cannot_is_an_error() {
    let found = all(
        "apiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XBackend\nmetadata: {name: b}\nspec:\n  type: EndpointSelector\n  port: {number: 80}\n  endpointSelector: {matchLabels: {app: a}, matchExpressions: [{key: b, operator: Exists}]}\n",
    );
    let Some(Object::XBackend(backend)) = found.object() else { panic!("{found:?}") };
    assert!(backend.spec.fault.is_some(), "{:?}", lines(&found));
}

#[test]
fn a_spec_without_smaller_parts_fails_as_a_whole_and_its_object_knows_why() {
    let of = |kind: &str, spec: &str| {
        format!("apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: {kind}\nmetadata: {{name: a}}\nspec: {spec}\n")
    };
    let fault = |text: &str| match all(text).objects.first().expect("an object") {
        Object::Backend(found) => found.spec.fault.as_ref().map(ToString::to_string),
        Object::EnvoyProxy(found) => found.spec.fault.as_ref().map(ToString::to_string),
        Object::BackendTrafficPolicy(found) => found.spec.fault.as_ref().map(ToString::to_string),
        other => panic!("{other:?}"),
    };
    let limits = "targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: a}]";
    for (kind, spec, wanted) in [
        ("EnvoyProxy", "{concurrency: 0}", Some("spec.concurrency: 0 is not in the range 1 to 1024")),
        ("EnvoyProxy", "{concurrency: 1, extraArgs: 3}", Some("spec.extraArgs: expected a list, found 3")),
        ("EnvoyProxy", "3", Some("spec: expected a map, found 3")),
        ("EnvoyProxy", "{concurrency: 1}", None),
        ("Backend", "{}", Some("spec: a Backend of type Endpoints needs endpoints")),
        (
            "Backend",
            "{endpoints: [{unix: {path: /a}}], fallback: 1}",
            Some("spec.fallback: expected true or false, found 1"),
        ),
        ("Backend", "{endpoints: [{unix: {path: /a}}, {unix: {path: 3}}]}", None),
        (
            "BackendTrafficPolicy",
            &format!("{{{limits}, circuitBreaker: {{maxConnections: -1}}}}"),
            Some("spec.circuitBreaker.maxConnections: -1 is not in the range 0 to 4294967295"),
        ),
    ] {
        let text = of(kind, spec);
        assert_eq!(fault(&text).as_deref(), wanted, "{text}");
    }
    let many: String = (0..300).map(|at| format!("\n  x{at}: 1")).collect();
    let text = of("EnvoyProxy", &format!("{many}\n  concurrency: 0"));
    assert_eq!(all(&text).problems.len(), 102, "all but one are told up to the bound");
    assert!(fault(&text).is_some(), "however late the fault is");
    let Some(Object::EnvoyProxy(odd)) = all(&of("EnvoyProxy", "{mergeGateways: true, nonsense: 1}")).objects.pop()
    else {
        panic!("an EnvoyProxy")
    };
    let ignored: Vec<&str> = odd.spec.ignored.iter().map(|field| field.path.as_str()).collect();
    assert_eq!(ignored, ["spec.mergeGateways", "spec.nonsense"]);
}

#[test]
fn the_static_configuration_needs_no_name_and_keeps_defaults() {
    let Object::EnvoyGateway(config) = fine(
        "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: EnvoyGateway\nprovider:\n  type: Custom\n  custom:\n    resource: {type: File, file: {paths: [/tmp]}}\nenvoyProxy: {concurrency: 3}\n",
    ) else {
        panic!("a configuration");
    };
    assert_eq!(&*config.spec.gateway.controller_name, crate::envoy_gateway::DEFAULT_CONTROLLER_NAME);
    assert_eq!(config.spec.envoy_proxy.as_ref().and_then(|proxy| proxy.concurrency), Some(3));
    assert_eq!(config.spec.paths().collect::<Vec<_>>(), ["/tmp"]);
}

#[test]
fn clients_of_one_port_alone_are_asked_without_a_warning() {
    let told = |frontend: &str| {
        let text = format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: g}}\nspec:\n  gatewayClassName: c\n  listeners: [{{name: \
             l, port: 443, protocol: HTTPS, tls: {{certificateRefs: [{{name: c}}]}}}}]\n  tls: {{frontend: {{{frontend}}}}}\n"
        );
        all(&text).problems.iter().map(|problem| problem.text.to_string()).collect::<Vec<_>>()
    };
    let port =
        "perPort: [{port: 443, tls: {validation: {caCertificateRefs: [{group: '', kind: ConfigMap, name: a}]}}}]";
    assert_eq!(told(&format!("default: {{}}, {port}")), [""; 0]);
    assert_eq!(told("default: {}").len(), 1, "nobody is asked");
    assert_eq!(told("default: {}, perPort: [{port: 443, tls: {}}]").len(), 1, "nobody is asked there either");
}

#[test]
fn a_field_at_a_wrong_depth_is_sent_to_what_stands_beside_it() {
    let rule = |rule: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: r}}\nspec: {{rules: [{rule}]}}\n"
        )
    };
    let told = |text: &str| all(text).problems.iter().map(|problem| problem.text.to_string()).collect::<Vec<_>>();
    let outdented = told(&rule("{backendRefs: [{name: a, port: 1}, {name: b}], port: 80}"));
    assert!(
        outdented.iter().any(|text| text.ends_with("; it belongs in spec.rules[].backendRefs[].port")),
        "{outdented:?}"
    );
    assert!(!outdented.iter().any(|text| text.contains("more would be taken")), "{outdented:?}");
    let outdented =
        told("apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{name: web}], targetPort: 80}\n");
    assert!(outdented.iter().any(|text| text.ends_with("; it belongs in spec.ports[].targetPort")), "{outdented:?}");
    let top =
        told("apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {type: ClusterIP}\nports: [{port: 80}]\n");
    assert!(
        top.iter().any(|text| text == "ports is not a field here and is ignored; it belongs in spec.ports"),
        "{top:?}"
    );
    // Where nothing lacks it that is no remedy.
    let twice = told(&rule("{backendRefs: [{name: a, port: 1, weight: 1}], weight: 1}"));
    assert!(!twice.iter().any(|text| text.contains("belongs")), "{twice:?}");
}

#[test]
fn many_problems_are_bounded() {
    let with = |count: u32| {
        let fields: String = (0..count).map(|number| format!("  field{number}: 1\n")).collect();
        all(&format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: n}}\nspec:\n{fields}"))
    };
    let decoded = with(1_000);
    assert_eq!((decoded.objects.len(), decoded.problems.len()), (1, 101));
    assert!(decoded.problems[100].text.ends_with("(and there are more problems)"));
    assert!(decoded.problems.iter().all(|problem| problem.severity == Severity::Warning));
    let decoded = with(10_000);
    assert_eq!((decoded.objects.len(), decoded.problems.len()), (0, 102));
    assert!(decoded.problems[101].text.starts_with("more than 1000 fields of this object are not in the API"));
}

#[test]
fn an_object_without_a_name_is_told_and_so_is_a_list_without_items() {
    let told = |text: &str| {
        let decoded = all(text);
        assert!(decoded.objects.is_empty());
        decoded.problems.iter().filter(|problem| problem.severity == Severity::Error).count()
    };
    let service = |metadata: &str| {
        format!("apiVersion: v1\nkind: Service\nmetadata: {metadata}\nspec: {{ports: [{{port: 80}}]}}\n")
    };
    for metadata in ["{nmae: a}", "{}", "{name: null}", "{generateName: a-}", "{name: [a]}", "null"] {
        assert_eq!(told(&service(metadata)), 1, "{metadata}");
    }
    for items in ["itmes: []", "items: {}", "items: a", ""] {
        assert_eq!(told(&format!("apiVersion: v1\nkind: List\n{items}\n")), 1, "{items}");
    }
    assert_eq!(told("apiVersion: v1\nkind: List\nitems: []\n"), 0);
}

#[test]
fn items_of_a_list_of_one_kind_are_of_it_unless_they_say_another() {
    let text = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRouteList\nmetadata: {resourceVersion: '12'}\nitems:\n- metadata: {name: one}\n  \
                spec: {parentRefs: [{name: edge}]}\n- apiVersion: gateway.networking.k8s.io/v1\n  kind: GRPCRoute\n  metadata: {name: two}\n  spec: {parentRefs: [{name: edge}]}\n- spec: {}\n";
    let decoded = all(text);
    let problems = lines(&decoded);
    let keys: Vec<String> = decoded.objects.iter().map(|object| object.meta().key.to_string()).collect();
    assert_eq!(keys, ["HTTPRoute default/one", "GRPCRoute default/two"], "{problems:?}");
    assert!(problems.iter().any(|problem| problem.contains("metadata with the name is missing")), "{problems:?}");
    let none = all("apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayList\nitems: 7\n");
    assert!(
        none.objects.is_empty() && none.problems[0].text.contains("has its objects in items"),
        "{:?}",
        none.problems
    );
}

#[test]
fn renamed_field_of_a_backend_tls_policy_is_named_by_its_new_name() {
    let target = "targetRefs: [{group: \"\", kind: Service, name: web}]";
    let head = "apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata: {name: b}\n";
    let problems_of = |fields: &str| lines(&all(&format!("{head}spec: {{{target}, {fields}}}\n")));
    for (fields, new) in [
        ("tls: {hostname: a.example}", "tls is not a field here and is ignored; it is validation now"),
        ("validation: {hostname: a.example, wellKnownCACerts: System}", "wellKnownCACertificates"),
        ("validation: {hostname: a.example, caCertRefs: []}", "caCertificateRefs"),
    ] {
        let found = problems_of(fields);
        assert!(found.iter().any(|line| line.contains(new) && line.contains("is not a field here")), "{found:?}");
    }
}

#[test]
fn earlier_fields_of_sessions_are_read_as_those_of_today() {
    let session = |fields: &str| {
        let head = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\nspec:\n  parentRefs: [{name: g}]\n  rules:\n";
        let decoded = all(&format!("{head}  - sessionPersistence: {fields}\n"));
        let Some(Object::HttpRoute(route)) = decoded.objects.first() else { panic!("{:?}", lines(&decoded)) };
        let persistence = route.spec.rules.first().and_then(|rule| rule.session_persistence.clone());
        (persistence.map(|found| *found), lines(&decoded))
    };
    let same = [
        ("{sessionName: a}", "{cookie: {name: a}}", 1),
        (
            "{absoluteTimeout: 1h, type: Cookie, cookieConfig: {lifetimeType: Permanent}, sessionName: a}",
            "{absoluteTimeout: 1h, type: Cookie, cookie: {name: a, lifetimeType: Permanent}}",
            2,
        ),
        ("{sessionName: x-a, type: Header, header: null}", "{type: Header, header: {name: x-a}}", 1),
        // What is written for today counts, and what is written wrong is no setting.
        ("{sessionName: a, cookie: {name: b}}", "{cookie: {name: b}}", 1),
    ];
    for (earlier, today, warnings) in same {
        let ((old, found), (new, none)) = (session(earlier), session(today));
        assert_eq!((old, none), (new, Vec::new()), "{earlier}: {found:?}");
        assert_eq!(found.len(), warnings, "{found:?}");
    }
    let (_, found) = session("{sessionName: a, cookieConfig: {lifetimeType: Session}}");
    let path = "HTTPRoute default/r: spec.rules[0].sessionPersistence";
    let expected = [
        format!(
            "a.yaml:7:26: warning: {path}.sessionName: sessionName is cookie.name now, and is read as that: write cookie.name"
        ),
        format!(
            "a.yaml:7:42: warning: {path}.cookieConfig: cookieConfig is cookie now, and is read as that: write cookie"
        ),
    ];
    assert_eq!(found, expected);
    for wrong in
        ["{cookieConfig: 5}", "{type: 5, sessionName: a}", "{type: Header, cookieConfig: {}}", "{sessionName: {}}"]
    {
        let (_, found) = session(wrong);
        assert!(found.iter().any(|line| line.contains(": error: ")), "{wrong}: {found:?}");
    }
}
