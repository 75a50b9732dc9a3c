//! Rules 1 and 15: every kind in every variant, and the clients that gRPC has of its own.

use super::talk::{envoy, four, grpc, sotw};

#[test]
fn every_kind_is_sent_when_it_is_asked_for_and_again_when_it_changes() {
    for short in ["cds", "eds", "lds", "sds", "rds", "srds", "rtds", "ecds", "leds", "other"] {
        for node in [envoy, grpc] {
            four(node, &format!("{short} x; {short} y"), |talk| {
                let kind = short.to_uppercase();
                talk.ask(short, &["x"]).is(&format!("{kind} x@1"));
                talk.ack(short).is("");
                talk.publish(&format!("{short} x@2; {short} y@2")).is(&format!("{kind} x@2"));
                talk.ack(short).is("");
            });
        }
    }
}

#[test]
fn virtual_hosts_come_by_name_and_to_delta_clients_unasked_with_their_route_configuration() {
    four(envoy, "rds r; vhds r/x", |talk| {
        talk.ask_all("vhds").is("");
        talk.ask("vhds", &["r/x"]).is("VHDS r/x@1");
        talk.ack_all().is("");
        talk.publish("vhds r/x@2; vhds r/y").is("VHDS r/x@2");
        talk.ack_all().is("");
        talk.ask("rds", &["r"]).are("RDS r@1 | VHDS r/x@2 r/y@1", "RDS r@1");
    });
}

#[test]
fn a_client_of_grpc_gets_what_it_names_step_by_step() {
    sotw(grpc, "lds svc -> r; rds r -> c; cds c; eds c; lds other; cds other", |talk| {
        talk.ask("lds", &["svc"]).is("LDS svc@1");
        talk.ack("lds").is("");
        talk.ask("rds", &["r"]).is("RDS r@1");
        talk.ack("rds").is("");
        talk.ask("cds", &["c"]).is("CDS c@1");
        talk.ack("cds").is("");
        talk.ask("eds", &["c"]).is("EDS c@1");
        talk.ack("eds").is("");
        talk.publish("eds c@2").is("EDS c@2");
    });
}

#[test]
fn a_server_of_grpc_asks_for_a_listener_of_its_address_and_gets_it_when_it_is_there() {
    four(grpc, "", |talk| {
        let name = "grpc/server?xds.resource.listening_address=0.0.0.0:80";
        talk.ask("lds", &[name]).are(&format!("LDS -{name} !{name}"), &format!("LDS !{name}"));
        talk.ack("lds").is("");
        talk.publish(&format!("lds {name}")).is(&format!("LDS {name}@1"));
    });
}
