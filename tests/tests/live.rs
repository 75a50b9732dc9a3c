//! The main job end to end: a folder of YAML, a real Envoy, real requests, edits while they run.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::net::TcpListener;

use nix::sys::signal::{Signal, kill};
use tests::backend::Backend;
use tests::certificate::{Pair, self_signed};
use tests::client::{Answer, Kept, get, get_tls};
use tests::objects::{documents, gateway, listeners, route, service, tls_secret};
use tests::ports::free_ports;
use tests::prober::{Prober, over_kept_tls};
use tests::running::Running;
use tests::{binary, wait};

fn answer(body: &str) -> Answer {
    Answer { status: 200, body: body.to_owned() }
}

/// Two backends and a running Chancery with a Gateway, their services and a route of two rules.
fn started() -> (Running, u16, Backend, Backend) {
    let mut running = Running::prepare().unwrap();
    let [port] = free_ports().unwrap();
    let (one, two) = (Backend::start("one").unwrap(), Backend::start("two").unwrap());
    running.write("gateway.yaml", &gateway(port)).unwrap();
    running.write("services.yaml", &documents([&*service("one", one.port), &service("two", two.port)])).unwrap();
    running.write("routes.yaml", &route("shop", &[("/a", "one"), ("/b", "two")])).unwrap();
    running.start().unwrap();
    until_answers(port, "/a", &answer("one"));
    (running, port, one, two)
}

fn until_answers(port: u16, path: &str, wanted: &Answer) {
    wait::until(&format!("{wanted:?} at {path}"), || {
        get(port, "x.example", path).ok().filter(|answer| answer == wanted)
    })
    .unwrap();
}

#[test]
fn a_folder_is_served_and_an_edit_is_live() {
    let (running, port, _one, _two) = started();
    assert_eq!(get(port, "x.example", "/b/c").unwrap(), answer("two"));
    assert_eq!(get(port, "x.example", "/c").unwrap().status, 404);
    running.write("routes.yaml", &route("shop", &[("/c", "one")])).unwrap();
    until_answers(port, "/c", &answer("one"));
    assert_eq!(get(port, "x.example", "/a").unwrap().status, 404);
    let status = running.status(&["-o", "wide"]).unwrap();
    assert!(status.contains("default/shop") && status.contains("Programmed"), "{status}");
}

#[test]
fn a_broken_file_is_named_with_its_line_while_traffic_goes_on() {
    let (running, port, _one, _two) = started();
    let good = route("shop", &[("/a", "one"), ("/b", "two")]);
    running.write("routes.yaml", &format!("{good}  hostnames: [\n")).unwrap();
    let told =
        wait::until("the problem", || running.status(&["problems"]).ok().filter(|text| text.contains("routes.yaml:")))
            .unwrap();
    assert!(told.contains('^'), "no caret: {told}");
    assert_eq!(get(port, "x.example", "/a").unwrap(), answer("one"));
    running.write("routes.yaml", &good).unwrap();
    wait::until("the problem to go", || {
        running.status(&["problems"]).ok().filter(|text| !text.contains("routes.yaml:"))
    })
    .unwrap();
}

#[test]
fn a_killed_envoy_comes_back_by_itself() {
    let (running, port, _one, _two) = started();
    let before = running.envoys();
    assert_eq!(before.len(), 1);
    kill(before[0], Signal::SIGKILL).unwrap();
    wait::until("another Envoy", || running.envoys().into_iter().find(|pid| *pid != before[0])).unwrap();
    until_answers(port, "/a", &answer("one"));
}

#[test]
fn envoy_serves_on_without_chancery_and_is_taken_over_by_the_next() {
    let (mut running, port, _one, _two) = started();
    let before = running.envoys();
    running.kill_chancery().unwrap();
    // it logs while nobody reads: neither a broken pipe nor a full one may stop it
    running.trace_envoys().unwrap();
    for _ in 0..50 {
        assert_eq!(get(port, "x.example", "/a").unwrap(), answer("one"));
    }
    assert!(running.logged_by_envoys() > 1 << 16);
    running.write("routes.yaml", &route("shop", &[("/a", "two")])).unwrap();
    running.start().unwrap();
    until_answers(port, "/a", &answer("two"));
    assert_eq!(running.envoys(), before, "the Envoy was not taken over");
}

