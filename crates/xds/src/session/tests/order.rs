//! Make before break: what goes when, and what waits for what.

use super::rig::Rig;

const SMALL: &str = "cds a; eds a; lds l -> r; rds r -> a";

#[test]
fn endpoints_follow_every_cluster_in_the_same_write_changed_or_not() {
    let mut rig = Rig::started(SMALL);
    assert_eq!(rig.publish("cds a@2"), "CDS a@2 | EDS a@1");
    rig.ack_all(0);
    assert_eq!(rig.publish("cds a@3; eds a@3; cds b; eds b"), "CDS a@3 b@1 | EDS a@3 b@1");
}

#[test]
fn endpoints_of_another_name_follow_too() {
    let mut rig = Rig::started("cds a -> eds:shared; eds shared");
    assert_eq!(rig.publish("cds b -> eds:shared"), "CDS b@1 | EDS shared@1");
}

#[test]
fn secrets_follow_the_listener_or_cluster_that_names_them_one_by_one() {
    let mut rig = Rig::started("cds a -> sds:ca; eds a; lds l -> r, sds:s, sds:t; rds r; sds ca; sds s; sds t");
    assert_eq!(rig.publish("lds l@2 -> r, sds:s, sds:t"), "LDS l@2 | SDS s@1 | SDS t@1");
    rig.ack_all(0);
    assert_eq!(rig.publish("cds a@2 -> sds:ca"), "CDS a@2 | EDS a@1 | SDS ca@1");
    rig.ack_all(0);
    assert_eq!(rig.publish("sds s@2; sds t@2"), "SDS s@2 | SDS t@2");
}

#[test]
fn routes_go_out_only_when_their_clusters_are_warm() {
    let mut rig = Rig::started(SMALL);
    assert_eq!(rig.publish("cds b; eds b; rds r@2 -> a, b"), "CDS b@1 | EDS b@1");
    assert_eq!(rig.ack("eds"), "");
    assert_eq!(rig.subscribe("eds", &["b"]), "EDS b@1 | RDS r@2");
    assert_eq!(rig.events(), "warm b");
}

#[test]
fn a_cluster_removed_and_published_again_while_it_is_on_its_way_is_warm_when_it_is_acknowledged() {
    let mut rig = Rig::started(SMALL);
    rig.publish("cds b; eds b");
    rig.publish("-cds b; -eds b");
    assert_eq!(rig.publish("cds b; eds b; rds r@2 -> b"), "");
    assert_eq!(rig.ack("cds"), "RDS r@2");
}

#[test]
fn a_cluster_published_again_while_something_still_used_it_is_reported_again() {
    let mut rig = Rig::started("cds a; eds a; cds b; eds b; lds l -> r; rds r -> a, b");
    rig.events();
    assert_eq!(rig.publish("-cds b; -eds b; rds r@2 -> a"), "RDS r@2");
    // the proxy may still use it, so it is not taken away yet; and now it is wanted again
    assert_eq!(rig.publish("cds b; eds b"), "");
    assert_eq!(rig.events(), "warm b");
    assert_eq!(rig.publish("rds r@3 -> a, b"), "");
    assert_eq!(rig.ack("rds"), "RDS r@3");
    rig.ack_all(0);
    assert_eq!(rig.events(), "accepted rds r@3");
}

#[test]
fn the_cluster_acknowledgement_alone_proves_warmth_too() {
    let mut rig = Rig::started(SMALL);
    rig.publish("cds b; eds b; rds r@2 -> a, b");
    assert_eq!(rig.ack("cds"), "RDS r@2");
}

#[test]
fn the_acknowledged_endpoints_of_a_cluster_that_envoy_did_not_ask_for_prove_nothing() {
    let mut rig = Rig::started(SMALL);
    rig.publish("cds b; eds b; rds r@2 -> b");
    assert_eq!(rig.ack("eds"), "");
    assert_eq!(rig.pass(1900), "");
}

#[test]
fn a_new_cluster_with_a_secret_is_warm_when_the_secret_is_there() {
    let mut rig = Rig::started(SMALL);
    rig.publish("cds b -> sds:ca; eds b; sds ca; rds r@2 -> b");
    rig.subscribe("eds", &["b"]);
    assert_eq!(rig.ack("eds"), "EDS b@1");
    assert_eq!(rig.ack("sds"), "RDS r@2");
}

