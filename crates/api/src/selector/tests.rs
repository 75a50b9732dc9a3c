//! Tests of label selectors.

use super::{LabelOperator, LabelRequirement, LabelSelector};
use crate::meta::Labels;

fn selector(operator: LabelOperator, values: &[&str]) -> LabelSelector {
    let values = values.iter().map(|value| Box::from(*value)).collect();
    let requirement = LabelRequirement { key: "team".into(), operator, values };
    LabelSelector { match_expressions: [requirement].into(), ..LabelSelector::default() }
}

#[test]
fn an_empty_selector_selects_everything() {
    assert!(LabelSelector::default().matches(&Labels::default()));
}

#[test]
fn every_operator_does_what_kubernetes_says() {
    let red: Labels = [("team", "red")].into_iter().collect();
    let none = Labels::default();
    for (operator, values, with_red, without) in [
        (LabelOperator::In, &["red", "blue"][..], true, false),
        (LabelOperator::In, &["blue"], false, false),
        (LabelOperator::NotIn, &["red"], false, true),
        (LabelOperator::NotIn, &["blue"], true, true),
        (LabelOperator::Exists, &[], true, false),
        (LabelOperator::DoesNotExist, &[], false, true),
        (LabelOperator::Unknown("Near".into()), &["red"], false, false),
    ] {
        let selector = selector(operator.clone(), values);
        assert_eq!((selector.matches(&red), selector.matches(&none)), (with_red, without), "{operator}");
    }
}

#[test]
fn a_selector_that_cannot_be_used_says_why() {
    assert!(selector(LabelOperator::In, &["red"]).defect().is_none());
    for bad in [
        selector(LabelOperator::In, &[]),
        selector(LabelOperator::Exists, &["red"]),
        selector(LabelOperator::Unknown("Near".into()), &[]),
    ] {
        assert!(bad.defect().is_some());
    }
}
