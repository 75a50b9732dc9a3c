//! Who gets which address.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use super::{Assigned, FIRST, LAST, Pool};

fn none() -> Assigned {
    Assigned { pool: Pool::new(FIRST, LAST), of: BTreeMap::new() }
}

fn service(name: &str, spec: Value) -> Service {
    let object = json!({ "metadata": { "namespace": "default", "name": name }, "spec": spec });
    serde_json::from_value(object).unwrap()
}

fn balancer(name: &str) -> Service {
    service(name, json!({ "type": "LoadBalancer" }))
}

fn given(status: Option<Value>) -> Option<String> {
    Some(status?.pointer("/ingress/0/ip")?.as_str()?.to_owned())
}

#[test]
fn each_gets_its_own_and_keeps_it() {
    let mut assigned = none();
    assert_eq!(given(assigned.status(&balancer("a"))).as_deref(), Some("198.18.0.1"));
    assert_eq!(given(assigned.status(&balancer("b"))).as_deref(), Some("198.18.0.2"));
    assert_eq!(given(assigned.status(&balancer("a"))).as_deref(), Some("198.18.0.1"));
}

#[test]
fn an_address_that_is_asked_for_is_given_if_it_is_in_the_pool_and_free() {
    let mut assigned = none();
    let asks = |name: &str, ip: &str| service(name, json!({ "type": "LoadBalancer", "loadBalancerIP": ip }));
    assert_eq!(given(assigned.status(&asks("a", "198.18.0.77"))).as_deref(), Some("198.18.0.77"));
    for other in ["198.18.0.77", "198.18.1.1", "192.0.2.1", "::1"] {
        assert_eq!(assigned.status(&asks("b", other)), None, "{other}");
    }
}

#[test]
fn who_goes_gives_it_back() {
    let mut assigned = none();
    let ip = |name: &str| service(name, json!({ "type": "LoadBalancer", "loadBalancerIP": "198.18.0.9" }));
    assigned.status(&ip("a"));
    assigned.release(&[Arc::new(ip("b"))]);
    assert_eq!(given(assigned.status(&ip("b"))).as_deref(), Some("198.18.0.9"));
}

#[test]
fn other_classes_and_types_get_none() {
    let mut assigned = none();
    assert_eq!(
        assigned.status(&service("a", json!({ "type": "LoadBalancer", "loadBalancerClass": "example.com/x" }))),
        None
    );
    assert_eq!(assigned.status(&service("a", json!({ "type": "ClusterIP" }))), None);
}
