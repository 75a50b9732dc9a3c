//! The rules against a real Envoy 1.40 over a Unix socket, under requests.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::client::DEADLINE;
use super::proxy::{Backend, Envoy, Loop, free_address, get, wait_for};
use super::resources::{
    bad_host, bad_routes, cluster, endpoints, ghost, gone, host, listener, routes, routes_of_hosts,
};
use crate::{Change, Event, FleetUpdate, Server, TypeUrl};

/// Well below the 15 s after which Envoy makes do without what it waits for.
pub(super) const SOON: Duration = Duration::from_secs(12);

/// A server with its own runtime, an Envoy, and two backends.
pub(super) struct Stage {
    runtime: Runtime,
    server: Server,
    pub(super) events: Arc<Mutex<Vec<Event>>>,
    pub(super) envoy: Envoy,
    folder: TempDir,
    pub(super) at: SocketAddr,
    pub(super) a: Backend,
    pub(super) b: Backend,
    _told: Told,
}

/// Shows what was reported last if the test fails.
struct Told(Arc<Mutex<Vec<Event>>>);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Ok(events) = self.0.lock()
        {
            let last = events.get(events.len().saturating_sub(40)..).unwrap_or_default();
            let _told = writeln!(std::io::stderr(), "the last that was reported: {last:#?}");
        }
    }
}

pub(super) fn start_server(runtime: &Runtime, folder: &TempDir, events: &Arc<Mutex<Vec<Event>>>) -> Server {
    let (sender, mut receiver) = mpsc::channel::<Vec<Event>>(8);
    let seen = Arc::clone(events);
    runtime.spawn(async move {
        while let Some(batch) = receiver.recv().await {
            seen.lock().unwrap().extend(batch);
        }
    });
    let server = Server::start(runtime.handle(), sender);
    server.listen_unix(&folder.path().join("xds.sock"), "ns/gw".into()).unwrap();
    server
}

impl Stage {
    /// Cluster `a` with its endpoints, a listener, and these routes, until requests are answered.
    pub(super) fn new(more: Vec<Change>) -> Self {
        let stage = Self::begin(more);
        stage.wait("the fleet to be live", |event| matches!(event, Event::Live { .. }));
        let clients = stage.events.lock().unwrap().iter().filter(|e| matches!(e, Event::Connected { .. })).count();
        assert_eq!(clients, 1, "whatever the number of its streams");
        stage
    }

    /// The same, without waiting for anything.
    pub(super) fn begin(more: Vec<Change>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let events = Arc::default();
        let server = start_server(&runtime, &folder, &events);
        let (a, b, at) = (Backend::start("a"), Backend::start("b"), free_address());
        let envoy = Envoy::start(folder.path());
        let _told = Told(Arc::clone(&events));
        let stage = Self { runtime, server, events, envoy, folder, at, a, b, _told };
        let mut changes = vec![cluster("a", 1), endpoints("a", 1, stage.a.address), listener(at)];
        changes.extend(more);
        stage.publish(changes);
        stage
    }

    pub(super) fn publish(&self, changes: Vec<Change>) {
        self.server.publish(vec![FleetUpdate { fleet: "ns/gw".into(), changes }]);
    }

    /// Waits until something was reported.
    pub(super) fn wait(&self, what: &str, is_it: impl Fn(&Event) -> bool) {
        wait_for(what, SOON, || self.events.lock().unwrap().iter().any(&is_it));
    }

    pub(super) fn wait_for_routes(&self, number: u128) {
        self.wait(
            "the routes to be accepted",
            |event| matches!(event, Event::Accepted { type_url: TypeUrl::Route, version, .. } if version.0 == number),
        );
    }

    pub(super) fn wait_for_answer(&self, host: &str, answer: &str) {
        wait_for(answer, SOON, || get(self.at, host) == answer);
    }

    /// Another server in the place of this one, which nothing is published to yet.
    pub(super) fn restart(&mut self) {
        self.runtime.block_on(self.server.stop(DEADLINE));
        self.events.lock().unwrap().clear();
        self.server = start_server(&self.runtime, &self.folder, &self.events);
    }

    pub(super) fn end(self) {
        drop(self.envoy);
        self.runtime.block_on(self.server.stop(DEADLINE));
    }
}

/// Each of these stories over this transport.
macro_rules! over {
    ($transport:ident: $variant:expr, $aggregated:expr, [$($story:ident,)*]) => {
        mod $transport {
            use crate::wire::Variant;
            $(
                #[test]
                fn $story() {
                    crate::server::tests::proxy::Transport { variant: $variant, aggregated: $aggregated }.run(super::$story);
                }
            )*
        }
    };
}

pub(super) use over;

