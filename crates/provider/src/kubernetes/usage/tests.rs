//! The objects to request are a function of the objects that there are, whatever happened before.

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
