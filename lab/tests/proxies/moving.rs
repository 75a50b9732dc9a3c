//! That what replaces is made before what it replaces goes.

use ir::Infra;
use ir::infra::kubernetes::Place;
use serde_json::json;
use tests::wait;

use crate::harness::Namespace;
use crate::stage::{Stage, fleet, name, patch, settings};

/// Changes a fleet so that its Pods cannot run, sees that the old ones stay, and then lets them.
fn moves(stage: &mut Stage, old: (&Namespace, &str), new: (&Namespace, &str), gateway: &mut Infra) {
    settings(gateway).workload.patch = Some(patch(json!({ "image": "example.org/there-is-no/such:image" })));
    stage.want([&*gateway]);
    new.0.until("the new one", new.1, |_| Some(()));
    let fleet = gateway.fleet.clone();
    stage.until("that nobody is ready", &fleet, |state| (!state.ready).then_some(()));
    let uid = |found: &serde_json::Value| found["metadata"]["uid"].clone();
    let before = old.0.get(old.1).map(|found| (uid(&found), found["status"]["availableReplicas"].clone()));
    assert!(before.is_some(), "{} is gone too early: {:#?}", old.1, new.0.get(new.1));
    settings(gateway).workload.patch = Some(patch(json!({})));
    stage.want([&*gateway]);
    stage.until_ready(&fleet);
    wait::until("the end of the old one", || old.0.get(old.1).is_none().then_some(())).unwrap();
}

#[test]
fn pods_go_when_their_successors_serve() {
    let namespace = Namespace::make("moving");
    let place = Namespace::make("chancery-system");
    let mut stage = Stage::new(&namespace.lab, "moving", &["moving", "chancery-system"]);
    let mut gateway = fleet("moving", "gw");
    stage.want([&gateway]);
    stage.until_ready(&gateway.fleet);
    let first = format!("deployment/{}", name(&gateway));

    // another name
    settings(&mut gateway).workload.name = Some("renamed".into());
    moves(&mut stage, (&namespace, &first), (&namespace, "deployment/renamed"), &mut gateway);
    // another kind
    settings(&mut gateway).workload.on_every_node = true;
    moves(&mut stage, (&namespace, "deployment/renamed"), (&namespace, "daemonset/renamed"), &mut gateway);
    // another namespace: nothing is left in the first one
    let before = name(&gateway);
    settings(&mut gateway).place = Place::Controller;
    moves(&mut stage, (&namespace, "daemonset/renamed"), (&place, "daemonset/renamed"), &mut gateway);
    for kind in ["service", "configmap", "serviceaccount"] {
        let object = format!("{kind}/{before}");
        wait::until(&object, || namespace.get(&object).is_none().then_some(())).unwrap();
        assert!(place.get(&format!("{kind}/{}", name(&gateway))).is_some(), "{object}");
    }
}
