//! The fuzz targets of the server and of the client as ordinary tests, on the stable toolchain, from the same bodies (`fuzz/src`).
#![expect(unreachable_pub, reason = "the bodies are public to the fuzz targets, which are a workspace of their own")]

use peak_alloc::PeakAlloc;
use prost::Message;
use proto::envoy::config::core::v3::{Address, Locality, Node, SocketAddress, address, socket_address};
use proto::envoy::config::endpoint::v3::{
    ClusterStats, EndpointLoadMetricStats, UpstreamEndpointStats, UpstreamLocalityStats,
};
use proto::envoy::service::load_stats::v3::LoadStatsRequest;
use tonic_health::pb::HealthCheckRequest;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;

use super::{journal, transaction};

#[path = "../../../../fuzz/src/callers.rs"]
mod callers;
#[path = "../../../../fuzz/src/load_reports.rs"]
mod load_reports;
#[path = "../../../../fuzz/src/pieces.rs"]
mod pieces;
#[path = "../../../../fuzz/src/pings.rs"]
mod pings;
#[path = "../../../../fuzz/src/questions.rs"]
mod questions;
#[path = "../../../../fuzz/src/refusals.rs"]
mod refusals;
#[path = "../../../../fuzz/src/requests.rs"]
mod requests;
#[path = "../../../../fuzz/src/responses.rs"]
mod responses;
#[path = "../../../../fuzz/src/saved_fleet.rs"]
mod saved_fleet;
#[path = "../../../../fuzz/src/xds_client.rs"]
mod xds_client;
#[path = "../../../../fuzz/src/xds_session.rs"]
mod xds_session;

/// The inputs are bounded in the memory that they need.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

tests::fuzz_targets! {
    callers: 2000, 4096, Vec::new();
    load_reports: 4000, 4096, reports();
    pings: 4000, 4096, Vec::new();
    questions: 10_000, 4096, asked();
    refusals: 10_000, 4096, refused();
    requests: 4000, 1024, Vec::new();
    responses: 4000, 1024, Vec::new();
    saved_fleet: 2000, 4096, journals();
    xds_client: 5000, 4096, Vec::new();
    xds_session: 1500, 4096, Vec::new();
}

/// Three reporters and what they say, time passing in between.
fn reports() -> Vec<Vec<u8>> {
    let metric = |name: &str| EndpointLoadMetricStats {
        metric_name: name.into(),
        num_requests_finished_with_metric: 3,
        total_metric_value: 0.5,
    };
    let place = socket_address::PortSpecifier::PortValue(80);
    let place = SocketAddress { address: "10.0.0.1".into(), port_specifier: Some(place), ..SocketAddress::default() };
    let endpoint = UpstreamEndpointStats {
        address: Some(Address { address: Some(address::Address::SocketAddress(place)) }),
        total_successful_requests: 4,
        total_issued_requests: 5,
        load_metric_stats: vec![metric("m")],
        ..UpstreamEndpointStats::default()
    };
    let zone = |zone: &str| UpstreamLocalityStats {
        locality: Some(Locality { zone: zone.into(), ..Locality::default() }),
        total_successful_requests: 100,
        total_issued_requests: 100,
        total_error_requests: 1,
        load_metric_stats: vec![metric("m"), metric("n")],
        upstream_endpoint_stats: vec![endpoint.clone()],
        ..UpstreamLocalityStats::default()
    };
    let cluster = |name: &str| ClusterStats {
        cluster_name: name.into(),
        load_report_interval: Some(prost_types::Duration { seconds: 10, nanos: 0 }),
        upstream_locality_stats: vec![zone("x"), zone("")],
        total_dropped_requests: 2,
        ..ClusterStats::default()
    };
    let report = |clusters: Vec<ClusterStats>| {
        let node = Some(Node { id: "a".into(), ..Node::default() });
        LoadStatsRequest { node, cluster_stats: clusters }.encode_to_vec()
    };
    let (one, two) = (report(vec![cluster("a")]), report(vec![cluster("a"), cluster("long name")]));
    let turns =
        |turns: &[(u8, &[u8])]| turns.iter().flat_map(|(who, text)| [&[*who], *text, b"\xff"].concat()).collect();
    vec![
        turns(&[(0, &one), (15, b""), (1, &two), (2, &one), (15, b""), (0, &two), (0, b""), (15, b"")]),
        turns(&[(0, &one), (0, &one), (1, b""), (63, b""), (1, &one), (7, b""), (7, b"")]),
    ]
}

/// Questions to each service.
fn asked() -> Vec<Vec<u8>> {
    let question =
        |request| ServerReflectionRequest { host: "h".into(), message_request: Some(request) }.encode_to_vec();
    let health = HealthCheckRequest { service: "envoy.service.discovery.v3.AggregatedDiscoveryService".into() };
    let health = health.encode_to_vec();
    // of every node whose name is this, begins, ends or matches so
    let status = |pattern: &[u8]| {
        let id = [&[10, pattern.len() as u8][..], pattern].concat();
        [&[10, id.len() as u8][..], &id].concat()
    };
    let asked = [
        (0, health.clone()),
        (1, health),
        (2, Vec::new()),
        (3, question(MessageRequest::ListServices(String::new()))),
        (3, question(MessageRequest::FileByFilename("envoy/config/core/v3/base.proto".into()))),
        (3, question(MessageRequest::FileContainingSymbol("envoy.config.cluster.v3.Cluster.LbPolicy".into()))),
        (3, question(MessageRequest::AllExtensionNumbersOfType("envoy.config.cluster.v3.Cluster".into()))),
        (4, Vec::new()),
        (4, status(b"\x0a\x04node")),
        (4, status(b"\x12\x02no\x30\x01")),
        (4, status(b"\x3a\x01o")),
    ];
    // a byte for the service, two for the length
    let framed = |(service, text): &(u8, Vec<u8>)| [&[*service, 0, text.len() as u8][..], text].concat();
    asked.iter().map(framed).chain([asked.iter().flat_map(framed).collect()]).collect()
}

/// What proxies say of what they refuse.
fn refused() -> Vec<Vec<u8>> {
    let texts = [
        "Proto constraint validation failed (ClusterValidationError.ConnectTimeout: value must be greater than 0s): \
         name: \"a\"\nconnect_timeout { }\n",
        "Failed to load private key from <inline>, Cause: KEY_VALUES_MISMATCH",
        "goo.gle/debugproto  inline_string: \"-----BEGIN PRIVATE KEY-----\\nMIIE\\n-----END PRIVATE KEY-----\\n\"",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n{private_key: {inline_bytes: \"QUJD\"}}",
        "Error adding/updating listener(s) a: generic_secret \u{1F512} b\x00\x7f\u{85}\u{2028}",
    ];
    texts.map(|text| text.as_bytes().to_vec()).into()
}

/// Whole journals of one to four records.
fn journals() -> Vec<Vec<u8>> {
    let mut rng = fastrand::Rng::with_seed(16);
    let mut record = || transaction(&mut |most| rng.u32(..=most), &["a", "b", "a/b", "xdstp://a/b/c"]);
    let mut records = |count| (0..count).map(|_| record()).collect::<Vec<_>>();
    (1..=4).cycle().take(32).map(|count| journal("f", &records(count)).to_vec()).collect()
}
