//! B10: what a load report costs the xDS server, from the bytes on the socket to the sums that it tells: 100 clusters in 3 localities.
//!
//! Sums are told ten times in an interval, whatever the number of reporters. So one reporter alone pays for the telling of each of its
//! reports; of 100 reporters, ten pay for it together.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use hyper_util::rt::TokioIo;
use nix::time::{ClockId, clock_gettime};
use proto::envoy::config::core::v3::{Address, Locality, Node, SocketAddress, address, socket_address};
use proto::envoy::config::endpoint::v3::{ClusterStats, UpstreamEndpointStats, UpstreamLocalityStats};
use proto::envoy::service::load_stats::v3::{LoadStatsRequest, LoadStatsResponse};
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Endpoint;
use xds::load::LoadReports;
use xds::{Change, Event, FleetUpdate, Resource, Server, TypeUrl, Version};

use crate::figure::{Report, micros};

const CLUSTERS: usize = 100;
const LOCALITIES: usize = 3;

/// Reporters of whose 100 a tenth comes in each tenth of an interval.
const TOGETHER: usize = 10;

/// Rounds that count, after as many as a third of them that do not.
const ROUNDS: u32 = 150;

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// Prints the figures of B10.
pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    for (endpoints, limit) in [(0, Some(100.0)), (10, None)] {
        let rows = CLUSTERS * LOCALITIES * endpoints.max(1);
        report.figure("B10", "cpu_per_report", rows, (micros(measure(endpoints, TOGETHER)?), "us"), limit);
        report.figure("B10", "cpu_per_report_of_one", rows, (micros(measure(endpoints, 1)?), "us"), None);
    }
    Ok(())
}

/// CPU time of the server's only thread for one report, everything included: reading, adding up, telling. What these reporters say is
/// told before they speak again.
fn measure(endpoints: usize, reporters: usize) -> anyhow::Result<Duration> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("xds.sock");
    let of_server = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let (outbox, mut events) = mpsc::channel(64);
    let server = Server::start(of_server.handle(), outbox);
    server.listen_unix(&socket, "bench".into(), None)?;
    server.publish(vec![FleetUpdate { fleet: "bench".into(), changes: (0..CLUSTERS).map(cluster).collect() }]);
    server.ask_for_loads(Some(LoadReports::every(Duration::from_millis(200))));
    let of_client = Builder::new_current_thread().enable_all().build()?;
    let cpu = of_client.block_on(async {
        let mut all = Vec::new();
        for _ in 0..reporters {
            all.push(Reporter::connect(&socket).await?);
        }
        let (mut began, mut sent) = (Duration::ZERO, 0);
        for round in 0..ROUNDS + ROUNDS / 3 {
            if round == ROUNDS / 3 {
                began = cpu(of_server.handle()).await?;
            }
            for reporter in &all {
                reporter.requests.send(stats(endpoints, u64::from(round))).await?;
            }
            sent += reporters as u64 * requests(round.into());
            let mut told = 0;
            while told < sent {
                let batch = tokio::time::timeout(PATIENCE, events.recv()).await.context("nothing was told")?;
                told = batch.context("the server ended")?.iter().filter_map(requests_told).max().unwrap_or(told);
            }
        }
        anyhow::Ok((cpu(of_server.handle()).await? - began) / ROUNDS / u32::try_from(reporters)?)
    })?;
    of_client.block_on(server.stop(PATIENCE));
    Ok(cpu)
}

/// CPU time of the only thread of a runtime so far.
async fn cpu(runtime: &Handle) -> anyhow::Result<Duration> {
    let time = runtime.spawn(async { clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID) }).await??;
    Ok(time.into())
}

/// An open stream that was asked for reports.
struct Reporter {
    requests: mpsc::Sender<LoadStatsRequest>,
    _responses: Streaming<LoadStatsResponse>,
}

