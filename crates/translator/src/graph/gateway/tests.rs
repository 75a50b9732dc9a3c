//! Ports that proxies bind for others.

use std::collections::BTreeSet;

use ir::infra::kubernetes::LOCAL_PORT;

use super::mapped_ports;

#[test]
fn ports_that_only_root_may_bind_are_bound_as_others() {
    assert_eq!(*mapped_ports(&[80, 443, 1023, 1024, 8080]), [(80, 10_080), (443, 10_443), (1_023, 11_023)]);
    assert_eq!(*mapped_ports(&[]), []);
}

#[test]
fn a_port_is_never_bound_twice() {
    assert_eq!(*mapped_ports(&[80, 10_080, 20_080]), [(80, 30_080)]);
    // that of every proxy's own listener is none of the Gateway's
    assert_eq!(*mapped_ports(&[LOCAL_PORT]), [(LOCAL_PORT, LOCAL_PORT + 10_000)]);
    let ports: Vec<u16> = (1..=1_023).chain(10_000..=11_500).chain([LOCAL_PORT]).collect();
    let mapped = mapped_ports(&ports);
    assert_eq!(mapped.len(), 1_024);
    let bound: BTreeSet<u16> = mapped.iter().map(|(_, to)| *to).collect();
    assert!(bound.len() == mapped.len() && bound.iter().all(|port| !ports.contains(port)));
}
