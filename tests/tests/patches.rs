//! Changes that users make to generated resources, from files to a real Envoy that answers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use tests::backend::Backend;
use tests::client::get;
use tests::objects::{gateway, route, service};
use tests::ports::free_ports;
use tests::running::Running;
use tests::wait;

const SETTINGS: &str = "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: EnvoyGateway\nextensionApis: {enableEnvoyPatchPolicy: true, rawResources: [lua]}\n";

/// A policy with one operation on a resource of this kind and name.
fn policy(name: &str, kind: &str, resource: &str, operation: &str) -> String {
    format!(
        "apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyPatchPolicy
metadata: {{name: {name}}}
spec:
  type: JSONPatch
  targetRef: {{group: gateway.networking.k8s.io, kind: Gateway, name: edge}}
  jsonPatches:
  - type: type.googleapis.com/envoy.config.{kind}
    name: {resource}
    operation: {operation}
"
    )
}

/// A Lua filter in front of all others.
fn lua(name: &str, port: u16, code: &str) -> String {
    let filter = format!(
        "{{name: {name}, typed_config: {{'@type': type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua, \
         default_source_code: {{inline_string: '{code}'}}}}}}"
    );
    let path = "/filter_chains/0/filters/0/typed_config/http_filters/0";
    let operation = format!("{{op: add, path: {path}, value: {filter}}}");
    policy(name, "listener.v3.Listener", &format!("default/edge/{port}"), &operation)
}

fn answers(port: u16, path: &str, wanted: (u16, &str)) {
    let asked = || get(port, "x.example", path).ok().filter(|answer| (answer.status, &*answer.body) == wanted);
    wait::until(&format!("{wanted:?} at {path}"), asked).unwrap();
}

/// Waits until the status of a policy says this.
fn told(running: &Running, policy: &str, words: &str) {
    let text = || running.status(&["envoypatchpolicy", policy, "-o", "yaml"]).ok();
    let found = wait::until(&format!("{words} of {policy}"), || text()?.contains(words).then_some(()));
    assert!(found.is_ok(), "{}", text().unwrap_or_default());
}

#[test]
fn a_patch_changes_an_answer_and_what_is_wrong_with_one_is_told_and_changes_nothing() {
    let backend = Backend::start("one").unwrap();
    let mut running = Running::prepare().unwrap();
    let [port] = free_ports().unwrap();
    running.write("gateway.yaml", &gateway(port)).unwrap();
    running.write("settings.yaml", SETTINGS).unwrap();
    running.write("service.yaml", &service("one", backend.port)).unwrap();
    running.write("route.yaml", &route("shop", &[("/a", "one")])).unwrap();
    running.start().unwrap();
    answers(port, "/a", (200, "one"));

    // a patch changes an answer
    let teapot = "{op: add, path: /virtual_hosts/0/routes/0, value: {name: pot, match: {path: /pot}, \
                  direct_response: {status: 418, body: {inline_string: short}}}}";
    let routes = format!("default/edge/{port}");
    running.write("pot.yaml", &policy("pot", "route.v3.RouteConfiguration", &routes, teapot)).unwrap();
    answers(port, "/pot", (418, "short"));
    told(&running, "pot", "reason: Programmed");
    answers(port, "/a", (200, "one"));

    // what cannot be done, beside it and on the same resource
    let bad = "{op: replace, path: /virtual_host/0/name, value: x}";
    running.write("bad.yaml", &policy("bad", "route.v3.RouteConfiguration", &routes, bad)).unwrap();
    told(&running, "bad", "did you mean virtual_hosts?");
    answers(port, "/pot", (418, "short"));

    // what Envoy refuses, in its words; a listener that others patch is patched by these
    running.write("refused.yaml", &lua("refused", port, "nonsense(")).unwrap();
    told(&running, "refused", "script load error");
    let good = "function envoy_on_request(h) if h:headers():get(\":path\") == \"/lua\" then h:respond({[\":status\"] = \"203\"}, \"lua\") end end";
    running.write("good.yaml", &lua("good", port, good)).unwrap();
    answers(port, "/lua", (203, "lua"));
    told(&running, "good", "reason: Programmed");
    told(&running, "refused", "script load error");

    // edits of all else go through
    running.write("route.yaml", &route("shop", &[("/b", "one")])).unwrap();
    answers(port, "/b", (200, "one"));
    answers(port, "/pot", (418, "short"));
    let gateway = running.status(&["gateway", "edge", "-o", "yaml"]).unwrap();
    assert!(!gateway.contains("script load error"), "{gateway}");

    // without the policies all is as before
    running.remove("pot.yaml").unwrap();
    running.remove("good.yaml").unwrap();
    answers(port, "/pot", (404, ""));
    answers(port, "/lua", (404, ""));
    answers(port, "/b", (200, "one"));
}

#[test]
fn of_two_that_are_there_from_the_start_the_one_that_envoy_refuses_is_left_out() {
    let backend = Backend::start("one").unwrap();
    let mut running = Running::prepare().unwrap();
    let [port] = free_ports().unwrap();
    running.write("gateway.yaml", &gateway(port)).unwrap();
    running.write("settings.yaml", SETTINGS).unwrap();
    running.write("service.yaml", &service("one", backend.port)).unwrap();
    running.write("route.yaml", &route("shop", &[("/a", "one")])).unwrap();
    running.write("a.yaml", &lua("a-refused", port, "nonsense(")).unwrap();
    let good = "function envoy_on_request(h) h:respond({[\":status\"] = \"203\"}, \"lua\") end";
    running.write("b.yaml", &lua("b-good", port, good)).unwrap();
    running.start().unwrap();
    answers(port, "/a", (203, "lua"));
    told(&running, "a-refused", "script load error");
    told(&running, "b-good", "reason: Programmed");
    running.remove("b.yaml").unwrap();
    answers(port, "/a", (200, "one"));
}

#[test]
fn behind_one_that_envoy_refuses_each_is_told_its_own_reason() {
    let backend = Backend::start("one").unwrap();
    let mut running = Running::prepare().unwrap();
    let [port] = free_ports().unwrap();
    running.write("gateway.yaml", &gateway(port)).unwrap();
    running.write("settings.yaml", SETTINGS).unwrap();
    running.write("service.yaml", &service("one", backend.port)).unwrap();
    running.write("route.yaml", &route("shop", &[("/a", "one")])).unwrap();
    let on_routes =
        |name, operation: &str| policy(name, "route.v3.RouteConfiguration", &format!("default/edge/{port}"), operation);
    let add = |rest: &str| {
        format!(
            "{{op: add, path: /virtual_hosts/0/routes/0, value: {{match: {{path: /pot}}, direct_response: {{status: 418, \
             body: {{inline_string: short}}}}{rest}}}}}"
        )
    };
    let script = ", typed_per_filter_config: {lua: {'@type': type.googleapis.com/envoy.extensions.filters.http.lua.v3.LuaPerRoute, \
                  source_code: {inline_string: 'nonsense('}}}";
    running.write("a.yaml", &on_routes("a-good", &add(""))).unwrap();
    running.write("b.yaml", &on_routes("b-refused", &add(script))).unwrap();
    let bad = "{op: replace, path: /virtual_host/0/name, value: x}";
    running.write("c.yaml", &on_routes("c-bad", bad)).unwrap();
    running.start().unwrap();
    answers(port, "/a", (200, "one"));
    told(&running, "b-refused", "script load error");
    told(&running, "c-bad", "did you mean virtual_hosts?");
    told(&running, "a-good", "reason: Programmed");
    answers(port, "/pot", (418, "short"));
}
