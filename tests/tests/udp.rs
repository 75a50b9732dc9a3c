//! Datagrams: UDPRoute from files, through a real Envoy to servers that say who they are.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use tests::datagrams::{ANSWERED, Echo, ask, ask_all, datagrams, paced};
use tests::objects::{documents, listeners};
use tests::ports::free_ports;
use tests::prober::Prober;
use tests::running::Running;
use tests::wait;

fn until(port: u16, expected: Option<&str>) {
    wait::until(&format!("{expected:?}"), || (ask(port).as_deref() == expected).then_some(())).unwrap();
}

fn route(name: &str, section: &str, backends: &[(&str, u32)]) -> String {
    let backends: Vec<_> =
        backends.iter().map(|(name, weight)| format!("{{name: {name}, port: 80, weight: {weight}}}")).collect();
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: UDPRoute\nmetadata: {{name: {name}}}\nspec:\n  \
         parentRefs: [{{name: edge, sectionName: {section}}}]\n  rules:\n  - backendRefs: [{}]\n",
        backends.join(", ")
    )
}

struct World {
    running: Running,
    ports: [u16; 3],
    servers: [Echo; 2],
}

impl World {
    fn start() -> Self {
        let servers = [Echo::start("one").unwrap(), Echo::start("two").unwrap()];
        let running = Running::prepare().unwrap();
        let ports = free_ports().unwrap();
        let all = [datagrams("one", servers[0].port), datagrams("two", servers[1].port)];
        running.write("all.yaml", &documents(all.iter().map(String::as_str))).unwrap();
        running.write("a.yaml", &route("a", "a", &[("one", 1)])).unwrap();
        running.write("0.yaml", &route("0a", "elsewhere", &[("two", 1)])).unwrap();
        let world = Self { running, ports, servers };
        world.listen(&["a", "b"]);
        let Self { mut running, ports, servers } = world;
        running.start().unwrap();
        Self { running, ports, servers }
    }

    /// The Gateway has these of three listeners, and one for HTTP on the port of the first.
    fn listen(&self, names: &[&str]) {
        let numbered = ["a", "b", "c"].into_iter().zip(self.ports).filter(|(name, _)| names.contains(name));
        let all: String =
            numbered.map(|(name, port)| format!("  - {{name: {name}, port: {port}, protocol: UDP}}\n")).collect();
        let http = format!("  - {{name: t, port: {}, protocol: HTTP}}\n", self.ports[0]);
        self.running.write("gateway.yaml", &listeners(&(all + &http))).unwrap();
    }
}

#[test]
fn datagrams_go_where_the_first_route_of_their_listener_says() {
    let world = World::start();
    let [a, b, _] = world.ports;
    until(a, Some("one"));
    assert_eq!(ask(b), None, "no route");
    world.running.write("b.yaml", &route("b", "b", &[("two", 1)])).unwrap();
    until(b, Some("two"));
    // of two the first counts, and there is no answer of the other
    world.running.write("z.yaml", &route("z", "a", &[("two", 1)])).unwrap();
    wait::until("both", || world.running.status(&["-o", "yaml"]).unwrap().contains("attachedRoutes: 2").then_some(()))
        .unwrap();
    assert_eq!(ask_all(a, 20).unwrap(), vec![Some("one".to_owned()); 20]);
    world.running.remove("a.yaml").unwrap();
    until(a, Some("two"));
    world.running.remove("b.yaml").unwrap();
    until(b, None);
}

#[test]
fn shares_are_those_of_backends_and_that_of_a_broken_one_is_dropped() {
    let world = World::start();
    let [a, ..] = world.ports;
    world.running.write("a.yaml", &route("a", "a", &[("one", 7), ("two", 3), ("nowhere", 10)])).unwrap();
    until(a, None);
    let mut seen: BTreeMap<Option<String>, u32> = BTreeMap::new();
    ask_all(a, 100).unwrap().into_iter().for_each(|answer| *seen.entry(answer).or_default() += 1);
    let of = |name: Option<&str>| seen.get(&name.map(str::to_owned)).copied().unwrap_or_default();
    assert!((40..60).contains(&of(None)), "{seen:?}");
    assert!((25..45).contains(&of(Some("one"))) && (8..22).contains(&of(Some("two"))), "{seen:?}");
}

