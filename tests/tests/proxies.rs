//! `chancery proxy`: which proxies are connected, how each stands to its configuration, and what it has.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::TcpListener;
use std::process::Output;

use serde_json::Value;
use tests::objects::{documents, gateway, listeners, route, service, tls_secret};
use tests::ports::free_ports;
use tests::running::Running;
use tests::{binary, certificate, wait};

fn started(text: &str) -> Running {
    let mut running = Running::prepare().unwrap();
    running.write("gateway.yaml", text).unwrap();
    running.start().unwrap();
    running
}

fn proxy(running: &Running, words: &[&str]) -> Output {
    let state = running.state().display().to_string();
    binary::run(["proxy"].iter().chain(words).chain(&["--state-dir", &state]), "").unwrap()
}

/// What it prints, if all is fine.
fn said(running: &Running, words: &[&str]) -> Option<String> {
    let output = proxy(running, words);
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

fn complaint(running: &Running, words: &[&str]) -> (Option<i32>, String) {
    let output = proxy(running, words);
    (output.status.code(), String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap())
}

/// Waits until a proxy has nothing under way, and gives what is said of it.
fn until_settled(running: &Running) -> Value {
    wait::until("all to be answered", || {
        let listed: Vec<Value> =
            serde_json::from_slice(&proxy(running, &["list", "-o", "json"]).stdout).unwrap_or_default();
        listed.into_iter().find(|proxy| proxy["pending"] == 0 && proxy["accepted"] != 0)
    })
    .unwrap()
}

#[test]
fn a_proxy_is_listed_and_shows_what_it_has_without_private_keys() {
    let [http, https, backend] = free_ports().unwrap();
    let pair = certificate::self_signed(&["shop.example"], false).unwrap();
    let both = listeners(&format!(
        "  - {{name: http, protocol: HTTP, port: {http}}}\n  - {{name: https, protocol: HTTPS, port: {https}, tls: {{certificateRefs: [{{name: cert}}]}}}}\n"
    ));
    let secret = tls_secret("cert", &pair.certificate, &pair.key);
    let running = started(&documents([&*both, &route("shop", &[("/", "web")]), &service("web", backend), &secret]));
    let edge = until_settled(&running);
    assert_eq!(
        (&edge["name"], &edge["gateway"], &edge["version"]),
        (&"default/edge".into(), &"default/edge".into(), &"1.40.0".into())
    );
    let table = said(&running, &["list"]).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(
        lines,
        ["NAME          GATEWAY       PROGRAM       STATE", "default/edge  default/edge  envoy 1.40.0  ok"]
    );
    let wide = said(&running, &["list", "-o", "wide"]).unwrap();
    assert!(wide.contains(&format!("{} accepted", edge["accepted"])), "{wide}");

    let config = |words: &[&str]| said(&running, &[&["config", "edge"], words].concat()).unwrap();
    let summary = config(&[]);
    assert!(summary.contains("listeners  2"), "{summary}");
    let shown = config(&["listeners"]);
    assert!([http, https].iter().all(|port| shown.contains(&format!("active  [::]:{port}"))), "{shown}");
    assert!(config(&["routes"]).contains('*'), "{}", config(&["routes"]));
    assert!(config(&["clusters"]).contains("default/web/80  active  EDS"), "{}", config(&["clusters"]));
    assert!(config(&["endpoints"]).contains(&format!("127.0.0.1:{backend}")), "{}", config(&["endpoints"]));
    let secrets = config(&["secrets", "-o", "wide"]);
    assert!(secrets.contains("active") && secrets.contains("tls certificate"), "{secrets}");
    assert!(config(&["bootstrap"]).contains("default/edge"));
    let whole = config(&["-o", "json"]);
    assert!(serde_json::from_str::<Value>(&whole).unwrap()["configs"].is_array());
    let key: String = pair.key.lines().filter(|line| !line.starts_with("---")).collect();
    for held in [&*pair.key, &key, &certificate::base64(pair.key.as_bytes())] {
        assert!(!whole.contains(held), "a private key is shown");
    }

    let none = "chancery: no proxy egde is connected; there are default/edge\n".to_owned();
    assert_eq!(complaint(&running, &["config", "egde"]), (Some(1), none));
}

#[test]
fn what_a_proxy_refuses_is_told_in_its_words() {
    let taken = TcpListener::bind(("0.0.0.0", 0)).unwrap();
    let [free] = free_ports().unwrap();
    let running = started(&gateway(free));
    running.write("gateway.yaml", &gateway(taken.local_addr().unwrap().port())).unwrap();
    let (code, told) = wait::until("the refusal", || {
        Some(complaint(&running, &["list"])).filter(|(_, told)| told.contains("1 refused"))
    })
    .unwrap();
    assert_eq!(code, Some(1));
    assert!(
        told.contains("default/edge refuses Listener default/edge/") && told.contains("Address already in use"),
        "{told}"
    );
}

#[test]
fn without_a_proxy_it_says_so() {
    let mut running = Running::prepare().unwrap().with(&["--no-envoy"]);
    running.write("gateway.yaml", &gateway(8080)).unwrap();
    running.start().unwrap();
    assert_eq!(said(&running, &["list"]).as_deref(), Some("no proxy is connected\n"));
    let none = "chancery: no proxy is connected: `chancery status` says why\n".to_owned();
    assert_eq!(complaint(&running, &["config", "edge"]), (Some(1), none));
}

#[test]
fn the_admin_api_is_offered_on_loopback_only_and_changes_nothing_there() {
    let [port] = free_ports().unwrap();
    let address = format!("127.0.0.1:{port}");
    let mut running = Running::prepare().unwrap().with(&["--no-envoy", "--admin-listen", &address]);
    running.write("gateway.yaml", &gateway(8080)).unwrap();
    running.start().unwrap();
    let code = |path: &str| tests::client::get(port, "localhost", path).unwrap().status;
    assert_eq!([code("/status"), code("/proxies"), code("/metrics"), code("/log?level=debug")], [200, 200, 200, 404]);
    let output = binary::run(["run", "--dir", "/none", "--admin-listen", "0.0.0.0:8082"], "").unwrap();
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("only a loopback address: whoever can connect sees all statuses"), "{told}");
}
