//! What people get wrong: a condition says what, on the object that has it, and a neighbour notices nothing.

use serde_json::{Value, json};
use tests::{certificate, objects, wait};

use crate::world::{HTTP, World, gateway, said};

/// Settings of the objects of a Gateway's proxies, and where the Gateway names them.
fn settings(world: &World, name: &str, kubernetes: &str) -> String {
    proxies(world, name, &format!("provider: {{type: Kubernetes, kubernetes: {kubernetes}}}"))
}

/// The same, of any field.
fn proxies(world: &World, name: &str, fields: &str) -> String {
    world.namespace.apply(&format!(
        "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: EnvoyProxy\nmetadata: {{name: {name}}}\nspec: {{concurrency: 1, {fields}}}\n"
    ));
    format!("  infrastructure: {{parametersRef: {{group: gateway.envoyproxy.io, kind: EnvoyProxy, name: {name}}}}}\n")
}

#[test]
fn a_key_of_another_certificate_costs_its_listener() {
    let world = World::serving("mismatched");
    let (one, other) = (
        certificate::self_signed(&["a.example"], false).unwrap(),
        certificate::self_signed(&["a.example"], false).unwrap(),
    );
    world.namespace.apply(&objects::tls_secret("broken", &one.certificate, &other.key));
    let https = "{name: https, protocol: HTTPS, port: 443, tls: {certificateRefs: [{name: broken}]}}";
    world.gateway("edge", &[HTTP, https], "");
    let at = "/listeners/1";
    world.until_said("gateway/edge", at, ("ResolvedRefs", "False", "InvalidCertificateRef"), &["broken", "key"]);
    world.until_said("gateway/edge", at, ("Programmed", "False", "Invalid"), &[]);
    world.until_said("gateway/edge", "/listeners/0", ("Programmed", "True", "Programmed"), &[]);
    world.until_answered("edge", "/");
    // mended
    world.namespace.apply(&objects::tls_secret("broken", &one.certificate, &one.key));
    world.until_said("gateway/edge", at, ("Programmed", "True", "Programmed"), &[]);
}

#[test]
fn a_patch_that_breaks_the_deployment_is_told_and_proxies_go_on() {
    let world = World::serving("patched");
    let more = settings(&world, "patch", "{envoyDeployment: {patch: {value: {spec: {replicas: many}}}}}");
    world.gateway("edge", &[HTTP], &more);
    world.until_said(
        "gateway/edge",
        "",
        ("Programmed", "False", "NoResources"),
        &["refuses Deployment patched/", "replicas"],
    );
    world.namespace.until("the fault", "envoyproxy/patch", |proxy| {
        let said = said(proxy, "/ancestors/0", "Accepted")?;
        let right = (said.status.as_str(), said.reason.as_str()) == ("False", "InvalidParameters");
        (right && said.message.starts_with("spec.provider.kubernetes.envoyDeployment")).then_some(())
    });
    world.until_answered("edge", "/");
}

#[test]
fn a_service_that_nobody_gives_an_address_is_told() {
    let world = World::serving("no-address");
    let before = world.statuses();
    let more = settings(&world, "nobody", "{envoyService: {loadBalancerClass: example.com/nobody}}");
    world.gateway("waits", &[HTTP], &more);
    world.until_said(
        "gateway/waits",
        "",
        ("Programmed", "False", "AddressNotAssigned"),
        &["no load balancer", "spec.provider.kubernetes.envoyService.type"],
    );
    assert_eq!(world.namespace.get("gateway/waits").unwrap()["status"].get("addresses"), None);
    world.assert_undisturbed(&before);
}

