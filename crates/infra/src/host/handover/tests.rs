//! Messages of a hot restart.

use std::net::TcpListener;
use std::os::fd::OwnedFd;

use super::{Lineage, Request, is_requested};

#[test]
fn messages_differ_by_their_second_tag() {
    let message = |body: &[u8]| Request::of(&[&[0; 8], body].concat());
    assert_eq!(message(&[0x0a, 2, 0x12, 0]), Request::Admin);
    assert_eq!(message(&[0x0a, 4, 0x0a, 2, 0x0a, 0]), Request::Socket);
    assert_eq!(message(&[0x0a, 2, 0x22, 0]), Request::Drain);
    assert_eq!(message(&[0x0a, 2, 0x2a, 0]), Request::Terminate);
    assert_eq!(message(&[0x0a, 2, 0x1a, 0]), Request::Other);
    assert_eq!(message(&[]), Request::Other);
    assert_eq!(Request::of(&[]), Request::Other);
}

#[test]
fn sockets_have_the_names_that_envoy_gives_them() {
    let first = Lineage { base: 7, epoch: 0, name: 0 };
    let second = Lineage { base: 7, epoch: 1, name: 1 };
    assert_eq!(first.socket("child", 1), "hot.a_child_71");
    assert_eq!(second.socket("child", 1), "hot.b_child_72");
    assert_eq!(second.socket("parent", 0), "hot.b_parent_71");
}

#[test]
fn only_a_socket_of_the_requested_port_is_passed_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let socket = OwnedFd::from(listener);
    let request =
        |address: &str| [&[0; 8], &b"\x0a\x20\x0a\x1e\x0a\x1c"[..], address.as_bytes(), &[0x10, b':']].concat();
    assert!(is_requested(&request(&format!("tcp://127.0.0.1:{port}")), &socket));
    assert!(is_requested(&request(&format!("tcp://[::]:{port}")), &socket));
    assert!(!is_requested(&request(&format!("tcp://127.0.0.1:{}", port ^ 1)), &socket));
    assert!(!is_requested(&request("unix:///tmp/x"), &socket));
}