#[test]
fn envoy_serves_on_while_the_folder_is_not_there_for_the_next_chancery() {
    let (mut running, port, _one, _two) = started();
    let before = running.envoys();
    running.kill_chancery().unwrap();
    let aside = running.conf().with_file_name("aside");
    std::fs::rename(running.conf(), &aside).unwrap();
    running.begin().unwrap();
    let told = || Some(running.status(&["problems"]).ok()?).filter(|text| text.contains("waiting for it"));
    let told = wait::until("the problem", told).unwrap();
    assert!(told.contains("no such file or directory") && told.contains("conf"), "{told}");
    assert!(!running.ready_file().exists(), "{}", running.log());
    assert_eq!(get(port, "x.example", "/a").unwrap(), answer("one"));
    std::fs::rename(&aside, running.conf()).unwrap();
    running.until_ready().unwrap();
    running.write("routes.yaml", &route("shop", &[("/a", "two")])).unwrap();
    until_answers(port, "/a", &answer("two"));
    assert_eq!(running.envoys(), before, "the Envoy was not taken over");
}

#[test]
fn a_state_folder_that_was_deleted_is_made_again_while_traffic_goes_on() {
    let (running, port, _one, _two) = started();
    std::fs::remove_dir_all(running.state()).unwrap();
    running.write("routes.yaml", &route("shop", &[("/a", "two")])).unwrap();
    until_answers(port, "/a", &answer("two"));
    for envoy in running.envoys() {
        kill(envoy, Signal::SIGKILL).unwrap();
    }
    wait::until("another Envoy's answer", || get(port, "x.example", "/a").ok().filter(|got| *got == answer("two")))
        .unwrap();
    running.write("routes.yaml", &route("shop", &[("/a", "one")])).unwrap();
    until_answers(port, "/a", &answer("one"));
    wait::until("status", || running.status(&[]).ok().filter(|text| text.contains("default/shop"))).unwrap();
    wait::until("the lock", || running.state().join("lock").exists().then_some(())).unwrap();
    a_second_process_says_so_and_ends(&running);
}

#[test]
fn a_second_process_on_one_state_folder_says_so_and_ends() {
    let (running, _port, _one, _two) = started();
    a_second_process_says_so_and_ends(&running);
}

#[test]
fn load_reports_come_and_go_without_another_envoy_and_what_brings_one_is_told() {
    let (mut running, port, _one, _two) = started();
    let envoys = running.envoys();
    running.kill_chancery().unwrap();
    running = running.with(&["--load-reports", "100ms"]);
    running.start().unwrap();
    until_answers(port, "/a", &answer("one"));
    let load = || running.asked("/load").filter(|answer| answer.contains("default/one")).map(drop);
    wait::until("a load report", || get(port, "x.example", "/a").ok().and_then(|_| load())).unwrap();
    assert_eq!(running.envoys(), envoys, "{}", running.log());
    let proxy =
        "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: EnvoyProxy\nmetadata:\n  name: p\nspec:\n  concurrency: 1\n";
    let named = gateway(port)
        + "  infrastructure:\n    parametersRef: {group: gateway.envoyproxy.io, kind: EnvoyProxy, name: p}\n";
    running.write("gateway.yaml", &documents([&*named, proxy])).unwrap();
    let told = "replaces envoy: it would be started otherwise now";
    wait::until("the reason", || running.log().contains(told).then_some(())).unwrap();
    assert!(running.log().contains("Envoy itself, or its arguments"), "{}", running.log());
}

fn a_second_process_says_so_and_ends(running: &Running) {
    let (conf, state) = (running.conf().display().to_string(), running.state().display().to_string());
    let second = binary::run(["run", "--dir", &conf, "--state-dir", &state], "").unwrap();
    assert_eq!(second.status.code(), Some(1));
    let words = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(words.contains(&running.pid().unwrap().to_string()), "{words}");
}

#[test]
fn a_port_that_somebody_else_holds_costs_that_listener_only() {
    let mut running = Running::prepare().unwrap();
    let taken = TcpListener::bind(("0.0.0.0", 0)).unwrap();
    let [port] = free_ports().unwrap();
    let held = taken.local_addr().unwrap().port();
    let one = Backend::start("one").unwrap();
    let both = format!(
        "  - name: good\n    protocol: HTTP\n    port: {port}\n  - name: held\n    protocol: HTTP\n    port: {held}\n"
    );
    running
        .write("all.yaml", &documents([&*listeners(&both), &service("one", one.port), &route("shop", &[("/", "one")])]))
        .unwrap();
    running.start().unwrap();
    until_answers(port, "/", &answer("one"));
    let shown = wait::until("the condition", || {
        running
            .status(&["gateway", "-o", "yaml"])
            .ok()
            .filter(|text| text.contains("in use") || text.contains("PortUnavailable"))
    });
    assert!(shown.is_ok(), "{}", running.status(&["-o", "yaml"]).unwrap());
    let told = running.status(&["problems"]).unwrap();
    assert!(told.contains("spec.listeners[1].port") && !told.contains("spec.listeners[0]"), "{told}");
    drop(taken);
}

