//! Addresses as a Service and its slices have them.

use serde_json::{Value, json};

use super::*;

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

#[test]
fn service_is_reached_at_each_address_and_port() {
    let service = read(json!({
        "spec": {
            "clusterIP": "10.96.88.186", "clusterIPs": ["10.96.88.186", "fd00::1"], "externalIPs": ["192.0.2.1"],
            "ports": [{ "port": 18000, "nodePort": 31000 }, { "port": 8081 }],
        },
        "status": { "loadBalancer": { "ingress": [{ "ip": "198.51.100.1" }, { "hostname": "a.example" }] } },
    }));
    let found = of_service(&service);
    assert_eq!(found.len(), 8, "{found:?}");
    assert_eq!(node_ports(&service), [31_000].into());
    assert!(found.contains(&"10.96.88.186:18000".parse().unwrap()));
    let headless = read(json!({ "spec": { "clusterIP": "None", "ports": [{ "port": 18000 }] } }));
    assert!(of_service(&headless).is_empty());
    assert!(of_service(&Service::default()).is_empty());
}

#[test]
fn replicas_count_whether_they_are_ready_or_not() {
    let slice = read(json!({
        "addressType": "IPv4",
        "endpoints": [
            { "addresses": ["10.244.1.22"], "conditions": { "ready": true } },
            { "addresses": ["10.244.1.23"], "conditions": { "ready": false, "terminating": true } },
        ],
    }));
    let wanted: [IpAddr; 2] = ["10.244.1.22", "10.244.1.23"].map(|text| text.parse().unwrap());
    assert_eq!(of_slice(&slice), wanted.into());
}
