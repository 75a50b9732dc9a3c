//! The version of a response: it stands for all that the client has of the kind, whatever the way to it.

use super::talk::{Talk, delta, envoy, four, grpc};
use crate::session::tests::rig::kind;

/// The version of the last accepted response of clusters.
fn version(talk: &mut Talk) -> String {
    talk.kinds[&kind("cds")].version.clone()
}

/// The version that a client has which begins with these clusters.
fn fresh(talk: &Talk, resources: &str) -> String {
    let mut talk = Talk::new(talk.way, grpc(), resources);
    talk.ask_all("cds").any();
    talk.ack("cds").is("");
    version(&mut talk)
}

#[test]
fn a_version_is_the_same_for_clients_that_have_the_same() {
    for node in [envoy as fn() -> _, grpc] {
        four(node, "cds a", |talk| {
            talk.ask_all("cds").is("CDS a@1");
            talk.ack("cds").is("");
            let mut seen = vec![version(talk)];
            for (publication, has) in [
                ("cds b", "cds a; cds b"),
                ("cds a@2", "cds a@2; cds b"),
                ("-cds b", "cds a@2"),
                ("cds c; cds d; -cds a", "cds c; cds d"),
            ] {
                talk.publish(publication).any();
                let _told = talk.ack_all();
                let now = version(talk);
                assert_eq!(now, fresh(talk, has), "{:?} after {publication}", talk.way);
                assert!(!seen.contains(&now), "{:?} after {publication}", talk.way);
                seen.push(now);
            }
        });
    }
}

#[test]
fn a_refused_version_is_not_in_the_version_of_the_next_response() {
    delta(grpc, "cds a; cds b", |talk| {
        talk.ask_all("cds").is("CDS a@1 b@1");
        talk.ack("cds").is("");
        talk.publish("cds b@2").is("CDS b@2");
        let _told = talk.nack("cds", "no");
        let _told = talk.ack_all();
        talk.publish("cds c").any();
        let _told = talk.ack_all();
        assert_eq!(version(talk), fresh(talk, "cds a; cds b; cds c"), "{:?}", talk.way);
    });
}
