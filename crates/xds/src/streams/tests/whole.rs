//! Rules 5 and 6: what the state of the world is.

use super::talk::{envoy, four, grpc, sotw};

#[test]
fn a_response_of_clusters_or_listeners_holds_all_of_them_and_what_it_leaves_out_is_gone() {
    for (short, node) in [("cds", envoy as fn() -> _), ("lds", envoy), ("cds", grpc), ("lds", grpc)] {
        four(node, &format!("{short} a; {short} b"), |talk| {
            let kind = short.to_uppercase();
            talk.ask_all(short).is(&format!("{kind} a@1 b@1"));
            talk.ack(short).is("");
            talk.publish(&format!("{short} b@2")).are(&format!("{kind} b@2"), &format!("{kind} a@1 b@2"));
            talk.ack(short).is("");
            talk.publish(&format!("-{short} a")).are(&format!("{kind} -a"), &format!("{kind} b@2"));
            talk.ack(short).is("");
        });
    }
}

#[test]
fn the_last_cluster_or_listener_goes_with_an_empty_response() {
    for short in ["cds", "lds"] {
        four(envoy, &format!("{short} a"), |talk| {
            let kind = short.to_uppercase();
            talk.ask_all(short).is(&format!("{kind} a@1"));
            talk.ack(short).is("");
            talk.publish(&format!("-{short} a")).are(&format!("{kind} -a"), &kind);
        });
    }
}

#[test]
fn who_asks_for_all_clusters_or_listeners_is_answered_also_if_there_are_none() {
    for short in ["cds", "lds"] {
        four(envoy, "", |talk| {
            talk.ask_all(short).is(&short.to_uppercase());
            talk.ack(short).is("");
            talk.publish(&format!("{short} a")).is(&format!("{} a@1", short.to_uppercase()));
        });
    }
}

#[test]
fn of_other_kinds_only_what_changed_is_sent_and_of_what_is_gone_nothing_is_said() {
    for short in ["rtds", "ecds", "other", "leds"] {
        four(envoy, &format!("{short} a; {short} b"), |talk| {
            let kind = short.to_uppercase();
            talk.ask(short, &["a", "b"]).is(&format!("{kind} a@1 b@1"));
            talk.ack(short).is("");
            talk.publish(&format!("{short} b@2")).is(&format!("{kind} b@2"));
            talk.ack(short).is("");
            talk.publish(&format!("-{short} a")).are(&format!("{kind} -a"), "");
            talk.ack_all().is("");
            // it came back: that is news
            talk.publish(&format!("{short} a@1")).is(&format!("{kind} a@1"));
        });
    }
}

#[test]
fn a_newly_named_resource_is_sent_though_it_did_not_change_and_was_sent_before() {
    for node in [envoy, grpc] {
        four(node, "rtds a; rtds b", |talk| {
            talk.ask("rtds", &["a"]).is("RTDS a@1");
            talk.ack("rtds").is("");
            talk.ask("rtds", &["b"]).is("RTDS b@1");
            talk.ack("rtds").is("");
            talk.drop("rtds", &["a"]).is("");
            talk.ask("rtds", &["a"]).is("RTDS a@1");
        });
    }
}

#[test]
fn a_client_that_names_its_clusters_gets_those_and_all_of_them_each_time() {
    for node in [envoy, grpc] {
        sotw(node, "cds a; cds b; cds c", |talk| {
            talk.ask("cds", &["a", "b"]).is("CDS a@1 b@1");
            talk.ack("cds").is("");
            talk.publish("cds a@2; cds c@2").is("CDS a@2 b@1");
            talk.ack("cds").is("");
            talk.publish("cds c@3").is("");
        });
    }
}

#[test]
fn a_name_that_stands_twice_in_a_request_or_a_publication_is_sent_once_and_the_last_counts() {
    four(envoy, "cds a@1; cds a@2; eds a@1; eds a@2", |talk| {
        talk.ask_all("cds").is("CDS a@2");
        talk.ask("eds", &["a", "a"]).is("EDS a@2");
        talk.ack_all().is("");
        talk.publish("eds a@3; -eds a; eds a@4").is("EDS a@4");
    });
}

#[test]
fn a_client_that_asks_for_endpoints_first_keeps_its_clusters() {
    for node in [envoy as fn() -> _, grpc] {
        for answers in [true, false] {
            sotw(node, "cds a; eds a; cds later; eds later", |talk| {
                talk.ask("eds", &["a"]).is("EDS a@1");
                if answers {
                    talk.ack("eds").is("");
                }
                // and never a word about clusters
                let mut told = vec![talk.ask_all("cds").text(), talk.publish("-cds later; -eds later").text()];
                told.extend((0..60).map(|_| talk.pass(1_000).text()));
                let words = told.iter().flat_map(|text| text.split(" | "));
                let clusters: Vec<&str> = words.filter(|text| text.starts_with("CDS")).collect();
                assert!(clusters.iter().all(|text| text.contains("a@1")), "{:?}: {clusters:?}", talk.way);
                assert_eq!(clusters.last(), Some(&"CDS a@1"), "{:?}: {clusters:?}", talk.way);
            });
        }
    }
}
