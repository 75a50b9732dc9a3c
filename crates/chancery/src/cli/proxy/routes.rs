//! The routes of an Envoy, a row each: what takes which requests, and the rule that it is made of.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::dump::{Entry, Kind, entries, list, name, text};
use crate::cli::columns::{Screen, columns_on};

/// A rule of an object, as the admin API answers by the name of its routes in Envoy.
#[derive(Debug, Deserialize)]
pub(super) struct Rule {
    object: Option<String>,
    /// Its field.
    rule: String,
    /// `file:line:column`.
    place: Option<String>,
}

/// Rules by the names of their routes.
pub(super) type Rules = BTreeMap<String, Rule>;

/// Stands for what there is not.
const NONE: &str = "-";

/// A row for each route; configurations without routes, or in another state than they should be, have a row too.
pub(super) fn table(dump: &Value, rules: &Rules, wide: bool, screen: Screen) -> String {
    let entries = entries(dump, Kind::Routes);
    if entries.is_empty() {
        return "no routes\n".to_owned();
    }
    let states = wide || entries.iter().any(|entry| !["active", "static"].contains(&&*entry.state));
    let mut headers = vec!["HOST", "MATCH", "TO", "TIMEOUT", "FILTERS", "OBJECT", "RULE", "WRITTEN AT"];
    headers.extend(states.then_some("STATE"));
    headers.extend(wide.then_some(["CONFIGURATION", "ROUTE", "VERSION", "UPDATED"]).into_iter().flatten());
    let rows = entries.iter().flat_map(|entry| {
        let more = move |mut cells: Vec<String>, route: String| {
            cells.extend(states.then(|| entry.state.clone()));
            let said = |key: &str| text(entry.said, key);
            let wide = wide.then(|| [name(Kind::Routes, entry), route, said("version_info"), said("last_updated")]);
            cells.extend(wide.into_iter().flatten());
            cells
        };
        rows(entry, rules).into_iter().map(move |(cells, route)| more(cells, route))
    });
    columns_on(screen, &headers, rows)
}

/// The cells of each route of a configuration, and its name.
fn rows(entry: &Entry<'_>, rules: &Rules) -> Vec<(Vec<String>, String)> {
    let of_host = |host: &Value| {
        let domains: Vec<&str> = list(host, "domains").iter().filter_map(Value::as_str).collect();
        // The same name with a dot at its end is no other host.
        let is_twin = |domain: &str| domain.strip_suffix('.').is_some_and(|name| domains.contains(&name));
        let domains: Vec<&str> = domains.iter().copied().filter(|domain| !is_twin(domain)).collect();
        let domains = domains.join(",");
        list(host, "routes").iter().map(|route| (row(&domains, route, rules), text(route, "name"))).collect::<Vec<_>>()
    };
    let rows: Vec<_> = list(entry.resource, "virtual_hosts").iter().flat_map(of_host).collect();
    if rows.is_empty() { vec![(vec![NONE.to_owned(); 8], NONE.to_owned())] } else { rows }
}

fn row(domains: &str, route: &Value, rules: &Rules) -> Vec<String> {
    let rule = rules.get(&text(route, "name"));
    let of_rule = |part: fn(&Rule) -> Option<String>| rule.and_then(part).unwrap_or_else(|| NONE.to_owned());
    vec![
        domains.to_owned(),
        matched(route.get("match").unwrap_or(&Value::Null)),
        target(route),
        timeout(route),
        filters(route),
        rule.and_then(|rule| rule.object.clone()).unwrap_or_else(|| text(route, "name")),
        of_rule(|rule| Some(rule.rule.strip_prefix("spec.").unwrap_or(&rule.rule).to_owned())),
        of_rule(|rule| rule.place.clone()),
    ]
}

/// The path, and what else a request must have (`envoy.config.route.v3.RouteMatch`).
fn matched(matched: &Value) -> String {
    const PATHS: [Form; 4] = [
        ("/path", "=", ""),
        ("/path_separated_prefix", "", "/*"),
        ("/prefix", "", "*"),
        ("/safe_regex/regex", "~", ""),
    ];
    let path = formed(matched, &PATHS).unwrap_or_else(|| "other".to_owned());
    let condition = |one: &Value| match text(one, "name") {
        method if method == ":method" => value(one).trim_start_matches('=').to_owned(),
        name => format!("{name}{}", value(one)),
    };
    let parts = ["headers", "query_parameters", "cookies"].map(|part| list(matched, part));
    let all = parts.into_iter().flatten().map(condition);
    [path].into_iter().chain(all).collect::<Vec<_>>().join(" ")
}

