//! What is said of mistakes that newcomers make: each is told where it is, with what follows and what to write instead.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use tests::binary;
use tests::objects::{gateway, ruled};
use tests::told::pointed;

const SERVICE: &str = "\
---
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: far
spec:
  ports:
  - port: 80
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: web-1
  namespace: far
  labels:
    kubernetes.io/service-name: web
addressType: IPv4
ports:
- port: 8000
endpoints:
- addresses: [127.0.0.1]
";

/// A route to a Service of another namespace, and leave for it.
fn granted(from: &str, to: &str) -> String {
    let rules = "  rules:\n  - backendRefs:\n    - {name: web, namespace: far, port: 80}\n";
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\nmetadata:\n  name: g\n  namespace: far\nspec:\n  \
         from:\n  - {{{from}, namespace: default}}\n  to:\n  - {{{to}}}\n---\n{}{}{SERVICE}",
        edge(),
        ruled("shop", rules)
    )
}

/// A Gateway, to be followed by something.
fn edge() -> String {
    gateway(8080) + "---\n"
}

const FROM: &str = "group: gateway.networking.k8s.io, kind: HTTPRoute";
const TO: &str = "group: \"\", kind: Service";

const NOT_PERMITTED: &str = "32:7 error: Service far/web is in another namespace and no ReferenceGrant there allows it; add a \
                             ReferenceGrant in namespace far that allows HTTPRoute of default to Service";

#[test]
fn words_of_a_grant_that_no_reference_has_are_told_at_the_grant() {
    assert_eq!(pointed(&granted(FROM, TO)).unwrap(), [""; 0]);
    let found = pointed(&granted("group: gateway.networking.k8s.io, kind: HttpRoute", "group: core, kind: service"));
    let [from, group, kind, error] = &found.unwrap()[..] else { panic!("four") };
    assert_eq!(from, "8:46 warning: this allows nothing: no reference is of kind HttpRoute; did you mean HTTPRoute?");
    assert_eq!(group, "10:13 warning: this allows nothing: the core group is written as \"\"");
    assert_eq!(kind, "10:25 warning: this allows nothing: no reference is of kind service; did you mean Service?");
    assert_eq!(error, NOT_PERMITTED);
}

#[test]
fn a_known_kind_of_a_grant_with_another_known_group_is_told_and_foreign_ones_are_not() {
    let group = "group: gateway.networking.k8.io, kind: HTTPRoute";
    let told = "8:13 warning: this allows nothing: HTTPRoute is of group gateway.networking.k8s.io";
    assert_eq!(pointed(&granted(group, TO)).unwrap(), [told, NOT_PERMITTED]);
    let to = "10:13 warning: this allows nothing: Service is of the core group, which is written as \"\"";
    let found = pointed(&granted(FROM, "group: gateway.networking.k8s.io, kind: Service"));
    assert_eq!(found.unwrap(), [to, NOT_PERMITTED]);
    for from in ["group: networking.istio.io, kind: Gateways", "group: gateway.networking.x-k8s.io, kind: XListenerSet"]
    {
        assert_eq!(pointed(&granted(from, TO)).unwrap(), [NOT_PERMITTED], "{from}");
    }
    for to in ["group: serving.knative.dev, kind: Service", "group: \"\", kind: Pod"] {
        assert_eq!(pointed(&granted(FROM, to)).unwrap(), [NOT_PERMITTED], "{to}");
    }
}

