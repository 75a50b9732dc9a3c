//! Which changes of headers are possible, and which are said to do nothing.

use serde_json::json;

use super::super::super::matching::REPEATED;
use super::{changes, ignored, put_back};

#[test]
fn header_changes_are_small_letters_and_each_name_once() {
    let filter = json!({
        "set": [{"name": "X-A", "value": "1"}, {"name": "x-a", "value": "2"}],
        "add": [{"name": "X-B", "value": "50% off"}],
        "remove": ["X-C"],
    });
    let changed = changes(&serde_json::from_value(filter).expect("headers")).expect("good");
    assert_eq!(changed.set, [("x-a".into(), "1".into())]);
    assert_eq!(changed.add, [("x-b".into(), "50% off".into())]);
    assert_eq!(changed.remove, ["x-c".into()]);
    for bad in [
        json!({"set": [{"name": "Host", "value": "x"}]}),
        json!({"set": [{"name": ":path", "value": "x"}]}),
        json!({"add": [{"name": "x", "value": "a\r\nb"}]}),
        json!({"remove": [""]}),
    ] {
        assert!(changes(&serde_json::from_value(bad.clone()).expect("headers")).is_err(), "{bad}");
    }
}

#[test]
fn what_says_where_a_message_ends_is_nobodys_to_change() {
    for name in ["Content-Length", "transfer-encoding", "Host"] {
        for written in [
            json!({"set": [{"name": name, "value": "1"}]}),
            json!({"add": [{"name": name, "value": "1"}]}),
            json!({"remove": [name]}),
        ] {
            let filter = serde_json::from_value(written.clone()).expect("header changes");
            assert!(changes(&filter).is_err(), "{written}");
        }
    }
}

#[test]
fn what_is_about_the_connection_is_written_by_the_proxy_only() {
    for name in ["Connection", "upgrade", "Proxy-Connection"] {
        for list in ["set", "add"] {
            let filter = serde_json::from_value(json!({list: [{"name": name, "value": "x"}]})).expect("header changes");
            assert!(changes(&filter).is_err(), "{list} {name}");
        }
    }
    let filter = serde_json::from_value(json!({"remove": ["Connection"]})).expect("header changes");
    assert!(changes(&filter).is_ok(), "it is removed in any case");
}

#[test]
fn what_does_nothing_is_said() {
    let filter = serde_json::from_value(json!({
        "set": [{"name": "X-A", "value": "1"}, {"name": "x-b", "value": "2"}, {"name": "x-a", "value": "3"}],
        "add": [{"name": "x-a", "value": "1"}, {"name": "X-A", "value": "2"}],
        "remove": ["x-c", "DATE"],
    }));
    let filter = filter.expect("header changes");
    let found: Vec<_> = ignored(&filter).collect();
    assert_eq!(found, [("set[2].name".to_owned(), REPEATED), ("add[1].name".to_owned(), REPEATED)]);
    assert_eq!(put_back(&filter).map(|(field, _)| field).collect::<Vec<_>>(), ["remove[1]"]);
}
