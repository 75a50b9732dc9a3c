//! Which variables a container gets.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use serde_json::{Value, json};

use super::{Sources, of};

fn all(container: Value, links: bool) -> Result<BTreeMap<String, String>, String> {
    let mut container = container;
    container["name"] = json!("a");
    let spec = json!({ "containers": [container], "enableServiceLinks": links });
    let pod: Pod =
        serde_json::from_value(json!({ "metadata": { "name": "p", "namespace": "shop" }, "spec": spec })).unwrap();
    let service = |namespace: &str, name: &str, ip: &str| {
        let spec = json!({ "clusterIP": ip, "ports": [{ "name": "http", "port": 80 }] });
        Arc::new(
            serde_json::from_value(json!({ "metadata": { "namespace": namespace, "name": name }, "spec": spec }))
                .unwrap(),
        )
    };
    let map: ConfigMap = serde_json::from_value(json!({ "data": { "color": "red" } })).unwrap();
    let secret: Secret = serde_json::from_value(json!({ "data": { "word": "eHl6" } })).unwrap();
    let (map, secret) = (Arc::new(map), Arc::new(secret));
    let sources = Sources {
        pod: &pod,
        address: Ipv4Addr::new(10, 244, 1, 1),
        services: vec![
            service("default", "kubernetes", "10.96.0.1"),
            service("shop", "my-web", "10.96.0.7"),
            service("shop", "headless", "None"),
            service("other", "far", "10.96.0.8"),
        ],
        secret: &|name| (name == "secret").then(|| Arc::clone(&secret)),
        config_map: &|name| (name == "map").then(|| Arc::clone(&map)),
    };
    of(&pod.spec.as_ref().unwrap().containers[0], &sources)
}

fn check(container: Value, name: &str, expect: Option<&str>) {
    assert_eq!(all(container, true).unwrap().get(name).map(String::as_str), expect, "{name}");
}

#[test]
fn services_of_the_namespace_and_the_api_server_have_variables() {
    check(json!({}), "KUBERNETES_SERVICE_HOST", Some("10.96.0.1"));
    check(json!({}), "MY_WEB_SERVICE_PORT", Some("80"));
    check(json!({}), "MY_WEB_SERVICE_PORT_HTTP", Some("80"));
    check(json!({}), "MY_WEB_PORT_80_TCP_ADDR", Some("10.96.0.7"));
    check(json!({}), "HEADLESS_SERVICE_HOST", None);
    check(json!({}), "FAR_SERVICE_HOST", None);
    let without = all(json!({}), false).unwrap();
    assert!(without.contains_key("KUBERNETES_SERVICE_PORT") && !without.contains_key("MY_WEB_SERVICE_HOST"));
}

#[test]
fn values_come_from_everywhere_and_later_ones_win() {
    let from = json!([{ "prefix": "C_", "configMapRef": { "name": "map" } }, { "secretRef": { "name": "secret" } }]);
    check(json!({ "envFrom": from }), "C_color", Some("red"));
    check(json!({ "envFrom": from, "env": [{ "name": "word", "value": "own" }] }), "word", Some("own"));
    let key = |kind: &str, name: &str, key: &str| json!({ "env": [{ "name": "X", "valueFrom": { kind: { "name": name, "key": key } } }] });
    check(key("configMapKeyRef", "map", "color"), "X", Some("red"));
    check(key("secretKeyRef", "secret", "word"), "X", Some("xyz"));
    check(
        json!({ "env": [{ "name": "X", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } }] }),
        "X",
        Some("10.244.1.1"),
    );
}

#[test]
fn names_in_values_are_those_before_them() {
    let env = json!([
        { "name": "A", "value": "$(B)" },
        { "name": "B", "value": "1" },
        { "name": "C", "value": "$(B)$(MY_WEB_SERVICE_PORT)" },
    ]);
    check(json!({ "env": env }), "A", Some("$(B)"));
    check(json!({ "env": env }), "C", Some("180"));
}

#[test]
fn what_is_missing_is_an_error_unless_it_is_optional() {
    let key = |optional: bool| json!({ "name": "none", "key": "k", "optional": optional });
    let env = |optional: bool| json!({ "env": [{ "name": "X", "valueFrom": { "secretKeyRef": key(optional) } }] });
    assert_eq!(all(env(false), true).unwrap_err(), "secret \"none\" not found");
    check(env(true), "X", None);
    let other =
        json!({ "env": [{ "name": "X", "valueFrom": { "configMapKeyRef": { "name": "map", "key": "size" } } }] });
    assert_eq!(all(other, true).unwrap_err(), "couldn't find key size in ConfigMap shop/map");
}