#[test]
fn a_rotated_certificate_is_served_without_a_failed_handshake() {
    let mut running = Running::prepare().unwrap();
    let [port] = free_ports().unwrap();
    let one = Backend::start("one").unwrap();
    let pairs = [self_signed(&["x.example"], false).unwrap(), self_signed(&["x.example"], false).unwrap()];
    let https = format!(
        "  - name: https\n    protocol: HTTPS\n    port: {port}\n    tls:\n      certificateRefs:\n      - name: cert\n"
    );
    running
        .write(
            "all.yaml",
            &documents([&*listeners(&https), &service("one", one.port), &route("shop", &[("/", "one")])]),
        )
        .unwrap();
    running.write("cert.yaml", &tls_secret("cert", &pairs[0].certificate, &pairs[0].key)).unwrap();
    running.start().unwrap();
    let both = [&*pairs[0].certificate, &*pairs[1].certificate];
    let served = || get_tls(port, "x.example", "/", &both);
    wait::until("the first certificate", || served().ok().filter(|(_, which)| *which == 0)).unwrap();
    for turn in 1..20 {
        let new = turn % 2;
        running.write("cert.yaml", &tls_secret("cert", &pairs[new].certificate, &pairs[new].key)).unwrap();
        // No handshake fails meanwhile: each of these must succeed with one of the two.
        wait::until("the other certificate", || Some(served().unwrap()).filter(|(_, which)| *which == new)).unwrap();
    }
}

#[test]
fn a_kept_connection_has_its_routes_until_it_is_closed_also_when_another_listener_takes_its_host() {
    let mut running = Running::prepare().unwrap();
    let [port] = free_ports().unwrap();
    let one = Backend::start("one").unwrap();
    let pair = self_signed(&["x.example"], false).unwrap();
    let https = |name: &str, hostname: &str| {
        let tls = "tls:\n      certificateRefs:\n      - name: cert\n";
        format!("  - name: {name}\n    protocol: HTTPS\n    port: {port}\n{hostname}    {tls}")
    };
    let rest = [service("one", one.port), route("shop", &[("/", "one")])];
    let [all, inside] = [https("all", ""), https("inside", "    hostname: x.example\n")];
    running.write("all.yaml", &documents([&*listeners(&all), &rest[0], &rest[1]])).unwrap();
    running.write("cert.yaml", &tls_secret("cert", &pair.certificate, &pair.key)).unwrap();
    running.start().unwrap();
    let known = [&*pair.certificate];
    wait::until("an answer", || get_tls(port, "x.example", "/", &known).ok()).unwrap();
    let mut kept = Kept::connect(port, "x.example", &known).unwrap();
    assert_eq!(kept.get_and_tell("x.example", "/").unwrap(), (answer("one"), false));
    running.write("all.yaml", &documents([&*listeners(&(all + &inside)), &rest[0], &rest[1]])).unwrap();
    // every answer is right, and one of the next ones is the last
    wait::until("the end of the connection", || {
        let (answered, last) = kept.get_and_tell("x.example", "/").unwrap();
        assert_eq!(answered, answer("one"));
        last.then_some(())
    })
    .unwrap();
    assert_eq!(get_tls(port, "x.example", "/", &known).unwrap().0, answer("one"));
}

/// How many edits the test makes; by hand `EDITS=1000`.
fn edits() -> usize {
    std::env::var_os("EDITS").and_then(|text| text.to_str()?.parse().ok()).unwrap_or(120)
}

/// An HTTPS listener whose certificate is the one or the other.
struct Https {
    port: u16,
    pairs: [Pair; 2],
}

impl Https {
    fn listener(&self) -> String {
        let tls = "tls:\n      certificateRefs:\n      - name: cert\n";
        format!("  - name: https\n    protocol: HTTPS\n    port: {}\n    {tls}", self.port)
    }

    fn certificates(&self) -> [&str; 2] {
        [&self.pairs[0].certificate, &self.pairs[1].certificate]
    }

