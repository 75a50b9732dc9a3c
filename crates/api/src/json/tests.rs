//! What an API server gives, read from its JSON.

use std::borrow::Cow;

use crate::{Kind, Object, Severity};

use super::{Text, read};

const ROUTE: &str = r#"{
    "apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "HTTPRoute",
    "metadata": {
        "name": "cart", "namespace": "shop", "uid": "u-1", "resourceVersion": "12", "generation": 3,
        "creationTimestamp": "2026-11-21T10:04:00Z", "deletionTimestamp": "2026-11-22T10:04:00Z",
        "labels": {"b": "2", "a": "\u0031"},
        "annotations": {"note": "x", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}], "finalizers": ["x"]
    },
    "spec": {"hostnames": ["shop.example"], "rules": [{"backendRefs": [{"name": "cart", "port": 80, "weight": 1}]}]},
    "status": {"parents": [{"controllerName": "x", "conditions": []}]}
}"#;

#[test]
fn what_the_types_keep_is_read_and_the_rest_is_not() {
    let decoded = read(Kind::HttpRoute, ROUTE).unwrap();
    assert_eq!(decoded.problems, []);
    let Some(Object::HttpRoute(route)) = decoded.object() else { panic!("{decoded:?}") };
    let meta = &route.meta;
    assert_eq!((meta.namespace(), meta.name(), meta.generation, meta.uid()), ("shop", "cart", 3, Some("u-1")));
    assert_eq!(meta.creation_timestamp().map(|time| time.to_string()).as_deref(), Some("2026-11-21T10:04:00Z"));
    assert_eq!(meta.labels.get("a"), Some("1"));
    let annotations: Vec<_> = meta.more.as_ref().unwrap().annotations.iter().collect();
    assert_eq!(annotations, [("note", "x")]);
    assert_eq!(meta.resource_version(), None, "an object of which only the status changed is equal to the one before");
    assert_eq!(&*route.spec.hostnames[0], "shop.example");
}

#[test]
fn an_item_of_a_list_says_neither_version_nor_kind() {
    let decoded = read(Kind::Secret, r#"{"metadata":{"name":"a","namespace":"b"},"data":{"k":"eA=="}}"#).unwrap();
    let Some(Object::Secret(secret)) = decoded.object() else { panic!("{decoded:?}") };
    assert_eq!(secret.spec.get("k"), Some(&b"x"[..]));
}

#[test]
fn what_an_old_definition_let_pass_is_a_fault_of_its_part() {
    let text = ROUTE.replace(r#""port": 80"#, r#""port": 80000"#);
    let decoded = read(Kind::HttpRoute, &text).unwrap();
    assert!(decoded.object().is_some());
    let [problem] = &*decoded.problems else { panic!("{:?}", decoded.problems) };
    assert_eq!((&*problem.path, problem.severity), ("spec.rules[0].backendRefs[0].port", Severity::Error));
    assert_eq!(problem.place, None);
}

#[test]
fn values_of_wrong_types_are_problems_that_name_the_object() {
    for (text, path) in [
        (r#"{"metadata":{"name":"a","namespace":"b"},"spec":17}"#, "spec"),
        (
            r#"{"metadata":{"name":"a","namespace":"b","labels":[1.5,-3,true,null,18446744073709551615]}}"#,
            "metadata.labels",
        ),
    ] {
        let decoded = read(Kind::Service, text).unwrap();
        let problem = decoded.problems.iter().find(|problem| problem.severity == Severity::Error).unwrap();
        assert_eq!(&*problem.path, path);
        assert_eq!(problem.object.as_ref().map(ToString::to_string).as_deref(), Some("Service b/a"));
    }
}

#[test]
fn metadata_that_is_no_map_and_texts_that_are_no_objects_are_told() {
    for text in [r#"{"metadata":7}"#, r#"{"metadata":"x"}"#, r#"{"metadata":[1]}"#, r#"{"metadata":null}"#, "{}"] {
        let decoded = read(Kind::Service, text).unwrap();
        assert!(decoded.objects.is_empty() && !decoded.problems.is_empty(), "{text}: {decoded:?}");
    }
    for text in ["", "{", "7", "null", "[]", r#"{"metadata":{}} x"#, &"[".repeat(1_000)] {
        assert!(read(Kind::Service, text).is_err(), "{text}");
    }
}

#[test]
fn json_gives_what_the_same_text_as_a_file_gives() {
    let text = ROUTE.replace("v1beta1", "v1").replace(r#""resourceVersion": "12","#, "");
    let from_json = read(Kind::HttpRoute, &text).unwrap();
    let file = "f.json".into();
    let document = crate::yaml::documents(&text).next().unwrap();
    assert_eq!(from_json.objects, crate::read(&document, &file).objects);
}

#[test]
fn a_string_is_copied_only_where_it_is_escaped() {
    let text = |json| serde_json::from_str::<Text<'_>>(json).unwrap().0;
    assert!(matches!(text(r#""name""#), Cow::Borrowed("name")));
    assert!(matches!(text(r#""n\u0061me""#), Cow::Owned(name) if name == "name"));
}
