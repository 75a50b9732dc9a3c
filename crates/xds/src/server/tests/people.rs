//! What people and their tools ask: health, reflection.

use std::net::SocketAddr;

use bytes::Bytes;
use prost::Message;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::client::{Client, DEADLINE};
use crate::{Gate, Server};

/// A server at an address, and a part of the descriptors that it answers from.
fn server() -> (Server, SocketAddr) {
    let (events, _) = mpsc::channel(8);
    let server = Server::start(&Handle::current(), events);
    let at = server.listen_tcp("127.0.0.1:0".parse().unwrap(), Gate::open()).unwrap();
    (server, at)
}

async fn call(at: SocketAddr, path: &str) -> Client {
    Client::call(Box::new(TcpStream::connect(at).await.unwrap()), path, None).await
}

/// A message of one text in its first field, as several requests here are.
#[derive(Clone, PartialEq, Message)]
struct Text {
    #[prost(string, tag = "1")]
    text: String,
}

#[derive(Clone, PartialEq, Message)]
struct Health {
    #[prost(int32, tag = "1")]
    status: i32,
}

#[derive(Clone, PartialEq, Message)]
struct HealthList {
    #[prost(btree_map = "string, message", tag = "1")]
    statuses: std::collections::BTreeMap<String, Health>,
}

const ADS: &str = "envoy.service.discovery.v3.AggregatedDiscoveryService";

#[tokio::test]
async fn health_is_told_once_as_a_list_and_until_the_server_stops() {
    let (server, at) = server();
    for (service, expected) in [("", Ok(1)), (ADS, Ok(1)), ("no.such.Service", Err("5"))] {
        let mut client = call(at, "/grpc.health.v1.Health/Check").await;
        client.send(Text { text: service.into() }).await;
        let status = client.read::<Health>().await.map(|health| health.status);
        assert_eq!(status, expected.map_err(str::to_owned), "{service}");
        if status.is_ok() {
            assert_eq!(client.read::<Health>().await, Err("0".into()));
        }
    }
    let mut client = call(at, "/grpc.health.v1.Health/List").await;
    client.send(Text::default()).await;
    let list = client.read::<HealthList>().await.unwrap();
    assert!(list.statuses.contains_key("") && list.statuses.contains_key(ADS), "{list:?}");
    let mut watched = Vec::new();
    for (service, status) in [("", 1), ("no.such.Service", 3)] {
        let mut client = call(at, "/grpc.health.v1.Health/Watch").await;
        client.send(Text { text: service.into() }).await;
        assert_eq!(client.read::<Health>().await, Ok(Health { status }), "{service}");
        watched.push(client);
    }
    server.stop(DEADLINE).await;
    for mut client in watched {
        assert_eq!(client.read::<Health>().await, Err("14".into()));
    }
}

/// `ServerReflectionRequest` and `ServerReflectionResponse`, as much as is asked and looked at here.
#[derive(Clone, PartialEq, Message)]
struct Question {
    #[prost(string, optional, tag = "4")]
    symbol: Option<String>,
    #[prost(string, optional, tag = "7")]
    services: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Reflected {
    #[prost(message, optional, tag = "2")]
    question: Option<Question>,
    #[prost(message, optional, tag = "4")]
    files: Option<Files>,
    #[prost(message, optional, tag = "6")]
    services: Option<Services>,
    #[prost(message, optional, tag = "7")]
    error: Option<Health>,
}

#[derive(Clone, PartialEq, Message)]
struct Files {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    files: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
struct Services {
    #[prost(message, repeated, tag = "1")]
    services: Vec<Text>,
}

#[tokio::test]
async fn reflection_lists_the_services_and_gives_their_files() {
    let (server, at) = server();
    let set = include_bytes!("../../../../protojson/descriptors/envoy.binpb");
    server.describe(set);
    for version in ["v1", "v1alpha"] {
        let mut client = call(at, &format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo")).await;
        client.send(Question { services: Some(String::new()), ..Question::default() }).await;
        let answer = client.read::<Reflected>().await.unwrap();
        assert_eq!(answer.question.unwrap().services, Some(String::new()), "the question comes back");
        let names: Vec<String> = answer.services.unwrap().services.into_iter().map(|named| named.text).collect();
        assert!(names.contains(&ADS.to_owned()) && names.is_sorted(), "{names:?}");

        for symbol in [ADS, &format!("{ADS}.DeltaAggregatedResources"), "envoy.config.cluster.v3.Cluster.LbPolicy"] {
            client.send(Question { symbol: Some(symbol.to_owned()), ..Question::default() }).await;
            let files = client.read::<Reflected>().await.unwrap().files.unwrap().files;
            let file = prost_types::FileDescriptorProto::decode(&*files[0]).unwrap();
            let package = file.package().to_owned();
            assert!(symbol.starts_with(&package), "{symbol} in {package}");
        }
        client.send(Question { symbol: Some("no.such.Symbol".into()), ..Question::default() }).await;
        assert_eq!(client.read::<Reflected>().await.unwrap().error, Some(Health { status: 5 }));
    }
    server.stop(DEADLINE).await;
}

#[tokio::test]
async fn methods_that_are_not_served_are_unimplemented_and_broken_requests_invalid() {
    let (server, at) = server();
    for path in [
        "/envoy.service.discovery.v3.AggregatedDiscoveryService/Fetch",
        "/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters",
        "/grpc.health.v1.Health/check",
        "/grpc.health.v1.Health",
        "/",
    ] {
        assert_eq!(call(at, path).await.headers["grpc-status"], "12", "{path}");
    }
    let mut client = call(at, "/grpc.health.v1.Health/Check").await;
    // a length in the place of a text
    client.send(Health { status: 1 }).await;
    assert_eq!(client.read::<Health>().await, Err("3".into()));
    server.stop(DEADLINE).await;
}
