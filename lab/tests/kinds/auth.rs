//! `ExternalAuth`, with an echo server as who is asked: `/status/403` it answers 403, and almost anything else 200. Over gRPC a server of the
//! test's own is asked.

use std::net::{IpAddr, Ipv4Addr};

use tests::authority::{Authority, GOOD};
use tests::wait;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

use crate::place::{Answer, NODE, Place, http, inside, service};
use crate::world::HTTP;

/// A listener that asks, whatever the route is. It says how.
const GUARDED: &str =
    "{name: guarded, protocol: HTTP, port: 8080, filters: {requests: [{type: ExternalAuth, externalAuth: EXTERNAL}]}}";

/// What is asked for is served as another path, so that it is not the backend that answers 403.
const ROUTE: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: NAME}
spec:
  parentRefs: [{name: edge, sectionName: SECTION}]
  rules:
  - matches: [{path: {value: /}}]
    filters:
    - {type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: /served}}}
    FILTER
    backendRefs: [{name: cart, port: 80}]
";

fn route(name: &str, section: &str, filter: &str) -> String {
    ROUTE.replace("NAME", name).replace("SECTION", section).replace("FILTER", filter)
}

/// How a server is asked, and what of its answer the backend gets.
fn external(server: &str) -> String {
    format!(
        "{{protocol: HTTP, http: {{allowedHeaders: [x-echo-set-header], allowedResponseHeaders: [x-user]}}, backendRef: {{name: {server}, \
         port: 80}}}}"
    )
}

fn filter(server: &str) -> String {
    format!("- {{type: ExternalAuth, externalAuth: {}}}", external(server))
}

/// The header that makes the server say who it is that asks.
const ANN: &str = "x-echo-set-header: x-user:ann\r\n";

impl Place {
    /// Makes the server that is asked.
    fn authority(&self) {
        self.apply(&service("authority", "{name: http, port: 80, targetPort: 3000}"));
        self.echo("authority", "authority", &http("authority"));
    }

    /// The server on this port is asked, and what it says counts.
    fn obeys(&self, port: u16) {
        let answer = self.until_on(port, "an answer of cart", "/status/200", |answer| answer.status == 200);
        let echo = answer.echo();
        assert_eq!((&echo["pod"], &echo["path"]), (&"cart".into(), &"/served".into()), "{answer:?}");
        for status in [401, 403] {
            let refused = |answer: &Answer| (answer.status, &*answer.body) == (status, "");
            self.until_on(port, "what the authority answers", &format!("/status/{status}"), refused);
        }
        let known = self.ask_with(port, "/any", ANN).unwrap();
        assert_eq!(known.echo()["headers"]["X-User"][0], "ann", "{known:?}");
    }

    /// Nothing passes, for nobody can be asked.
    fn closes(&self, port: u16) {
        self.until_on(port, "403", "/status/200", |answer| answer.status == 403);
    }
}

#[test]
fn a_route_asks_and_what_nobody_allows_does_not_pass() {
    let place = Place::make("auth-routes", &[HTTP], "");
    place.authority();
    place.apply(&route("asks", "http", &filter("authority")));
    place.obeys(80);
    place.until_told("httproute/asks", "Accepted", "Accepted", &[]);
    place.until_told("httproute/asks", "ResolvedRefs", "ResolvedRefs", &[]);

    // who is asked goes, and comes again
    place.namespace().run(&["delete", "pod", "authority", "--grace-period=1"]);
    place.closes(80);
    place.echo("authority", "authority", &http("authority"));
    place.obeys(80);

    // there is no such Service
    place.apply(&route("asks", "http", &filter("nobody")));
    place.until_told("httproute/asks", "ResolvedRefs", "BackendNotFound", &["nobody"]);
    place.until_status("/status/200", 500);
}

#[test]
fn a_listener_asks_for_all_its_routes() {
    let guarded = |server: &str| GUARDED.replace("EXTERNAL", &external(server));
    let place = Place::make("auth-listeners", &[HTTP, &guarded("authority")], "");
    place.authority();
    place.apply(&route("open", "http", ""));
    place.apply(&route("guarded", "guarded", ""));
    place.obeys(8080);
    let is_well = |listener: &str| {
        for kind in ["Accepted", "ResolvedRefs", "Programmed"] {
            place.world.until_said("gateway/edge", listener, (kind, "True", kind), &[]);
        }
    };
    is_well("/listeners/1");
    place.until_claimed("GatewayListenerFilters");
    // the other listener asks nobody
    place.until_pod("/status/403", "cart");

    place.namespace().run(&["delete", "pod", "authority", "--grace-period=1"]);
    place.closes(8080);
    assert_eq!(place.ask("/").unwrap().pod().as_deref(), Some("cart"));

    place.world.gateway("edge", &[HTTP, &guarded("nobody")], "");
    place.world.until_said(
        "gateway/edge",
        "/listeners/1",
        ("ResolvedRefs", "False", "InvalidListenerFilterRef"),
        &["nobody"],
    );
    place.until_on(8080, "500", "/status/200", |answer| answer.status == 500);
    place.echo("authority", "authority", &http("authority"));
    place.world.gateway("edge", &[HTTP, &guarded("authority")], "");
    place.obeys(8080);
    is_well("/listeners/1");
}

/// Asks a server over gRPC that is the test's own and not a Pod.
const CALLS: &str =
    "- {type: ExternalAuth, externalAuth: {protocol: GRPC, grpc: {}, backendRef: {name: called, port: 80}}}";

/// Takes connections where Pods can make them, and hands them to a port of loopback, until it is dropped.
struct Relay {
    port: u16,
    _runtime: Runtime,
}

impl Relay {
    fn start(address: IpAddr, to: u16) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind((address, 0))).unwrap();
        let port = listener.local_addr().unwrap().port();
        runtime.spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                tokio::spawn(async move {
                    if let Ok(mut far) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).await {
                        let _broken = copy_bidirectional(&mut near, &mut far).await;
                    }
                });
            }
        });
        Self { port, _runtime: runtime }
    }
}

#[test]
fn a_server_is_asked_over_grpc() {
    let place = Place::make("auth-calls", &[HTTP], "");
    let authority = inside(&place.state, Authority::grpc).unwrap();
    let relay = inside(&place.state, || Relay::start(NODE, authority.port));
    place.serve_own("called", relay.port);
    place.apply(&route("calls", "http", CALLS));
    let known = format!("authorization: {GOOD}\r\n");
    let passed = || place.ask_with(80, "/asked", &known).filter(|answer| answer.status == 200);
    let answer = wait::until("an answer to whom the server knows", passed).unwrap();
    let echo = answer.echo();
    assert_eq!((&echo["pod"], &echo["path"]), (&"cart".into(), &"/served".into()), "{answer:?}");
    assert_eq!(echo["headers"]["X-User"][0], "ann", "{answer:?}");
    for kind in ["Accepted", "ResolvedRefs"] {
        place.until_told("httproute/calls", kind, kind, &[]);
    }
    let asked = authority.take();
    assert!(asked.iter().any(|one| (&*one.method, &*one.path) == ("GET", "/asked")), "{asked:?}");
    // nobody else passes
    place.until_status("/other", 403);
    assert!(authority.take().iter().any(|one| one.path == "/other"), "the server was asked");

    // who is asked goes
    drop((relay, authority));
    let refused = || place.ask_with(80, "/asked", &known).filter(|answer| answer.status == 403);
    wait::until("403 for want of a server", refused).unwrap();
}
