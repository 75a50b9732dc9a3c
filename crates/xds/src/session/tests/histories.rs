//! Histories that the property test found once. Who reads and who is read is said by place among those that have something.

use super::rig::Way;
use super::world::Edit::{Cluster, Listener, NoCluster, NoHost, NoListener, Route};
use super::world::Step::{self, Break, Calm, Cut, Pass, Publish, Restart, Save, ToClient, ToServer};
use super::world::World;
use crate::wire::Variant::{self, Delta, Sotw};

/// A history of good resources, over streams for each kind.
fn apart(variant: Variant, steps: &[Step]) {
    tell(Way { variant, aggregated: false }, true, steps);
}

/// A history with bad resources.
fn with_bad(variant: Variant, aggregated: bool, steps: &[Step]) {
    tell(Way { variant, aggregated }, false, steps);
}

fn tell(way: Way, strict: bool, steps: &[Step]) {
    let mut world = World::new(&[(way, false)], strict);
    steps.iter().for_each(|step| world.step(step));
    world.finish();
}

#[test]
fn a_cluster_stays_while_the_stream_of_a_route_that_names_it_may_come_again() {
    let start = [ToServer(1, 0), ToClient(1, 0), ToServer(1, 5), ToClient(1, 0), ToServer(2, 5), ToClient(1, 0)];
    let end = [ToServer(2, 7), Publish(vec![NoCluster(0)]), ToClient(1, 0), Cut(3), Publish(vec![Cluster(0, 1)])];
    apart(Delta, &[start.as_slice(), &end].concat());
}

#[test]
fn endpoints_that_are_asked_for_late_prove_nothing_of_a_later_version() {
    let (new, bad) = (Publish(vec![Cluster(1, 1)]), Publish(vec![Cluster(0, 90)]));
    let steps = [ToServer(1, 0), new, ToClient(1, 0), bad, ToClient(1, 0), ToServer(1, 8), ToClient(1, 0)];
    for variant in [Delta, Sotw] {
        with_bad(variant, false, &steps);
    }
}

#[test]
fn what_a_client_that_comes_again_asked_for_long_ago_proves_nothing_of_a_version_that_it_refuses() {
    let (bad, new) = (Publish(vec![Cluster(0, 90)]), Publish(vec![Cluster(1, 1)]));
    let steps = [ToServer(1, 0), ToClient(1, 0), ToServer(1, 0), ToClient(1, 0), bad, Break(0), new];
    for (variant, aggregated) in [(Delta, true), (Sotw, true), (Delta, false)] {
        with_bad(variant, aggregated, &steps);
    }
}

#[test]
fn a_cluster_that_comes_again_before_it_went_has_its_endpoints_on_the_stream_that_asked_meanwhile() {
    let start = [ToServer(1, 0), ToClient(1, 0), ToServer(1, 0), ToClient(1, 0), ToServer(1, 0), ToServer(1, 0)];
    let news = Publish(vec![Cluster(1, 1), Cluster(1, 2)]);
    let turn =
        [ToClient(4, 0), ToServer(1, 0), Publish(vec![NoCluster(1)]), ToServer(4, 1), Publish(vec![Cluster(1, 2)])];
    apart(Sotw, &[start.as_slice(), &[news], &turn].concat());
}

#[test]
fn what_is_taken_back_together_with_something_bad_is_not_to_blame() {
    let start = [ToServer(1, 0), ToClient(1, 0), ToServer(1, 0), ToClient(1, 0), Publish(vec![Cluster(1, 80)])];
    let end = [ToServer(1, 0), Publish(vec![Cluster(1, 90), Cluster(2, 95)]), Break(0)];
    with_bad(Sotw, true, &[start.as_slice(), &end].concat());
}

#[test]
fn hosts_that_went_out_on_a_stream_that_is_no_more_go_to_the_next_one() {
    let start = [ToServer(1, 0), ToClient(1, 0), ToServer(1, 5), Publish(vec![Listener(0, 1, 5)]), ToClient(1, 0)];
    let turn = [ToServer(3, 0), ToClient(1, 0), ToServer(1, 0), ToServer(1, 2), ToClient(1, 0)];
    let news = [Publish(vec![Cluster(1, 1), Route(3, 1, 12)]), Publish(vec![Listener(1, 1, 7), Cluster(2, 1)])];
    let more = [ToServer(3, 0), Publish(vec![Listener(1, 1, 2)]), ToClient(2, 5), ToClient(3, 0), ToServer(3, 0)];
    let end = [ToServer(1, 0), ToServer(2, 5), Publish(vec![Listener(0, 1, 1)]), ToClient(1, 0)];
    apart(Delta, &[start.as_slice(), &turn, &news, &more, &end].concat());
}

