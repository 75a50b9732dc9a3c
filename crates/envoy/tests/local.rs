//! The listener for probes and collectors in a real Envoy.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "support/binary.rs"]
mod binary;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use envoy::BootstrapOptions;
use envoy::bootstrap::{ControlPlane, Endpoint};

struct Proxy {
    child: Child,
    address: SocketAddr,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Proxy {
    /// Begins with the bootstrap of a Pod, but without a control plane, so that it is ready at once.
    fn start(folder: &std::path::Path) -> Self {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let socket = |name: &str| Endpoint::Unix(folder.join(name).to_str().unwrap().into());
        let mut json = envoy::bootstrap(&BootstrapOptions {
            node_id: "n".into(),
            node_cluster: "ns/gw".into(),
            zone: None,
            control_plane: ControlPlane::Local(socket("xds.sock"), "0123".into()),
            admin: socket("admin.sock"),
            local_listener: Some(address),
            config_listener: None,
            max_connections: envoy::bootstrap::DEFAULT_MAX_CONNECTIONS,
            of_gateway: false,
        });
        json.get_mut("dynamicResources").unwrap().as_object_mut().unwrap().retain(|field, _| field == "adsConfig");
        let file = folder.join("bootstrap.json");
        std::fs::write(&file, json.to_string()).unwrap();
        let child = Command::new(binary::envoy())
            .args(["--concurrency", "2", "--disable-hot-restart", "--log-level", "error", "-c"])
            .arg(&file)
            .stderr(Stdio::null())
            .spawn()
            .expect("envoy starts");
        let proxy = Self { child, address };
        let end = Instant::now() + Duration::from_secs(60);
        while proxy.status("/ready") != Some(200) {
            assert!(Instant::now() < end, "the proxy is not ready");
            std::thread::sleep(Duration::from_millis(50));
        }
        proxy
    }

    fn status(&self, path: &str) -> Option<u16> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).ok()?;
        answer.split(' ').nth(1)?.parse().ok()
    }
}

/// Whoever reaches a Pod may ask for its figures, and each answer costs the thread that takes the configuration in.
#[test]
fn figures_are_given_a_few_times_a_second_and_probes_are_always_answered() {
    let folder = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(folder.path());
    let statuses: Vec<Option<u16>> = (0..100).map(|_| proxy.status("/stats/prometheus")).collect();
    assert_eq!(statuses.first(), Some(&Some(200)));
    assert!(statuses.contains(&Some(429)), "{statuses:?}");
    for _ in 0..50 {
        assert_eq!(proxy.status("/ready"), Some(200));
    }
    let end = Instant::now() + Duration::from_secs(30);
    while proxy.status("/stats/prometheus") != Some(200) {
        assert!(Instant::now() < end, "no figures any more");
        std::thread::sleep(Duration::from_millis(200));
    }
}