over!(delta_ads: Variant::Delta, true, [
    a_changed_cluster_is_active_at_once_and_loses_no_request,
    new_clusters_with_their_routes_and_removed_old_ones_lose_no_request,
    rapid_changes_that_nobody_waits_for_lose_no_request,
    many_hosts_come_by_vhds_change_one_by_one_and_go_back_inside,
    refused_routes_and_ghost_clusters_stop_nothing_else,
    a_restarted_server_resumes_without_a_lost_request_and_changes_go_on,
    a_first_start_with_nothing_and_with_missing_parts_is_ready,
    a_refused_first_route_configuration_is_told_and_the_next_one_serves,
    a_refused_first_host_is_told_and_the_next_one_serves,
]);

over!(sotw_ads: Variant::Sotw, true, [
    a_changed_cluster_is_active_at_once_and_loses_no_request,
    new_clusters_with_their_routes_and_removed_old_ones_lose_no_request,
    rapid_changes_that_nobody_waits_for_lose_no_request,
    refused_routes_and_ghost_clusters_stop_nothing_else,
    a_restarted_server_resumes_without_a_lost_request_and_changes_go_on,
    a_first_start_with_nothing_and_with_missing_parts_is_ready,
    a_refused_first_route_configuration_is_told_and_the_next_one_serves,
    many_hosts_come_by_vhds_change_one_by_one_and_go_back_inside,
    hosts_go_inside_and_out_again_and_a_refused_one_stops_nothing_else,
]);

over!(delta_for_each_kind: Variant::Delta, false, [
    hundreds_of_clusters_each_with_a_stream_of_its_own_change_at_once,
    a_changed_cluster_is_active_at_once_and_loses_no_request,
    rapid_changes_that_nobody_waits_for_lose_no_request,
    a_restarted_server_resumes_without_a_lost_request_and_changes_go_on,
]);

over!(sotw_for_each_kind: Variant::Sotw, false, [
    hundreds_of_clusters_each_with_a_stream_of_its_own_change_at_once,
    a_changed_cluster_is_active_at_once_and_loses_no_request,
    rapid_changes_that_nobody_waits_for_lose_no_request,
    a_restarted_server_resumes_without_a_lost_request_and_changes_go_on,
    many_hosts_come_by_vhds_change_one_by_one_and_go_back_inside,
]);

fn a_changed_cluster_is_active_at_once_and_loses_no_request() {
    let stage = Stage::new(vec![routes(1, "a")]);
    assert_eq!(get(stage.at, "any"), "200 a");
    let requests = Loop::start(stage.at, "any");
    for version in 2..12 {
        stage.publish(vec![cluster("a", version)]);
        stage.envoy.wait_for_cluster(version, SOON);
    }
    let (count, wrong) = requests.finish();
    assert_eq!(wrong, Vec::<String>::new(), "of {count}");
    stage.end();
}

fn new_clusters_with_their_routes_and_removed_old_ones_lose_no_request() {
    let stage = Stage::new(vec![routes(1, "a")]);
    let requests = Loop::start(stage.at, "any");
    let mut old = "a".to_owned();
    for round in 2..32 {
        let (new, backend) = (format!("new-{round}"), if round % 2 == 0 { &stage.b } else { &stage.a });
        stage.publish(vec![
            cluster(&new, 1),
            endpoints(&new, 1, backend.address),
            routes(round, &new),
            gone(TypeUrl::Cluster, &old),
            gone(TypeUrl::Endpoints, &old),
        ]);
        stage.wait_for_routes(round);
        let answer = if round % 2 == 0 { "200 b" } else { "200 a" };
        assert_eq!(get(stage.at, "any"), answer, "accepted means in effect");
        old = new;
    }
    let (count, wrong) = requests.finish();
    assert_eq!(wrong, Vec::<String>::new(), "of {count}");
    wait_for("the old clusters to be gone", SOON, || !stage.envoy.admin("/clusters").contains("new-30::"));
    stage.end();
}

fn rapid_changes_that_nobody_waits_for_lose_no_request() {
    let stage = Stage::new(vec![routes(1, "a")]);
    let requests = Loop::start(stage.at, "any");
    let mut old = "a".to_owned();
    for round in 2..400 {
        let backend = if round % 3 == 0 { stage.a.address } else { stage.b.address };
        let mut changes = vec![endpoints(&old, round, backend)];
        match round % 4 {
            0 => {
                let new = format!("c{}", round % 16);
                changes = vec![cluster(&new, round), endpoints(&new, round, backend), routes(round, &new)];
                if new != old {
                    changes.extend([gone(TypeUrl::Cluster, &old), gone(TypeUrl::Endpoints, &old)]);
                }
                old = new;
            }
            1 => changes.push(cluster(&old, round)),
            2 => changes.push(routes(round, &old)),
            _ => {}
        }
        stage.publish(changes);
        let answer = get(stage.at, "any");
        assert!(answer.starts_with("200"), "round {round}: {answer}");
    }
    stage.wait_for_routes(398);
    let (count, wrong) = requests.finish();
    assert_eq!(wrong, Vec::<String>::new(), "of {count}");
    let lost = stage
        .events
        .lock()
        .unwrap()
        .iter()
        .filter(|e| matches!(e, Event::Refused { .. } | Event::Stalled { .. }))
        .count();
    assert_eq!(lost, 0);
    stage.end();
}