#[test]
fn a_misspelt_field_in_place_of_one_that_is_missing_costs_the_match() {
    let told = |matched: &str| {
        let rules = format!(
            "  rules:\n  - matches:\n    - {matched}\n    filters: [{{type: RequestRedirect, requestRedirect: {{scheme: https}}}}]\n"
        );
        pointed(&(edge() + &ruled("shop", &rules))).unwrap()
    };
    let lost = "20:5 warning: no match of this rule can be used, it takes no request";
    let takes_none = |word: &str, place: &str, near: &str| {
        format!("{place} error: {word} is missing: this match takes no request{near}")
    };
    for (matched, place, missing, near) in [
        (
            "path: {type: PathPrefix, valeu: /cart}",
            "21:32",
            "valeu is not a field here and value",
            "; did you mean value?",
        ),
        ("path: {prefix: /cart}", "21:14", "prefix is not a field here and value", ""),
        ("path: {tpye: Exact, value: /cart}", "21:14", "tpye is not a field here and type", "; did you mean type?"),
        ("{pth: {value: /cart}}", "21:8", "pth is not a field here and path", "; did you mean path?"),
        ("{metod: GET}", "21:8", "metod is not a field here and method", "; did you mean method?"),
        ("uri: /cart", "21:7", "uri is not a field here and path", ""),
    ] {
        assert_eq!(told(matched), [takes_none(missing, place, near), lost.to_owned()], "{matched}");
    }
    // Beside what is written, an unknown field may be meant to narrow further.
    let unread = "21:28 error: comment is not a field here: without it more would be taken than is meant";
    assert_eq!(told("path: {value: /cart, comment: x}"), [unread, lost]);
}

#[test]
fn a_misspelt_field_that_narrows_or_guards_costs_what_it_stands_in() {
    let rule = "  - matches: [{path: {value: /cart}}]\n    backendRefs: [{name: web, namespace: far, port: 80}]\n";
    let redirect = "    filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]\n";
    let told = |spec: &str, from: &str, to: &str| {
        let text = granted(FROM, TO).replace(BACKEND, spec).replacen(from, to, 1);
        assert!(text.contains(to), "{to}");
        pointed(&text).unwrap()
    };
    let meant = |place: &str, word: &str, near: &str, follows: &str| {
        format!("{place} error: {word} is not a field here and {near} is missing: {follows}; did you mean {near}?")
    };
    let other = "without it this would mean something else";
    let ruled = format!("  rules:\n{rule}");
    let none = "this rule takes no request";
    let lost = "31:5 warning: no match of this rule can be used, it takes no request".to_owned();
    assert_eq!(told(&ruled, "matches:", "matchs:"), [meant("31:5", "matchs", "matches", none), lost.clone()]);
    assert_eq!(told(&ruled, "matches:", "match:"), [meant("31:5", "match", "matches", none), lost]);
    let hosts = format!("  hostnames: [a.example]\n{ruled}");
    assert_eq!(told(&hosts, "hostnames:", "hostname:"), [meant("30:3", "hostname", "hostnames", other)]);
    let redirects = format!("  rules:\n  - matches: [{{path: {{value: /cart}}}}]\n{redirect}");
    assert_eq!(told(&redirects, "    filters:", "    filter:"), [meant("32:5", "filter", "filters", other) + FAILS]);
    let removes =
        format!("{ruled}    filters: [{{type: RequestHeaderModifier, requestHeaderModifier: {{remove: [x-a]}}}}]\n");
    assert_eq!(told(&removes, "{remove:", "{remov:"), [meant("33:69", "remov", "remove", other) + FAILS]);
    let section = told(&ruled, "  - name: edge\n  rules", "  - {name: edge, sectionNam: http}\n  rules");
    assert_eq!(section[0], meant("29:18", "sectionNam", "sectionName", other));
    let grant = told(&ruled, "kind: Service}", "kind: Service, nam: other}");
    assert_eq!(grant[0], meant("10:32", "nam", "name", other));
    // What is near nothing, or beside what it could have been, stays a warning.
    let ignored = |place: &str, word: &str, near: &str| {
        [format!("{place} warning: {word} is not a field here and is ignored{near}")]
    };
    assert_eq!(told(&ruled, "  - matches:", "  - comment: x\n    matches:"), ignored("31:5", "comment", ""));
    let beside = told(&ruled, "  - matches:", "  - matchs: []\n    matches:");
    assert_eq!(beside, ignored("31:5", "matchs", "; did you mean matches?"));
}

