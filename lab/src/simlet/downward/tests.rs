//! What pods are told of themselves.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{Pod, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::json;

use super::{field, resource};

fn pod() -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": "web-0", "namespace": "shop", "uid": "1", "labels": { "app": "web", "b": "say \"x\"" } },
        "spec": {
            "serviceAccountName": "builder",
            "containers": [{ "name": "a", "resources": { "limits": { "cpu": "1500m", "memory": "64Mi" } } }],
        },
    }))
    .unwrap()
}

fn check(path: &str, expect: &str) {
    assert_eq!(field(&pod(), Ipv4Addr::new(10, 244, 1, 1), path).as_deref(), Ok(expect), "{path}");
}

#[test]
fn fields_are_found() {
    check("metadata.name", "web-0");
    check("metadata.namespace", "shop");
    check("metadata.labels['app']", "web");
    check("metadata.labels['none']", "");
    check("metadata.labels", "app=\"web\"\nb=\"say \\\"x\\\"\"");
    check("spec.serviceAccountName", "builder");
    check("status.podIP", "10.244.1.1");
    check("status.hostIP", "10.244.0.1");
}

#[test]
fn what_is_no_field_is_an_error() {
    assert!(field(&pod(), Ipv4Addr::LOCALHOST, "spec.containers").is_err());
}

#[test]
fn resources_are_divided_and_rounded_up() {
    let of = |resource_name: &str, divisor: Option<&str>| {
        let wanted = ResourceFieldSelector {
            container_name: None,
            divisor: divisor.map(|divisor| Quantity(divisor.to_owned())),
            resource: resource_name.to_owned(),
        };
        let pod = pod();
        resource(&pod, pod.spec.as_ref().unwrap().containers.first(), &wanted)
    };
    assert_eq!(of("limits.cpu", None).as_deref(), Ok("2"));
    assert_eq!(of("limits.cpu", Some("1m")).as_deref(), Ok("1500"));
    assert_eq!(of("limits.memory", Some("1Mi")).as_deref(), Ok("64"));
    assert_eq!(of("requests.cpu", None).as_deref(), Ok("0"));
    assert!(of("limits.gold", None).is_err());
}
