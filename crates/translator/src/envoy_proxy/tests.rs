//! Settings of proxies.

use serde_json::json;

use super::*;

fn view(spec: serde_json::Value) -> ProxyView {
    read(&serde_json::from_value(spec).unwrap())
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
