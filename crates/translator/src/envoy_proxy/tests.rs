//! Settings of proxies.

use serde_json::json;

use super::*;

fn view(spec: serde_json::Value) -> ProxyView {
    read(&serde_json::from_value(spec).unwrap(), true)
}

#[test]
fn levels_and_components_that_envoy_does_not_know_are_left_out_and_named() {
    let view =
        view(json!({"logging": {"level": {"default": "loud", "http": "debug", "nosuch": "info", "upstream": "x"}}}));
    assert_eq!(view.options.log_level, None);
    assert_eq!(view.options.component_log_levels, [("http".into(), "debug".into())]);
    let named: Vec<&str> = view.warnings.iter().map(|(path, _)| &**path).collect();
    assert_eq!(named, ["spec.logging.level.default", "spec.logging.level.nosuch", "spec.logging.level.upstream"]);
}

#[test]
fn the_list_of_components_is_sorted_for_the_search_in_it() {
    assert!(COMPONENTS.is_sorted());
}

#[test]
fn options_that_are_set_anyway_are_left_out_with_their_values_and_named() {
    let view = view(json!({"extraArgs": ["--log-level", "debug", "--stats-tag", "a:b", "--log-format-escaped", "-c"]}));
    assert_eq!(view.options.extra_args, ["--stats-tag", "a:b"].map(std::sync::Arc::from));
    let named: Vec<&str> = view.warnings.iter().map(|(path, _)| &**path).collect();
    assert_eq!(named, ["spec.extraArgs[0]", "spec.extraArgs[4]", "spec.extraArgs[5]"]);
}
