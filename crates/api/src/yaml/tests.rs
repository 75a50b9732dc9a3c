//! Tests of the YAML readers.

use proptest::prelude::*;
use serde_json::json;

use super::{MAX_COPIED, documents, fast, full, parse};
use crate::tree::{Tree, Value};

/// What both readers make of a text; the fast one only if it takes it.
#[track_caller]
fn check(text: &str, expect: serde_json::Value) {
    assert_eq!(full::parse(text).map(|tree| tree.to_json()), Ok(expect.clone()), "full reader: {text}");
    if let Some(tree) = fast::parse(text) {
        assert_eq!(tree.to_json(), expect, "fast reader: {text}");
    }
}

#[track_caller]
fn refused(text: &str, at: &str, words: &str) {
    assert_eq!(fast::parse(text), None, "the fast reader leaves errors to the full one: {text}");
    let error = parse(text).expect_err("this text is refused");
    assert!(error.message.contains(words), "{words:?} in {error}");
    let found = text.get(error.at as usize..).expect("the place is in the text");
    assert!(found.starts_with(at), "{at:?} at the place of {error}, found {found:?}");
}

#[test]
fn the_usual_forms_are_read() {
    check(
        "a: 1\nb: two words # comment\nc:\n- x\n- y: 1\n  z: 2\n-\n  - deep\n",
        json!({"a": 1, "b": "two words", "c": ["x", {"y": 1, "z": 2}, ["deep"]]}),
    );
    check("- - 1\n  - 2\n- [a, 'b', \"c\", {d: e}]\n", json!([[1, 2], ["a", "b", "c", {"d": "e"}]]));
    check("a:\n  b:\n    c: ~\n  d: 'quo ted'\n", json!({"a": {"b": {"c": null}, "d": "quo ted"}}));
    check("a: {}\nb: []\nc: \"\"\n", json!({"a": {}, "b": [], "c": ""}));
}

#[test]
fn the_fast_reader_takes_what_people_write() {
    for text in [
        "a: 1\n",
        "a:\n- b: c\n  d: [1, 2]\n# comment\n\n- e: 'f' # g\n",
        "\"quoted\": x\nk8s.io/name: y\n",
        "a: http://x/y?z=1\n",
        "a: 10.0.0.1:80\r\nb: c\r\n",
        "{\n \"a\": [1, 2.5e3, \"x\\n\\u00e9\\ud83d\\ude00\"],\n\t\"b\": null}\n",
    ] {
        let fast = fast::parse(text).map(|tree| tree.to_json());
        assert_eq!(fast, full::parse(text).ok().map(|tree| tree.to_json()), "{text}");
        assert!(fast.is_some(), "{text}");
    }
}

#[test]
fn anchors_and_merge_keys_are_resolved_and_own_entries_win() {
    check(
        "base: &base {a: 1, b: 2}\nmore: &more\n  c: 3\nx:\n  <<: [*base, *more]\n  b: own\n  inner: &i [1]\ny: *i\n",
        json!({"base": {"a": 1, "b": 2}, "more": {"c": 3}, "x": {"b": "own", "inner": [1], "a": 1, "c": 3}, "y": [1]}),
    );
}

#[test]
fn block_scalars_and_folded_lines_are_read() {
    check(
        "a: |\n  one\n  two\nb: >-\n  one\n  two\nc: one\n  two\n",
        json!({"a": "one\ntwo\n", "b": "one two", "c": "one two"}),
    );
}

#[test]
fn words_of_yaml_1_1_are_strings_and_numbers_are_numbers() {
    check(
        "[yes, on, 'true', true, 0x1f, 0o17, -5, 1.5, 1e3, 9223372036854775808]",
        json!(["yes", "on", "true", true, 31, 15, -5, {"number": "1.5"}, {"number": "1e3"}, {"number": "9223372036854775808"}]),
    );
    check(
        "- 1.2.3\n- 10.0.0.1\n- -\n- +\n- 0b1\n- 2026-11-21\n- .5\n- +7\n",
        json!(["1.2.3", "10.0.0.1", [null], "+", "0b1", "2026-11-21", {"number": ".5"}, 7]),
    );
}

#[test]
fn errors_have_their_place() {
    refused("a: 1\nb: 2\na: 3\n", "a: 3", "occurs twice");
    refused("a: 1\n\tb: 2\n", "\t", "tab");
    refused("a:\n\tb: 2\n", "\t", "tab");
    refused("a: *nowhere\n", "*nowhere", "nchor");
    refused("a: [1, 2\nb: 3\n", ": 3", "");
    refused("a: !thing 1\n", "", "tag");
    refused("1: a\n", "1", "must be a string");
    refused("[a]: b\n", "[a]", "must be a string");
    refused("a:\n  <<: 5\n", "5", "merge key");
    refused("{\"a\": 1, \"a\": 2}", "\"a\": 2", "occurs twice");
}

