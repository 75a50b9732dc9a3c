//! When a client is told that something is gone: at once if nothing that it asks for can name it, else after what can use it.

use super::talk::{WORLD, envoy, four, grpc, start};

#[test]
fn a_removal_is_reported_at_once_where_nothing_can_name_it() {
    for node in [envoy as fn() -> _, grpc] {
        for (short, sotw) in [("cds", "CDS b@1"), ("eds", ""), ("rds", ""), ("lds", "LDS b@1")] {
            four(node, &format!("{short} a; {short} b"), |talk| {
                let kind = short.to_uppercase();
                talk.ask(short, &["a", "b"]).is(&format!("{kind} a@1 b@1"));
                talk.ack(short).is("");
                talk.publish(&format!("-{short} a")).are(&format!("{kind} -a"), sotw);
                talk.ack_all().is("");
                talk.pass(3_600_000).is("");
            });
        }
    }
}

#[test]
fn a_secret_is_removed_at_once_from_who_asks_for_nothing_else() {
    four(grpc, "sds a", |talk| {
        talk.ask("sds", &["a"]).is("SDS a@1");
        talk.ack("sds").is("");
        talk.publish("-sds a").are("SDS -a", "");
    });
}

#[test]
fn a_cluster_of_routes_stays_twenty_seconds_with_other_clients() {
    four(grpc, WORLD, |talk| {
        talk.ask("lds", &["l"]).is("LDS l@1");
        talk.ask("rds", &["r"]).is("RDS r@1");
        talk.ask("cds", &["a"]).is("CDS a@1");
        talk.ask("eds", &["a"]).is("EDS a@1");
        talk.ack_all().is("");
        talk.publish("-lds l; -rds r; -cds a; -eds a").are("LDS -l", "LDS");
        talk.ack_all().is("");
        talk.pass(19_999).is("");
        talk.pass(1).are("RDS -r", "CDS");
        talk.ack_all().are("CDS -a | EDS -a", "");
    });
}

#[test]
fn an_envoy_keeps_the_routes_of_a_drained_listener() {
    four(envoy, WORLD, |talk| {
        start(talk);
        talk.publish("-lds l; -rds r; -cds a; -eds a").are("LDS -l", "LDS");
        talk.ack_all().is("");
        talk.pass(59_999).is("");
    });
}

#[test]
fn a_cluster_that_another_names_goes_after_its_change() {
    four(grpc, "cds a; cds b -> cds:a", |talk| {
        talk.ask("cds", &["a", "b"]).is("CDS a@1 b@1");
        talk.ack("cds").is("");
        talk.publish("cds b@2; -cds a").are("CDS b@2", "CDS a@1 b@2");
        talk.ack("cds").are("CDS -a", "CDS b@2");
    });
}

#[test]
fn who_has_asked_for_routes_before_keeps_their_clusters() {
    four(grpc, "cds a; rds r -> a", |talk| {
        talk.ask("rds", &["r"]).is("RDS r@1");
        talk.ask("cds", &["a"]).is("CDS a@1");
        talk.ack_all().is("");
        talk.end("rds").is("");
        talk.publish("-rds r; -cds a").is("");
        talk.pass(19_999).is("");
    });
}