/// A field with a text, and the signs before and behind the text that show which field it is.
type Form = (&'static str, &'static str, &'static str);

/// The first of these fields that is there.
fn formed(holder: &Value, forms: &[Form]) -> Option<String> {
    let shown = |(field, before, behind): &Form| {
        holder.pointer(field).and_then(Value::as_str).map(|text| format!("{before}{text}{behind}"))
    };
    forms.iter().find_map(shown)
}

/// The value of a header or parameter (`envoy.type.matcher.v3.StringMatcher`).
fn value(one: &Value) -> String {
    const VALUES: [Form; 3] = [
        ("/string_match/exact", "=", ""),
        ("/string_match/safe_regex/regex", "~", ""),
        ("/string_match/prefix", "=", "*"),
    ];
    let not = if one.get("invert_match") == Some(&Value::Bool(true)) { "!" } else { "" };
    format!("{not}{}", formed(one, &VALUES).unwrap_or_default())
}

/// Clusters with their weights, or the answer.
fn target(route: &Value) -> String {
    let at = |pointer: &str| route.pointer(pointer).and_then(Value::as_str);
    let weighted = route.pointer("/route/weighted_clusters").map(|of| list(of, "clusters")).unwrap_or_default();
    if let Some(cluster) = at("/route/cluster") {
        return cluster.to_owned();
    }
    if !weighted.is_empty() {
        let one = |cluster: &Value| {
            let weight = cluster.get("weight").and_then(Value::as_u64).unwrap_or_default();
            let header = text(cluster, "cluster_header");
            let name = text(cluster, "name");
            format!("{}={weight}", if name.is_empty() { header } else { name })
        };
        return weighted.iter().map(one).collect::<Vec<_>>().join(",");
    }
    if let Some(header) = at("/route/cluster_header") {
        return format!("cluster of header {header}");
    }
    if let Some(status) = route.pointer("/direct_response/status").and_then(Value::as_u64) {
        return format!("answers {status}");
    }
    if let Some(redirect) = route.get("redirect") {
        let parts = ["scheme_redirect", "host_redirect", "path_redirect", "prefix_rewrite"];
        let parts = parts.map(|part| text(redirect, part)).into_iter().filter(|part| !part.is_empty());
        return ["redirects to".to_owned()].into_iter().chain(parts).collect::<Vec<_>>().join(" ");
    }
    if route.get("route").is_some() { "chosen by a plugin".to_owned() } else { NONE.to_owned() }
}

/// The time of a request; Envoy has 15 s where nothing is said, and none where it is 0.
fn timeout(route: &Value) -> String {
    let Some(action) = route.get("route") else { return NONE.to_owned() };
    match action.get("timeout").and_then(Value::as_str) {
        None => "15s".to_owned(),
        Some("0s") => "none".to_owned(),
        Some(time) => time.to_owned(),
    }
}

/// What is done to a request and its answer on the way.
fn filters(route: &Value) -> String {
    let has =
        |pointer: &str| route.pointer(pointer).is_some_and(|value| value.as_array().is_none_or(|all| !all.is_empty()));
    let known = [
        ("request headers", ["/request_headers_to_add", "/request_headers_to_remove"]),
        ("response headers", ["/response_headers_to_add", "/response_headers_to_remove"]),
        ("path", ["/route/prefix_rewrite", "/route/regex_rewrite"]),
        ("host", ["/route/host_rewrite_literal", "/route/host_rewrite_path_regex"]),
        ("mirror", ["/route/request_mirror_policies", "/route/request_mirror_policies"]),
        ("retry", ["/route/retry_policy", "/route/retry_policy"]),
    ];
    let done = known.iter().filter(|(_, pointers)| pointers.iter().any(|pointer| has(pointer)));
    let typed = route.get("typed_per_filter_config").and_then(Value::as_object).into_iter().flatten();
    let typed = typed.map(|(name, _)| name.strip_prefix("envoy.filters.http.").unwrap_or(name).to_owned());
    let all: Vec<String> = done.map(|(word, _)| (*word).to_owned()).chain(typed).collect();
    if all.is_empty() { NONE.to_owned() } else { all.join(",") }
}

#[cfg(test)]
mod tests;
