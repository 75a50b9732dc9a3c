//! Of what is found, the API is kept.

use std::collections::BTreeMap;

use prost::Message as _;
use prost_types::{DescriptorProto, FileDescriptorProto};

use descriptors::{Found, descriptor_set, file_descriptors};

use super::select;

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
    let found = file_descriptors(&bytes);
    let set = descriptor_set(&select::api(&found));
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
