//! `docs/grpc.md`: its commands, bootstraps and objects, with gRPC of Python, Node and Go.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use tests::binary::root;
use tests::certificate::{authority, issued, self_signed};
use tests::grpc_clients::{Client, Language, XdsServer};
use tests::ports::free_ports;
use tests::running::Running;
use tests::wait;

/// The target that the guide calls.
const TARGET: &str = "shop.example";
/// The variable without which the libraries send no token.
const CALL_CREDS: &str = "GRPC_EXPERIMENTAL_XDS_BOOTSTRAP_CALL_CREDS";

/// A chapter of the guide.
struct Chapter(String);

impl Chapter {
    fn of(title: &str) -> Self {
        let guide = std::fs::read_to_string(root().join("docs/grpc.md")).unwrap();
        Self(guide.split("\n## ").find(|text| text.lines().next() == Some(title)).unwrap().to_owned())
    }

    /// Its only block in this language.
    fn block(&self, language: &str) -> String {
        let mut blocks = self.0.split("\n```").filter_map(|text| text.strip_prefix(&format!("{language}\n")));
        let (block, more) = (blocks.next().unwrap(), blocks.next());
        assert_eq!(more, None, "one block of {language} in a chapter");
        block.to_owned()
    }

    /// What its command says behind the folder.
    fn arguments(&self, ports: &Ports) -> Vec<String> {
        let command = ports.moved(&self.block("sh"));
        let (start, arguments) = command.trim().split_once(" --dir conf ").unwrap();
        assert_eq!(start, "chancery run --no-envoy");
        ["--no-envoy"].into_iter().chain(arguments.split(' ')).map(str::to_owned).collect()
    }
}

/// Ports of this test in place of the guide's.
struct Ports {
    xds: u16,
    backend: u16,
}

impl Ports {
    fn new() -> Self {
        let [xds, backend] = free_ports().unwrap();
        Self { xds, backend }
    }

    fn moved(&self, text: &str) -> String {
        text.replace("18000", &self.xds.to_string()).replace("50051", &self.backend.to_string())
    }
}

/// A Chancery that serves the guide's objects with these arguments.
fn start(arguments: &[String], ports: &Ports) -> Running {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut running = Running::prepare().unwrap().with(&arguments);
    for (name, title) in [("client.yaml", "The four objects"), ("server.yaml", "Servers")] {
        running.write(name, &ports.moved(&Chapter::of(title).block("yaml"))).unwrap();
    }
    running.start().unwrap();
    running
}

/// Writes a bootstrap of the guide.
fn bootstrap(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Calls until this backend alone answers.
fn call_until(client: &mut Client, answer: &str) {
    let answered = |answers: BTreeMap<String, u64>| answers.keys().eq([answer]).then_some(());
    wait::until(answer, || answered(client.call(TARGET, 8).unwrap())).unwrap();
}

/// How many clients report the load of the guide's cluster.
fn reporters(running: &Running) -> Option<u64> {
    let answer = running.asked("/load")?;
    let loads: Vec<Value> = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
    let load = loads.iter().find(|load| load.get("cluster").is_some_and(|cluster| cluster == "shop"))?;
    assert_eq!(load.get("gateway").unwrap(), "workload/default/caller-1");
    load.get("reporters")?.as_u64()
}

#[test]
fn every_client_calls_every_server_in_cleartext_and_reports_its_load() {
    let (folder, ports) = (TempDir::new().unwrap(), Ports::new());
    let chapter = Chapter::of("On one machine");
    let running = start(&chapter.arguments(&ports), &ports);
    let own = bootstrap(folder.path(), "client.json", &ports.moved(&chapter.block("json")));
    let servers = bootstrap(folder.path(), "server.json", &ports.moved(&Chapter::of("Servers").block("json")));
    let mut clients = Language::ALL.map(|language| Client::start(language, &own, &[]).unwrap());
    for language in Language::ALL {
        let _server = XdsServer::start(language, &servers, &format!("127.0.0.1:{}", ports.backend)).unwrap();
        clients.iter_mut().for_each(|client| call_until(client, &format!("{language:?}")));
    }
    wait::until("loads of all clients", || reporters(&running).filter(|count| *count == 3)).unwrap();
}

#[test]
fn a_client_certificate_names_the_workload_for_python_and_go() {
    let (folder, ports) = (TempDir::new().unwrap(), Ports::new());
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let signer = authority("authority").unwrap();
    let server = issued("localhost", &signer).unwrap();
    let client = self_signed(&["spiffe://example/workload/default/caller-1"], false).unwrap();
    file("tls.crt", &server.certificate);
    file("tls.key", &server.key);
    file("ca.crt", &client.certificate);
    file("authority.crt", &signer.certificate);
    file("caller-1.crt", &client.certificate);
    file("caller-1.key", &client.key);
    let place = folder.path().display().to_string();

    let chapter = Chapter::of("Over TLS");
    let of_file =
        |word: String| if word.contains(".crt") || word.contains(".key") { format!("{place}/{word}") } else { word };
    let arguments = chapter.arguments(&ports).into_iter().map(of_file);
    // these tests listen on loopback only
    let arguments: Vec<String> = arguments.map(|word| word.replace("0.0.0.0", "127.0.0.1")).collect();
    let running = start(&arguments, &ports);
    let text = ports.moved(&chapter.block("json")).replace("chancery.example", "localhost").replace("/etc/xds", &place);
    let own = bootstrap(folder.path(), "client.json", &text);
    let cleartext = start_backend(&ports, folder.path());
    for language in [Language::Python, Language::Go] {
        call_until(&mut Client::start(language, &own, &[]).unwrap(), "Go");
    }
    // the guide says so: when Node can do it, the guide changes
    let answers = Client::start(Language::Node, &own, &[]).unwrap().call(TARGET, 1).unwrap();
    assert!(answers.keys().all(|answer| answer.starts_with("UNAVAILABLE ")), "{answers:?}");
    drop((running, cleartext));
}

/// A server with a Chancery of its own in cleartext.
fn start_backend(ports: &Ports, folder: &Path) -> (Running, XdsServer) {
    let own = Ports { xds: Ports::new().xds, backend: ports.backend };
    let running = start(&Chapter::of("On one machine").arguments(&own), &own);
    let text = own.moved(&Chapter::of("Servers").block("json"));
    let server = bootstrap(folder, "server.json", &text);
    let server = XdsServer::start(Language::Go, &server, &format!("127.0.0.1:{}", ports.backend)).unwrap();
    (running, server)
}

#[test]
fn the_pod_mounts_what_the_bootstrap_in_a_cluster_names() {
    let chapter = Chapter::of("In a cluster");
    let pod: Value = serde_saphyr::from_str(&chapter.block("yaml")).unwrap();
    let at = |path: &str| pod.pointer(path).and_then(Value::as_str).unwrap_or_default();
    assert_eq!(at("/volumes/0/configMap/name"), infra::kubernetes::sidecar::SIDECAR_CONFIG);
    assert_eq!(at("/containers/0/volumeMounts/0/mountPath"), "/etc/chancery");
    assert_eq!(at("/containers/0/volumeMounts/1/mountPath"), "/var/run/secrets/chancery");
    assert_eq!(at("/containers/0/env/0/value"), "/etc/chancery/grpc-bootstrap.json");
    assert_eq!(at("/containers/0/env/1/name"), CALL_CREDS);
}