#[test]
fn a_changed_cluster_holds_no_route_back() {
    let mut rig = Rig::started(SMALL);
    assert_eq!(rig.publish("cds a@2; rds r@2 -> a"), "CDS a@2 | EDS a@1 | RDS r@2");
}

#[test]
fn a_withheld_cluster_acknowledgement_stops_nobody_else() {
    let mut rig = Rig::started(SMALL);
    assert_eq!(rig.publish("cds silent !apart; eds silent; rds r@2 -> a, silent"), "CDS silent@1 | EDS silent@1");
    rig.subscribe("eds", &["silent"]);
    rig.ack("eds");
    assert_eq!(rig.publish("cds a@2"), "CDS a@2 | EDS a@1");
    rig.ack("eds");
    assert_eq!(rig.ack("eds"), "");
    assert_eq!(rig.publish("cds a@3; eds a@3"), "CDS a@3 | EDS a@3");
    rig.ack("eds");
    assert_eq!(rig.publish("cds b; eds b; rds r@3 -> a, b"), "CDS b@1 | EDS b@1");
    rig.subscribe("eds", &["b"]);
    assert_eq!(rig.ack("eds"), "EDS b@1 | RDS r@3");
    rig.ack("eds");
    rig.ack("rds");
    assert_eq!(rig.pass(2000), "");
    assert_eq!(rig.events(), "warm a, warm a, warm b, accepted rds r@3, stalled silent");
}

#[test]
fn clusters_that_may_not_warm_go_alone_after_the_others() {
    let mut rig = Rig::started(SMALL);
    assert_eq!(rig.publish("cds slow !apart; cds slower !apart; cds b; eds b"), "CDS b@1 | EDS b@1");
    rig.subscribe("eds", &["b"]);
    assert_eq!(rig.ack("eds"), "CDS slow@1 | CDS slower@1 | EDS b@1");
}

#[test]
fn a_route_is_not_held_back_for_ever() {
    let mut rig = Rig::started(SMALL);
    rig.publish("cds b; eds b; rds r@2 -> b");
    rig.ack("eds");
    assert_eq!(rig.deadline(), Some(2000));
    assert_eq!(rig.pass(2000), "");
    assert_eq!(rig.events(), "stalled b");
    assert_eq!(rig.deadline(), Some(3000));
    // Envoy did not even ask for the endpoints of b: it must have refused it, and that is withheld
    assert_eq!(rig.pass(3000), "CDS -b | RDS r@2");
}

#[test]
fn a_route_published_without_the_stalled_cluster_goes_at_once() {
    let mut rig = Rig::started(SMALL);
    rig.publish("cds b; eds b; rds r@2 -> a, b");
    rig.ack("eds");
    rig.pass(2000);
    assert_eq!(rig.publish("rds r@3 -> a"), "RDS r@3");
}

#[test]
fn a_listener_waits_for_the_clusters_of_its_routes_and_brings_secrets_along() {
    let mut rig = Rig::started(SMALL);
    assert_eq!(rig.publish("cds b; eds b; rds q -> b; lds m -> q, sds:s; sds s"), "CDS b@1 | EDS b@1");
    assert_eq!(rig.ack("cds"), "LDS m@1 | SDS s@1");
    assert_eq!(rig.subscribe("rds", &["q"]), "RDS q@1");
}

#[test]
fn a_version_that_comes_back_before_another_was_in_use_is_told_to_be_in_use_again() {
    for (kind, before, other) in [("lds", "lds l -> r", "lds l@2 -> r"), ("rds", "rds r -> a", "rds r@2 -> a")] {
        let mut rig = Rig::started(SMALL);
        rig.events();
        assert_ne!(rig.publish(other), "");
        assert_eq!(rig.publish(before), "", "{kind}: the other one is on its way");
        assert_ne!(rig.ack(kind), "");
        assert_eq!(rig.events(), "");
        rig.ack(kind);
        assert_eq!(
            rig.events(),
            format!("accepted {}", before.replace(" ->", "@1 ->").split(" ->").next().unwrap_or(""))
        );
    }
}

