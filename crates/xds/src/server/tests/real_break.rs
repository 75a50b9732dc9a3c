//! A stream that breaks in the middle, with a real Envoy 1.40: it has the clusters, and not what was to come behind them.

use super::proxy::{Loop, Transport, wait_for};
use super::relay::Relay;
use super::resources::{cluster, endpoints, ghosts, gone, listener, routes};
use super::stage::{SOON, Stage, over};
use crate::wire::Variant;
use crate::{Need, TypeUrl};

over!(delta_ads: Variant::Delta, true, [
    a_stream_that_breaks_while_clusters_warm_goes_on_where_it_was,
    ghosts_that_the_client_was_not_rid_of_in_time_hold_up_nothing_after_a_restart,
]);

over!(sotw_ads: Variant::Sotw, true, [
    a_stream_that_breaks_while_clusters_warm_goes_on_where_it_was,
    ghosts_that_the_client_was_not_rid_of_in_time_hold_up_nothing_after_a_restart,
]);

/// A stage whose Envoy is served through a relay.
fn behind_a_relay() -> (Stage, Relay) {
    let mut relay = None;
    let stage = Stage::bare(|folder| relay.insert(Relay::start(folder)).socket());
    let mut changes = stage.small(1);
    changes.push(routes(1, "a"));
    stage.publish(changes);
    stage.wait_for_answer("any", "200 a");
    (stage, relay.unwrap())
}

/// Envoy goes on with EDS then, and asks for clusters only when these are ready (R13).
fn a_stream_that_breaks_while_clusters_warm_goes_on_where_it_was() {
    let (mut stage, relay) = behind_a_relay();
    let requests = Loop::start(stage.at, "any");
    let mut old = None;
    for round in 2..8 {
        let new = format!("w{round}");
        let (backend, answer) = if round % 2 == 0 { (&stage.b, "200 b") } else { (&stage.a, "200 a") };
        let changes = vec![
            cluster("a", round),
            cluster(&new, 100 + round),
            endpoints(&new, 1, backend.address),
            routes(round, &new),
        ];
        stage.wait_until_all_is_answered();
        relay.hold_endpoints_of(&new);
        stage.publish(changes.clone());
        for version in [round, 100 + round] {
            wait_for("the clusters to warm", SOON, || stage.envoy.has_cluster("warming", version));
        }
        if round % 3 == 0 {
            let all = vec![endpoints("a", 1, stage.a.address), listener(stage.at)];
            // in the state of the world it does not say which clusters it has, those that its routes name and that are gone among them
            match Transport::of_this_test().variant {
                Variant::Delta => stage.restart(),
                Variant::Sotw => stage.restart_with_what_was_saved(),
            }
            stage.publish(all.into_iter().chain(changes).collect());
        }
        relay.break_off();
        stage.envoy.wait_for_cluster(round, SOON);
        stage.envoy.wait_for_cluster(100 + round, SOON);
        stage.wait_for_answer("any", answer);
        assert_eq!(relay.first(), "endpoint", "what it asks for first");
        if let Some(old) = old.replace(new) {
            stage.publish(vec![gone(TypeUrl::Cluster, &old), gone(TypeUrl::Endpoints, &old)]);
        }
    }
    requests.lost_none();
    stage.end();
}

/// The proxy has refused a new and a changed cluster, and what would rid it of them (R11a) did not come before the server's end. The next one
/// is told of them again, or of good ones in their place, or knows from what was saved alone that there were some.
fn ghosts_that_the_client_was_not_rid_of_in_time_hold_up_nothing_after_a_restart() {
    let (mut stage, relay) = behind_a_relay();
    let requests = Loop::start(stage.at, "any");
    let mut version = 1;
    for round in 0..6 {
        let new = format!("g{round}");
        let ghosts = ghosts(&new, round, stage.b.address);
        stage.wait_until_all_is_answered();
        relay.hold_endpoints_of(&new);
        stage.publish(ghosts.clone());
        for ghost in [50 + round, 60 + round] {
            wait_for("the ghosts to be there", SOON, || stage.envoy.has_cluster("warming", ghost));
        }
        wait_for("the refusals to be saved", SOON, || {
            let saved = stage.save();
            let doubts: Vec<&Need> = saved.doubts.values().flat_map(|doubt| &doubt.needs).collect();
            [&*new, "a"].iter().all(|name| doubts.contains(&&Need::new(TypeUrl::Cluster, *name)))
        });
        stage.restart_with_what_was_saved();
        stage.publish([stage.small(version), vec![routes(1, "a")]].concat());
        relay.break_off();
        match round % 3 {
            0 => stage.publish(ghosts),
            1 => stage.publish(vec![cluster(&new, 1), endpoints(&new, 1, stage.b.address)]),
            _ => {}
        }
        version += 1;
        stage.publish(vec![cluster("a", version)]);
        stage.envoy.wait_for_cluster(version, SOON);
        version += 1;
        stage.publish(vec![cluster("a", version), gone(TypeUrl::Cluster, &new), gone(TypeUrl::Endpoints, &new)]);
        stage.envoy.wait_for_cluster(version, SOON);
        wait_for("the ghosts to be gone", SOON, || {
            [50 + round, 60 + round].iter().all(|ghost| !stage.envoy.has_cluster("warming", *ghost))
        });
    }
    requests.lost_none();
    stage.end();
}
