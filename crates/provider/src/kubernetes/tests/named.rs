//! Secrets and `ConfigMap`s: only those that are named, for as long as they are, each by its name.

use super::*;
use crate::kubernetes::plan::ONE_BY_ONE;

async fn with_one() -> World {
    let mut world = World::new(|mock| {
        mock.put(Kind::Gateway, gateway("web", &["certs/a"]));
        mock.put(Kind::Secret, secret("certs", "a", "1"));
        mock.put(Kind::Secret, secret("certs", "other", "1"));
    })
    .await;
    world.listed().await;
    world
}

/// So many names, as `namespace/name`.
fn names(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("certs/s{index:04}")).collect()
}

fn put_all(mock: &Mock, names: &[String]) {
    for name in names {
        mock.put(Kind::Secret, secret("certs", name.trim_start_matches("certs/"), "1"));
    }
}

/// Secrets of these names, the first of which a Gateway names.
async fn with_many(names: &[String], named: usize) -> World {
    let mut world = World::new(|mock| {
        put_all(mock, names);
        mock.put(Kind::Gateway, many(&names[..named]));
    })
    .await;
    world.listed().await;
    world
}

fn many(names: &[String]) -> Value {
    gateway("web", &names.iter().map(String::as_str).collect::<Vec<_>>())
}

#[tokio::test]
async fn what_is_named_is_there_when_all_counts_as_listed_and_nothing_else_is_asked_for() {
    let mut world = with_one().await;
    assert_eq!(world.state.objects.keys().collect::<Vec<_>>(), ["Gateway infra/web", "Secret certs/a"]);
    let secrets = world.mock.asked("/secrets");
    assert!(secrets > 0);
    assert_eq!(world.mock.asked("/namespaces/certs/secrets?"), secrets);
    assert_eq!(world.mock.asked("fieldSelector=metadata.name%3Da&"), secrets);
    world.mock.put(Kind::Secret, secret("certs", "a", "2"));
    world.until("a is newer", |state| state.objects["Secret certs/a"] == "2").await;
    world.end().await;
}

#[tokio::test]
async fn a_secret_is_read_once_it_is_named_and_forgotten_once_it_is_not() {
    let mut world = with_one().await;
    world.mock.put(Kind::Gateway, gateway("web", &["certs/other"]));
    world.until("the other is there", |state| state.has("Secret certs/other") && !state.has("Secret certs/a")).await;
    world.mock.put(Kind::Gateway, gateway("second", &["certs/other"]));
    world.until("the second is there", |state| state.has("Gateway infra/second")).await;
    world.mock.delete(Kind::Gateway, "infra", "web");
    world.until("the first is gone", |state| !state.has("Gateway infra/web")).await;
    world.settled().await;
    assert!(world.state.has("Secret certs/other"), "one still names it");
    world.mock.delete(Kind::Gateway, "infra", "second");
    world.until("it is forgotten", |state| !state.has("Secret certs/other")).await;
    world.end().await;
}

#[tokio::test]
async fn a_name_that_is_nobodys_holds_up_nothing_and_its_object_is_read_when_it_comes() {
    let mut world = World::new(|mock| {
        mock.put(Kind::Gateway, gateway("web", &["certs/a", "certs/NoName"]));
    })
    .await;
    world.listed().await;
    assert_eq!(world.mock.asked("NoName"), 0, "what cannot exist is not asked for");
    world.mock.put(Kind::Secret, secret("certs", "a", "1"));
    world.until("it is there", |state| state.has("Secret certs/a")).await;
    world.mock.delete(Kind::Secret, "certs", "a");
    world.until("it is gone", |state| !state.has("Secret certs/a")).await;
    world.end().await;
}

#[tokio::test]
async fn a_secret_that_may_not_be_read_is_told_and_holds_up_nothing() {
    let mut world = World::new(|mock| {
        mock.put(Kind::Gateway, gateway("web", &["certs/a", "certs/b"]));
        mock.put(Kind::Secret, secret("certs", "a", "1"));
        mock.put(Kind::Secret, secret("certs", "b", "1"));
        mock.faults(|faults| faults.forbidden = vec!["secrets metadata.name=a$".to_owned()]);
    })
    .await;
    world.listed().await;
    assert!(world.state.has("Secret certs/b") && !world.state.has("Secret certs/a"));
    world.until("it is told", |state| state.says("Secret certs/a: may not be read from Kubernetes; allow get, list and watch on secrets in namespace certs")).await;
    world.mock.faults(|faults| faults.forbidden.clear());
    world.until("it is read", |state| state.has("Secret certs/a") && state.problems.is_empty()).await;
    world.end().await;
}

