//! Questions and answers of DNS.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::PodSpec;

use super::{answer, resolv_conf};

fn question(name: &str, kind: u8) -> Vec<u8> {
    let mut bytes = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.bytes());
    }
    bytes.extend([0, 0, kind, 0, 1]);
    bytes
}

fn ask(name: &str, kind: u8) -> Vec<u8> {
    let known = |name: &str| (name == "web.shop.svc.cluster.local.").then(|| vec![Ipv4Addr::new(10, 96, 0, 7)]);
    answer(&question(name, kind), known).unwrap()
}

#[test]
fn a_known_name_has_its_address() {
    let answer = ask("web.shop.svc.cluster.local", 1);
    assert_eq!(answer[..8], [0xab, 0xcd, 0x85, 0x80, 0, 1, 0, 1]);
    assert!(answer.ends_with(&[0, 4, 10, 96, 0, 7]));
}

#[test]
fn a_known_name_has_no_other_records_and_an_unknown_one_none() {
    let other = ask("web.shop.svc.cluster.local", 28);
    assert_eq!((other[3] & 15, other[7]), (0, 0));
    let unknown = ask("example.com", 1);
    assert_eq!((unknown[3] & 15, unknown[7]), (3, 0));
}

#[test]
fn half_a_question_has_no_answer() {
    let whole = question("web.shop.svc.cluster.local", 1);
    for length in 0..whole.len() - 3 {
        assert_eq!(answer(&whole[..length], |_| None), None, "{length}");
    }
}

#[test]
fn pods_search_their_namespace_first() {
    let text = resolv_conf("shop", &PodSpec::default());
    assert!(text.starts_with("search shop.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\n"));
    let none = PodSpec { dns_policy: Some("Default".to_owned()), ..PodSpec::default() };
    assert_eq!(resolv_conf("shop", &none), "");
}
