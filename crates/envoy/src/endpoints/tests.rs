//! Endpoints.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;

use ir::cluster::{Health, Locality};
use ir::{Address, Endpoint, Endpoints};

use super::{endpoint_set, load_assignment, message, own_load_assignment};
use crate::testing::{expect, joined, json};

fn ip(last: u8) -> Endpoint {
    Endpoint::new(Address::Ip(Ipv4Addr::new(10, 0, 0, last).into(), 8080))
}

fn set(localities: Vec<Locality>) -> Endpoints {
    Endpoints { name: "ns/a/80".into(), localities }
}

fn check(localities: Vec<Locality>, wanted: &str) {
    let set = set(localities);
    let shared = load_assignment(&"ns/a/80".into(), endpoint_set(&set));
    let own = own_load_assignment(&"ns/a/80".into(), &set);
    assert_eq!((joined(&own.body), own.version, own.body.len()), (joined(&shared.body), shared.version, 1));
    expect(&json(&shared), wanted);
}

fn in_zone(zone: Option<&str>, priority: u32, endpoints: Vec<Endpoint>) -> Locality {
    Locality { zone: zone.map(Into::into), priority, endpoints }
}

#[test]
fn a_set_without_endpoints_has_only_a_name() {
    check(Vec::new(), "clusterName: ns/a/80");
}

#[test]
fn addresses_of_every_kind_with_zone_priority_and_health() {
    let draining = Endpoint { health: Health::Draining, ..ip(2) };
    let six = Endpoint::new(Address::Ip(Ipv6Addr::LOCALHOST.into(), 1));
    let unix = Endpoint::new(Address::Unix("/run/a.sock".into()));
    check(
        vec![in_zone(None, 0, vec![ip(1), draining]), in_zone(Some("z"), 1, vec![six, unix])],
        "
clusterName: ns/a/80
endpoints:
- lbEndpoints:
  - endpoint: {address: {socketAddress: {address: 10.0.0.1, portValue: 8080}}}
  - endpoint: {address: {socketAddress: {address: 10.0.0.2, portValue: 8080}}}
    healthStatus: DRAINING
- locality: {zone: z}
  lbEndpoints:
  - endpoint: {address: {socketAddress: {address: '::1', portValue: 1}}}
  - endpoint: {address: {pipe: {path: /run/a.sock}}}
  priority: 1
",
    );
}

#[test]
fn endpoints_with_shares() {
    let of = |weight: u32, last: u8| Endpoint { weight: NonZeroU32::new(weight), ..ip(last) };
    check(
        vec![in_zone(None, 0, vec![of(70, 1), of(30, 2)])],
        "
clusterName: ns/a/80
endpoints:
- lbEndpoints:
  - endpoint: {address: {socketAddress: {address: 10.0.0.1, portValue: 8080}}}
    loadBalancingWeight: 70
  - endpoint: {address: {socketAddress: {address: 10.0.0.2, portValue: 8080}}}
    loadBalancingWeight: 30
",
    );
}

#[test]
fn two_clusters_share_the_bytes_of_one_set_and_have_versions_of_their_own() {
    let set = set(vec![in_zone(None, 0, vec![ip(1)])]);
    let encoded = endpoint_set(&set);
    let (one, two) = (load_assignment(&"one".into(), encoded.clone()), load_assignment(&"two".into(), encoded));
    assert_eq!(one.body[1].as_ptr(), two.body[1].as_ptr());
    assert_ne!(one.version, two.version);
    assert_eq!(one, load_assignment(&"one".into(), endpoint_set(&set)));
    assert_eq!(joined(&one.body), prost::Message::encode_to_vec(&message("one", &set)));
}

#[test]
fn a_moved_endpoint_changes_the_version() {
    let version = |last| {
        let set = endpoint_set(&set(vec![in_zone(None, 0, vec![ip(last)])]));
        load_assignment(&"a".into(), set).version
    };
    assert_ne!(version(1), version(2));
}

#[test]
fn what_is_written_directly_is_what_the_message_says() {
    let four = |octets: [u8; 4], port| Address::Ip(Ipv4Addr::from(octets).into(), port);
    let six = Address::Ip("2001:db8::1".parse().unwrap(), 65_535);
    let mut all = vec![four([0, 9, 10, 99], 1), four([100, 255, 109, 1], 128), six, Address::Unix("/a".into())];
    let long = "p".repeat(300);
    all.push(Address::Unix(long.as_str().into()));
    let health = [Health::Healthy, Health::Draining];
    let endpoints: Vec<Endpoint> = all
        .into_iter()
        .zip(health.into_iter().cycle())
        .map(|(address, health)| Endpoint { health, ..Endpoint::new(address) })
        .collect();
    for zone in [None, Some(""), Some("z"), Some(long.as_str())] {
        for priority in [0, 1, 300] {
            let set = set(vec![in_zone(zone, priority, endpoints.clone()), in_zone(zone, 0, Vec::new())]);
            assert_eq!(endpoint_set(&set).bytes, prost::Message::encode_to_vec(&message("", &set)));
        }
    }
}