    fn rotate(&self, running: &Running, to: usize) {
        running.write("cert.yaml", &tls_secret("cert", &self.pairs[to].certificate, &self.pairs[to].key)).unwrap();
        let shown = || get_tls(self.port, "x.example", "/steady", &self.certificates()).ok();
        wait::until("the other certificate", || shown().filter(|(_, which)| *which == to)).unwrap();
    }
}

#[test]
fn no_answer_is_wrong_while_routes_rules_backends_and_certificates_are_added_changed_reordered_and_removed() {
    let (running, port, one, two) = started();
    let pair = || self_signed(&["x.example"], false).unwrap();
    let https = Https { port: free_ports::<1>().unwrap()[0], pairs: [pair(), pair()] };
    running.write("gateway.yaml", &(gateway(port) + &https.listener())).unwrap();
    let more: Vec<Backend> = (0..4).map(|index| Backend::start(&format!("more{index}")).unwrap()).collect();
    let prober = Prober::default();
    let allowed: &[(&str, &[&str])] = &[
        ("/steady", &["one"]),
        ("/flip", &["one", "two"]),
        ("/a", &["one"]),
        ("/b", &["two"]),
        ("/come", &["404", "more0", "more1", "more2", "more3"]),
    ];
    running.write("steady.yaml", &route("steady", &[("/steady", "one"), ("/flip", "one")])).unwrap();
    until_answers(port, "/flip", &answer("one"));
    until_answers(port, "/steady", &answer("one"));
    https.rotate(&running, 0);
    let certificates = https.certificates();
    let fresh = |path: &str| Ok(get_tls(https.port, "x.example", path, &certificates)?.0);
    std::thread::scope(|scope| {
        let _asking = prober.until_dropped();
        scope.spawn(|| prober.run(|path| get(port, "x.example", path), allowed));
        scope.spawn(|| prober.run(fresh, allowed));
        scope.spawn(|| prober.run(over_kept_tls(https.port, &certificates), allowed));
        for edit in 0..edits() {
            match edit % 7 {
                6 => https.rotate(&running, (edit / 7 + 1) % 2),
                kind => one_edit(&running, port, (edit, kind), &more),
            }
        }
    });
    let (asked, wrong) = prober.told();
    assert!(wrong.is_empty(), "{asked} requests, wrong: {wrong:#?}");
    assert!(asked > 100);
    drop((one, two));
}

#[test]
fn a_service_that_is_renamed_together_with_its_route_costs_no_request() {
    let mut running = Running::prepare().unwrap();
    let [port] = free_ports().unwrap();
    let both = [Backend::start("one").unwrap(), Backend::start("two").unwrap()];
    let renamed = |turn: usize| {
        let name = format!("s{turn}");
        documents([&*service(&name, both[turn % 2].port), &route("shop", &[("/", &name)])])
    };
    running.write("gateway.yaml", &gateway(port)).unwrap();
    running.write("shop.yaml", &renamed(0)).unwrap();
    running.start().unwrap();
    until_answers(port, "/", &answer("one"));
    let prober = Prober::default();
    std::thread::scope(|scope| {
        let _asking = prober.until_dropped();
        scope.spawn(|| prober.run(|path| get(port, "x.example", path), &[("/", &["one", "two"])]));
        for turn in 1..20 {
            running.write("shop.yaml", &renamed(turn)).unwrap();
            until_answers(port, "/", &answer(&both[turn % 2].name));
        }
    });
    let (asked, wrong) = prober.told();
    assert!(wrong.is_empty(), "{asked} requests, wrong: {wrong:#?}");
}

