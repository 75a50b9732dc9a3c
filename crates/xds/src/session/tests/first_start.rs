//! First starts and resumed streams.

use super::super::time::GRACE;
use super::rig::{Rig, request};

const SMALL: &str = "cds a; eds a; lds l -> r; rds r -> a";

#[test]
fn a_first_start_goes_in_envoys_own_order() {
    let mut rig = Rig::new(SMALL);
    assert_eq!(rig.subscribe("cds", &[]), "CDS a@1");
    assert_eq!(rig.subscribe("eds", &["a"]), "EDS a@1");
    assert_eq!(rig.ack("cds"), "");
    assert_eq!(rig.ack("eds"), "");
    assert_eq!(rig.subscribe("lds", &[]), "LDS l@1");
    assert_eq!(rig.subscribe("rds", &["r"]), "RDS r@1");
    assert_eq!(rig.ack("lds"), "");
    assert_eq!(rig.events(), "connected envoy, warm a");
    assert_eq!(rig.ack("rds"), "");
    assert_eq!(rig.events(), "accepted rds r@1, accepted lds l@1, live");
    assert_eq!(rig.deadline(), None);
}

#[test]
fn nobody_is_answered_before_the_first_publication() {
    let mut rig = Rig::new("");
    rig.fleet = crate::fleet::Fleet::new("ns/gw".into());
    rig.clients.clear();
    rig.connect("envoy");
    assert_eq!(rig.subscribe("cds", &[]), "");
    assert_eq!(rig.publish("cds a; eds a"), "CDS a@1");
}

#[test]
fn without_clusters_and_listeners_the_answers_are_empty() {
    let mut rig = Rig::new("");
    assert_eq!(rig.subscribe("cds", &[]), "CDS");
    assert_eq!(rig.subscribe("lds", &[]), "LDS");
    assert_eq!(rig.ack_all(0), "");
    assert_eq!(rig.events(), "connected envoy, live");
}

#[test]
fn an_unknown_endpoint_set_is_answered_with_an_empty_one_and_later_with_the_real_one() {
    let mut rig = Rig::new("cds a");
    rig.subscribe("cds", &[]);
    assert_eq!(rig.subscribe("eds", &["a"]), "EDS a@none");
    rig.ack_all(0);
    assert_eq!(rig.publish("eds a@3"), "EDS a@3");
}

#[test]
fn an_unknown_route_configuration_is_empty_before_the_first_ready_and_removed_later() {
    let mut rig = Rig::new("");
    rig.subscribe("cds", &[]);
    rig.subscribe("lds", &[]);
    assert_eq!(rig.subscribe("rds", &["r"]), "RDS r@none");
    rig.ack_all(0);
    assert_eq!(rig.subscribe("rds", &["s"]), "RDS -s");
    rig.ack_all(0);
    assert_eq!(rig.publish("rds s@2; rds r@2"), "RDS r@2 s@2");
}

#[test]
fn an_unknown_secret_is_not_answered_before_it_exists() {
    let mut rig = Rig::new("");
    rig.subscribe("cds", &[]);
    assert_eq!(rig.subscribe("sds", &["s"]), "");
    assert_eq!(rig.publish("sds s@2"), "SDS s@2");
}

#[test]
fn a_listener_whose_parts_are_not_there_is_not_sent_before_they_are() {
    let mut rig = Rig::new("lds l -> r; lds t -> q, sds:s; rds q");
    rig.subscribe("cds", &[]);
    assert_eq!(rig.subscribe("lds", &[]), "LDS");
    rig.ack_all(0);
    assert_eq!(rig.events(), "connected envoy, live");
    assert_eq!(rig.publish("rds r"), "LDS l@1");
    assert_eq!(rig.publish("sds s"), "LDS t@1 | SDS s@1");
}

#[test]
fn a_resumed_stream_costs_nothing_when_nothing_changed() {
    let mut rig = Rig::new(SMALL);
    assert_eq!(rig.resume("cds", &[], &["a@1"]), "");
    assert_eq!(rig.resume("eds", &["a"], &["a@1"]), "");
    assert_eq!(rig.resume("lds", &[], &["l@1"]), "");
    assert_eq!(rig.resume("rds", &["r"], &["r@1"]), "");
    assert_eq!(rig.events(), "connected envoy, warm a, accepted rds r@1, accepted lds l@1, live");
}