#[test]
fn removals_come_last_each_after_the_acknowledgement_of_what_used_it() {
    let mut rig = Rig::started("cds a; eds a; cds b; eds b; lds l -> r; lds m -> q; rds r -> a; rds q -> b");
    assert_eq!(rig.publish("-cds b; -eds b; -lds m; -rds q; rds r@2 -> a"), "RDS r@2");
    assert_eq!(rig.ack("rds"), "LDS -m");
    assert_eq!(rig.ack("lds"), "");
    // connections to m may be kept, and bring one more request each
    assert_eq!(rig.pass(59_999), "");
    assert_eq!(rig.pass(1), "CDS -b");
    assert_eq!(rig.unsubscribe("eds", &["b"]), "");
    assert_eq!(rig.unsubscribe("rds", &["q"]), "");
    assert_eq!(rig.ack("cds"), "");
    assert_eq!(rig.deadline(), None);
}

#[test]
fn what_a_listener_used_before_its_change_stays_for_the_connections_that_it_has() {
    let mut rig = Rig::started(SMALL);
    let told = rig.publish("cds b; eds b; rds q -> b; lds l@2 -> q; -cds a; -eds a; -rds r");
    assert!(told.starts_with("CDS b@1"), "{told}");
    let mut told = rig.ack("cds");
    told += &rig.subscribe("rds", &["q"]);
    for _ in 0..4 {
        rig.ack_all(0);
        told += &rig.advance(0);
    }
    assert!(told.contains("LDS l@2") && !told.contains('-'), "{told}");
    assert_eq!(rig.deadline(), Some(60_000));
    assert_eq!(rig.pass(60_000), "CDS -a");
}

#[test]
fn a_listener_change_that_is_refused_again_and_again_keeps_nothing_from_going() {
    let mut rig = Rig::started("cds a; eds a; cds b; eds b; lds l -> r; rds r -> a, b");
    rig.publish("lds l@2 -> r");
    rig.nack("lds", "Address already in use");
    assert_eq!(rig.publish("-cds b; -eds b; rds r@2 -> a"), "RDS r@2");
    assert_eq!((rig.ack("rds"), rig.pass(10_000)), (String::new(), "LDS l@2".to_owned()));
    assert_eq!(rig.nack("lds", "Address already in use"), "CDS -b");
    rig.ack_all(0);
    for _ in 0..10 {
        assert_eq!(rig.pass(15_000), "LDS l@2");
        assert_eq!(rig.nack("lds", "Address already in use"), "");
    }
}

#[test]
fn what_is_gone_goes_in_its_time_however_often_listeners_change() {
    let mut rig = Rig::started("cds a; eds a; cds b; eds b; lds l -> r; rds r -> a, b");
    rig.publish("lds l@2 -> r; -cds b; -eds b; rds r@2 -> a");
    rig.ack_all(0);
    let mut told = String::new();
    for version in 3..10 {
        told = rig.pass(10_000);
        told += &rig.publish(&format!("lds l@{version} -> r"));
        rig.ack_all(0);
        if told.contains("CDS -b") {
            assert_eq!(version, 8, "after a minute");
            return;
        }
    }
    panic!("{told}");
}

#[test]
fn virtual_hosts_stay_with_the_route_configuration_of_a_listener_before_its_change() {
    let mut rig = Rig::started("lds l -> r; rds r; vhds r/a; vhds r/b");
    let mut told = rig.publish("rds q; vhds q/a; vhds q/b; lds l@2 -> q; -rds r; -vhds r/a; -vhds r/b");
    told += &rig.subscribe("rds", &["q"]);
    for _ in 0..4 {
        rig.ack_all(0);
        told += &rig.advance(0);
    }
    assert!(told.contains("LDS l@2") && told.contains("q/b@1") && !told.contains('-'), "{told}");
    assert_eq!(rig.publish("-vhds q/b"), "VHDS -q/b");
    rig.ack_all(0);
    assert_eq!(rig.pass(600_000), "");
    assert_eq!(rig.unsubscribe("rds", &["r"]), "");
    assert_eq!(rig.deadline(), None);
}

#[test]
fn a_listener_that_comes_back_waits_until_its_routes_of_an_earlier_time_are_new() {
    let mut rig = Rig::started("lds l -> r; rds r; vhds r/a; vhds r/b");
    rig.publish("lds l@2 -> q; rds q; -rds r; -vhds r/a; -vhds r/b");
    rig.subscribe("rds", &["q"]);
    for _ in 0..4 {
        rig.ack_all(0);
        rig.advance(0);
    }
    // Envoy has them still: connections drain for ten minutes
    assert_eq!(rig.pass(70_000), "");
    assert_eq!(rig.publish("lds l@3 -> r; rds r@2; vhds r/a; vhds r/b@2; -rds q"), "RDS r@2 | VHDS r/b@2");
    assert_eq!(rig.ack("rds"), "");
    assert_eq!(rig.ack("vhds"), "LDS l@3");
}

