//! CSDS: what clients of the caller's own fleet hold, and nobody else's.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use proto::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use proto::google::rpc::Status;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::authority::Authority;
use super::client::{CDS, Client, DEADLINE, DELTA, SDS};
use crate::server::gate::Peer;
use crate::{Change, FleetUpdate, Fleets, Gate, Identity, Limits, Rate, Resource, Server, Tls, TypeUrl, Version};

const CSDS: &str = "/envoy.service.status.v3.ClientStatusDiscoveryService";

#[derive(Clone, PartialEq, Message)]
struct Question {
    #[prost(message, repeated, tag = "1")]
    matchers: Vec<Matcher>,
    #[prost(message, optional, tag = "2")]
    node: Option<Node>,
}

#[derive(Clone, PartialEq, Message)]
struct Matcher {
    #[prost(message, optional, tag = "1")]
    id: Option<Pattern>,
}

#[derive(Clone, PartialEq, Message)]
struct Pattern {
    #[prost(string, optional, tag = "1")]
    exact: Option<String>,
    #[prost(string, optional, tag = "5")]
    regex: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    cluster: String,
}

#[derive(Clone, PartialEq, Message)]
struct Report {
    #[prost(message, repeated, tag = "1")]
    clients: Vec<Told>,
}

#[derive(Clone, PartialEq, Message)]
struct Told {
    #[prost(message, optional, tag = "1")]
    node: Option<Node>,
    #[prost(message, repeated, tag = "3")]
    resources: Vec<Row>,
}

#[derive(Clone, PartialEq, Message)]
struct Row {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, tag = "3")]
    version: String,
    #[prost(bytes = "bytes", optional, tag = "4")]
    body: Option<Bytes>,
    #[prost(int32, tag = "6")]
    status: i32,
    #[prost(message, optional, tag = "8")]
    failure: Option<Failure>,
}

#[derive(Clone, PartialEq, Message)]
struct Failure {
    #[prost(string, tag = "3")]
    details: String,
}

impl Report {
    /// `ID: name@version status words, ...` of each client.
    fn lines(&self) -> Vec<String> {
        let row = |row: &Row| {
            assert_eq!(row.body, None);
            let version = row.version.trim_start_matches('0');
            let words = row.failure.as_ref().map(|failure| format!(" {}", failure.details)).unwrap_or_default();
            format!("{}@{version} {}{words}", row.name, row.status)
        };
        let line = |told: &Told| {
            let rows: Vec<String> = told.resources.iter().map(row).collect();
            format!("{}: {}", told.node.as_ref().unwrap().id, rows.join(", "))
        };
        self.clients.iter().map(line).collect()
    }
}

fn put(type_url: TypeUrl, name: &str, version: u128) -> Change {
    Change::Put(Resource::new(type_url, name, Version(version), [Bytes::from_static(b"BODY")]).into())
}

struct Stage {
    server: Server,
    at: SocketAddr,
    authority: Authority,
}

impl Stage {
    fn new() -> Self {
        let (events, _) = mpsc::channel(64);
        let server = Server::start(&Handle::current(), events);
        for fleet in ["a", "b"] {
            let changes = vec![put(TypeUrl::Cluster, fleet, 1), put(TypeUrl::Secret, &format!("key-of-{fleet}"), 1)];
            server.publish(vec![FleetUpdate { fleet: fleet.into(), changes }]);
        }
        let authority = Authority::new("one");
        let tls = Tls::new(&authority.server(&[&authority])).unwrap();
        let fleets_of = |identity: &Identity| Fleets::These(vec![Arc::clone(&identity.name)]);
        let gate = Gate::new(Arc::new(fleets_of), Limits::default());
        let at = server.listen_tls("127.0.0.1:0".parse().unwrap(), tls, gate).unwrap();
        Self { server, at, authority }
    }

    async fn call(&self, name: &str, path: &str) -> Client {
        let io = self.authority.connect(self.at, Some(&self.authority.issue(name))).await.unwrap();
        Client::call(io, path, None).await
    }

    async fn report(&self, name: &str, question: Question) -> Result<Vec<String>, String> {
        let mut client = self.call(name, &format!("{CSDS}/FetchClientStatus")).await;
        client.send(question).await;
        client.read::<Report>().await.map(|report| report.lines())
    }
}