const CLASS: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata:
  name: chancery
spec:
  controllerName: gateway.envoyproxy.io/gatewayclass-controller
---
";

#[test]
fn a_class_whose_controller_is_nearly_ours_is_told_and_so_are_its_gateways() {
    assert_eq!(pointed(&(CLASS.to_owned() + &edge())).unwrap(), [""; 0]);
    let misspelt = CLASS.replace("gatewayclass-controller", "gatewayclas-controller");
    let theirs = "gateway.envoyproxy.io/gatewayclas-controller";
    let near = format!(
        "6:19 warning: {theirs} is not this controller, so Gateways of this class are not served; did you mean \
         gateway.envoyproxy.io/gatewayclass-controller?"
    );
    let gateway = format!(
        "13:21 warning: GatewayClass chancery belongs to {theirs}, so this Gateway is not served; here a class with \
         controllerName gateway.envoyproxy.io/gatewayclass-controller is"
    );
    assert_eq!(pointed(&(misspelt + &edge())).unwrap(), [near, gateway]);
    // Where some class is ours the others are meant to be of others.
    let other = CLASS.replace("name: chancery", "name: other").replace("gateway.envoyproxy.io", "example.com");
    let theirs = edge().replace("gatewayClassName: chancery", "gatewayClassName: other");
    assert_eq!(pointed(&format!("{CLASS}{other}{theirs}")).unwrap(), [""; 0]);
}

const BACKEND: &str = "  rules:\n  - backendRefs:\n    - {name: web, namespace: far, port: 80}\n";

/// With leave for the route to the Service of another namespace: all is well but for what is replaced.
fn with(from: &str, to: &str) -> Vec<String> {
    let text = granted(FROM, TO);
    assert!(text.contains(from), "{from}");
    pointed(&text.replacen(from, to, 1)).unwrap()
}

#[test]
fn values_of_the_wrong_type_are_told_once_with_what_to_write() {
    assert_eq!(
        with("port: 80}", "port: \"80\"}"),
        ["32:41 error: expected an integer, found \"80\"; remove the quotes (requests get 500)"]
    );
    let timeouts = BACKEND.replace("  - backendRefs", "  - timeouts: {request: 10}\n    backendRefs");
    assert_eq!(with(BACKEND, &timeouts), ["31:25 error: expected a string, found 10; write 10s (requests get 500)"]);
    let hostnames = format!("  hostnames: a.example\n{BACKEND}");
    let wanted = "30:14 error: expected a list, found \"a.example\"; write [\"a.example\"]";
    assert_eq!(with(BACKEND, &hostnames), [wanted]);
    let matches = BACKEND.replace("  - backendRefs", "  - matches: {path: {value: /a}}\n    backendRefs");
    let found = with(BACKEND, &matches);
    assert!(found[0].ends_with("error: expected a list, found a map; put it into a list"), "{found:#?}");
    let backend = "apiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XBackend\nmetadata:\n  name: far\nspec:\n  \
                   type: ExternalHostname\n  externalHostname: {hostname: a.example}\n  port: 443\n";
    let found = pointed(backend).unwrap();
    let wanted = "8:9 error: expected a map, found 443; write {number: 443}";
    assert!(found.contains(&wanted.to_owned()), "{found:#?}");
}

#[test]
fn a_group_that_is_missing_is_named() {
    let found = with("{group: \"\", kind: Service", "{kind: Service");
    assert!(found.iter().any(|line| line.ends_with("error: group is missing; of a Service it is \"\"")), "{found:#?}");
}

#[test]
fn an_unknown_filter_is_told_with_those_that_are_supported() {
    let filters = BACKEND.replace("  - backendRefs", "  - filters: [{type: Compression}]\n    backendRefs");
    assert_eq!(
        with(BACKEND, &filters),
        ["31:22 error: \"Compression\" is not one of RequestHeaderModifier, ResponseHeaderModifier, RequestMirror, \
             RequestRedirect, URLRewrite, CORS, ExternalAuth (requests get 500)"]
    );
}

