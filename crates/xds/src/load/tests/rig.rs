//! Reports made by hand, and what is told of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use proto::envoy::config::core::v3::{Address, Locality, SocketAddress, address, socket_address};
use proto::envoy::config::endpoint::v3::{
    ClusterStats, EndpointLoadMetricStats, UpstreamEndpointStats, UpstreamLocalityStats,
};
use proto::envoy::service::load_stats::v3::LoadStatsRequest;

use crate::event::{Event, Node};
use crate::load::{ClusterLoad, Load, Loads, Malformed, Rate, ReporterId};

/// The interval that is asked for here.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);

/// What an observer knows who has seen every event.
pub(super) struct Rig {
    pub(super) loads: Loads,
    pub(super) now: Duration,
    pub(super) told: BTreeMap<Arc<str>, Arc<ClusterLoad>>,
    pub(super) misreports: Vec<(Arc<str>, &'static str)>,
    pub(super) events: usize,
}

impl Rig {
    pub(super) fn new() -> Self {
        let (loads, told) = (Loads::new("fleet".into(), INTERVAL), BTreeMap::new());
        Self { loads, now: Duration::from_secs(1), told, misreports: Vec::new(), events: 0 }
    }

    pub(super) fn open(&mut self, node: &str) -> ReporterId {
        let node = Node { id: node.into(), ..Node::default() };
        self.loads.open(Arc::new(node), self.now).unwrap()
    }

    /// A report of clusters that are known, unless they are called `strange`.
    pub(super) fn try_report(&mut self, reporter: &ReporterId, message: &[u8]) -> Result<(), Malformed> {
        self.loads.receive(*reporter, message, self.now, &|name| name != "strange").map(drop)
    }

    pub(super) fn report(&mut self, reporter: &ReporterId, clusters: &[ClusterStats]) {
        let message = LoadStatsRequest { node: None, cluster_stats: clusters.to_vec() };
        self.try_report(reporter, &message.encode_to_vec()).unwrap();
    }

    /// Lets time pass, as one does who sleeps until each deadline.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(deadline) = self.loads.next_deadline().filter(|deadline| *deadline <= end) {
            self.now = self.now.max(deadline);
            self.take();
        }
        self.now = end;
        self.take();
    }

    /// Until what was reported is told.
    pub(super) fn gather(&mut self) {
        self.pass(Duration::from_secs(1));
    }

    fn take(&mut self) {
        for event in self.loads.advance(self.now) {
            self.events += 1;
            match event {
                Event::Load { cluster, load: Some(load), .. } => drop(self.told.insert(cluster, load)),
                Event::Load { cluster, load: None, .. } => drop(self.told.remove(&cluster)),
                Event::Misreported { node, text, .. } => self.misreports.push((Arc::clone(&node.id), text)),
                other => panic!("{other:?}"),
            }
        }
    }

    /// What goes to a zone of a cluster.
    pub(super) fn load(&self, cluster: &str, zone: &str) -> Load {
        self.told[cluster].localities[&in_zone(zone)].load.clone()
    }
}

pub(super) fn in_zone(zone: &str) -> crate::load::Locality {
    crate::load::Locality { zone: zone.into(), ..crate::load::Locality::default() }
}

pub(super) fn per_second(count: u64) -> Rate {
    Rate(count * 1_000_000)
}

pub(super) fn cluster(name: &str, seconds: f64, localities: Vec<UpstreamLocalityStats>) -> ClusterStats {
    ClusterStats {
        cluster_name: name.into(),
        load_report_interval: Some(duration(seconds)),
        upstream_locality_stats: localities,
        ..ClusterStats::default()
    }
}

pub(super) fn duration(seconds: f64) -> prost_types::Duration {
    prost_types::Duration { seconds: seconds.trunc() as i64, nanos: (seconds.fract() * 1e9).round() as i32 }
}

/// So many requests issued to a zone; a tenth of them fails.
pub(super) fn zone(zone: &str, issued: u64) -> UpstreamLocalityStats {
    UpstreamLocalityStats {
        locality: Some(Locality { zone: zone.into(), ..Locality::default() }),
        total_issued_requests: issued,
        total_successful_requests: issued - issued / 10,
        total_error_requests: issued / 10,
        ..UpstreamLocalityStats::default()
    }
}

pub(super) fn endpoint(ip: &str, port: u32, issued: u64) -> UpstreamEndpointStats {
    let socket = SocketAddress {
        address: ip.into(),
        port_specifier: Some(socket_address::PortSpecifier::PortValue(port)),
        ..SocketAddress::default()
    };
    let address = Some(Address { address: Some(address::Address::SocketAddress(socket)) });
    UpstreamEndpointStats { address, total_issued_requests: issued, ..UpstreamEndpointStats::default() }
}

pub(super) fn metric(name: &str, count: u64, total: f64) -> EndpointLoadMetricStats {
    EndpointLoadMetricStats {
        metric_name: name.into(),
        num_requests_finished_with_metric: count,
        total_metric_value: total,
    }
}