#[test]
fn a_listener_whose_hosts_come_on_streams_of_their_own_serves_though_there_are_none() {
    apart(Delta, &[Publish(vec![NoHost(0), NoHost(1), Listener(0, 1, 2)])]);
}

/// A history of good resources, of so many clients of one variant.
fn with_new_servers(variant: Variant, aggregated: bool, clients: usize, steps: &[Step]) {
    let mut world = World::new(&vec![(Way { variant, aggregated }, false); clients], true);
    steps.iter().for_each(|step| world.step(step));
    world.finish();
    world.clear();
}

#[test]
fn a_cluster_whose_endpoints_were_not_saved_waits_for_them_where_it_was_acknowledged_before() {
    let more = Publish(vec![Cluster(0, 2), Route(0, 1, 2), Listener(0, 1, 1)]);
    let steps = [Calm(1), Publish(vec![Cluster(1, 1)]), ToClient(1, 0), ToServer(1, 0), Restart(true), Calm(1), more];
    with_new_servers(Delta, false, 2, &[steps.as_slice(), &[ToClient(1, 2)]].concat());
}

#[test]
fn what_a_client_says_it_has_counts_also_behind_the_answer_to_what_it_was_told_unasked() {
    let start = [ToServer(1, 1), ToClient(1, 0), ToServer(1, 1), Publish(vec![Cluster(1, 1)]), ToClient(2, 0)];
    let end = [ToServer(2, 1), Publish(vec![NoCluster(0), NoCluster(1)]), Restart(true), ToServer(1, 5), Pass(5000)];
    with_new_servers(Delta, true, 2, &[start.as_slice(), &end].concat());
}

#[test]
fn what_a_client_was_told_unasked_counts_whatever_it_said_before_it_heard_of_it() {
    let start = [Save, Publish(vec![Cluster(1, 1)]), ToServer(1, 0), ToClient(1, 0), ToServer(1, 0), ToClient(1, 0)];
    let end = [Publish(vec![NoCluster(0)]), Break(0), ToServer(1, 0), Pass(5000)];
    with_new_servers(Sotw, true, 1, &[start.as_slice(), &end].concat());
}

/// A history with bad resources, of these clients; some refuse what others take.
fn disagreeing(clients: &[(Variant, bool, bool)], steps: &[Step]) {
    let way = |&(variant, aggregated, picky)| (Way { variant, aggregated }, picky);
    let mut world = World::new(&clients.iter().map(way).collect::<Vec<_>>(), false);
    steps.iter().for_each(|step| world.step(step));
    world.finish();
    world.clear();
}

#[test]
fn a_listener_that_was_taken_back_comes_again_when_the_bad_host_of_its_routes_is_left_out() {
    let bad = Publish(vec![Route(3, 90, 0)]);
    disagreeing(&[(Delta, true, false), (Sotw, true, false)], &[bad, Publish(vec![Listener(0, 1, 2)])]);
}

#[test]
fn what_a_client_keeps_because_it_refuses_what_others_take_keeps_its_clusters() {
    let steps = [Calm(1), Publish(vec![Route(0, 72, 0)]), Publish(vec![NoCluster(0)])];
    disagreeing(&[(Delta, true, true), (Delta, true, false)], &steps);
}

#[test]
fn a_host_that_is_gone_goes_though_the_response_that_says_so_is_refused() {
    let routes = [Publish(vec![Listener(0, 1, 0)]), Publish(vec![Listener(0, 1, 2)]), Calm(1)];
    let steps = [Publish(vec![Route(3, 90, 0)]), Restart(false), Publish(vec![NoHost(1)])];
    disagreeing(&[(Delta, true, false)], &[routes.as_slice(), &steps].concat());
}

#[test]
fn a_client_that_comes_again_without_listeners_is_not_left_with_one_that_waits() {
    let start = [ToServer(2, 14), ToClient(1, 1), Publish(vec![Cluster(1, 1)]), Publish(vec![Route(0, 90, 1)])];
    let end = [Break(2), ToServer(3, 8), Publish(vec![Cluster(2, 1)]), ToClient(1, 2), Calm(1)];
    let clients = [(Sotw, true, false), (Delta, true, false), (Sotw, false, false)];
    disagreeing(&clients, &[start.as_slice(), &end].concat());
}

