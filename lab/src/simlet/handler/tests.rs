//! What probes and hooks are read as.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{Container, Probe};
use serde_json::{Value, json};

use super::Action;

fn action(probe: Value) -> Action {
    let ports = json!([{ "name": "admin", "containerPort": 19000 }]);
    let container: Container = serde_json::from_value(json!({ "name": "a", "ports": ports })).unwrap();
    let probe: Probe = serde_json::from_value(probe).unwrap();
    Action::of_probe(&probe, &container, Ipv4Addr::new(10, 244, 1, 1))
}

#[test]
fn requests_have_scheme_host_path_and_headers() {
    let headers = json!([{ "name": "Host", "value": "web" }, { "name": "X-A", "value": "1" }]);
    let get = json!({ "port": "admin", "path": "ready", "scheme": "HTTPS", "httpHeaders": headers });
    let Action::Http(get) = action(json!({ "httpGet": get })) else { panic!("no request") };
    assert_eq!((get.tls, get.address.to_string().as_str(), get.path.as_str()), (true, "10.244.1.1:19000", "/ready"));
    assert_eq!(
        (get.host.as_deref(), get.headers.as_slice()),
        (Some("web"), [("X-A".to_owned(), "1".to_owned())].as_slice())
    );
}

#[test]
fn ports_have_numbers_or_names() {
    let address = |port: Value| match action(json!({ "tcpSocket": { "port": port } })) {
        Action::Tcp(address) => address.port(),
        other => panic!("{other:?}"),
    };
    assert_eq!((address(json!(80)), address(json!("admin"))), (80, 19000));
    assert!(matches!(action(json!({ "tcpSocket": { "port": "none" } })), Action::Wrong(_)));
}