#[tokio::test]
async fn many_of_one_namespace_are_read_together_and_those_that_nobody_names_are_dropped() {
    let names = names(ONE_BY_ONE + 8);
    let mut world = with_many(&names, ONE_BY_ONE + 4).await;
    assert_eq!(world.state.objects.len(), ONE_BY_ONE + 4 + 1);
    assert_eq!(world.mock.asked("fieldSelector"), 0);
    world.mock.put(Kind::Gateway, many(&names));
    world.until("those named later are there", |state| state.objects.len() == ONE_BY_ONE + 8 + 1).await;
    world.mock.put(Kind::Secret, secret("certs", "s0039", "2"));
    world.until("one is newer", |state| state.objects["Secret certs/s0039"] == "2").await;
    world.mock.put(Kind::Gateway, many(&names[..2]));
    world.until("two are left", |state| state.objects.len() == 3).await;
    world.until_asked_by_name().await;
    world.mock.put(Kind::Secret, secret("certs", "s0001", "2"));
    world.until("one is newer", |state| state.objects["Secret certs/s0001"] == "2").await;
    world.end().await;
}

impl World {
    async fn until_asked_by_name(&mut self) {
        self.asked("fieldSelector=metadata.name%3Ds0001", 1).await;
    }
}

#[tokio::test]
async fn from_one_by_one_to_all_together_nothing_is_lost_meanwhile() {
    let names = names(ONE_BY_ONE + 8);
    let mut world = with_many(&names, 2).await;
    assert_eq!(world.state.objects.len(), 3);
    world.mock.put(Kind::Gateway, many(&names));
    // That the first two are never deleted is seen by their number never falling.
    world.until("all are there", |state| state.objects.len() == ONE_BY_ONE + 8 + 1).await;
    assert_eq!(world.state.applied, ONE_BY_ONE + 8 + 2);
    world.end().await;
}

#[tokio::test]
async fn a_namespace_that_may_not_be_read_as_a_whole_is_read_one_by_one() {
    let names = names(ONE_BY_ONE + 8);
    let mut world = World::new(|mock| {
        put_all(mock, &names);
        mock.put(Kind::Gateway, many(&names));
        mock.faults(|faults| faults.forbidden = vec!["/namespaces/certs/secrets $".to_owned()]);
    })
    .await;
    world.listed().await;
    assert_eq!(world.state.objects.len(), ONE_BY_ONE + 8 + 1);
    assert!(
        world.state.says("note: secrets in namespace certs may not be listed and watched together"),
        "{:?}",
        world.state.problems
    );
    world.end().await;
}

#[tokio::test]
async fn a_secret_that_went_while_it_was_looked_for_does_not_come_back() {
    let names = names(ONE_BY_ONE + 2);
    let mut world = with_many(&names, ONE_BY_ONE + 1).await;
    for round in 0..20 {
        world.mock.put(Kind::Gateway, many(&names));
        world.mock.delete(Kind::Secret, "certs", "s0033");
        world.settled().await;
        world.until("it is gone", |state| !state.has("Secret certs/s0033")).await;
        world.mock.put(Kind::Secret, secret("certs", "s0033", &round.to_string()));
        world.until("it is back", |state| state.has("Secret certs/s0033")).await;
        world.mock.put(Kind::Gateway, many(&names[..ONE_BY_ONE + 1]));
        world.until("nobody names it", |state| !state.has("Secret certs/s0033")).await;
    }
    world.end().await;
}

/// An object of a kind in a namespace with this spec.
fn specified(namespace: &str, name: &str, spec: Value) -> Value {
    let mut object = object(namespace, name, "1");
    object["spec"] = spec;
    object
}

fn tls_listener(secret: &str) -> Value {
    json!([{ "name": "l", "port": 443, "protocol": "HTTPS", "tls": { "certificateRefs": [{ "name": secret }] } }])
}

#[tokio::test]
async fn secrets_of_foreign_gateways_are_not_asked_for() {
    let mut world = World::new(|mock| {
        let mut foreign = class("foreign", "1");
        foreign["spec"]["controllerName"] = json!("example.org/theirs");
        mock.put(Kind::GatewayClass, foreign);
        let spec = json!({ "gatewayClassName": "foreign", "listeners": tls_listener("own") });
        mock.put(Kind::Gateway, specified("theirs", "web", spec));
        let parent = json!({ "name": "web" });
        mock.put(
            Kind::ListenerSet,
            specified("theirs", "set", json!({ "parentRef": parent, "listeners": tls_listener("own") })),
        );
        mock.put(Kind::Gateway, gateway("web", &["elsewhere/a"]));
        mock.put(Kind::Secret, secret("theirs", "own", "1"));
        mock.put(Kind::Secret, secret("elsewhere", "a", "1"));
    })
    .await;
    world.listed().await;
    assert_eq!(world.mock.asked("/secrets"), 0, "one is of another class, and the other has no grant");
    let spec = json!({ "gatewayClassName": "ours", "listeners": tls_listener("own") });
    world.mock.put(Kind::Gateway, specified("theirs", "web", spec));
    world.until("it is ours now", |state| state.has("Secret theirs/own")).await;
    let spec = json!({ "gatewayClassName": "foreign", "listeners": tls_listener("own") });
    world.mock.put(Kind::Gateway, specified("theirs", "web", spec));
    world.until("it is theirs again", |state| !state.has("Secret theirs/own")).await;
    assert_eq!(world.mock.asked("elsewhere/secrets"), 0);
    world.end().await;
}

