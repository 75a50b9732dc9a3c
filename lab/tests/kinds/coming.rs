//! Grants, listeners, routes, rules and certificates come, change, are reordered and go while HTTP, gRPC, TCP, TLS and UDP clients ask what has nothing to do
//! with them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;
use tempfile::TempDir;
use tests::certificate::{self, Pair};
use tests::client::Answer;
use tests::grpc::call_at;
use tests::objects;
use tests::prober::Prober;
use tests::wait;

use crate::asking;
use crate::inside::enter;
use crate::place::{Place, inside, ready, service};
use crate::world::{HTTP, World};

const LISTENERS: [&str; 7] = [
    HTTP,
    "{name: https, protocol: HTTPS, port: 443, tls: {certificateRefs: [{name: site}]}}",
    "{name: passed, protocol: TLS, port: 8443, tls: {mode: Passthrough}}",
    "{name: streams, protocol: TCP, port: 9000}",
    "{name: guests, protocol: TCP, port: 9001}",
    "{name: datagrams, protocol: UDP, port: 9002}",
    "{name: packets, protocol: UDP, port: 9003}",
];

/// What is asked all the time.
const STEADY: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: steady}
spec: {parentRefs: [{name: edge, sectionName: streams}], rules: [{backendRefs: [{name: streams, port: 80}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: UDPRoute
metadata: {name: steady}
spec: {parentRefs: [{name: edge, sectionName: packets}], rules: [{backendRefs: [{name: datagrams, port: 80}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {name: steady}
spec: {parentRefs: [{name: edge}], hostnames: [steady.example], rules: [{backendRefs: [{name: bank, port: 443}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: steady}
spec: {parentRefs: [{name: edge}], rules: [{backendRefs: [{name: cart, port: 80}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: steady}
spec: {parentRefs: [{name: edge, sectionName: http}], rules: [{backendRefs: [{name: calls, port: 80}]}]}
";

/// Between two requests of a client.
const PAUSE: Duration = Duration::from_millis(5);

/// What no answer of a stream may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// The names that the bank's certificate has.
const NAMES: [&str; 3] = ["steady.example", "guest.example", "other.example"];

struct Shop {
    place: Place,
    far: World,
    /// Certificates, as curl wants them.
    folder: TempDir,
}

impl Shop {
    fn open() -> Self {
        let place = Place::make("coming", &LISTENERS, "  allowedListeners: {namespaces: {from: Same}}\n");
        let far = World::made_in(Arc::clone(&place.namespace().lab), "granting");
        let shop = Self { place, far, folder: tempfile::tempdir().unwrap() };
        let place = &shop.place;
        let pair = certificate::self_signed(&NAMES, false).unwrap();
        shop.believe("bank", &pair);
        place.secure("bank", &pair);
        let named = |pod: &str, kind: &str| {
            format!(
                "env: [{{name: POD_NAME, value: {pod}}}, {{name: {kind}_ECHO_SERVER, value: 'true'}}, {{name: {kind}_PORT, value: '3000'}}]"
            )
        };
        for pod in ["streams", "others"] {
            place.apply(&service(pod, "{name: tcp, port: 80, targetPort: 3000}"));
            place.echo(pod, pod, &format!("{}, {}", named(pod, "TCP"), ready(3000)));
        }
        place.apply(&service("datagrams", "{name: udp, port: 80, targetPort: 3000, protocol: UDP}"));
        place.echo("datagrams", "datagrams", &named("datagrams", "UDP"));
        place.apply(&service("calls", "{name: grpc, port: 80, targetPort: 3000}"));
        let calls = "env: [{name: POD_NAME, value: calls}, {name: GRPC_ECHO_SERVER, value: 'true'}]";
        place.echo("calls", "calls", &format!("{calls}, {}", ready(3000)));
        place.apply(STEADY);
        place.until_pod("/", "cart");
        wait::until("a stream", || shop.stream(9000)).unwrap();
        wait::until("a call", || inside(&place.state, || call(place.at(80))).ok()).unwrap();
        wait::until("a datagram", || shop.datagram(9003)).unwrap();
        wait::until("TLS that is passed through", || shop.tls("steady.example", 8443, "bank")).unwrap();
        shop
    }

    /// A port of the proxy itself. kube-proxy loses a packet now and then while it writes the rules of a Service again (`lab/README.md`). Clients
    /// of streams send theirs again; for a datagram these clients wait without sending another.
    fn proxy(&self, port: u16) -> SocketAddr {
        let gateway = "--selector=gateway.networking.k8s.io/gateway-name=edge";
        let address =
            self.place.namespace().run(&["get", "pods", gateway, "--output=jsonpath={.items[0].status.podIP}"]);
        SocketAddr::new(address.trim().parse().unwrap(), port)
    }

    /// Keeps a certificate for clients.
    fn believe(&self, name: &str, pair: &Pair) {
        std::fs::write(self.folder.path().join(name), &pair.certificate).unwrap();
    }

    /// Which Pod answers a TCP client.
    fn stream(&self, port: u16) -> Option<String> {
        inside(&self.place.state, || stream(self.place.at(port))).ok()
    }

    /// Which Pod answers a datagram.
    fn datagram(&self, port: u16) -> Option<String> {
        inside(&self.place.state, || datagram(self.place.at(port), Duration::from_secs(1))).ok()
    }

    /// Which Pod answers a TLS client that believes only this certificate.
    fn tls(&self, host: &str, port: u16, believed: &str) -> Option<String> {
        let file = self.folder.path().join(believed);
        inside(&self.place.state, || tls(self.place.at(port), host, &file)).ok()
    }

    /// Does something while all clients ask. No answer may be wrong.
    fn under_load(&self, deed: impl FnOnce()) {
        let state = &self.place.state;
        let (http, streams, passed) = (self.place.at(80), self.place.at(9000), self.place.at(8443));
        let packets = self.proxy(9003);
        let file = self.folder.path().join("bank");
        let ask = || asking::under(state, http, &[("/", &["cart"])], deed);
        let ask = || beside(state, "gRPC", "calls", || call(http), ask);
        let ask = || beside(state, "TLS", "bank", || tls(passed, "steady.example", &file), ask);
        let ask = || beside(state, "UDP", "datagrams", || datagram(packets, PATIENCE), ask);
        beside(state, "TCP", "streams", || stream(streams), ask);
    }

    /// Waits until nobody answers.
    fn until_silent(&self, what: &str, ask: impl Fn() -> Option<String>) {
        wait::until(&format!("no answer of {what}"), || ask().is_none().then_some(())).unwrap();
    }
}

/// Does something while one more client asks.
fn beside(
    state: &Path,
    what: &str,
    pod: &str,
    ask: impl Fn() -> anyhow::Result<String> + Send + Sync,
    deed: impl FnOnce(),
) {
    let prober = Prober::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            enter(state);
            let ask = |_: &str| {
                std::thread::sleep(PAUSE);
                Ok(Answer { status: 200, body: ask()? })
            };
            prober.run(ask, &[(what, &[pod])]);
        });
        let _asking = prober.until_dropped();
        deed();
    });
    let (asked, wrong) = prober.told();
    println!("{asked} requests over {what}");
    assert!(wrong.is_empty(), "answers of {asked} were wrong: {wrong:#?}");
    assert!(asked > 50, "only {asked} requests over {what}");
}

/// Echo servers say which Pod they are.
fn pod(said: &[u8]) -> Option<String> {
    Some(serde_json::from_slice::<Value>(said).ok()?["pod"].as_str()?.to_owned())
}

fn stream(to: SocketAddr) -> anyhow::Result<String> {
    let stream = TcpStream::connect_timeout(&to, PATIENCE).context("connecting")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut stream = BufReader::new(stream);
    stream.get_mut().write_all(b"TEST\n").context("writing")?;
    let mut line = String::new();
    stream.read_line(&mut line).context("reading the welcome")?;
    line.clear();
    stream.read_line(&mut line).context("reading")?;
    pod(line.as_bytes()).with_context(|| format!("no Pod answers: {line:?}"))
}

fn datagram(to: SocketAddr, patience: Duration) -> anyhow::Result<String> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.set_read_timeout(Some(patience))?;
    socket.connect(to)?;
    socket.send(b"who").context("sending")?;
    let mut room = [0; 1024];
    let length = socket.recv(&mut room).context("receiving")?;
    room.get(..length).and_then(pod).context("no Pod answers")
}

fn call(to: SocketAddr) -> anyhow::Result<String> {
    let called = call_at(to, "shop.example", "/gateway_api_conformance.echo_basic.grpcecho.GrpcEcho/Echo", &[])?;
    anyhow::ensure!(called.code == 0 && called.text.contains("calls"), "{called:?}");
    Ok("calls".to_owned())
}

fn tls(to: SocketAddr, host: &str, believed: &Path) -> anyhow::Result<String> {
    let resolve = format!("{host}:{}:{}", to.port(), to.ip());
    let url = format!("https://{host}:{}/", to.port());
    let asked = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "15", "--resolve", &resolve, "--cacert"])
        .arg(believed)
        .arg(&url)
        .output()?;
    pod(&asked.stdout).with_context(|| format!("{url}: {}", String::from_utf8_lossy(&asked.stderr)))
}

const GRANTED: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: granted}
spec:
  parentRefs: [{name: edge, sectionName: http}]
  rules: [{matches: [{path: {value: /granted}}], backendRefs: [{name: cart, namespace: granting, port: 80}]}]
";

/// A grant for the Service of a name.
fn grant(service: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\nmetadata: {{name: coming}}\nspec:\n  from: [{{group: \
         gateway.networking.k8s.io, kind: HTTPRoute, namespace: coming}}]\n  to: [{{group: '', kind: Service, name: {service}}}]\n"
    )
}

fn grants(shop: &Shop) {
    let refused = || {
        shop.place.until_told("httproute/granted", "ResolvedRefs", "RefNotPermitted", &["granting"]);
        shop.place.until_status("/granted", 500);
    };
    let passes = || {
        shop.place.until_pod("/granted", "cart");
        shop.place.until_told("httproute/granted", "ResolvedRefs", "ResolvedRefs", &[]);
    };
    shop.place.apply(GRANTED);
    refused();
    shop.far.namespace.apply(&grant("cart"));
    passes();
    shop.far.namespace.apply(&grant("other"));
    refused();
    shop.far.namespace.apply(&grant("cart"));
    passes();
    shop.far.namespace.run(&["delete", "referencegrant", "coming"]);
    refused();
}

const MORE: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: more}
spec: {parentRef: {name: edge}, listeners: [{name: more, port: PORT, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: more}
spec:
  parentRefs: [{group: gateway.networking.k8s.io, kind: ListenerSet, name: more}]
  rules: [{backendRefs: [{name: cart, port: 80}]}]
";

fn listener_sets(shop: &Shop) {
    let place = &shop.place;
    let ask = |port: u16| place.ask_with(port, "/", "").and_then(|answer| answer.pod());
    for port in [8081, 8082] {
        place.apply(&MORE.replace("PORT", &port.to_string()));
        place.until_on(port, "cart", "/", |answer| answer.pod().as_deref() == Some("cart"));
        place.world.until_said("listenerset/more", "", ("Programmed", "True", "Programmed"), &[]);
        place.world.until_said("listenerset/more", "/listeners/0", ("Programmed", "True", "Programmed"), &[]);
        place.until_told("httproute/more", "Accepted", "Accepted", &[]);
    }
    shop.until_silent("the first port", || ask(8081));
    place.namespace().run(&["delete", "listenerset", "more"]);
    shop.until_silent("the second port", || ask(8082));
}

/// A route of another kind: its listener, what stands before its rules, and its backend.
fn guest(kind: &str, section: &str, hosts: &str, backend: &str, port: u16) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: guest}}\nspec:\n  parentRefs: [{{name: edge, sectionName: \
         {section}}}]\n{hosts}  rules: [{{backendRefs: [{{name: {backend}, port: {port}}}]}}]\n"
    )
}

fn routes(shop: &Shop) {
    let place = &shop.place;
    for backend in ["streams", "others"] {
        place.apply(&guest("TCPRoute", "guests", "", backend, 80));
        wait::until(backend, || (shop.stream(9001)? == backend).then_some(())).unwrap();
        place.until_told("tcproute/guest", "Accepted", "Accepted", &[]);
    }
    place.apply(&guest("UDPRoute", "datagrams", "", "datagrams", 80));
    wait::until("a datagram", || (shop.datagram(9002)? == "datagrams").then_some(())).unwrap();
    place.until_told("udproute/guest", "Accepted", "Accepted", &[]);
    for host in ["guest.example", "other.example"] {
        place.apply(&guest("TLSRoute", "passed", &format!("  hostnames: [{host}]\n"), "bank", 443));
        wait::until(host, || (shop.tls(host, 8443, "bank")? == "bank").then_some(())).unwrap();
        place.until_told("tlsroute/guest", "Accepted", "Accepted", &[]);
    }
    shop.until_silent("the first host", || shop.tls("guest.example", 8443, "bank"));
    place.namespace().run(&["delete", "tcproute/guest", "udproute/guest", "tlsroute/guest"]);
    shop.until_silent("streams", || shop.stream(9001));
    shop.until_silent("datagrams", || shop.datagram(9002));
    shop.until_silent("the second host", || shop.tls("other.example", 8443, "bank"));
}

/// Of two rules that take the same requests the first one gets them.
fn rules(shop: &Shop) {
    let moved =
        "{matches: [{path: {value: /order}}], filters: [{type: RequestRedirect, requestRedirect: {statusCode: 307}}]}";
    let sent = "{matches: [{path: {value: /order}}], backendRefs: [{name: cart, port: 80}]}";
    let other = "{matches: [{path: {value: /order/other}}], backendRefs: [{name: cart, port: 80}]}";
    let route = |rules: &[&str]| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: order}}\nspec:\n  parentRefs: [{{name: edge, \
             sectionName: http}}]\n  rules: [{}]\n",
            rules.join(", ")
        )
    };
    for (rules, first_is_sent) in [
        ([moved, sent, other], false),
        ([sent, other, moved], true),
        ([other, moved, sent], false),
        ([sent, moved, other], true),
    ] {
        shop.place.apply(&route(&rules));
        if first_is_sent {
            shop.place.until_pod("/order", "cart");
        } else {
            shop.place.until_status("/order", 307);
        }
    }
    shop.place.namespace().run(&["delete", "httproute", "order"]);
}

