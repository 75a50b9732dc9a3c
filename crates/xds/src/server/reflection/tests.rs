//! Descriptors found by name.

use prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet, ServiceDescriptorProto};

use super::*;

fn descriptors() -> Descriptors {
    let message =
        |name: &str, nested| DescriptorProto { name: Some(name.into()), nested_type: nested, ..Default::default() };
    let file = FileDescriptorProto {
        name: Some("a/b.proto".into()),
        package: Some("a.b".into()),
        message_type: vec![message("Outer", vec![message("Inner", Vec::new())])],
        service: vec![ServiceDescriptorProto { name: Some("Service".into()), ..Default::default() }],
        ..Default::default()
    };
    let set = FileDescriptorSet { file: vec![file] }.encode_to_vec();
    let descriptors = Descriptors::default();
    descriptors.set(set.leak());
    descriptors
}

#[test]
fn a_file_is_found_by_its_name_and_by_what_is_in_it() {
    let descriptors = descriptors();
    for name in
        ["a/b.proto", "a.b.Outer", "a.b.Outer.Inner", "a.b.Outer.Inner.field", "a.b.Service", "a.b.Service.Method"]
    {
        assert!(descriptors.find(name).is_some(), "{name}");
    }
    for name in ["", "a.b", "b.proto", "a.b.Inner", "a.b.Service.Method.more"] {
        assert!(descriptors.find(name).is_none(), "{name}");
    }
    assert!(Descriptors::default().find("a.b.Outer").is_none());
}