#[test]
fn a_route_configuration_that_comes_back_loses_at_once_the_hosts_that_it_has_no_more() {
    let mut rig = Rig::started("lds l -> r; rds r; vhds r/a; vhds r/b");
    rig.publish("rds q; vhds q/a; lds l@2 -> q; -rds r; -vhds r/a; -vhds r/b");
    rig.subscribe("rds", &["q"]);
    for _ in 0..4 {
        rig.ack_all(0);
        rig.advance(0);
    }
    assert_eq!(rig.publish("rds r; vhds r/b"), "VHDS -r/a");
}

#[test]
fn a_listener_change_that_is_not_answered_drains_all_the_same() {
    let mut rig = Rig::started("cds a; eds a; cds b; eds b; lds l -> r; rds r -> a, b");
    assert_eq!(rig.publish("lds l@2 -> r; -cds b; -eds b; rds r@2 -> a"), "LDS l@2 | RDS r@2");
    rig.ack("rds");
    assert_eq!(rig.pass(6_000), "");
    assert_eq!(rig.pass(50_000), "");
    rig.ack("lds");
    assert_eq!(rig.pass(60_000), "CDS -b");
}

#[test]
fn a_fleet_that_is_withdrawn_has_no_deadlines() {
    let mut rig = Rig::started(SMALL);
    rig.publish("lds m -> r");
    rig.nack("lds", "Address already in use");
    assert!(rig.deadline().is_some());
    rig.fleet.withdraw();
    assert_eq!(rig.deadline(), None);
}

#[test]
fn a_cluster_stays_until_the_routes_that_name_it_are_gone_from_the_client() {
    let mut rig = Rig::started(SMALL);
    assert_eq!(rig.publish("cds b; eds b; rds r@2 -> b; -cds a; -eds a"), "CDS b@1 | EDS b@1");
    assert_eq!(rig.ack("cds"), "RDS r@2");
    assert_eq!(rig.ack("eds"), "");
    assert_eq!(rig.ack("rds"), "", "requests that the route before let in may still ask it something");
    assert_eq!((rig.pass(9_999), rig.pass(1)), (String::new(), "CDS -a".to_owned()));
}

#[test]
fn what_is_removed_while_something_needs_it_stays_until_nothing_does() {
    let mut rig = Rig::started(SMALL);
    assert_eq!(rig.publish("-cds a; -eds a"), "");
    assert_eq!(rig.publish("rds r@2"), "RDS r@2");
    assert_eq!((rig.ack("rds"), rig.pass(10_000)), (String::new(), "CDS -a".to_owned()));
}

#[test]
fn a_renamed_listener_is_added_and_removed_in_one_response() {
    let mut rig = Rig::started(SMALL);
    assert_eq!(rig.publish("lds l2 -> r ~l; -lds l"), "LDS l2@1 -l");
}

#[test]
fn a_listener_counts_as_accepted_when_its_routes_are() {
    let mut rig = Rig::started(SMALL);
    rig.publish("lds m -> q; rds q");
    assert_eq!(rig.ack("lds"), "");
    rig.subscribe("rds", &["q"]);
    assert_eq!(rig.events(), "");
    rig.ack("rds");
    assert_eq!(rig.events(), "accepted rds q@1, accepted lds m@1");
}

#[test]
fn hosts_go_right_behind_their_route_configuration_unasked_one_response_each() {
    let mut rig = Rig::started("lds l -> r, q; rds r; rds q");
    let told = rig.publish("rds r@2; rds q@2; vhds r/a; vhds r/b; vhds q/a; vhds other/a");
    assert_eq!(told, "RDS q@2 r@2 | VHDS q/a@1 | VHDS r/a@1 r/b@1");
    rig.ack_all(0);
    assert_eq!(rig.publish("vhds r/a@2"), "VHDS r/a@2");
}

#[test]
fn a_domain_moves_from_host_to_host_in_one_response() {
    let mut rig = Rig::started("lds l -> r; rds r; vhds r/a; vhds r/b");
    assert_eq!(rig.publish("vhds r/c; -vhds r/a"), "VHDS r/c@1 -r/a");
}

