//! Fields that are kept of a Pod, of all that its author writes.

use serde_json::{Value, json};

use super::*;

fn text(metadata: &Value) -> String {
    json!({ "kind": "PartialObjectMetadata", "metadata": metadata, "spec": { "containers": [{}] } }).to_string()
}

#[test]
fn only_named_fields_are_kept() {
    let many = |count: usize| (0..count).map(|at| (format!("{at:05}"), json!(""))).collect::<serde_json::Map<_, _>>();
    let mut labels = many(10_000);
    labels.insert("app".to_owned(), json!("web"));
    let owner = |name: &str, controller| json!({ "apiVersion": "v1", "kind": "X", "name": name, "uid": "1", "controller": controller });
    let mut owners: Vec<Value> = (0..1_000).map(|at| owner(&at.to_string(), false)).collect();
    owners.push(json!({ "kind": "ReplicaSet", "name": "web-1", "controller": true }));
    let metadata = json!({
        "uid": "7", "resourceVersion": "12", "annotations": many(52_000), "labels": labels, "ownerReferences": owners,
        "managedFields": [{ "manager": "x", "fieldsV1": { "f:metadata": many(52_000) } }],
    });
    let found = read(&text(&metadata), &["app", "other"]).unwrap().unwrap();
    let facts = PodFacts {
        labels: [("app".into(), "web".into())].into(),
        controller: Some(("ReplicaSet".into(), "web-1".into())),
    };
    assert_eq!(found, PodMetadata { uid: "7".into(), version: Version::new("12"), facts });
}

#[test]
fn overlong_controller_is_none() {
    let owner = json!({ "kind": "ReplicaSet", "name": "w".repeat(LONGEST + 1), "controller": true });
    let found = read(&text(&json!({ "uid": "7", "ownerReferences": [owner] })), &[]).unwrap().unwrap();
    assert_eq!(found.facts, PodFacts::default());
    assert_eq!(read(&text(&json!({ "name": "x" })), &[]).unwrap(), None);
    assert!(read("{}", &[]).is_err());
}
