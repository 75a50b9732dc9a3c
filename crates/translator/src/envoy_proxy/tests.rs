//! Settings of proxies.

use serde_json::json;

use super::*;

fn view(spec: serde_json::Value) -> ProxyView {
    read(
        &serde_json::from_value(spec).unwrap(),
        true,
        &ProxyRules { arguments: ["stats-tag".into()].into(), ..ProxyRules::default() },
    )
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

#[test]
fn settings_of_objects_are_named_where_there_are_no_objects() {
    let spec = json!({"provider": {"type": "Kubernetes", "kubernetes": {"envoyDeployment": {"replicas": 2}}}});
    let spec: EnvoyProxySpec = serde_json::from_value(spec).unwrap();
    let paths = |file_mode| {
        read(&spec, file_mode, &ProxyRules::default()).warnings.into_iter().map(|(path, _)| path).collect::<Vec<_>>()
    };
    assert_eq!(paths(true), ["spec.provider.type", "spec.provider.kubernetes"]);
    assert_eq!(paths(false), Vec::<String>::new());
}

/// Settings whose arguments and threads say where they come from.
fn from(level: &str, concurrency: u32, how: &str) -> EnvoyProxySpec {
    let written = json!({"mergeType": how, "concurrency": concurrency, "logging": {"level": {level: "info"}}});
    let mut spec: EnvoyProxySpec = serde_json::from_value(written.clone()).unwrap();
    spec.written = api::tree::Verbatim(Arc::new(written));
    spec
}

#[test]
fn settings_of_the_gateway_go_over_those_of_the_class_and_these_over_the_static_ones() {
    let levels = |own: Option<&str>, class: Option<&str>| {
        let (own, class) = (own.map(|how| from("own", 1, how)), class.map(|how| from("class", 2, how)));
        let default = from("default", 3, "Replace");
        let whole = combined(own.as_ref(), class.as_ref(), Some(&default)).unwrap().unwrap();
        let levels: Vec<_> = whole.logging.level.iter().map(|(name, _)| name.to_owned()).collect();
        (levels.join(" "), whole.concurrency.unwrap())
    };
    let (merge, replace) = ("JSONMerge", "Replace");
    assert_eq!(levels(Some(merge), Some(merge)), ("class default own".into(), 1));
    assert_eq!(levels(Some(merge), Some(replace)), ("class own".into(), 1));
    // What the class says of what is behind it holds for the Gateway's as well.
    assert_eq!(levels(Some(replace), Some(merge)), ("default own".into(), 1));
    assert_eq!(levels(Some(replace), Some(replace)), ("own".into(), 1));
    assert_eq!(levels(Some(merge), None), ("default own".into(), 1));
    assert_eq!(levels(None, Some(merge)), ("class default".into(), 2));
    assert_eq!(levels(None, None), ("default".into(), 3));
}
