//! Who may come, and as what: certificates, tokens, limits, each refusal with its code.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use super::authority::{Authority, Pair};
use super::client::{CDS, Client, DEADLINE, DELTA, EDS, SDS};
use crate::{
    Change, Event, FleetUpdate, Fleets, Gate, Identity, Limits, Pem, Rate, Resource, Revoked, Server, Tls, TokenError,
    TypeUrl, VerifyToken, Verifying, Version,
};

fn put(type_url: TypeUrl, name: &str, body: &'static str) -> Change {
    Change::Put(Resource::new(type_url, name, Version(1), [Bytes::from_static(body.as_bytes())]).into())
}

fn publish(server: &Server, fleet: &str, changes: Vec<Change>) {
    server.publish(vec![FleetUpdate { fleet: fleet.into(), changes }]);
}

/// `spiffe://td/<fleet>`, a token's name, or for `both` two fleets.
fn fleets_of(identity: &Identity) -> Fleets {
    let fleet = identity.name.strip_prefix("spiffe://td/").unwrap_or(&identity.name);
    Fleets::These(if fleet == "both" { vec!["ns/a".into(), "ns/b".into()] } else { vec![fleet.into()] })
}

fn gate(limits: Limits) -> Gate {
    Gate::new(Arc::new(fleets_of), limits)
}

/// A server with fleets `ns/a` and `ns/b` at a TLS listener, both authorities of which are the same.
struct Stage {
    server: Server,
    tls: Tls,
    at: SocketAddr,
    authority: Authority,
    events: mpsc::Receiver<Vec<Event>>,
}

impl Stage {
    fn new(limits: Limits) -> Self {
        let (sender, events) = mpsc::channel(64);
        let server = Server::start(&Handle::current(), sender);
        for fleet in ["a", "b"] {
            let changes =
                vec![put(TypeUrl::Cluster, fleet, ""), put(TypeUrl::Secret, &format!("key-of-{fleet}"), "private")];
            publish(&server, &format!("ns/{fleet}"), changes);
        }
        let authority = Authority::new("one");
        let tls = Tls::new(&authority.server(&[&authority])).unwrap();
        let at = server.listen_tls("127.0.0.1:0".parse().unwrap(), tls.clone(), gate(limits)).unwrap();
        Self { server, tls, at, authority, events }
    }

    async fn client(&self, pair: &Pair) -> Client {
        let io = self.authority.connect(self.at, Some(pair)).await.unwrap();
        Client::call(io, DELTA, None).await
    }

    /// What a client of this name is answered that asks for clusters, saying to be of a cluster.
    async fn clusters(&self, name: &str, cluster: &str) -> Result<Vec<String>, String> {
        let mut client = self.client(&self.authority.issue(name)).await;
        if let Some(status) = client.headers.get("grpc-status") {
            return Err(status.to_str().unwrap().to_owned());
        }
        client.subscribe(Some(cluster), CDS, &[]).await;
        let response = client.next().await?;
        Ok(response.resources.into_iter().map(|resource| resource.name).collect())
    }

    async fn end(self) {
        self.server.stop(DEADLINE).await;
    }
}

#[tokio::test]
async fn a_certificate_says_which_fleet_and_the_node_only_narrows() {
    let stage = Stage::new(Limits::default());
    for (name, cluster, expected) in [
        ("spiffe://td/ns/a", "", Ok("a")),
        ("spiffe://td/ns/a", "ns/a", Ok("a")),
        ("spiffe://td/ns/a", "ns/b", Err("7")),
        ("both", "ns/b", Ok("b")),
        ("both", "", Err("7")),
        ("both", "ns/c", Err("7")),
        ("", "ns/a", Err("16")),
    ] {
        let expected = expected.map(|cluster| vec![cluster.to_owned()]).map_err(str::to_owned);
        assert_eq!(stage.clusters(name, cluster).await, expected, "{name:?} {cluster:?}");
    }
    stage.end().await;
}

#[tokio::test]
async fn without_a_good_certificate_there_is_no_connection() {
    let stage = Stage::new(Limits::default());
    let other = Authority::new("other");
    let foreign = other.issue("spiffe://td/ns/a");
    let mut expired = stage.authority.issue_for("spiffe://td/ns/a", Duration::ZERO);
    assert!(stage.authority.connect(stage.at, None).await.is_err());
    assert!(stage.authority.connect(stage.at, Some(&foreign)).await.is_err());
    while stage.authority.connect(stage.at, Some(&expired)).await.is_ok() {
        // its last second has not passed yet
        expired = expired.clone();
    }
    let mut plain = TcpStream::connect(stage.at).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut plain, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _reset = plain.read_to_end(&mut answer).await;
    // a TLS alert at most
    assert!(answer.first().is_none_or(|first| *first == 0x15), "{answer:?}");
    stage.end().await;
}

