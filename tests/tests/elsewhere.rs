//! A proxy that somebody else starts gets its configuration over TLS, by its certificate.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use tempfile::TempDir;
use tests::backend::Backend;
use tests::certificate::{Pair, self_signed};
use tests::client::get;
use tests::elsewhere::{Elsewhere, Way, server};
use tests::objects::{gateway, route, service};
use tests::ports::free_ports;
use tests::wait;

fn until_answers(port: u16, path: &str, body: &str) {
    wait::until(&format!("{body} at {path}"), || {
        get(port, "x.example", path).ok().filter(|answer| answer.status == 200 && answer.body == body)
    })
    .unwrap();
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
