//! Clients other than Envoy that are in wide use: gRPC of Python (C-core), Node and Go, which ask by SotW over one stream, for exact
//! names, and report loads by locality. C-core and Go pass on what endpoints say of themselves (ORCA) too.

mod client;
mod resources;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tests::grpc_clients::{Client, Language};
use tokio::runtime::Runtime;

use self::client::{Backend, start};
use self::resources::{bad_endpoints, cluster, endpoints, listener, routes};
use super::super::services;
use super::client::DEADLINE;
use super::proxy::{free_address, wait_for};
use super::resources::gone;
use crate::load::{ClusterLoad, LoadReports};
use crate::server::{Gate, Limits};
use crate::{Change, Event, FleetUpdate, Server, TypeUrl};

/// Each test with each client.
macro_rules! with {
    ($($module:ident: $language:expr),* => $tests:tt) => { $( with!(one $module $language, $tests); )* };
    (one $module:ident $language:expr, [$($test:ident),* $(,)?]) => {
        mod $module {
            $( #[test] fn $test() { super::$test($language) } )*
        }
    };
}

with!(python: super::Language::Python, node: super::Language::Node, go: super::Language::Go => [
    calls_go_by_weight_and_are_reported_one_by_one,
    changes_of_endpoints_and_routes_are_followed_without_a_lost_call,
    calls_go_on_without_a_server_and_the_next_one_is_followed,
    a_target_that_is_not_there_is_told_so_and_works_when_it_comes,
    refused_endpoints_are_told_and_stop_nothing_else,
    a_server_at_a_unix_socket_is_used,
]);

#[test]
fn a_client_that_knows_nothing_learns_every_service_from_the_server_and_can_call_it() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (server, at) = start_server(&runtime, &Arc::default(), "127.0.0.1:0".parse().unwrap());
    server.describe(include_bytes!("../../../../protojson/descriptors/envoy.binpb"));
    assert!(client::reflected(at).iter().eq(services::names().collect::<Vec<_>>()));
    runtime.block_on(server.stop(DEADLINE));
}

/// A server, a client of the fleet `mesh`, and backends whose queues are as long as they are far.
struct Stage {
    runtime: Runtime,
    server: Server,
    at: SocketAddr,
    events: Arc<Mutex<Vec<Event>>>,
    client: Client,
    _folder: TempDir,
    near: Backend,
    far: Backend,
    third: Backend,
}

impl Stage {
    /// The target `shop.test` is cluster `c`, a third of it in the zone `near`, and two thirds in `far`.
    fn new(language: Language) -> Self {
        Self::with(language, "", false)
    }

