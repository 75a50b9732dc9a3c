//! Addresses of resources against the operator's rules.

use super::*;
use crate::RawName;

fn rules(here: bool) -> RawRules {
    let closed = ClosedAddresses {
        listeners: ["0.0.0.0:18000".parse().unwrap(), "127.0.0.1:8082".parse().unwrap()].into(),
        machine: [[10, 0, 0, 7].into()].into(),
        services: [("chancery".into(), "chancery-system".into())].into(),
        ..ClosedAddresses::default()
    };
    RawRules {
        closed: closed.into(),
        here,
        claimed: None,
        folders: [PathBuf::from("/state")].into(),
        powers: Powers::default(),
    }
}

fn resource(host: &str, port: u16) -> RawResource {
    RawResource {
        id: RawName { message: "x", name: "x".into() },
        bytes: Arc::from([]),
        names: Vec::new(),
        parts: Vec::new(),
        says_more: false,
        tail: None,
        endpoints: None,
        slow: false,
        uses: Vec::new(),
        addresses: vec![RawAddress { host: host.into(), port, path: "p".into() }],
        sockets: Vec::new(),
        bound: Vec::new(),
    }
}

fn is_refused(rules: &RawRules, host: &str, port: u16) -> bool {
    !rules.refuse(&resource(host, port), || None).is_empty()
}

#[test]
fn own_and_link_local_addresses_are_refused_in_each_spelling() {
    let rules = rules(true);
    for (host, port) in [
        ("169.254.169.254", 80),
        ("[::ffff:169.254.169.254]", 80),
        ("0xa9fea9fe", 80),
        ("Metadata.google.internal.", 80),
        ("fe80::1%eth0", 0),
        ("127.0.0.1", 18_000),
        ("127.1", 18_000),
        ("localhost", 8_082),
        ("x.LOCALHOST.", 8_082),
        ("::", 18_000),
        ("10.0.0.7", 18_000),
        ("", 8_082),
    ] {
        assert!(is_refused(&rules, host, port), "{host} {port}");
    }
    for (host, port) in [("127.0.0.1", 8_080), ("localhost", 80), ("10.0.0.8", 18_000), ("a.example", 18_000), ("", 80)]
    {
        assert!(!is_refused(&rules, host, port), "{host} {port}");
    }
}

#[test]
fn loopback_of_a_proxy_elsewhere_is_its_own() {
    let rules = rules(false);
    for (host, port) in [("127.0.0.1", 18_000), ("localhost", 8_082), ("0.0.0.0", 18_000), ("", 8_082)] {
        assert!(!is_refused(&rules, host, port), "{host} {port}");
    }
    for (host, port) in
        [("10.0.0.7", 18_000), ("169.254.169.254", 80), ("chancery.chancery-system.svc.cluster.local", 18_000)]
    {
        assert!(is_refused(&rules, host, port), "{host} {port}");
    }
}

#[test]
fn each_fault_has_its_rule() {
    let rules = rules(true);
    let uses = vec![super::super::PowerUse { power: Power::Lua, what: "runs x".into(), path: "p".into() }];
    let sockets = vec![RawSocket { socket: "x.sock".into(), path: "p".into() }];
    for (resource, expected) in [
        (resource("10.0.0.7", 18_000), RawRefusal::OwnAddress),
        (resource("169.254.169.254", 80), RawRefusal::LinkLocal),
        (RawResource { uses, ..resource("10.0.0.8", 80) }, RawRefusal::Power),
        (RawResource { sockets, ..resource("10.0.0.8", 80) }, RawRefusal::Socket),
    ] {
        let found: Vec<_> = rules.refuse(&resource, || None).into_iter().map(|fault| fault.refusal).collect();
        assert_eq!(found, [Some(expected)]);
    }
}

#[test]
fn port_of_health_checks_counts_with_each_endpoint() {
    let rules = rules(false);
    let leads = |host: &str, port: u16, path: &str| RawAddress { host: host.into(), port, path: path.into() };
    let with = |address: &str, port: u16| {
        let check = leads("", port, "endpoint.health_check_config.port_value");
        let addresses = vec![leads("10.0.0.8", 80, "a"), leads(address, 1, "b"), check];
        RawResource { addresses, ..resource("", 0) }
    };
    for (address, port, expected) in
        [("10.0.0.7", 18_000, 1), ("10.0.0.7", 80, 0), ("10.0.0.9", 18_000, 0), ("127.0.0.1", 18_000, 0)]
    {
        let faults = rules.refuse(&with(address, port), || None);
        assert_eq!(faults.len(), expected, "{address} {port}: {faults:?}");
        assert!(faults.iter().all(|fault| fault.path.ends_with("port_value")), "{faults:?}");
    }
    // A patch that changes the endpoint alone, or the port alone, leads there too.
    for before in [("10.0.0.9", 18_000), ("10.0.0.7", 80)] {
        assert_eq!(rules.refuse(&with("10.0.0.7", 18_000), || Some(Arc::new(with(before.0, before.1)))).len(), 1);
    }
    assert!(rules.refuse(&with("10.0.0.7", 18_000), || Some(Arc::new(with("10.0.0.7", 18_000)))).is_empty());
}