#[tokio::test]
async fn each_client_of_the_callers_own_fleet_is_told_with_what_it_took_and_refused() {
    let stage = Stage::new();
    let mut a = stage.call("a", DELTA).await;
    a.subscribe(None, CDS, &[]).await;
    assert_eq!(a.names().await, ["a"]);
    a.subscribe(None, SDS, &["key-of-a", "key-of-b"]).await;
    assert_eq!(a.names().await, ["-key-of-b"]);
    let secret = a.next().await.unwrap();
    let error_detail = Some(Status { message: "the key is -----BEGIN PRIVATE KEY-----".into(), ..Status::default() });
    let nonce = secret.nonce.clone();
    a.send(DeltaDiscoveryRequest { type_url: SDS.into(), response_nonce: nonce, error_detail, ..Default::default() })
        .await;
    let mut b = stage.call("b", DELTA).await;
    b.subscribe(None, CDS, &[]).await;
    let unanswered = b.next().await.unwrap();

    // until the refusal has arrived
    let deadline = tokio::time::Instant::now() + DEADLINE;
    let mut lines = Vec::new();
    while !lines.iter().any(|line: &String| line.contains(" 4 ")) {
        assert!(tokio::time::Instant::now() < deadline, "{lines:?}");
        lines = stage.report("a", Question::default()).await.unwrap();
    }
    let words = "refused; the proxy's words are withheld because they can contain secrets";
    assert_eq!(lines, [format!(": a@1 1, key-of-a@ 4 {words}, key-of-b@ 2")]);
    assert_eq!(stage.report("b", Question::default()).await.unwrap(), [": b@ 3"]);
    b.ack(&unanswered).await;
    let mut stream = stage.call("b", &format!("{CSDS}/StreamClientStatus")).await;
    loop {
        stream.send(Question::default()).await;
        let lines = stream.read::<Report>().await.unwrap().lines();
        if lines == [": b@1 1"] {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{lines:?}");
    }
    drop(b);
    while !stage.report("b", Question::default()).await.unwrap().is_empty() {
        assert!(tokio::time::Instant::now() < deadline);
    }
    stage.server.stop(DEADLINE).await;
}

#[tokio::test]
async fn another_fleet_cannot_be_asked_for_and_clients_are_found_by_id() {
    let stage = Stage::new();
    let mut clients = Vec::new();
    for id in ["one", "two"] {
        let mut client = stage.call("a", DELTA).await;
        let node = proto::envoy::config::core::v3::Node { id: id.into(), ..Default::default() };
        client.send(DeltaDiscoveryRequest { node: Some(node), type_url: CDS.into(), ..Default::default() }).await;
        assert_eq!(client.names().await, ["a"]);
        clients.push(client);
    }
    let node = |cluster: &str| Some(Node { cluster: cluster.into(), ..Node::default() });
    for (name, cluster, expected) in [("a", "a", Ok(2)), ("b", "b", Ok(0)), ("b", "a", Err("7"))] {
        let question = Question { node: node(cluster), ..Question::default() };
        let count = stage.report(name, question).await.map(|lines| lines.len());
        assert_eq!(count, expected.map_err(str::to_owned), "{name} {cluster}");
    }
    let matching = |exact: &str| Matcher { id: Some(Pattern { exact: Some(exact.into()), regex: None }) };
    let question = Question { matchers: vec![matching("two"), matching("three")], node: None };
    let lines = stage.report("a", question).await.unwrap();
    assert!(lines.len() == 1 && lines[0].starts_with("two: a@1 "), "{lines:?}");
    let regex = Matcher { id: Some(Pattern { exact: None, regex: Some("x".into()) }) };
    assert_eq!(stage.report("a", Question { matchers: vec![regex], node: None }).await, Err("3".into()));
    stage.server.stop(DEADLINE).await;
}

#[tokio::test]
async fn a_question_costs_what_its_answer_does_though_it_is_too_long_to_be_sent() {
    let (events, _) = mpsc::channel(64);
    let server = Server::start(&Handle::current(), events);
    server.publish(vec![FleetUpdate { fleet: "f".into(), changes: vec![put(TypeUrl::Cluster, "c", 1)] }]);
    // nothing is made good for a while
    let limits = Limits { answers: Rate { per_second: 1, burst: 10_000 }, ..Limits::default() };
    let gate = Gate::new(Arc::new(|_| Fleets::Only("f".into())), limits);
    let at = server.listen_tcp("127.0.0.1:0".parse().unwrap(), gate.clone()).unwrap();
    let mut client = Client::tcp(at).await;
    let names: Vec<String> = (0..1_100).map(|n| format!("{n:04000}")).collect();
    client.subscribe(None, SDS, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(client.names().await.len(), names.len());

    let account = gate.account(&Peer::Loopback);
    let io = Box::new(tokio::net::TcpStream::connect(at).await.unwrap());
    let mut asking = Client::call(io, &format!("{CSDS}/FetchClientStatus"), None).await;
    let [_, before] = account.until_full();
    asking.send(Question::default()).await;
    assert_eq!(asking.read::<Report>().await, Err("8".into()));
    let [_, after] = account.until_full();
    let cost = after.saturating_sub(before);
    assert!(cost > std::time::Duration::from_secs(20), "{cost:?}");
    server.stop(DEADLINE).await;
}

#[tokio::test]
async fn matchers_are_few_and_short() {
    let stage = Stage::new();
    let matcher = |length: usize| Matcher { id: Some(Pattern { exact: Some("x".repeat(length)), regex: None }) };
    for (count, length, expected) in
        [(16, 4_096, Ok(Vec::new())), (17, 1, Err("3".to_owned())), (1, 4_097, Err("3".to_owned()))]
    {
        let question = Question { matchers: vec![matcher(length); count], node: None };
        assert_eq!(stage.report("a", question).await, expected, "{count} of {length}");
    }
    stage.server.stop(DEADLINE).await;
}
