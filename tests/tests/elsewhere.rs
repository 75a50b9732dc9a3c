//! A proxy that somebody else starts gets its configuration over TLS, by its certificate.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use tempfile::TempDir;
use tests::backend::Backend;
use tests::certificate::{Pair, authority, self_signed};
use tests::client::get;
use tests::elsewhere::{Elsewhere, Way, server, tls_example};
use tests::objects::{documents, gateway, route, service};
use tests::ports::free_ports;
use tests::running::Running;
use tests::{binary, wait};

/// A Chancery for proxies of others, where client certificates are these; and what it shows them.
fn unstarted(place: &TempDir, clients: &[&Pair], xds: u16) -> (Running, Pair) {
    let shown = self_signed(&["chancery.example"], false).unwrap();
    let clients: String = clients.iter().map(|pair| &*pair.certificate).collect();
    for (name, text) in [("tls.crt", &shown.certificate), ("tls.key", &shown.key), ("ca.crt", &clients)] {
        std::fs::write(place.path().join(name), text).unwrap();
    }
    (server(place.path(), xds).unwrap(), shown)
}

/// The same with a Gateway, and running; and the port where it listens.
fn served(place: &TempDir, clients: &[&Pair], text: &str) -> (Running, Pair, u16) {
    let [xds] = free_ports().unwrap();
    let (mut running, shown) = unstarted(place, clients, xds);
    running.write("gateway.yaml", text).unwrap();
    running.start().unwrap();
    (running, shown, xds)
}

fn until_logged(running: &Running, words: &str) {
    wait::until(words, || running.log().contains(words).then_some(())).unwrap();
}

#[test]
fn whoever_is_refused_is_told_in_words_and_every_reason_is_logged() {
    let place = TempDir::new().unwrap();
    let named = |name: &str| self_signed(&[name], false).unwrap();
    let (edge, nobody, of_authority) = (named("edge.default"), named("nobody"), authority("edge.default").unwrap());
    let expired = self_signed(&["edge.default"], true).unwrap();
    let all = [&edge, &nobody, &of_authority, &expired];
    let (running, shown, xds) = served(&place, &all, &gateway(8080));
    let start = |own: &Pair, gateway| {
        let folder = TempDir::new().unwrap();
        let way = Way { gateway, api: "DELTA_GRPC", port: xds, own, trusted: &[&shown] };
        (Elsewhere::start(folder.path(), &way).unwrap(), folder)
    };
    // Each goes on trying, so that what is logged of the next is not the first that is heard in a while.
    let first = start(&of_authority, "default/edge");
    until_logged(&running, "its client certificate is that of an authority (CA:TRUE): have one issued by it");
    let second = start(&expired, "default/edge");
    until_logged(&running, "its client certificate has expired");
    let third = start(&edge, "default/zzz");
    until_logged(&running, "node.cluster names a Gateway that this identity may not have: \"default/zzz\"");
    let fourth = start(&nobody, "default/edge");
    until_logged(&running, "this identity may have no configuration: a Gateway is named by the URI spiffe://");
    drop((first, second, third, fourth));
}

#[test]
fn in_a_trust_domain_who_is_not_of_it_is_told_so() {
    let place = TempDir::new().unwrap();
    let edge = self_signed(&["edge.default"], false).unwrap();
    let [xds] = free_ports().unwrap();
    let (server, shown) = unstarted(&place, &[&edge], xds);
    let mut running = server.with(&["--xds-trust-domain", "example.org"]);
    running.start().unwrap();
    let way = Way { gateway: "default/edge", api: "DELTA_GRPC", port: xds, own: &edge, trusted: &[&shown] };
    let _envoy = Elsewhere::start(place.path(), &way).unwrap();
    until_logged(&running, "this identity may have no configuration: with --xds-trust-domain example.org only");
}

