//! Rows of routes.

use serde_json::json;

use super::*;

#[test]
fn each_route_has_a_row_with_its_rule_and_line() {
    let routes = json!([
        {
            "name": "default/shop/cart",
            "match": { "path_separated_prefix": "/cart", "headers": [
                { "name": ":method", "string_match": { "exact": "GET" } },
                { "name": "x", "string_match": { "safe_regex": { "regex": "a+" } } },
            ] },
            "route": { "timeout": "10s", "weighted_clusters": { "clusters": [{ "name": "a", "weight": 9 }, { "name": "b", "weight": 1 }] } },
            "request_headers_to_remove": ["y"],
            "typed_per_filter_config": { "envoy.filters.http.cors": {} },
        },
        { "name": "default/shop/login", "match": { "path": "/login" }, "redirect": { "host_redirect": "b.example" } },
        { "name": "404", "match": { "prefix": "/" }, "direct_response": { "status": 404 } },
        { "name": "own", "match": { "safe_regex": { "regex": "/a|/b" } }, "route": { "cluster": "c", "timeout": "0s" } },
        { "name": "\u{1b}[2Jx", "match": {}, "route": {} },
    ]);
    let dump = json!({ "configs": [{
        "@type": "type.googleapis.com/envoy.admin.v3.RoutesConfigDump",
        "dynamic_route_configs": [{ "version_info": "7", "route_config": { "name": "r", "virtual_hosts": [
            { "name": "h", "domains": ["a.example", "a.example.", "b.example"], "routes": routes },
        ] } }],
    }] });
    let rule = |rule: &str, place: Option<&str>| Rule {
        object: Some("HTTPRoute default/shop".to_owned()),
        rule: rule.to_owned(),
        place: place.map(str::to_owned),
    };
    let rules = Rules::from([
        ("default/shop/cart".to_owned(), rule("spec.rules[0]", Some("shop.yaml:9:5"))),
        ("default/shop/login".to_owned(), rule("spec.rules[1]", None)),
    ]);
    let shown = table(&dump, &rules, false, Screen::default());
    let cells =
        |line: &str| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join("|");
    let rows: Vec<String> = shown.lines().map(cells).collect();
    assert_eq!(
        rows,
        [
            "HOST|MATCH|TO|TIMEOUT|FILTERS|OBJECT|RULE|WRITTEN AT",
            "a.example,b.example|/cart/* GET x~a+|a=9,b=1|10s|request headers,cors|HTTPRoute default/shop|rules[0]|shop.yaml:9:5",
            "a.example,b.example|=/login|redirects to b.example|-|-|HTTPRoute default/shop|rules[1]|-",
            "a.example,b.example|/*|answers 404|-|-|404|-|-",
            "a.example,b.example|~/a|/b|c|none|-|own|-|-",
            "a.example,b.example|other|chosen by a plugin|15s|-|\u{241b}[2Jx|-|-",
        ]
    );
    let wide = table(&dump, &rules, true, Screen::default());
    assert!(wide.contains("active") && wide.contains("default/shop/cart"), "{wide}");
    assert_eq!(table(&Value::Null, &rules, false, Screen::default()), "no routes\n");
}
