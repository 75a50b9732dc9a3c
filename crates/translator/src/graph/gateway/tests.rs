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
fn a_port_is_bound_where_it_is_bound_without_the_others() {
    let alone = |port: u16| mapped_ports(&[port], LOWEST_FREE).first().map_or(port, |(_, to)| *to);
    let all = [80, 443, 1_024, 8_080, 10_080, 19_003, 20_080, 29_003, 40_443];
    let together = mapped_ports(&all, LOWEST_FREE);
    for port in all {
        let bound = together.iter().find(|(from, _)| *from == port).map_or(port, |(_, to)| *to);
        assert_eq!(bound, alone(port), "{port}");
    }
    assert_eq!((alone(80), alone(10_080), alone(1_024), alone(11_024)), (10_080, 20_080, 1_024, 11_024));
}

#[test]
fn a_port_is_never_bound_twice() {
    // those of every proxy's own listeners are none of the Gateway's
    for own in [LOCAL_PORT, CONFIG_PORT] {
        assert_eq!(*mapped_ports(&[own], LOWEST_FREE), [(own, own + 10_000)]);
        assert_eq!(*mapped_ports(&[80, own], 0), [(own, own + 10_000)], "whoever has the right to lower ones has them");
    }
    let ports: Vec<u16> =
        (1..=1_023).chain(10_000..=11_500).chain(60_001..=60_064).chain([LOCAL_PORT, CONFIG_PORT]).collect();
    let mapped = mapped_ports(&ports, LOWEST_FREE);
    assert_eq!(mapped.len(), 2 * 1_023 + 64 + 2);
    let rest = ports.iter().filter(|port| mapped.iter().all(|(from, _)| from != *port));
    let bound: Vec<u16> = mapped.iter().map(|(_, to)| *to).chain(rest.copied()).collect();
    assert_eq!(bound.iter().collect::<BTreeSet<_>>().len(), bound.len());
    assert!(bound.iter().all(|port| *port >= LOWEST_FREE && ![LOCAL_PORT, CONFIG_PORT].contains(port)));
}