#[test]
fn libraries_write_no_frames_into_the_log_unless_they_are_named() {
    for (level, frames) in [("debug", false), ("debug,h2=debug", true)] {
        let place = TempDir::new().unwrap();
        let edge = self_signed(&["edge.default"], false).unwrap();
        let [xds] = free_ports().unwrap();
        let (server, shown) = unstarted(&place, &[&edge], xds);
        let mut running = server.with(&["--log-format", "json", "--log-level", level]);
        running.write("gateway.yaml", &gateway(8080)).unwrap();
        running.start().unwrap();
        let way = Way { gateway: "default/edge", api: "DELTA_GRPC", port: xds, own: &edge, trusted: &[&shown] };
        let _envoy = Elsewhere::start(place.path(), &way).unwrap();
        until_logged(&running, "a listener is active");
        let log = running.log();
        assert_eq!(log.contains("\"target\":\"h2"), frames, "{level}: {log}");
    }
}

#[test]
fn a_proxy_of_a_gateway_that_is_not_there_is_told_until_there_is_one() {
    let place = TempDir::new().unwrap();
    let other = self_signed(&["other.default"], false).unwrap();
    let [port] = free_ports().unwrap();
    let (running, shown, xds) = served(&place, &[&other], &gateway(8080));
    let way = Way { gateway: "default/other", api: "DELTA_GRPC", port: xds, own: &other, trusted: &[&shown] };
    let _envoy = Elsewhere::start(place.path(), &way).unwrap();
    let told = "default/other: a proxy is connected, and there is no such Gateway: it has nothing until there is one";
    let problems = || running.status(&["problems"]).unwrap();
    wait::until("the problem", || problems().contains(told).then_some(())).unwrap();
    until_logged(&running, told);
    let one = Backend::start("one").unwrap();
    let late = gateway(port).replace("name: edge", "name: other");
    let to = route("shop", &[("/", "one")]).replace("name: edge", "name: other");
    running.write("late.yaml", &documents([&*late, &to, &service("one", one.port)])).unwrap();
    until_answers(port, "/", "one");
    wait::until("nothing to tell", || (!problems().contains(told)).then_some(())).unwrap();
}

#[test]
fn a_configuration_whose_listener_was_refused_is_not_called_acknowledged() {
    let place = TempDir::new().unwrap();
    let edge = self_signed(&["edge.default"], false).unwrap();
    let taken = std::net::TcpListener::bind(("0.0.0.0", 0)).unwrap();
    let (running, shown, xds) = served(&place, &[&edge], &gateway(taken.local_addr().unwrap().port()));
    let way = Way { gateway: "default/edge", api: "DELTA_GRPC", port: xds, own: &edge, trusted: &[&shown] };
    let _envoy = Elsewhere::start(place.path(), &way).unwrap();
    until_logged(&running, "the first complete configuration is answered, and not all of it is accepted");
    assert!(!running.log().contains("the first complete configuration is acknowledged"), "{}", running.log());
}

fn until_answers(port: u16, path: &str, body: &str) {
    wait::until(&format!("{body} at {path}"), || {
        get(port, "x.example", path).ok().filter(|answer| answer.status == 200 && answer.body == body)
    })
    .unwrap();
}

/// An Envoy with this bootstrap of `deploy/`, where something else stands for what is to be filled in, gets its routes and reports its load.
fn is_served_with(running: &Running, port: u16, bootstrap: &str, filled: &[(&str, &str)]) {
    let one = Backend::start("one").unwrap();
    running.write("routes.yaml", &documents([&*route("shop", &[("/", "one")]), &service("one", one.port)])).unwrap();
    let place = TempDir::new().unwrap();
    let admin = place.path().join("admin.sock").display().to_string();
    let text = bootstrap.to_owned();
    let text = filled.iter().chain(&[("/tmp/envoy-admin.sock", &*admin)]).fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    let _envoy = Elsewhere::run(place.path(), &text).unwrap();
    until_answers(port, "/", "one");
    let reported = || get(port, "x.example", "/").ok().and_then(|_| running.asked("/load"));
    wait::until("a load report", || reported().filter(|told| told.contains("default/one"))).unwrap();
}

