//! What is ours in a status, whatever stands beside it.

use super::*;
use crate::kubernetes::seen::Seen;
use crate::kubernetes::target::Resource;
use serde_json::json;

fn hash(kind: Kind, status: &str) -> u64 {
    Observed::new("ours").hash(kind, status)
}

#[test]
fn of_a_route_the_entries_that_we_signed_count_and_no_others() {
    let ours =
        r#"{"controllerName":"ours","parentRef":{"name":"a","port":80},"conditions":[{"type":"Accepted","ok":true}]}"#;
    let other = r#"{"controllerName":"other","parentRef":{"name":"a"}}"#;
    let alone = hash(Kind::HttpRoute, &format!(r#"{{"parents":[{ours}]}}"#));
    assert_ne!(alone, 0);
    assert_eq!(hash(Kind::HttpRoute, &format!(r#"{{"parents":[{other},{ours}],"more":1}}"#)), alone);
    let changed = ours.replace("true", "false");
    assert_ne!(hash(Kind::HttpRoute, &format!(r#"{{"parents":[{changed}]}}"#)), alone);
    for none in ["", "7", "{}", r#"{"parents":null}"#, &format!(r#"{{"parents":[{other}]}}"#)] {
        assert_eq!(hash(Kind::HttpRoute, none), 0, "{none}");
    }
}

#[test]
fn the_order_of_fields_does_not_matter_and_that_of_items_does() {
    let of = |text: &str| hash(Kind::Gateway, text);
    assert_eq!(of(r#"{"a":1,"b":{"c":"x","d":null}}"#), of(r#"{"b":{"c":"x"},"a":1}"#));
    assert_ne!(of(r#"{"a":[1,2]}"#), of(r#"{"a":[2,1]}"#));
    assert_ne!(of(r#"{"a":"1"}"#), of(r#"{"a":1}"#));
    assert_ne!(of(r#"{"a":"x","b":"y"}"#), of(r#"{"a":"y","b":"x"}"#));
}

#[test]
fn a_kind_without_a_status_of_ours_has_no_hash() {
    assert_eq!(hash(Kind::Service, r#"{"loadBalancer":{}}"#), 0);
}

#[test]
fn what_may_have_been_left_is_an_entry_of_ours_or_the_status_of_a_set_of_listeners() {
    let observed = Observed::new("ours");
    let note = |kind: Kind, name: &str, status: serde_json::Value| {
        let object = serde_json::json!({ "metadata": { "name": name, "namespace": "default" }, "status": status });
        let text = bytes::Bytes::from(object.to_string());
        observed.note(&Seen::look(Resource::Kind(kind, "v1"), &text).unwrap());
    };
    let parents = |controller: &str| serde_json::json!({ "parents": [{ "controllerName": controller }] });
    let conditions = serde_json::json!({ "conditions": [{ "type": "Programmed", "status": "True" }] });
    note(Kind::HttpRoute, "ours", parents("ours"));
    note(Kind::HttpRoute, "theirs", parents("theirs"));
    note(Kind::ListenerSet, "set", conditions.clone());
    note(Kind::ListenerSet, "new", serde_json::Value::Null);
    note(Kind::Gateway, "gateway", conditions);
    let mut found: Vec<String> = observed.with_ours().iter().map(|key| key.name().to_owned()).collect();
    found.sort_unstable();
    assert_eq!(found, ["ours", "set"]);
}

#[test]
fn objects_are_kept_while_there_is_room() {
    let observed = Observed::new("ours");
    let note = |name: &str, version: &str, words: &str| {
        let metadata = json!({ "name": name, "uid": "u-1", "generation": 3, "resourceVersion": version });
        let object = json!({ "metadata": metadata, "spec": { "a": 1 }, "status": { "words": words } });
        let seen = Seen::look(Resource::Kind(Kind::GatewayClass, "v1"), &object.to_string().into()).unwrap();
        observed.note(&seen);
        seen.key
    };
    let key = note("small", "1", "a");
    note("small", "2", "a");
    let metadata = json!({ "name": "small", "uid": "u-1", "generation": 3, "resourceVersion": "2" });
    let whole = json!({ "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": metadata, "status": { "words": "a" } });
    assert_eq!(observed.object(&key), Some(whole));
    let large = note("large", "3", &"a".repeat(MOST_KEPT - 1_000));
    assert!(observed.object(&large).is_some());
    let last = note("last", "4", &"a".repeat(1_000));
    assert_eq!(observed.object(&last), None, "it has to be read first");
    observed.forget(&large);
    note("last", "5", &"b".repeat(1_000));
    assert!(observed.object(&last).is_some());
}
