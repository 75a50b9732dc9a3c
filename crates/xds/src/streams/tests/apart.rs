//! Several streams of one client for one kind: Envoy has one for the endpoints of each version of a cluster.

use proto::envoy::service::discovery::v3::DeltaDiscoveryRequest;

use super::talk::{Talk, Way, envoy};
use crate::session::tests::rig::kind;
use crate::wire::{StreamId, Variant};

/// Tells a story over streams for each kind, in both variants.
fn apart(resources: &str, story: impl Fn(&mut Talk)) {
    for variant in [Variant::Delta, Variant::Sotw] {
        story(&mut Talk::new(Way { variant, aggregated: false }, envoy(), resources));
    }
}

/// The same where two streams, the older one first, have asked for the endpoints `a` and acknowledged them.
fn both_with_a(story: impl Fn(&mut Talk, [StreamId; 2])) {
    apart("eds a", |talk| {
        talk.ask("eds", &["a"]).is("EDS a@1");
        talk.ack_all().is("");
        let older = talk.begin_anew("eds");
        talk.ask("eds", &["a"]).is("EDS a@1");
        talk.ack_all().is("");
        let newer = talk.stream("eds");
        story(talk, [older, newer]);
    });
}

#[test]
fn each_stream_gets_what_it_asks_for_whatever_others_have() {
    apart("eds a; eds b", |talk| {
        talk.ask("eds", &["a"]).is("EDS a@1");
        // not answered yet
        talk.begin_anew("eds");
        talk.ask("eds", &["a", "b"]).is("EDS a@1 b@1");
        assert_eq!(talk.heard_on(), talk.stream("eds"));
    });
}

#[test]
fn each_of_the_streams_that_ask_for_a_name_at_once_gets_it_though_the_client_has_it_from_another() {
    apart("other a", |talk| {
        talk.ask_all("other").is("OTHER a@1");
        talk.begin_anew("other");
        talk.ask_in_passing("other", "a");
        talk.begin_anew("other");
        talk.ask_in_passing("other", "a");
        talk.advance().is("OTHER a@1 | OTHER a@1");
        talk.advance().is("");
    });
}

#[test]
fn a_stream_that_asks_for_everything_gets_it_though_the_client_has_it_from_another() {
    apart("rtds a; rtds b", |talk| {
        talk.ask_all("rtds").is("RTDS a@1 b@1");
        talk.begin_anew("rtds");
        talk.ask_all("rtds").is("RTDS a@1 b@1");
        assert_eq!(talk.heard_on(), talk.stream("rtds"));
        talk.advance().is("");
    });
}

#[test]
fn who_asks_for_everything_is_told_of_what_another_stream_asks_for_by_its_name() {
    apart("rtds xdstp://a/t/x", |talk| {
        talk.ask_all("rtds").is("RTDS xdstp://a/t/x@1");
        talk.ack_all().is("");
        for name in ["xdstp://a/t/*", "xdstp://a/t/x"] {
            talk.begin_anew("rtds");
            talk.ask("rtds", &[name]).is("RTDS xdstp://a/t/x@1");
            talk.ack_all().is("");
        }
        let told = "RTDS xdstp://a/t/x@2";
        talk.publish("rtds xdstp://a/t/x@2").is(&[told; 3].join(" | "));
        talk.ack_all().is("");
        assert!(talk.holds("rtds", "xdstp://a/t/x", 2));
        talk.publish("-rtds xdstp://a/t/x").are(&["RTDS -xdstp://a/t/x"; 3].join(" | "), "");
    });
}

#[test]
fn a_cluster_is_warm_with_the_answer_on_its_own_stream() {
    let mut talk = Talk::new(Way { variant: Variant::Delta, aggregated: false }, envoy(), "cds x; lds l -> r; rds r");
    for name in ["a", "b", "x"] {
        talk.begin_anew("cds");
        talk.ask("cds", &[name]).any();
    }
    talk.ask("rds", &["r"]).is("RDS r@1");
    talk.ack_all().is("");
    talk.publish("cds a; cds b; rds r@2 -> a").is("CDS a@1 | CDS b@1");
    talk.ack_all().is("RDS r@2");
}

#[test]
fn what_two_streams_ask_for_both_are_told_and_the_answers_of_the_newer_one_count() {
    both_with_a(|talk, [older, _]| {
        talk.publish("eds a@2").is("EDS a@2 | EDS a@2");
        talk.refuse_on(older).is("");
        assert!(!talk.holds("eds", "a", 2));
        talk.ack_all().is("");
        assert!(talk.holds("eds", "a", 2));
    });
}

#[test]
fn what_an_older_stream_does_not_want_any_more_the_newer_one_keeps() {
    for ends in [true, false] {
        both_with_a(|talk, [older, newer]| {
            if ends {
                talk.close(older).is("");
            } else {
                talk.drop_on(older, "eds", "a").is("");
            }
            talk.publish("eds a@2").is("EDS a@2");
            assert_eq!(talk.heard_on(), newer);
        });
    }
}

