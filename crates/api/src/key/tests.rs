//! Tests of `ObjectKey`.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};

use super::{Inner, ObjectKey};

#[test]
fn a_key_takes_eight_bytes() {
    assert_eq!(size_of::<ObjectKey>(), 8);
    assert_eq!(size_of::<Option<ObjectKey>>(), 8);
    assert_eq!(size_of::<Inner>(), 32);
}

#[test]
fn a_key_of_any_kind_gives_back_its_parts() {
    for (group, kind) in [("", "Service"), ("", ""), ("example.io", "Thing"), ("a\0 1 1", "\0 2\0"), ("ä", "ö")] {
        for (namespace, name) in
            [("", ""), ("shop", "cart"), ("a\0 7", "b\0 3 3"), ("é", "a name longer than fits inside")]
        {
            let key = ObjectKey::new(group, kind, namespace, name);
            assert_eq!((key.group(), key.kind_name(), key.namespace(), key.name()), (group, kind, namespace, name));
        }
    }
}

#[test]
fn a_namespace_of_any_length_is_no_panic() {
    let long = "ä".repeat(40_000);
    let key = ObjectKey::new("example.io", "Thing", &long, "name");
    assert!(long.starts_with(key.namespace()) && key.name().ends_with("name"));
}

#[test]
fn keys_with_equal_parts_are_equal_and_hash_alike() {
    let one = ObjectKey::new("", "Service", "shop", "cart");
    let two = ObjectKey::new("", "Service", "shop", "cart");
    assert_eq!(one, two);
    let state = RandomState::new();
    assert_eq!(state.hash_one(&one), state.hash_one(&two));
}

#[test]
fn the_border_between_namespace_and_name_counts() {
    let one = ObjectKey::new("", "Service", "ab", "c");
    let two = ObjectKey::new("", "Service", "a", "bc");
    assert_ne!(one, two);
    assert_eq!((two.namespace(), two.name()), ("a", "bc"));
}

#[test]
fn group_and_kind_tell_keys_apart() {
    let parts = [("", "Service"), ("example.io", "Service"), ("example.io", "Thing"), ("", "Thing")];
    let keys: BTreeSet<_> = parts.iter().map(|(group, kind)| ObjectKey::new(group, kind, "a", "b")).collect();
    assert_eq!(keys.len(), parts.len());
}

#[test]
fn the_order_is_namespace_name_kind_group() {
    let mut keys = [
        ObjectKey::new("", "Service", "b", "a"),
        ObjectKey::new("", "Service", "a", "b"),
        ObjectKey::new("", "Service", "a", "a"),
        ObjectKey::new("", "Secret", "a", "b"),
        ObjectKey::new("gateway.networking.k8s.io", "GatewayClass", "", "z"),
    ];
    keys.sort();
    let shown: Vec<_> = keys.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["GatewayClass z", "Service a/a", "Secret a/b", "Service a/b", "Service b/a"]);
}