#[test]
fn endpoints_asked_for_prove_nothing_of_a_cluster_that_came_again_in_another_version() {
    let start = [ToServer(1, 0), Publish(vec![NoCluster(0)]), Publish(vec![Cluster(0, 90)]), Pass(91), Pass(4909)];
    disagreeing(&[(Delta, true, false), (Delta, true, false)], &start);
}

#[test]
fn what_is_tried_beside_something_bad_that_was_not_answered_in_time_is_not_to_blame() {
    let start = [Publish(vec![Cluster(1, 1)]), Publish(vec![Cluster(0, 80)]), ToServer(2, 1), ToClient(2, 0)];
    let end = [ToServer(1, 11), ToClient(1, 0), ToServer(2, 3), Pass(5000)];
    let clients = [(Delta, true, false), (Sotw, false, false), (Sotw, true, false)];
    disagreeing(&clients, &[start.as_slice(), &end].concat());
}

#[test]
fn a_route_is_not_left_to_a_cluster_that_comes_again_bad_after_others_let_it_go() {
    let start = [ToServer(1, 9), ToClient(1, 0), ToServer(2, 3), Publish(vec![Cluster(0, 1)])];
    let turn = [Publish(vec![NoCluster(0)]), Publish(vec![Cluster(0, 90)]), Publish(vec![NoCluster(0)]), Pass(5000)];
    let end = [Publish(vec![Cluster(0, 90)]), Pass(1)];
    let clients = [(Delta, false, false), (Delta, true, false), (Delta, true, false)];
    disagreeing(&clients, &[start.as_slice(), &turn, &end].concat());
}

#[test]
fn who_refuses_the_current_version_and_the_one_before_that_others_took_is_not_told_of_them_by_turns() {
    let start = [ToServer(2, 0), Publish(vec![Cluster(3, 72)]), Publish(vec![Cluster(0, 80), Cluster(3, 90)])];
    let end = [ToClient(1, 0), ToClient(1, 2), Break(6)];
    disagreeing(&[(Delta, true, false), (Delta, true, true)], &[start.as_slice(), &end].concat());
}

#[test]
fn what_was_taken_back_without_an_answer_and_is_answered_late_is_compared_again() {
    let start = [ToServer(1, 0), ToClient(1, 0), ToServer(1, 0), ToClient(1, 0), ToServer(3, 0)];
    let news = [Publish(vec![Cluster(1, 1)]), Publish(vec![NoCluster(0)]), Publish(vec![Cluster(0, 2)]), Pass(5000)];
    disagreeing(&[(Sotw, true, false)], &[start.as_slice(), &news, &[Publish(vec![Cluster(0, 1)])]].concat());
}

#[test]
fn a_listener_that_was_refused_with_another_does_not_wait_for_routes_that_never_come() {
    let start = [Save, Publish(vec![Cluster(1, 1), Listener(0, 90, 0)]), Calm(1), Restart(false), Calm(1)];
    let end = [Publish(vec![Route(0, 90, 1)]), Publish(vec![Listener(1, 1, 0)])];
    disagreeing(&[(Delta, true, false), (Delta, false, false)], &[start.as_slice(), &end].concat());
}

#[test]
fn a_cluster_that_takes_its_time_is_waited_for_though_a_client_comes_again_with_it() {
    let steps = [Calm(1), Publish(vec![Route(0, 1, 16)]), Publish(vec![Cluster(4, 1)]), ToClient(2, 0), Break(0)];
    with_new_servers(Sotw, true, 1, &steps);
}

#[test]
fn nothing_is_kept_of_a_cluster_that_went_before_it_was_taken() {
    let start = [Calm(1), Cut(9), Publish(vec![Cluster(4, 1), Cluster(0, 90)]), ToServer(1, 0)];
    let clients = [(Sotw, true, false), (Delta, true, false), (Delta, true, false)];
    disagreeing(&clients, &[start.as_slice(), &[Publish(vec![NoCluster(4)])]].concat());
}

