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
        puts: puts.into(),
        removed: vec!["gone".into()],
        manner: Manner::News,
        with_ttl: false,
        system_version: 7,
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
    assert_eq!(message.system_version_info, "7");
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
    let node = read.node.unwrap();
    assert_eq!((&*node.id, &*node.cluster), ("id", "ns/gw"));
    let read::Said::Delta(request) = read.said else { panic!("a delta request") };
    assert_eq!(request.initial_versions, [("a".into(), Some(Version(9))), ("b".into(), None)]);
    assert_eq!((&*request.nonce, request.error.as_deref()), ("3", Some("no")));
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
    let read::Said::Delta(read) = read.said else { panic!("not what was asked for") };
    assert_eq!(read.subscribe, ["b", "a", "xdstp://x/y/*?a=1&b=1"]);
    assert_eq!(read.unsubscribe, ["*"]);
}

#[test]
fn of_a_name_that_a_client_lists_twice_the_last_version_counts() {
    let entry = |name: &str, version: u128| {
        let version = Version(version).to_string().into();
        message::InitialVersion { name: name.to_owned().into(), version }.encode_to_vec().into()
    };
    let initial_versions = [entry("b", 1), entry("a", 2), entry("b", 3), entry("c", 4)].into();
    let sent = message::DeltaDiscoveryRequest { initial_versions, ..<_>::default() };
    let read = read::Discovery::decode(Variant::Delta, sent.encode_to_vec().into()).unwrap();
    let read::Said::Delta(read) = read.said else { panic!("not what was asked for") };
    let expect = [("a", 2), ("b", 3), ("c", 4)].map(|(name, version)| (name.into(), Some(Version(version))));
    assert_eq!(read.initial_versions, expect);
}

#[test]
fn text_that_is_none_is_refused_wherever_it_stands() {
    let field = |tag: u8, value: &[u8]| [&[tag << 3 | 2, value.len() as u8][..], value].concat();
    for text in [&b"\xc3\xa9"[..], b"\xc3"] {
        let (name, version) = (field(1, text), field(2, text));
        let delta = [field(2, text), field(3, text), field(4, text), field(6, text), field(8, &name), field(9, &name)];
        let listed = [field(5, &name), field(5, &version)];
        let sotw = [field(1, text), field(3, text), field(4, text), field(5, text), field(7, &name)];
        let of = |variant, messages: Vec<Vec<u8>>| messages.into_iter().map(move |message| (variant, message));
        let delta = of(Variant::Delta, [&delta[..], &listed].concat());
        for (variant, message) in delta.chain(of(Variant::Sotw, sotw.into())) {
            let read = read::Discovery::decode(variant, message.clone().into());
            assert_eq!(read.is_ok(), text.len() == 2, "{variant:?} {message:?}");
        }
    }
}

#[test]
fn who_a_client_says_it_is_forges_no_line_of_a_log() {
    let (id, cluster) = ("x\n2026-01-01 WARN y\u{202e}".to_owned(), "ns/gw\u{1b}".to_owned());
    let node = ProtoNode { id, cluster, user_agent_name: "envoy\u{200b}".into(), ..ProtoNode::default() };
    let node = read::node(node.encode_to_vec().into()).unwrap();
    assert_eq!([&*node.id, &node.cluster, &node.user_agent], ["x 2026-01-01 WARN y ", "ns/gw ", "envoy "]);
}

#[test]
fn the_words_of_a_refusal_are_not_shown_and_end_somewhere() {
    let error_detail =
        Some(proto::google::rpc::Status { code: 3, message: "é-s3cret".repeat(20_000), ..<_>::default() });
    let sent = DeltaDiscoveryRequest { error_detail, ..DeltaDiscoveryRequest::default() };
    let bytes = Bytes::from(sent.encode_to_vec());
    let shown = format!("{:?}", message::DeltaDiscoveryRequest::decode(bytes.clone()).unwrap());
    assert!(shown.contains("code: 3") && !shown.contains("s3cret"), "{shown}");
    let read = read::Discovery::decode(Variant::Delta, bytes).unwrap();
    let read::Said::Delta(request) = read.said else { panic!("not what was asked for") };
    assert!(!format!("{request:?}").contains("s3cret"));
    let length = request.error.unwrap().len();
    assert!((65_000..=65_536).contains(&length), "{length}");
}
