//! Rule 7: everything.

use super::talk::{delta, envoy, four, grpc, sotw};

#[test]
fn who_names_nothing_in_the_first_request_gets_all_clusters_listeners_and_what_is_no_part_of_them() {
    for short in ["cds", "lds", "srds", "rtds", "ecds", "other"] {
        four(envoy, &format!("{short} a"), |talk| {
            let kind = short.to_uppercase();
            talk.ask_all(short).is(&format!("{kind} a@1"));
            talk.ack(short).is("");
            talk.publish(&format!("{short} b")).are(
                &format!("{kind} b@1"),
                &if ["cds", "lds", "srds"].contains(&short) {
                    format!("{kind} a@1 b@1")
                } else {
                    format!("{kind} b@1")
                },
            );
        });
    }
}

#[test]
fn who_names_nothing_in_the_first_request_gets_no_endpoints_routes_or_secrets() {
    for short in ["eds", "rds", "sds"] {
        four(envoy, &format!("{short} a"), |talk| {
            talk.ask_all(short).is("");
            talk.publish(&format!("{short} b")).is("");
            talk.ask(short, &["a"]).is(&format!("{} a@1", short.to_uppercase()));
        });
    }
}

#[test]
fn a_star_means_everything_of_any_kind() {
    for short in ["cds", "eds", "lds", "sds", "rds", "srds", "rtds", "ecds", "other"] {
        four(envoy, &format!("{short} a"), |talk| {
            let kind = short.to_uppercase();
            talk.ask(short, &["*"]).is(&format!("{kind} a@1"));
            talk.ack(short).is("");
            talk.publish(&format!("{short} a@2")).is(&format!("{kind} a@2"));
        });
    }
}

#[test]
fn a_star_among_names_means_everything() {
    four(envoy, "rtds a; rtds b", |talk| {
        talk.ask("rtds", &["a"]).is("RTDS a@1");
        talk.ack("rtds").is("");
        talk.ask("rtds", &["*"]).is("RTDS b@1");
        talk.ack("rtds").is("");
        talk.publish("rtds a@2; rtds c").is("RTDS a@2 c@1");
    });
}

#[test]
fn who_has_named_a_star_and_then_names_nothing_wants_nothing() {
    for short in ["cds", "lds", "rtds"] {
        four(envoy, &format!("{short} a"), |talk| {
            let kind = short.to_uppercase();
            talk.ask(short, &["*"]).is(&format!("{kind} a@1"));
            talk.ack(short).is("");
            talk.drop(short, &["*"]).is("");
            talk.publish(&format!("{short} a@2")).is("");
            talk.ask(short, &["*"]).is(&format!("{kind} a@2"));
        });
    }
}

#[test]
fn who_has_named_something_and_then_names_nothing_wants_nothing() {
    for short in ["cds", "lds", "rtds"] {
        four(grpc, &format!("{short} a; {short} b"), |talk| {
            talk.ask(short, &["a"]).is(&format!("{} a@1", short.to_uppercase()));
            talk.ack(short).is("");
            talk.drop(short, &["a"]).is("");
            talk.publish(&format!("{short} a@2; {short} b@2")).is("");
        });
    }
}

#[test]
fn who_wanted_everything_by_naming_nothing_and_then_names_something_wants_only_that() {
    for node in [envoy, grpc] {
        sotw(node, "rtds a; rtds b", |talk| {
            talk.ask_all("rtds").is("RTDS a@1 b@1");
            talk.ack("rtds").is("");
            talk.ask("rtds", &["a"]).is("RTDS a@1");
            talk.ack("rtds").is("");
            talk.publish("rtds a@2; rtds b@2").is("RTDS a@2");
        });
    }
}

#[test]
fn a_name_that_is_unsubscribed_beside_the_wildcard_is_answered_with_what_the_wildcard_has_of_it() {
    delta(grpc, "rtds a", |talk| {
        talk.ask("rtds", &["*", "a", "b"]).is("RTDS -b !b | RTDS a@1");
        talk.ack_all().is("");
        talk.drop("rtds", &["a", "b"]).is("RTDS -b !b | RTDS a@1");
    });
}
