//! What probes and hooks are read as.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{Container, Probe};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tonic_health::ServingStatus;

use super::{Action, run};
use crate::simlet::runtime::Joint;

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

async fn answer(action: Action) -> Result<(), String> {
    run(&action, &Joint { spec: "none".into(), pid: 0 }).await
}

#[tokio::test]
async fn a_grpc_server_is_well_if_its_service_is() {
    let (reporter, service) = tonic_health::server::health_reporter();
    reporter.set_service_status("good", ServingStatus::Serving).await;
    reporter.set_service_status("bad", ServingStatus::NotServing).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let server = tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming);
    let server = tokio::spawn(server);
    let ask = async |service: &str| answer(Action::Grpc { address, service: service.to_owned() }).await;
    assert_eq!(ask("good").await, Ok(()));
    assert!(ask("bad").await.unwrap_err().contains("NOT_SERVING"));
    assert!(ask("unknown").await.is_err());
    server.abort();
}

#[tokio::test]
async fn a_connection_is_all_that_a_tcp_probe_wants() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    assert_eq!(answer(Action::Tcp(address)).await, Ok(()));
    drop(listener);
    assert!(answer(Action::Tcp(address)).await.is_err());
}