#[tokio::test]
async fn an_identity_that_expires_ends_its_stream_though_nobody_says_anything() {
    let mut stage = Stage::new(Limits::default());
    let brief = stage.authority.issue_for("spiffe://td/ns/a", Duration::from_secs(5));
    let mut client = stage.client(&brief).await;
    client.subscribe(None, CDS, &[]).await;
    assert_eq!(client.names().await, ["a"]);
    assert_eq!(client.next().await, Err("16".into()));
    let mut gone = false;
    while !gone {
        gone = stage.events.recv().await.unwrap().iter().any(|event| matches!(event, Event::Gone { connected: 0, .. }));
    }
    stage.end().await;
}

#[tokio::test]
async fn an_identity_that_expires_ends_its_stream_though_its_client_does_not_read() {
    let mut stage = Stage::new(Limits::default());
    let brief = stage.authority.issue_for("spiffe://td/ns/a", Duration::from_secs(5));
    // what is said first is more than the client's windows take
    let pieces = [Bytes::from(vec![1; 12 << 20]), Bytes::from(vec![2; 12 << 20])];
    let large = Resource::new(TypeUrl::Cluster, "large", Version(1), pieces);
    publish(&stage.server, "ns/a", vec![Change::Put(large.into())]);
    let mut client = stage.client(&brief).await;
    client.subscribe(None, CDS, &[]).await;
    let gone = |event: &Event| matches!(event, Event::Gone { connected: 0, .. });
    let leave = async { while !stage.events.recv().await.unwrap().iter().any(gone) {} };
    tokio::time::timeout(DEADLINE, leave).await.expect("it has ended");
    let next = client.next().await.map(|response| response.resources.len());
    assert_eq!(next, Err("16".into()), "in the middle of a message");
    stage.end().await;
}

#[tokio::test]
async fn certificates_and_authorities_change_under_open_streams() {
    let stage = Stage::new(Limits::default());
    let old = stage.authority.issue("spiffe://td/ns/a");
    let mut client = stage.client(&old).await;
    client.subscribe(None, CDS, &[]).await;
    assert_eq!(client.names().await, ["a"]);
    // another authority for both sides, while nobody says anything
    let next = Authority::new("next");
    stage.tls.replace(&next.server(&[&next])).unwrap();
    publish(&stage.server, "ns/a", vec![put(TypeUrl::Cluster, "more", "")]);
    assert_eq!(client.names().await, ["more"], "the open stream goes on");
    assert!(stage.authority.connect(stage.at, Some(&old)).await.is_err(), "the new certificate is not trusted yet");
    assert!(next.connect(stage.at, Some(&old)).await.is_err(), "the old authority is no more");
    let io = next.connect(stage.at, Some(&next.issue("spiffe://td/ns/b"))).await.unwrap();
    let mut after = Client::call(io, DELTA, None).await;
    after.subscribe(None, CDS, &[]).await;
    assert_eq!(after.names().await, ["b"]);
    // what cannot be used changes nothing
    let mut broken = next.server(&[&next]);
    broken.client_ca = Vec::new();
    assert!(stage.tls.replace(&broken).is_err());
    assert!(next.connect(stage.at, Some(&next.issue("spiffe://td/ns/b"))).await.is_ok());
    stage.end().await;
}

#[tokio::test]
async fn a_fleets_secret_reaches_no_other_fleet() {
    let stage = Stage::new(Limits::default());
    let mut client = stage.client(&stage.authority.issue("spiffe://td/ns/a")).await;
    client.subscribe(None, SDS, &["key-of-b", "key-of-a"]).await;
    assert_eq!(client.names().await, ["-key-of-b"], "as if there were none");
    let response = client.next().await.unwrap();
    assert_eq!(response.resources.iter().map(|resource| &*resource.name).collect::<Vec<_>>(), ["key-of-a"]);
    client.ack(&response).await;
    // everything there is of any kind: nothing more comes before the answer to what was asked last
    for kind in [SDS, EDS] {
        client.subscribe(None, kind, &["*", "key-of-b"]).await;
    }
    client.subscribe(None, CDS, &["*"]).await;
    let mut seen = Vec::new();
    while !seen.contains(&"a".to_owned()) {
        let response = client.next().await.unwrap();
        client.ack(&response).await;
        assert!(response.resources.iter().all(|r| r.name != "key-of-b" || response.type_url == EDS), "{response:?}");
        seen.extend(response.resources.into_iter().map(|resource| resource.name));
    }
    stage.end().await;
}

