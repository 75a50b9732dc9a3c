//! Tests of the bounds on what checking a document costs.

use std::sync::Arc;

use crate::yaml::documents;
use crate::{Decoded, Severity, read};

fn decoded(text: &str) -> Decoded {
    let file: Arc<str> = "a.yaml".into();
    read(&documents(text).next().unwrap(), &file)
}

#[test]
fn the_rest_of_a_list_that_is_too_long_is_not_checked() {
    let refs = "  - name: 1\n".repeat(100_000);
    let route = format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata:\n  name: a\nspec:\n  parentRefs:\n{refs}"
    );
    let found = decoded(&route);
    assert!(found.objects.is_empty() && found.problems.len() <= 102, "{}", found.problems.len());
    assert!(
        found.problems.iter().any(|problem| problem.text.contains("at most 32 are allowed")),
        "{:?}",
        found.problems
    );
}

#[test]
fn the_first_error_is_kept_behind_any_number_of_warnings() {
    let fields: String = (0..500).map(|number| format!("k{number}: 1\n")).collect();
    let text = format!("apiVersion: v1\nkind: Namespace\n{fields}metadata:\n  name: [a]\n");
    let found = decoded(&text);
    assert!(found.objects.is_empty());
    assert!(found.problems.iter().any(|problem| problem.severity == Severity::Error), "{:?}", found.problems.last());
}

#[test]
fn a_misspelt_guard_behind_the_last_checked_field_closes_the_object() {
    let fields: String = (0..1_000).map(|number| format!("  k{number}: 1\n")).collect();
    let text = format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata:\n  name: a\nspec:\n{fields}  hostname: [a.example]\n  rules:\n  - \
         backendRefs:\n    - name: b\n      port: 80\n"
    );
    assert!(decoded(&text).objects.is_empty());
}

#[test]
fn more_values_than_a_text_of_its_size_may_have_are_refused() {
    for (open, close) in [("a: [", "]"), ("{\"a\": [", "]}"), ("&x [", "]")] {
        let dense = format!("{open}{}1{close}", "1,".repeat(1 << 19));
        let found = decoded(&dense);
        assert!(found.problems[0].text.contains("too many values for its size"), "{:?}", found.problems[0]);
    }
    // As an API server writes it, without blanks.
    let item = "{\"addresses\":[\"10.0.0.1\"],\"conditions\":{\"ready\":true}},".repeat(40_000);
    let slice = format!(
        "{{\"apiVersion\":\"discovery.k8s.io/v1\",\"kind\":\"EndpointSlice\",\"metadata\":{{\"name\":\"a\"}},\"addressType\":\"IPv4\",\"x\":[{}1]}}",
        item
    );
    assert!(decoded(&slice).problems.iter().all(|problem| !problem.text.contains("too many values")));
}

#[test]
fn names_that_repeat_are_found_among_many() {
    let fields: String = (0..100_000).map(|number| format!("k{number}: 1\n")).collect();
    let found = decoded(&format!("{fields}k7: 2\nk5: 3\n"));
    assert!(found.problems[0].text.starts_with("\"k7\" occurs twice"), "{:?}", found.problems[0]);
    assert_eq!(found.problems[0].place.as_ref().map(|place| place.line), Some(100_001));
}

#[test]
fn nothing_is_shown_of_a_broken_secret_however_its_kind_is_written() {
    let kinds = [
        "kind: Secret",
        "\"kind\": Secret",
        "'kind' : 'Secret'",
        "kind: &a Secret",
        "kind:\n  Secret",
        "? kind\n: Secret",
        "  kind: Secret",
        "kind: \"Sec\\u0072et\"",
        "kind: !!str Secret",
        "kind:\tSecret",
    ];
    for kind in kinds {
        for text in [
            format!("apiVersion: v1\n{kind}\nstringData:\n  a: hidden: [\n"),
            format!("{{apiVersion: v1, {kind}, stringData: {{a: hidden: [\n"),
        ] {
            for problem in decoded(&text).problems {
                let shown = format!("{} {:?}", problem, problem.snippet);
                assert!(!shown.contains("hidden"), "{text}: {shown}");
            }
        }
    }
}