#[test]
fn a_border_between_documents_that_is_missing_and_marks_of_a_merge_are_named() {
    let missing = with("---\n", "");
    assert_eq!(
        missing[..1],
        ["11:1 error: \"apiVersion\" occurs twice in this map; is a line with --- missing before it?"]
    );
    let told =
        |word: &str| format!("{word} is a conflict marker of git: keep one of the two versions and remove the markers");
    for (marker, word) in [("<<<<<<< HEAD", "<<<<<<<"), ("=======", "======="), (">>>>>>> theirs", ">>>>>>>")] {
        let text = edge().replace("  listeners:\n", &format!("{marker}\n  listeners:\n"));
        assert_eq!(pointed(&text).unwrap(), [format!("7:1 error: {}", told(word))], "{marker}");
    }
}

#[test]
fn an_object_without_a_name_is_told_that_the_name_is_missing() {
    let told = "metadata.name is missing: without a name this object is not read";
    assert_eq!(pointed(&edge().replace("  name: edge\n", "")).unwrap(), [format!("3:1 error: {told}")]);
    let labels = pointed(&edge().replace("  name: edge\n", "  labels: {}\n"));
    assert_eq!(labels.unwrap(), [format!("4:3 error: {told}")]);
}

#[test]
fn faults_of_matches_and_ports_are_told_at_the_value() {
    let matches =
        |matched: &str| with(BACKEND, &BACKEND.replace("- back", &format!("- matches: [{{{matched}}}]\n    back")));
    for (matched, place) in [
        ("path: {type: RegularExpression, value: \"/a(\"}", "31:55"),
        ("headers: [{type: RegularExpression, name: a, value: \"(\"}]", "31:68"),
        ("path: {value: cart}", "31:30"),
    ] {
        let told = matches(matched);
        assert!(told.iter().any(|told| told.starts_with(&format!("{place} error: "))), "{matched}: {told:?}");
    }
    assert_eq!(with("port: 80}", "port: 81}"), ["32:41 error: Service far/web has no port 81; it has 80"]);
}

#[test]
fn a_bad_key_is_told_at_its_secret_and_at_the_gateway() {
    let tls = "protocol: HTTPS\n    tls: {certificateRefs: [{name: cert}]}\n";
    let secret = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: cert\nstringData:\n  tls.crt: x\n  tls.key: y\n";
    let found = pointed(&(edge().replace("protocol: HTTP\n", tls) + secret)).unwrap();
    let wrong = "tls.crt: it holds no certificate in PEM";
    assert_eq!(found, [format!("10:36 error: Secret default/cert: {wrong}"), format!("16:9 error: {wrong}")]);
}

#[test]
fn what_translation_finds_in_standard_input_has_its_place_too() {
    let bad = "apiVersion: bootes.io/v1\nkind: Cluster\nmetadata: {name: a}\nspec:\n  config: {name: a, connect_timeout: 5x}\n";
    let output = binary::run(["validate", "-"], bad).unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("--> <stdin>:5:38\n"), "{told}");
}

#[test]
fn places_are_those_of_the_text_though_items_before_them_are_left_out() {
    let route = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata:\n  name: shop\nspec:\n  \
                 parentRefs:\n  - name: \"\"\n  - name: edeg\n  - null\n  - name: edge\n    sectionName: htpp\n  rules:\n  - 7\n  \
                 - backendRefs:\n    - {name: web, port: 80}\n";
    let found = pointed(&(edge() + route)).unwrap();
    let [empty, null, rule, missing, listener, backend] = &found[..] else { panic!("{found:#?}") };
    assert_eq!(empty, "18:11 error: has 0 characters, at least 1 must be there");
    assert_eq!(null, "20:5 error: expected a map, found null");
    assert_eq!(rule, "24:5 error: expected a map, found 7");
    let text = "Gateway default/edeg does not exist, the route is not attached to it; did you mean edge?";
    assert_eq!(missing, &format!("19:11 warning: {text}"));
    assert_eq!(listener, "22:18 error: Gateway edge has no listener htpp; did you mean http?");
    assert_eq!(backend, "26:7 error: Service default/web does not exist");
}