/// Edit number `edit`, of a kind; returns when it is in effect.
fn one_edit(running: &Running, port: u16, (edit, kind): (usize, usize), more: &[Backend]) {
    let backend = &more[edit / 7 % more.len()];
    match kind {
        0 => {
            running.write("routes.yaml", &route("shop", &[("/b", "two"), ("/a", "one")])).unwrap();
            running.write("steady.yaml", &route("steady", &[("/flip", "two"), ("/steady", "one")])).unwrap();
            until_answers(port, "/flip", &answer("two"));
        }
        1 => {
            // A new service and a route to it: the first answer that is not 404 is a 200.
            running.write("more.yaml", &service(&backend.name, backend.port)).unwrap();
            running.write("come.yaml", &route("come", &[("/come", &backend.name)])).unwrap();
            until_answers(port, "/come", &answer(&backend.name));
        }
        2 => {
            running.write("steady.yaml", &route("steady", &[("/steady", "one"), ("/flip", "one")])).unwrap();
            until_answers(port, "/flip", &answer("one"));
        }
        3 => {
            running
                .write("routes.yaml", &route("shop", &[("/a", "one"), ("/b", "two"), (&format!("/x{edit}"), "one")]))
                .unwrap();
            until_answers(port, &format!("/x{edit}"), &answer("one"));
        }
        4 => {
            running.remove("come.yaml").unwrap();
            wait::until("/come to be gone", || {
                get(port, "x.example", "/come").ok().filter(|answer| answer.status == 404)
            })
            .unwrap();
        }
        _ => running.remove("more.yaml").unwrap(),
    }
}

#[test]
fn a_gateway_that_goes_and_comes_back_at_once_serves() {
    let (running, port, _one, _two) = started();
    for _ in 0..5 {
        // Gone in one change of the folder, back in the next, while its proxy is still on its way out.
        running.write("gateway.yaml", "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: other\n").unwrap();
        let gone = |table: &String| !table.lines().any(|line| line.starts_with("Gateway "));
        wait::until("the Gateway to be gone", || running.status(&[]).ok().filter(gone)).unwrap();
        running.write("gateway.yaml", &gateway(port)).unwrap();
        until_answers(port, "/a", &answer("one"));
    }
}

#[test]
fn a_host_that_is_written_in_another_way_has_the_routes_of_its_own_listener() {
    let mut running = Running::prepare().unwrap();
    let [port] = free_ports().unwrap();
    let (one, two) = (Backend::start("one").unwrap(), Backend::start("two").unwrap());
    let all = format!("  - {{name: all, port: {port}, protocol: HTTP}}\n");
    let inside = format!("  - {{name: inside, port: {port}, protocol: HTTP, hostname: inside.example}}\n");
    let on = |name: &str, section: &str, service: &str| {
        route(name, &[("/", service)]).replace("name: edge", &format!("name: edge\n    sectionName: {section}"))
    };
    let rest =
        [service("one", one.port), service("two", two.port), on("one", "all", "one"), on("two", "inside", "two")];
    let parts = [listeners(&(all + &inside))].into_iter().chain(rest).collect::<Vec<_>>();
    running.write("all.yaml", &documents(parts.iter().map(String::as_str))).unwrap();
    running.start().unwrap();
    let body = |host: &str| get(port, host, "/").ok().map(|answer| answer.body);
    wait::until("an answer", || body("inside.example").filter(|body| body == "two")).unwrap();
    for host in
        ["inside.example.", "Inside.EXAMPLE", &format!("inside.example:{port}"), &format!("inside.example.:{port}")]
    {
        assert_eq!(body(host).as_deref(), Some("two"), "{host}");
    }
    assert_eq!(body("beside.example.").as_deref(), Some("one"));
}

/// GEP-3567, over HTTP/1.1; the suite and its twin ask over HTTP/2.
#[test]
fn a_request_on_a_connection_that_was_opened_for_another_listener_gets_421() {
    let mut running = Running::prepare().unwrap();
    let [port] = free_ports().unwrap();
    let one = Backend::start("one").unwrap();
    let pair = self_signed(&["a.example", "b.example", "c.example"], false).unwrap();
    let https = |name: &str| {
        let tls = "tls: {certificateRefs: [{name: cert}]}";
        format!("  - {{name: {name}, protocol: HTTPS, port: {port}, hostname: {name}.example, {tls}}}\n")
    };
    let gateway = listeners(&(https("a") + &https("b")));
    let secret = tls_secret("cert", &pair.certificate, &pair.key);
    let parts = [&*gateway, &secret, &service("one", one.port), &route("shop", &[("/", "one")])];
    running.write("all.yaml", &documents(parts)).unwrap();
    running.start().unwrap();
    let known = [&*pair.certificate];
    wait::until("an answer", || {
        get_tls(port, "b.example", "/", &known).ok().filter(|(answer, _)| answer.status == 200)
    })
    .unwrap();
    let mut kept = Kept::connect(port, "a.example", &known).unwrap();
    for (host, status) in
        [("a.example", 200), ("b.example", 421), ("b.example.", 421), ("c.example", 404), ("a.example", 200)]
    {
        assert_eq!(kept.get(host, "/").unwrap().status, status, "{host}");
    }
}
