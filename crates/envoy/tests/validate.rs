//! The real Envoy reads what this crate writes, and takes it.

#[path = "support/binary.rs"]
mod binary;
#[path = "support/sample.rs"]
mod sample;

use std::process::Command;

use envoy::{AccessLog, BootstrapOptions, Options, StaticOptions};
use prost::Message;

/// `envoy --mode validate` with this bootstrap; panics with Envoy's words if it refuses.
fn check(bootstrap: &impl Message) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bootstrap.pb");
    std::fs::write(&file, bootstrap.encode_to_vec()).unwrap();
    let output = Command::new(binary::envoy())
        .args(["--mode", "validate", "--log-level", "warning", "--config-path"])
        .arg(&file)
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "envoy refused the configuration:\n{words}");
    let warned = words.lines().filter(|line| line.contains("deprecated")).collect::<Vec<_>>();
    assert!(warned.is_empty(), "envoy calls something deprecated:\n{}", warned.join("\n"));
}

#[test]
fn envoy_accepts_every_shape_of_listener_route_cluster_and_secret() {
    let sample = sample::Sample::new();
    for access_log in [AccessLog::Off, AccessLog::Stdout, AccessLog::File("/dev/null".into())] {
        let listeners = Options { ipv6: true, access_log };
        check(&envoy::static_bootstrap(&sample.parts(), &StaticOptions { listeners, show_secrets: true }));
    }
}

#[test]
fn envoy_accepts_listeners_of_a_machine_without_ipv6() {
    let sample = sample::Sample::new();
    let listeners = Options { ipv6: false, access_log: AccessLog::Off };
    check(&envoy::static_bootstrap(&sample.parts(), &StaticOptions { listeners, show_secrets: true }));
}

#[test]
fn envoy_accepts_the_bootstrap_over_unix_sockets_and_over_tcp() {
    use envoy::bootstrap::Endpoint;
    let loopback = |port| Endpoint::Tcp(std::net::Ipv4Addr::LOCALHOST.into(), port);
    let pairs = [
        (Endpoint::Unix("/tmp/xds.sock".into()), Endpoint::Unix("/tmp/admin.sock".into())),
        (loopback(18000), loopback(19000)),
    ];
    for (control_plane, admin) in pairs {
        check(&envoy::bootstrap(&BootstrapOptions {
            node_id: "ns-gw".into(),
            node_cluster: "ns/gw".into(),
            zone: Some("z".into()),
            control_plane,
            admin,
            local_listener: Some(std::net::SocketAddr::from(([127, 0, 0, 1], 19001))),
            max_connections: envoy::bootstrap::DEFAULT_MAX_CONNECTIONS,
        }));
    }
}
