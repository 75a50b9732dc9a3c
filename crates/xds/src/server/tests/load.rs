//! Load reports over sockets: who may, what is told when, how streams end.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proto::envoy::config::core::v3::Node;
use proto::envoy::config::endpoint::v3::{ClusterStats, UpstreamLocalityStats};
use proto::envoy::service::load_stats::v3::{LoadStatsRequest, LoadStatsResponse};
use tempfile::TempDir;
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::client::{Client, DEADLINE};
use super::resources::cluster;
use crate::load::{ClusterLoad, LoadReports, Rate};
use crate::server::accept::Io;
use crate::{Event, FleetUpdate, Gate, Server};

const METHOD: &str = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats";

struct Rig {
    server: Server,
    events: mpsc::Receiver<Vec<Event>>,
    folder: TempDir,
}

impl Rig {
    /// A server that asks for reports as often as can be, of a fleet with the clusters a and b.
    fn start() -> Self {
        let (outbox, events) = mpsc::channel(1);
        let server = Server::start(&Handle::current(), outbox);
        let folder = tempfile::tempdir().unwrap();
        server.listen_unix(&folder.path().join("xds.sock"), "one".into(), None).unwrap();
        let changes = vec![cluster("a", 1), cluster("b", 1)];
        server.publish(vec![FleetUpdate { fleet: "one".into(), changes }]);
        server.ask_for_loads(Some(LoadReports::every(Duration::from_millis(100))));
        Self { server, events, folder }
    }

    async fn client(&self) -> Client {
        reporter(&self.folder.path().join("xds.sock"), node("c", true)).await
    }

    /// The next thing that is told of cluster a.
    async fn told(&mut self) -> Option<Arc<ClusterLoad>> {
        self.told_of("one").await
    }

