//! Gateways for routes that name none.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use tests::grpc::call_at;
use tests::wait;

use crate::place::{Place, inside, ready, service};
use crate::world::HTTP;

const LISTENERS: [&str; 2] = [HTTP, "{name: streams, protocol: TCP, port: 9000}"];

const DEFAULT: &str = "  defaultScope: All\n";

const ROUTE: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: anywhere}
spec: {useDefaultGateways: All, rules: [{backendRefs: [{name: cart, port: 80}]}]}
";

/// Of other kinds. What streams carry is HTTP here, too.
const OTHERS: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: anywhere}
spec: {useDefaultGateways: All, rules: [{backendRefs: [{name: calls, port: 80}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: anywhere}
spec: {useDefaultGateways: All, rules: [{backendRefs: [{name: cart, port: 80}]}]}
";

/// What no answer of a stream may take.
const PATIENCE: Duration = Duration::from_secs(10);

const ECHO: &str = "/gateway_api_conformance.echo_basic.grpcecho.GrpcEcho/Echo";

/// The code of the answer to a call, and whether the backend gave it.
fn call(place: &Place) -> Option<(u32, bool)> {
    let called = inside(&place.state, || call_at(place.at(80), "shop.example", ECHO, &[])).ok()?;
    Some((called.code, called.text.contains("calls")))
}

/// Whether the backend answers over a stream.
fn stream(place: &Place) -> bool {
    let said: std::io::Result<String> = inside(&place.state, || {
        let mut stream = TcpStream::connect_timeout(&place.at(9000), PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET / HTTP/1.1\r\nhost: shop.example\r\nconnection: close\r\n\r\n")?;
        std::io::read_to_string(stream)
    });
    said.is_ok_and(|said| said.contains("\"pod\": \"cart\""))
}

/// Waits until requests, calls and streams are answered.
fn until_served(place: &Place) {
    place.until_pod("/", "cart");
    wait::until("a call", || (call(place)? == (0, true)).then_some(())).unwrap();
    wait::until("a stream", || stream(place).then_some(())).unwrap();
}

/// Waits until a route says that the Gateway has it.
fn until_attached(place: &Place, route: &str) {
    place.until_told(route, "Accepted", "Accepted", &[]);
    place.until_told(route, "ResolvedRefs", "ResolvedRefs", &[]);
    let route = place.namespace().get(route).unwrap();
    assert_eq!(route["status"]["parents"][0]["parentRef"]["name"], "edge", "{route:#}");
}

/// Waits until so many routes are attached to each listener.
fn until_counted(place: &Place, counts: [u32; 2]) {
    place.namespace().until("attached routes", "gateway/edge", |gateway| {
        let has = |(at, count): (usize, &u32)| gateway["status"]["listeners"][at]["attachedRoutes"] == *count;
        counts.iter().enumerate().all(has).then_some(())
    });
}

/// Waits until neither the Gateway nor a route says anything of the other.
fn until_parted(place: &Place) {
    for kind in ["httproute", "grpcroute", "tcproute"] {
        place.namespace().until("no parents", &format!("{kind}/anywhere"), |route| {
            route["status"]["parents"].as_array()?.is_empty().then_some(())
        });
    }
    place.namespace().until("no DefaultGateway", "gateway/edge", |gateway| {
        let all = gateway["status"]["conditions"].as_array()?;
        (!all.iter().any(|one| one["type"] == "DefaultGateway" && one["status"] == "True")).then_some(())
    });
}

#[test]
fn a_route_without_parents_is_attached_while_there_is_a_default_gateway() {
    let place = Place::make("defaults", &LISTENERS, DEFAULT);
    place.apply(ROUTE);
    place.until_pod("/", "cart");
    place.world.until_said("gateway/edge", "", ("DefaultGateway", "True", "DefaultGateway"), &[]);
    until_attached(&place, "httproute/anywhere");
    until_counted(&place, [1, 0]);

    place.apply(&service("calls", "{name: grpc, port: 80, targetPort: 3000}"));
    let container = "env: [{name: POD_NAME, value: calls}, {name: GRPC_ECHO_SERVER, value: 'true'}]";
    place.echo("calls", "calls", &format!("{container}, {}", ready(3000)));
    place.apply(OTHERS);
    until_served(&place);
    until_attached(&place, "grpcroute/anywhere");
    until_attached(&place, "tcproute/anywhere");
    until_counted(&place, [2, 1]);

    // a Gateway that is the default one no more
    place.world.gateway("edge", &LISTENERS, "");
    place.until_status("/", 404);
    wait::until("no call", || (!call(&place)?.1).then_some(())).unwrap();
    wait::until("no stream", || (!stream(&place)).then_some(())).unwrap();
    until_parted(&place);
    until_counted(&place, [0, 0]);
    // and again
    place.world.gateway("edge", &LISTENERS, DEFAULT);
    until_served(&place);
}
