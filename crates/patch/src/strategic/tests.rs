//! Strategic merge as users of Kubernetes know it.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{LISTS, MergeError, strategic_merge};

fn check(mut target: Value, patch: Value, wanted: &Value) {
    strategic_merge(&mut target, &patch).expect("the patch has a meaning");
    assert_eq!(target, *wanted, "{patch}");
}

fn refused(mut target: Value, patch: Value) -> MergeError {
    strategic_merge(&mut target, &patch).expect_err("the patch has no meaning")
}

#[test]
fn fields_are_merged_replaced_and_taken_away() {
    check(
        json!({ "spec": { "replicas": 1, "paused": true, "strategy": { "type": "Recreate" } } }),
        json!({ "spec": { "replicas": 3, "paused": null, "minReadySeconds": 5 } }),
        &json!({ "spec": { "replicas": 3, "strategy": { "type": "Recreate" }, "minReadySeconds": 5 } }),
    );
}

#[test]
fn an_object_can_be_replaced_and_emptied() {
    let target = || json!({ "nodeSelector": { "disk": "fast", "zone": "a" } });
    check(
        target(),
        json!({ "nodeSelector": { "$patch": "replace", "zone": "b" } }),
        &json!({ "nodeSelector": { "zone": "b" } }),
    );
    check(target(), json!({ "nodeSelector": { "$patch": "delete" } }), &json!({ "nodeSelector": {} }));
    check(
        json!({ "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1 } } }),
        json!({ "strategy": { "$retainKeys": ["type"], "type": "Recreate" } }),
        &json!({ "strategy": { "type": "Recreate" } }),
    );
}

#[test]
fn containers_are_merged_by_name_and_new_ones_come_behind() {
    check(
        json!({ "containers": [{ "name": "envoy", "image": "e", "env": [{ "name": "A", "value": "1" }] }] }),
        json!({ "containers": [
            { "name": "envoy", "env": [{ "name": "B", "value": "2" }, { "name": "A", "value": "3" }] },
            { "name": "log", "image": "l" },
        ] }),
        &json!({ "containers": [
            { "name": "envoy", "image": "e", "env": [{ "name": "A", "value": "3" }, { "name": "B", "value": "2" }] },
            { "name": "log", "image": "l" },
        ] }),
    );
}

#[test]
fn an_item_can_be_taken_away_and_a_list_replaced() {
    let target = || json!({ "volumes": [{ "name": "a" }, { "name": "b" }] });
    check(
        target(),
        json!({ "volumes": [{ "name": "a", "$patch": "delete" }] }),
        &json!({ "volumes": [{ "name": "b" }] }),
    );
    check(
        target(),
        json!({ "volumes": [{ "name": "c" }, { "$patch": "replace" }] }),
        &json!({ "volumes": [{ "name": "c" }] }),
    );
    check(target(), json!({ "volumes": null }), &json!({}));
}

#[test]
fn ports_of_services_and_of_containers_have_keys_of_their_own() {
    check(
        json!({ "ports": [{ "port": 80, "targetPort": 10_080 }] }),
        json!({ "ports": [{ "port": 80, "nodePort": 30_080 }, { "port": 443 }] }),
        &json!({ "ports": [{ "port": 80, "targetPort": 10_080, "nodePort": 30_080 }, { "port": 443 }] }),
    );
    check(
        json!({ "ports": [{ "containerPort": 10_080 }] }),
        json!({ "ports": [{ "containerPort": 10_080, "hostPort": 80 }] }),
        &json!({ "ports": [{ "containerPort": 10_080, "hostPort": 80 }] }),
    );
}

#[test]
fn lists_without_a_key_are_replaced_and_finalizers_added() {
    check(
        json!({ "tolerations": [{ "key": "a" }], "args": ["x"], "finalizers": ["one"] }),
        json!({ "tolerations": [{ "key": "b" }], "args": ["y"], "finalizers": ["one", "two"] }),
        &json!({ "tolerations": [{ "key": "b" }], "args": ["y"], "finalizers": ["one", "two"] }),
    );
    check(
        json!({ "finalizers": ["one", "two"] }),
        json!({ "$deleteFromPrimitiveList/finalizers": ["one"] }),
        &json!({ "finalizers": ["two"] }),
    );
}

#[test]
fn an_order_is_kept() {
    check(
        json!({ "containers": [{ "name": "a" }, { "name": "b" }, { "name": "c" }] }),
        json!({
            "$setElementOrder/containers": [{ "name": "d" }, { "name": "c" }, { "name": "a" }],
            "containers": [{ "name": "d" }],
        }),
        &json!({ "containers": [{ "name": "d" }, { "name": "c" }, { "name": "a" }, { "name": "b" }] }),
    );
}

#[test]
fn a_patch_without_meaning_says_where() {
    let container = || json!({ "spec": { "containers": [{ "name": "envoy" }] } });
    let no_key = refused(container(), json!({ "spec": { "containers": [{ "image": "x" }] } }));
    assert_eq!(no_key.to_string(), "spec.containers: an item has no name, by which items of this list are told apart");
    let directive = refused(container(), json!({ "spec": { "$patch": "destroy" } }));
    assert_eq!(directive.to_string(), "spec: $patch cannot be destroy");
    let nested = refused(container(), json!({ "spec": { "containers": [{ "name": "envoy", "env": [{}] }] } }));
    assert_eq!(
        nested.to_string(),
        "spec.containers[envoy].env: an item has no name, by which items of this list are told apart"
    );
    assert_eq!(refused(json!([]), json!({})).to_string(), "the object: is a list, which a patch cannot be merged into");
}

fn value() -> impl Strategy<Value = Value> {
    let word = prop_oneof!["[a-c]", Just("$patch".to_owned()), Just("replace".to_owned()), Just("delete".to_owned())];
    let field = prop_oneof![
        "[a-c]",
        Just("name".to_owned()),
        Just("$retainKeys".to_owned()),
        Just("$setElementOrder/env".to_owned()),
        Just("$deleteFromPrimitiveList/finalizers".to_owned()),
        Just("$patch".to_owned()),
        (0..LISTS.len()).prop_map(|at| LISTS[at].0.to_owned()),
    ];
    let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), word.prop_map(Value::from)];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((field.clone(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Nothing of a directive may reach the API server.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().all(|(field, value)| !field.starts_with('$') && is_plain(value)),
        Value::Array(items) => items.iter().all(is_plain),
        _ => true,
    }
}

proptest! {
    #[test]
    fn any_patch_is_refused_or_leaves_a_plain_object_and_says_the_same_twice(patch in value(), target in value()) {
        let mut once = target.clone();
        prop_assume!(is_plain(&target) && patch.is_object());
        if strategic_merge(&mut once, &patch).is_ok() {
            let mut twice = once.clone();
            if strategic_merge(&mut twice, &patch).is_ok() {
                prop_assert_eq!(&once, &twice);
            }
            prop_assert!(is_plain(&once), "{}", once);
        }
    }
}
