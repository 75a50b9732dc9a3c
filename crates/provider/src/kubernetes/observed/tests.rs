//! What is ours in a status, whatever stands beside it.

use super::*;

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