#[test]
fn a_ghost_that_could_take_its_time_is_taken_back_as_it_asks_for_nothing() {
    let start = [ToServer(1, 0), ToClient(1, 0), Publish(vec![Cluster(4, 95)]), Restart(false)];
    disagreeing(&[(Sotw, true, false)], &[start.as_slice(), &[Publish(vec![Cluster(0, 2)])]].concat());
}

#[test]
fn what_a_late_answer_clears_comes_again_if_it_was_taken_away_since() {
    let steps = [Publish(vec![Cluster(3, 95)]), Publish(vec![Cluster(1, 1)]), ToServer(1, 0), Pass(5000)];
    disagreeing(&[(Delta, true, false), (Delta, true, false)], &steps);
}

#[test]
fn nothing_is_kept_of_what_went_in_a_response_that_was_not_answered_before_the_next() {
    let start = [ToServer(1, 0), ToClient(1, 0), Publish(vec![Cluster(2, 1)]), Publish(vec![NoCluster(0)])];
    let end = [Publish(vec![Cluster(1, 78)]), ToServer(1, 0), Restart(true)];
    disagreeing(&[(Sotw, true, true)], &[start.as_slice(), &end].concat());
}

#[test]
fn a_listener_that_one_refuses_and_another_takes_after_a_wait_stays_there() {
    let steps = [Publish(vec![Cluster(4, 1)]), Publish(vec![Listener(0, 72, 4)]), Publish(vec![Route(1, 1, 16)])];
    disagreeing(&[(Sotw, true, true), (Delta, false, false)], &steps);
}

#[test]
fn a_ghost_beside_what_takes_its_time_is_taken_back() {
    let start = [Publish(vec![Cluster(4, 1)]), Publish(vec![Cluster(1, 95)]), ToServer(1, 0), ToClient(1, 0), Break(0)];
    let end = [Publish(vec![NoCluster(2)]), Publish(vec![Cluster(0, 90)]), ToClient(1, 0)];
    disagreeing(&[(Delta, true, false)], &[start.as_slice(), &end].concat());
}

#[test]
fn a_stream_for_endpoints_that_begins_anew_says_nothing_of_a_cluster_that_takes_its_time() {
    let start = [Publish(vec![Route(0, 1, 16)]), Calm(1), Publish(vec![Cluster(4, 1)]), ToClient(2, 0), ToServer(1, 0)];
    let end = [ToServer(3, 0), ToClient(1, 1), Cut(45), Publish(vec![Cluster(0, 1)]), ToClient(1, 0)];
    let ways = [Delta, Sotw].map(|variant| (Way { variant, aggregated: false }, false));
    let mut world = World::new(&ways, true);
    [start.as_slice(), &end].concat().iter().for_each(|step| world.step(step));
    world.finish();
}

#[test]
fn a_ghost_that_came_while_another_cluster_got_ready_is_the_only_one_that_is_not_found() {
    let again = [ToServer(1, 0), Publish(vec![Cluster(4, 1)]), ToClient(1, 0), Break(0), Publish(vec![Cluster(3, 95)])];
    let new = [Calm(1), Publish(vec![Cluster(4, 1)]), ToClient(1, 0), Publish(vec![Cluster(3, 95)])];
    let named = [
        Publish(vec![Cluster(4, 3), Route(0, 78, 16)]),
        ToClient(1, 0),
        Break(0),
        Publish(vec![Cluster(3, 95), Route(0, 78, 24)]),
    ];
    let changed = [Calm(1), Publish(vec![Cluster(4, 1)]), ToClient(1, 0), Publish(vec![Cluster(0, 95)])];
    for variant in [Delta, Sotw] {
        [again.as_slice(), &new, &named, &changed].into_iter().for_each(|steps| with_bad(variant, true, steps));
    }
}

#[test]
fn what_came_while_the_first_request_of_a_stream_waited_is_answered_by_it() {
    let ways = [(Sotw, true), (Delta, true), (Delta, true)];
    let mut world = World::new(&ways.map(|(variant, aggregated)| (Way { variant, aggregated }, false)), false);
    let bad = || Publish(vec![Cluster(0, 90)]);
    let start = [bad(), ToServer(2, 8), Break(8), ToClient(1, 0), Publish(vec![Cluster(0, 1)]), Pass(5000)];
    let turn = [ToServer(3, 2), Publish(vec![NoListener(0)]), ToClient(2, 2), Restart(false), ToServer(2, 3)];
    start.iter().chain(&turn).chain(&[Pass(5000), bad()]).for_each(|step| world.step(step));
    world.finish();
}
