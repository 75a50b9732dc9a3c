//! Rules of the protocol (`streams::tests` has the table) that concern calls and not what is said in them.

use proto::envoy::config::core::v3::Node;
use proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::client::{Client, DEADLINE};
use crate::server::services;
use crate::{Change, FleetUpdate, Gate, Resource, Server, TypeUrl, Version};

const METHODS: [(&str, bool); 4] = [
    ("envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources", true),
    ("envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources", false),
    ("envoy.service.runtime.v3.RuntimeDiscoveryService/DeltaRuntime", true),
    ("envoy.service.runtime.v3.RuntimeDiscoveryService/StreamRuntime", false),
];

fn node(id: &str) -> Node {
    Node { id: id.into(), cluster: "one".into(), user_agent_name: "envoy".into(), ..Node::default() }
}

/// Asks for a resource of RTDS; how the server answers, by name or by the number of the status.
async fn ask(client: &mut Client, delta: bool, node: Option<Node>, name: &str) -> Result<String, String> {
    let type_url = TypeUrl::Runtime.as_str().to_owned();
    let names = vec![name.to_owned()];
    if delta {
        let request = DeltaDiscoveryRequest {
            node,
            type_url,
            resource_names_subscribe: names,
            ..DeltaDiscoveryRequest::default()
        };
        client.send(request).await;
        let answer = client.read::<DeltaDiscoveryResponse>().await?;
        return Ok(answer.resources[0].name.clone());
    }
    client.send(DiscoveryRequest { node, type_url, resource_names: names, ..DiscoveryRequest::default() }).await;
    let answer = client.read::<DiscoveryResponse>().await?;
    Ok(String::from_utf8(answer.resources[0].value.to_vec()).unwrap())
}

#[tokio::test]
async fn the_node_stands_in_the_first_message_and_may_be_repeated_but_not_changed() {
    let (events, _received) = mpsc::channel(8);
    let server = Server::start(&Handle::current(), events);
    let at = server.listen_tcp("127.0.0.1:0".parse().unwrap(), Gate::open()).unwrap();
    let put = |name: &'static str| {
        let resource = Resource::new(TypeUrl::Runtime, name, Version(1), [name.into()]);
        Change::Put(resource.into())
    };
    let changes = ["a", "b", "c", "d"].map(put).into();
    server.publish(vec![FleetUpdate { fleet: "one".into(), changes }]);
    for (method, delta) in METHODS {
        let io = Box::new(TcpStream::connect(at).await.unwrap());
        let mut client = Client::call(io, &format!("/{method}"), None).await;
        assert_eq!(ask(&mut client, delta, Some(node("me")), "a").await, Ok("a".into()), "{method}");
        assert_eq!(ask(&mut client, delta, None, "b").await, Ok("b".into()), "{method}: as before");
        assert_eq!(ask(&mut client, delta, Some(node("me")), "c").await, Ok("c".into()), "{method}: repeated");
        assert_eq!(ask(&mut client, delta, Some(node("you")), "d").await, Err("3".into()), "{method}: changed");
    }
    server.stop(DEADLINE).await;
}

#[test]
fn every_discovery_service_is_served_in_both_variants_as_far_as_it_has_them_and_never_by_fetch() {
    let (mut streams, mut deltas) = (0, 0);
    for service in services::names().filter(|name| name.ends_with("DiscoveryService") && !name.contains(".status.")) {
        let kind = service.rsplit('.').next().unwrap().trim_end_matches("DiscoveryService");
        let forms = match kind {
            "Aggregated" => ["AggregatedResources".to_owned(), String::new()],
            "Runtime" => ["Runtime".into(), String::new()],
            _ => [format!("{kind}s"), kind.to_owned()],
        };
        let served =
            |verb: &str| forms.iter().any(|form| services::Service::at(&format!("/{service}/{verb}{form}")).is_some());
        assert!(!served("Fetch"), "{service}");
        streams += usize::from(served("Stream"));
        deltas += usize::from(served("Delta"));
    }
    assert_eq!((streams, deltas), (9, 11), "VHDS and LEDS are delta only");
}
