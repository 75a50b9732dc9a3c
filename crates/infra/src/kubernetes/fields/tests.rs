//! Sets of fields as the API server writes them.

use serde_json::{Value, json};

use super::{cover, hash};

fn object() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": "gw", "namespace": "shop", "labels": { "team": "a" } },
        "spec": {
            "type": "LoadBalancer",
            "selector": { "app": "gw" },
            "ports": [{ "name": "http", "port": 80, "targetPort": 10_080 }],
            "externalIPs": ["192.0.2.1"],
        },
    })
}

fn set() -> Value {
    json!({
        "f:metadata": { "f:labels": { "f:team": {} } },
        "f:spec": {
            "f:type": {},
            "f:selector": {},
            "f:ports": { r#"k:{"port":80,"protocol":"TCP"}"#: { ".": {}, "f:name": {}, "f:port": {}, "f:targetPort": {} } },
            "f:externalIPs": { r#"v:"192.0.2.1""#: {} },
        },
    })
}

#[test]
fn a_set_that_holds_every_field_covers_the_object() {
    assert!(cover(&set(), &object()));
}

#[test]
fn a_field_that_somebody_took_is_missed_wherever_it_is() {
    let takes: [(&str, &str); 5] = [
        ("/f:metadata/f:labels", "f:team"),
        ("/f:spec", "f:type"),
        ("/f:spec", "f:selector"),
        (r#"/f:spec/f:ports/k:{"port":80,"protocol":"TCP"}"#, "f:targetPort"),
        ("/f:spec/f:externalIPs", r#"v:"192.0.2.1""#),
    ];
    for (place, name) in takes {
        let mut taken = set();
        let fields = taken.pointer_mut(place).unwrap().as_object_mut().unwrap();
        fields.remove(name).unwrap();
        // an empty set would stand for the whole field
        fields.insert("f:other".to_owned(), json!({}));
        assert!(!cover(&taken, &object()), "{place} without {name}");
        assert_ne!(hash(Some(&taken)), hash(Some(&set())));
    }
}

#[test]
fn what_somebody_else_added_does_not_matter() {
    let mut more = object();
    more["spec"]["ports"][0].as_object_mut().unwrap().remove("targetPort");
    assert!(cover(&set(), &more));
}