#[test]
fn names_may_be_as_long_as_the_server_lets_them() {
    let world = World::make("long-names");
    let name = format!("{}.{}.{}.{}", "a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61));
    assert_eq!(name.len(), 253);
    world.gateway(&name, &[HTTP], "");
    world.route(&name, &name, "[{backendRefs: [{name: cart, port: 80}]}]");
    world.until_answered(&name, "/");
    world.until_said(&format!("gateway/{name}"), "", ("Programmed", "True", "Programmed"), &[]);
    world.namespace.run(&["delete", "gateway", &name]);
    wait::until("the end of the proxies", || {
        let pods = world.namespace.run(&["get", "deployments", "--output=name"]);
        pods.trim().is_empty().then_some(())
    })
    .unwrap();
}

#[test]
fn a_namespace_that_ends_takes_its_gateway_along() {
    let neighbour = World::serving("stays");
    let before = neighbour.statuses();
    // a namespace looks again when half of the time of its slowest Pod is over
    let world = World::make("ends");
    let more = proxies(&world, "quick", "shutdown: {drainTimeout: 1s}");
    world.gateway("edge", &[HTTP], &more);
    world.route("edge", "edge", "[{backendRefs: [{name: cart, port: 80}]}]");
    world.until_answered("edge", "/");
    // somebody keeps the Gateway and its settings, so that the namespace goes on ending
    let kept = |finalizers: Value| {
        let patch = json!({ "metadata": { "finalizers": finalizers } }).to_string();
        for object in ["gateway/edge", "envoyproxy/quick"] {
            world.namespace.run(&["patch", object, "--type=merge", "--patch", &patch]);
        }
    };
    kept(json!(["example.com/keep"]));
    world.namespace.run(&["delete", "namespace", "ends", "--wait=false"]);
    let pods = || world.namespace.try_run(&["get", "deployments,services,pods", "--output=name"]);
    wait::until("the end of all that serves", || pods()?.trim().is_empty().then_some(())).unwrap();
    world.until_said("gateway/edge", "", ("Programmed", "False", "NoResources"), &["ends", "being deleted"]);
    neighbour.assert_undisturbed(&before);
    kept(Value::Null);
    wait::until("the end of the namespace", || {
        neighbour.namespace.try_run(&["get", "namespace/ends"]).is_none().then_some(())
    })
    .unwrap();
    neighbour.assert_undisturbed(&before);
}

/// The API server's definition of a kind, as an old version may have it: anything goes. Another one when it is dropped.
struct Lax<'a> {
    world: &'a World,
    name: &'static str,
    before: Value,
}

impl<'a> Lax<'a> {
    fn make(world: &'a World, name: &'static str) -> Self {
        let object = format!("customresourcedefinition/{name}");
        let before = world.namespace.get(&object).unwrap()["spec"]["versions"].clone();
        let mut versions = before.clone();
        for version in versions.as_array_mut().unwrap() {
            let properties = &mut version["schema"]["openAPIV3Schema"]["properties"];
            properties["spec"] = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        }
        let lax = Self { world, name, before };
        lax.put(&versions);
        lax
    }

    fn put(&self, versions: &Value) {
        let patch = json!([{ "op": "replace", "path": "/spec/versions", "value": versions }]).to_string();
        let object = format!("customresourcedefinition/{}", self.name);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), patch).unwrap();
        self.world.namespace.run(&["patch", &object, "--type=json", "--patch-file", file.path().to_str().unwrap()]);
    }
}

impl Drop for Lax<'_> {
    fn drop(&mut self) {
        self.put(&self.before);
    }
}

#[test]
fn what_an_old_definition_lets_pass_costs_its_part() {
    let world = World::serving("old-routes");
    let lax = Lax::make(&world, "httproutes.gateway.networking.k8s.io");
    let good = "{matches: [{path: {value: /good}}], backendRefs: [{name: cart, port: 80}]}";
    let bad = "{matches: [{path: {type: Wildcard, value: '/*'}}], backendRefs: [{name: cart, port: 80}]}";
    let rules = format!("[{good}, {bad}]");
    wait::until("the definition", || {
        let yaml = format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: half}}\nspec: {{parentRefs: [{{name: edge}}], rules: {rules}}}\n"
        );
        let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
        std::fs::write(file.path(), yaml).unwrap();
        world.namespace.try_run(&["apply", "--filename", file.path().to_str().unwrap()])
    })
    .unwrap();
    world.until_answered("edge", "/good");
    world.until_said(
        "httproute/half",
        "/parents/0",
        ("PartiallyInvalid", "True", "UnsupportedValue"),
        &["Dropped Rule: spec.rules[1].matches[0]", "Wildcard"],
    );
    world.namespace.run(&["delete", "httproute/half"]);
    drop(lax);
    assert!(world.ask("edge", "/").unwrap().ends_with("200"));
}

