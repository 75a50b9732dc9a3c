//! Delta: what is asked for, and resumed.

use prost::Message as _;
use proto::envoy::service::discovery::v3::DeltaDiscoveryRequest;

use super::rig::{Rig, config};
use crate::client::{Action, Config, LinkId, Variant};

fn rig() -> Rig {
    Rig::of(Variant::Delta)
}

#[test]
fn nothing_is_connected_before_something_is_asked_for() {
    let mut rig = rig();
    assert_eq!(rig.does(), "");
    rig.subscribe("CDS *");
    assert_eq!(rig.does(), "connect 1 to 0");
}

#[test]
fn a_stream_begins_with_all_that_is_wanted_and_says_once_who_asks() {
    let mut rig = rig();
    rig.subscribe("RDS r s").subscribe("CDS *").subscribe("EDS xdstp://a/b?c=d");
    assert_eq!(rig.open(1), "node CDS +* | EDS +xdstp://a/b?c=d | RDS +r +s");
}

#[test]
fn the_node_says_where_the_client_is_and_what_it_understands() {
    let mut rig = Rig::new(Config { ttl: true, ..config(&["s"]) });
    rig.subscribe("CDS *").does();
    rig.client.connected(LinkId(1), rig.now);
    let Some(Action::Send { message, .. }) = rig.client.next_action(rig.now) else { panic!("a message") };
    let node = DeltaDiscoveryRequest::decode(message).expect("a request").node.expect("a node");
    assert_eq!((node.id.as_str(), node.cluster.as_str()), ("agent", "ns/gw"));
    assert_eq!(node.locality.expect("a locality").zone, "z1");
    let features =
        ["xds.config.supports-resource-in-sotw", "xds.config.resource-in-sotw", "xds.config.supports-resource-ttl"];
    assert_eq!(node.client_features, features);
}

#[test]
fn responses_are_taken_and_acknowledged_each_by_its_nonce() {
    let mut rig = rig();
    rig.subscribe("CDS *").open(1);
    assert_eq!(rig.tell(1, "CDS 1 a@1 b@1"), "CDS ack 1");
    assert_eq!(rig.tell(1, "CDS 2 a@2 -b"), "CDS ack 2");
    assert_eq!(rig.events(), "in use 0, CDS a, CDS b, CDS a, CDS b Removed");
    assert_eq!((rig.has("CDS a"), rig.has("CDS b")), ("2 a@2".into(), "nothing".into()));
}

#[test]
fn what_is_asked_for_changes_on_the_stream() {
    let mut rig = rig();
    rig.subscribe("RDS r").open(1);
    rig.tell(1, "RDS 1 r@1");
    assert_eq!(rig.subscribe("RDS s t").unsubscribe("RDS r").does(), "RDS +s +t -r");
    assert_eq!(rig.has("RDS r"), "nothing");
    assert_eq!(rig.subscribe("EDS e").does(), "EDS +e");
    assert_eq!(rig.unsubscribe("EDS e").does(), "EDS -e");
    assert_eq!(rig.subscribe("RDS s").does(), "", "it is asked for already");
}

#[test]
fn what_is_dropped_and_asked_for_again_at_once_is_told_in_two_messages() {
    let mut rig = rig();
    rig.subscribe("RDS r s").open(1);
    rig.tell(1, "RDS 1 r@1 s@1");
    rig.unsubscribe("RDS r").subscribe("RDS r u");
    assert_eq!(rig.does(), "RDS -r | RDS +r +u");
    assert_eq!(rig.has("RDS r"), "unknown");
    rig.tell(1, "RDS 2 r@1");
    assert_eq!(rig.has("RDS r"), "1 r@1");
}

#[test]
fn what_a_wildcard_brought_stays_when_its_name_is_dropped_and_goes_with_the_wildcard() {
    let mut rig = rig();
    rig.subscribe("CDS * a").open(1);
    rig.tell(1, "CDS 1 a@1 b@1");
    assert_eq!(rig.unsubscribe("CDS a").does(), "CDS -a");
    assert_eq!(rig.has("CDS a"), "1 a@1");
    assert_eq!(rig.subscribe("CDS b").unsubscribe("CDS *").does(), "CDS +b -*");
    assert_eq!((rig.has("CDS a"), rig.has("CDS b")), ("nothing".into(), "1 b@1".into()));
}