#[test]
fn what_a_newer_stream_does_not_want_any_more_the_older_one_has() {
    for ends in [true, false] {
        both_with_a(|talk, [older, newer]| {
            if ends {
                talk.close(newer).is("");
            } else {
                talk.drop_on(newer, "eds", "a").is("");
            }
            talk.publish("eds a@2").is("EDS a@2");
            assert_eq!(talk.heard_on(), older);
        });
    }
}

#[test]
fn what_an_older_stream_refused_it_gets_when_its_answers_count() {
    both_with_a(|talk, [older, newer]| {
        talk.publish("eds a@2").is("EDS a@2 | EDS a@2");
        talk.refuse_on(older).is("");
        talk.ack_all().is("");
        talk.close(newer).is("EDS a@2");
        assert_eq!(talk.heard_on(), older);
    });
}

#[test]
fn what_an_older_stream_has_not_answered_it_gets_when_its_answers_count() {
    both_with_a(|talk, [_, newer]| {
        talk.publish("eds a@2").is("EDS a@2 | EDS a@2");
        talk.ack("eds").is("");
        talk.close(newer).is("EDS a@2");
    });
}

#[test]
fn what_only_the_newer_stream_did_not_answer_the_older_one_has() {
    apart("eds a", |talk| {
        talk.ask("eds", &["a"]).is("EDS a@1");
        talk.ack_all().is("");
        talk.begin_anew("eds");
        talk.ask("eds", &["a"]).is("EDS a@1");
        talk.end("eds").is("");
    });
}

#[test]
fn who_has_everything_does_not_get_what_another_stream_asked_for_by_name_again() {
    apart("rtds a; rtds b", |talk| {
        talk.ask_all("rtds").is("RTDS a@1 b@1");
        talk.ack_all().is("");
        talk.begin_anew("rtds");
        talk.ask("rtds", &["a"]).is("RTDS a@1");
        talk.ack_all().is("");
        talk.end("rtds").is("");
        talk.publish("rtds a@2").is("RTDS a@2");
    });
}

#[test]
fn what_no_stream_wants_any_more_is_forgotten() {
    apart("eds a; eds b", |talk| {
        talk.ask("eds", &["a"]).is("EDS a@1");
        talk.ack_all().is("");
        let older = talk.begin_anew("eds");
        talk.ask("eds", &["b"]).is("EDS b@1");
        talk.ack_all().is("");
        talk.close(older).is("");
        talk.publish("eds a@2; eds b@2").is("EDS b@2");
        talk.ack_all().is("");
        talk.ask("eds", &["a"]).is("EDS a@2");
    });
}

#[test]
fn the_last_stream_of_a_kind_ends_and_the_next_one_begins_from_nothing() {
    apart("eds a; rtds x", |talk| {
        talk.ask("eds", &["a"]).is("EDS a@1");
        talk.ask("rtds", &["x"]).is("RTDS x@1");
        talk.ack_all().is("");
        talk.end("eds").is("");
        talk.publish("eds a@2; rtds x@2").is("RTDS x@2");
        talk.ack_all().is("");
        talk.begin(&kind("eds"));
        talk.ask("eds", &["a"]).is("EDS a@2");
    });
}

#[test]
fn streams_that_come_again_say_each_what_it_has() {
    let mut talk = Talk::new(Way { variant: Variant::Delta, aggregated: false }, envoy(), "rds a; rds b@2; rds c");
    for (name, version, told) in [("a", 1, ""), ("b", 1, "RDS b@2"), ("c", 1, "")] {
        talk.begin_anew("rds");
        let request = DeltaDiscoveryRequest {
            resource_names_subscribe: vec![name.into()],
            initial_resource_versions: [(name.to_owned(), format!("{version:032x}"))].into(),
            ..DeltaDiscoveryRequest::default()
        };
        talk.say("rds", request).is(told);
    }
}

#[test]
fn what_a_stream_leaves_unanswered_when_it_ends_is_not_waited_for() {
    apart("eds a", |talk| {
        talk.ask("eds", &["a"]).is("EDS a@1");
        talk.ack_all().is("");
        let older = talk.begin_anew("eds");
        talk.ask("eds", &["a"]).is("EDS a@1");
        let newer = talk.stream("eds");
        talk.publish("eds a@2").is("");
        talk.close(newer).is("EDS a@2");
        assert_eq!(talk.heard_on(), older);
    });
}

#[test]
fn names_that_several_streams_ask_for_count_for_each() {
    let mut talk = Talk::new(Way { variant: Variant::Delta, aggregated: false }, envoy(), "");
    let names: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
    for fits in [true, true, false] {
        talk.begin_anew("rtds");
        let stream = talk.stream("rtds");
        let request = DeltaDiscoveryRequest {
            type_url: kind("rtds").as_str().into(),
            resource_names_subscribe: names.clone(),
            ..DeltaDiscoveryRequest::default()
        };
        assert_eq!(talk.hand_in(stream, &request).is_ok(), fits);
    }
}
