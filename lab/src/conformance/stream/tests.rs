//! What is read out of the streams of good and bad runs.

use serde_json::json;

use super::*;

const ROOT: &str = "TestConformance";

/// The results of a stream of (test, action, output); a test inside [`ROOT`] unless its name is empty.
fn read(events: &[(&str, &str, &str)]) -> Results {
    let mut results = Results::new(ROOT);
    for (test, action, output) in events {
        let test = if test.is_empty() { ROOT.to_owned() } else { format!("{ROOT}/{test}") };
        let kind = if *action == "error" { "error" } else { "" };
        let action = if *action == "error" { "output" } else { action };
        let line = json!({"Action": action, "Test": test, "Output": output, "OutputType": kind, "Elapsed": 1.5});
        results.read(&line.to_string());
    }
    results
}

fn failed(results: &Results) -> Vec<(&str, String)> {
    results.failed().collect()
}

#[test]
fn each_test_counts_once_whatever_is_inside_it() {
    let mut results = read(&[
        ("A", "run", ""),
        ("A/one", "fail", ""),
        ("A", "fail", ""),
        ("B/one", "pass", ""),
        ("B", "pass", ""),
        ("C", "output", "    x.go:1: Skipping C: suite does not support HTTPRouteCORS\n"),
        ("C", "skip", ""),
        ("D", "skip", ""),
        ("E", "skip", ""),
        ("", "fail", ""),
    ]);
    results.end(false);
    let counts = [How::Passed, How::Failed, How::Skipped, How::NotClaimed].map(|how| results.count(how));
    assert_eq!(counts, [1, 1, 2, 1]);
    assert!(!results.is_good());
    assert_eq!(failed(&results).len(), 1);
}

#[test]
fn the_end_of_a_test_is_told_when_it_comes_and_that_of_its_parts_is_not() {
    let mut results = Results::new(ROOT);
    assert_eq!(results.read(r#"{"Action":"pass","Test":"TestConformance/A/one","Elapsed":1}"#), None);
    let ended =
        results.read(r#"{"Time":"2026-11-23T05:00:00Z","Action":"pass","Test":"TestConformance/A","Elapsed":2.5}"#);
    assert_eq!(ended, Some(News::Ended("A".to_owned(), Ended { how: How::Passed, seconds: 2.5 })));
    let step = r#"{"Action":"output","Test":"TestConformance","Output":"    suite.go:1: 05:00: Test Setup: Applying base manifests\n"}"#;
    assert_eq!(results.read(step), Some(News::Step("Applying base manifests".to_owned())));
    assert_eq!(results.read("no JSON"), None);
    results.end(true);
    assert!(results.is_good());
}

#[test]
fn the_first_error_is_told_in_one_line() {
    let asserted = "    helpers.go:12: \n        \tError Trace:\thelpers.go:12\n        \tError:      \tReceived unexpected error:\n        \t            \ttimed out\n        \tTest:       \tTestConformance/A/one\n        \tMessages:   \terror waiting for Gateway\n";
    let results = read(&[
        ("A/one", "output", "    x.go:1: applying\n"),
        ("A/one", "error", asserted),
        ("A/one", "error", "    x.go:2: something else\n"),
        ("A", "fail", ""),
        ("B", "error", "    x.go:3: got 500\n"),
        ("B", "fail", ""),
    ]);
    let wanted = [
        ("A", "error waiting for Gateway: Received unexpected error: timed out".to_owned()),
        ("B", "x.go:3: got 500".to_owned()),
    ];
    assert_eq!(failed(&results), wanted);
}

#[test]
fn a_preparation_that_fails_is_told_in_place_of_tests() {
    let mut results = read(&[("", "error", "    c.go:1: no supported features\n"), ("", "fail", "")]);
    results.end(false);
    assert!(!results.is_good());
    assert_eq!(failed(&results), [(ROOT, "c.go:1: no supported features".to_owned())]);
}

#[test]
fn what_does_not_come_to_its_end_has_failed() {
    let mut results = read(&[("A", "pass", ""), ("B", "run", "")]);
    results.end(false);
    assert_eq!(failed(&results), [("B", "it did not come to its end".to_owned())]);
    let mut crashed = read(&[("A", "pass", "")]);
    crashed.end(false);
    assert!(!crashed.is_good());
    assert_eq!(failed(&crashed).len(), 1);
}

#[test]
fn a_run_in_which_no_test_passed_is_not_good() {
    let mut results = read(&[("A", "skip", ""), ("", "pass", "")]);
    results.end(true);
    assert!(!results.is_good());
}