#[test]
fn what_has_an_error_is_not_called_missing_only() {
    let route = ruled("shop", "").replace("name: edge", "name: \"\"");
    let found = pointed(&(edge() + &route)).unwrap();
    assert!(
        matches!(&found[..], [one] if one.ends_with("error: has 0 characters, at least 1 must be there")),
        "{found:#?}"
    );

    let rules = "  rules:\n  - backendRefs:\n    - {name: web, port: 80}\n";
    let service = "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec: 7\n";
    let found = pointed(&(edge() + &ruled("shop", rules) + service)).unwrap();
    let missing = "Service default/web does not exist: what is written of Service default/web cannot be used";
    assert!(found.iter().any(|line| line.ends_with(missing)), "{found:#?}");
}

#[test]
fn a_word_of_another_group_or_kind_is_told_with_the_right_one() {
    let backend = |written: &str| {
        let rules = format!("  rules:\n  - backendRefs:\n    - {{{written}}}\n");
        pointed(&(edge() + &ruled("shop", &rules))).unwrap().join("\n")
    };
    let no = |kind: &str, meant: &str| format!("21:7 error: {kind} cannot be a backend: {meant}");
    assert_eq!(backend("kind: Backend, name: b"), no("Backend", "Backend is of group gateway.envoyproxy.io"));
    assert_eq!(
        backend("group: core, kind: Service, name: b, port: 80"),
        no("Service.core", "the core group is written as \"\"")
    );
    assert_eq!(backend("kind: Servce, name: b, port: 80"), no("Servce", "did you mean Service?"));
    assert_eq!(backend("kind: Pod, name: b, port: 80"), no("Pod", "Service, ServiceImport, Backend or XBackend can"));
    let policy = "apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata:\n  name: p\nspec:\n  \
                  targetRefs:\n  - {group: \"\", kind: Servce, name: a}\n  - {group: \"\", kind: Service, name: a}\n  \
                  validation: {hostname: a.example, wellKnownCACertificates: system}\n";
    let found = pointed(policy).unwrap();
    let [roots, kind, name] = &found[..] else { panic!("{found:#?}") };
    let wanted = "expected System, or a set of somebody's own such as example.com/roots, found \"system\"";
    let closed = "(nothing is sent to Service default/a)";
    assert_eq!(roots, &format!("9:62 error: {wanted} {closed}"));
    assert_eq!(kind, "7:5 error: Servce cannot be a target: did you mean Service?");
    assert_eq!(name, "8:38 error: Service default/a does not exist");
    let found = pointed(&policy.replace("targetRefs:", "targets:").replace("system", "System")).unwrap();
    assert!(found.contains(&format!("6:3 error: targetRefs is missing {closed}")), "{found:#?}");
}

#[test]
fn a_selector_without_labels_selects_nothing_and_says_so() {
    let backend = "---\napiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XBackend\nmetadata:\n  name: pods\nspec:\n  \
                   type: EndpointSelector\n  port: {number: 80}\n  endpointSelector:\n    matchLabels: {}\n";
    let rules = "  rules:\n  - backendRefs:\n    - {group: gateway.networking.x-k8s.io, kind: XBackend, name: pods}\n";
    let found = pointed(&format!("{}{}{backend}", edge(), ruled("shop", rules))).unwrap();
    let words = "has 0 entries, at least 1 must be there";
    let [own, at_route] = &found[..] else { panic!("{found:#?}") };
    assert_eq!(at_route, &format!("21:7 error: XBackend default/pods: spec.endpointSelector.matchLabels: {words}"));
    assert_eq!(own, &format!("31:18 error: {words}"));
}