#[test]
fn hosts_that_change_while_others_are_on_their_way_go_together_once_those_are_taken() {
    let mut rig = Rig::started("lds l -> r, q; rds r; rds q; vhds r/a; vhds q/a");
    assert_eq!(rig.publish("vhds r/b"), "VHDS r/b@1");
    assert_eq!(rig.publish("vhds r/c"), "");
    assert_eq!(rig.publish("vhds r/d; vhds r/a@2; -vhds r/b"), "");
    // Envoy makes another route configuration apart
    assert_eq!(rig.publish("vhds q/b"), "VHDS q/b@1");
    assert_eq!(rig.ack("vhds"), "VHDS r/a@2 r/c@1 r/d@1 -r/b");
}

#[test]
fn hosts_wait_neither_for_those_under_suspicion_nor_for_an_answer_that_does_not_come() {
    let mut rig = Rig::started("lds l -> r; rds r; vhds r/a");
    assert_eq!(rig.publish("vhds r/b; vhds r/c"), "VHDS r/b@1 r/c@1");
    assert_eq!(rig.publish("vhds r/d"), "");
    assert_eq!(rig.nack("vhds", "one of them is bad"), "VHDS r/d@1 | VHDS r/b@1 | VHDS r/c@1");
    assert_eq!(rig.publish("vhds r/e"), "");
    assert_eq!(rig.ack("vhds"), "VHDS r/e@1");
    assert_eq!(rig.publish("vhds r/f"), "");
    assert_eq!(rig.pass(20_000), "VHDS r/f@1");
}

#[test]
fn the_change_to_hosts_apart_waits_for_the_clusters_of_all_hosts() {
    let mut rig = Rig::started(SMALL);
    assert_eq!(rig.publish("cds b; eds b; rds r@2; vhds r/a -> a; vhds r/b -> b"), "CDS b@1 | EDS b@1");
    assert_eq!(rig.ack("cds"), "RDS r@2 | VHDS r/a@1 r/b@1");
}

#[test]
fn one_host_that_waits_for_its_cluster_does_not_hold_back_the_others() {
    let mut rig = Rig::started("cds a; eds a; lds l -> r; rds r; vhds r/a -> a; vhds r/b -> a");
    assert_eq!(rig.publish("cds b; eds b; vhds r/a@2 -> b; vhds r/b@2 -> a"), "CDS b@1 | EDS b@1 | VHDS r/b@2");
    assert_eq!(rig.ack("vhds"), "");
    assert_eq!(rig.ack("cds"), "VHDS r/a@2");
}

#[test]
fn the_change_back_to_hosts_inside_removes_the_others_afterwards() {
    let mut rig = Rig::started("lds l -> r; rds r; vhds r/a; vhds r/b");
    assert_eq!(rig.publish("rds r@2; -vhds r/a; -vhds r/b"), "RDS r@2");
    assert_eq!(rig.ack("rds"), "VHDS -r/a -r/b");
}

#[test]
fn hosts_never_come_before_the_route_configuration_that_asks_for_them() {
    let mut rig = Rig::started("lds l -> r; rds r");
    assert_eq!(rig.publish("rds r@2"), "RDS r@2");
    assert_eq!(rig.publish("rds r@3; vhds r/a"), "");
    assert_eq!(rig.ack("rds"), "RDS r@3 | VHDS r/a@1");
}

#[test]
fn a_route_configuration_asked_for_again_brings_its_hosts_again() {
    let mut rig = Rig::started("lds l -> r; rds r; vhds r/a");
    rig.unsubscribe("rds", &["r"]);
    assert_eq!(rig.subscribe("rds", &["r"]), "RDS r@1 | VHDS r/a@1");
}

#[test]
fn on_a_resumed_stream_hosts_are_compared_when_they_are_asked_for() {
    let mut rig = Rig::new("rds r; vhds r/a@2; vhds r/b");
    assert_eq!(rig.resume("rds", &["r"], &["r@1"]), "");
    assert_eq!(rig.resume("vhds", &[], &["r/a@1", "r/b@1", "r/gone@1"]), "VHDS r/a@2 -r/gone");
}

#[test]
fn with_several_clients_a_cluster_is_warm_when_all_that_keep_up_have_it() {
    let mut rig = Rig::started(SMALL);
    let second = rig.connect("second");
    rig.start(second);
    rig.events();
    rig.publish("cds b; eds b");
    rig.advance(second);
    rig.ack("cds");
    assert_eq!(rig.events(), "");
    rig.answer(second, "cds", None);
    assert_eq!(rig.events(), "warm b");
}

