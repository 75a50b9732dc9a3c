//! Descriptors are planted in noise and must come out whole.

use std::collections::BTreeMap;

use prost::Message as _;
use prost_types::{DescriptorProto, FileDescriptorProto};

use super::{Found, file_descriptors};

fn file(name: &str, imports: &[&str]) -> FileDescriptorProto {
    FileDescriptorProto {
        name: Some(name.to_owned()),
        package: Some("p".to_owned()),
        dependency: imports.iter().map(|import| (*import).to_owned()).collect(),
        message_type: vec![DescriptorProto { name: Some("M".to_owned()), ..Default::default() }],
        syntax: Some("proto3".to_owned()),
        ..Default::default()
    }
}

#[test]
fn descriptors_are_found_between_other_bytes_and_back_to_back() {
    let (a, b) = (file("envoy/a.proto", &[]), file("envoy/b.proto", &["envoy/a.proto"]));
    let mut binary = b"\x0A\x05ab.proto\x0A\xFF\x00noise".to_vec();
    binary.extend(a.encode_to_vec());
    binary.extend(b.encode_to_vec());
    binary.extend([0; 16]);
    let found = file_descriptors(&binary);
    assert_eq!(found, found_as([a, b]));
}

#[test]
fn a_name_without_its_descriptor_loses_against_the_descriptor() {
    let whole = file("envoy/a.proto", &[]);
    let mut binary = whole.encode_to_vec();
    binary.extend(b"\xFF\x0A\x0Denvoy/a.proto\xFF");
    assert_eq!(file_descriptors(&binary), found_as([whole]));
}

#[test]
fn cut_short_bytes_are_not_an_error() {
    let whole = file("envoy/a.proto", &[]).encode_to_vec();
    for end in 0..whole.len() {
        file_descriptors(&whole[..end]);
    }
}

fn found_as<const N: usize>(files: [FileDescriptorProto; N]) -> BTreeMap<String, Found> {
    files.into_iter().map(|file| (file.name().to_owned(), Found { bytes: file.encode_to_vec(), file })).collect()
}
