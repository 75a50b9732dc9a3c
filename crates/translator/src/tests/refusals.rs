//! Reasons of problems that refuse what an author asks for.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::{Kind, Object, RefusalKind};
use ir::ClosedAddresses;
use serde_json::{Value, json};

use crate::testing::{World, gateway, object, route};
use crate::{Options, OwnPlaces, Translator};

fn world() -> World {
    let mut world = World { translator: Translator::new(Options { file_mode: true, ..Options::default() }) };
    let addresses = ClosedAddresses { listeners: ["127.0.0.1:8081".parse().unwrap()].into(), ..Default::default() };
    world.translator.set_own_places(Arc::new(OwnPlaces { addresses, ..OwnPlaces::default() }));
    let lists = json!({"allowedFields": ["envoyServiceAccount"], "allowedServiceAccounts": ["plain"]});
    world.apply([
        object(Kind::EnvoyGateway, "own", json!({"provider": {"type": "Kubernetes", "kubernetes": {"deploy": lists}}})),
        gateway("web", json!([{"name": "http", "port": 8080, "protocol": "HTTP"}])),
        route("shop", "web", &[], &[]),
    ]);
    world
}

/// Objects with a reason each.
fn cases() -> Vec<(RefusalKind, Object)> {
    let backend = |endpoint: Value| object(Kind::Backend, "it", json!({"endpoints": [endpoint]}));
    let external = |name: &str| {
        let spec = json!({"type": "ExternalHostname", "externalHostname": {"hostname": name}, "port": {"number": 80}});
        object(Kind::XBackend, "it", spec)
    };
    let proxy = |kubernetes: Value| {
        object(Kind::EnvoyProxy, "it", json!({"provider": {"type": "Kubernetes", "kubernetes": kubernetes}}))
    };
    let guards = json!({"users": {"name": "x"}});
    let target = json!([{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "shop"}]);
    vec![
        (RefusalKind::OwnAddress, backend(json!({"ip": {"address": "127.0.0.1", "port": 8081}}))),
        (RefusalKind::OwnAddress, backend(json!({"fqdn": {"hostname": "localhost", "port": 8081}}))),
        (RefusalKind::LinkLocal, backend(json!({"ip": {"address": "169.254.169.254", "port": 80}}))),
        (RefusalKind::LinkLocal, backend(json!({"fqdn": {"hostname": "metadata.google.internal", "port": 80}}))),
        (RefusalKind::LinkLocal, external("metadata.google.internal")),
        (RefusalKind::Socket, backend(json!({"unix": {"path": "run/app.sock"}}))),
        (RefusalKind::Argument, object(Kind::EnvoyProxy, "it", json!({"extraArgs": ["--config-yaml", "{}"]}))),
        (RefusalKind::PodField, proxy(json!({"envoyService": {"annotations": {"a": "b"}}}))),
        (RefusalKind::ServiceAccount, proxy(json!({"envoyServiceAccount": {"name": "admin"}}))),
        (RefusalKind::Policy, object(Kind::SecurityPolicy, "it", json!({"targetRefs": target, "basicAuth": guards}))),
    ]
}

#[test]
fn each_refusal_has_its_reason_while_it_lasts() {
    let mut world = world();
    let reasons = |world: &World| -> BTreeSet<RefusalKind> {
        let outputs = world.translator.outputs();
        outputs.problems(world.translator.graph()).filter_map(|(_, problem)| problem.refusal).collect()
    };
    assert_eq!(reasons(&world), BTreeSet::new());
    let mut wrong = Vec::new();
    for (reason, case) in cases() {
        let (kind, words) = (case.key().kind().expect("a kind"), format!("{case:?}"));
        world.apply([case]);
        let found = reasons(&world);
        world.delete(kind, "default", "it");
        if found != [reason].into() || !reasons(&world).is_empty() {
            wrong.push((reason, found, words));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
