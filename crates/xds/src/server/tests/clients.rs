//! Who is connected, for the people whose clients these are.

use std::net::Ipv4Addr;

use bytes::Bytes;
use proto::envoy::config::core::v3::node::UserAgentVersionType;
use proto::envoy::config::core::v3::{BuildVersion, Node};
use proto::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use proto::envoy::r#type::v3::SemanticVersion;
use proto::google::rpc::Status;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::client::{CDS, Client, DEADLINE, EDS};
use crate::{Change, FleetUpdate, Gate, Resource, Server, TypeUrl, Version};

/// Waits until this is what clients are: accepted, pending and refused.
async fn until(server: &Server, expected: &[(usize, usize, usize)]) {
    let deadline = tokio::time::Instant::now() + DEADLINE;
    let mut found = Vec::new();
    while found != expected {
        assert!(tokio::time::Instant::now() < deadline, "{found:?} instead of {expected:?}");
        tokio::task::yield_now().await;
        found = server.clients().iter().map(|client| (client.accepted, client.pending, client.refused)).collect();
    }
}

#[tokio::test]
async fn each_client_is_told_with_where_it_comes_from_and_how_it_stands() {
    let (events, _) = mpsc::channel(64);
    let server = Server::start(&Handle::current(), events);
    let put = |name: &str| {
        Change::Put(Resource::new(TypeUrl::Cluster, name, Version(1), [Bytes::from_static(b"BODY")]).into())
    };
    server.publish(vec![FleetUpdate { fleet: "one".into(), changes: vec![put("good"), put("bad")] }]);
    let at = server.listen_tcp("127.0.0.1:0".parse().unwrap(), Gate::open()).unwrap();
    until(&server, &[]).await;

    let mut client = Client::tcp(at).await;
    let version = Some(SemanticVersion { major_number: 1, minor_number: 40, patch: 2 });
    let version = UserAgentVersionType::UserAgentBuildVersion(BuildVersion { version, ..BuildVersion::default() });
    let node = Node {
        id: "ns/pod".into(),
        cluster: "one".into(),
        user_agent_name: "somebody".into(),
        user_agent_version_type: Some(version),
        ..Node::default()
    };
    let first = DeltaDiscoveryRequest { node: Some(node), type_url: CDS.into(), ..DeltaDiscoveryRequest::default() };
    client.send(first).await;
    let response = client.next().await.unwrap();
    assert_eq!(response.resources.len(), 2);
    until(&server, &[(0, 2, 0)]).await;
    client.ack(&response).await;
    until(&server, &[(2, 0, 0)]).await;
    // What there is not is not pending.
    client.subscribe(None, EDS, &["nowhere"]).await;
    assert_eq!(client.names().await, ["-nowhere"]);
    until(&server, &[(2, 0, 0)]).await;

    server.publish(vec![FleetUpdate {
        fleet: "one".into(),
        changes: vec![Change::Put(
            Resource::new(TypeUrl::Cluster, "bad", Version(2), [Bytes::from_static(b"WORSE")]).into(),
        )],
    }]);
    let response = client.next().await.unwrap();
    let error_detail = Some(Status { code: 13, message: "bad: no way".into(), ..Status::default() });
    let nonce = response.nonce.clone();
    client
        .send(DeltaDiscoveryRequest { type_url: CDS.into(), response_nonce: nonce, error_detail, ..Default::default() })
        .await;
    until(&server, &[(1, 0, 1)]).await;
    let all = server.clients();
    assert_eq!((&*all[0].fleet, &*all[0].node.id, all[0].from), ("one", "ns/pod", Some(Ipv4Addr::LOCALHOST.into())));
    assert_eq!((&*all[0].node.user_agent, &*all[0].node.version), ("somebody", "1.40.2"));
    let refusal = &all[0].refusals[0];
    assert_eq!((&refusal.type_url, &*refusal.name, &*refusal.words), (&TypeUrl::Cluster, "bad", "bad: no way"));
    drop(client);
    until(&server, &[]).await;
    server.stop(DEADLINE).await;
}
