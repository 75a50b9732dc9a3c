//! Rules 8, 13 and 14: names, known and unknown.

use proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest, ResourceLocator};

use super::talk::{delta, envoy, four, grpc};

#[test]
fn a_subscription_to_what_the_client_has_is_answered_again() {
    for node in [envoy, grpc] {
        for short in ["eds", "rds", "sds", "rtds"] {
            delta(node, &format!("{short} a"), |talk| {
                let a = format!("{} a@1", short.to_uppercase());
                talk.ask(short, &["a"]).is(&a);
                talk.ack(short).is("");
                talk.ask(short, &["a"]).is(&a);
            });
        }
    }
}

#[test]
fn what_is_unsubscribed_and_subscribed_again_is_answered_though_it_did_not_change() {
    for node in [envoy, grpc] {
        for short in ["eds", "rds", "sds", "rtds"] {
            four(node, &format!("{short} a; {short} b"), |talk| {
                let kind = short.to_uppercase();
                talk.ask(short, &["a", "b"]).any();
                talk.ack_all().is("");
                talk.drop(short, &["a"]).is("");
                talk.publish(&format!("{short} a@2; {short} b@2")).is(&format!("{kind} b@2"));
                talk.ack(short).is("");
                talk.ask(short, &["a"]).is(&format!("{kind} a@2"));
            });
        }
    }
}

#[test]
fn an_unknown_name_is_denied_at_once_with_an_error_and_sent_when_it_is_there() {
    for short in ["cds", "eds", "lds", "rds", "sds", "srds", "rtds", "other"] {
        four(grpc, "", |talk| {
            let kind = short.to_uppercase();
            talk.ask(short, &["a"]).are(&format!("{kind} -a !a"), &format!("{kind} !a"));
            talk.ack(short).is("");
            talk.publish(&format!("{short} a")).is(&format!("{kind} a@1"));
        });
    }
}

#[test]
fn an_envoy_gets_for_an_unknown_name_what_does_it_no_harm() {
    for (short, delta, sotw) in [
        ("eds", "EDS a@none", "EDS a@none"),
        ("rds", "RDS a@none", "RDS a@none"),
        ("sds", "", ""),
        ("cds", "CDS -a", "CDS"),
        ("lds", "LDS -a", "LDS"),
        ("rtds", "RTDS -a", ""),
        ("ecds", "ECDS -a", ""),
    ] {
        four(envoy, "", |talk| {
            talk.ask(short, &["a"]).are(delta, sotw);
            talk.ack_all().is("");
            talk.publish(&format!("{short} a")).is(&format!("{} a@1", short.to_uppercase()));
        });
    }
}

#[test]
fn errors_go_only_to_clients_that_are_no_envoy() {
    delta(envoy, "", |talk| talk.ask("rtds", &["a"]).is("RTDS -a"));
    delta(grpc, "", |talk| talk.ask("rtds", &["a"]).is("RTDS -a !a"));
}

#[test]
fn what_is_removed_is_no_error() {
    delta(grpc, "rtds a", |talk| {
        talk.ask("rtds", &["a"]).is("RTDS a@1");
        talk.ack("rtds").is("");
        talk.publish("-rtds a").is("RTDS -a");
    });
}

#[test]
fn unsubscribing_needs_no_answer_and_ends_what_is_told() {
    for node in [envoy, grpc] {
        four(node, "rtds a", |talk| {
            talk.ask("rtds", &["a"]).is("RTDS a@1");
            talk.ack("rtds").is("");
            talk.drop("rtds", &["a"]).is("");
            talk.publish("rtds a@2").is("");
            talk.publish("-rtds a").is("");
        });
    }
}

#[test]
fn unsubscribing_from_what_was_never_asked_for_means_nothing() {
    for node in [envoy, grpc] {
        four(node, "rtds a; rtds phantom", |talk| {
            talk.ask("rtds", &["a"]).is("RTDS a@1");
            talk.ack("rtds").is("");
            talk.drop("rtds", &["phantom", "nobody"]).is("");
            talk.publish("rtds a@2; rtds phantom@2").is("RTDS a@2");
        });
    }
}

#[test]
fn a_structured_name_is_the_same_whatever_the_order_of_its_context_parameters() {
    let name = "xdstp://authority/envoy.config.endpoint.v3.ClusterLoadAssignment/a/b?x=1&y=2";
    let asked = "xdstp://authority/envoy.config.endpoint.v3.ClusterLoadAssignment/a/b?y=2&x=1";
    four(grpc, &format!("rtds {name}"), |talk| {
        talk.ask("rtds", &[asked]).is(&format!("RTDS {name}@1"));
        talk.ack("rtds").is("");
        talk.publish(&format!("rtds {name}@2")).is(&format!("RTDS {name}@2"));
        talk.ack("rtds").is("");
        talk.drop("rtds", &[asked]).is("");
        talk.publish(&format!("rtds {name}@3")).is("");
    });
}

