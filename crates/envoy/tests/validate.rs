//! The real Envoy reads what this crate writes, and takes it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "support/binary.rs"]
mod binary;
#[path = "support/sample.rs"]
mod sample;

use std::process::Command;
use std::sync::Arc;

use envoy::bootstrap::{ControlPlane, Endpoint, XdsService, secret_files};
use envoy::{AccessLog, BootstrapOptions, Options, StaticOptions};
use ir::route::{Action, Filters, PathMatch, Respond, RouteMatch};
use prost::Message;
use proto::envoy::config::bootstrap::v3::Bootstrap;

/// Envoy's words about a configuration; an error if it refuses it.
fn validate(name: &str, configuration: &[u8]) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    std::fs::write(&file, configuration).unwrap();
    let output = Command::new(binary::envoy())
        .args(["--mode", "validate", "--log-level", "warning", "--config-path"])
        .arg(&file)
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(words) } else { Err(words) }
}

/// Envoy takes the bootstrap, as bytes and as JSON, and calls nothing in it deprecated.
fn check(bootstrap: &Bootstrap) {
    let json = protojson::message_to_json(bootstrap).unwrap().to_string();
    for (name, configuration) in [("b.pb", bootstrap.encode_to_vec()), ("b.json", json.into_bytes())] {
        let words = validate(name, &configuration).unwrap_or_else(|words| panic!("{name} is refused:\n{words}"));
        assert!(!words.contains("deprecated"), "{name}:\n{words}");
    }
}

#[test]
fn envoy_accepts_every_shape_of_listener_route_cluster_and_secret() {
    let sample = sample::Sample::new();
    for access_log in [AccessLog::Off, AccessLog::Stdout, AccessLog::File("/dev/null".into())] {
        let listeners = Options { ipv6: true, access_log };
        check(&envoy::static_bootstrap(&sample.parts(), &StaticOptions { listeners, show_secrets: true }));
    }
}

/// Of people's own bootstraps nobody knows which runtime they have.
#[test]
fn envoy_accepts_what_we_write_ourselves_without_a_layer_of_its_runtime() {
    let sample = sample::Sample::new();
    let listeners = Options { ipv6: true, access_log: AccessLog::Off };
    let mut bootstrap = envoy::static_bootstrap(&sample.parts(), &StaticOptions { listeners, show_secrets: true });
    bootstrap.layered_runtime = None;
    // The one expression of the sample that stands for somebody's own.
    let json = protojson::message_to_json(&bootstrap).unwrap().to_string().replace("[a-z]{1,200}", "[a-z]{1,20}");
    validate("b.json", json.as_bytes()).unwrap_or_else(|words| panic!("refused:\n{words}"));
}

#[test]
fn envoy_accepts_listeners_of_a_machine_without_ipv6() {
    let sample = sample::Sample::new();
    let listeners = Options { ipv6: false, access_log: AccessLog::Off };
    check(&envoy::static_bootstrap(&sample.parts(), &StaticOptions { listeners, show_secrets: true }));
}

#[test]
fn envoy_accepts_the_bootstrap_over_unix_sockets_and_over_tcp() {
    let loopback = |port| Endpoint::Tcp(std::net::Ipv4Addr::LOCALHOST.into(), port);
    let pairs = [
        (Endpoint::Unix("/tmp/xds.sock".into()), Endpoint::Unix("/tmp/admin.sock".into())),
        (loopback(18000), loopback(19000)),
    ];
    for (control_plane, admin) in pairs {
        let json = bootstrap(ControlPlane::Local(control_plane, "0123".into()), admin);
        let bytes = protojson::from_json("envoy.config.bootstrap.v3.Bootstrap", &json).unwrap();
        check(&Bootstrap::decode(bytes).unwrap());
    }
}

#[test]
fn envoy_accepts_the_bootstrap_for_a_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let service = XdsService {
        host: "chancery.ns.svc".into(),
        port: 18000,
        folder: path.into(),
        token: format!("{path}/token").into(),
    };
    let authority = rcgen::generate_simple_self_signed(["authority".to_owned()]).unwrap().cert.pem();
    for (name, content) in secret_files(&service, &authority) {
        std::fs::write(folder.path().join(name), content.to_string()).unwrap();
    }
    std::fs::write(folder.path().join("token"), "a token").unwrap();
    let json = bootstrap(ControlPlane::Service(service), Endpoint::Unix("/tmp/admin.sock".into()));
    let words = validate("b.json", json.to_string().as_bytes()).unwrap();
    assert!(!words.contains("deprecated"), "{words}");
}

fn bootstrap(control_plane: ControlPlane, admin: Endpoint) -> serde_json::Value {
    envoy::bootstrap(&BootstrapOptions {
        node_id: "ns-gw".into(),
        node_cluster: "ns/gw".into(),
        zone: Some("z".into()),
        control_plane,
        admin,
        local_listener: Some(std::net::SocketAddr::from(([127, 0, 0, 1], 19001))),
        config_listener: Some(std::net::SocketAddr::from(([127, 0, 0, 1], 19002))),
        max_connections: envoy::bootstrap::DEFAULT_MAX_CONNECTIONS,
        of_gateway: true,
    })
}

#[test]
fn expressions_may_be_as_large_as_the_limit_says_and_no_larger() {
    // RE2 makes about one instruction of each repetition
    let repeated = |times: u32| format!("/{}", "a{1000}".repeat(times as usize));
    let with = |expression: String| {
        let mut sample = sample::Sample::new();
        let action = Action::Respond(Respond { status: 200, reason: "test".into() });
        let filters = Filters::default();
        let path = PathMatch::Regex(expression.into());
        let matches = RouteMatch { path, method: None, headers: Vec::new(), query: Vec::new(), grpc: false };
        let route = Arc::new(ir::Route { name: "r".into(), matches, action, filters: filters.into() });
        let host = &mut sample.separate_hosts[0];
        host.pieces.push(Arc::new(ir::RoutePiece { routes: vec![route] }));
        let options = StaticOptions { show_secrets: true, ..StaticOptions::default() };
        validate("b.pb", &envoy::static_bootstrap(&sample.parts(), &options).encode_to_vec())
    };
    let fitting = envoy::REGEX_PROGRAM_SIZE_LIMIT / 1000;
    with(repeated(fitting)).unwrap();
    let refused = with(repeated(fitting + 1)).unwrap_err();
    assert!(refused.contains("program size"), "{refused}");
}
