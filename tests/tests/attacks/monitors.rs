//! Clients of the health and admin ports that hold connections, and pages in a browser that ask the admin port.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use tests::ports::free_ports;
use tests::running::Running;
use tests::{client, wait};

/// More connections than a port has places.
const MANY: usize = 600;

/// Longest time for an answer: a kubelet waits as long for a liveness probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PROBE_TIMEOUT)).unwrap();
    stream
}

/// Sends a request as it is; gives the connection without reading an answer.
fn sent(port: u16, request: &str) -> TcpStream {
    let mut stream = connect(port);
    // It may have been closed in favour of a later one.
    let _ = stream.write_all(request.as_bytes());
    stream
}

/// The whole answer to a request as it is.
fn answer(port: u16, request: &str) -> String {
    let mut text = String::new();
    let mut stream = sent(port, request);
    let _reset = stream.read_to_string(&mut text);
    text
}

/// A probe as a kubelet sends it.
fn probe(port: u16, path: &str) -> String {
    answer(
        port,
        &format!(
            "GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nuser-agent: kube-probe/1.34\r\nconnection: close\r\n\r\n"
        ),
    )
}

fn refusals(metrics: &str, port: &str, reason: &str) -> u64 {
    let series = format!("chancery_monitor_refusals_total{{port=\"{port}\",reason=\"{reason}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&series)?.parse().ok()).unwrap_or_default()
}

fn running(options: &[&str]) -> Running {
    let mut running = Running::prepare().unwrap().with(&["--no-envoy"]).with(options);
    running.start().unwrap();
    running
}

#[test]
fn probes_are_answered_while_all_connections_are_held() {
    let [port] = free_ports().unwrap();
    let running = running(&["--health-listen", &format!("127.0.0.1:{port}")]);
    let kept = "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
    let requests = [
        "",
        kept,
        "GET /healthz HTTP/1.1\r\nhost",
        "POST /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n",
    ];
    let mut held = Vec::new();
    for request in requests {
        held.extend((0..MANY).map(|_| sent(port, request)));
        for path in ["/healthz", "/readyz", "/metrics"] {
            let answer = probe(port, path);
            assert!(answer.starts_with("HTTP/1.1 200"), "{path} while {MANY} clients sent {request:?}: {answer}");
        }
    }
    let metrics = probe(port, "/metrics");
    assert!(refusals(&metrics, "health", "evicted") > 0, "{metrics}");
    drop(held);
    let log = running.log();
    assert_eq!(log.matches("the longest idle connection is closed for each new one").count(), 1, "{log}");
}

#[test]
fn a_probe_gets_one_answer_whatever_else_it_sends() {
    let [port] = free_ports().unwrap();
    let _running = running(&["--health-listen", &format!("127.0.0.1:{port}")]);
    let pipelined = answer(port, &"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n".repeat(10_000));
    assert!(pipelined.matches("HTTP/1.1 200").count() <= 1, "{pipelined}");
    let large = answer(port, &format!("GET /healthz HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "a".repeat(1 << 20)));
    assert!(!large.contains("200 OK"), "{large}");
    assert!(probe(port, "/healthz").contains("connection: close"));
}

#[test]
fn the_admin_port_answers_while_all_connections_are_held() {
    let [port] = free_ports().unwrap();
    let running = running(&["--admin-listen", &format!("127.0.0.1:{port}")]);
    let host = format!("host: localhost:{port}\r\n");
    let wait = format!("GET /status?after=1000000 HTTP/1.1\r\n{host}\r\n");
    let mut held: Vec<TcpStream> = (0..MANY).map(|_| sent(port, &wait)).collect();
    held.extend((0..MANY).map(|_| connect(port)));
    assert_eq!(client::get(port, "localhost", "/status").unwrap().status, 200);
    drop(held);
    let mut held = Vec::new();
    // One that is kept and used stays, while further ones are opened.
    let mut kept = BufReader::new(connect(port));
    for _ in 0..20 {
        held.extend((0..50).map(|_| connect(port)));
        write!(kept.get_mut(), "GET /healthz HTTP/1.1\r\n{host}\r\n").unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(kept.read_line(&mut head).unwrap() > 0, "closed after {head}");
        }
        let mut body = [0; 6];
        kept.read_exact(&mut body).unwrap();
    }
    let metrics = client::get(port, "localhost", "/metrics").unwrap().body;
    assert!(refusals(&metrics, "admin", "evicted") > 0, "{metrics}");
    drop(running);
}

#[test]
fn pages_from_elsewhere_are_not_answered_by_the_admin_port() {
    let [port] = free_ports().unwrap();
    let running = running(&[
        "--admin-listen",
        &format!("127.0.0.1:{port}"),
        "--admin-host",
        "admin.example.com",
        "--admin-host",
        "10.1.2.3",
    ]);
    let here = [format!("localhost:{port}"), format!("127.0.0.1:{port}"), "[::1]:9999".to_owned()];
    let configured = ["admin.example.com".to_owned(), "ADMIN.example.com:8443".to_owned(), "10.1.2.3".to_owned()];
    for host in here.iter().chain(&configured) {
        let answer = client::get(port, host, "/status").unwrap();
        assert_eq!(answer.status, 200, "{host}");
        let own = format!("http://{host}");
        assert_eq!(client::get_with(port, host, "/status", &[("origin", &own)]).unwrap().status, 200, "{own}");
        for origin in ["null", "https://evil.example", "http://localhost:1", "http://admin.example.com.evil.example"] {
            let answer = client::get_with(port, host, "/status", &[("origin", origin)]).unwrap();
            assert_eq!(answer.status, 403, "{host} from {origin}");
            assert!(answer.body.contains("another site") && !answer.body.contains("statuses"), "{}", answer.body);
        }
    }
    // A page of evil.example whose name leads to 127.0.0.1 since a moment ago: it is the same origin to its browser.
    let rebound = format!("evil.example:{port}");
    for path in ["/status", "/status?after=0", "/proxies", "/graph", "/metrics", "/explain?workload=a/b", "/nothing"] {
        let answer = client::get(port, &rebound, path).unwrap();
        assert_eq!(answer.status, 421, "{path}");
        assert!(answer.body.contains("--admin-host"), "{}", answer.body);
    }
    let raw = |head: &str| answer(port, &format!("{head}\r\nconnection: close\r\n\r\n"));
    let refused = [
        "GET /status HTTP/1.1".to_owned(),
        "GET /status HTTP/1.0".to_owned(),
        "GET /status HTTP/1.1\r\nhost: localhost\r\nhost: evil.example".to_owned(),
        "GET http://evil.example/status HTTP/1.1\r\nhost: localhost".to_owned(),
        "GET http://localhost/status HTTP/1.1\r\nhost: evil.example".to_owned(),
        "GET /status HTTP/1.1\r\nhost: localhost@evil.example".to_owned(),
        "GET /status HTTP/1.1\r\nhost: localhost\r\norigin: http://localhost\r\norigin: http://evil.example".to_owned(),
    ];
    for head in &refused {
        let answer = raw(head);
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert!(["400", "403", "421"].contains(&status), "{head:?}: {answer}");
    }
    let fine = raw(&format!("GET http://localhost:{port}/status HTTP/1.1\r\nhost: localhost:{port}"));
    assert!(fine.starts_with("HTTP/1.1 200") && fine.contains("cross-origin-resource-policy: same-origin"), "{fine}");
    let metrics = client::get(port, "localhost", "/metrics").unwrap().body;
    assert!(refusals(&metrics, "admin", "host") >= 7 && refusals(&metrics, "admin", "origin") >= 4, "{metrics}");
    wait::until("the log", || running.log().contains("neither loopback nor named by --admin-host").then_some(()))
        .unwrap();
    assert!(running.status(&[]).unwrap().contains("no"), "the socket answers as before");
}