#[test]
fn a_billion_laughs_stop_early() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let refs = vec![format!("*a{}", level - 1); 10].join(", ");
        text += &format!("a{level}: &a{level} [{refs}]\n");
    }
    let error = parse(&text).expect_err("too many copies");
    assert!(error.message.contains(&MAX_COPIED.to_string()), "{error}");
}

#[test]
fn deep_nesting_is_refused_and_does_not_overflow() {
    for text in ["[".repeat(100_000), "{\"a\":".repeat(100_000), "- ".repeat(100_000), "a:\n ".repeat(50_000)] {
        assert!(parse(&text).is_err());
    }
    let deep: String = (0..5_000).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
    assert!(parse(&deep).is_err());
}

#[test]
fn documents_are_split_at_borders_with_their_lines() {
    let text = "# first\n---\na: 1\n---\n\n# nothing\n---\nb: |\n  x\n...\n%YAML 1.2\n--- # note\nc: 3\n--- {d: 4}\n";
    let found: Vec<_> =
        documents(text).map(|document| (document.line, parse(document.text).expect("each parses").to_json())).collect();
    assert_eq!(found, [(3, json!({"a": 1})), (8, json!({"b": "x\n"})), (11, json!({"c": 3})), (14, json!({"d": 4}))]);
}

#[test]
fn equal_documents_have_equal_hashes() {
    let hashes: Vec<_> = documents("a: 1\n---\na: 2\n---\na: 1\n").map(|document| document.hash).collect();
    assert_eq!(hashes[0], hashes[2]);
    assert_ne!(hashes[0], hashes[1]);
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    let found: Vec<_> = documents("\u{feff}a: 1\n").collect();
    assert_eq!(found.len(), 1);
    assert_eq!(parse(found[0].text).expect("parses").to_json(), json!({"a": 1}));
}

/// Lines that look like Kubernetes YAML.
const LINES: &[&str] = &[
    "a: 1",
    "b:",
    "- c",
    "- d: e",
    "-",
    "# note",
    "",
    "f: [1, {g: h}]",
    "i: 'j' # k",
    "l: m: n",
    "\"o\": \"p\\n\"",
    "q: |",
    "r",
    "s: #t",
    "u : v",
    "- - w",
    "x: *y",
    "z: &y 1",
    "? a",
    "a: b #c",
    "a: b#c",
    "a: -",
    "a: {}x",
    "- 'a': b",
    "a: - b",
    "null: a",
    "a: -1",
    "---",
    "- {a: b}",
    "<<: {a: 1}",
    "a:b",
    "a:  b  ",
    "a: 'b''c'",
    "a: \"b\"\"c\"",
    "a: [b",
    "a: é",
    "a: x\ty",
    "-a: 1",
    "a: =",
];

/// Such lines in orders that mostly make no sense.
fn lines() -> impl Strategy<Value = String> {
    let line = |(indent, line, cr): (usize, usize, bool)| {
        format!("{}{}{}", "  ".repeat(indent), LINES[line], if cr { "\r\n" } else { "\n" })
    };
    proptest::collection::vec((0_usize..4, 0..LINES.len(), prop::bool::ANY).prop_map(line), 0..8)
        .prop_map(|lines| lines.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_readers_agree_wherever_the_fast_one_answers(text in lines()) {
        for document in documents(&text) {
            if let Some(fast) = fast::parse(document.text) {
                prop_assert_eq!(Ok(fast.to_json()), full::parse(document.text).map(|tree| tree.to_json()));
            }
        }
    }

    #[test]
    fn both_readers_agree_on_places(text in lines()) {
        if let (Some(fast), Ok(full)) = (fast::parse(&text), full::parse(&text)) {
            let starts = |tree: &Tree<'_>| tree.nodes.iter().filter(|node| matches!(node.value, Value::String(_) | Value::Int(_) | Value::Bool(_))).map(|node| node.start).collect::<Vec<_>>();
            prop_assert_eq!(starts(&fast), starts(&full));
        }
    }

    #[test]
    fn no_text_makes_a_reader_panic(text in ".{0,60}") {
        for document in documents(&text) {
            let _ = parse(document.text);
        }
    }
}

#[test]
fn many_documents_that_end_with_dots_are_read_in_one_go() {
    // Were the rest searched again for each of them, this would take minutes.
    let text = "a: 1\n...x\n...\n".repeat(300_000);
    let found = documents(&text).inspect(|document| assert_eq!(document.text, "a: 1\n...x\n")).count();
    assert_eq!(found, 300_000);
}