    /// The same of a fleet's.
    async fn told_of(&mut self, name: &str) -> Option<Arc<ClusterLoad>> {
        loop {
            let batch = tokio::time::timeout(DEADLINE, self.events.recv()).await.expect("news in time").unwrap();
            for event in batch {
                match event {
                    Event::Load { fleet, cluster, load } if (&*fleet, &*cluster) == (name, "a") => return load,
                    Event::Load { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

async fn reporter(path: &Path, first: LoadStatsRequest) -> Client {
    let client = over(Box::new(UnixStream::connect(path).await.unwrap())).await;
    client.send(first).await;
    client
}

async fn over(io: Box<dyn Io>) -> Client {
    Client::call(io, METHOD, None).await
}

fn node(id: &str, sends_all: bool) -> LoadStatsRequest {
    let features = sends_all.then(|| "envoy.lrs.supports_send_all_clusters".to_owned());
    let client_features = features.into_iter().collect();
    let node = Node { id: id.into(), cluster: "one".into(), client_features, ..Node::default() };
    LoadStatsRequest { node: Some(node), cluster_stats: Vec::new() }
}

fn report(issued: u64) -> LoadStatsRequest {
    let locality = UpstreamLocalityStats { total_issued_requests: issued, ..UpstreamLocalityStats::default() };
    let stats = ClusterStats {
        cluster_name: "a".into(),
        load_report_interval: Some(prost_types::Duration { seconds: 1, nanos: 0 }),
        upstream_locality_stats: vec![locality],
        ..ClusterStats::default()
    };
    LoadStatsRequest { node: None, cluster_stats: vec![stats] }
}

fn issued(load: &ClusterLoad) -> Rate {
    load.localities.values().map(|locality| locality.load.issued).max().unwrap_or_default()
}

#[tokio::test]
async fn a_client_is_asked_reports_and_its_loss_is_no_data() {
    let mut rig = Rig::start();
    let mut client = rig.client().await;
    let asked: LoadStatsResponse = client.read().await.unwrap();
    assert_eq!((asked.send_all_clusters, asked.clusters.len(), asked.report_endpoint_granularity), (true, 0, false));
    assert_eq!(asked.load_reporting_interval, Some(prost_types::Duration { seconds: 0, nanos: 100_000_000 }));
    client.send(report(5)).await;
    let told = rig.told().await.expect("load");
    assert_eq!((issued(&told), told.reporters), (Rate(5_000_000), 1));
    drop(client);
    assert_eq!(rig.told().await, None);
    rig.server.stop(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn every_open_stream_is_told_when_other_reports_are_wanted() {
    let rig = Rig::start();
    let mut all = rig.client().await;
    let mut named = reporter(&rig.folder.path().join("xds.sock"), node("d", false)).await;
    all.read::<LoadStatsResponse>().await.unwrap();
    assert_eq!(named.read::<LoadStatsResponse>().await.unwrap().clusters, ["a", "b"]);
    let changes = vec![cluster("c", 1)];
    rig.server.publish(vec![FleetUpdate { fleet: "one".into(), changes }]);
    assert_eq!(named.read::<LoadStatsResponse>().await.unwrap().clusters, ["a", "b", "c"], "unasked");
    let mut wanted = LoadReports::every(Duration::from_secs(7));
    (wanted.endpoints, wanted.clusters) = (true, Some(["b".into()].into()));
    rig.server.ask_for_loads(Some(wanted));
    for client in [&mut all, &mut named] {
        let told: LoadStatsResponse = client.read().await.unwrap();
        assert_eq!((&*told.clusters, told.send_all_clusters), (&["b".to_owned()][..], false));
        assert_eq!(told.load_reporting_interval.unwrap().seconds, 7);
        assert!(told.report_endpoint_granularity);
    }
    rig.server.ask_for_loads(None);
    for client in [&mut all, &mut named] {
        let told: LoadStatsResponse = client.read().await.unwrap();
        assert_eq!((told.clusters.len(), told.send_all_clusters), (0, false));
    }
    rig.server.stop(Duration::from_secs(5)).await;
    assert_eq!(all.read::<LoadStatsResponse>().await.unwrap_err(), "14");
}

#[tokio::test]
async fn a_slow_reader_of_events_gets_the_latest() {
    let mut rig = Rig::start();
    let client = rig.client().await;
    // what a reader that does not read leaves: one batch in the channel, and the latest behind it
    for issued in 1..=200 {
        client.send(report(issued)).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut seen = 0;
    while issued(&rig.told().await.expect("load")) != Rate(200_000_000) {
        seen += 1;
    }
    assert!(seen < 3, "{seen} earlier ones");
    rig.server.stop(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_reporter_passes_the_gate_like_anybody_else() {
    let rig = Rig::start();
    let gate = Gate::new(Arc::new(|_| crate::Fleets::These(vec!["two".into()])), crate::Limits::default());
    let address = rig.server.listen_tcp("127.0.0.1:0".parse().unwrap(), gate).unwrap();
    let mut stranger = over(Box::new(TcpStream::connect(address).await.unwrap())).await;
    stranger.send(node("c", true)).await;
    assert_eq!(stranger.read::<LoadStatsResponse>().await.unwrap_err(), "7");
    rig.server.stop(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_report_counts_for_the_fleet_of_its_reporter_whatever_others_call_their_clusters() {
    let mut rig = Rig::start();
    let path = rig.folder.path().join("two.sock");
    rig.server.listen_unix(&path, "two".into(), None).unwrap();
    rig.server.publish(vec![FleetUpdate { fleet: "two".into(), changes: vec![cluster("a", 1)] }]);
    // it names the other fleet, which is only a name
    let stranger = reporter(&path, node("c", true)).await;
    stranger.send(report(7)).await;
    assert_eq!(issued(&rig.told_of("two").await.expect("load")), Rate(7_000_000));
    let client = rig.client().await;
    client.send(report(5)).await;
    let told = rig.told().await.expect("load");
    assert_eq!(
        (issued(&told), told.reporters),
        (Rate(5_000_000), 1),
        "the same node in the other fleet is somebody else"
    );
    rig.server.stop(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn what_is_no_report_ends_the_stream_and_so_does_another_node() {
    let rig = Rig::start();
    let long = "n".repeat(4097);
    let unreadable = Node { id: "\0".into(), ..Node::default() };
    for (first, second) in [
        (node("c", true), node("d", true)),
        (node(&long, true), report(1)),
        // a field of another length than it has
        (LoadStatsRequest { node: Some(unreadable), cluster_stats: Vec::new() }, node("c", true)),
    ] {
        let mut client = reporter(&rig.folder.path().join("xds.sock"), first).await;
        client.send(second).await;
        let end = loop {
            if let Err(end) = client.read::<LoadStatsResponse>().await {
                break end;
            }
        };
        assert_eq!(end, "3");
    }
    rig.server.stop(Duration::from_secs(5)).await;
}
