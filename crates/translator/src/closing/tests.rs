//! Tests of what policies close.

use std::sync::Arc;

use api::{Kind, LabelSelector, Labels, ObjectKey};
use serde_json::json;

use super::{Anchor, Closers, ClosingClaim, MOST_NAMED, MOST_STEPS, Pattern, PatternPolicies};
use crate::backend_traffic_policy::PolicyTarget;
use crate::listener::Namespaces;

fn policy(name: &str) -> ObjectKey {
    ObjectKey::of(Kind::SecurityPolicy, "default", name)
}

fn claim(policy: ObjectKey, section: Option<&str>) -> ClosingClaim {
    let object = ObjectKey::of(Kind::HttpRoute, "default", "r");
    ClosingClaim { target: PolicyTarget { object, section: section.map(Arc::from) }, policy }
}

fn pattern(labels: serde_json::Value) -> Arc<Pattern> {
    let labels: LabelSelector = serde_json::from_value(labels).expect("a selector");
    Arc::new(Pattern::of_labels(&policy("any"), Kind::HttpRoute, labels, Namespaces::Same))
}

fn policies(name: &str) -> PatternPolicies {
    PatternPolicies::of([(&policy(name), &"spec.jwt".into())].into_iter())
}

#[test]
fn a_section_is_closed_by_policies_of_all_and_of_its_own() {
    let mut closers = Closers::default();
    closers.named(&claim(policy("b"), Some("one")), &"spec.jwt".into());
    closers.named(&claim(policy("a"), Some("one")), &"spec.oidc".into());
    let closing = closers.closing(false).expect("some");
    assert_eq!(closing.reason(None), None);
    assert_eq!(closing.reason(Some("two")), None);
    let reason = closing.reason(Some("one")).expect("closed");
    assert!(reason.ends_with("SecurityPolicy default/a (spec.oidc), SecurityPolicy default/b (spec.jwt)"), "{reason}");
    let mut closers = Closers::default();
    assert!(closers.selected(&pattern(json!({})), &policies("a")));
    let closing = closers.closing(false).expect("some");
    assert!(closing.reason(None).is_some() && closing.reason(Some("one")).is_some());
    assert_eq!((&*closing.selected_by, closing.is_cut), (&[pattern(json!({}))][..], false));
}

#[test]
fn nothing_is_closed_where_such_policies_are_allowed() {
    let mut closers = Closers::default();
    closers.named(&claim(policy("a"), None), &"spec.jwt".into());
    let closing = closers.closing(true).expect("some");
    assert!(closing.whole().is_some() && closing.reason(None).is_none());
    assert!(Closers::default().closing(false).is_none());
}

#[test]
fn of_many_policies_the_rest_is_counted() {
    let mut closers = Closers::default();
    for at in 0..12 {
        closers.named(&claim(policy(&format!("p{at:02}")), None), &"spec.jwt".into());
    }
    let closing = closers.closing(false).expect("some");
    assert!(closing.whole().is_some_and(|words| words.ends_with("SecurityPolicy default/p07 (spec.jwt) and 4 more")));
}

#[test]
fn of_many_selectors_the_first_are_kept() {
    let mut closers = Closers::default();
    for at in 0..MOST_NAMED {
        assert!(
            closers.selected(&pattern(json!({"matchLabels": {"a": at.to_string()}})), &policies(&format!("p{at}")))
        );
    }
    assert!(!closers.selected(&pattern(json!({})), &policies("q")));
    let closing = closers.closing(false).expect("some");
    assert_eq!((closing.selected_by.len(), closing.is_cut), (MOST_NAMED, true));
    assert!(closing.whole().is_some_and(|words| words.ends_with("SecurityPolicy default/p7 (spec.jwt) and more")));
}

#[test]
fn of_many_policies_of_a_selector_the_first_are_kept() {
    let keys: Vec<ObjectKey> = (0..1000).map(|at| policy(&format!("p{at:03}"))).collect();
    let words: Arc<str> = "spec.jwt".into();
    let of = |count: usize| PatternPolicies::of(keys.iter().take(count).flat_map(|key| [(key, &words), (key, &words)]));
    assert_eq!((of(8).first.len(), of(8).has_more), (8, false));
    assert_eq!((of(9).first.len(), of(9).has_more), (8, true));
    assert_eq!(of(9), of(1000), "one more policy changes nothing");
}

#[test]
fn selectors_beyond_the_bound_close() {
    let mut closers = Closers::default();
    let namespace: Arc<str> = "default".into();
    assert!((0..MOST_STEPS).all(|_| closers.step(&namespace)));
    assert!(!closers.step(&namespace));
    let closing = closers.closing(false).expect("closed");
    let reason = closing.reason(None).expect("a reason");
    assert!(reason.contains("policies of namespace default with more selectors than are compared"), "{reason}");
    assert!(closing.is_cut);
}

#[test]
fn a_selector_is_found_from_what_it_selects() {
    let object = ObjectKey::of(Kind::HttpRoute, "default", "r");
    let labels: Labels = [("a", "1"), ("b", "2")].into_iter().collect();
    let namespace: Arc<str> = "default".into();
    for (selector, found, selects) in [
        (json!({}), true, true),
        (json!({"matchLabels": {"a": "1", "b": "2"}}), true, true),
        (json!({"matchLabels": {"a": "1", "b": "3"}}), true, false),
        (json!({"matchLabels": {"c": "1"}}), false, false),
        (json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]}), true, true),
        (json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}), true, true),
        (json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["2"]}]}), false, false),
        (json!({"matchExpressions": [{"key": "b", "operator": "Exists"}]}), true, true),
        (json!({"matchExpressions": [{"key": "c", "operator": "Exists"}]}), false, false),
        (json!({"matchExpressions": [{"key": "c", "operator": "DoesNotExist"}]}), true, true),
        (json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}), true, false),
    ] {
        let pattern = pattern(selector.clone());
        let is_found =
            Anchor::of((&namespace, super::Reach::Own), &object, &labels).any(|anchor| anchor == pattern.anchor);
        assert_eq!((is_found, pattern.selects("r", &labels)), (found, selects), "{selector}");
    }
}
