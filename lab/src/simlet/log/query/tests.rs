//! What `kubectl logs` can ask for.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use super::Query;

const LINES: &str = "2026-11-23T01:00:00.000000000Z stdout F one
2026-11-23T01:00:10.000000000Z stderr F two words
2026-11-23T01:00:20.000000000Z stdout P long
2026-11-23T01:00:20.000000001Z stdout F er
";

fn check(parameters: &[(&str, &str)], expect: &str) {
    let parameters: BTreeMap<String, String> =
        parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let now: Timestamp = "2026-11-23T01:00:25Z".parse().unwrap();
    let selected = Query::parse(&parameters, now).unwrap().select(LINES.as_bytes(), true);
    assert_eq!(String::from_utf8(selected).unwrap(), expect, "{parameters:?}");
}

#[test]
fn without_wishes_all_is_shown() {
    check(&[], "one\ntwo words\nlonger\n");
    check(&[("tailLines", "")], "one\ntwo words\nlonger\n");
}

#[test]
fn times_and_counts_choose() {
    check(&[("sinceTime", "2026-11-23T01:00:10Z")], "two words\nlonger\n");
    check(&[("sinceSeconds", "6")], "longer\n");
    check(&[("tailLines", "2")], "longer\n");
    check(&[("tailLines", "0")], "");
    check(&[("stream", "Stderr")], "two words\n");
}

#[test]
fn times_are_shown_if_asked_for() {
    check(&[("timestamps", "true"), ("stream", "Stderr")], "2026-11-23T01:00:10.000000000Z two words\n");
}

#[test]
fn what_has_no_meaning_is_an_error() {
    for wrong in [("tailLines", "-1"), ("sinceSeconds", "x"), ("sinceTime", "yesterday")] {
        let parameters = BTreeMap::from([(wrong.0.to_owned(), wrong.1.to_owned())]);
        assert!(Query::parse(&parameters, Timestamp::UNIX_EPOCH).is_err(), "{wrong:?}");
    }
}
