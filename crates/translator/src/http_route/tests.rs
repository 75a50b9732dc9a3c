//! Rules against plain maps: what each becomes, and what is said when it cannot be done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::{Kind, LabelSelector, Object, ObjectKey, RouteObject};
use ir::route::{Action, Backend, PathMatch};
use serde_json::{Value, json};

use super::{ListenerPort, Lookup, RouteOutcome, Verdict, evaluate, rule_names};
use crate::backend::{BackendFault, Encryption, Sendable};
use crate::backend_traffic_policy::PolicyTarget;
use crate::hostname::Hostname;
use crate::key::{BackendKey, ClusterTarget, Transport};
use crate::listener::{Namespaces, Owner, RouteScope, ScopeListener};
use crate::reference::{GrantUse, Grants, Permit, RefFault, RefReason};
use crate::route_budget::Admission;
use crate::testing::object;

/// Plain maps in place of the graph's tables.
#[derive(Default)]
struct Maps {
    scopes: BTreeMap<ObjectKey, Arc<RouteScope>>,
    backends: BTreeSet<BackendKey>,
}

impl Grants for Maps {
    fn granted(&mut self, _: &GrantUse) -> bool {
        false
    }
}

impl Lookup for Maps {
    fn scope(&mut self, gateway: &ObjectKey) -> Option<Arc<RouteScope>> {
        self.scopes.get(gateway).cloned()
    }

    fn default_gateways(&mut self) -> Vec<ObjectKey> {
        Vec::new()
    }

    fn has_parent(&mut self, parent: &ObjectKey) -> bool {
        self.scopes.contains_key(parent)
    }

    fn ports(&mut self, _: &ObjectKey) -> Option<Arc<[ListenerPort]>> {
        Some(Arc::from([ListenerPort { port: 80, tls: false }, ListenerPort { port: 443, tls: true }]))
    }

    fn selects(&mut self, _: &LabelSelector, _: &str) -> bool {
        false
    }

    fn backend(&mut self, permit: &Permit, port: Option<u16>, transport: Transport) -> Result<Sendable, BackendFault> {
        let key = BackendKey { object: permit.target().clone(), port: port.unwrap_or_default(), transport };
        let missing = RefFault { reason: RefReason::NotFound, text: "it is not there".into() };
        if !self.backends.contains(&key) {
            return Err(missing);
        }
        Ok(Sendable { target: ClusterTarget::of(key, None, Encryption::Cleartext), treatment: None })
    }

    fn is_empty(&mut self, _: &BackendKey) -> bool {
        false
    }

    fn has_policies(&mut self, _: &str) -> bool {
        true
    }

    fn policy(&mut self, _: &PolicyTarget) -> Option<ObjectKey> {
        None
    }
}

fn maps() -> Maps {
    let listener = |name: &str| ScopeListener {
        id: name.into(),
        name: name.into(),
        hostname: Hostname::ANY,
        takes: crate::listener::Takes::Kinds([Kind::HttpRoute].into()),
        namespaces: Namespaces::Same,
        passes_tls: false,
        asked: Arc::default(),
    };
    let listeners = vec![listener("http"), listener("https")];
    let scope =
        RouteScope { owner: Arc::new(Owner { fleet: "default/web".into(), controller: "us".into() }), listeners };
    let service = |name: &str| BackendKey {
        object: ObjectKey::of(Kind::Service, "default", name),
        port: 80,
        transport: Transport::Tcp,
    };
    Maps {
        scopes: [(ObjectKey::of(Kind::Gateway, "default", "web"), Arc::new(scope))].into(),
        backends: ["v1", "v2"].into_iter().map(service).collect(),
    }
}

fn outcome(rules: Value) -> RouteOutcome {
    let Object::HttpRoute(route) =
        object(Kind::HttpRoute, "r", json!({"parentRefs": [{"name": "web"}], "rules": rules}))
    else {
        panic!("a route")
    };
    let key = route.meta.key.clone();
    evaluate(&mut maps(), &key, &RouteObject::HttpRoute(route), &Admission::AtMost(u32::MAX)).0
}

