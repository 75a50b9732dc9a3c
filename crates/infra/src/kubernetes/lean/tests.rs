//! What is kept of objects into which their authors wrote as much as an API server takes.

use serde_json::{Map, Value, json};

use crate::kubernetes::fields;
use crate::kubernetes::name::Owner;
use crate::kubernetes::object::ObjectKind;
use crate::kubernetes::seen::{Raw, Seen};

fn many(count: usize, value: &Value) -> Map<String, Value> {
    (0..count).map(|at| (format!("k{at:05}"), value.clone())).collect()
}

fn labels(gateway: &str) -> Map<String, Value> {
    let labels = json!({
        "app.kubernetes.io/managed-by": "chancery", "app.kubernetes.io/component": "proxy", "chancery.io/controller": "c-1",
        "gateway.envoyproxy.io/owning-gateway-name": gateway, "gateway.envoyproxy.io/owning-gateway-namespace": "shop",
    });
    labels.as_object().unwrap().clone()
}

fn read(object: &Value) -> Raw {
    serde_json::from_str(&object.to_string()).unwrap()
}

#[test]
fn large_object_leaves_little() {
    let mut own = labels("gw");
    own.extend(many(10_000, &json!("")));
    let mut annotations = many(52_000, &json!(""));
    annotations.insert("chancery.io/applied".to_owned(), json!("0123456789abcdef"));
    let owner = |name: &str| json!({ "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "name": name, "uid": "1" });
    let entry = |manager: &str, fields: Value| json!({ "manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields });
    let mut managers: Vec<Value> = (0..1_000).map(|at| entry(&format!("m{at}"), json!({ "f:data": {} }))).collect();
    managers.push(entry("chancery", json!({ "f:data": { "f:x": {} } })));
    managers.push(entry("editor", Value::Object(many(52_000, &json!({})))));
    let object = json!({
        "metadata": {
            "name": "x", "namespace": "shop", "uid": "u", "resourceVersion": "12", "labels": own, "annotations": annotations,
            "ownerReferences": (0..1_000).map(|at| owner(&format!("gw-{at}"))).collect::<Vec<_>>(), "managedFields": managers,
        },
        "data": many(100_000, &json!("")),
    });
    let raw = read(&object);
    let kept = serde_json::to_string(&raw.metadata).unwrap();
    assert!(kept.len() < 2_000, "{} bytes: {kept}", kept.len());
    assert_eq!(raw.metadata.owner_references.as_ref().unwrap().len(), 1);
    let entries = raw.metadata.managed_fields.as_deref().unwrap();
    assert_eq!(fields::own(entries), Some(&json!({ "f:data": { "f:x": {} } })));
    assert!((2..=9).contains(&entries.len()), "{}", entries.len());
    assert_eq!(raw.metadata.annotations.unwrap()["chancery.io/applied"], "0123456789abcdef");
}

#[test]
fn overlong_own_fields_and_values_are_not_kept() {
    let own = json!({ "manager": "chancery", "operation": "Apply", "fieldsV1": many(10_000, &json!({})) });
    let metadata = json!({
        "name": "x", "namespace": "shop", "managedFields": [own], "annotations": { "chancery.io/applied": "x".repeat(100_000) },
        "labels": { "chancery.io/controller": "x".repeat(64) }, "ownerReferences": null,
    });
    let raw = read(&json!({ "metadata": metadata }));
    assert_eq!(fields::own(raw.metadata.managed_fields.as_deref().unwrap()), None);
    assert_eq!((raw.metadata.annotations, raw.metadata.labels), (None, None));
}

#[test]
fn service_of_an_author_is_read_and_bounded() {
    let addresses: Vec<String> = (0..1_000).map(|at| format!("010.0.{}.{}", at / 256, at % 256)).collect();
    let ports: Vec<Value> = (1..=9_000).map(|port| json!({ "port": port })).collect();
    let spec = json!({ "externalIPs": addresses, "clusterIPs": vec!["10.0.0.1"; 1_000], "ports": ports });
    let metadata = json!({ "name": "x", "namespace": "shop", "labels": labels("gw") });
    let raw = read(&json!({ "metadata": metadata, "spec": spec }));
    let (_, seen) = Seen::read(ObjectKind::Service, &raw, "system").unwrap();
    let crate::kubernetes::seen::About::Service(service) = seen.unwrap().about else { panic!("it is a Service") };
    assert_eq!((service.external.len(), service.cluster.len(), service.ports.len()), (0, 64, 4_096));
}

#[test]
fn labels_count_in_the_namespaces_of_a_gateway_only() {
    let in_namespace = |namespace: &str| {
        let raw = read(&json!({ "metadata": { "name": "x", "namespace": namespace, "labels": labels("gw") } }));
        let (id, seen) = Seen::read(ObjectKind::ConfigMap, &raw, "system").unwrap();
        assert_eq!(&*id.namespace, namespace);
        seen.map(|seen| seen.owner)
    };
    let gateway = Owner::of(&ir::infra::ObjectName { namespace: "shop".into(), name: "gw".into() });
    assert_eq!(in_namespace("shop"), Some(gateway.clone()));
    assert_eq!(in_namespace("system"), Some(gateway));
    assert_eq!(in_namespace("tenant"), None, "labels are their author's words");
}
