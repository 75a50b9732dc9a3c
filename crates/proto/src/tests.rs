//! The few promises that the crate makes beyond what prost does.

use std::collections::BTreeMap;

use prost::Message as _;

use crate::envoy::config::cluster::v3::Cluster;
use crate::envoy::config::core::v3::Metadata;
use crate::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use crate::google::protobuf::{Any, Struct, UnpackError};

#[test]
fn a_packed_message_comes_back_under_its_own_name_only() {
    let cluster = Cluster { name: "one".into(), ..Default::default() };
    let any = Any::pack(&cluster);
    assert_eq!(any.type_url, "type.googleapis.com/envoy.config.cluster.v3.Cluster");
    assert_eq!(any.unpack::<Cluster>(), Ok(cluster));
    assert!(matches!(any.unpack::<HttpConnectionManager>(), Err(UnpackError::OtherType { .. })));
}

#[test]
fn bytes_that_are_no_message_are_refused() {
    let any = Any { type_url: crate::type_url::<Cluster>(), value: vec![0x0A, 0x7F].into() };
    assert!(matches!(any.unpack::<Cluster>(), Err(UnpackError::Decode(_))));
}

#[test]
fn maps_are_encoded_in_the_order_of_their_keys() {
    let names = ["b", "c", "a"];
    let filter_metadata: BTreeMap<_, _> = names.iter().map(|name| ((*name).to_owned(), Struct::default())).collect();
    let bytes = Metadata { filter_metadata, ..Default::default() }.encode_to_vec();
    let keys: Vec<char> = bytes.iter().map(|byte| char::from(*byte)).filter(char::is_ascii_lowercase).collect();
    assert_eq!(keys, ['a', 'b', 'c']);
}

#[test]
fn the_full_name_is_what_follows_the_last_slash() {
    assert_eq!(crate::full_name("type.googleapis.com/a.B"), "a.B");
    assert_eq!(crate::full_name("a.B"), "a.B");
}
