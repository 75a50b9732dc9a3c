//! `chancery certs` against a cluster.

use std::process::Output;

use tests::{binary, certificate, objects};

use crate::cluster::{SYSTEM, served};
use crate::harness::{Lab, Namespace, text};

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
        certs(&namespace.lab, &[&["--namespace", namespace.name, "--ca-secret", "mine"], words].concat())
    };
    assert_eq!(roles(&of(&[])), ["ROLE", "signs"]);
    let refused = of(&["rotate"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused).contains("it is replaced where it comes from"), "{}", text(&refused));
    assert_eq!(namespace.get("secret/mine").unwrap(), before);
    let missing = certs(&namespace.lab, &["--namespace", namespace.name]);
    assert!(text(&missing).contains("there is no Secret foreign-authority/chancery-ca"), "{}", text(&missing));
}
