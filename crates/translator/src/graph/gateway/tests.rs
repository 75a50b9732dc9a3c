//! Ports that proxies bind for others.

use std::collections::BTreeSet;

use ir::infra::kubernetes::{CONFIG_PORT, LOCAL_PORT};

use super::{LOWEST_FREE, mapped_ports};

#[test]
fn ports_that_only_root_may_bind_are_bound_as_others() {
    assert_eq!(
        *mapped_ports(&[80, 443, 1023, 1024, 8080], LOWEST_FREE),
        [(80, 10_080), (443, 10_443), (1_023, 11_023)]
    );
    assert_eq!(*mapped_ports(&[], LOWEST_FREE), []);
}

#[test]
fn a_port_is_never_bound_twice() {
    assert_eq!(*mapped_ports(&[80, 10_080, 20_080], LOWEST_FREE), [(80, 30_080)]);
    // those of every proxy's own listeners are none of the Gateway's
    for own in [LOCAL_PORT, CONFIG_PORT] {
        assert_eq!(*mapped_ports(&[own], LOWEST_FREE), [(own, own + 10_000)]);
        assert_eq!(*mapped_ports(&[80, own], 0), [(own, own + 10_000)], "whoever has the right to lower ones has them");
    }
    let ports: Vec<u16> = (1..=1_023).chain(10_000..=11_500).chain([LOCAL_PORT, CONFIG_PORT]).collect();
    let mapped = mapped_ports(&ports, LOWEST_FREE);
    assert_eq!(mapped.len(), 1_025);
    let bound: BTreeSet<u16> = mapped.iter().map(|(_, to)| *to).collect();
    assert!(bound.len() == mapped.len() && bound.iter().all(|port| !ports.contains(port)));
}