    /// The same with a client that is told these features of the server, perhaps of a server at a Unix socket.
    fn with(language: Language, features: &str, unix: bool) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let events = Arc::default();
        let (server, at) = start_server(&runtime, &events, free_address());
        let backend = |name, queue| Backend::start(&runtime, name, queue);
        let (near, far, third) = (backend("near", 3.0), backend("far", 7.0), backend("third", 0.0));
        let folder = tempfile::tempdir().unwrap();
        let uri = if unix { over_unix(&server, folder.path()) } else { at.to_string() };
        let client = start(language, folder.path(), &uri, features);
        let stage = Self { runtime, server, at, events, client, _folder: folder, near, far, third };
        stage.publish(stage.all(1));
        stage
    }

    fn all(&self, version: u128) -> Vec<Change> {
        let endpoints = endpoints("c", version, &self.zones());
        vec![listener("shop.test"), routes("shop.test", version, "c"), cluster("c", version), endpoints]
    }

    fn zones(&self) -> [(&'static str, u32, SocketAddr); 2] {
        [("near", 1, self.near.address), ("far", 2, self.far.address)]
    }

    fn publish(&self, changes: Vec<Change>) {
        self.server.publish(vec![FleetUpdate { fleet: "mesh".into(), changes }]);
    }

    /// Calls, all of which are answered: by whom, how often.
    fn call(&mut self, count: u64) -> BTreeMap<String, u64> {
        let answers = self.client.call("shop.test", count).unwrap();
        let known = |name: &String| ["near", "far", "third"].contains(&&**name);
        assert!(answers.keys().all(known), "{answers:?}");
        answers
    }

    /// Calls until these alone answer; no call is lost meanwhile.
    fn call_until(&mut self, names: &[&str]) {
        let start = std::time::Instant::now();
        while !self.call(64).keys().eq(names) {
            assert!(start.elapsed() < DEADLINE, "waited for {names:?}");
        }
    }

    /// Calls a target until the answers are right.
    fn client_until(&mut self, target: &str, is_right: impl Fn(&BTreeMap<String, u64>) -> bool) {
        let start = std::time::Instant::now();
        loop {
            let answers = self.client.call(target, 64).unwrap();
            if is_right(&answers) {
                return;
            }
            assert!(start.elapsed() < DEADLINE, "{answers:?}");
        }
    }

    /// All that was told of the cluster's load, in order.
    fn told(&self) -> Vec<Option<Arc<ClusterLoad>>> {
        let told = |event: &Event| match event {
            Event::Load { cluster, load, .. } if &**cluster == "c" => Some(load.clone()),
            _ => None,
        };
        self.events.lock().unwrap().iter().filter_map(told).collect()
    }

    /// Requests that were told since the first `from` reports, by zone. What is told are rates: so many requests in all are so many
    /// seconds.
    fn counted(&self, from: usize) -> (u64, BTreeMap<String, u64>) {
        let (mut all, mut before, mut zones) = (0, 0, BTreeMap::new());
        for (number, load) in self.told().iter().enumerate() {
            let Some(load) = load else {
                before = 0;
                continue;
            };
            let new = load.requests - before;
            before = load.requests;
            let issued = |load: &crate::load::LocalityLoad| load.load.issued.per_second();
            let rate: f64 = load.localities.values().map(issued).sum();
            if number < from || new == 0 {
                continue;
            }
            all += new;
            for (locality, load) in &load.localities {
                *zones.entry(locality.zone.to_string()).or_default() +=
                    (issued(load) * new as f64 / rate).round() as u64;
            }
        }
        (all, zones)
    }

    fn end(self) {
        drop(self.client);
        self.runtime.block_on(self.server.stop(DEADLINE));
    }
}

fn start_server(runtime: &Runtime, events: &Arc<Mutex<Vec<Event>>>, at: SocketAddr) -> (Server, SocketAddr) {
    let server = super::stage::server(runtime, events);
    // as often as C-core is willing to
    server.ask_for_loads(Some(LoadReports::every(Duration::from_secs(1))));
    let at = server.listen_tcp(at, Gate::of("mesh".into(), None, Limits::default())).unwrap();
    (server, at)
}

/// Where the server listens besides.
fn over_unix(server: &Server, folder: &Path) -> String {
    let path = folder.join("xds.sock");
    server.listen_unix(&path, "mesh".into(), None).unwrap();
    format!("unix:{}", path.display())
}

/// C-core names the socket in `:authority`, percent-encoded.
fn a_server_at_a_unix_socket_is_used(language: Language) {
    let mut stage = Stage::with(language, "", true);
    stage.call_until(&["far", "near"]);
    stage.publish(vec![endpoints("c", 2, &[("near", 1, stage.third.address)])]);
    stage.call_until(&["third"]);
    stage.end();
}

fn calls_go_by_weight_and_are_reported_one_by_one(language: Language) {
    let mut stage = Stage::new(language);
    let mut answers = stage.call(3000);
    wait_for("the calls to be told", DEADLINE, || stage.counted(0).0 == 3000);
    // a third of 3,000 has a standard deviation of 26
    assert!((800..1200).contains(&answers["near"]), "{answers:?}");
    // two reports may be told as one that has the rates of the last only, if this machine has no time: not three times in a row
    for attempt in 0..3 {
        let from = stage.told().len();
        answers = stage.call(300);
        wait_for("the calls to be told", DEADLINE, || stage.counted(from).0 == 300);
        if stage.counted(from).1 == answers {
            break;
        }
        assert!(attempt < 2, "{answers:?}, told {:?}", stage.counted(from).1);
    }
    for load in stage.told().iter().flatten() {
        assert_eq!(load.reporters, 1);
        for (locality, load) in &load.localities {
            assert_eq!((&*locality.region, load.load.failed.0), ("here", 0));
            let metrics: Vec<_> = load.load.metrics.iter().collect();
            match metrics.as_slice() {
                [] => assert!(language == Language::Node || load.load.succeeded.0 == 0, "{load:?}"),
                [(name, metric)] => {
                    let queue: u64 = if &*locality.zone == "near" { 3_000_000 } else { 7_000_000 };
                    assert_eq!((&***name, metric.requests), ("named_metrics.queue", load.load.succeeded));
                    assert!(metric.mean.abs_diff(queue) <= 1, "{load:?}");
                }
                metrics => panic!("{metrics:?}"),
            }
        }
    }
    stage.end();
}

