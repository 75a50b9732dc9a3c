//! Objects that are removed for a Gateway, and those that only carry its labels.

use ir::infra::ObjectName;
use serde_json::json;

use super::super::object::tests::options;
use super::super::seen::Raw;
use super::super::watch::{Event, News, Target, Told};
use super::*;

/// A world with `ConfigMap`s of a namespace that have the labels of the Gateway `shop/gw`.
fn world(namespace: &str, count: usize) -> World {
    let mut world = World::default();
    let labels = json!({ "gateway.envoyproxy.io/owning-gateway-name": "gw", "gateway.envoyproxy.io/owning-gateway-namespace": "shop" });
    let all = (0..count).filter_map(|at| {
        let metadata =
            json!({ "name": format!("c-{at}"), "namespace": namespace, "uid": at.to_string(), "labels": labels });
        let raw: Raw = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
        let (id, seen) = Seen::read(ObjectKind::ConfigMap, &raw, &options().namespace).unwrap();
        Some((id, seen?))
    });
    let event = Event::Objects(Told::Listed(all.collect()));
    world.take(News { target: Target { kind: Some(ObjectKind::ConfigMap), namespace: None }, event });
    world
}

fn removed(world: &World) -> usize {
    let owner = Owner::of(&ObjectName { namespace: "shop".into(), name: "gw".into() });
    let mut fleet = Fleet::new(owner, &Pace::default());
    fleet.plan(None, &options(), &Scope::All);
    fleet.work(world, true).stale.len()
}

#[test]
fn objects_of_other_namespaces_are_left_alone() {
    assert_eq!(removed(&world("shop", 2)), 2);
    assert_eq!(removed(&world(&options().namespace, 2)), 2);
    assert_eq!(removed(&world("tenant", 2)), 0, "labels are their author's words");
}

#[test]
fn one_job_removes_a_bounded_number() {
    assert_eq!(removed(&world("shop", 8_000)), MOST_REMOVED);
}