#[test]
fn a_client_that_does_not_keep_up_is_not_waited_for() {
    let mut rig = Rig::started(SMALL);
    let second = rig.connect("second");
    rig.start(second);
    rig.events();
    rig.publish("cds b; eds b; eds a@2");
    rig.advance(second);
    rig.ack_all(0);
    rig.pass(2000);
    assert_eq!(rig.events(), "");
    rig.advance(second);
    assert_eq!(rig.events(), "warm b");
}

#[test]
fn a_client_that_says_nothing_is_not_waited_for_before_it_speaks_again() {
    let mut rig = Rig::started(SMALL);
    let second = rig.connect("second");
    rig.start(second);
    rig.publish("cds b; eds b; eds a@2");
    rig.advance(second);
    rig.ack_all(0);
    // long enough that its answers are not expected any more
    rig.pass(6000);
    rig.advance(second);
    rig.events();
    rig.publish("cds c; eds c");
    rig.advance(second);
    rig.ack_all(0);
    assert_eq!(rig.events(), "warm c");
    rig.ack_all(second);
    rig.publish("cds d; eds d");
    rig.advance(second);
    rig.ack_all(0);
    assert_eq!(rig.events(), "", "it is there again");
    rig.ack_all(second);
    assert_eq!(rig.events(), "warm d");
}

#[test]
fn routes_that_name_a_cluster_already_do_not_wait_for_it_again() {
    let mut rig = Rig::started("cds a; eds a; lds l -> r; rds r -> a");
    assert_eq!(rig.publish("cds n !apart; rds r@2 -> n"), "CDS n@1");
    assert_eq!(rig.pass(5000), "RDS r@2", "for a while it waits");
    rig.ack("rds");
    assert_eq!(rig.publish("rds r@3 -> n"), "RDS r@3");
    assert_eq!(rig.publish("cds o !apart; rds r@4 -> n,o"), "CDS o@1");
}

#[test]
fn when_the_last_client_goes_the_next_one_is_reported_from_the_beginning() {
    let mut rig = Rig::started(SMALL);
    rig.reconnect();
    assert_eq!(rig.events(), "gone envoy, 0 left, connected envoy");
    rig.start(0);
    assert_eq!(rig.events(), "warm a, accepted rds r@1, accepted lds l@1, live");
}

#[test]
fn a_cluster_with_secrets_goes_alone_and_last_and_holds_up_only_what_names_it() {
    let mut rig = Rig::started("cds a; eds a; lds l -> r; rds r -> a; lds m -> q; rds q -> a");
    let told = rig.publish("cds n; eds n; sds ca; cds t -> sds:ca !apart; eds t; rds r@2 -> n; rds q@2 -> t");
    assert_eq!(told, "CDS n@1 | EDS n@1");
    rig.subscribe("eds", &["n"]);
    let told = rig.ack("eds");
    assert!(told.starts_with("CDS t@1 | EDS t@1 | SDS ca@1") && told.ends_with("RDS r@2"), "{told}");
    // t warms, so nothing is said about clusters any more; another one comes, is used, and only q waits
    assert_eq!(rig.publish("cds o; eds o; rds r@3 -> o"), "CDS o@1 | EDS o@1");
    rig.subscribe("eds", &["t", "o"]);
    rig.ack("rds");
    let endpoints = |rig: &Rig| rig.clients[0].open.iter().any(|open| open.type_url == super::rig::kind("eds"));
    let mut told = String::new();
    while endpoints(&rig) {
        told += &rig.ack("eds");
    }
    assert!(told.contains("RDS r@3") && !told.contains("q@2"), "{told}");
    assert_eq!(rig.ack("sds"), "RDS q@2", "its endpoints and secrets are its witnesses");
    let events = rig.events();
    assert!(events.contains("warm o") && events.ends_with("warm t"), "{events}");
}

