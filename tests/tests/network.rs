//! What the machine does not give: ports that need a right, addresses that are not there yet. Each test has a network of its own.

#![expect(clippy::panic, reason = "a test fails by panicking")]

use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tests::backend::Backend;
use tests::client::{Answer, get};
use tests::objects::{documents, gateway, listeners, route, service};
use tests::ports::free_ports;
use tests::running::Running;
use tests::{namespace, wait};

/// `status/reason: message` of a condition: of the Gateway `edge`, or of one of its listeners.
fn condition(running: &Running, listener: Option<&str>, kind: &str) -> Option<String> {
    let told: Value = serde_json::from_str(&running.status(&["gateway", "default/edge", "-o", "json"]).ok()?).ok()?;
    let status = told.pointer("/0/status")?;
    let owner = match listener {
        None => status,
        Some(name) => status
            .get("listeners")?
            .as_array()?
            .iter()
            .find(|listener| listener.get("name").is_some_and(|it| it == name))?,
    };
    let found = owner
        .get("conditions")?
        .as_array()?
        .iter()
        .find(|condition| condition.get("type").is_some_and(|it| it == kind))?;
    let word = |field: &str| found.get(field).and_then(Value::as_str).unwrap_or_default();
    Some(format!("{}/{}: {}", word("status"), word("reason"), word("message")))
}

/// Waits until a condition begins with these words; gives it whole.
fn until_condition(running: &Running, listener: Option<&str>, kind: &str, wanted: &str) -> String {
    let mut last = None;
    let found = wait::until(&format!("{kind} {wanted}"), || {
        last = condition(running, listener, kind);
        last.clone().filter(|condition| condition.starts_with(wanted))
    });
    found.unwrap_or_else(|error| panic!("{error:#}; at last {last:?}"))
}

#[test]
fn a_port_that_needs_a_right_costs_that_listener_only_and_is_served_once_it_needs_none() {
    let name = "a_port_that_needs_a_right_costs_that_listener_only_and_is_served_once_it_needs_none";
    if !namespace::enter(name, &["net_bind_service"]).unwrap() {
        return;
    }
    let mut running = Running::prepare().unwrap();
    let [high] = free_ports().unwrap();
    let one = Backend::start("one").unwrap();
    let both = format!(
        "  - name: high\n    protocol: HTTP\n    port: {high}\n  - name: low\n    protocol: HTTP\n    port: 80\n"
    );
    let objects = documents([&*listeners(&both), &service("one", one.port), &route("shop", &[("/", "one")])]);
    running.write("all.yaml", &objects).unwrap();
    running.start().unwrap();
    let wanted = Answer { status: 200, body: "one".to_owned() };
    let until_answers = |port| {
        wait::until(&format!("an answer at {port}"), || get(port, "x.example", "/").ok().filter(|it| *it == wanted))
            .unwrap();
    };
    until_answers(high);
    let told = until_condition(&running, Some("low"), "Accepted", "False/PortUnavailable");
    for part in
        ["port 80 is below 1024", "use a higher port", "sysctl net.ipv4.ip_unprivileged_port_start=80", "setcap"]
    {
        assert!(told.contains(part), "{told:?} lacks {part:?}");
    }
    until_condition(&running, Some("low"), "Programmed", "False");
    until_condition(&running, Some("high"), "Accepted", "True");
    until_condition(&running, Some("high"), "Programmed", "True");
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, 80)).is_err(), "it was taken all the same");

    // The remedy of the message, in this network only; some containers have the file read-only.
    if std::fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "80").is_ok() {
        until_condition(&running, Some("low"), "Programmed", "True");
        until_answers(80);
        assert_eq!(get(high, "x.example", "/").unwrap(), wanted);
    }
}

#[test]
fn an_address_is_usable_as_long_as_it_is_there() {
    if !namespace::enter("an_address_is_usable_as_long_as_it_is_there", &[]).unwrap() {
        return;
    }
    let address = Ipv4Addr::new(192, 0, 2, 7);
    let mut running = Running::prepare().unwrap();
    let text = gateway(8080) + &format!("  addresses:\n  - value: {address}\n");
    running.write("gateway.yaml", &text).unwrap();
    running.start().unwrap();
    let told = until_condition(&running, None, "Programmed", "False/AddressNotAssigned");
    assert!(told.contains("192.0.2.7"), "{told}");
    namespace::add_address(address).unwrap();
    wait::until("a connection", || TcpStream::connect((address, 8080)).ok()).unwrap();
    until_condition(&running, None, "Programmed", "True");
    namespace::remove_address(address).unwrap();
    until_condition(&running, None, "Programmed", "False/AddressNotAssigned");

    // Nothing goes on at the address of before.
    let opens = || TcpStream::connect((Ipv4Addr::LOCALHOST, 8080)).ok();
    let bound = |address: Ipv4Addr| gateway(8080) + &format!("  addresses: [{{value: {address}}}]\n");
    running.write("gateway.yaml", &bound(Ipv4Addr::LOCALHOST)).unwrap();
    wait::until("a connection", opens).unwrap();
    until_condition(&running, None, "Programmed", "True");
    running.write("gateway.yaml", &bound(address)).unwrap();
    wait::until("no connection", || opens().is_none().then_some(())).unwrap();
    until_condition(&running, None, "Programmed", "False/AddressNotAssigned");
}

#[test]
fn addresses_come_and_go_beside_those_that_stay() {
    if !namespace::enter("addresses_come_and_go_beside_those_that_stay", &[]).unwrap() {
        return;
    }
    let [one, two, absent] = [[127, 0, 0, 1], [127, 0, 0, 2], [192, 0, 2, 7]].map(Ipv4Addr::from);
    let mut running = Running::prepare().unwrap();
    let bind = |running: &Running, addresses: &[Ipv4Addr]| {
        let entries: String = addresses.iter().map(|address| format!("  - value: {address}\n")).collect();
        let addresses = if addresses.is_empty() { String::new() } else { format!("  addresses:\n{entries}") };
        running.write("gateway.yaml", &(gateway(8080) + &addresses)).unwrap();
    };
    let opens = |address| TcpStream::connect((address, 8080)).is_ok();
    let until = |expected: [bool; 2]| {
        let found = || ([one, two].map(opens) == expected).then_some(());
        wait::until(&format!("127.0.0.1 and 127.0.0.2 open: {expected:?}"), found).unwrap();
    };
    bind(&running, &[]);
    running.start().unwrap();
    until([true, true]);
    // All become one, and one becomes all: the sockets are in each other's way.
    bind(&running, &[one]);
    until([true, false]);
    bind(&running, &[]);
    until([true, true]);
    bind(&running, &[two]);
    until([false, true]);
    // What stays is not touched.
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let steady = scope.spawn(|| {
            let mut refused = 0;
            while !stop.load(Ordering::Relaxed) {
                refused += u32::from(!opens(two));
                thread::sleep(Duration::from_millis(1));
            }
            refused
        });
        for _ in 0..3 {
            bind(&running, &[one, two]);
            until([true, true]);
            bind(&running, &[two]);
            until([false, true]);
        }
        bind(&running, &[two, absent]);
        until_condition(&running, None, "AddressesAssigned", "False/PartiallyAssigned");
        stop.store(true, Ordering::Relaxed);
        assert_eq!(steady.join().unwrap(), 0, "connections were refused");
    });
    until_condition(&running, None, "Programmed", "False/AddressNotUsable");
    until_condition(&running, Some("http"), "Programmed", "True");
    bind(&running, &[absent]);
    until_condition(&running, Some("http"), "Programmed", "False/Pending: none of its addresses is on this machine");
}