#[test]
fn a_thousand_listeners_are_more_than_a_gateway_may_have() {
    let world = World::serving("thousand");
    let before = world.statuses();
    let lax = Lax::make(&world, "gateways.gateway.networking.k8s.io");
    let listeners: Vec<String> =
        (0..1_000).map(|number| format!("{{name: l{number}, protocol: HTTP, port: {}}}", 20_000 + number)).collect();
    let listeners: Vec<&str> = listeners.iter().map(String::as_str).collect();
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    std::fs::write(file.path(), gateway("many", &listeners, "")).unwrap();
    wait::until("the definition", || {
        world.namespace.try_run(&["apply", "--server-side", "--filename", file.path().to_str().unwrap()])
    })
    .unwrap();
    world.until_said(
        "gateway/many",
        "",
        ("Accepted", "False", "Invalid"),
        &["spec.listeners", "has 1000 items, at most 64 are allowed"],
    );
    world.assert_undisturbed(&before);
    world.namespace.run(&["delete", "gateway/many"]);
    drop(lax);
}

#[test]
fn a_class_that_somebody_deletes_goes_after_its_gateways() {
    let world = World::make("class-goes");
    let controller = world.namespace.get("gatewayclass/chancery").unwrap()["spec"]["controllerName"].clone();
    world.namespace.apply(&format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{name: passing}}\nspec: {{controllerName: {controller}}}\n"
    ));
    let edge = gateway("edge", &[HTTP], "").replace("gatewayClassName: chancery", "gatewayClassName: passing");
    world.namespace.apply(&edge);
    world.route("edge", "edge", "[{backendRefs: [{name: cart, port: 80}]}]");
    world.until_answered("edge", "/");
    world.namespace.until("that it is known to be in use", "gatewayclass/passing", |class| {
        let finalizers = class["metadata"]["finalizers"].as_array()?;
        finalizers.iter().any(|name| name == "gateway-exists-finalizer.gateway.networking.k8s.io").then_some(())
    });
    world.namespace.run(&["delete", "gatewayclass/passing", "--wait=false"]);
    // what comes after that is served too
    let rule = "[{matches: [{path: {value: /later}}], backendRefs: [{name: cart, port: 80}]}]";
    world.route("later", "edge", rule);
    world.namespace.run(&["delete", "httproute/edge"]);
    world.until_answered("edge", "/later");
    world.namespace.run(&["delete", "gateway/edge"]);
    wait::until("the end of the class", || world.namespace.get("gatewayclass/passing").is_none().then_some(()))
        .unwrap();
}

#[test]
fn a_set_of_a_gateway_that_is_gone_waits_for_one() {
    let world = World::serving("orphan");
    world.gateway("host", &[HTTP], "  allowedListeners: {namespaces: {from: Same}}\n");
    let set = "apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {name: more}\nspec:\n  parentRef: {name: host}\n  \
               listeners: [{name: other, port: 81, protocol: HTTP}]\n";
    world.namespace.apply(set);
    world.until_said("listenerset/more", "", ("Programmed", "True", "Programmed"), &[]);
    let before = world.statuses();
    world.namespace.run(&["delete", "gateway", "host"]);
    world.until_said("listenerset/more", "", ("Programmed", "Unknown", "Pending"), &["no Gateway"]);
    world.until_said("listenerset/more", "", ("Accepted", "Unknown", "Pending"), &[]);
    assert_eq!(world.namespace.get("listenerset/more").unwrap()["status"].get("listeners"), None);
    world.assert_undisturbed(&before);
    world.gateway("host", &[HTTP], "  allowedListeners: {namespaces: {from: Same}}\n");
    world.until_said("listenerset/more", "", ("Programmed", "True", "Programmed"), &[]);
}
