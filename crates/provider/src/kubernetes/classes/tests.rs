//! Which classes get the finalizer, and which lose it.

use serde_json::{Value, json};

use super::{Class, IN_USE, finalizers};

fn class(finalizers: &[&str], deleted: bool) -> Class {
    let mut metadata = json!({ "resourceVersion": "1", "finalizers": finalizers });
    if deleted {
        metadata["deletionTimestamp"] = Value::from("2026-11-21T10:04:00Z");
    }
    serde_json::from_value(json!({ "metadata": metadata, "spec": { "controllerName": "us" } })).unwrap()
}

#[test]
fn what_is_used_gets_it_and_what_is_not_loses_it() {
    let named = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(finalizers(&class(&["theirs"], false), "us", true), named(&["theirs", IN_USE]));
    assert_eq!(finalizers(&class(&[IN_USE, "theirs"], true), "us", false), named(&["theirs"]));
    assert_eq!(finalizers(&class(&[IN_USE], false), "us", false), named(&[]));
}

#[test]
fn what_is_right_or_somebody_elses_or_being_deleted_stays() {
    assert_eq!(finalizers(&class(&[IN_USE], true), "us", true), None);
    assert_eq!(finalizers(&class(&[], false), "us", false), None);
    assert_eq!(finalizers(&class(&[], false), "them", true), None);
    assert_eq!(finalizers(&class(&[IN_USE], false), "them", false), None);
    assert_eq!(finalizers(&class(&["theirs"], true), "us", true), None);
}