#[test]
fn an_envoy_with_the_bootstrap_for_tls_of_the_docs_is_served_and_reports_its_load() {
    let place = TempDir::new().unwrap();
    let edge = self_signed(&["edge.default"], false).unwrap();
    let [port, xds] = free_ports().unwrap();
    let (server, shown) = unstarted(&place, &[&edge], xds);
    let mut running = server.with(&["--load-reports", "100ms"]);
    running.write("gateway.yaml", &gateway(port)).unwrap();
    running.start().unwrap();
    let files = TempDir::new().unwrap();
    let bootstrap = tls_example(files.path()).unwrap();
    for (name, text) in [("edge.crt", &edge.certificate), ("edge.key", &edge.key), ("ca.crt", &shown.certificate)] {
        std::fs::write(files.path().join(name), text).unwrap();
    }
    let at = format!("address: 127.0.0.1, port_value: {xds}");
    is_served_with(&running, port, &bootstrap, &[("address: chancery.example, port_value: 18000", &*at)]);
}

#[test]
fn an_envoy_with_the_bootstrap_for_the_socket_of_the_docs_is_served_and_reports_its_load() {
    let [port] = free_ports().unwrap();
    let mut running = Running::prepare().unwrap().with(&["--no-envoy", "--load-reports", "100ms"]);
    running.write("gateway.yaml", &gateway(port)).unwrap();
    running.start().unwrap();
    let gateways = running.state().join("gateways");
    let is_edge = |folder: &PathBuf| {
        let named = std::fs::read_to_string(folder.join("gateway")).is_ok_and(|name| name == "default/edge");
        named && folder.join("xds.sock").exists()
    };
    let folder = wait::until("the socket", || {
        let folders = std::fs::read_dir(&gateways).ok()?;
        folders.flatten().map(|folder| folder.path()).find(is_edge)
    });
    let folder = folder.unwrap().display().to_string();
    let bootstrap = std::fs::read_to_string(binary::root().join("deploy/envoy-socket.yaml")).unwrap();
    is_served_with(&running, port, &bootstrap, &[("/var/lib/chancery/gateways/HASH", &folder)]);
}

#[test]
fn an_envoy_elsewhere_is_served_by_its_certificate_while_certificates_change() {
    let place = TempDir::new().unwrap();
    let at = |name: &str| place.path().join(name).display().to_string();
    let write = |pair: &Pair, clients: &Pair| {
        for (name, text) in [("tls.crt", &pair.certificate), ("tls.key", &pair.key), ("ca.crt", &clients.certificate)] {
            std::fs::write(at(name), text).unwrap();
        }
    };
    let shown = || self_signed(&["chancery.example"], false).unwrap();
    let client = || self_signed(&["edge.default"], false).unwrap();
    let (first, second, far, farther) = (shown(), shown(), client(), client());
    write(&first, &far);
    let [port, xds] = free_ports().unwrap();
    let mut running = server(place.path(), xds).unwrap();
    let one = Backend::start("one").unwrap();
    running.write("gateway.yaml", &gateway(port)).unwrap();
    running.write("services.yaml", &service("one", one.port)).unwrap();
    running.write("routes.yaml", &route("shop", &[("/a", "one")])).unwrap();
    running.start().unwrap();
    let start = |own: &Pair, trusted: &[&Pair]| {
        let way = Way { gateway: "default/edge", api: "DELTA_GRPC", port: xds, own, trusted };
        Elsewhere::start(place.path(), &way).unwrap()
    };
    let envoy = start(&far, &[&first, &second]);
    until_answers(port, "/a", "one");

    // all three change: the stream stays, though nobody would trust its client any more
    write(&second, &farther);
    wait::until("the certificates to be replaced", || running.log().contains("were replaced").then_some(())).unwrap();
    running.write("routes.yaml", &route("shop", &[("/b", "one")])).unwrap();
    until_answers(port, "/b", "one");

    // a new connection needs one of the new authority
    drop(envoy);
    let refused = start(&far, &[&first, &second]);
    wait::until("the old certificate to be refused", || {
        running.log().contains("an xDS connection is refused: ").then_some(())
    })
    .unwrap();
    drop(refused);
    let _envoy = start(&farther, &[&second]);
    until_answers(port, "/b", "one");

    // a file that cannot be used changes nothing
    let key = at("tls.key");
    std::fs::write(&key, "no key").unwrap();
    let told = format!("--xds-tls-key {key}: no private key in PEM that can be used");
    wait::until("the broken key to be told", || running.log().contains(&told).then_some(())).unwrap();
    running.write("routes.yaml", &route("shop", &[("/c", "one")])).unwrap();
    until_answers(port, "/c", "one");
}