#[test]
fn the_operator_allows_each_by_itself() {
    let mut rules = rules(true);
    rules.powers = Powers::default().with(Power::Admin);
    assert!(!is_refused(&rules, "127.0.0.1", 18_000));
    assert!(is_refused(&rules, "169.254.169.254", 80));
    Arc::make_mut(&mut rules.closed).link_local = true;
    assert!(!is_refused(&rules, "169.254.169.254", 80));
}

#[test]
fn what_was_there_before_a_change_is_not_refused() {
    let rules = rules(true);
    let before = |host: &str| Some(Arc::new(resource(host, 80)));
    assert!(rules.refuse(&resource("169.254.1.1", 80), || before("169.254.1.1")).is_empty());
    assert_eq!(rules.refuse(&resource("169.254.1.1", 80), || before("169.254.1.2")).len(), 1);
}

#[test]
fn sockets_of_chancery_are_refused_with_all_powers() {
    let mut rules = rules(true);
    rules.powers = Power::ALL.into_iter().collect();
    let uses = |socket: &str| {
        let sockets = vec![RawSocket { socket: socket.into(), path: "p".into() }];
        RawResource { sockets, ..resource("10.0.0.8", 80) }
    };
    for socket in [
        "admin.sock",
        "./admin.sock",
        "x/admin.sock",
        "/state/admin.sock",
        "/x/../state/a",
        "/proc/self/cwd/admin.sock",
        "",
    ] {
        let said = rules.refuse(&uses(socket), || None);
        assert!(said.iter().any(|fault| fault.text.contains("absolute path")), "{socket}: {said:?}");
        assert!(rules.refuse(&uses(socket), || Some(Arc::new(uses(socket)))).is_empty(), "{socket} was there before");
    }
    for socket in ["/run/app.sock", "@app"] {
        assert!(rules.refuse(&uses(socket), || None).is_empty(), "{socket}");
    }
}

#[test]
fn what_needs_several_powers_is_one_fault_with_all_of_them() {
    let used = |power, what: &str| super::super::PowerUse { power, what: what.into(), path: "p".into() };
    let mut uses: Vec<_> = Power::ALL.into_iter().map(|power| used(power, "does all")).collect();
    uses.push(used(Power::Lua, "runs x"));
    let resource = RawResource { uses, ..resource("10.0.0.8", 80) };
    let said = |powers: &[Power]| {
        let rules = RawRules { powers: powers.iter().copied().collect(), ..rules(true) };
        rules.refuse(&resource, || None).into_iter().map(|fault| fault.text.into_string()).collect::<Vec<_>>()
    };
    let none = said(&[]);
    assert_eq!(none.len(), 2);
    assert!(none[0].ends_with("--raw-resources files,environment,admin,lua,sockets"), "{none:?}");
    let some = said(&[Power::Files, Power::Lua]);
    assert_eq!(some.len(), 1);
    assert!(some[0].ends_with("--raw-resources environment,admin,sockets"), "{some:?}");
}

#[test]
fn ports_of_other_gateways_are_not_bound() {
    let bound = |host: &str, port| RawAddress { host: host.into(), port, path: "address.socketAddress".into() };
    let binding = |host: &str, port| RawResource { bound: vec![bound(host, port)], ..resource("10.0.0.8", 80) };
    let own = Arc::new(binding("127.0.0.2", 8443));
    let rules = RawRules { claimed: Some(Arc::new([8443, 9000].into())), ..rules(true) };
    for (host, port, is_refused) in [
        ("127.0.0.1", 8443, true),
        ("::", 9000, true),
        ("127.0.0.2", 9000, true),
        ("0.0.0.0", 0, true),
        // Of Chancery.
        ("127.0.0.1", 18000, true),
        ("0.0.0.0", 8444, false),
        // As without patches.
        ("127.0.0.2", 8443, false),
    ] {
        let faults = rules.refuse(&binding(host, port), || Some(Arc::clone(&own)));
        assert_eq!(!faults.is_empty(), is_refused, "{host} {port}: {faults:?}");
        assert!(
            faults.iter().all(|fault| &*fault.path == "address.socketAddress" && fault.text.contains("bind a port"))
        );
    }
    let elsewhere = RawRules { claimed: None, ..rules };
    assert!(elsewhere.refuse(&binding("::", 9000), || None).is_empty());
}
