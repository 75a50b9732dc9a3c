//! What a client costs at most, whatever it says.

use std::collections::BTreeMap;

use proto::envoy::service::discovery::v3::DeltaDiscoveryRequest;

use super::talk::{Talk, Way, envoy, grpc};
use crate::session::Violation;
use crate::session::tests::rig::kind;
use crate::wire::Variant;

const APART: Way = Way { variant: Variant::Delta, aggregated: false };
const AGGREGATED: Way = Way { variant: Variant::Delta, aggregated: true };

/// A client comes again to a kind of this type URL with so many names, each so long at least.
fn listing(type_url: &str, names: usize, length: usize) -> DeltaDiscoveryRequest {
    let versions: BTreeMap<String, String> = (0..names).map(|n| (format!("{n:0length$}"), "1".to_owned())).collect();
    DeltaDiscoveryRequest {
        type_url: type_url.into(),
        initial_resource_versions: versions,
        ..DeltaDiscoveryRequest::default()
    }
}

#[test]
fn names_that_a_client_let_go_of_are_not_kept_for_answers_that_do_not_come() {
    for way in [AGGREGATED, APART] {
        for node in [envoy, grpc] {
            let mut talk = Talk::new(way, node(), "");
            for round in 0..300 {
                let names: Vec<String> = (0..300).map(|n| format!("{round}-{n}")).collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                for short in ["eds", "rtds"] {
                    talk.ask(short, &names).any();
                    talk.drop(short, &names).is("");
                }
                talk.pass(500).is("");
            }
            assert!(talk.entries() < 2_000, "{} things are kept for {way:?}", talk.entries());
        }
    }
}

#[test]
fn a_name_that_is_asked_for_again_and_again_is_kept_for_few_answers_that_do_not_come() {
    for way in [AGGREGATED, APART] {
        let mut talk = Talk::new(way, envoy(), "");
        let names: Vec<String> = (0..300).map(|n| n.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for _ in 0..200 {
            talk.ask("eds", &names).any();
            talk.pass(6_000).is("");
        }
        assert!(talk.entries() < 3_000, "{} things are kept for {way:?}", talk.entries());
    }
}

#[test]
fn an_empty_resource_that_a_client_refuses_is_not_remembered() {
    let mut talk = Talk::new(AGGREGATED, envoy(), "");
    for round in 0..200 {
        let name = round.to_string();
        talk.ask("eds", &[&name]).any();
        talk.nack("eds", "no").any();
        talk.drop("eds", &[&name]).is("");
        talk.ack("eds").is("");
        talk.pass(1_000).is("");
    }
    assert!(talk.entries() < 50, "{} things are kept", talk.entries());
}

#[test]
fn names_that_a_client_says_it_has_count_with_those_that_it_asks_for() {
    let mut talk = Talk::new(AGGREGATED, envoy(), "");
    let stream = talk.stream("cds");
    for (type_url, fits) in [("one", true), ("two", true), ("three", false)] {
        let taken = talk.hand_in(stream, &listing(type_url, 100_000, 1));
        assert_eq!(taken.err(), (!fits).then_some(Violation::TooManyNames(262_144)));
    }
}

#[test]
fn what_a_client_has_and_asks_for_counts_once() {
    let mut talk = Talk::new(AGGREGATED, envoy(), "");
    let stream = talk.stream("cds");
    for type_url in ["one", "two"] {
        let request = listing(type_url, 100_000, 1);
        let resource_names_subscribe = request.initial_resource_versions.keys().cloned().collect();
        let request = DeltaDiscoveryRequest { resource_names_subscribe, ..request };
        assert_eq!(talk.hand_in(stream, &request), Ok(()));
    }
}

#[test]
fn names_that_a_client_says_it_has_count_until_its_stream_ends() {
    let mut talk = Talk::new(APART, envoy(), "");
    talk.ask_all("cds").any();
    for _ in 0..8 {
        talk.begin_anew("rtds");
        let stream = talk.stream("rtds");
        assert_eq!(talk.hand_in(stream, &listing(kind("rtds").as_str(), 60_000, 180)), Ok(()));
        talk.end("rtds").is("");
    }
}