#[test]
fn what_a_foreign_client_still_asks_for_by_name_stays_as_long_as_it_may_use_it() {
    for lets_go in [true, false] {
        let mut rig = Rig::foreign("lds l -> r; rds r -> a; cds a; eds a");
        for (kind, name) in [("lds", "l"), ("rds", "r"), ("cds", "a"), ("eds", "a")] {
            rig.subscribe(kind, &[name]);
            rig.ack_all(0);
        }
        assert_eq!(rig.publish("rds r@2 -> b; cds b; eds b; -cds a; -eds a"), "RDS r@2");
        assert_eq!(rig.ack_all(0), "", "it goes on with the routes before until it has the cluster");
        assert_eq!(rig.subscribe("cds", &["b"]), "CDS b@1");
        assert_eq!(rig.subscribe("eds", &["b"]), "EDS b@1");
        assert_eq!(rig.ack_all(0), "");
        if lets_go {
            rig.unsubscribe("cds", &["a"]);
            rig.unsubscribe("eds", &["a"]);
        }
        let told = rig.pass(20_000) + &rig.ack_all(0);
        assert_eq!(told, if lets_go { "" } else { "CDS -aEDS -a" });
    }
}

#[test]
fn all_are_waited_for_with_a_cluster_that_comes_among_very_many_changes() {
    let set = |from: usize, sign: &str| {
        (from..from + 5_000).map(|n| format!("{sign}rtds {n}")).collect::<Vec<_>>().join("; ")
    };
    let mut rig = Rig::new(&set(0, ""));
    let other = rig.connect("other");
    rig.start(0);
    rig.start(other);
    assert_eq!(rig.events().split(", ").last(), Some("live"));
    assert_eq!(rig.publish(&format!("cds a; {}; {}", set(0, "-"), set(5_000, ""))), "CDS a@1");
    rig.advance(other);
    rig.ack_all(0);
    assert_eq!(rig.events(), "", "the other one has it not");
    rig.ack_all(other);
    assert_eq!(rig.events(), "warm a");
}

#[test]
fn a_client_that_does_not_take_what_it_is_told_is_not_waited_for_and_stalls_nothing_until_it_does() {
    let mut rig = Rig::started("cds a");
    let other = rig.connect("other");
    rig.start(other);
    rig.advance(0);
    rig.publish("cds b");
    rig.advance(other);
    rig.ack_all(other);
    rig.events();
    rig.clients[0].session.fall_behind(&mut rig.fleet);
    assert_eq!(rig.events(), "warm b");
    // another stream of it has been looked at
    rig.pass(3_000);
    assert_eq!(rig.publish("cds c"), "CDS c@1");
    rig.advance(other);
    rig.ack_all(other);
    rig.pass(60_000);
    assert_eq!(rig.events(), "warm c");
    rig.clients[0].session.catch_up(rig.now);
    rig.advance(0);
    assert_eq!(rig.events(), "");
    rig.ack_all(0);
    rig.publish("cds d");
    rig.advance(other);
    rig.ack_all(other);
    assert_eq!(rig.events(), "", "the first one has it not");
    rig.ack_all(0);
    assert_eq!(rig.events(), "warm d");
}

#[test]
fn many_clusters_that_are_answered_slowly_are_not_taken_back() {
    let mut rig = Rig::started(SMALL);
    let few: String = (0..10).map(|n| format!("cds f{n};")).collect();
    rig.publish(&few);
    assert!(rig.pass(6_000).contains("CDS -f0"), "a few would have been answered");
    let mut rig = Rig::started(SMALL);
    let all: String = (0..5_000).map(|n| format!("cds c{n:04};")).collect();
    assert!(rig.publish(&all).contains("c4999"));
    assert_eq!(rig.pass(20_000), "");
    assert!(rig.pass(40_000).contains("CDS -c0000"));
}

#[test]
fn client_without_secrets_gets_none_and_nothing_that_needs_one() {
    let mut rig =
        Rig::new("cds a; eds a; cds b -> sds:ca; eds b; lds l -> r; lds m -> r, sds:s; rds r -> a; sds s; sds ca");
    rig.clients[0].session.withhold_secrets();
    assert_eq!(rig.subscribe("cds", &[]), "CDS a@1");
    assert_eq!(rig.subscribe("eds", &["a"]), "EDS a@1");
    rig.ack_all(0);
    assert_eq!(rig.subscribe("lds", &[]), "LDS l@1");
    assert_eq!(rig.subscribe("sds", &["s", "ca"]), "");
    assert_eq!(rig.publish("sds s@2; lds m@2 -> r, sds:s"), "");
    // Without the secret the same listener may go.
    assert_eq!(rig.publish("lds m@3 -> r"), "LDS m@3");
}
