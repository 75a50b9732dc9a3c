//! Tests of label selectors.

use super::{LabelOperator, LabelRequirement, LabelSelector};
use crate::meta::Labels;
use crate::raw::WorkloadSelector;

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

#[test]
fn requirements_are_written_as_kubectl_writes_them() {
    let written = |operator, values: &[&str]| {
        let selector = selector(operator, values);
        selector.match_expressions.iter().map(ToString::to_string).collect::<String>()
    };
    assert_eq!(written(LabelOperator::In, &["red", "blue"]), "team in (red,blue)");
    assert_eq!(written(LabelOperator::NotIn, &["red"]), "team notin (red)");
    assert_eq!(written(LabelOperator::Exists, &[]), "team");
    assert_eq!(written(LabelOperator::DoesNotExist, &[]), "!team");
    assert_eq!(written(LabelOperator::Unknown("Near".into()), &["red"]), "team Near (red)");
}

#[test]
fn each_condition_of_a_workload_selector_says_whether_it_holds() {
    let LabelSelector { match_expressions, .. } = selector(LabelOperator::NotIn, &["red"]);
    let labels = |app: &str| [("app", app)].into_iter().collect::<Labels>();
    let selector = WorkloadSelector { labels: labels("web"), match_labels: labels("api"), match_expressions };
    let told = selector.conditions(&labels("web"));
    let told: Vec<_> = told.iter().map(|one| (one.label, &*one.words, one.holds)).collect();
    assert_eq!(told, [("app", "app=web", true), ("app", "app=api", false), ("team", "team notin (red)", true)]);
}
