//! Fields are found by their paths.

use super::*;

const TEXT: &str = "\
kind: Service
metadata: {name: web}
---
# the route
kind: HTTPRoute
metadata:
  name: shop
spec:
  rules:
  - backendRefs:
    - name: web
    - name: nobody
      port: 80
---
kind: List
items:
- kind: Secret
  metadata: {name: key}
  data: {tls.key: c2VjcmV0}
---
kind: EnvoyCluster
metadata: {name: raw}
spec:
  config:
    connect_timeout: 0s
    options:
      a.b: {max_size: 0}
      \"7\": {x: 1}
";

fn check(line: u32, kind: Kind, name: &str, path: &str, expect: Option<(u32, u32, Option<&str>)>) {
    let object = ObjectKey::of(kind, "default", name);
    let found = places(&"f".into(), TEXT, &[Sought { object: &object, line, path: &path.into() }]);
    let found = found[0].as_ref().map(|(place, snippet)| (place.line, place.column, snippet.as_deref()));
    assert_eq!(found, expect, "{path}");
}

#[test]
fn a_field_has_its_line_and_column() {
    check(5, Kind::HttpRoute, "shop", "spec.rules[0].backendRefs[1].name", Some((12, 13, Some("    - name: nobody"))));
    check(5, Kind::HttpRoute, "shop", "spec.rules[0].backendRefs[1]", Some((12, 7, Some("    - name: nobody"))));
    check(1, Kind::Service, "web", "metadata.name", Some((2, 18, Some("metadata: {name: web}"))));
}

#[test]
fn a_field_that_is_not_written_is_where_it_would_be() {
    check(5, Kind::HttpRoute, "shop", "spec.rules[0].backendRefs[7].weight", Some((11, 5, Some("    - name: web"))));
}

#[test]
fn an_object_as_a_whole_is_where_its_name_is() {
    check(5, Kind::HttpRoute, "shop", "", Some((7, 9, Some("  name: shop"))));
}

#[test]
fn a_field_of_a_message_is_found_under_both_names_and_a_key_with_dots_in_quotes() {
    let at = |line, column, text| Some((line, column, Some(text)));
    let is_at = |path, expect| check(21, Kind::EnvoyCluster, "raw", path, expect);
    is_at("spec.config.connectTimeout", at(25, 22, "    connect_timeout: 0s"));
    is_at("spec.config.options[\"a.b\"].maxSize", at(27, 23, "      a.b: {max_size: 0}"));
    is_at("spec.config.options[\"a.b\"].other", at(27, 12, "      a.b: {max_size: 0}"));
    is_at("spec.config.options[\"7\"].x", at(28, 16, "      \"7\": {x: 1}"));
}

#[test]
fn a_text_that_has_changed_meanwhile_says_nothing() {
    check(5, Kind::HttpRoute, "other", "spec", None);
    check(5, Kind::Gateway, "shop", "spec", None);
}

#[test]
fn of_a_secret_only_the_place_is_told() {
    check(15, Kind::Secret, "key", "data", Some((19, 9, None)));
}

#[test]
fn each_of_many_gets_its_own_place() {
    let objects: Vec<ObjectKey> =
        ["key", "web", "nobody"].map(|name| ObjectKey::of(Kind::Service, "default", name)).into();
    let path = FieldPath::from("metadata.name");
    let sought = |object, line| Sought { object, line, path: &path };
    let sought = [sought(&objects[0], 15), sought(&objects[1], 1), sought(&objects[2], 1), sought(&objects[1], 1)];
    let lines = places(&"f".into(), TEXT, &sought).into_iter().map(|found| found.map(|(place, _)| place.line));
    assert_eq!(lines.collect::<Vec<_>>(), [None, Some(2), None, Some(2)]);
}
