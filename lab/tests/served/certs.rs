//! `chancery certs` against a cluster.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;
use tests::elsewhere::{Elsewhere, tls_example};
use tests::{binary, certificate, objects, wait};

use crate::cluster::{SYSTEM, served};
use crate::harness::{Lab, Namespace, text};
use crate::world::World;

fn certs(lab: &Lab, words: &[&str]) -> Output {
    let program = binary::chancery().unwrap();
    lab.command("exec").arg(program).arg("certs").args(words).output().unwrap()
}

/// The first word of each line.
fn roles(output: &Output) -> Vec<String> {
    let said = String::from_utf8(output.stdout.clone()).unwrap();
    said.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect()
}

#[test]
fn another_authority_is_announced_once() {
    let lab = served();
    let before = certs(&lab, &[]);
    assert!(before.status.success(), "{}", text(&before));
    assert_eq!(roles(&before), ["ROLE", "signs"]);
    let rotated = certs(&lab, &["rotate"]);
    assert!(rotated.status.success(), "{}", text(&rotated));
    assert_eq!(roles(&rotated), ["ROLE", "signs", "next"]);
    let again = certs(&lab, &["rotate"]);
    assert_eq!(roles(&again), ["ROLE", "signs", "next"]);
    assert!(text(&again).contains("announced already"), "{}", text(&again));
    // proxies are told whom to trust
    let namespace = Namespace { lab, name: SYSTEM };
    namespace.until("both in ca.crt", "secret/chancery-ca", |secret| {
        let bundle = secret["data"]["ca.crt"].as_str()?;
        let one = secret["data"]["tls.crt"].as_str()?;
        (bundle.len() > one.len() * 3 / 2).then_some(())
    });
}

#[test]
fn an_authority_from_elsewhere_is_shown_and_never_written() {
    let namespace = Namespace::make_in(served(), "foreign-authority");
    let pair = certificate::authority("elsewhere").unwrap();
    let secret = objects::tls_secret("mine", &pair.certificate, &pair.key);
    namespace.apply(&secret);
    let before = namespace.get("secret/mine").unwrap();
    let of = |words: &[&str]| {
        certs(&namespace.lab, &[&["--chancery-namespace", namespace.name, "--ca-secret", "mine"], words].concat())
    };
    assert_eq!(roles(&of(&[])), ["ROLE", "signs"]);
    let refused = of(&["rotate"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused).contains("it is replaced where it comes from"), "{}", text(&refused));
    assert_eq!(namespace.get("secret/mine").unwrap(), before);
    let missing = certs(&namespace.lab, &["--chancery-namespace", namespace.name]);
    assert!(text(&missing).contains("there is no Secret foreign-authority/chancery-ca"), "{}", text(&missing));
}

#[test]
fn a_proxy_outside_the_cluster_is_served_with_a_certificate_of_its_gateway() {
    let world = World::make("outside");
    let lab = &*world.namespace.lab;
    world.gateway("edge", &["{name: http, protocol: HTTP, port: 8085}"], "");
    world.route("edge", "edge", "[{backendRefs: [{name: cart, port: 80}]}]");
    let place = TempDir::new().unwrap();
    let files = place.path().join("files");
    let issued = certs(lab, &["issue", "outside/edge", "--dir", files.to_str().unwrap(), "--output", "json"]);
    assert!(issued.status.success(), "{}", text(&issued));
    let key = std::fs::metadata(files.join("edge.key")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);

    let system = Namespace { lab: world.namespace.lab.clone(), name: SYSTEM };
    let service = system.get("service/chancery").unwrap();
    let address = service.pointer("/spec/clusterIP").unwrap().as_str().unwrap();
    let admin = place.path().join("admin.sock");
    let bootstrap = tls_example(&files)
        .unwrap()
        .replace("default/edge", "outside/edge")
        .replace("  - { exact: /ready }\n", "  - { exact: /ready }\n  - { exact: /certs }\n")
        .replace("/tmp/envoy-admin.sock", admin.to_str().unwrap())
        .replace("address: chancery.example", &format!("address: {address}"))
        .replace("chancery.example", "chancery.chancery-system.svc");
    let _envoy =
        Elsewhere::run_by(lab.command("exec").arg(binary::envoy().unwrap()), place.path(), &bootstrap).unwrap();
    let asked = || lab.exec(&["curl", "--silent", "--max-time", "5", "http://127.0.0.1:8085/"]);
    wait::until("an answer", || asked()?.contains("\"pod\": \"cart\"").then_some(())).unwrap();

    // the next one is taken up without a restart
    let shown = || {
        let asked =
            Command::new("curl").args(["--silent", "--unix-socket"]).arg(&admin).arg("http://admin/certs").output();
        let all: Value = serde_json::from_slice(&asked.ok()?.stdout).ok()?;
        let own = all.pointer("/certificates/0/cert_chain/0/serial_number")?.as_str()?.to_owned();
        Some(own)
    };
    let before = shown().unwrap();
    let again = certs(lab, &["issue", "outside/edge", "--dir", files.to_str().unwrap()]);
    assert!(again.status.success(), "{}", text(&again));
    wait::until("the next certificate", || shown().filter(|own| *own != before)).unwrap();

    let wrong = certs(lab, &["issue", "edge", "--dir", files.to_str().unwrap()]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong).contains("write for example default/edge"), "{}", text(&wrong));
}