#[test]
fn on_a_resumed_stream_what_changed_is_sent_and_what_vanished_is_removed() {
    let mut rig = Rig::new("cds a@2; cds b; eds a; eds b; lds l -> r; rds r@2 -> a");
    assert_eq!(rig.resume("cds", &[], &["a@1", "b@1", "gone@1"]), "CDS a@2 | EDS a@1");
    assert_eq!(rig.resume("eds", &["a", "b"], &["a@1", "b@1"]), "");
    // what the routes of the client name is not known before it speaks of them
    assert_eq!(rig.resume("lds", &[], &["l@1", "old@1"]), "");
    assert_eq!(rig.resume("rds", &["r"], &["r@1"]), "RDS r@2");
    assert_eq!(rig.ack_all(0), "LDS -old");
    // what connections of an earlier time may use stays for theirs
    rig.ack_all(0);
    assert_eq!(rig.pass(59_999), "");
    assert_eq!(rig.pass(1), "CDS -gone");
}

#[test]
fn endpoints_are_answered_before_clusters_are_asked_for() {
    let mut rig = Rig::new("cds a; cds b; eds a; eds b@2; rds r@2 -> a, b");
    // a cluster that warms waits for its endpoints, whatever version of them the client lists
    assert_eq!(rig.resume("eds", &["a", "b"], &["a@1"]), "EDS a@1 b@2");
    // what the client has is not known before it asks for clusters, so its routes wait
    assert_eq!(rig.resume("rds", &["r"], &["r@1"]), "");
    rig.ack_all(0);
    assert_eq!(rig.resume("cds", &[], &["a@1", "b@1"]), "RDS r@2");
}

#[test]
fn endpoints_that_went_while_the_server_was_away_are_not_emptied_under_routes_that_have_not_moved_yet() {
    let mut rig = Rig::new("cds a; cds new; eds a; eds new; lds l -> r; rds r@2 -> new");
    assert_eq!(rig.resume("eds", &["a", "new", "old"], &["a@1", "old@1"]), "EDS a@1 new@1");
    assert_eq!(rig.resume("lds", &[], &["l@1"]), "");
    assert_eq!(rig.resume("rds", &["r"], &["r@1"]), "");
    assert_eq!(rig.ack_all(0), "");
    assert_eq!(rig.resume("cds", &[], &["a@1", "new@1", "old@1"]), "RDS r@2");
    assert_eq!(rig.ack_all(0), "");
    assert_eq!(rig.pass(60_000), "CDS -old");
}

#[test]
fn a_route_configuration_without_any_host_is_not_waited_for() {
    let mut rig = Rig::new("cds a; eds a; lds l -> v; rds v");
    rig.subscribe("cds", &[]);
    rig.subscribe("eds", &["a"]);
    rig.subscribe("lds", &[]);
    rig.ack_all(0);
    assert_eq!(rig.subscribe("rds", &["v"]), "RDS v@1 | VHDS -v/none");
    rig.ack_all(0);
    assert_eq!(rig.publish("vhds v/h -> a"), "VHDS v/h@1");
    rig.ack_all(0);
    assert_eq!(rig.publish("-vhds v/h"), "VHDS -v/h");
}

#[test]
fn who_comes_again_with_a_route_configuration_without_hosts_is_told_so_again() {
    let mut rig = Rig::new("cds a; eds a; lds l -> v; rds v");
    rig.resume("cds", &[], &["a@1"]);
    rig.resume("eds", &["a"], &["a@1"]);
    rig.resume("lds", &[], &["l@1"]);
    assert_eq!(rig.resume("rds", &["v"], &["v@1"]), "VHDS -v/none");
    assert_eq!(rig.ack_all(0), "");
}

#[test]
fn a_stream_without_clusters_is_not_kept_waiting_for_them() {
    let mut rig = Rig::new("rds r -> a; cds a");
    assert_eq!(rig.subscribe("rds", &["r"]), "RDS r@1");
}

#[test]
fn foreign_versions_are_replaced() {
    let mut rig = Rig::new("cds a; eds a");
    assert_eq!(rig.resume("cds", &[], &["a@v1"]), "CDS a@1 | EDS a@1");
}