impl Reporter {
    async fn connect(socket: &Path) -> anyhow::Result<Self> {
        let socket = socket.to_path_buf();
        let connector = tower::service_fn(move |_: http::Uri| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        // The address is not used: the connector knows where to go.
        let channel = Endpoint::try_from("http://chancery")?.connect_with_connector(connector).await?;
        let mut grpc = tonic::client::Grpc::new(channel);
        grpc.ready().await.map_err(|error| anyhow::anyhow!("{error}"))?;
        let (requests, outgoing) = mpsc::channel(1);
        let client_features = vec!["envoy.lrs.supports_send_all_clusters".to_owned()];
        let node = Node { id: "bench".to_owned(), client_features, ..Node::default() };
        requests.send(LoadStatsRequest { node: Some(node), cluster_stats: Vec::new() }).await?;
        let path =
            http::uri::PathAndQuery::from_static("/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats");
        let codec = tonic_prost::ProstCodec::default();
        let answer = grpc.streaming(tonic::Request::new(ReceiverStream::new(outgoing)), path, codec).await?;
        let mut responses: Streaming<LoadStatsResponse> = answer.into_inner();
        let asked = tokio::time::timeout(PATIENCE, responses.message()).await.context("no answer")??;
        anyhow::ensure!(asked.is_some_and(|asked| asked.send_all_clusters), "not asked for all clusters");
        Ok(Self { requests, _responses: responses })
    }
}

fn name(cluster: usize) -> String {
    format!("namespace-{}/service-{cluster}/8080", cluster % 10)
}

fn cluster(index: usize) -> Change {
    Change::Put(Resource::new(TypeUrl::Cluster, name(index), Version(1), []).into())
}

/// The requests to a cluster in one report.
fn requests(round: u64) -> u64 {
    (0..LOCALITIES).map(|locality| issued(0, locality, round)).sum()
}

/// The requests to the same cluster that were told.
fn requests_told(event: &Event) -> Option<u64> {
    match event {
        Event::Load { cluster, load: Some(load), .. } if **cluster == *name(0) => Some(load.requests),
        _ => None,
    }
}

fn issued(cluster: usize, locality: usize, round: u64) -> u64 {
    1_000 + round + (cluster + locality) as u64
}

/// A report in which every figure is another than in the round before.
fn stats(endpoints: usize, round: u64) -> LoadStatsRequest {
    let cluster_stats = (0..CLUSTERS).map(|cluster| ClusterStats {
        cluster_name: name(cluster),
        load_report_interval: Some(prost_types::Duration { seconds: 10, nanos: 1_000_000 }),
        upstream_locality_stats: (0..LOCALITIES)
            .map(|locality| {
                let (count, in_progress) = (issued(cluster, locality, round), 3 + round % 7);
                UpstreamLocalityStats {
                    locality: Some(Locality {
                        region: "eu-central-1".to_owned(),
                        zone: format!("eu-central-1-{locality}"),
                        ..Locality::default()
                    }),
                    total_issued_requests: count,
                    total_successful_requests: count - 10,
                    total_error_requests: 10,
                    total_requests_in_progress: in_progress,
                    upstream_endpoint_stats: (0..endpoints)
                        .map(|endpoint| UpstreamEndpointStats {
                            address: Some(address_of(cluster, locality * 16 + endpoint)),
                            total_issued_requests: count / 10,
                            total_successful_requests: count / 10,
                            total_requests_in_progress: in_progress,
                            ..UpstreamEndpointStats::default()
                        })
                        .collect(),
                    ..UpstreamLocalityStats::default()
                }
            })
            .collect(),
        ..ClusterStats::default()
    });
    LoadStatsRequest { node: None, cluster_stats: cluster_stats.collect() }
}

fn address_of(cluster: usize, endpoint: usize) -> Address {
    let socket = SocketAddress {
        address: format!("10.0.{cluster}.{endpoint}"),
        port_specifier: Some(socket_address::PortSpecifier::PortValue(8080)),
        ..SocketAddress::default()
    };
    Address { address: Some(address::Address::SocketAddress(socket)) }
}