/// What becomes of a rule that cannot be used.
const FAILS: &str = " (requests get 500)";

/// What guards in another place is no guard: whoever wrote it gets an error, and what it stands in is not used.
#[test]
fn a_guard_in_a_wrong_place_is_an_error() {
    let errors = |text: &str| {
        let found = pointed(text).unwrap();
        found.into_iter().filter(|line| line.contains("error")).collect::<Vec<_>>()
    };
    let rule = |text: &str| errors(&format!("{}{}", edge(), ruled("shop", &format!("  rules:\n  - {text}\n"))));
    let belongs = |word: &str, place: &str| {
        format!("{word} is not a field here: without it more would be taken than is meant; it belongs in {place}")
    };
    let empty =
        |word: &str, above: &str| format!("{word} is not a field here; {above} is empty: indent {word} below it");
    for (text, word) in [
        ("externalAuth: {protocol: HTTP}", belongs("externalAuth", "spec.rules[].filters[].externalAuth")),
        ("headers: [{name: a, value: b}]", belongs("headers", "spec.rules[].matches[].headers")),
        ("hostnames: [a.example]", belongs("hostnames", "spec.hostnames")),
        (
            "matches:\n    - path: {value: /a}\n      filters: [{type: ExternalAuth}]",
            belongs("filters", "spec.rules[].filters"),
        ),
        ("matches:\n    - path: {value: /a}\n      filter: [{}]", belongs("filter", "spec.rules[].filters")),
        ("filters:\n    type: ExternalAuth", empty("type", "filters")),
        ("matches:\n    path: {value: /a}", empty("path", "matches")),
        ("matches:\n    - path:\n    value: /a", empty("value", "matches[].path")),
        (
            "filters:\n    - type: ExternalAuth\n      externalAuth:\n    protocol: HTTP",
            empty("protocol", "filters[].externalAuth"),
        ),
    ] {
        let found = rule(text);
        assert!(found.iter().any(|line| line.trim_end_matches(FAILS).ends_with(&word)), "{text}: {found:#?}");
    }
    let listener =
        |text: &str| errors(&edge().replace("---\n", "").replace("port: 8080\n", &format!("port: 8080\n    {text}\n")));
    for (text, word) in [
        (
            "allowedRoutes:\n      namespaces:\n        from: Selector\n        selector: {team: a}",
            "team is not a field here",
        ),
        ("tls: {frontendValidation: {}}", "it belongs in spec.tls.frontend"),
        (
            "allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: null, team: a}}}",
            "indent team below it",
        ),
    ] {
        let found = listener(text);
        assert!(found.iter().any(|line| line.contains(word)), "{text}: {found:#?}");
    }
    let client = |tls: &str| errors(&edge().replace("---\n", "").replace("spec:\n", &format!("spec:\n{tls}")));
    let found = client("  tls:\n    frontend:\n  default: {validation: {caCertificateRefs: []}}\n");
    assert!(found.iter().any(|line| line.ends_with(&empty("default", "tls.frontend"))), "{found:#?}");
    let raw = errors(
        "apiVersion: bootes.io/v1\nkind: Cluster\nmetadata: {name: c}\nworkloadSelector: {matchLabels: {app: a}}\n\
         spec: {config: {name: c, type: STATIC}}\n",
    );
    assert!(raw.iter().any(|line| line.ends_with(&belongs("workloadSelector", "spec.workloadSelector"))), "{raw:#?}");
}

/// Everything that is said of a route with these rules, without places.
fn told_of(head: &str, rules: &str) -> Vec<String> {
    let found = pointed(&(edge() + &ruled("shop", &format!("{head}  rules:\n{rules}")))).unwrap();
    found.into_iter().map(|line| line.split_once(' ').map_or(line.clone(), |(_, text)| text.to_owned())).collect()
}