#[test]
fn who_asks_for_a_collection_gets_its_members_and_no_others_and_what_becomes_of_them() {
    for node in [envoy, grpc] {
        let resources =
            "rtds xdstp://a/t/p/x; rtds xdstp://a/t/p/y; rtds xdstp://a/t/q/z; rtds xdstp://a/t/p/x?k=v; rtds x";
        four(node, resources, |talk| {
            talk.ask("rtds", &["xdstp://a/t/p/*"]).is("RTDS xdstp://a/t/p/x@1 xdstp://a/t/p/y@1");
            talk.ack("rtds").is("");
            talk.publish("rtds xdstp://a/t/p/w; rtds xdstp://a/t/p/below/w").is("RTDS xdstp://a/t/p/w@1");
            talk.ack("rtds").is("");
            talk.publish("rtds xdstp://a/t/p/x@2; rtds xdstp://a/t/q/z@2").is("RTDS xdstp://a/t/p/x@2");
            talk.ack("rtds").is("");
            talk.publish("-rtds xdstp://a/t/p/y").are("RTDS -xdstp://a/t/p/y", "");
            talk.ack_all().is("");
            talk.ask("rtds", &["xdstp://a/t/p/*?k=v"]).is("RTDS xdstp://a/t/p/x?k=v@1");
            talk.ack("rtds").is("");
            talk.drop("rtds", &["xdstp://a/t/p/*"]).is("");
            talk.publish("rtds xdstp://a/t/p/x@3; rtds xdstp://a/t/p/x?k=v@2").is("RTDS xdstp://a/t/p/x?k=v@2");
        });
    }
}

#[test]
fn a_collection_without_members_does_not_exist_until_it_has_some() {
    let name = "xdstp://a/t/p/*";
    for (node, delta, sotw) in [(envoy as fn() -> _, "", ""), (grpc, " !xdstp://a/t/p/*", "RTDS !xdstp://a/t/p/*")] {
        four(node, "rtds xdstp://a/t/q/z", |talk| {
            talk.ask("rtds", &[name]).are(&format!("RTDS -{name}{delta}"), sotw);
            talk.ack_all().is("");
            talk.publish("rtds xdstp://a/t/p/x").is("RTDS xdstp://a/t/p/x@1");
            talk.ack("rtds").is("");
            talk.publish("-rtds xdstp://a/t/p/x").are("RTDS -xdstp://a/t/p/x", "");
            talk.ack_all().is("");
            talk.publish("rtds xdstp://a/t/p/x@2").is("RTDS xdstp://a/t/p/x@2");
        });
    }
}

#[test]
fn a_collection_of_listeners_is_listed_whole_in_state_of_the_world() {
    four(grpc, "lds xdstp://a/t/p/x; lds other", |talk| {
        talk.ask("lds", &["xdstp://a/t/p/*"]).is("LDS xdstp://a/t/p/x@1");
        talk.ack("lds").is("");
        talk.publish("lds xdstp://a/t/p/y; lds other@2")
            .are("LDS xdstp://a/t/p/y@1", "LDS xdstp://a/t/p/x@1 xdstp://a/t/p/y@1");
        talk.ack("lds").is("");
        talk.publish("-lds xdstp://a/t/p/x").are("LDS -xdstp://a/t/p/x", "LDS xdstp://a/t/p/y@1");
        talk.ack("lds").is("");
    });
}

#[test]
fn a_member_that_is_let_go_inside_its_collection_is_answered_with_what_the_collection_has() {
    four(grpc, "rtds xdstp://a/t/p/x", |talk| {
        talk.ask("rtds", &["xdstp://a/t/p/*"]).is("RTDS xdstp://a/t/p/x@1");
        talk.ack("rtds").is("");
        talk.ask("rtds", &["xdstp://a/t/p/x"]).is("RTDS xdstp://a/t/p/x@1");
        talk.ack("rtds").is("");
        talk.drop("rtds", &["xdstp://a/t/p/x"]).is("RTDS xdstp://a/t/p/x@1");
        talk.ack("rtds").is("");
        talk.publish("rtds xdstp://a/t/p/x@2").is("RTDS xdstp://a/t/p/x@2");
    });
}

#[test]
fn a_resource_can_be_named_by_a_locator() {
    four(grpc, "rtds a; rtds b", |talk| {
        let locators = |names: &[&str]| -> Vec<ResourceLocator> {
            names.iter().map(|&name| ResourceLocator { name: name.into(), ..ResourceLocator::default() }).collect()
        };
        let stream = talk.stream("rtds");
        let told = if talk.is_delta() {
            let resource_locators_subscribe = locators(&["a", "b"]);
            talk.say("rtds", DeltaDiscoveryRequest { resource_locators_subscribe, ..DeltaDiscoveryRequest::default() })
        } else {
            let resource_locators = locators(&["a", "b"]);
            talk.say_sotw("rtds", stream, DiscoveryRequest { resource_locators, ..DiscoveryRequest::default() })
        };
        told.is("RTDS a@1 b@1");
        let told = if talk.is_delta() {
            let resource_locators_unsubscribe = locators(&["a"]);
            talk.say(
                "rtds",
                DeltaDiscoveryRequest { resource_locators_unsubscribe, ..DeltaDiscoveryRequest::default() },
            )
        } else {
            let (resource_locators, response_nonce) = (locators(&["b"]), "1".into());
            let request = DiscoveryRequest { resource_locators, response_nonce, ..DiscoveryRequest::default() };
            talk.say_sotw("rtds", stream, request)
        };
        told.is("");
        talk.publish("rtds a@2").is("");
    });
}

#[test]
fn what_was_refused_and_is_gone_by_then_does_not_exist() {
    four(grpc, "rtds a@1", |talk| {
        talk.ask("rtds", &["a"]).is("RTDS a@1");
        talk.publish("-rtds a").is("");
        talk.nack("rtds", "it is bad").are("RTDS -a !a", "RTDS !a");
    });
}