/// The same Service in another namespace, and a route to it from here.
fn elsewhere(name: &str, port: u16) -> [String; 2] {
    let named = |text: String, name: &str| {
        text.replace(&format!("  name: {name}\n"), &format!("  name: {name}\n  namespace: far\n"))
    };
    let service = named(named(datagrams(name, port), name), &format!("{name}-1"));
    let route = route("b", "b", &[(name, 1)]).replace("port: 80", "namespace: far, port: 80");
    [service, route]
}

const GRANT: &str = "apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\nmetadata: {name: g, namespace: far}\nspec:\n  \
                     from: [{group: gateway.networking.k8s.io, kind: UDPRoute, namespace: default}]\n  to: [{group: \"\", kind: Service}]\n";

#[test]
fn no_datagram_is_lost_while_all_around_its_route_changes() {
    let world = World::start();
    let [a, b, c] = world.ports;
    until(a, Some("one"));
    let [service, far] = elsewhere("two", world.servers[1].port);
    world.running.write("far.yaml", &service).unwrap();
    let prober = Prober::default();
    thread::scope(|threads| {
        let _asking = prober.until_dropped();
        let answer = |_: &str| paced(a);
        let prober = &prober;
        threads.spawn(move || prober.run(answer, &[("a", &["one"])]));
        // another route, its backends, and their order
        world.running.write("b.yaml", &route("b", "b", &[("two", 1)])).unwrap();
        until(b, Some("two"));
        world.running.write("b.yaml", &route("b", "b", &[("one", 1), ("two", 0)])).unwrap();
        until(b, Some("one"));
        world.running.write("b.yaml", &route("b", "b", &[("two", 1), ("one", 0)])).unwrap();
        until(b, Some("two"));
        // a grant
        world.running.write("b.yaml", &far).unwrap();
        until(b, None);
        world.running.write("grant.yaml", GRANT).unwrap();
        until(b, Some("two"));
        world.running.remove("grant.yaml").unwrap();
        until(b, None);
        // a listener with its route
        world.listen(&["a", "b", "c"]);
        world.running.write("c.yaml", &route("c", "c", &[("two", 1)])).unwrap();
        until(c, Some("two"));
        world.listen(&["a"]);
        world.running.remove("c.yaml").unwrap();
        until(c, None);
        world.listen(&["a", "b"]);
        // one behind the route, which does not count
        world.running.write("z.yaml", &route("z", "a", &[("two", 1)])).unwrap();
        world.running.remove("b.yaml").unwrap();
        until(b, None);
        world.running.remove("z.yaml").unwrap();
        prober.more(3).unwrap();
    });
    let (asked, wrong) = prober.told();
    assert!(wrong.is_empty(), "{wrong:?} of {asked}");
}

#[test]
fn an_answer_under_way_arrives_though_its_endpoint_is_gone() {
    let world = World::start();
    let [a, ..] = world.ports;
    until(a, Some("one"));
    // a server whose answer waits until somebody lets it go
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(ANSWERED)).unwrap();
    let asked = || {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(("127.0.0.1", a)).unwrap();
        client.set_read_timeout(Some(ANSWERED)).unwrap();
        // before it there are those of whoever asked meanwhile
        client.send(b"me").unwrap();
        let mut room = [0; 64];
        loop {
            let (length, from) = server.recv_from(&mut room).unwrap();
            if room.get(..length) == Some(b"me") {
                break (client, from);
            }
        }
    };
    let answered = |client: &UdpSocket, from| {
        server.send_to(b"slow", from).unwrap();
        let mut room = [0; 64];
        let length = client.recv(&mut room).unwrap_or_default();
        assert_eq!(room.get(..length).unwrap(), b"slow");
    };
    let slow = documents([&*datagrams("slow", server.local_addr().unwrap().port())]);
    let leads = |backends: &[(&str, u32)]| world.running.write("a.yaml", &route("a", "a", backends)).unwrap();
    world.running.write("slow.yaml", &slow).unwrap();
    leads(&[("slow", 1)]);
    wait::until("a way to the slow server", || {
        let client = UdpSocket::bind("127.0.0.1:0").ok()?;
        client.connect(("127.0.0.1", a)).ok()?;
        client.send(b"way").ok()?;
        server.set_read_timeout(Some(Duration::from_millis(50))).ok()?;
        let found = server.recv_from(&mut [0; 64]).ok();
        server.set_read_timeout(Some(ANSWERED)).ok()?;
        found
    })
    .unwrap();
    // another backend; another share of it; none at all
    let (client, from) = asked();
    leads(&[("one", 1)]);
    until(a, Some("one"));
    answered(&client, from);
    leads(&[("slow", 1)]);
    until(a, None);
    let (client, from) = asked();
    leads(&[("one", 1), ("slow", 0)]);
    until(a, Some("one"));
    answered(&client, from);
    leads(&[("slow", 1)]);
    until(a, None);
    let (client, from) = asked();
    world.running.remove("a.yaml").unwrap();
    // what changed later is there, and so is this
    world.running.write("b.yaml", &route("b", "b", &[("one", 1)])).unwrap();
    until(world.ports[1], Some("one"));
    answered(&client, from);
}

