//! What is told apart of two forms of an object, and what is not.

use api::Kind;
use bytes::Bytes;

use super::*;

const ROUTES: Resource = Resource::Kind(Kind::HttpRoute, "v1");

fn look(text: &str) -> Result<Seen, String> {
    Seen::look(ROUTES, &Bytes::copy_from_slice(text.as_bytes()))
}

const OBJECT: &str = r#"{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute","metadata":{"name":"a","namespace":"b",
    "resourceVersion":"7","labels":{"x":"1"},"annotations":{"n":"1","m":"2"},"managedFields":[{}]},"spec":{"k":[1,2]},"status":{"parents":[]}}"#;

#[test]
fn who_it_is_and_its_status_are_found() {
    let seen = look(OBJECT).unwrap();
    assert_eq!(seen.key.to_string(), "HTTPRoute b/a");
    assert_eq!((seen.version.as_str(), seen.version.number()), ("7", Some(7)));
    assert_eq!(seen.status.as_deref(), Some(&br#"{"parents":[]}"#[..]));
}

#[test]
fn what_is_kept_changes_the_hash_and_nothing_else_does() {
    let kept = look(OBJECT).unwrap().kept;
    let same = [
        (r#""7""#, r#""8""#),
        (r#"{"parents":[]}"#, "null"),
        ("[{}]", r#"[{"manager":"x"}]"#),
        (r#""kind":"HTTPRoute""#, r#""kind":"Other""#),
        (r#"{"n":"1","m":"2"}"#, r#"{"m":"2","n":"1","kubectl.kubernetes.io/last-applied-configuration":"{}"}"#),
    ];
    for (from, to) in same {
        assert!(OBJECT.contains(from), "{from}");
        assert_eq!(look(&OBJECT.replace(from, to)).unwrap().kept, kept, "{to}");
    }
    let different = [
        (r#"{"k":[1,2]}"#, r#"{"k":[1]}"#),
        (r#""x":"1""#, r#""x":"2""#),
        (r#"{"n":"1","m":"2"}"#, r#"{"n":"2","m":"1"}"#),
        (r#""labels""#, r#""uid":"u","labels""#),
        (r#""labels""#, r#""generation":2,"labels""#),
        (r#""spec""#, r#""specs""#),
    ];
    for (from, to) in different {
        assert!(OBJECT.contains(from), "{from}");
        assert_ne!(look(&OBJECT.replacen(from, to, 1)).unwrap().kept, kept, "{to}");
    }
}

#[test]
fn an_object_that_does_not_say_who_it_is_is_none() {
    for text in [
        "",
        "{",
        "7",
        "{}",
        r#"{"metadata":7}"#,
        r#"{"metadata":{}}"#,
        r#"{"metadata":{"name":7}}"#,
        r#"{"metadata":{"name":""}}"#,
    ] {
        assert!(look(text).is_err(), "{text}");
    }
}

#[test]
fn a_line_is_split_where_the_object_begins_and_only_if_it_is_written_as_servers_do() {
    assert_eq!(split("{\"type\":\"ADDED\",\"object\":{\"a\":1}}\r"), Some(("ADDED", "{\"a\":1}")));
    for other in [
        "",
        "{}",
        r#"{"type": "ADDED","object":{}}"#,
        r#"{"object":{},"type":"ADDED"}"#,
        r#"{"type":"A\u0044","object":{}}"#,
        r#"{"type":"ADDED","object":{"#,
    ] {
        assert_eq!(split(other), None, "{other}");
    }
}

#[test]
fn names_may_be_written_with_escapes() {
    assert_eq!(look(r#"{"metadata":{"na\u006de":"\u0061"}}"#).unwrap().key.name(), "a");
}

#[test]
fn a_string_is_copied_only_where_it_is_escaped() {
    let word = |json| serde_json::from_str::<Word<'_>>(json).unwrap().0;
    assert!(matches!(word(r#""name""#), Cow::Borrowed("name")));
    assert!(matches!(word(r#""n\u0061me""#), Cow::Owned(name) if name == "name"));
}
