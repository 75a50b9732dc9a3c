//! Rules 10 and 11: make before break.

use super::talk::{WORLD, envoy, four, grpc, sotw, start};

#[test]
fn routes_go_out_when_the_clusters_that_they_name_are_ready_and_what_is_gone_goes_last() {
    four(envoy, WORLD, |talk| {
        start(talk);
        let aggregated = talk.way.aggregated;
        let told = talk.publish("cds b; eds b; rds r@2 -> b; -cds a; -eds a");
        match aggregated {
            true => told.are("CDS b@1 | EDS b@1", "CDS a@1 b@1 | EDS b@1"),
            // there Envoy asks for the endpoints of each version of a cluster
            false => told.are("CDS b@1", "CDS a@1 b@1"),
        }
        talk.ack("cds").is(if aggregated { "RDS r@2" } else { "" });
        if aggregated {
            talk.ack("eds").is("");
            talk.ask("eds", &["b"]).is("EDS b@1");
            talk.ack("eds").is("");
        } else {
            talk.begin_anew("eds");
            talk.ask("eds", &["b"]).is("EDS b@1");
            talk.ack("eds").is("RDS r@2");
        }
        talk.ack("rds").is("");
        talk.pass(10_000).are("CDS -a", "CDS b@1");
    });
}

#[test]
fn endpoints_go_behind_every_cluster_that_changed_though_they_did_not() {
    four(envoy, WORLD, |talk| {
        start(talk);
        let told = talk.publish("cds a@2");
        if talk.way.aggregated {
            return told.is("CDS a@2 | EDS a@1");
        }
        told.is("CDS a@2");
        talk.ack("cds").is("");
        talk.begin_anew("eds");
        talk.ask("eds", &["a"]).is("EDS a@1");
    });
}

#[test]
fn who_is_no_envoy_is_sent_what_it_asks_for_when_it_asks() {
    sotw(grpc, WORLD, |talk| {
        talk.ask("rds", &["r"]).is("RDS r@1");
        talk.ask("lds", &["l"]).is("LDS l@1");
        talk.ask("eds", &["a"]).is("EDS a@1");
        let behind = if talk.way.aggregated { " | EDS a@1" } else { "" };
        talk.ask("cds", &["a"]).is(&format!("CDS a@1{behind}"));
        talk.ack_all().is("");
        talk.publish("cds a@2").is(&format!("CDS a@2{behind}"));
    });
}