#[test]
fn while_its_own_route_changes_one_of_its_backends_answers() {
    let world = World::start();
    let [a, ..] = world.ports;
    until(a, Some("one"));
    let prober = Prober::default();
    thread::scope(|threads| {
        let _asking = prober.until_dropped();
        let answer = |_: &str| paced(a);
        let prober = &prober;
        threads.spawn(move || prober.run(answer, &[("a", &["one", "two"])]));
        for _ in 0..5 {
            world.running.write("a.yaml", &route("a", "a", &[("two", 1)])).unwrap();
            until(a, Some("two"));
            world.running.write("a.yaml", &route("a", "a", &[("one", 1), ("two", 1)])).unwrap();
            until(a, Some("one"));
            // one that comes first takes its place, and gives it back
            world.running.write("0.yaml", &route("0a", "a", &[("two", 1)])).unwrap();
            world.running.write("a.yaml", &route("a", "a", &[("one", 1)])).unwrap();
            until(a, Some("two"));
            world.running.write("0.yaml", &route("0a", "elsewhere", &[("two", 1)])).unwrap();
            until(a, Some("one"));
            prober.more(3).unwrap();
        }
    });
    let (asked, wrong) = prober.told();
    assert!(wrong.is_empty(), "{wrong:?} of {asked}");
}

/// Whether a datagram to an address that nobody asks for is answered.
fn answers_elsewhere(port: u16) -> bool {
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    client.send_to(b"?", ("127.0.0.3", port)).unwrap();
    client.recv(&mut [0; 64]).is_ok()
}

/// Envoy keeps the sockets of a listener that is gone, and reads nothing from them.
#[test]
fn a_port_gets_all_datagrams_when_it_has_moved() {
    let World { running, ports: [a, b, _], servers: _servers } = World::start();
    let [one, two] = ["one", "two"].map(|name| Some(name.to_owned()));
    let other = |text: &str| text.replace("name: edge", "name: other");
    let gateway = |listened: &[u16], addresses: &str| {
        let one = |port: &u16| format!("  - {{name: l{port}, port: {port}, protocol: UDP}}\n");
        listeners(&listened.iter().map(one).collect::<String>()) + addresses
    };
    running.write("a.yaml", &route("a", &format!("l{a}"), &[("one", 1)])).unwrap();
    running.write("b.yaml", &other(&route("b", &format!("l{a}"), &[("two", 1)]))).unwrap();
    let both = |first: &[u16], second: &[u16]| {
        let gateways = [gateway(first, ""), other(&gateway(second, ""))];
        running.write("gateway.yaml", &documents(gateways.iter().map(String::as_str))).unwrap();
    };
    let all = |from: &Option<String>| {
        let found = || ask_all(a, 20).ok().filter(|answers| answers.iter().all(|answer| answer == from));
        wait::until(&format!("all answers from {from:?}"), found).unwrap();
    };
    // From one Gateway to the other, and back.
    both(&[a], &[b]);
    all(&one);
    both(&[b], &[a]);
    all(&two);
    both(&[a], &[b]);
    all(&one);
    // From one address to every interface, over several.
    for addresses in [&["127.0.0.1"][..], &["127.0.0.1", "127.0.0.2"], &["127.0.0.1"], &[]] {
        let entries = addresses.iter().map(|address| format!("{{value: {address}}}")).collect::<Vec<_>>().join(", ");
        running.write("gateway.yaml", &gateway(&[a], &format!("  addresses: [{entries}]\n"))).unwrap();
        let settled = format!("another address answers: {}", addresses.is_empty());
        wait::until(&settled, || (answers_elsewhere(a) == addresses.is_empty()).then_some(())).unwrap();
        all(&one);
    }
}
