//! Endpoints out of slices.

use std::sync::Arc;

use api::{EndpointSlice, Kind, Object};
use ir::Address;
use ir::cluster::Health;
use serde_json::{Value, json};

use super::{PortName, find, localities};
use crate::OwnPlaces;
use crate::key::Transport;
use crate::testing::object;

fn slice(name: &str, spec: Value) -> Arc<EndpointSlice> {
    match object(Kind::EndpointSlice, name, spec) {
        Object::EndpointSlice(slice) => slice,
        other => panic!("{other:?}"),
    }
}

/// `zone: address health` per endpoint, for the port named `http`.
fn check(slices: &[Arc<EndpointSlice>], expected: &[&str]) {
    let localities =
        localities(&find(PortName { name: "http", transport: Transport::Tcp }, &OwnPlaces::default(), slices.iter()));
    let lines = localities.iter().flat_map(|locality| {
        locality.endpoints.iter().map(|endpoint| {
            let zone = locality.zone.as_deref().unwrap_or("-");
            let Address::Ip(address, port) = &endpoint.address else { panic!("an address") };
            let health = if endpoint.health == Health::Healthy { "" } else { " draining" };
            format!("{zone}: {address}:{port}{health}")
        })
    });
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}

fn ports() -> Value {
    json!([{"name": "admin", "port": 1}, {"name": "http", "port": 8080}])
}

#[test]
fn ready_endpoints_serve_and_terminating_ones_drain() {
    let one = |last: u8, conditions: Value| json!({"addresses": [format!("10.0.0.{last}")], "conditions": conditions});
    let endpoints = json!([
        one(9, json!({})),
        one(1, json!({"ready": true})),
        one(2, json!({"ready": false})),
        one(3, json!({"ready": false, "serving": true, "terminating": true})),
        one(4, json!({"ready": false, "serving": false, "terminating": true})),
        one(5, json!({"ready": true, "serving": true, "terminating": true})),
        one(6, json!({"ready": false, "serving": true})),
    ]);
    check(
        &[slice("a", json!({"endpoints": endpoints, "ports": ports()}))],
        &["-: 10.0.0.1:8080", "-: 10.0.0.3:8080 draining", "-: 10.0.0.5:8080", "-: 10.0.0.9:8080"],
    );
}

#[test]
fn zones_are_apart_and_addresses_of_both_families_come_once() {
    let at = |address: &str, zone: &str| json!({"addresses": [address], "zone": zone});
    let first = json!({"endpoints": [at("10.0.0.1", "b"), at("10.0.0.2", "a"), at("10.0.0.2", "a")], "ports": ports()});
    let second = json!({"addressType": "IPv6", "endpoints": [at("fd00::1", "a")], "ports": ports()});
    check(&[slice("a", first), slice("b", second)], &["a: 10.0.0.2:8080", "a: fd00::1:8080", "b: 10.0.0.1:8080"]);
}

#[test]
fn slices_without_endpoints_ports_or_addresses_give_nothing() {
    let endpoints = json!([{"addresses": ["10.0.0.1"]}]);
    check(
        &[
            slice("a", json!({})),
            slice("b", json!({"endpoints": endpoints})),
            slice("c", json!({"endpoints": endpoints, "ports": [{"name": "http"}]})),
            slice("d", json!({"endpoints": endpoints, "ports": [{"name": "http", "port": 8080, "protocol": "UDP"}]})),
            slice("e", json!({"endpoints": endpoints, "ports": [{"port": 8080}]})),
            slice("f", json!({"endpoints": [{"addresses": ["x"]}, {"addresses": []}], "ports": ports()})),
            slice("g", json!({"addressType": "FQDN", "endpoints": [{"addresses": ["a.org"]}], "ports": ports()})),
        ],
        &[],
    );
}