#[test]
fn rules_that_contradict_each_other_are_told_with_what_else_is_wrong() {
    let rule = |name: &str, path: &str| {
        format!(
            "  - {{name: {name}, matches: [{{path: {{value: {path}}}}}], filters: [{{type: RequestRedirect, requestRedirect: {{port: 81}}}}]}}\n"
        )
    };
    let wrong = "  - filters: [{type: RequestRedirect, requestRedirect: {scheme: htps}}]\n";
    let unique = format!("error: rule name must be unique within the route{FAILS}");
    let scheme = format!("error: \"htps\" is not one of http, https; did you mean https?{FAILS}");
    assert_eq!(told_of("", &(rule("x", "/a") + &rule("x", "/b") + wrong)), [&*unique, &*unique, &*scheme]);
    assert_eq!(told_of("", &(rule("x", "/a") + &rule("y", "/b") + wrong)), [scheme]);
}

#[test]
fn what_has_no_effect_is_told_where_it_is_written() {
    let redirect = "filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]";
    let unused =
        "warning: this has no effect: the rule answers with a redirect and sends nothing to a backend; leave it out";
    for field in
        ["retry: {attempts: 2}", "timeouts: {request: 1s}", "sessionPersistence: {type: Cookie, cookie: {name: a}}"]
    {
        assert_eq!(told_of("", &format!("  - {redirect}\n    {field}\n")), [unused], "{field}");
    }
    let again = "warning: an earlier item has the same name (names of headers have no case): this one is ignored; remove one of the two";
    let headers = "matches: [{headers: [{name: a, value: b}, {name: A, value: c}]}]";
    assert_eq!(told_of("", &format!("  - {headers}\n    {redirect}\n")), [again]);
    let date = "warning: this has no effect: a response without Date gets one from the proxy (RFC 9110, 6.6.1); leave it out, or set another value";
    for (changes, told) in [
        ("type: ResponseHeaderModifier, responseHeaderModifier: {remove: [Date]}", date),
        (
            "type: RequestHeaderModifier, requestHeaderModifier: {add: [{name: a, value: b}, {name: A, value: c}]}",
            again,
        ),
    ] {
        let with = redirect.replace("filters: [", &format!("filters: [{{{changes}}}, "));
        assert_eq!(told_of("", &format!("  - {with}\n")), [told], "{changes}");
    }
    let old = "sessionPersistence: {type: Cookie, cookieConfig: {lifetimeType: Session}}";
    let found = told_of("", &format!("  - {old}\n"));
    assert!(
        found.contains(&"warning: cookieConfig is cookie now, and is read as that: write cookie".to_owned()),
        "{found:#?}"
    );
}

#[test]
fn a_host_name_that_no_listener_of_the_route_takes_is_told_and_which_names_they_have() {
    let rules = "  rules:\n  - filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]\n";
    let listener = |name: &str, port: u16, host: &str| {
        format!("  - name: {name}\n    protocol: HTTP\n    port: {port}\n    hostname: \"{host}\"\n")
    };
    let one = listener("http", 8080, "*.w.example");
    let told = |listeners: &str| {
        let route = ruled("shop", &format!("  hostnames: [\"*.w.example\", other.example]\n{rules}"));
        pointed(&format!("{}---\n{route}", tests::objects::listeners(listeners))).unwrap()
    };
    let rest = "so nothing is served for it (listener http has *.w.example); add a listener for it, or leave it out";
    assert_eq!(told(&one), [format!("20:30 warning: no listener of this route takes other.example, {rest}")]);
    assert_eq!(told(&(one + &listener("other", 8081, "other.example"))), [""; 0]);
}

#[test]
fn certificates_of_clients_without_an_https_listener_are_told() {
    let tls = "  tls:\n    frontend:\n      default:\n        validation: {caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]}\n";
    let found = pointed(&(gateway(8080) + tls)).unwrap();
    let text = "there is no HTTPS listener, so this holds nowhere; certificates of clients are asked for on those only";
    assert_eq!(found, [format!("14:21 warning: {text}")]);
}

