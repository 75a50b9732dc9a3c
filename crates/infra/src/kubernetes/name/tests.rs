//! Whose objects are.

use std::collections::BTreeMap;

use ir::infra::ObjectName;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::{CONTROLLER, Owner, Whose, label_value, selector, whose};

fn gateway(namespace: &str, name: &str) -> ObjectName {
    ObjectName { namespace: namespace.into(), name: name.into() }
}

fn labels(gateway: &ObjectName, controller: &str) -> BTreeMap<String, String> {
    let own = [(CONTROLLER.to_owned(), controller.to_owned())];
    selector(gateway).into_iter().map(|(label, value)| (label.to_string(), value.to_string())).chain(own).collect()
}

fn labelled(labels: BTreeMap<String, String>) -> ObjectMeta {
    ObjectMeta { namespace: Some("shop".to_owned()), labels: Some(labels), ..ObjectMeta::default() }
}

fn owned(gateway: &ObjectName, labels: BTreeMap<String, String>) -> ObjectMeta {
    let (kind, name) = ("Gateway".to_owned(), gateway.name.to_string());
    let owner = OwnerReference {
        api_version: "gateway.networking.k8s.io/v1".to_owned(),
        kind,
        name,
        ..OwnerReference::default()
    };
    ObjectMeta { owner_references: Some(vec![owner]), ..labelled(labels) }
}

#[test]
fn an_object_is_a_gateways_only_by_all_of_its_labels() {
    let gateway = gateway("shop", &"long".repeat(60));
    let owner = Owner::of(&gateway);
    let all = labels(&gateway, "ours");
    assert_eq!(whose(&labelled(all.clone()), &owner, "ours"), Whose::Ours);
    for label in all.keys().filter(|label| **label != "app.kubernetes.io/name") {
        let mut fewer = all.clone();
        fewer.remove(label);
        let expected = if label == CONTROLLER { Whose::Elsewhere("".into()) } else { Whose::Foreign };
        assert_eq!(whose(&labelled(fewer), &owner, "ours"), expected, "without {label}");
    }
    assert_eq!(whose(&labelled(BTreeMap::new()), &owner, "ours"), Whose::Foreign);
}

#[test]
fn another_gateway_and_another_installation_are_told_by_name() {
    let owner = Owner::of(&gateway("shop", "one"));
    let other = gateway("shop", "two");
    assert_eq!(whose(&labelled(labels(&other, "ours")), &owner, "ours"), Whose::Other(Owner::of(&other)));
    assert_eq!(whose(&labelled(labels(&other, "theirs")), &owner, "ours"), Whose::Elsewhere("theirs".into()));
}

#[test]
fn labels_that_somebody_takes_from_what_a_gateway_owns_change_nothing() {
    let gateway = gateway("shop", "one");
    let owner = Owner::of(&gateway);
    let all = labels(&gateway, "ours");
    for label in all.keys().filter(|label| *label != CONTROLLER) {
        let mut other = all.clone();
        other.insert(label.clone(), "nobody".to_owned());
        assert_eq!(whose(&owned(&gateway, other.clone()), &owner, "ours"), Whose::Ours, "another {label}");
        other.remove(label);
        assert_eq!(whose(&owned(&gateway, other), &owner, "ours"), Whose::Ours, "without {label}");
    }
    let mut other = all;
    other.remove(CONTROLLER);
    assert_eq!(whose(&owned(&gateway, other), &owner, "ours"), Whose::Elsewhere("".into()));
    assert_eq!(whose(&owned(&gateway, BTreeMap::new()), &owner, "ours"), Whose::Foreign);
}

#[test]
fn no_two_names_have_one_label() {
    let long = "h".repeat(100);
    let like_it = label_value(&long);
    assert_eq!(like_it.len(), 63);
    assert_ne!(label_value(&like_it), like_it);
    assert_ne!(label_value(&label_value(&like_it)), label_value(&like_it));
    for name in ["edge", &"e".repeat(63), "edge-0123abcd"] {
        assert_eq!(label_value(name), name);
    }
}
