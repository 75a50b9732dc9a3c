//! What is inside and around a host name, beside a look at all of them.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::listener::{Gate, Namespaces, Refusal, Speaks};

fn listener(port: u16, hostname: &str) -> ListenerPlan {
    let hostname = if hostname == "*" { Hostname::ANY } else { Hostname::parse(hostname).unwrap() };
    ListenerPlan {
        id: hostname.domain(),
        name: hostname.domain(),
        port,
        speaks: Some(Speaks::Http),
        hostname,
        odd_hostname: false,
        namespaces: Namespaces::Same,
        kinds: Box::default(),
        refused: None,
        misgated: None,
        unresolved: None,
        untrusted: None,
        conflict: None,
        overlaps: false,
        certificates: Vec::new(),
        lacks_secret: false,
        client: None,
        gate: Gate::default(),
    }
}

#[test]
fn one_that_is_refused_or_has_another_port_does_not_count() {
    let mut listeners = vec![listener(80, "*"), listener(80, "a.com"), listener(81, "b.com")];
    listeners[1].refused = Some(Refusal::new("UnsupportedValue", "no"));
    let hosts = PortHosts::of(&listeners);
    assert_eq!(hosts.narrower(&listeners[0]).count(), 0);
    assert_eq!((hosts.others(&listeners[0]).count(), hosts.count(&listeners[0])), (0, 1));
    assert!(!hosts.overlap(&listeners[0]));
}

/// Names with few labels, so that many of them are inside others.
fn names() -> impl Strategy<Value = BTreeSet<String>> {
    let label = prop::sample::select(vec!["a", "b", "ab", "a-b"]);
    let name = (any::<bool>(), prop::collection::vec(label, 1..4)).prop_map(|(wide, labels)| {
        let name = labels.join(".");
        if wide { format!("*.{name}") } else { name }
    });
    let any = Just("*".to_owned());
    prop::collection::btree_set(prop_oneof![6 => name, 1 => any], 1..12)
}

proptest! {
    #[test]
    fn what_is_inside_and_around_is_found_as_by_looking_at_all(names in names()) {
        let listeners: Vec<_> = names.iter().map(|name| listener(443, name)).collect();
        let hosts = PortHosts::of(&listeners);
        for listener in &listeners {
            let others = || listeners.iter().map(|other| &other.hostname).filter(|host| **host != listener.hostname);
            let inside: BTreeSet<_> = others().filter(|host| listener.hostname.covers(host)).collect();
            prop_assert_eq!(hosts.narrower(listener).collect::<BTreeSet<_>>(), inside);
            prop_assert_eq!(hosts.overlap(listener), others().any(|host| host.intersect(&listener.hostname).is_some()));
            prop_assert_eq!(hosts.others(listener).count(), listeners.len() - 1);
        }
    }
}