#[test]
fn what_nobody_asked_for_is_not_taken_and_a_kind_nobody_asked_for_not_answered() {
    let mut rig = rig();
    rig.subscribe("RDS r").open(1);
    assert_eq!(rig.tell(1, "RDS 1 r@1 s@1"), "RDS ack 1");
    assert_eq!(rig.has("RDS s"), "nothing");
    assert_eq!(rig.tell(1, "SDS 2 key@1"), "", "an answer would ask for all secrets");
    assert_eq!(rig.has("SDS key"), "nothing");
}

#[test]
fn a_member_of_a_collection_is_asked_for_by_the_collection() {
    let mut rig = rig();
    rig.subscribe("EDS xdstp://a/b/*").open(1);
    rig.tell(1, "EDS 1 xdstp://a/b/c@1 xdstp://a/d/c@1");
    assert_eq!(rig.events(), "in use 0, EDS xdstp://a/b/c");
}

#[test]
fn a_new_stream_lists_what_is_held_and_what_is_in_force_stays_in_force() {
    let mut rig = rig();
    rig.subscribe("CDS *").subscribe("RDS r s").open(1);
    rig.tell(1, "CDS 1 a@1 b@1");
    rig.tell(1, "RDS 2 r@7");
    rig.end(1);
    assert_eq!(rig.has("CDS a"), "1 a@1");
    assert_eq!(rig.pass(100), "connect 2 to 0");
    assert_eq!(rig.open(2), "node CDS +* =a@1 =b@1 | RDS +r +s =r@7");
    rig.events();
    rig.tell(2, "CDS 1 b@2 -a");
    assert_eq!(rig.events(), "in use 0, CDS b, CDS a Removed");
}

#[test]
fn equal_content_is_no_news_and_another_content_under_an_old_version_is() {
    let mut rig = rig();
    rig.subscribe("CDS *").open(1);
    rig.tell(1, "CDS 1 a@1");
    rig.events();
    rig.tell(1, "CDS 2 a@1");
    assert_eq!(rig.events(), "");
    let changed =
        super::rig::delta("CDS 3 a@1").iter().map(|byte| if *byte == b'@' { b'#' } else { *byte }).collect::<Vec<u8>>();
    rig.client.received(LinkId(1), changed.into(), rig.now, &mut super::rig::judge);
    assert_eq!((rig.events(), rig.has("CDS a")), ("CDS a".into(), "1 a#1".into()));
}

#[test]
fn what_comes_on_a_stream_that_has_ended_does_not_count() {
    let mut rig = rig();
    rig.subscribe("CDS *").open(1);
    rig.end(1);
    assert_eq!(rig.tell(1, "CDS 1 a@1"), "");
    assert_eq!(rig.has("CDS a"), "nothing");
}

#[test]
fn a_response_without_a_nonce_is_taken_but_cannot_be_answered() {
    let mut rig = rig();
    rig.subscribe("CDS *").open(1);
    assert_eq!(rig.tell(1, "CDS  a@1"), "");
    assert_eq!(rig.has("CDS a"), "1 a@1");
}

#[test]
fn a_structured_name_is_the_same_whatever_the_order_of_its_context_parameters() {
    let mut rig = Rig::of(Variant::Delta);
    rig.subscribe("EDS xdstp://a/b?y=2&x=1 xdstp://a/c/*?y=2&x=1");
    assert_eq!(rig.open(1), "node EDS +xdstp://a/b?x=1&y=2 +xdstp://a/c/*?x=1&y=2");
    rig.tell(1, "EDS 1 xdstp://a/b?y=2&x=1@1 xdstp://a/c/d?y=2&x=1@1 xdstp://a/c/e@1");
    assert_eq!(rig.events(), "in use 0, EDS xdstp://a/b?x=1&y=2, EDS xdstp://a/c/d?x=1&y=2");
    rig.unsubscribe("EDS xdstp://a/b?y=2&x=1");
    assert!(rig.does().contains("-xdstp://a/b?x=1&y=2"));
}