/// The routes of the first listener.
fn routes(outcome: &RouteOutcome) -> Vec<Arc<ir::Route>> {
    outcome.attached[0].listeners[0].entries.iter().map(|entry| entry.route.clone()).collect()
}

fn v1() -> Value {
    json!([{"name": "v1", "port": 80}])
}

fn forward(route: &ir::Route) -> &ir::route::Forward {
    match &route.action {
        Action::Forward(forward) => forward,
        other => panic!("{other:?} is no forward"),
    }
}

/// A rule that cannot be used as one of two: it answers 500, the other rule works, and the status says it.
fn refused(rule: Value, reason: &str, words: &str) {
    let mut broken = rule.clone();
    broken["backendRefs"] = v1();
    let outcome = outcome(json!([broken, {"matches": [{"path": {"value": "/good"}}], "backendRefs": v1()}]));
    let routes = routes(&outcome);
    assert!(matches!(&routes[0].action, Action::Respond(respond) if respond.status == 500), "{:?}", routes[0]);
    assert_eq!(forward(&routes[1]).destinations.len(), 1);
    let unusable = outcome.unusable().unwrap_or_else(|| panic!("{rule} is said"));
    assert_eq!((unusable.reason, unusable.all), (reason, false));
    assert!(unusable.text.starts_with("Dropped Rule") && unusable.text.contains(words), "{}", unusable.text);
    assert_eq!(outcome.parents[0].verdict, Verdict::Accepted);
    assert_eq!(outcome.problems().len(), 1, "{:?}", outcome.problems());

    let alone = self::outcome(json!([broken]));
    assert!(matches!(&alone.parents[0].verdict, Verdict::Refused(refusal) if refusal.reason == reason));
    assert!(!alone.attached[0].listeners[0].counted, "not accepted, so not counted");
    assert_eq!(self::routes(&alone).len(), 1, "but it still answers 500 and never passes unfiltered");
}

