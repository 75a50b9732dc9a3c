//! Rule 12: times to live.

use super::talk::{Talk, Way, delta, envoy, four, grpc, lasting, sotw};
use crate::event::Node;
use crate::wire::Variant;

fn lasting_envoy() -> Node {
    lasting(envoy(), true)
}

fn lasting_grpc() -> Node {
    lasting(grpc(), true)
}

#[test]
fn a_client_that_understands_it_is_told_the_time_to_live_and_a_heartbeat_at_half_of_it() {
    for node in [lasting_envoy, lasting_grpc] {
        four(node, "eds a !ttl 4; rtds b", |talk| {
            talk.ask("eds", &["a"]).is("EDS a@1/4s");
            talk.ack("eds").is("");
            talk.ask("rtds", &["b"]).is("RTDS b@1");
            talk.ack("rtds").is("");
            talk.pass(1_999).is("");
            talk.pass(1).is("EDS a/4s");
            talk.ack("eds").is("");
            talk.pass(2_000).is("EDS a/4s");
            talk.ack("eds").is("");
            talk.publish("eds a@2 !ttl 4").is("EDS a@2/4s");
            talk.ack("eds").is("");
            talk.publish("eds a@3").is("EDS a@3");
            talk.ack("eds").is("");
            talk.pass(60_000).is("");
        });
    }
}

#[test]
fn a_client_that_does_not_say_that_it_understands_it_is_told_nothing_of_it() {
    four(envoy, "eds a !ttl 4", |talk| {
        talk.ask("eds", &["a"]).is("EDS a@1");
        talk.ack("eds").is("");
        talk.pass(60_000).is("");
    });
}

#[test]
fn in_the_state_of_the_world_a_time_to_live_is_told_only_to_who_understands_resources_that_are_wrapped() {
    let unwrapped = || lasting(envoy(), false);
    sotw(unwrapped, "eds a !ttl 4", |talk| {
        talk.ask("eds", &["a"]).is("EDS a@1");
        talk.ack("eds").is("");
        talk.pass(60_000).is("");
    });
    delta(unwrapped, "eds a !ttl 4", |talk| talk.ask("eds", &["a"]).is("EDS a@1/4s"));
}

#[test]
fn clusters_and_listeners_have_none() {
    for short in ["cds", "lds"] {
        let ways = [true, false].map(|aggregated| Way { variant: Variant::Delta, aggregated });
        for way in ways {
            let mut talk = Talk::new(way, lasting_envoy(), &format!("{short} a"));
            talk.ask_all(short).is(&format!("{} a@1", short.to_uppercase()));
            talk.ack(short).is("");
            talk.pass(60_000).is("");
        }
    }
}

#[test]
fn what_is_gone_or_not_wanted_any_more_has_no_heartbeat() {
    four(lasting_envoy, "rtds a !ttl 4; rtds b !ttl 4; rtds c !ttl 4", |talk| {
        talk.ask("rtds", &["a", "b", "c"]).is("RTDS a@1/4s b@1/4s c@1/4s");
        talk.ack("rtds").is("");
        talk.publish("-rtds a").are("RTDS -a", "");
        talk.ack_all().is("");
        talk.drop("rtds", &["b"]).is("");
        talk.pass(2_000).is("RTDS c/4s");
    });
}