#[tokio::test]
async fn who_says_nothing_is_dropped_and_keeps_nobody_out() {
    let limits = Limits { handshakes: 4, handshake: Duration::from_secs(5), ..Limits::default() };
    let stage = Stage::new(limits);
    let mut silent = Vec::new();
    for _ in 0..12 {
        silent.push(TcpStream::connect(stage.at).await.unwrap());
    }
    assert_eq!(stage.clusters("spiffe://td/ns/a", "").await, Ok(vec!["a".to_owned()]));
    for mut stream in silent {
        let mut nothing = Vec::new();
        let ended = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut nothing)).await;
        assert!(ended.is_ok() && nothing.is_empty());
    }
    stage.end().await;
}

#[tokio::test]
async fn beyond_its_limits_an_identity_is_refused_with_words_and_others_are_not() {
    let stage = Stage::new(Limits { connections: 2, calls: 1, ..Limits::default() });
    let (a, b) = (stage.authority.issue("spiffe://td/ns/a"), stage.authority.issue("spiffe://td/ns/b"));
    let first = stage.client(&a).await;
    let second = stage.client(&a).await;
    assert_eq!(second.headers["grpc-status"], "8");
    assert_eq!(second.headers["grpc-message"], "more calls than one identity may have");
    let third = stage.client(&a).await;
    assert_eq!(third.headers["grpc-status"], "8");
    assert_eq!(third.headers["grpc-message"], "more connections than one identity may have");
    let mut other = stage.client(&b).await;
    other.subscribe(None, CDS, &[]).await;
    assert_eq!(other.names().await, ["b"]);
    drop((first, second, third));
    // what they had is free again as soon as the server has seen them go
    let deadline = Instant::now() + DEADLINE;
    while stage.clusters("spiffe://td/ns/a", "").await.is_err() {
        assert!(Instant::now() < deadline);
    }
    stage.end().await;
}

#[tokio::test]
async fn the_names_of_all_streams_of_an_identity_are_counted_and_others_are_not_concerned() {
    let stage = Stage::new(Limits { names: 4, ..Limits::default() });
    let (a, b) = (stage.authority.issue("spiffe://td/ns/a"), stage.authority.issue("spiffe://td/ns/b"));
    let (mut one, mut two, mut other) = (stage.client(&a).await, stage.client(&a).await, stage.client(&b).await);
    let ask = async |client: &mut Client, names: &[&str]| {
        client.subscribe(None, EDS, names).await;
        client.next().await.map(|response| response.resources.len() + response.removed_resources.len())
    };
    assert_eq!(ask(&mut one, &["x", "y", "z"]).await, Ok(3));
    assert_eq!(ask(&mut two, &["x"]).await, Ok(1));
    assert_eq!(ask(&mut other, &["x", "y", "z"]).await, Ok(3));
    assert_eq!(ask(&mut two, &["y"]).await, Err("8".into()), "the fifth");
    assert_eq!(ask(&mut one, &["v"]).await, Ok(1), "the stream that was ended has none any more");
    drop(one);
    let deadline = Instant::now() + DEADLINE;
    let mut three = stage.client(&a).await;
    while ask(&mut three, &["x", "y", "z"]).await.is_err() {
        assert!(Instant::now() < deadline, "what a client had is free again when it has gone");
        three = stage.client(&a).await;
    }
    stage.end().await;
}

#[tokio::test]
async fn a_flood_of_requests_is_slowed_down_and_answered_and_others_are_answered_meanwhile() {
    let stage = Stage::new(Limits { stream: Rate { per_second: 4, burst: 4 }, ..Limits::default() });
    let mut client = stage.client(&stage.authority.issue("spiffe://td/ns/a")).await;
    for n in 0..14 {
        client.subscribe(None, EDS, &[&format!("set-{n}")]).await;
    }
    let mut flood = pin!(async {
        let mut names = Vec::new();
        while names.len() < 14 {
            names.extend(client.names().await);
        }
    });
    let other = async {
        let mut other = stage.client(&stage.authority.issue("spiffe://td/ns/b")).await;
        other.subscribe(None, CDS, &[]).await;
        assert_eq!(other.names().await, ["b"]);
    };
    tokio::select! {
        biased;
        () = &mut flood => panic!("nothing slowed it down"),
        () = other => {}
    }
    flood.await;
    stage.end().await;
}