#[tokio::test]
async fn a_secret_is_read_as_long_as_a_grant_lets_it_be_named() {
    let mut world = World::new(|mock| {
        mock.put(Kind::Gateway, gateway("web", &["elsewhere/a"]));
        mock.put(Kind::Secret, secret("elsewhere", "a", "1"));
    })
    .await;
    world.listed().await;
    assert!(!world.state.has("Secret elsewhere/a"));
    for _ in 0..2 {
        world.mock.put(Kind::ReferenceGrant, grant("elsewhere", "1"));
        world.until("it is granted", |state| state.has("Secret elsewhere/a")).await;
        world.mock.delete(Kind::ReferenceGrant, "elsewhere", "permit");
        world.until("the grant is gone", |state| !state.has("Secret elsewhere/a")).await;
        let asked = world.mock.asked("elsewhere/secrets");
        world.mock.put(Kind::Secret, secret("elsewhere", "a", "2"));
        world.settled().await;
        assert_eq!(world.mock.asked("elsewhere/secrets"), asked, "it is watched no more");
        assert!(!world.state.has("Secret elsewhere/a"));
    }
    world.end().await;
}

#[tokio::test]
async fn a_set_names_secrets_where_its_gateway_takes_it() {
    let mut world = World::new(|mock| {
        let spec = json!({ "parentRef": { "name": "web", "namespace": "infra" }, "listeners": tls_listener("own") });
        mock.put(Kind::ListenerSet, specified("team", "set", spec));
        mock.put(Kind::Gateway, gateway("web", &[]));
        mock.put(Kind::Secret, secret("team", "own", "1"));
    })
    .await;
    world.listed().await;
    assert_eq!(world.mock.asked("/secrets"), 0, "the Gateway takes no sets");
    let mut taking = gateway("web", &[]);
    taking["spec"]["allowedListeners"] = json!({ "namespaces": { "from": "All" } });
    world.mock.put(Kind::Gateway, taking);
    world.until("it takes them", |state| state.has("Secret team/own")).await;
    world.end().await;
}

#[tokio::test]
async fn a_backend_names_secrets_where_something_of_ours_can_use_it() {
    let bundle = json!({ "group": "certificates.k8s.io", "kind": "ClusterTrustBundle", "name": "roots" });
    let tls = json!({ "caCertificateRefs": [{ "group": "", "kind": "ConfigMap", "name": "ca" }, bundle] });
    let endpoints = json!([{ "fqdn": { "hostname": "example.org", "port": 443 } }]);
    let mut world = World::new(|mock| {
        mock.put(Kind::Backend, specified("team", "b", json!({ "endpoints": endpoints, "tls": tls })));
        mock.put(Kind::ConfigMap, object("team", "ca", "1"));
        let roots = |name: &str| json!({ "metadata": { "name": name }, "spec": { "trustBundle": "x" } });
        mock.put(Kind::ClusterTrustBundle, roots("roots"));
        mock.put(Kind::ClusterTrustBundle, roots("other"));
        mock.put(Kind::Gateway, gateway("web", &[]));
    })
    .await;
    world.listed().await;
    assert_eq!((world.mock.asked("/configmaps"), world.mock.asked("/clustertrustbundles")), (0, 0));
    let mut attached = route("team", "r", "1");
    attached["spec"]["parentRefs"] = json!([{ "name": "web", "namespace": "infra" }]);
    world.mock.put(Kind::HttpRoute, attached);
    let both = ["ConfigMap team/ca", "ClusterTrustBundle roots"];
    world.until("a route is there", |state| both.iter().all(|name| state.has(name))).await;
    assert!(!world.state.has("ClusterTrustBundle other"));
    world.mock.delete(Kind::HttpRoute, "team", "r");
    world.until("the route is gone", |state| both.iter().all(|name| !state.has(name))).await;
    let mut grant = grant("team", "1");
    grant["spec"] = json!({
        "from": [{ "group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "infra" }],
        "to": [{ "group": "gateway.envoyproxy.io", "kind": "Backend" }],
    });
    world.mock.put(Kind::ReferenceGrant, grant);
    world.until("routes of others may name it", |state| both.iter().all(|name| state.has(name))).await;
    world.end().await;
}
