//! How objects look as columns.

use serde_json::json;

use super::*;

fn condition(kind: &str, status: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": "Because", "message": message})
}

/// The cells of each line but the name.
fn cells(object: &Value) -> Vec<[String; 4]> {
    rows(object).into_iter().map(|row| [row.kind, row.of, row.state, row.why]).collect()
}

#[test]
fn a_backend_that_cannot_be_used_is_not_fine_and_says_why() {
    let backend = |status: &str| {
        let conditions = [condition("Accepted", status, "it lists nothing")];
        json!({"kind": "Backend", "metadata": {"name": "b"}, "status": {"conditions": conditions}})
    };
    assert_eq!(cells(&backend("False")), [["Backend", "", "not Accepted: Because", "it lists nothing"]]);
    assert!(!is_fine(&backend("False")) && is_fine(&backend("True")));
}

#[test]
fn an_envoy_proxy_has_a_line_for_each_that_names_it_with_its_kind_and_what_is_ignored() {
    let entry =
        |kind: &str, conditions: Value| json!({"ancestorRef": {"kind": kind, "name": "a"}, "conditions": conditions});
    let good = json!([condition("Accepted", "True", "it can be used")]);
    let odd = json!([condition("Accepted", "True", "it can be used"), condition("Warning", "True", "x is ignored")]);
    let status = json!({"ancestors": [entry("GatewayClass", good), entry("Gateway", odd)]});
    let proxy = json!({"kind": "EnvoyProxy", "metadata": {"name": "p"}, "status": status});
    let wanted = [["EnvoyProxy", "GatewayClass/a", "ok", ""], ["EnvoyProxy", "a", "Warning", "x is ignored"]];
    assert_eq!(cells(&proxy), wanted);
    assert!(is_fine(&proxy));
}

#[test]
fn the_line_of_a_route_says_what_it_does_not_do_though_its_conditions_are_good() {
    let metadata = |name: &str| json!({"namespace": "default", "name": name});
    let gateway = |name: &str, http: &str, https: &str| {
        let listener =
            |name: &str, status: &str| json!({"name": name, "conditions": [condition("Programmed", status, "")]});
        let listeners = [listener("http", http), listener("https", https)];
        json!({"kind": "Gateway", "metadata": metadata(name), "status": {"listeners": listeners}})
    };
    let route = |name: &str, parent: Value| {
        let parents = [json!({"parentRef": parent, "conditions": [condition("Accepted", "True", "")]})];
        json!({"kind": "HTTPRoute", "metadata": metadata(name), "status": {"parents": parents}})
    };
    let parent = |name: &str| json!({"kind": "Gateway", "namespace": "default", "name": name});
    let mut section = parent("half");
    section["sectionName"] = json!("https");
    let mut set = gateway("shut", "True", "False");
    set["kind"] = json!("ListenerSet");
    let of_set =
        |name: &str| json!({"kind": "ListenerSet", "namespace": "default", "name": name, "sectionName": "https"});
    let untaken = json!({"conditions": [condition("Programmed", "False", "")]});
    let untaken = json!({"kind": "ListenerSet", "metadata": metadata("untaken"), "status": untaken});
    let all = [
        gateway("shut", "False", "False"),
        gateway("half", "True", "False"),
        set,
        untaken,
        route("a", parent("shut")),
        route("b", parent("half")),
        route("c", section),
        route("d", parent("shut")),
        route("e", of_set("shut")),
        route("f", of_set("untaken")),
    ];
    let told =
        |severity: &str, text: &str| json!({"object": "HTTPRoute default/d", "severity": severity, "text": text});
    let problems = [told("warning", "a cause"), told("warning", "requests get 500"), told("note", "by the way")];
    let table = objects(
        &all.iter().collect::<Vec<_>>(),
        &Earlier::of(&problems),
        &closed(&all),
        Look { wide: false, screen: Screen::default() },
    );
    let routes: Vec<&str> = table.lines().filter_map(|line| line.strip_prefix("HTTPRoute")).collect();
    let detail = |line: &&str| {
        let (state, detail) = line.rsplit_once("  problem  ").or_else(|| line.rsplit_once("  ok"))?;
        Some(detail.trim().to_owned()).filter(|_| state.trim().starts_with("default/"))
    };
    let details: Vec<String> = routes.iter().filter_map(detail).collect();
    assert_eq!(
        details,
        [
            "listener http is not Programmed: Because",
            "",
            "listener https is not Programmed: Because",
            "listener http is not Programmed: Because; requests get 500",
            "listener https is not Programmed: Because",
            "ListenerSet default/untaken is not Programmed: Because"
        ]
    );
}

