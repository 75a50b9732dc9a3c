//! The endpoint sets that crowds of clients subscribe to, and how they change.
//!
//! A set is a service of ten pods. An event is what an `EndpointSlice` tells while pods are replaced: each pod in four steps. Every
//! event writes when it happened and which one it is into the set, where a client finds it.

use nix::time::{ClockId, clock_gettime};
use prost::Message as _;
use proto::envoy::config::cluster::v3::Cluster;
use proto::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType, EdsClusterConfig};
use proto::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use proto::envoy::config::core::v3::{Address, HealthStatus, SocketAddress, address, socket_address};
use proto::envoy::config::core::v3::{AggregatedConfigSource, ApiVersion, ConfigSource};
use proto::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use proto::envoy::config::endpoint::v3::{ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints};

/// Endpoints of a set.
const ENDPOINTS: usize = 10;

/// Steps in which a pod is replaced: it is terminating, gone, another is there, and is ready.
const STEPS: usize = 4;

/// What stands before time and number of the event.
const MARK: &[u8] = b"at-";

/// Nanoseconds since some moment that is the same for all processes.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).map(std::time::Duration::from).unwrap_or_default();
    u64::try_from(time.as_nanos()).unwrap_or_default()
}

/// The name of a set.
pub(crate) fn name(set: usize) -> String {
    format!("namespace-{}/service-{set}/8080", set % 10)
}

/// The set that an event, counted from 1, changes: all pods of a service, then those of the next.
pub(crate) fn changed_by(event: u32, sets: usize) -> usize {
    (event as usize).saturating_sub(1) / (STEPS * ENDPOINTS) % sets
}

/// The set after an event, of which the first is number 1; 0: before all.
pub(crate) fn set(set: usize, event: u32) -> ClusterLoadAssignment {
    let done = (event as usize).saturating_sub(1) % (STEPS * ENDPOINTS) + usize::from(event > 0);
    let (replaced, step) = (done / STEPS, done % STEPS);
    let mut lb_endpoints = Vec::new();
    for index in 0..ENDPOINTS {
        let is_new = index < replaced || (index == replaced && step == STEPS - 1);
        let health = if index == replaced && step == 1 { HealthStatus::Draining } else { HealthStatus::Healthy };
        if index == replaced && step == 2 {
            continue;
        }
        let number = set * ENDPOINTS + index;
        let socket = SocketAddress {
            address: format!("10.{}.{}.{}", u8::from(is_new), number >> 8 & 255, number & 255),
            port_specifier: Some(socket_address::PortSpecifier::PortValue(8080)),
            ..SocketAddress::default()
        };
        let endpoint = Endpoint {
            address: Some(Address { address: Some(address::Address::SocketAddress(socket)) }),
            hostname: if lb_endpoints.is_empty() { mark(event) } else { String::new() },
            ..Endpoint::default()
        };
        lb_endpoints.push(LbEndpoint {
            host_identifier: Some(HostIdentifier::Endpoint(endpoint)),
            health_status: health as i32,
            load_balancing_weight: Some(1),
            ..LbEndpoint::default()
        });
    }
    let locality =
        LocalityLbEndpoints { lb_endpoints, load_balancing_weight: Some(1), ..LocalityLbEndpoints::default() };
    ClusterLoadAssignment { cluster_name: name(set), endpoints: vec![locality], ..ClusterLoadAssignment::default() }
}

/// The same, encoded.
pub(crate) fn encoded(set_number: usize, event: u32) -> Vec<u8> {
    set(set_number, event).encode_to_vec()
}

/// The cluster that uses a set, after so many changes.
pub(crate) fn cluster(set: usize, changes: i32) -> Cluster {
    let ads = ConfigSource {
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource::default())),
        resource_api_version: ApiVersion::V3 as i32,
        ..ConfigSource::default()
    };
    Cluster {
        name: name(set),
        connect_timeout: Some(proto::google::protobuf::Duration { seconds: 5, nanos: changes }),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds as i32)),
        eds_cluster_config: Some(EdsClusterConfig { eds_config: Some(ads), ..EdsClusterConfig::default() }),
        ..Cluster::default()
    }
}

/// Before all events it is the same in every process, so that versions survive a restart.
fn mark(event: u32) -> String {
    format!("at-{:019}-{event:06}", if event == 0 { 0 } else { now() })
}

/// When the event that brought this set happened, and which one it was.
pub(crate) fn event_of(set: &[u8]) -> Option<(u64, u32)> {
    let at = set.windows(MARK.len()).position(|window| window == MARK)? + MARK.len();
    let text = std::str::from_utf8(set.get(at..at + 26)?).ok()?;
    let (time, event) = text.split_once('-')?;
    Some((time.parse().ok()?, event.parse().ok()?))
}
