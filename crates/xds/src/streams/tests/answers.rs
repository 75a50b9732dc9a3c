//! Rules 3 and 4: what an answer is, and what is not answered.

use std::collections::BTreeSet;

use proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use proto::google::rpc::Status;

use super::talk::{delta, envoy, four, grpc, sotw};

#[test]
fn an_acknowledgement_is_answered_with_nothing() {
    four(envoy, "cds a; eds a", |talk| {
        talk.ask_all("cds").is("CDS a@1");
        talk.ack("cds").is("");
        talk.pass(60_000).is("");
    });
}

#[test]
fn what_is_published_unchanged_is_not_sent_again() {
    four(envoy, "eds a", |talk| {
        talk.ask("eds", &["a"]).is("EDS a@1");
        talk.ack("eds").is("");
        talk.publish("eds a@1").is("");
        talk.publish("eds a@2; eds a@1").is("");
    });
}

#[test]
fn of_changes_that_come_while_an_answer_is_due_only_the_latest_is_sent() {
    four(envoy, "eds a", |talk| {
        talk.ask("eds", &["a"]).is("EDS a@1");
        talk.publish("eds a@2").is("");
        talk.publish("eds a@3").is("");
        talk.ack("eds").is("EDS a@3");
        talk.ack("eds").is("");
    });
}

#[test]
fn a_newer_request_of_a_kind_takes_the_place_of_the_older() {
    four(envoy, "rtds a; rtds b; rtds c", |talk| {
        talk.ask("rtds", &["a"]).is("RTDS a@1");
        talk.ack("rtds").is("");
        talk.want("rtds", &["b"], &["a"]).is("RTDS b@1");
        talk.ack("rtds").is("");
        talk.publish("rtds a@2; rtds b@2").is("RTDS b@2");
    });
}

#[test]
fn a_refusal_is_a_request_with_error_detail_and_its_resource_is_not_sent_again_before_it_changes() {
    for node in [envoy, grpc] {
        four(node, "rtds a", |talk| {
            talk.ask("rtds", &["a"]).is("RTDS a@1");
            talk.ack("rtds").is("");
            talk.publish("rtds a@2").is("RTDS a@2");
            talk.nack("rtds", "no").is("");
            talk.pass(60_000).is("");
            talk.publish("rtds a@3").is("RTDS a@3");
        });
    }
}

#[test]
fn the_version_in_an_answer_does_not_make_it_a_refusal_or_an_acknowledgement() {
    sotw(envoy, "rtds a", |talk| {
        talk.ask("rtds", &["a"]).is("RTDS a@1");
        talk.ack("rtds").is("");
        let before = talk.kinds.values().next().unwrap().version.clone();
        let stream = talk.stream("rtds");
        let answer = |nonce: &str, version: &str, error: Option<Status>| DiscoveryRequest {
            version_info: version.into(),
            resource_names: vec!["a".into()],
            response_nonce: nonce.into(),
            error_detail: error,
            ..DiscoveryRequest::default()
        };
        talk.publish("rtds a@2").is("RTDS a@2");
        // the version of before, and no error: acknowledged
        talk.say_sotw("rtds", stream, answer("2", &before, None)).is("");
        assert!(talk.holds("rtds", "a", 2));
        talk.publish("rtds a@3").is("RTDS a@3");
        // another version, and an error: refused
        talk.say_sotw("rtds", stream, answer("3", "new", Some(Status { code: 13, ..Status::default() }))).is("");
        assert!(talk.holds("rtds", "a", 2));
    });
}

#[test]
fn an_answer_with_a_nonce_that_was_never_given_means_nothing() {
    four(envoy, "rtds a", |talk| {
        talk.ask("rtds", &["a"]).is("RTDS a@1");
        let stream = talk.stream("rtds");
        for (nonce, error) in [("17", None), ("17", Some(Status::default())), ("not a number", Some(Status::default()))]
        {
            let delta = DeltaDiscoveryRequest {
                response_nonce: nonce.into(),
                error_detail: error.clone(),
                ..DeltaDiscoveryRequest::default()
            };
            let whole = DiscoveryRequest {
                resource_names: vec!["a".into()],
                response_nonce: nonce.into(),
                error_detail: error,
                ..DiscoveryRequest::default()
            };
            let told = if talk.is_delta() { talk.say("rtds", delta) } else { talk.say_sotw("rtds", stream, whole) };
            told.is("");
        }
        assert!(!talk.holds("rtds", "a", 1));
        talk.publish("rtds a@2").is("");
        talk.ack("rtds").is("RTDS a@2");
    });
}

#[test]
fn a_request_of_the_whole_state_with_a_stale_nonce_is_not_answered_before_the_latest_response_is() {
    sotw(envoy, "rtds a; rtds b; rtds c", |talk| {
        talk.ask("rtds", &["a", "b"]).is("RTDS a@1 b@1");
        talk.ack("rtds").is("");
        talk.publish("rtds a@2").is("RTDS a@2");
        // it had not seen that yet
        talk.ask("rtds", &["c"]).is("");
        talk.ack("rtds").is("RTDS c@1");
    });
}

#[test]
fn a_delta_request_changes_what_is_subscribed_whatever_its_nonce() {
    delta(envoy, "rtds a; rtds b", |talk| {
        talk.ask("rtds", &["a"]).is("RTDS a@1");
        talk.ack("rtds").is("");
        talk.publish("rtds a@2").is("RTDS a@2");
        let stale = |more: &[&str], less: &[&str]| DeltaDiscoveryRequest {
            resource_names_subscribe: more.iter().map(|&name| name.into()).collect(),
            resource_names_unsubscribe: less.iter().map(|&name| name.into()).collect(),
            response_nonce: "1".into(),
            ..DeltaDiscoveryRequest::default()
        };
        talk.say("rtds", stale(&["b"], &[])).is("RTDS b@1");
        talk.say("rtds", stale(&[], &["a"])).is("");
        talk.publish("rtds a@3; rtds b@2").is("");
        talk.ack_all().is("RTDS b@2");
    });
}

#[test]
fn every_response_has_a_nonce_of_its_own() {
    four(envoy, "cds a; eds a; rtds x", |talk| {
        let mut nonces = BTreeSet::new();
        for (short, names) in [("cds", &[][..]), ("eds", &["a"]), ("rtds", &["x"])] {
            talk.ask(short, names).is(&format!(
                "{} {}@1",
                short.to_uppercase(),
                if short == "rtds" { "x" } else { "a" }
            ));
            talk.ack(short).is("");
            assert!(nonces.insert(talk.nonce(short)), "{nonces:?}");
        }
        talk.publish("rtds x@2").is("RTDS x@2");
        talk.ack("rtds").is("");
        assert!(nonces.insert(talk.nonce("rtds")) && !nonces.contains(""), "{nonces:?}");
    });
}
