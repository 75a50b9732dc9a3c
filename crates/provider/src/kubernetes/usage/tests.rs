//! The objects to request: those of own classes that a grant lets be named, as a function of the objects that there are, whatever happened before.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const CONTROLLER: &str = "example.org/ours";
const NAMESPACES: [&str; 3] = ["one", "two", "three"];

fn read(kind: Kind, value: &serde_json::Value) -> Object {
    let decoded = api::json::read(kind, &value.to_string()).expect("an object");
    decoded.objects.into_iter().next().expect("an object")
}

/// An object of a small world: the same choices give the same object.
fn object(kind: usize, namespace: usize, choice: usize) -> Object {
    let (here, there) = (NAMESPACES[namespace], NAMESPACES[choice % 3]);
    let metadata = json!({ "name": "x", "namespace": here });
    let parent = json!({ "name": "x", "namespace": there });
    let secret = json!({ "name": "s", "namespace": there });
    let listeners = json!([{ "name": "l", "port": 443, "protocol": "HTTPS", "tls": { "certificateRefs": [secret] } }]);
    let from = ["None", "Same", "All"][choice % 3];
    let (kind, metadata, spec) = match kind {
        0 => {
            let controller = if choice.is_multiple_of(2) { CONTROLLER } else { "example.org/theirs" };
            (Kind::GatewayClass, json!({ "name": "x" }), json!({ "controllerName": controller }))
        }
        1 => {
            let spec = json!({
                "gatewayClassName": "x", "listeners": listeners, "allowedListeners": { "namespaces": { "from": from } },
            });
            (Kind::Gateway, metadata, spec)
        }
        2 => (Kind::ListenerSet, metadata, json!({ "parentRef": parent, "listeners": listeners })),
        3 => {
            let of_set = json!({ "group": "gateway.networking.k8s.io", "kind": "ListenerSet", "name": "x" });
            let parent = if choice.is_multiple_of(2) { parent } else { of_set };
            (Kind::HttpRoute, metadata, json!({ "parentRefs": [parent] }))
        }
        4 => {
            let tls = json!({ "caCertificateRefs": [{ "group": "", "kind": "ConfigMap", "name": "s" }] });
            let endpoints = json!([{ "fqdn": { "hostname": "example.org", "port": 443 } }]);
            (Kind::Backend, metadata, json!({ "endpoints": endpoints, "tls": tls }))
        }
        _ => {
            let from = ["Gateway", "ListenerSet", "HTTPRoute"][choice % 3];
            let from = json!([{ "group": "gateway.networking.k8s.io", "kind": from, "namespace": NAMESPACES[choice / 3 % 3] }]);
            let to = if choice.is_multiple_of(2) {
                json!({ "group": "", "kind": "Secret" })
            } else {
                json!({ "group": "", "kind": "Service" })
            };
            (Kind::ReferenceGrant, metadata, json!({ "from": from, "to": [to] }))
        }
    };
    read(kind, &json!({ "metadata": metadata, "spec": spec }))
}

fn settled(usage: &mut Usage) -> BTreeMap<ObjectKey, Vec<ObjectKey>> {
    usage.refresh().into_iter().collect()
}

/// Returns the Secrets and `ConfigMap`s that are requested for these objects, in order.
fn requested(objects: &[Object]) -> Vec<String> {
    let mut usage = Usage::new(CONTROLLER);
    objects.iter().for_each(|object| drop(usage.note(object)));
    let names = settled(&mut usage).into_values().flatten().filter(|name| name.kind() != Some(Kind::GatewayClass));
    let mut names: Vec<String> = names.map(|name| name.to_string()).collect();
    names.sort_unstable();
    names
}

/// Two kinds of classes: of this controller, and of another one.
fn class(is_ours: bool) -> Object {
    object(0, 0, usize::from(!is_ours))
}

#[test]
fn only_objects_of_own_classes_count() {
    let gateway = || object(1, 0, 0);
    assert_eq!(requested(&[class(true), gateway()]), ["Secret one/s"]);
    assert!(requested(&[class(false), gateway()]).is_empty(), "a Gateway of another controller");
    assert!(requested(&[gateway()]).is_empty(), "a class that is not there");
    // A set of a Gateway that takes sets from everywhere, or none.
    let set = || object(2, 1, 1);
    assert_eq!(requested(&[class(true), object(1, 1, 2), set()]), ["Secret two/s"]);
    assert!(requested(&[class(true), object(1, 1, 0), set()]).is_empty(), "the Gateway takes no sets");
    assert!(requested(&[class(false), object(1, 1, 2), set()]).is_empty(), "a set of another controller's Gateway");
    // A backend of a namespace with a route to the Gateway, or without.
    let (backend, route) = (|| object(4, 2, 0), || object(3, 2, 0));
    assert_eq!(requested(&[class(true), gateway(), backend(), route()]), ["ConfigMap three/s", "Secret one/s"]);
    assert_eq!(requested(&[class(true), gateway(), backend()]), ["Secret one/s"], "no proxy can send to it");
    assert!(requested(&[class(false), gateway(), backend(), route()]).is_empty(), "a route of another controller");
}

#[test]
fn other_namespaces_need_a_grant() {
    // A Gateway of namespace `one` names a Secret of namespace `two`.
    let with = |grant: Option<Object>| {
        let all: Vec<Object> = [class(true), object(1, 0, 1)].into_iter().chain(grant).collect();
        requested(&all)
    };
    assert_eq!(with(Some(object(5, 1, 0))), ["Secret two/s"]);
    assert!(with(None).is_empty(), "no grant");
    assert!(with(Some(object(5, 2, 0))).is_empty(), "a grant of another namespace");
    assert!(with(Some(object(5, 1, 9))).is_empty(), "a grant for Services");
    assert!(with(Some(object(5, 1, 10))).is_empty(), "a grant for sets");
    assert!(with(Some(object(5, 1, 12))).is_empty(), "a grant for Gateways of another namespace");
}

proptest! {
    #[test]
    fn any_history_gives_what_its_end_alone_gives(
        steps in proptest::collection::vec((0..6_usize, 0..3_usize, 0..9_usize, any::<bool>()), 1..60),
    ) {
        let mut usage = Usage::new(CONTROLLER);
        let mut asked: BTreeMap<ObjectKey, Vec<ObjectKey>> = BTreeMap::new();
        let mut there: BTreeMap<ObjectKey, Object> = BTreeMap::new();
        for (kind, namespace, choice, stays) in steps {
            let object = object(kind, namespace, choice);
            let key = object.key().clone();
            if stays {
                asked.insert(key.clone(), usage.note(&object));
                there.insert(key, object);
            } else if there.remove(&key).is_some() {
                usage.forget(&key);
                asked.remove(&key);
            }
            if usage.is_stale() {
                asked.extend(settled(&mut usage));
            }
        }
        asked.retain(|_, names| !names.is_empty());
        let mut fresh = Usage::new(CONTROLLER);
        there.values().for_each(|object| drop(fresh.note(object)));
        let mut expected = settled(&mut fresh);
        expected.retain(|_, names| !names.is_empty());
        prop_assert_eq!(asked, expected);
    }
}