fn hundreds_of_clusters_each_with_a_stream_of_its_own_change_at_once() {
    let names: Vec<String> = (0..200).map(|n| format!("many-{n}")).collect();
    let stage = Stage::new(vec![routes(1, "a")]);
    let all = |version| names.iter().map(move |name| cluster(name, version));
    stage.publish(names.iter().map(|name| endpoints(name, 1, stage.b.address)).chain(all(1)).collect());
    let requests = Loop::start(stage.at, "any");
    for (round, name) in (2..).zip([&names[0], &names[100], &names[199]]) {
        stage.publish(vec![routes(round, name)]);
        stage.wait_for_routes(round);
        assert_eq!(get(stage.at, "any"), "200 b");
    }
    // Envoy opens a stream for each new version before it ends that of the one before
    stage.publish(all(7).collect());
    wait_for("all clusters to be active in their new version", SOON, || {
        stage.envoy.admin("/config_dump?resource=dynamic_active_clusters").matches("\"2.000000007s\"").count() == 200
    });
    let moved = names.iter().map(|name| endpoints(name, 2, stage.a.address));
    stage.publish(moved.collect());
    stage.wait_for_answer("any", "200 a");
    wait_for("the endpoints of all of them to have moved", SOON, || {
        let at = format!("::{}::cx_active", stage.a.address);
        stage.envoy.admin("/clusters").lines().filter(|line| line.starts_with("many-") && line.contains(&at)).count()
            == 200
    });
    let (count, wrong) = requests.finish();
    assert_eq!(wrong, Vec::<String>::new(), "of {count}");
    stage.end();
}

fn many_hosts_come_by_vhds_change_one_by_one_and_go_back_inside() {
    let mut more = vec![routes_of_hosts(1)];
    more.extend((0..100).map(|n| host(&format!("h{n}.test"), 1, "a")));
    let stage = Stage::new(more);
    for n in [0, 42, 99] {
        assert_eq!(get(stage.at, &format!("h{n}.test")), "200 a");
    }
    assert!(get(stage.at, "other.test").starts_with("404"));
    let requests = Loop::start(stage.at, "h7.test");
    stage.publish(vec![
        cluster("b", 1),
        endpoints("b", 1, stage.b.address),
        host("h42.test", 2, "b"),
        host("more.test", 1, "b"),
    ]);
    stage.wait_for_answer("h42.test", "200 b");
    stage.wait_for_answer("more.test", "200 b");
    stage.publish(vec![gone(TypeUrl::VirtualHost, "r/h42.test")]);
    wait_for("the host to be gone", SOON, || get(stage.at, "h42.test").starts_with("404"));
    let mut inside = vec![routes(2, "b"), gone(TypeUrl::VirtualHost, "r/more.test")];
    inside.extend((0..100).map(|n| gone(TypeUrl::VirtualHost, &format!("r/h{n}.test"))));
    stage.publish(inside);
    stage.wait_for_answer("other.test", "200 b");
    let (count, wrong) = requests.finish();
    assert_eq!(wrong, Vec::<String>::new(), "of {count}");
    stage.end();
}

/// State of the world: the hosts of VHDS always stand inside.
fn hosts_go_inside_and_out_again_and_a_refused_one_stops_nothing_else() {
    let stage = Stage::new(vec![routes(1, "a")]);
    let requests = Loop::start(stage.at, "h7.test");
    let mut apart = vec![routes_of_hosts(2)];
    apart.extend((0..100).map(|n| host(&format!("h{n}.test"), 1, "a")));
    stage.publish(apart);
    wait_for("the host of all to be gone", SOON, || get(stage.at, "other.test").starts_with("404"));
    stage.publish(vec![bad_host("bad.test", 1)]);
    stage.wait("the configuration to be refused", refused(TypeUrl::Route));
    stage.publish(vec![cluster("b", 1), endpoints("b", 1, stage.b.address), cluster("a", 2)]);
    stage.envoy.wait_for_cluster(2, SOON);
    assert_eq!(get(stage.at, "h99.test"), "200 a");
    stage.publish(vec![host("bad.test", 2, "b")]);
    stage.wait_for_answer("bad.test", "200 b");
    stage.wait(
        "the host to be accepted",
        |event| matches!(event, Event::Accepted { type_url: TypeUrl::VirtualHost, name, .. } if &**name == "r/bad.test"),
    );
    let mut inside = vec![routes(3, "b"), gone(TypeUrl::VirtualHost, "r/bad.test")];
    inside.extend((0..100).map(|n| gone(TypeUrl::VirtualHost, &format!("r/h{n}.test"))));
    stage.publish(inside);
    stage.wait_for_answer("other.test", "200 b");
    let (count, wrong) = requests.finish();
    assert_eq!(wrong, Vec::<String>::new(), "of {count}");
    stage.end();
}

