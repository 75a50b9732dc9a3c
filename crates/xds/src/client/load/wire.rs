//! The messages of load reporting as a client writes and reads them.
//!
//! Field numbers: `envoy/service/load_stats/v3/lrs.proto`, `envoy/config/endpoint/v3/load_report.proto`,
//! `envoy/config/core/v3/address.proto`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;

use super::super::message::WireDuration;
use super::{Account, ClusterKey, Load, Spot};
use crate::wire::message::Locality;

/// A cluster's report.
pub(super) fn cluster(key: &ClusterKey, account: &Account, now: Duration) -> ClusterStats {
    let localities = account.places.iter().map(|(place, Spot { load, endpoints })| UpstreamLocalityStats {
        locality: Some(Locality {
            region: place.region.to_string(),
            zone: place.zone.to_string(),
            sub_zone: place.sub_zone.to_string(),
        }),
        succeeded: load.succeeded,
        in_progress: load.in_progress,
        failed: load.failed,
        metrics: metrics(load),
        priority: place.priority,
        endpoints: endpoints.iter().map(|(address, load)| endpoint(*address, load)).collect(),
        issued: load.issued,
        open: load.open,
        opened: load.opened,
        unopened: load.unopened,
    });
    let named = account.dropped.iter().filter(|(category, _)| !category.is_empty());
    let dropped = named.map(|(category, count)| DroppedRequests { category: category.to_string(), count: *count });
    let interval = now.saturating_sub(account.since);
    ClusterStats {
        name: key.cluster.to_string(),
        localities: localities.collect(),
        total_dropped: account.dropped.values().fold(0, |sum, count| sum.saturating_add(*count)),
        interval: Some(interval.into()),
        dropped: dropped.collect(),
        service: key.service.to_string(),
    }
}

fn endpoint(address: SocketAddr, load: &Load) -> UpstreamEndpointStats {
    let socket = SocketAddress { address: address.ip().to_string(), port: u32::from(address.port()) };
    UpstreamEndpointStats {
        address: Some(Address { socket: Some(socket) }),
        succeeded: load.succeeded,
        in_progress: load.in_progress,
        failed: load.failed,
        metrics: metrics(load),
        issued: load.issued,
    }
}

fn metrics(load: &Load) -> Vec<Metric> {
    let metric = |(name, (count, total)): (&Arc<str>, &(u64, f64))| Metric {
        name: name.to_string(),
        count: *count,
        total: *total,
    };
    load.metrics.iter().map(metric).collect()
}

/// `LoadStatsRequest`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct LoadStatsRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) node: Bytes,
    #[prost(message, repeated, tag = "2")]
    pub(super) clusters: Vec<ClusterStats>,
}

/// `LoadStatsResponse`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct LoadStatsResponse {
    #[prost(string, repeated, tag = "1")]
    pub(super) clusters: Vec<String>,
    #[prost(message, optional, tag = "2")]
    pub(super) interval: Option<WireDuration>,
    #[prost(bool, tag = "3")]
    pub(super) endpoints: bool,
    #[prost(bool, tag = "4")]
    pub(super) all: bool,
}

/// `ClusterStats`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ClusterStats {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    localities: Vec<UpstreamLocalityStats>,
    #[prost(uint64, tag = "3")]
    total_dropped: u64,
    #[prost(message, optional, tag = "4")]
    interval: Option<WireDuration>,
    #[prost(message, repeated, tag = "5")]
    dropped: Vec<DroppedRequests>,
    #[prost(string, tag = "6")]
    service: String,
}

/// `ClusterStats.DroppedRequests`.
#[derive(Clone, PartialEq, Message)]
struct DroppedRequests {
    #[prost(string, tag = "1")]
    category: String,
    #[prost(uint64, tag = "2")]
    count: u64,
}

/// `UpstreamLocalityStats`.
#[derive(Clone, PartialEq, Message)]
struct UpstreamLocalityStats {
    #[prost(message, optional, tag = "1")]
    locality: Option<Locality>,
    #[prost(uint64, tag = "2")]
    succeeded: u64,
    #[prost(uint64, tag = "3")]
    in_progress: u64,
    #[prost(uint64, tag = "4")]
    failed: u64,
    #[prost(message, repeated, tag = "5")]
    metrics: Vec<Metric>,
    #[prost(uint32, tag = "6")]
    priority: u32,
    #[prost(message, repeated, tag = "7")]
    endpoints: Vec<UpstreamEndpointStats>,
    #[prost(uint64, tag = "8")]
    issued: u64,
    #[prost(uint64, tag = "9")]
    open: u64,
    #[prost(uint64, tag = "10")]
    opened: u64,
    #[prost(uint64, tag = "11")]
    unopened: u64,
}

/// `UpstreamEndpointStats`.
#[derive(Clone, PartialEq, Message)]
struct UpstreamEndpointStats {
    #[prost(message, optional, tag = "1")]
    address: Option<Address>,
    #[prost(uint64, tag = "2")]
    succeeded: u64,
    #[prost(uint64, tag = "3")]
    in_progress: u64,
    #[prost(uint64, tag = "4")]
    failed: u64,
    #[prost(message, repeated, tag = "5")]
    metrics: Vec<Metric>,
    #[prost(uint64, tag = "7")]
    issued: u64,
}

/// `EndpointLoadMetricStats`.
#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(uint64, tag = "2")]
    count: u64,
    #[prost(double, tag = "3")]
    total: f64,
}

/// `envoy.config.core.v3.Address`.
#[derive(Clone, PartialEq, Message)]
struct Address {
    #[prost(message, optional, tag = "1")]
    socket: Option<SocketAddress>,
}

/// `envoy.config.core.v3.SocketAddress`.
#[derive(Clone, PartialEq, Message)]
struct SocketAddress {
    #[prost(string, tag = "2")]
    address: String,
    #[prost(uint32, tag = "3")]
    port: u32,
}
