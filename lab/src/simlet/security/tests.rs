//! What becomes of `securityContext`.

use k8s_openapi::api::core::v1::Pod;
use rustix::thread::CapabilitySet;
use serde_json::{Value, json};

use super::{common_user, credentials};
use crate::container::Credentials;
use crate::simlet::image::Image;

fn of(pod: Value, own: Value) -> Result<Credentials, String> {
    let spec = json!({ "securityContext": pod, "containers": [{ "name": "a", "securityContext": own }] });
    let pod: Pod = serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap();
    let image = Image { program: None, entrypoint: Vec::new(), arguments: Vec::new(), user: 0 };
    credentials(&pod, &pod.spec.as_ref().unwrap().containers[0], &image)
}

fn capabilities(own: Value) -> CapabilitySet {
    CapabilitySet::from_bits_retain(of(json!({}), json!({ "capabilities": own })).unwrap().capabilities)
}

#[test]
fn the_container_goes_before_the_pod_and_the_pod_before_the_image() {
    let ids = |pod, own| of(pod, own).map(|who| (who.user, who.group)).unwrap();
    assert_eq!(ids(json!({}), json!({})), (0, 0));
    assert_eq!(ids(json!({ "runAsUser": 5, "runAsGroup": 6 }), json!({})), (5, 6));
    assert_eq!(ids(json!({ "runAsUser": 5 }), json!({ "runAsUser": 7 })), (7, 0));
}

#[test]
fn groups_are_those_of_the_pod_its_volumes_and_the_user() {
    let who = of(json!({ "runAsUser": 5, "runAsGroup": 6, "fsGroup": 8, "supplementalGroups": [7, 8] }), json!({}));
    assert_eq!(who.unwrap().groups, [6, 7, 8]);
}

#[test]
fn root_is_refused_where_it_must_not_be() {
    assert!(of(json!({ "runAsNonRoot": true }), json!({})).unwrap_err().contains("runAsNonRoot"));
    assert!(of(json!({ "runAsNonRoot": true }), json!({ "runAsUser": 1 })).is_ok());
    assert!(of(json!({ "runAsNonRoot": true }), json!({ "runAsNonRoot": false })).is_ok());
}

#[test]
fn capabilities_are_dropped_and_added() {
    assert_eq!(capabilities(json!({ "drop": ["ALL"] })), CapabilitySet::empty());
    let bind = CapabilitySet::NET_BIND_SERVICE;
    assert_eq!(capabilities(json!({ "drop": ["ALL"], "add": ["NET_BIND_SERVICE"] })), bind);
    assert!(capabilities(json!({})).contains(bind));
    assert!(!capabilities(json!({ "drop": ["CAP_NET_BIND_SERVICE"] })).contains(bind));
    assert!(!capabilities(json!({})).contains(CapabilitySet::NET_ADMIN));
    assert!(of(json!({}), json!({ "capabilities": { "add": ["FLY"] } })).is_err());
}

#[test]
fn token_files_belong_to_the_user_that_all_containers_have() {
    let user = |pod: Value, containers: Value| {
        let pod = json!({ "metadata": {}, "spec": { "securityContext": pod, "containers": containers } });
        common_user(&serde_json::from_value(pod).unwrap())
    };
    assert_eq!(user(json!({ "runAsUser": 5 }), json!([{ "name": "a" }, { "name": "b" }])), Some(5));
    assert_eq!(
        user(
            json!({ "runAsUser": 5 }),
            json!([{ "name": "a" }, { "name": "b", "securityContext": { "runAsUser": 6 } }])
        ),
        None
    );
    assert_eq!(user(json!({}), json!([{ "name": "a" }])), None);
}