#[test]
fn the_first_listeners_wait_for_clusters_that_are_about_to_be_acknowledged() {
    let mut rig = Rig::new(SMALL);
    rig.subscribe("cds", &[]);
    rig.subscribe("eds", &["a"]);
    assert_eq!(rig.subscribe("lds", &[]), "");
    assert_eq!(rig.ack("cds"), "LDS l@1");
}

#[test]
fn a_cluster_that_cannot_be_sent_is_reported_at_once() {
    let mut rig = Rig::new("cds a -> sds:ca; cds b; eds a; eds b");
    assert_eq!(rig.subscribe("cds", &[]), "CDS b@1");
    assert_eq!(rig.events(), "connected envoy, stalled a");
    rig.subscribe("eds", &["b"]);
    rig.ack_all(0);
    rig.subscribe("lds", &[]);
    assert_eq!(rig.ack_all(0), "");
    assert_eq!(rig.events(), "warm b, live");
    assert_eq!(rig.publish("sds ca"), "CDS a@1 | EDS a@1 | SDS ca@1");
}

#[test]
fn too_many_names_end_the_stream() {
    let mut rig = Rig::new("");
    let names: Vec<String> = (0..super::super::subscribe::MOST_NAMES + 1).map(|n| n.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let session = &mut rig.clients[0].session;
    let refused = session.receive(&mut rig.fleet, request("eds", &names, &[]), rig.now);
    assert_eq!(refused, Err(crate::session::Violation::TooManyNames(super::super::subscribe::MOST_NAMES)));
    let refused = session.receive(&mut rig.fleet, request("eds", &[], &names), rig.now);
    assert_eq!(refused, Err(crate::session::Violation::TooManyNames(super::super::subscribe::MOST_NAMES)));
}

#[test]
fn names_that_are_too_long_together_end_the_stream_and_unsubscribing_makes_room() {
    let mut rig = Rig::new("");
    let long = "n".repeat(4000);
    let names: Vec<String> = (0..10_000).map(|n| format!("{long}{n:05}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let session = &mut rig.clients[0].session;
    for _ in 0..3 {
        assert_eq!(session.receive(&mut rig.fleet, request("eds", &names, &[]), rig.now), Ok(()));
        assert_eq!(session.receive(&mut rig.fleet, request("eds", &[], &names), rig.now), Ok(()));
    }
    assert_eq!(session.receive(&mut rig.fleet, request("eds", &names, &[]), rig.now), Ok(()));
    let refused = session.receive(&mut rig.fleet, request("sds", &names, &[]), rig.now);
    assert_eq!(refused, Err(crate::session::Violation::NamesTooLong(super::super::subscribe::MOST_NAME_BYTES)));
}

#[test]
fn a_client_that_comes_again_and_does_not_ask_for_clusters_is_told_of_them_unasked() {
    let mut rig = Rig::new("cds a@2; eds a");
    assert_eq!(rig.resume("eds", &["a"], &["a@1"]), "EDS a@1");
    assert_eq!(rig.ack_all(0), "");
    assert_eq!(rig.deadline(), Some(5_000));
    assert_eq!(rig.pass(5_000), "CDS a@2 | EDS a@1");
    assert_eq!(rig.ack("eds"), "");
    // what warmed for so long is warm: now it says what it has
    assert_eq!(rig.resume("cds", &[], &["a@2", "old@1"]), "");
    assert_eq!(rig.ack("cds"), "");
    assert_eq!(rig.pass(60_000), "CDS -old");
}

/// With two ordinary clusters and one that takes its time, which routes of the first listener name.
const SLOW: &str = "cds a; eds a; cds slow !apart; lds l -> r; rds r -> a, slow";

#[test]
fn clusters_apart_go_out_when_envoy_asks_for_listeners() {
    let mut rig = Rig::new(SLOW);
    assert_eq!(rig.subscribe("cds", &[]), "CDS a@1");
    assert_eq!(rig.subscribe("eds", &["a"]), "EDS a@1");
    assert_eq!(rig.ack_all(0), "");
    assert_eq!(rig.subscribe("lds", &[]), "CDS slow@1");
    assert_eq!(rig.ack("cds"), "LDS l@1");
    assert_eq!(rig.subscribe("rds", &["r"]), "RDS r@1");
    assert_eq!(rig.ack_all(0), "");
    assert_eq!(rig.events(), "connected envoy, warm a, warm slow, accepted rds r@1, accepted lds l@1, live");
}

#[test]
fn envoy_is_answered_before_it_has_clusters_apart_only() {
    let mut rig = Rig::new("cds slow !apart; lds l -> r; rds r -> slow");
    assert_eq!(rig.subscribe("cds", &[]), "CDS");
    assert_eq!(rig.ack("cds"), "");
    assert_eq!(rig.subscribe("lds", &[]), "CDS slow@1");
    assert_eq!(rig.ack("cds"), "LDS l@1");
}

#[test]
fn first_listeners_wait_a_while_for_clusters_apart() {
    let mut rig = Rig::new(SLOW);
    rig.subscribe("cds", &[]);
    rig.subscribe("eds", &["a"]);
    rig.ack_all(0);
    assert_eq!(rig.subscribe("lds", &[]), "CDS slow@1");
    assert_eq!(rig.deadline(), Some(1_500));
    assert_eq!(rig.pass(1_499), "");
    assert_eq!(rig.pass(1), "LDS l@1");
    assert_eq!(rig.subscribe("rds", &["r"]), "RDS r@1");
    assert_eq!(rig.ack("lds"), "");
    assert_eq!(rig.ack("rds"), "");
    assert_eq!(rig.events(), "connected envoy, warm a, stalled slow, accepted rds r@1, accepted lds l@1, live");
    // what names it anew waits as ever
    assert_eq!(rig.publish("rds r@2 -> slow"), "RDS r@2");
    assert_eq!(rig.ack("rds"), "");
    assert_eq!(rig.publish("cds new !apart; rds s -> new; lds m -> s"), "CDS new@1");
    assert_eq!(rig.ack("cds"), "");
    assert_eq!(rig.events(), "accepted rds r@2, warm slow, stalled no more slow");
    assert_eq!(rig.ack("cds"), "LDS m@1");
}

#[test]
fn first_listeners_wait_for_secrets_of_clusters_while_envoy_has_more_to_say() {
    let mut rig = Rig::new("cds a -> sds:k !apart; eds a; sds k; lds l -> r; rds r -> a");
    rig.subscribe("cds", &[]);
    rig.ack_all(0);
    assert_eq!(rig.subscribe("lds", &[]), "CDS a@1");
    // it has not come to this cluster yet
    assert_eq!(rig.pass(2_000), "");
    assert_eq!(rig.subscribe("eds", &["a"]), "EDS a@1");
    assert_eq!(rig.pass(2_000), "");
    assert_eq!(rig.subscribe("sds", &["k"]), "SDS k@1");
    assert_eq!(rig.ack("eds"), "");
    assert_eq!(rig.ack("sds"), "LDS l@1");
    assert_eq!(rig.events(), "connected envoy, accepted sds k@1, warm a");
}

#[test]
fn first_listeners_do_not_wait_for_a_cluster_whose_secret_is_refused() {
    let mut rig = Rig::new("cds a; eds a; cds b -> sds:k !apart; eds b; sds k; lds l -> r; rds r -> a, b");
    rig.subscribe("cds", &[]);
    rig.subscribe("eds", &["a"]);
    rig.ack_all(0);
    assert_eq!(rig.subscribe("lds", &[]), "CDS b@1");
    assert_eq!(rig.subscribe("eds", &["b"]), "EDS b@1");
    assert_eq!(rig.subscribe("sds", &["k"]), "SDS k@1");
    assert_eq!(rig.ack("eds"), "");
    assert_eq!(rig.nack("sds", "no"), "");
    assert_eq!(rig.pass(1_500), "LDS l@1");
}

#[test]
fn an_envoy_that_asks_for_no_listeners_has_clusters_apart_after_a_second() {
    let mut rig = Rig::new("cds a; eds a; cds slow !apart");
    rig.subscribe("cds", &[]);
    rig.subscribe("eds", &["a"]);
    assert_eq!(rig.ack_all(0), "");
    assert_eq!(rig.deadline(), Some(1_000));
    assert_eq!(rig.pass(1_000), "CDS slow@1");
}

#[test]
fn a_client_other_than_envoy_has_clusters_apart_at_once() {
    let mut rig = Rig::foreign("cds slow !apart; eds slow; lds l");
    assert_eq!(rig.subscribe("cds", &["slow"]), "CDS slow@1");
}

/// A client starts, to the point where it waits for what is slow, and past that.
fn stall_on(rig: &mut Rig, client: usize) {
    rig.say(client, request("cds", &[], &[]));
    rig.say(client, request("eds", &["a"], &[]));
    rig.ack_all(client);
    assert_eq!(rig.say(client, request("lds", &[], &[])), "CDS slow@1");
    rig.now += GRACE;
    assert_eq!(rig.advance(client), "LDS l@1");
}

#[test]
fn a_new_client_leaves_a_warm_cluster_warm() {
    let mut rig = Rig::started(SLOW);
    let new = rig.connect("another");
    stall_on(&mut rig, new);
    assert_eq!(rig.events(), "connected another, stalled slow, ready elsewhere");
    assert_eq!(rig.answer(new, "cds", None), "");
    assert_eq!(rig.events(), "stalled no more slow");
    // nor is a version that is on its way a reason
    assert_eq!(rig.publish("cds slow@2 !apart"), "CDS slow@2");
    let third = rig.connect("third");
    rig.say(third, request("cds", &[], &[]));
    rig.say(third, request("eds", &["a"], &[]));
    rig.ack_all(third);
    assert_eq!(rig.say(third, request("lds", &[], &[])), "CDS slow@2");
    rig.now += GRACE;
    rig.advance(third);
    assert_eq!(rig.events(), "connected third, stalled slow, ready elsewhere");
}

#[test]
fn a_cluster_stalled_on_two_clients_ends_warm() {
    let mut rig = Rig::new(SLOW);
    let second = rig.connect("second");
    stall_on(&mut rig, 0);
    stall_on(&mut rig, second);
    let seen = "connected envoy, connected second, warm a, stalled slow, stalled slow on envoy second";
    assert_eq!(rig.events(), seen);
    rig.ack("cds");
    assert_eq!(rig.events(), "warm slow, stalled slow, ready elsewhere");
    rig.answer(second, "cds", None);
    assert_eq!(rig.events(), "stalled no more slow");
}

#[test]
fn a_cluster_whose_stalled_client_leaves_stays_warm() {
    let mut rig = Rig::new(SLOW);
    let second = rig.connect("second");
    stall_on(&mut rig, 0);
    stall_on(&mut rig, second);
    rig.ack("cds");
    rig.events();
    rig.clients.pop().expect("a client").session.leave(&mut rig.fleet);
    assert_eq!(rig.events(), "stalled no more slow, gone second, 1 left");
}

#[test]
fn a_cluster_that_is_slow_after_all_clients_left_is_stalled() {
    let mut rig = Rig::started(SLOW);
    rig.reconnect();
    stall_on(&mut rig, 0);
    assert_eq!(rig.events(), "gone envoy, 0 left, connected envoy, warm a, stalled slow");
}

#[test]
fn first_listeners_do_not_wait_long_for_health_checks() {
    let mut rig = Rig::new("cds b !apart; eds b; lds l -> r; rds r -> b");
    rig.subscribe("cds", &[]);
    rig.ack_all(0);
    assert_eq!(rig.subscribe("lds", &[]), "CDS b@1");
    assert_eq!(rig.pass(1_600), "");
    assert_eq!(rig.subscribe("eds", &["b"]), "EDS b@1");
    assert_eq!(rig.ack("eds"), "LDS l@1");
}

#[test]
fn a_cluster_that_envoy_has_not_come_to_keeps_no_listener_from_others() {
    let mut rig = Rig::new("cds b !apart; eds b; lds l -> r; rds r -> slow");
    rig.subscribe("cds", &[]);
    rig.ack_all(0);
    assert_eq!(rig.subscribe("lds", &[]), "CDS b@1");
    rig.pass(300);
    assert_eq!(rig.publish("cds slow !apart"), "CDS slow@1");
    assert_eq!(rig.deadline(), Some(1_200));
    assert_eq!(rig.pass(1_200), "");
    assert_eq!(rig.deadline(), Some(300));
    assert_eq!(rig.pass(300), "LDS l@1");
}