#[test]
fn what_is_not_supported_costs_its_rule_and_is_said() {
    let unsupported = "UnsupportedValue";
    let filter = |filter: Value| json!({"filters": [filter]});
    refused(filter(json!({"type": "Teleport"})), unsupported, "Teleport");
    let mut odd = auth("v1");
    odd["externalAuth"]["protocol"] = json!("SOAP");
    refused(filter(odd), unsupported, "SOAP");
    refused(json!({"filters": [auth("v1"), auth("v2")]}), "IncompatibleFilters", "twice");
    refused(filter(json!({"type": "ExtensionRef", "extensionRef": {"kind": "X", "name": "y"}})), unsupported, "y");
    refused(json!({"sessionPersistence": {"type": "Header"}}), unsupported, "exactly the field of its type");
    refused(json!({"timeouts": {"request": "soon"}}), unsupported, "soon");
    refused(json!({"timeouts": {"backendRequest": "1x"}}), unsupported, "1x");
    refused(json!({"retry": {"codes": [200]}}), unsupported, "200");
    let rewrite = json!({"type": "URLRewrite", "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/x"}}});
    refused(
        json!({"matches": [{"path": {"type": "Exact", "value": "/a"}}], "filters": [rewrite]}),
        unsupported,
        "ReplacePrefixMatch",
    );
    let set = json!({"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "a", "value": "b"}]}});
    refused(json!({"filters": [set, set]}), "IncompatibleFilters", "twice");
    refused(filter(json!({"type": "CORS", "cors": {"allowMethods": ["YELL"]}})), unsupported, "YELL");
}

#[test]
fn a_match_that_cannot_be_used_takes_nothing_and_the_others_hold() {
    for bad in [
        json!({"path": {"type": "Fuzzy", "value": "/"}}),
        json!({"path": {"type": "RegularExpression", "value": "("}}),
        json!({"path": {"value": "no-slash"}}),
        json!({"method": "YELL"}),
        json!({"headers": [{"type": "Fuzzy", "name": "a", "value": "b"}]}),
        json!({"queryParams": [{"type": "RegularExpression", "name": "a", "value": "["}]}),
    ] {
        let outcome = outcome(json!([{"matches": [bad, {"path": {"value": "/good"}}], "backendRefs": v1()}]));
        let routes = routes(&outcome);
        assert_eq!(routes.len(), 1, "{bad}");
        assert_eq!(routes[0].matches.path, PathMatch::Prefix("/good".into()));
        assert!(!outcome.unusable().expect("said").all);

        let alone = self::outcome(json!([{"matches": [bad], "backendRefs": v1()}]));
        assert_eq!(self::routes(&alone).len(), 0, "{bad}");
        assert!(matches!(alone.parents[0].verdict, Verdict::Refused(_)));
    }
}

#[test]
fn a_redirect_differs_by_listener_and_nothing_else_does() {
    let redirect = json!([{"filters": [{"type": "RequestRedirect", "requestRedirect": {}}]}]);
    let listeners = outcome(redirect).attached[0].listeners.clone();
    let ports: Vec<Option<u16>> = listeners
        .iter()
        .map(|listener| match &listener.entries[0].route.action {
            Action::Redirect(redirect) => redirect.port,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ports, [Some(80), Some(443)]);
    let plain = outcome(json!([{"backendRefs": v1()}])).attached[0].listeners.clone();
    assert!(Arc::ptr_eq(&plain[0].entries, &plain[1].entries), "shared");
}

#[test]
fn timeouts_and_retries_are_read_with_zero_as_off() {
    let rules = json!([{
        "backendRefs": v1(), "timeouts": {"request": "1h30m", "backendRequest": "500ms"},
        "retry": {"codes": [503, 500, 503], "backoff": "10ms"},
    }]);
    let read = outcome(rules);
    let routes_read = routes(&read);
    let forwarded = forward(&routes_read[0]);
    assert_eq!(forwarded.timeout.map(|it| it.as_secs()), Some(5_400));
    assert_eq!(forwarded.try_timeout.map(|it| it.as_millis()), Some(500));
    let retry = forwarded.retry.as_ref().expect("retries");
    assert_eq!((retry.attempts, &*retry.codes, retry.backoff.map(|it| it.as_millis())), (1, &[500, 503][..], Some(10)));

    let off = outcome(json!([{"backendRefs": v1(), "timeouts": {"request": "0s"}, "retry": {"attempts": 0}}]));
    let routes_off = routes(&off);
    let forwarded = forward(&routes_off[0]);
    assert_eq!((forwarded.timeout, forwarded.try_timeout, &forwarded.retry), (Some(Duration::ZERO), None, &None));
}

#[test]
fn a_mirror_that_leads_nowhere_is_left_out_and_the_request_goes_on() {
    let mirror =
        |name: &str| json!({"type": "RequestMirror", "requestMirror": {"backendRef": {"name": name, "port": 80}}});
    let outcome = outcome(json!([{"filters": [mirror("v2"), mirror("gone"), mirror("v1")], "backendRefs": v1()}]));
    let mirrors: Vec<String> =
        routes(&outcome)[0].filters.mirrors.iter().map(|mirror| mirror.cluster.to_string()).collect();
    assert_eq!(mirrors, ["default/v2/80", "default/v1/80"]);
    assert_eq!(outcome.bad_reference().expect("said").reason, RefReason::NotFound);
    assert_eq!(outcome.attached[0].clusters.len(), 2, "clusters of mirrors are wanted too");
}

fn auth(server: &str) -> Value {
    let server = json!({"name": server, "port": 80});
    json!({"type": "ExternalAuth", "externalAuth": {"protocol": "HTTP", "http": {}, "backendRef": server}})
}

#[test]
fn who_authorises_is_asked_by_a_cluster_of_the_route() {
    let outcome = outcome(json!([{"filters": [auth("v2")], "backendRefs": v1()}]));
    let asked: Vec<String> =
        routes(&outcome)[0].filters.external_auth.iter().map(|auth| auth.cluster.to_string()).collect();
    assert_eq!(asked, ["default/v2/80"]);
    assert_eq!(outcome.attached[0].clusters.len(), 2, "the route waits for it");
    assert_eq!(outcome.problems(), []);
}

#[test]
fn nothing_passes_whose_authority_is_not_there() {
    let redirect = json!({"type": "RequestRedirect", "requestRedirect": {}});
    for rule in [
        json!({"filters": [auth("gone")], "backendRefs": v1()}),
        json!({"filters": [redirect, auth("gone")]}),
        json!({"filters": [auth("gone")]}),
    ] {
        let outcome = outcome(json!([rule]));
        let routes = routes(&outcome);
        assert!(matches!(&routes[0].action, Action::Respond(respond) if respond.status == 500), "{:?}", routes[0]);
        let bad = outcome.bad_reference().expect("said");
        assert_eq!(bad.reason, RefReason::NotFound);
        assert_eq!(outcome.parents[0].verdict, Verdict::Accepted, "it is only the reference");
    }
    let mut backend = v1()[0].clone();
    backend["filters"] = json!([auth("gone")]);
    let outcome = outcome(json!([{"backendRefs": [backend, v1()[0]]}]));
    let routes = routes(&outcome);
    let destinations = &forward(&routes[0]).destinations;
    assert!(matches!(&destinations[0].backend, Backend::Broken(_)), "{destinations:?}");
    assert!(matches!(&destinations[1].backend, Backend::Cluster(_)));
}

#[test]
fn filters_of_a_backend_that_cannot_be_done_cost_its_share_only() {
    let bad = json!({"name": "v2", "port": 80, "filters": [{"type": "Odd"}]});
    let set = json!({"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "Backend", "value": "v1"}]}});
    let good = json!({"name": "v1", "port": 80, "weight": 3, "filters": [set]});
    let outcome = outcome(json!([{"backendRefs": [good, bad]}]));
    let routes = routes(&outcome);
    let destinations = &forward(&routes[0]).destinations;
    assert_eq!(destinations[0].filters.request_headers.set, [("backend".into(), "v1".into())]);
    assert!(matches!(&destinations[1].backend, Backend::Broken(_)));
    assert_eq!(outcome.parents[0].verdict, Verdict::Accepted);
    assert!(outcome.unusable().is_some_and(|unusable| !unusable.all));
}

#[test]
fn names_come_from_the_object_and_the_rule_and_never_from_a_position() {
    let of = |rules| {
        let object = object(Kind::HttpRoute, "r", json!({"parentRefs": [{"name": "web"}], "rules": rules}));
        let Object::HttpRoute(route) = object else { panic!("another kind") };
        rule_names(&RouteObject::HttpRoute(route)).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let named = json!({"name": "one", "backendRefs": v1()});
    let at = |path: &str| json!({"matches": [{"path": {"value": path}}], "backendRefs": v1()});
    let names = of(json!([named, at("/a"), at("/b")]));
    let [one, a, b] = &*names else { panic!("{names:?}") };
    assert_eq!(one, "default/r/one");
    assert!(a != b && a.starts_with("default/r/") && b.len() == "default/r/".len() + 8, "{names:?}");
    assert_eq!(of(json!([at("/b"), named, at("/a")])), [b, one, a].map(String::clone));
    let compiled = outcome(json!([named, at("/a"), at("/b")]));
    let routes: Vec<String> = routes(&compiled).iter().map(|route| route.name.to_string()).collect();
    assert_eq!(routes, names);
    assert!(names.iter().all(|name| crate::key::route_named(name) == "default/r"));
}

#[test]
fn a_route_without_rules_or_matches_takes_every_path() {
    let Object::HttpRoute(route) = object(Kind::HttpRoute, "r", json!({"parentRefs": [{"name": "web"}]})) else {
        panic!("a route")
    };
    let key = route.meta.key.clone();
    let (bare, _) = evaluate(&mut maps(), &key, &RouteObject::HttpRoute(route), &Admission::AtMost(u32::MAX));
    let bare_routes = routes(&bare);
    assert_eq!(bare_routes[0].matches.path, PathMatch::Prefix("/".into()));
    assert!(matches!(&bare_routes[0].action, Action::Respond(respond) if respond.status == 500));
    assert_eq!(bare.bad_reference(), None);
    let empty = outcome(json!([{"matches": [], "backendRefs": v1()}]));
    assert_eq!(routes(&empty)[0].matches.path, PathMatch::Prefix("/".into()));
}