fn changes_of_endpoints_and_routes_are_followed_without_a_lost_call(language: Language) {
    let mut stage = Stage::new(language);
    stage.call_until(&["far", "near"]);
    let only = |zone, at| [(zone, 1, at)];
    stage.publish(vec![endpoints("c", 2, &only("near", stage.third.address))]);
    stage.call_until(&["third"]);
    stage.publish(vec![endpoints("c", 3, &only("far", stage.far.address))]);
    stage.call_until(&["far"]);
    // clusters that come and go with the route that names them
    let mut old = "c".to_owned();
    for turn in 2..12 {
        let (new, backend) = (format!("c{turn}"), if turn % 2 == 0 { &stage.near } else { &stage.third });
        let name = if turn % 2 == 0 { "near" } else { "third" };
        stage.publish(vec![
            cluster(&new, 1),
            endpoints(&new, 1, &only("near", backend.address)),
            routes("shop.test", turn, &new),
            gone(TypeUrl::Cluster, &old),
            gone(TypeUrl::Endpoints, &old),
        ]);
        stage.call_until(&[name]);
        old = new;
    }
    stage.end();
}

fn calls_go_on_without_a_server_and_the_next_one_is_followed(language: Language) {
    let mut stage = Stage::new(language);
    stage.call_until(&["far", "near"]);
    stage.runtime.block_on(stage.server.stop(DEADLINE));
    for _ in 0..10 {
        stage.call(100);
    }
    stage.events.lock().unwrap().clear();
    (stage.server, _) = start_server(&stage.runtime, &stage.events, stage.at);
    stage.publish(stage.all(1));
    stage.publish(vec![endpoints("c", 2, &[("near", 1, stage.third.address)])]);
    stage.call_until(&["third"]);
    stage.publish(vec![cluster("d", 1), endpoints("d", 1, &stage.zones()), routes("shop.test", 2, "d")]);
    stage.call_until(&["far", "near"]);
    wait_for("loads to be told again", DEADLINE, || stage.counted(0).0 > 0);
    stage.end();
}

fn a_target_that_is_not_there_is_told_so_and_works_when_it_comes(language: Language) {
    // without it C-core goes on with a listener that is gone (gRFC A88)
    let mut stage = Stage::with(language, r#""fail_on_data_errors""#, false);
    stage.client.begin("late.test", 1).unwrap();
    // Node and Go read no `resource_errors`: they wait until their own time-out
    if language == Language::Python {
        let answers = stage.client.answers().unwrap();
        assert!(answers.keys().all(|answer| is_unavailable(answer)), "{answers:?}");
        stage.call(10);
    }
    stage.publish(vec![listener("late.test"), routes("late.test", 1, "c")]);
    if language != Language::Python {
        assert!(stage.client.answers().unwrap().keys().all(|answer| ["near", "far"].contains(&&**answer)));
    }
    stage.client_until("late.test", |answers| answers.keys().eq(["far", "near"]));
    stage.publish(vec![gone(TypeUrl::Listener, "late.test"), gone(TypeUrl::Route, "late.test")]);
    stage.client_until("late.test", |answers| answers.keys().all(|answer| is_unavailable(answer)));
    stage.call(10);
    stage.end();
}

fn is_unavailable(answer: &str) -> bool {
    answer.starts_with("UNAVAILABLE ")
}

fn refused_endpoints_are_told_and_stop_nothing_else(language: Language) {
    let mut stage = Stage::new(language);
    stage.call_until(&["far", "near"]);
    stage.publish(vec![bad_endpoints("c", 2, &[("near", 1, stage.third.address)])]);
    wait_for("the endpoints to be refused", DEADLINE, || {
        let refused = |event: &Event| matches!(event, Event::Refused { name, .. } if &**name == "c");
        stage.events.lock().unwrap().iter().any(refused)
    });
    stage.call_until(&["far", "near"]);
    stage.publish(vec![
        cluster("d", 1),
        endpoints("d", 1, &[("near", 1, stage.far.address)]),
        routes("shop.test", 2, "d"),
    ]);
    stage.call_until(&["far"]);
    stage.publish(vec![endpoints("c", 3, &[("near", 1, stage.third.address)]), routes("shop.test", 3, "c")]);
    stage.call_until(&["third"]);
    stage.end();
}
