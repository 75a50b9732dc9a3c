//! The graph as a whole: objects in, configuration and statuses out.

mod addresses;
mod attachment;
mod backends;
mod budget;
mod delivery;
mod endpoint_budget;
mod grpc;
mod guards;
mod hosts;
mod incremental;
mod lost_matches;
mod pairs;
mod refusals;
mod statuses;
mod tls;
mod udp;

use serde_json::json;

use crate::testing::{World, gateway, route, service, short, slice};

#[test]
fn a_gateway_a_route_and_a_service_become_everything_a_proxy_needs() {
    let world = World::with([
        gateway("web", json!([{"name": "http", "port": 8080, "protocol": "HTTP"}])),
        route("shop", "web", &["shop.example.com"], &[("/", "shop"), ("/api/", "api")]),
        service("shop", 80),
        service("api", 80),
        slice("shop", 9000, &["127.0.0.1", "127.0.0.2"]),
    ]);
    let hosts = world.hosts("default/web/8080");
    assert_eq!(hosts["shop.example.com"], ["/api -> default/api/80*1", "/ -> default/shop/80*1"]);
    assert_eq!(hosts["*"], [""; 0]);
    assert_eq!(world.clusters(), ["default/api/80", "default/shop/80"]);

    let graph = world.translator.graph();
    let outputs = world.translator.outputs();
    let sets: Vec<(String, usize)> = outputs
        .endpoints(graph)
        .map(|(name, set)| (name.to_string(), set.localities.iter().map(|locality| locality.endpoints.len()).sum()))
        .collect();
    assert!(sets.contains(&("default/shop/80".into(), 2)) && sets.contains(&("default/api/80".into(), 0)), "{sets:?}");
    let (_, listener) = graph.iter(outputs.listeners).next().expect("a listener");
    assert_eq!((listener.name.as_str(), listener.port), ("default/web/8080", 8080));
    let (_, infra) = graph.iter(outputs.infra).next().expect("a fleet");
    assert_eq!((infra.fleet.as_str(), &*infra.ports), ("default/web", &[8080][..]));

    assert_eq!(world.parent("shop", 0), ["Accepted=True/Accepted", "ResolvedRefs=True/ResolvedRefs"]);
    let status = world.gateway_status("web");
    assert_eq!(
        short(&status.conditions),
        ["Accepted=True/Accepted", "Programmed=False/Pending", "ResolvedRefs=True/ResolvedRefs"]
    );
    assert_eq!(status.listeners[0].attached_routes, 1);
    assert_eq!(short(&status.listeners[0].conditions)[0], "Accepted=True/Accepted");
}