#[test]
fn an_object_of_which_an_earlier_version_serves_is_marked_with_the_reason_and_is_told_from_its_neighbour() {
    let route = |name: &str| {
        let mut condition = condition("Accepted", "True", "the route is attached");
        condition["observedGeneration"] = json!(4);
        condition["lastTransitionTime"] = json!("2026-11-21T20:00:00Z");
        let parents = [json!({"parentRef": {"kind": "Gateway", "name": "edge"}, "conditions": [condition]})];
        let metadata = json!({"namespace": "default", "name": name});
        json!({"kind": "HTTPRoute", "metadata": metadata, "status": {"parents": parents}})
    };
    let long = "x".repeat(100);
    let problems = [
        json!({"object": "HTTPRoute default/a", "text": long, "earlier": true}),
        json!({"object": "HTTPRoute default/b", "severity": "error", "text": "a rule cannot be used"}),
    ];
    let (one, other) = (route("a"), route("b"));
    let (all, earlier) = ([&one, &other], Earlier::of(&problems));
    assert!(earlier.reason(&one).is_some() && earlier.reason(&other).is_none());
    let table = |wide, width| {
        let screen = Screen { width, colours: false };
        objects(&all, &earlier, &Closed::new(), Look { wide, screen })
    };
    let cut = format!("{}…", "x".repeat(30));
    assert_eq!(
        table(false, Some(80)),
        format!(
            "KIND       NAME       OF    STATE                DETAIL\n\
             HTTPRoute  default/a  edge  earlier version: ok  {cut}\n\
             HTTPRoute  default/b  edge  problem              a rule cannot be used\n"
        )
    );
    assert!(table(false, None).contains(&long));
    assert_eq!(
        table(true, None).lines().nth(2),
        Some(
            "HTTPRoute  default/b  edge  problem              Accepted=True  4           2026-11-21T20:00:00Z  a rule cannot be used"
        )
    );
}

/// The states and details of an object's rows beside these problems of it: pairs of path and text.
fn told(object: &Value, problems: &[(&str, &str)]) -> Vec<String> {
    let problem =
        |(path, text): &(&str, &str)| json!({"object": key(object), "severity": "error", "path": path, "text": text});
    let problems: Vec<Value> = problems.iter().map(problem).collect();
    let table =
        objects(&[object], &Earlier::of(&problems), &Closed::new(), Look { wide: false, screen: Screen::default() });
    let behind_name = |line: &str| line.split_whitespace().skip(2).collect::<Vec<_>>().join(" ");
    table.lines().skip(1).map(behind_name).collect()
}

#[test]
fn a_route_that_is_partially_invalid_says_so_beside_a_reference_that_leads_nowhere() {
    let bad = json!([
        condition("Accepted", "True", ""),
        condition("ResolvedRefs", "False", "Service a does not exist"),
        condition("PartiallyInvalid", "True", "Dropped Rule: x"),
    ]);
    let parents = json!([{"parentRef": {"kind": "Gateway", "name": "edge"}, "conditions": bad}]);
    let route = json!({"kind": "HTTPRoute", "metadata": {"name": "r"}, "status": {"parents": parents}});
    let wanted = "Service a does not exist; Dropped Rule: x";
    assert_eq!(cells(&route), [["HTTPRoute", "edge", "not ResolvedRefs: Because, PartiallyInvalid", wanted]]);
}

#[test]
fn the_line_of_a_parent_says_nothing_of_another_one() {
    let parent = |name: &str, status: &str, message: &str| json!({"parentRef": {"kind": "Gateway", "name": name}, "conditions": [condition("Accepted", status, message)]});
    let route = |message: &str| {
        let parents = [parent("edge", "True", ""), parent("other", "False", message)];
        json!({"kind": "HTTPRoute", "metadata": {"name": "r"}, "status": {"parents": parents}})
    };
    let (none, meets) = ("Gateway other has no listener x", "no host name of the route matches a listener");
    let of_all = ("spec.rules[0].matches[0].path.value", "it is not a path");
    for (path, message) in [("spec.parentRefs[1].sectionName", none), ("spec.hostnames", meets)] {
        let other = format!("other not Accepted: Because {message}");
        assert_eq!(told(&route(message), &[(path, message)]), ["edge ok", &*other]);
        let with_all = told(&route(message), &[of_all, (path, message)]);
        assert_eq!(with_all, ["edge problem it is not a path", &*other]);
    }
}

#[test]
fn an_object_that_cannot_be_read_has_a_line_with_the_first_reason() {
    let route = json!({"kind": "HTTPRoute", "metadata": {"namespace": "default", "name": "r"}});
    let found = told(&route, &[("spec", "parentRef is not a field here"), ("spec", "and so on")]);
    assert_eq!(found, ["not read parentRef is not a field here"]);
    assert!(!is_fine(&route));
}