#[tokio::test]
async fn large_requests_of_one_identity_come_in_one_after_the_other() {
    let stage = Stage::new(Limits { bytes: 300 << 10, ..Limits::default() });
    let pair = stage.authority.issue("spiffe://td/ns/a");
    let names: Vec<String> = (0..20_000).map(|n| format!("set-{n:04}-of-many")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut clients = Vec::new();
    for _ in 0..4 {
        let client = stage.client(&pair).await;
        client.subscribe(None, EDS, &names).await;
        clients.push(client);
    }
    for client in &mut clients {
        let mut answered = 0;
        while answered < names.len() {
            answered += client.names().await.len();
        }
    }
    stage.end().await;
}

#[tokio::test]
async fn a_request_that_does_not_come_keeps_its_room_for_a_time_only() {
    let stage = Stage::new(Limits { bytes: 300 << 10, complete: Duration::from_secs(3), ..Limits::default() });
    let pair = stage.authority.issue("spiffe://td/ns/a");
    let mut silent = stage.client(&pair).await;
    // their heads say 256 KiB, and 100 bytes
    silent.send_bytes(Bytes::from_static(&[0, 0, 4, 0, 0])).await;
    let mut brief = stage.client(&pair).await;
    brief.send_bytes(Bytes::from_static(&[0, 0, 0, 0, 100])).await;
    assert_eq!(silent.next().await, Err("8".into()));
    assert_eq!(brief.next().await, Err("8".into()));
    let mut client = stage.client(&pair).await;
    let names: Vec<String> = (0..20_000).map(|n| format!("set-{n:04}-of-many")).collect();
    client.subscribe(None, EDS, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert!(!client.names().await.is_empty());
    stage.end().await;
}

#[tokio::test]
async fn an_old_connection_is_asked_to_go_and_ended() {
    let stage = Stage::new(Limits { age: Some(Duration::from_secs(2)), ..Limits::default() });
    let pair = stage.authority.issue("spiffe://td/ns/a");
    let mut client = stage.client(&pair).await;
    client.subscribe(None, CDS, &[]).await;
    assert_eq!(client.names().await, ["a"]);
    assert_eq!(client.next().await, Err("14".into()));
    assert_eq!(stage.clusters("spiffe://td/ns/a", "").await, Ok(vec!["a".to_owned()]));
    stage.end().await;
}

/// Tokens are fleets' names, good for some seconds if they end with `!`.
struct Double;

impl VerifyToken for Double {
    fn verify<'a>(&'a self, token: &'a str) -> Verifying<'a> {
        Box::pin(async move {
            let (name, left) = match token.strip_suffix('!') {
                Some(name) => (name, 4),
                None => (token, 3600),
            };
            let expires = Some(Instant::now() + Duration::from_secs(left));
            if name.starts_with("ns/") {
                Ok(Identity { name: name.into(), expires, revoked: None })
            } else {
                Err(TokenError::Refused)
            }
        })
    }
}

#[tokio::test]
async fn a_bearer_token_says_which_fleet_until_it_expires() {
    let (sender, _events) = mpsc::channel(64);
    let server = Server::start(&Handle::current(), sender);
    publish(&server, "ns/a", vec![put(TypeUrl::Cluster, "a", "")]);
    let gate = Gate::with_tokens(Arc::new(fleets_of), Limits::default(), Arc::new(Double));
    let at = server.listen_tcp("127.0.0.1:0".parse().unwrap(), gate).unwrap();
    let open = async |token| Client::call(Box::new(TcpStream::connect(at).await.unwrap()), DELTA, token).await;
    assert_eq!(open(None).await.headers["grpc-status"], "16");
    assert_eq!(open(Some("bad")).await.headers["grpc-status"], "16");
    let mut wide = open(Some("ns/a")).await;
    wide.subscribe(Some("ns/b"), CDS, &[]).await;
    assert_eq!(wide.next().await, Err("7".into()));
    let mut brief = open(Some("ns/a!")).await;
    brief.subscribe(Some("ns/a"), CDS, &[]).await;
    assert_eq!(brief.names().await, ["a"]);
    assert_eq!(brief.next().await, Err("16".into()));
    server.stop(DEADLINE).await;
}

/// A token that is good until it is withdrawn.
struct Withdrawn(Arc<watch::Sender<bool>>, Arc<watch::Sender<bool>>);

impl VerifyToken for Withdrawn {
    fn verify<'a>(&'a self, token: &'a str) -> Verifying<'a> {
        let is_good = !*self.0.borrow() && !*self.1.borrow();
        let expires = Some(Instant::now() + Duration::from_secs(3600));
        let revoked = Some(Revoked(vec![Arc::clone(&self.0), Arc::clone(&self.1)]));
        let identity = Identity { name: token.into(), expires, revoked };
        Box::pin(std::future::ready(if is_good { Ok(identity) } else { Err(TokenError::Refused) }))
    }
}

#[tokio::test]
async fn a_token_that_is_withdrawn_ends_its_streams_and_opens_no_more() {
    for signal in [0, 1] {
        withdraw(signal).await;
    }
}

/// Withdraws a token by one of its signals.
async fn withdraw(signal: usize) {
    let (sender, _events) = mpsc::channel(64);
    let server = Server::start(&Handle::current(), sender);
    publish(&server, "ns/a", vec![put(TypeUrl::Cluster, "a", "")]);
    let signals = [(); 2].map(|()| Arc::new(watch::Sender::new(false)));
    let verifier = Arc::new(Withdrawn(Arc::clone(&signals[0]), Arc::clone(&signals[1])));
    let gate = Gate::with_tokens(Arc::new(fleets_of), Limits::default(), verifier);
    let at = server.listen_tcp("127.0.0.1:0".parse().unwrap(), gate).unwrap();
    let open = async || Client::call(Box::new(TcpStream::connect(at).await.unwrap()), DELTA, Some("ns/a")).await;
    let mut streams = [open().await, open().await];
    for stream in &mut streams {
        stream.subscribe(Some("ns/a"), CDS, &[]).await;
        assert_eq!(stream.names().await, ["a"]);
    }
    signals[signal].send_replace(true);
    for stream in &mut streams {
        assert_eq!(stream.next().await, Err("16".into()));
    }
    assert_eq!(open().await.headers["grpc-status"], "16", "it was remembered as good for ten minutes");
    server.stop(DEADLINE).await;
}

#[tokio::test]
async fn with_tls_a_token_or_a_certificate_says_who_calls_and_one_of_them_has_to() {
    let (sender, _events) = mpsc::channel(64);
    let server = Server::start(&Handle::current(), sender);
    publish(&server, "ns/a", vec![put(TypeUrl::Cluster, "a", "")]);
    publish(&server, "ns/b", vec![put(TypeUrl::Cluster, "b", "")]);
    let authority = Authority::new("ours");
    let tls = Tls::new(&Pem { anonymous: true, ..authority.server(&[&authority]) }).unwrap();
    let gate = Gate::with_tokens(Arc::new(fleets_of), Limits::default(), Arc::new(Double));
    let at = server.listen_tls("127.0.0.1:0".parse().unwrap(), tls, gate).unwrap();
    let pair = authority.issue("spiffe://td/ns/a");
    let open = async |with, token| Client::call(authority.connect(at, with).await.unwrap(), DELTA, token).await;
    let mut by_token = open(None, Some("ns/b")).await;
    by_token.subscribe(None, CDS, &[]).await;
    assert_eq!(by_token.names().await, ["b"]);
    let mut by_certificate = open(Some(&pair), None).await;
    by_certificate.subscribe(None, CDS, &[]).await;
    assert_eq!(by_certificate.names().await, ["a"]);
    let mut by_both = open(Some(&pair), Some("ns/b")).await;
    by_both.subscribe(None, CDS, &[]).await;
    assert_eq!(by_both.names().await, ["b"]);
    assert_eq!(open(Some(&pair), Some("bad")).await.headers["grpc-status"], "16");
    assert_eq!(open(None, None).await.headers["grpc-status"], "16");
    let foreign = Authority::new("theirs").issue("spiffe://td/ns/a");
    assert!(authority.connect(at, Some(&foreign)).await.is_err(), "a certificate of somebody else is none");
    server.stop(DEADLINE).await;
}
