//! Rule 9: a client that comes again says what it has, and is told what is different.

use super::talk::{WORLD, delta, envoy, four, sotw, start};

const KINDS: [&str; 4] = ["cds", "eds", "lds", "rds"];

#[test]
fn a_client_that_comes_again_to_an_unchanged_fleet_is_told_nothing_of_what_it_has() {
    delta(envoy, WORLD, |talk| {
        start(talk);
        talk.reconnect(&KINDS).is("");
        talk.pass(60_000).is("");
        talk.publish("eds a@2").is("EDS a@2");
    });
}

#[test]
fn what_changed_or_went_while_a_client_was_away_is_told_when_it_comes_again() {
    delta(envoy, "rtds a; rtds b; rtds c", |talk| {
        talk.ask("rtds", &["a", "b", "c"]).is("RTDS a@1 b@1 c@1");
        talk.ack("rtds").is("");
        talk.fleet_only("rtds a@2; -rtds b");
        talk.reconnect(&["rtds"]).is("RTDS a@2");
        // what listeners and routes may name goes last, and it has not spoken of those
        talk.pass(5_000).is("RTDS -b");
    });
}

#[test]
fn a_client_of_the_whole_state_that_comes_again_gets_clusters_and_listeners_only_if_something_changed() {
    sotw(envoy, WORLD, |talk| {
        start(talk);
        talk.reconnect(&["cds", "lds"]).is("");
        talk.fleet_only("cds a@2");
        let told = talk.reconnect(&["cds", "lds"]);
        told.is(if talk.way.aggregated { "CDS a@2 | EDS a@1" } else { "CDS a@2" });
    });
}

#[test]
fn a_version_that_is_none_of_ours_is_replaced() {
    four(envoy, "rtds a", |talk| {
        talk.ask("rtds", &["a"]).is("RTDS a@1");
        talk.ack("rtds").is("");
        talk.pretend("rtds", "a", "somebody else's");
        talk.reconnect(&["rtds"]).is("RTDS a@1");
    });
}