fn certificates(shop: &Shop) {
    let place = &shop.place;
    let https = "/listeners/1";
    place.world.until_said("gateway/edge", https, ("ResolvedRefs", "False", "InvalidCertificateRef"), &["site"]);
    for name in ["first", "second"] {
        let pair = certificate::self_signed(&["site.example"], false).unwrap();
        shop.believe(name, &pair);
        place.apply(&objects::tls_secret("site", &pair.certificate, &pair.key));
        wait::until(&format!("the {name} certificate"), || shop.tls("site.example", 443, name)).unwrap();
        place.world.until_said("gateway/edge", https, ("Programmed", "True", "Programmed"), &[]);
    }
    assert_eq!(shop.tls("site.example", 443, "first"), None, "nobody is shown the first one any more");
    place.namespace().run(&["delete", "secret", "site"]);
    place.world.until_said("gateway/edge", https, ("ResolvedRefs", "False", "InvalidCertificateRef"), &["site"]);
    shop.until_silent("the listener without a certificate", || shop.tls("site.example", 443, "second"));
}

#[test]
fn what_others_use_comes_changes_and_goes_while_clients_ask() {
    let shop = Shop::open();
    let namespace = shop.place.namespace();
    let proxies =
        || namespace.run(&["get", "pods", "--selector=gateway.networking.k8s.io/gateway-name=edge", "--output=name"]);
    let routes_of = || {
        ["httproute", "grpcroute", "tcproute", "tlsroute", "udproute"]
            .map(|kind| namespace.get(&format!("{kind}/steady")).unwrap()["status"].clone())
    };
    for route in ["httproute", "grpcroute", "tcproute", "tlsroute", "udproute"] {
        for kind in ["Accepted", "ResolvedRefs"] {
            shop.place.until_told(&format!("{route}/steady"), kind, kind, &[]);
        }
    }
    let before = (proxies(), routes_of());
    shop.under_load(|| {
        grants(&shop);
        listener_sets(&shop);
        routes(&shop);
        rules(&shop);
        certificates(&shop);
    });
    assert_eq!((proxies(), routes_of()), before, "no proxy is replaced, and no status of the others is written");
}
