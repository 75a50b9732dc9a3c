//! Our messages against the generated ones.

use prost::Message as _;
use proto::envoy::config::core::v3::{Extension, Node as ProtoNode};
use proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};

use bytes::{Bytes, BytesMut};

use super::write::{Step, Writing};
use super::*;
use crate::resource::Resource;

fn item(name: &str, body: &[&'static [u8]]) -> Arc<Item> {
    let body: Vec<Bytes> = body.iter().map(|piece| Bytes::from_static(piece)).collect();
    Item::new(Resource::new(TypeUrl::Cluster, name, Version(255), body).into(), 1)
}

#[test]
fn a_response_in_pieces_is_the_message() {
    let puts = vec![item("a", &[b"one", b"two"]), item("b", &[])];
    let response = Response {
        stream: 0,
        type_url: TypeUrl::Cluster,
        nonce: Nonce::new(12).expect("not 0"),
        puts,
        removed: vec!["gone".into()],
        manner: Manner::News,
        with_ttl: false,
        whole: None,
    };
    let (mut writing, mut all, mut chunk) = (Writing::new(response), Vec::new(), BytesMut::new());
    loop {
        match writing.step(&mut chunk, 3) {
            Step::More => {}
            Step::Flush => all.extend_from_slice(&chunk.split()),
            Step::Large(piece) => all.extend_from_slice(&piece),
            Step::Done => break,
        }
    }
    all.extend_from_slice(&chunk);
    assert_eq!(all[0], 0);
    assert_eq!(u32::from_be_bytes(all[1..5].try_into().unwrap()) as usize, all.len() - 5);
    let message = DeltaDiscoveryResponse::decode(&all[5..]).unwrap();
    assert_eq!((message.type_url.as_str(), message.nonce.as_str()), (TypeUrl::Cluster.as_str(), "12"));
    assert_eq!(message.removed_resources, ["gone"]);
    let any = message.resources[0].resource.as_ref().unwrap();
    assert_eq!((message.resources[0].name.as_str(), &any.value[..]), ("a", &b"onetwo"[..]));
    assert_eq!(any.type_url, TypeUrl::Cluster.as_str());
    assert_eq!(Version::parse(&message.resources[1].version), Some(Version(255)));
}

#[test]
fn a_request_is_read_and_the_extensions_of_its_node_are_skipped() {
    let extensions = vec![Extension { name: "x".repeat(50), ..Extension::default() }; 100];
    let node = ProtoNode { id: "id".into(), cluster: "ns/gw".into(), extensions, ..ProtoNode::default() };
    let sent = DeltaDiscoveryRequest {
        node: Some(node),
        type_url: TypeUrl::Route.as_str().into(),
        resource_names_subscribe: vec!["a".into()],
        initial_resource_versions: [("a".to_owned(), Version(9).to_string()), ("b".into(), "v1".into())].into(),
        response_nonce: "3".into(),
        error_detail: Some(proto::google::rpc::Status { code: 13, message: "no".into(), ..Default::default() }),
        ..DeltaDiscoveryRequest::default()
    };
    let bytes = Bytes::from(sent.encode_to_vec());
    let read = read::Discovery::decode(Variant::Delta, bytes).unwrap();
    let node = read.node().unwrap();
    assert_eq!((&*node.id, &*node.cluster), ("id", "ns/gw"));
    let read::Discovery::Delta(read) = read else { panic!("a delta request") };
    let request = Request::from(read);
    assert_eq!(request.initial_versions, [("a".to_owned(), Some(Version(9))), ("b".to_owned(), None)]);
    assert_eq!((request.nonce.as_str(), request.error.as_deref()), ("3", Some("no")));
    assert_eq!(request.subscribe, ["a"]);
}

#[test]
fn a_name_that_is_repeated_in_a_request_counts_once() {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let sent = DeltaDiscoveryRequest {
        resource_names_subscribe: names(&["b", "a", "b", "xdstp://x/y/*?b=1&a=1", "xdstp://x/y/*?a=1&b=1"]),
        resource_names_unsubscribe: vec!["*".to_owned(); 100_000],
        ..DeltaDiscoveryRequest::default()
    };
    let read = read::Discovery::decode(Variant::Delta, sent.encode_to_vec().into()).unwrap();
    assert_eq!(read.longest_list(), 3);
    let read::Discovery::Delta(read) = read else { panic!("not what was asked for") };
    assert_eq!(read.subscribe, ["b", "a", "xdstp://x/y/*?a=1&b=1"]);
    assert_eq!(read.unsubscribe, ["*"]);
}

#[test]
fn who_a_client_says_it_is_forges_no_line_of_a_log() {
    let (id, cluster) = ("x\n2026-01-01 WARN y\u{202e}".to_owned(), "ns/gw\u{1b}".to_owned());
    let node = ProtoNode { id, cluster, user_agent_name: "envoy\u{200b}".into(), ..ProtoNode::default() };
    let node = read::node(&node.encode_to_vec().into()).unwrap();
    assert_eq!([&*node.id, &node.cluster, &node.user_agent], ["x 2026-01-01 WARN y ", "ns/gw ", "envoy "]);
}

#[test]
fn the_words_of_a_refusal_are_not_shown_and_end_somewhere() {
    let error_detail =
        Some(proto::google::rpc::Status { code: 3, message: "é-s3cret".repeat(20_000), ..<_>::default() });
    let sent = DeltaDiscoveryRequest { error_detail, ..DeltaDiscoveryRequest::default() };
    let read::Discovery::Delta(read) = read::Discovery::decode(Variant::Delta, sent.encode_to_vec().into()).unwrap()
    else {
        panic!("not what was asked for")
    };
    let shown = format!("{read:?}");
    assert!(shown.contains("code: 3") && !shown.contains("s3cret"), "{shown}");
    let request = Request::from(read);
    assert!(!format!("{request:?}").contains("s3cret"));
    let length = request.error.unwrap().len();
    assert!((65_000..=65_536).contains(&length), "{length}");
}
