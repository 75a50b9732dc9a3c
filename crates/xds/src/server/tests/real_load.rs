//! Load reports of a real Envoy 1.40.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::client::DEADLINE;
use super::proxy::{Backend, Envoy, free_address, get, wait_for};
use super::resources::{cluster, endpoints, listener, routes, tcp_listener};
use super::stage::{server, socket};
use crate::load::{ClusterLoad, LoadReports, Rate};
use crate::{Change, Event, FleetUpdate, Server};

/// A server that asks for reports by endpoint, an Envoy that reports, a listener of HTTP to cluster `a` and one of TCP to `t`.
struct Stage {
    runtime: Runtime,
    server: Server,
    events: Arc<Mutex<Vec<Event>>>,
    envoy: Option<Envoy>,
    _folder: TempDir,
    http: SocketAddr,
    tcp: SocketAddr,
    backend: Backend,
}

impl Stage {
    fn new(interval: Duration) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let events = Arc::default();
        let server = server(&runtime, &events);
        server.listen_unix(&socket(folder.path()), "ns/gw".into(), None).unwrap();
        let (backend, http, tcp) = (Backend::start("a"), free_address(), free_address());
        let envoy = Some(Envoy::start(folder.path(), &socket(folder.path())));
        let stage = Self { runtime, server, events, envoy, _folder: folder, http, tcp, backend };
        stage.ask(interval);
        stage.publish(vec![
            cluster("a", 1),
            endpoints("a", 1, stage.backend.address),
            cluster("t", 1),
            endpoints("t", 1, stage.backend.address),
            listener(http),
            routes(1, "a"),
            tcp_listener(tcp, "t"),
        ]);
        wait_for("the fleet to be live", DEADLINE, || {
            stage.events.lock().unwrap().iter().any(|event| matches!(event, Event::Live { .. }))
        });
        // what comes before Envoy counts is not reported
        wait_for("the clusters to be reported", DEADLINE, || stage.last("a").is_some() && stage.last("t").is_some());
        stage
    }

    fn ask(&self, interval: Duration) {
        let mut reports = LoadReports::every(interval);
        reports.endpoints = true;
        self.server.ask_for_loads(Some(reports));
    }

    fn publish(&self, changes: Vec<Change>) {
        self.server.publish(vec![FleetUpdate { fleet: "ns/gw".into(), changes }]);
    }

    /// All that was told of a cluster, in order.
    fn told(&self, name: &str) -> Vec<Option<Arc<ClusterLoad>>> {
        let told = |event: &Event| match event {
            Event::Load { cluster, load, .. } if &**cluster == name => Some(load.clone()),
            _ => None,
        };
        self.events.lock().unwrap().iter().filter_map(told).collect()
    }

    /// The last that was told.
    fn last(&self, name: &str) -> Option<Arc<ClusterLoad>> {
        self.told(name).pop().flatten()
    }

    /// All requests that were told of a cluster. An Envoy that had no time for three intervals is counted from 0 again.
    fn requests(&self, name: &str) -> u64 {
        let (mut all, mut before) = (0, 0);
        for load in self.told(name) {
            let now = load.map_or(0, |load| load.requests);
            all += now.checked_sub(before).unwrap_or(now);
            before = now;
        }
        all
    }

    /// Sends requests until they are told; none is lost or told twice.
    fn request(&self, count: u64) {
        let before = self.requests("a");
        for _ in 0..count {
            assert_eq!(get(self.http, "any"), "200 a");
        }
        let start = std::time::Instant::now();
        while self.requests("a") < before + count {
            assert!(start.elapsed() < DEADLINE, "{before} + {count}: {:#?}", self.told("a"));
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(self.requests("a"), before + count);
    }
}

/// The rate of all requests to a cluster.
fn issued(load: &ClusterLoad) -> Rate {
    load.localities.values().map(|locality| locality.load.issued).max().unwrap_or_default()
}

/// What each report was about: so many requests at that rate are so many seconds.
fn periods(told: &[Option<Arc<ClusterLoad>>]) -> Vec<f64> {
    let told: Vec<_> = told.iter().flatten().collect();
    let pairs =
        told.windows(2).map(|pair| (pair[1].requests.saturating_sub(pair[0].requests), issued(pair[1]).per_second()));
    pairs.filter(|(requests, _)| *requests > 0).map(|(requests, rate)| requests as f64 / rate).collect()
}

#[test]
fn requests_are_counted_exactly_by_endpoint_and_in_intervals_that_can_change() {
    let mut stage = Stage::new(Duration::from_secs(1));
    for _ in 0..3 {
        stage.request(40);
    }
    assert_eq!(stage.requests("a"), 120);
    let told = stage.told("a");
    assert!(periods(&told).iter().all(|period| *period > 0.99), "{:?}", periods(&told));
    let busy = told.iter().flatten().filter(|load| issued(load) > Rate(0));
    for locality in busy.flat_map(|load| load.localities.values()) {
        let endpoint = &locality.endpoints[&*stage.backend.address.to_string()];
        assert_eq!((endpoint.issued, endpoint.succeeded), (locality.load.issued, locality.load.succeeded));
    }
    stage.ask(Duration::from_millis(1500));
    // the first report after it may be about less
    stage.request(1);
    let asked = stage.told("a").len() - 1;
    stage.request(20);
    let later = periods(&stage.told("a")[asked..]);
    assert!(!later.is_empty() && later.iter().all(|period| *period > 1.49), "{later:?}");
    drop(stage.envoy.take());
    wait_for("the lost stream to be no data", DEADLINE, || stage.told("a").last() == Some(&None));
    stage.runtime.block_on(stage.server.stop(DEADLINE));
}

#[test]
fn connections_of_a_tcp_proxy_are_issued_and_in_progress() {
    let mut stage = Stage::new(Duration::from_secs(1));
    let in_progress = || {
        let load = stage.last("t")?;
        load.localities.values().map(|locality| locality.load.in_progress).max()
    };
    let mut connections: Vec<_> = (0..3).map(|_| TcpStream::connect(stage.tcp).unwrap()).collect();
    wait_for("three live connections", DEADLINE, || in_progress() == Some(3));
    connections.pop();
    wait_for("two live connections", DEADLINE, || in_progress() == Some(2));
    assert_eq!(stage.requests("t"), 3);
    for load in stage.told("t").iter().flatten().flat_map(|load| load.localities.values()) {
        assert_eq!((load.load.succeeded, load.load.failed), (Rate(0), Rate(0)));
    }
    drop(stage.envoy.take());
    stage.runtime.block_on(stage.server.stop(DEADLINE));
}
