//! Rights and conflicts of ports.

use std::net::{TcpListener, UdpSocket};
use std::time::Instant;

use super::*;
use crate::host::tests::stage::DEADLINE;

#[test]
fn a_port_is_taken_only_where_addresses_collide_and_never_by_its_own_proxy() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    let pid = std::process::id();
    let why = Listeners::read(Table::Tcp, None).is_free(&[], port).unwrap_err();
    assert!(why.contains(&format!("process {pid}")) && why.contains("127.0.0.1"), "{why}");
    assert!(Listeners::read(Table::Tcp, None).is_free(&["0.0.0.0".parse().unwrap()], port).is_err());
    assert!(Listeners::read(Table::Tcp, None).is_free(&["127.0.0.1".parse().unwrap()], port).is_err());
    assert_eq!(Listeners::read(Table::Tcp, None).is_free(&["127.0.0.2".parse().unwrap()], port), Ok(()));
    assert_eq!(Listeners::read(Table::Tcp, Some(pid)).is_free(&[], port), Ok(()));
    drop(holder);
    // A process that another test has forked has the socket too until it becomes another program.
    let began = Instant::now();
    while let Err(why) = Listeners::read(Table::Tcp, None).is_free(&[], port) {
        assert!(began.elapsed() < DEADLINE, "{why}");
    }
}

#[test]
fn datagrams_have_ports_of_their_own() {
    let holder = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    let why = Listeners::read(Table::Udp, None).is_free(&[], port).unwrap_err();
    assert!(why.contains(&format!("process {}", std::process::id())), "{why}");
    assert_eq!(Listeners::read(Table::Udp, Some(std::process::id())).is_free(&[], port), Ok(()));
    let connected = UdpSocket::bind("127.0.0.1:0").unwrap();
    connected.connect(("127.0.0.1", port)).unwrap();
    assert_eq!(Listeners::read(Table::Udp, None).is_free(&[], connected.local_addr().unwrap().port()), Ok(()));
}

#[test]
fn a_socket_is_deaf_where_another_claim_is_served_by_it() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let claim = |addresses: &[&str], ports: &[u16]| {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Claim { addresses, ports: ports.to_vec() }
    };
    let deaf = |own: Option<Claim>, other: Option<Claim>| {
        let claims = [("ns/own", own), ("ns/other", other)];
        let claims = claims.into_iter().filter_map(|(fleet, claim)| Some((fleet.into(), claim?)));
        deaf_socket(std::process::id(), &"ns/own".into(), &claims.collect())
    };
    let (any, here, there) = (claim(&[], &[port]), claim(&["127.0.0.1"], &[port]), claim(&["127.0.0.2"], &[port]));
    let of_it = socket.local_addr().ok();
    assert_eq!(deaf(Some(here.clone()), None), None, "its own");
    assert_eq!(deaf(Some(any.clone()), None), of_it, "it comes before its own on every interface");
    assert_eq!(deaf(Some(there.clone()), None), None, "nobody is told to send there");
    for other in [&any, &here] {
        assert_eq!(deaf(None, Some(other.clone())), of_it);
        assert_eq!(deaf(Some(claim(&[], &[port - 1])), Some(other.clone())), of_it);
    }
    assert_eq!(deaf(None, Some(there)), None);
    assert_eq!(deaf(None, Some(claim(&[], &[port - 1]))), None);

    let everywhere = UdpSocket::bind("0.0.0.0:0").unwrap();
    let port = everywhere.local_addr().unwrap().port();
    assert_eq!(deaf(Some(claim(&["127.0.0.1"], &[port])), None), None, "the kernel prefers the narrower one");
    assert_eq!(deaf(None, Some(claim(&["127.0.0.1"], &[port]))), None);
    assert_eq!(deaf(None, Some(claim(&[], &[port]))), everywhere.local_addr().ok());
}

#[test]
fn lines_of_the_socket_table_are_read_for_both_families() {
    let v4 =
        "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4242 1 0 100 0";
    let v6 = "   1: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 77 1";
    if cfg!(target_endian = "little") {
        let expect = Listening { address: "127.0.0.1".parse().unwrap(), port: 8080, inode: 4242 };
        assert_eq!(parse_listening(v4, "0A"), Some(expect));
        assert_eq!(parse_listening(v6, "0A"), Some(Listening { address: "::1".parse().unwrap(), port: 80, inode: 77 }));
    }
    assert_eq!(parse_listening(&v4.replace(" 0A ", " 01 "), "0A"), None);
    assert_eq!(parse_listening("  sl  local_address rem_address   st", "0A"), None);
    assert_eq!(parse_listening("0: 01:02 03:04 0A", "0A"), None);
}

#[test]
fn root_keeps_its_rights_and_others_only_their_ambient_ones() {
    let status =
        |effective: u64, ambient: u64| format!("Name:\tx\nCapEff:\t{effective:016x}\nCapAmb:\t{ambient:016x}\n");
    let right = 1 << NET_BIND_SERVICE;
    assert!(child_may_bind(&status(right, 0), true));
    assert!(!child_may_bind(&status(0, right), true));
    assert!(child_may_bind(&status(0, right), false));
    assert!(!child_may_bind(&status(right, 0), false));
}

#[test]
fn high_ports_are_always_permitted() {
    assert_eq!(port_permission(8080, None), Ok(()));
    assert_eq!(port_permission(0, None), Ok(()));
}

#[test]
fn what_our_process_opens_while_it_is_looked_at_is_never_anothers() {
    let opening = std::thread::spawn(|| -> Vec<TcpListener> {
        (0..500).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect()
    });
    let mut looks = Vec::new();
    while !opening.is_finished() {
        looks.push(Listeners::read(Table::Tcp, Some(std::process::id())));
    }
    let opened = opening.join().unwrap();
    let ports: BTreeSet<u16> = opened.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
    let strange = looks.iter().flat_map(|look| &look.others).find(|socket| ports.contains(&socket.port));
    assert_eq!(strange, None, "in {} looks", looks.len());
}

#[test]
fn many_ports_of_outgoing_connections_are_told() {
    let ports: Vec<u16> = (1..=u16::MAX).collect();
    let words = outgoing_ports(ports.iter()).expect("Linux has such a range");
    assert!(words.contains("ip_local_port_range"), "{words}");
    assert_eq!(outgoing_ports([80, 443, 8080].iter()), None);
}
