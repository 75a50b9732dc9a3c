//! Descriptors out of an Envoy binary, and those of private filters that are added to ours.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};
use protojson::Pool;
use tests::binary;

const LISTENER: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: web-1, labels: {app: web}}
---
apiVersion: chancery.io/v1alpha1
kind: EnvoyListener
metadata: {name: web}
spec:
  workloadSelector: {labels: {app: web}}
  config:
    name: web
    address: {socket_address: {address: 127.0.0.1, port_value: 18080}}
    filter_chains:
    - filters:
      - name: acme.filter
        typed_config: {"@type": type.googleapis.com/acme.v1.Filter, tenant: a, ttl: TTL}
"#;

/// A file with one message, which has a text and a time.
fn file(name: &str, package: &str, message: &str) -> FileDescriptorProto {
    let field = |name: &str, number, of: Type, type_name: Option<&str>| FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        label: Some(Label::Optional.into()),
        r#type: Some(of.into()),
        type_name: type_name.map(str::to_owned),
        ..FieldDescriptorProto::default()
    };
    let ttl = field("ttl", 2, Type::Message, Some(".google.protobuf.Duration"));
    FileDescriptorProto {
        name: Some(name.to_owned()),
        package: Some(package.to_owned()),
        dependency: vec!["google/protobuf/duration.proto".to_owned()],
        message_type: vec![DescriptorProto {
            name: Some(message.to_owned()),
            field: vec![field("tenant", 1, Type::String, None), ttl],
            ..DescriptorProto::default()
        }],
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    }
}

/// What a verb says and whether it found nothing wrong.
fn chancery(arguments: &[&str], files: &[&Path]) -> (bool, String) {
    let arguments = arguments.iter().map(std::ffi::OsStr::new).chain(files.iter().map(|file| file.as_os_str()));
    let output = binary::run(arguments, "").unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn the_descriptors_of_the_pinned_envoy_are_those_that_we_know() {
    let place = tempfile::tempdir().unwrap();
    let (set, envoy) = (place.path().join("envoy.binpb"), binary::envoy().unwrap());
    let (fine, said) = chancery(&["proxy", "descriptors", "--output"], &[&set, &envoy]);
    assert!(fine && said.contains(" of Envoy's API"), "{said}");
    let read = Pool::decode(&std::fs::read(&set).unwrap()).unwrap();
    let missing: Vec<String> = Pool::of_envoy().names().into_iter().filter(|name| !read.knows(name)).collect();
    assert_eq!(missing, Vec::<String>::new());

    let input = place.path().join("input.yaml");
    std::fs::write(&input, LISTENER.split("---").next().unwrap()).unwrap();
    let (fine, said) = chancery(&["validate", "--descriptors"], &[&set, &input]);
    assert!(fine, "what is known already is no conflict: {said}");
}

#[test]
fn a_binary_without_descriptors_is_no_envoy() {
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("envoy.sh");
    std::fs::write(&script, "#!/bin/sh\nexec envoy \"$@\"\n").unwrap();
    let (fine, said) = chancery(&["proxy", "descriptors"], &[&script]);
    assert!(!fine && said.contains("envoy.sh carries no protobuf descriptors: is it an Envoy"), "{said}");
    let (fine, said) = chancery(&["proxy", "descriptors"], &[&place.path().join("none")]);
    assert!(!fine && said.contains("cannot read"), "{said}");
}

#[test]
fn a_private_filter_is_known_where_its_descriptors_are_given_and_nowhere_else() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let set = FileDescriptorSet { file: vec![file("acme/v1/filter.proto", "acme.v1", "Filter")] };
    std::fs::write(at("acme.binpb"), set.encode_to_vec()).unwrap();
    std::fs::write(at("good.yaml"), LISTENER.replace("TTL", "5s")).unwrap();
    std::fs::write(at("bad.yaml"), LISTENER.replace("TTL", "soon")).unwrap();

    let (fine, said) = chancery(&["validate"], &[&at("good.yaml")]);
    assert!(!fine && said.contains("unknown message type acme.v1.Filter"), "{said}");
    let (fine, said) = chancery(&["validate", "--descriptors"], &[&at("acme.binpb"), &at("good.yaml")]);
    assert!(fine, "{said}");
    let (fine, said) = chancery(&["validate", "--descriptors"], &[&at("acme.binpb"), &at("bad.yaml")]);
    assert!(!fine && said.contains("expected seconds with an s"), "{said}");
    let (fine, said) =
        chancery(&["translate", "--to", "envoy", "--descriptors"], &[&at("acme.binpb"), &at("good.yaml")]);
    assert!(fine && said.contains("type.googleapis.com/acme.v1.Filter") && said.contains("tenant: a"), "{said}");
}

#[test]
fn descriptors_that_cannot_be_used_are_named_with_what_to_do() {
    let place = tempfile::tempdir().unwrap();
    let input = place.path().join("input.yaml");
    std::fs::write(&input, LISTENER.replace("TTL", "5s")).unwrap();
    let mut lonely = file("acme/v1/filter.proto", "acme.v1", "Filter");
    lonely.dependency = vec!["acme/v1/nowhere.proto".to_owned()];
    let ours = file("acme/v1/cluster.proto", "envoy.config.cluster.v3", "Cluster");
    let encoded = |file| FileDescriptorSet { file: vec![file] }.encode_to_vec();
    for (content, words) in [
        (b"not protobuf".to_vec(), "failed to decode"),
        (encoded(lonely), "acme/v1/nowhere.proto"),
        (encoded(ours), "envoy.config.cluster.v3.Cluster"),
    ] {
        let set = place.path().join("acme.binpb");
        std::fs::write(&set, content).unwrap();
        let (fine, said) = chancery(&["validate", "--descriptors"], &[&set, &input]);
        assert!(!fine && said.contains("acme.binpb") && said.contains(words) && said.contains("protoc"), "{said}");
    }
    let (fine, said) = chancery(&["validate", "--descriptors"], &[&place.path().join("none"), &input]);
    assert!(!fine && said.contains("none") && said.contains("No such file"), "{said}");
}
