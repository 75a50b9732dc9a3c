//! Descriptors are planted in noise and must come out whole.

use std::collections::BTreeMap;

use prost::Message as _;
use prost_types::{DescriptorProto, FileDescriptorProto};

use super::scan::Found;
use super::{scan, select};

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
    let found = scan::file_descriptors(&binary);
    assert_eq!(found, found_as([a, b]));
}

#[test]
fn a_name_without_its_descriptor_loses_against_the_descriptor() {
    let whole = file("envoy/a.proto", &[]);
    let mut binary = whole.encode_to_vec();
    binary.extend(b"\xFF\x0A\x0Denvoy/a.proto\xFF");
    assert_eq!(scan::file_descriptors(&binary), found_as([whole]));
}

#[test]
fn cut_short_bytes_are_not_an_error() {
    let whole = file("envoy/a.proto", &[]).encode_to_vec();
    for end in 0..whole.len() {
        scan::file_descriptors(&whole[..end]);
    }
}

#[test]
fn only_the_api_stays_with_imports_before_importers() {
    let found = found_as([
        file("envoy/a.proto", &["lib/z.proto"]),
        file("lib/z.proto", &[]),
        file("source/server/hot_restart.proto", &[]),
    ]);
    let names: Vec<&str> = select::api(&found).into_iter().map(|found| found.file.name()).collect();
    assert_eq!(names, ["lib/z.proto", "envoy/a.proto"]);
}

#[test]
fn options_that_prost_does_not_know_stay_in_the_descriptor_set() {
    // FieldOptions with the extension field 1071 (validate.rules) in it.
    let mut bytes = file("envoy/a.proto", &[]).encode_to_vec();
    bytes.truncate(bytes.len() - "proto3".len() - 2);
    let unknown = [0x42, 0x05, 0xFA, 0x42, 0x02, 0x08, 0x01];
    bytes.extend(unknown);
    let found = scan::file_descriptors(&bytes);
    let set = select::descriptor_set(&select::api(&found));
    assert!(set.windows(unknown.len()).any(|window| window == unknown));
}

#[test]
fn a_root_that_envoy_does_not_have_is_named() {
    let error = select::closure(&BTreeMap::new(), &["envoy/nowhere.proto"]).unwrap_err();
    assert_eq!(error.to_string(), "this Envoy has no envoy/nowhere.proto");
}

fn found_as<const N: usize>(files: [FileDescriptorProto; N]) -> BTreeMap<String, Found> {
    files.into_iter().map(|file| (file.name().to_owned(), Found { bytes: file.encode_to_vec(), file })).collect()
}
