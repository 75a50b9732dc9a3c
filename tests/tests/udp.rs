//! Datagrams: UDPRoute from files, through a real Envoy to servers that say who they are.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tests::objects::{documents, listeners, service};
use tests::ports::free_ports;
use tests::running::Running;
use tests::wait;

/// A server that answers each datagram with its name.
struct Echo {
    port: u16,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    fn start(name: &'static str) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let port = socket.local_addr().unwrap().port();
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut room = [0; 64];
            while !ends.load(Ordering::Acquire) {
                if let Ok((_, from)) = socket.recv_from(&mut room) {
                    let _ = socket.send_to(name.as_bytes(), from);
                }
            }
        });
        Self { port, over, thread: Some(thread) }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Long enough for any answer on a loaded machine; only what is dropped waits for so long.
const ANSWERED: Duration = Duration::from_secs(3);

/// The answers to one datagram each of so many clients that have sent none before; none where none comes. All wait at the same time.
fn ask_all(port: u16, count: usize) -> Vec<Option<String>> {
    let client = |_| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(("127.0.0.1", port)).unwrap();
        // where nobody listens, or not any more, the answer says so
        let _unheard = socket.send(b"who");
        socket
    };
    let clients: Vec<UdpSocket> = (0..count).map(client).collect();
    let end = Instant::now() + ANSWERED;
    let answer = |socket: &UdpSocket| {
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(left)).unwrap();
        let mut room = [0; 64];
        let length = socket.recv(&mut room).ok()?;
        Some(String::from_utf8_lossy(room.get(..length)?).into_owned())
    };
    clients.iter().map(answer).collect()
}

fn ask(port: u16) -> Option<String> {
    ask_all(port, 1).pop().flatten()
}

fn until(port: u16, expected: Option<&str>) {
    wait::until(&format!("{expected:?}"), || (ask(port).as_deref() == expected).then_some(())).unwrap();
}

fn route(name: &str, section: &str, backends: &[(&str, u32)]) -> String {
    let backends: Vec<_> =
        backends.iter().map(|(name, weight)| format!("{{name: {name}, port: 80, weight: {weight}}}")).collect();
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: UDPRoute\nmetadata: {{name: {name}}}\nspec:\n  \
         parentRefs: [{{name: edge, sectionName: {section}}}]\n  rules:\n  - backendRefs: [{}]\n",
        backends.join(", ")
    )
}

struct World {
    running: Running,
    ports: [u16; 2],
    _servers: [Echo; 2],
}

impl World {
    fn start() -> Self {
        let servers = [Echo::start("one"), Echo::start("two")];
        let ports = free_ports().unwrap();
        let [a, b] = ports;
        let both = format!(
            "  - {{name: a, port: {a}, protocol: UDP}}\n  - {{name: b, port: {b}, protocol: UDP}}\n  - {{name: t, port: {a}, protocol: HTTP}}\n"
        );
        let mut running = Running::prepare().unwrap();
        let all = [listeners(&both), service("one", servers[0].port), service("two", servers[1].port)];
        let all = all.map(|text| text.replace("    port: 80\n", "    port: 80\n    protocol: UDP\n"));
        let all = all.map(|text| text.replace("- name: http\n  port", "- name: http\n  protocol: UDP\n  port"));
        running.write("all.yaml", &documents(all.iter().map(String::as_str))).unwrap();
        running.write("a.yaml", &route("a", "a", &[("one", 1)])).unwrap();
        running.start().unwrap();
        Self { running, ports, _servers: servers }
    }
}

#[test]
fn datagrams_go_where_the_first_route_of_their_listener_says() {
    let world = World::start();
    let [a, b] = world.ports;
    until(a, Some("one"));
    assert_eq!(ask(b), None, "no route");
    world.running.write("b.yaml", &route("b", "b", &[("two", 1)])).unwrap();
    until(b, Some("two"));
    // of two the first counts, and there is no answer of the other
    world.running.write("z.yaml", &route("z", "a", &[("two", 1)])).unwrap();
    wait::until("both", || world.running.status(&["-o", "yaml"]).unwrap().contains("attachedRoutes: 2").then_some(()))
        .unwrap();
    assert_eq!(ask_all(a, 20), vec![Some("one".to_owned()); 20]);
    world.running.remove("a.yaml").unwrap();
    until(a, Some("two"));
    world.running.remove("b.yaml").unwrap();
    until(b, None);
}

#[test]
fn shares_are_those_of_backends_and_that_of_a_broken_one_is_dropped() {
    let world = World::start();
    let [a, _] = world.ports;
    world.running.write("a.yaml", &route("a", "a", &[("one", 7), ("two", 3), ("nowhere", 10)])).unwrap();
    until(a, None);
    let mut seen: BTreeMap<Option<String>, u32> = BTreeMap::new();
    ask_all(a, 100).into_iter().for_each(|answer| *seen.entry(answer).or_default() += 1);
    let of = |name: Option<&str>| seen.get(&name.map(str::to_owned)).copied().unwrap_or_default();
    assert!((40..60).contains(&of(None)), "{seen:?}");
    assert!((25..45).contains(&of(Some("one"))) && (8..22).contains(&of(Some("two"))), "{seen:?}");
}