fn refused_routes_and_ghost_clusters_stop_nothing_else() {
    let stage = Stage::new(vec![routes(1, "a")]);
    let requests = Loop::start(stage.at, "any");
    stage.publish(vec![bad_routes(2)]);
    stage.wait(
        "the routes to be refused",
        |event| matches!(event, Event::Refused { type_url: TypeUrl::Route, text, .. } if text.contains("same.test")),
    );
    // a new and a changed ghost among good ones
    stage.publish(vec![
        ghost("g", 1),
        endpoints("g", 1, stage.b.address),
        cluster("b", 1),
        endpoints("b", 1, stage.b.address),
    ]);
    stage.publish(vec![ghost("a", 2)]);
    for ghost in ["g", "a"] {
        stage.wait(
            "the ghost to be refused",
            |event| matches!(event, Event::Refused { type_url: TypeUrl::Cluster, name, .. } if &**name == ghost),
        );
    }
    stage.publish(vec![routes(3, "b"), cluster("b", 2)]);
    stage.wait_for_routes(3);
    stage.envoy.wait_for_cluster(2, SOON);
    // the gate is open again: the next cluster's own acknowledgement arrives
    stage.publish(vec![cluster("a", 7)]);
    stage.envoy.wait_for_cluster(7, SOON);
    let (count, wrong) = requests.finish();
    assert_eq!(wrong, Vec::<String>::new(), "of {count}");
    stage.end();
}

fn a_restarted_server_resumes_without_a_lost_request_and_changes_go_on() {
    let mut stage = Stage::new(vec![routes(1, "a")]);
    let requests = Loop::start(stage.at, "any");
    stage.restart();
    stage.publish(vec![
        cluster("a", 2),
        endpoints("a", 1, stage.a.address),
        cluster("b", 1),
        endpoints("b", 1, stage.b.address),
        listener(stage.at),
        routes(2, "b"),
    ]);
    stage.wait_for_routes(2);
    stage.envoy.wait_for_cluster(2, SOON);
    assert_eq!(get(stage.at, "any"), "200 b");
    stage.wait("the fleet to be live again", |event| matches!(event, Event::Live { .. }));
    let (count, wrong) = requests.finish();
    assert_eq!(wrong, Vec::<String>::new(), "of {count}");
    stage.end();
}

fn a_first_start_with_nothing_and_with_missing_parts_is_ready() {
    let stage = Stage::new(Vec::new());
    // the listener has no routes to go with: it is not there, and nothing waits for it
    assert!(stage.envoy.admin("/ready").contains("LIVE"));
    stage.publish(vec![routes(1, "a")]);
    stage.wait_for_answer("any", "200 a");
    stage.end();
}

/// Whether a resource of this kind was refused.
fn refused(kind: TypeUrl) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Refused { type_url, .. } if *type_url == kind)
}

/// What a fleet that never was live is refused is told, and what mends it is served well before Envoy's 15 s.
fn a_refused_first_route_configuration_is_told_and_the_next_one_serves() {
    let stage = Stage::begin(vec![bad_routes(1)]);
    stage.wait("the routes to be refused", refused(TypeUrl::Route));
    stage.publish(vec![routes(2, "a")]);
    stage.wait_for_answer("any", "200 a");
    stage.wait("the fleet to be live", |event| matches!(event, Event::Live { .. }));
    stage.end();
}

fn a_refused_first_host_is_told_and_the_next_one_serves() {
    let stage = Stage::begin(vec![routes_of_hosts(1), host("good.test", 1, "a"), bad_host("bad.test", 1)]);
    stage.wait("the host to be refused", refused(TypeUrl::VirtualHost));
    stage.wait_for_answer("good.test", "200 a");
    stage.publish(vec![host("bad.test", 2, "a")]);
    stage.wait_for_answer("bad.test", "200 a");
    stage.wait("the fleet to be live", |event| matches!(event, Event::Live { .. }));
    stage.end();
}
