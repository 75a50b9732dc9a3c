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

/// What the usual server says, without comments, options and what follows from the rest.
fn usual(set: &[u8]) -> FileDescriptorProto {
    let mut file = FileDescriptorSet::decode(set).expect("a set").file.swap_remove(0);
    (file.source_code_info, file.options) = (None, None);
    file.message_type.iter_mut().flat_map(|message| &mut message.field).for_each(|field| field.json_name = None);
    file
}

#[test]
fn our_own_files_say_what_the_usual_servers_say() {
    let own = |name: &str| own::files().into_iter().find(|file| file.name().starts_with(name)).expect("a file");
    let usual_ones =
        [tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET, tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET];
    for (name, set) in ["grpc/reflection/v1/", "grpc/reflection/v1alpha/"].into_iter().zip(usual_ones) {
        let (own, usual) = (own(name), usual(set));
        assert_eq!((own.service, own.package), (usual.service, usual.package));
        assert_eq!(own.message_type, usual.message_type);
    }
    // which does not know the list yet
    let (mut own, usual) = (own("grpc/health/"), usual(tonic_health::pb::FILE_DESCRIPTOR_SET));
    own.service[0].method.retain(|method| method.name() != "List");
    own.message_type.retain(|message| !message.name().starts_with("HealthList"));
    assert_eq!((own.service, own.message_type), (usual.service, usual.message_type));
}
