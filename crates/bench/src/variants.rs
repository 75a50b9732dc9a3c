//! B8: one change at 10,000 clusters, told to a real Envoy in both variants: bytes, and the CPU of Envoy and of the server.

use std::io::{Read, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::endpoints;
use crate::figure::{Report, millis, say};
use crate::process::{self, DEADLINE};
use crate::subject::Subject;

/// Clusters, each with an endpoint set of ten.
const CLUSTERS: usize = 10_000;

/// Changes of each kind.
const ROUNDS: u32 = 20;

/// A change is over when nothing was said for this time.
const QUIET: Duration = Duration::from_millis(40);

/// Prints the figures of B8.
pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    for (name, api_type) in [("delta", "DELTA_GRPC"), ("sotw", "GRPC")] {
        say(&format!("B8 {name}"));
        variant(report, name, api_type)?;
    }
    Ok(())
}

fn variant(report: &mut Report, name: &str, api_type: &str) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let place = folder.path();
    let mut server = Subject::start(&format!("clusters:unix:{}/server.sock", place.display()), CLUSTERS, 0)?;
    let relay = Relay::start(&place.join("server.sock"), &place.join("xds.sock"))?;
    let envoy = Envoy::start(place, api_type)?;
    let idle = at_rest(&envoy, &relay)?;
    for kind in ["cluster", "event"] {
        let what = if kind == "cluster" { "cds" } else { "eds" };
        let (before, server_cpu, envoy_cpu, since) = (relay.bytes(), server.child.cpu()?, envoy.cpu()?, Instant::now());
        let mut answered = Duration::ZERO;
        for _ in 0..ROUNDS {
            answered += relay.change(|| server.child.tell(kind))?;
        }
        let after = relay.bytes();
        let in_idleness = since.elapsed().mul_f64(idle);
        let mut add = |figure: &str, value: f64, unit| {
            report.figure("B8", &format!("{name}_{what}_{figure}"), CLUSTERS, (value / f64::from(ROUNDS), unit), None);
        };
        add("bytes_down", (after.0 - before.0) as f64, "bytes");
        add("bytes_up", (after.1 - before.1) as f64, "bytes");
        add("server_cpu_ms", millis(server.child.cpu()? - server_cpu), "ms");
        add("envoy_cpu_ms", millis((envoy.cpu()? - envoy_cpu).saturating_sub(in_idleness)), "ms");
        add("answered_ms", millis(answered), "ms");
    }
    Ok(())
}

/// Waits until Envoy has everything and does nothing any more. Gives the part of a core that it takes at rest.
fn at_rest(envoy: &Envoy, relay: &Relay) -> anyhow::Result<f64> {
    let began = Instant::now();
    loop {
        anyhow::ensure!(began.elapsed() < DEADLINE, "Envoy does not come to rest");
        let ((down, up), cpu, since) = (relay.bytes(), envoy.cpu()?, Instant::now());
        std::thread::sleep(Duration::from_secs(1));
        let idle = (envoy.cpu()? - cpu).div_duration_f64(since.elapsed());
        // it has acknowledged the endpoints, whose names it asked for
        if relay.bytes() == (down, up) && up > CLUSTERS as u64 && idle < 0.05 {
            return Ok(idle);
        }
    }
}

/// Stands between Envoy and the server, and counts.
struct Relay {
    down: Arc<Way>,
    up: Arc<Way>,
}

/// One direction.
#[derive(Default)]
struct Way {
    bytes: AtomicU64,
    /// When something passed last, as [`endpoints::now`] tells time.
    last: AtomicU64,
}

impl Relay {
    fn start(server: &Path, own: &Path) -> anyhow::Result<Self> {
        let (listener, server) = (UnixListener::bind(own)?, server.to_owned());
        let relay = Self { down: Arc::default(), up: Arc::default() };
        let (down, up) = (Arc::clone(&relay.down), Arc::clone(&relay.up));
        std::thread::spawn(move || -> anyhow::Result<()> {
            for envoy in listener.incoming() {
                let (envoy, server) = (envoy?, UnixStream::connect(&server)?);
                for (way, from, to) in [(&down, server.try_clone()?, envoy.try_clone()?), (&up, envoy, server)] {
                    let way = Arc::clone(way);
                    std::thread::spawn(move || way.carry(from, to));
                }
            }
            Ok(())
        });
        Ok(relay)
    }

    /// Bytes to Envoy and from Envoy.
    fn bytes(&self) -> (u64, u64) {
        (self.down.bytes.load(Ordering::Relaxed), self.up.bytes.load(Ordering::Relaxed))
    }

    fn quiet_for(&self) -> Duration {
        let last = self.down.last.load(Ordering::Relaxed).max(self.up.last.load(Ordering::Relaxed));
        Duration::from_nanos(endpoints::now().saturating_sub(last))
    }

    /// Makes a change and waits until it was told and answered. Gives the time until the last byte of the answer.
    fn change(&self, make: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Duration> {
        let ((_, up), began, now) = (self.bytes(), Instant::now(), endpoints::now());
        make()?;
        while self.bytes().1 == up || self.quiet_for() < QUIET {
            anyhow::ensure!(began.elapsed() < DEADLINE, "Envoy does not answer");
            std::thread::sleep(Duration::from_micros(500));
        }
        Ok(Duration::from_nanos(self.up.last.load(Ordering::Relaxed).saturating_sub(now)))
    }
}

impl Way {
    fn carry(&self, mut from: UnixStream, mut to: UnixStream) -> anyhow::Result<()> {
        let mut buffer = vec![0; 256 << 10];
        loop {
            let length = from.read(&mut buffer)?;
            anyhow::ensure!(length > 0, "closed");
            to.write_all(buffer.get(..length).unwrap_or_default())?;
            self.bytes.fetch_add(length as u64, Ordering::Relaxed);
            self.last.store(endpoints::now(), Ordering::Relaxed);
        }
    }
}

/// A real Envoy, which ends with this.
struct Envoy(Child);

impl Envoy {
    fn start(place: &Path, api_type: &str) -> anyhow::Result<Self> {
        let pipe = |name: &str| json!({"pipe": {"path": place.join(name)}});
        let options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
        let bootstrap = json!({
            "node": {"id": "bench", "cluster": "default/edge"},
            "admin": {"address": pipe("admin.sock")},
            "dynamic_resources": {
                "ads_config": {
                    "api_type": api_type, "transport_api_version": "V3", "set_node_on_first_message_only": true,
                    "grpc_services": [{"envoy_grpc": {"cluster_name": "xds"}}]
                },
                "cds_config": {"ads": {}, "resource_api_version": "V3"},
                "lds_config": {"ads": {}, "resource_api_version": "V3"}
            },
            "static_resources": {"clusters": [{
                "name": "xds", "type": "STATIC", "connect_timeout": "1s",
                "typed_extension_protocol_options": {
                    options: {
                        "@type": format!("type.googleapis.com/{options}"),
                        "explicit_http_config": {"http2_protocol_options": {}}
                    }
                },
                "load_assignment": {"cluster_name": "xds", "endpoints": [{
                    "lb_endpoints": [{"endpoint": {"address": pipe("xds.sock")}}]
                }]}
            }]}
        });
        let file = place.join("bootstrap.json");
        std::fs::write(&file, serde_json::to_vec(&bootstrap)?)?;
        let child = Command::new(process::envoy()?)
            .arg("-c")
            .arg(&file)
            .args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "error"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(place.join("log"))?)
            .spawn()?;
        Ok(Self(child))
    }

    fn cpu(&self) -> anyhow::Result<Duration> {
        Ok(process::cpu_of(self.0.id())?.values().sum())
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