#[test]
fn a_template_that_was_not_rendered_is_called_one() {
    let told = "this looks like a template: render it first, for instance with helm template, and use the result";
    let value = edge().replace("name: edge", "name: {{ .Values.name }}");
    assert_eq!(pointed(&value).unwrap(), [format!("4:9 error: {told}")]);
    let block = edge().replace("  listeners:", "{{- if .Values.http }}\n  listeners:");
    assert_eq!(pointed(&block).unwrap(), [format!("7:1 error: {told}")]);
}

#[test]
fn values_that_are_known_are_written_in_the_advice() {
    let spec = |spec: &str| with(BACKEND, spec);
    let path = BACKEND.replace("  - back", "  - matches: [{path: {value: cart}}]\n    back");
    assert!(spec(&path)[0].ends_with("; write /cart") || spec(&path)[1].ends_with("; write /cart"), "{path}");
    let host = format!("  hostnames: [\"https://Shop.example.com:8080/a\"]\n{BACKEND}");
    assert!(spec(&host)[0].ends_with("found \"https://Shop.example.com:8080/a\"; write shop.example.com"));
    let filters = "  - filters: [{requestHeaderModifier: {remove: [a]}}]\n    back";
    let told = spec(&BACKEND.replace("  - back", filters));
    assert!(
        told[0].ends_with("error: type is missing; write type: RequestHeaderModifier (requests get 500)"),
        "{told:?}"
    );
}

/// Problems of a Gateway with one listener more.
fn second(listener: &str) -> Vec<String> {
    pointed(&format!("{}  - {listener}\n", gateway(8080))).unwrap()
}

#[test]
fn listeners_that_are_not_served_say_so_and_what_to_write() {
    let bare = second("{name: https, port: 8443, protocol: HTTPS}");
    let told = "tls.certificateRefs names no certificate: the listener is not served; write tls: {certificateRefs: [{name: SECRET}]}";
    assert!(bare.iter().any(|line| line.ends_with(told)), "{bare:?}");
    let twins = second("{name: http, port: 8081, protocol: HTTP}");
    let told = "item has the same name: neither is used; remove or rename one";
    assert!(twins.len() == 2 && twins.iter().all(|line| line.ends_with(told)), "{twins:?}");
    let mixed = second("{name: tcp, port: 8080, protocol: TCP}");
    let told = "different protocols by listeners of this object: none of them is served; move one to another port";
    assert!(mixed.len() == 2 && mixed.iter().all(|line| line.ends_with(told)), "{mixed:?}");
}

#[test]
fn a_route_that_no_listener_takes_says_what_would_take_it() {
    let parent = "  - name: edge\n  rules";
    let elsewhere = granted(FROM, TO).replace("  name: shop\n", "  name: shop\n  namespace: other\n");
    let elsewhere = elsewhere.replace(parent, "  - {name: edge, namespace: default}\n  rules");
    let told = "takes no HTTPRoute from namespace other; set allowedRoutes.namespaces.from: All or Selector in Gateway default/edge";
    let found = pointed(&elsewhere).unwrap();
    assert!(found.iter().any(|line| line.ends_with(told)), "{found:?}");
    let stream = granted(FROM, TO).replace("kind: HTTPRoute\nmetadata", "kind: TCPRoute\nmetadata");
    let found = pointed(&stream).unwrap();
    let told =
        "takes no TCPRoute (protocol, allowedRoutes.kinds); it needs a listener with protocol TCP that allows the kind";
    assert!(found.iter().any(|line| line.ends_with(told)), "{found:?}");
    let alone = with("  parentRefs:\n  - name: edge\n", "");
    let told = "no parentRefs: the route is attached to no Gateway; write parentRefs: [{name: GATEWAY}]";
    assert!(alone.iter().any(|line| line.ends_with(told)), "{alone:?}");
}
