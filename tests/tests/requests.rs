//! What a real Envoy does with requests for which a rule asks something special: bodies that are sent again, preflights; and with their host.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use tests::objects::{documents, gateway, ruled, service};
use tests::ports::free_ports;
use tests::running::Running;
use tests::wait;

/// The head of a message, in small letters, and its body.
fn message(stream: &TcpStream) -> Option<(String, Vec<u8>)> {
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// A server that answers 503 to the first try of each path, and the length of the body to all others. It ends when a request says so.
fn reluctant(listener: &TcpListener) {
    let mut tried = Vec::new();
    for mut stream in listener.incoming().flatten() {
        let Some((head, body)) = message(&stream) else { continue };
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        if path == "/end" {
            return;
        }
        let status = if tried.contains(&path) { "200 OK" } else { "503 Service Unavailable" };
        tried.push(path);
        let text = body.len().to_string();
        let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{text}", text.len());
        let _ = stream.write_all(answer.as_bytes());
    }
}

fn exchange(port: u16, head: &str, body: &[u8]) -> Option<(String, String)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    let head = format!("{head}host: a.example\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body).ok()?;
    let (head, body) = message(&stream)?;
    Some((head, String::from_utf8_lossy(&body).into_owned()))
}

/// A server that answers with the host of each request. It ends when a request says so.
fn naming(listener: &TcpListener) {
    for mut stream in listener.incoming().flatten() {
        let Some((head, _)) = message(&stream) else { continue };
        let host = head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
        let length = host.len();
        let answer = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{host}");
        let _ = stream.write_all(answer.as_bytes());
        if head.starts_with("get /end ") {
            return;
        }
    }
}

/// Starts Chancery with a route that has this spec to a backend `app` at a port, and returns the port of its Gateway.
fn in_front_of(backend: u16, spec: &str) -> anyhow::Result<(Running, u16)> {
    let [port] = free_ports()?;
    let mut running = Running::prepare()?;
    let app = service("app", backend);
    running.write("all.yaml", &documents([&*gateway(port), &*app, &*ruled("r", spec)]))?;
    running.start()?;
    Ok((running, port))
}

/// Gateway API, `HTTPRouteSpec.hostnames`: the header goes on unmodified.
#[test]
fn a_backend_gets_the_host_as_it_came() {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = server.local_addr().unwrap();
    let serving = std::thread::spawn(move || naming(&server));
    let names = "  hostnames: [a.example, \"*.w.example\"]\n  rules: [{backendRefs: [{name: app, port: 80}]}]\n";
    let (_running, port) = in_front_of(address.port(), names).unwrap();
    let asked = |host: &str, path: &str| {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
        let head = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).ok()?;
        let (head, body) = message(&stream)?;
        Some((head.split(' ').nth(1)?.to_owned(), String::from_utf8_lossy(&body).into_owned()))
    };
    wait::until("an answer", || asked("a.example", "/").filter(|(status, _)| status == "200")).unwrap();
    for host in ["a.example", "a.example.", "a.example:80", "a.example.:80", "x.w.example.", "x.w.example.:8080"] {
        assert_eq!(asked(host, "/"), Some(("200".to_owned(), host.to_owned())));
    }
    for host in ["b.example.", "w.example."] {
        assert_eq!(asked(host, "/").unwrap().0, "404", "{host}");
    }
    assert_eq!(asked("a.example..", "/").unwrap().0, "400");
    assert_eq!(asked("a.example.", "/end").unwrap().0, "200");
    serving.join().unwrap();
}

/// Gateway API, `HTTPRouteRetry`: requests with bodies are no exception.
#[test]
fn a_body_of_a_mebibyte_is_sent_again() {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = server.local_addr().unwrap();
    let serving = std::thread::spawn(move || reluctant(&server));
    let rule = "  rules:\n  - retry: {codes: [503], attempts: 3}\n    backendRefs: [{name: app, port: 80}]\n";
    let (running, port) = in_front_of(address.port(), rule).unwrap();
    let answered =
        |path: &str, length: usize| exchange(port, &format!("POST {path} HTTP/1.1\r\n"), &vec![b'x'; length]);
    wait::until("an answer", || answered("/first", 1).filter(|(head, _)| head.starts_with("http/1.1 200 "))).unwrap();
    for length in [30_000, 40_000, 500_000, 1 << 20] {
        let (head, body) = answered(&format!("/{length}"), length).unwrap();
        assert!(head.starts_with("http/1.1 200 "), "{length}: {head}");
        assert_eq!(body, length.to_string());
    }
    // Longer ones reach the server once.
    let (head, _) = answered("/longer", (1 << 20) + (1 << 18)).unwrap();
    assert!(head.starts_with("http/1.1 503 "), "{head}");
    drop(running);
    let mut last = TcpStream::connect(address).unwrap();
    last.write_all(b"GET /end HTTP/1.1\r\n\r\n").unwrap();
    serving.join().unwrap();
}

/// Fetch standard, 4.9: a preflight has the method OPTIONS and names the one that it asks for.
#[test]
fn a_preflight_of_a_rule_with_a_method_is_answered() {
    let [port] = free_ports().unwrap();
    let server = tests::backend::Backend::start("app").unwrap();
    let rule = |method: &str, path: &str, allowed: &str| {
        format!(
            "  - matches: [{{method: {method}, path: {{value: {path}}}}}]\n    filters: [{{type: CORS, cors: {{allowOrigins: \
             [\"https://{allowed}\"], allowMethods: [{method}]}}}}]\n    backendRefs: [{{name: app, port: 80}}]\n"
        )
    };
    let rules = [
        rule("GET", "/both", "get.example"),
        rule("PUT", "/both", "put.example"),
        rule("OPTIONS", "/options", "options.example"),
    ];
    let mut running = Running::prepare().unwrap();
    let route = ruled("r", &format!("  rules:\n{}", rules.concat()));
    running.write("all.yaml", &documents([&*gateway(port), &*service("app", server.port), &*route])).unwrap();
    running.start().unwrap();
    let asked = |path: &str, origin: &str, method: &str| {
        let head = format!(
            "OPTIONS {path} HTTP/1.1\r\norigin: https://{origin}\r\naccess-control-request-method: {method}\r\n"
        );
        exchange(port, &head, b"").map(|(head, _)| head)
    };
    wait::until("an answer", || asked("/both", "get.example", "GET").filter(|head| head.contains(" 200 "))).unwrap();
    for (path, origin, method, allowed) in [
        ("/both", "get.example", "GET", true),
        ("/both", "put.example", "PUT", true),
        ("/both", "get.example", "PUT", false),
        ("/both", "put.example", "GET", false),
        ("/options", "options.example", "OPTIONS", true),
    ] {
        let head = asked(path, origin, method).unwrap();
        assert!(head.starts_with("http/1.1 200 "), "{path} {origin} {method}: {head}");
        let granted = head.contains(&format!("access-control-allow-origin: https://{origin}"));
        assert_eq!(granted, allowed, "{path} {origin} {method}: {head}");
    }
    // No rule takes these.
    for head in ["OPTIONS /both HTTP/1.1\r\n", "OPTIONS /both HTTP/1.1\r\norigin: https://get.example\r\n"] {
        assert!(exchange(port, head, b"").unwrap().0.starts_with("http/1.1 404 "), "{head}");
    }
    assert!(asked("/both", "get.example", "DELETE").unwrap().starts_with("http/1.1 404 "));
}
