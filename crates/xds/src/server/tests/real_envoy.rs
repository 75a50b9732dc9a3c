//! The rules against a real Envoy 1.40 over a Unix socket, under requests.

use super::proxy::{Loop, get, wait_for};
use super::resources::{
    bad_host, bad_routes, cluster, endpoints, ghost, gone, host, host_of, listener, listener_of, routes,
    routes_of_hosts, routes_of_hosts_of,
};
use super::stage::{SOON, Stage, over};
use crate::{Event, TypeUrl};

over!(delta_ads: Variant::Delta, true, [
    a_changed_cluster_is_active_at_once_and_loses_no_request,
    new_clusters_with_their_routes_and_removed_old_ones_lose_no_request,
    rapid_changes_that_nobody_waits_for_lose_no_request,
    many_hosts_come_by_vhds_change_one_by_one_and_go_back_inside,
    hosts_go_apart_and_back_with_routes_of_another_name,
    refused_routes_and_ghost_clusters_stop_nothing_else,
    a_restarted_server_resumes_without_a_lost_request_and_changes_go_on,
    a_refused_first_route_configuration_is_told_and_the_next_one_serves,
    a_refused_first_host_is_told_and_the_next_one_serves,
]);

over!(sotw_ads: Variant::Sotw, true, [
    a_changed_cluster_is_active_at_once_and_loses_no_request,
    new_clusters_with_their_routes_and_removed_old_ones_lose_no_request,
    rapid_changes_that_nobody_waits_for_lose_no_request,
    refused_routes_and_ghost_clusters_stop_nothing_else,
    a_restarted_server_resumes_without_a_lost_request_and_changes_go_on,
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
    requests.lost_none();
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
    requests.lost_none();
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
    requests.lost_none();
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
    requests.lost_none();
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
    requests.lost_none();
    stage.end();
}

/// Under the same name Envoy would be without hosts from the routes that ask for them until the hosts have come, be it in the same write.
fn hosts_go_apart_and_back_with_routes_of_another_name() {
    let stage = Stage::new(vec![routes(1, "a"), cluster("b", 1)]);
    stage.publish(vec![endpoints("b", 1, stage.b.address)]);
    let requests = Loop::start(stage.at, "h7.test");
    for version in [2, 4, 6] {
        let mut apart = vec![routes_of_hosts_of("apart", 1), listener_of("l", version, "apart", stage.at)];
        apart.extend((0..100).map(|n| host_of("apart", &format!("h{n}.test"), 1, "b")));
        apart.push(gone(TypeUrl::Route, "r"));
        stage.publish(apart);
        stage.wait_for_answer("h7.test", "200 b");
        wait_for("the host of all to be gone", SOON, || get(stage.at, "other.test").starts_with("404"));
        let mut inside = vec![routes(version, "a"), listener_of("l", version + 1, "r", stage.at)];
        inside.push(gone(TypeUrl::Route, "apart"));
        inside.extend((0..100).map(|n| gone(TypeUrl::VirtualHost, &format!("apart/h{n}.test"))));
        stage.publish(inside);
        stage.wait_for_answer("h7.test", "200 a");
        stage.wait_for_answer("other.test", "200 a");
    }
    requests.lost_none();
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
    stage.wait("the host to be refused", refused(TypeUrl::VirtualHost));
    stage.publish(vec![cluster("b", 1), endpoints("b", 1, stage.b.address), cluster("a", 2), host("h99.test", 2, "b")]);
    stage.envoy.wait_for_cluster(2, SOON);
    stage.wait_for_answer("h99.test", "200 b");
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
    requests.lost_none();
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
    requests.lost_none();
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
    requests.lost_none();
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
