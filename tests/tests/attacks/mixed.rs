//! Hostile traffic of all kinds at once, next to requests of which none may fail, and memory that comes back.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tests::backend::Backend;
use tests::certificate::self_signed;
use tests::client::get;
use tests::http2::{PREFACE, frame};
use tests::objects::{documents, gateway, route, service};
use tests::ports::free_ports;
use tests::prober::Prober;
use tests::running::Running;
use tests::wait;

/// Duration of the attacks: a minute, or half an hour where `ATTACKS=full`.
fn duration() -> Duration {
    let full = std::env::var_os("ATTACKS").is_some_and(|scale| scale == "full");
    if full { Duration::from_mins(30) } else { Duration::from_mins(1) }
}

/// An attack that is made once; it takes some milliseconds.
type Attack = fn(&Targets, u64);

/// Ports, and the folder that is read.
struct Targets {
    running: Running,
    gateway: u16,
    xds: u16,
    health: u16,
    admin: u16,
}

/// Sends bytes to a port and reads what comes back within a moment.
fn send(port: u16, bytes: &[u8]) {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return };
    let _ = stream.set_read_timeout(Some(Duration::from_millis(20)));
    let _ = stream.write_all(bytes);
    let _ = stream.read(&mut [0; 4096]);
}

/// `:method POST`, `:scheme http`, `:path /`, `:authority` in the static table of HPACK.
const HEADERS: &[u8] = b"\x83\x86\x84\x01\x01a";

/// Bytes that no TLS server understands, and connections that say nothing.
fn at_xds(targets: &Targets, round: u64) {
    match round % 3 {
        0 => send(targets.xds, b""),
        1 => send(targets.xds, &[0x16, 3, 1, 0xff, 0xff, 1, 0, 0, 0]),
        _ => send(targets.xds, PREFACE),
    }
}

/// Streams that break their connection, at the Gateway.
fn at_the_gateway(targets: &Targets, round: u64) {
    let mut bytes = PREFACE.to_vec();
    for stream in 0..100 {
        bytes.extend(frame(1, 4, 2 * stream + 1, HEADERS));
    }
    match round % 3 {
        0 => bytes.extend(frame(0, 0, 0, b"data on no stream")),
        1 => (0..100).for_each(|stream| bytes.extend(frame(3, 0, 2 * stream + 1, &[0, 0, 0, 8]))),
        _ => (0..100).for_each(|stream| bytes.extend(frame(8, 0, 2 * stream + 1, &[0x7f, 0xff, 0xff, 0xff]))),
    }
    send(targets.gateway, &bytes);
}

/// Probes and pages from elsewhere that hold their connections, and heads without end.
fn at_monitors(targets: &Targets, round: u64) {
    let port = if round.is_multiple_of(2) { targets.health } else { targets.admin };
    match round % 5 {
        0 => send(port, b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
        1 => send(port, b"GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\n\r\n"),
        2 => send(port, &[b"GET / HTTP/1.1\r\nX: ".as_slice(), &[b'a'; 64 << 10]].concat()),
        3 => send(port, b"G"),
        _ => send(port, &b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(50)),
    }
}

/// Files that come, change and go, each with something wrong.
fn at_the_folder(targets: &Targets, round: u64) {
    let name = format!("evil-{}.yaml", round % 20);
    let socket = targets.running.state().join("admin.sock");
    let text = match round % 6 {
        0 => format!(
            "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: Backend\nmetadata: {{name: evil-{round}}}\nspec: {{endpoints: [{{unix: {{path: {socket:?}}}}}]}}\n"
        ),
        1 => route(&format!("evil-{round}"), &[("/evil", "none")]),
        2 => format!("a: {}\n", "[".repeat(200)),
        3 => format!("kind: HTTPRoute\nunknown-{round}: {{}}\n"),
        4 => "\u{0}".repeat(100),
        _ => {
            let _absent = targets.running.remove(&name);
            return;
        }
    };
    targets.running.write(&name, &text).unwrap();
    thread::sleep(Duration::from_millis(20));
}

const ATTACKS: [Attack; 4] = [at_xds, at_the_gateway, at_monitors, at_the_folder];

impl Targets {
    fn start(place: &TempDir, backend: &Backend) -> Self {
        let [port, xds, health, admin] = free_ports().unwrap();
        let (server, client) =
            (self_signed(&["chancery.example"], false).unwrap(), self_signed(&["edge.default"], false).unwrap());
        let file = |name: &str, text: &str| {
            std::fs::write(place.path().join(name), text).unwrap();
            place.path().join(name).display().to_string()
        };
        let address = |port: u16| format!("127.0.0.1:{port}");
        let options = [
            ["--xds-listen", &address(xds)],
            ["--xds-tls-cert", &file("tls.crt", &server.certificate)],
            ["--xds-tls-key", &file("tls.key", &server.key)],
            ["--xds-client-ca", &file("ca.crt", &client.certificate)],
            ["--health-listen", &address(health)],
            ["--admin-listen", &address(admin)],
        ];
        let mut running = Running::prepare().unwrap().with(&options.concat());
        let objects = [gateway(port), service("good", backend.port), route("good", &[("/good", "good")])];
        running.write("good.yaml", &documents(objects.iter().map(String::as_str))).unwrap();
        running.start().unwrap();
        Self { running, gateway: port, xds, health, admin }
    }

    /// Makes all attacks at once for this long; gives the number of times for each.
    fn attack(&self, time: Duration) -> [u64; 4] {
        let until = Instant::now() + time;
        let rounds: [AtomicU64; 4] = Default::default();
        thread::scope(|scope| {
            for (attack, rounds) in ATTACKS.iter().zip(&rounds) {
                scope.spawn(move || {
                    while Instant::now() < until {
                        attack(self, rounds.fetch_add(1, Ordering::Relaxed));
                    }
                });
            }
        });
        for number in 0..20 {
            let _absent = self.running.remove(&format!("evil-{number}.yaml"));
        }
        rounds.map(AtomicU64::into_inner)
    }

    /// Memory of Chancery in bytes that is in use.
    fn memory(&self) -> u64 {
        self.running.memory("VmRSS").unwrap()
    }
}

#[test]
fn hostile_traffic_fails_no_request_and_keeps_no_memory() {
    let (place, backend) = (TempDir::new().unwrap(), Backend::start("good").unwrap());
    let targets = Targets::start(&place, &backend);
    let prober = Prober::default();
    thread::scope(|scope| {
        let over = prober.until_dropped();
        scope.spawn(|| {
            prober.run(|path| get(targets.gateway, "x.example", path), &[("/good", &["good"])]);
        });
        prober.more(100).unwrap();
        // What is made once is there.
        targets.attack(Duration::from_secs(5));
        let before = settled(&targets);
        let made = targets.attack(duration());
        assert!(made.iter().all(|times| *times > 100), "{made:?}");
        let back = || (targets.memory() <= before + before / 10).then_some(());
        let is_back = wait::until("the memory to come back", back);
        assert!(is_back.is_ok(), "{before} bytes before, {} bytes now", targets.memory());
        drop(over);
    });
    let (asked, wrong) = prober.told();
    assert!(asked > 1_000 && wrong.is_empty(), "{asked} requests: {wrong:?}");
    assert!(!targets.running.log().contains("panicked"));
}

/// Memory once it shrinks no more.
fn settled(targets: &Targets) -> u64 {
    let mut last = targets.memory();
    wait::until("the memory to settle", || {
        thread::sleep(Duration::from_millis(500));
        let now = targets.memory();
        let is_settled = now + now / 50 >= last;
        last = now;
        is_settled.then_some(now)
    })
    .unwrap()
}
