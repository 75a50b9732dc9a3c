//! Streams over sockets: who sees what, what wakes whom, how streams end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use proto::envoy::config::core::v3::Node;
use proto::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use tempfile::TempDir;
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::client::{CDS, Client, DEADLINE, DELTA, EDS, LDS, frame};
use crate::{
    Change, Event, FleetUpdate, Fleets, Gate, Identity, Limits, ListenError, Resource, Server, TypeUrl, VerifyToken,
    Verifying, Version,
};

fn put(type_url: TypeUrl, name: &str, version: u128, body: Vec<Bytes>) -> Change {
    Change::Put(Resource::new(type_url, name, Version(version), body).into())
}

/// A version of a cluster.
fn cluster(name: &str, version: u128) -> Change {
    put(TypeUrl::Cluster, name, version, Vec::new())
}

fn update(fleet: &str, changes: Vec<Change>) -> Vec<FleetUpdate> {
    vec![FleetUpdate { fleet: fleet.into(), changes }]
}

fn server() -> (Server, mpsc::Receiver<Vec<Event>>) {
    let (events, received) = mpsc::channel(8);
    (Server::start(&Handle::current(), events), received)
}

/// A server with the fleet `one` at a Unix socket.
struct One {
    server: Server,
    events: mpsc::Receiver<Vec<Event>>,
    path: PathBuf,
    _folder: TempDir,
}

impl One {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("xds.sock");
        let (server, events) = server();
        let one = Self { server, events, path, _folder: folder };
        one.listen();
        one
    }

    fn listen(&self) {
        self.server.listen_unix(&self.path, "one".into(), None).unwrap();
    }

    fn publish(&self, changes: Vec<Change>) {
        self.server.publish(update("one", changes));
    }

    /// A client that asks for all clusters.
    async fn client(&self) -> Client {
        let client = Client::unix(&self.path).await;
        client.subscribe(None, CDS, &[]).await;
        client
    }

    /// A client that has all clusters and listeners, of which there are these.
    async fn complete(&self, clusters: &[&str]) -> Client {
        let mut client = Client::unix(&self.path).await;
        complete(&mut client, clusters).await;
        client
    }

    /// What is told until this event is.
    async fn told_until(&mut self, is_it: impl Fn(&Event) -> bool) -> Vec<Event> {
        let mut told = Vec::new();
        while !told.iter().any(&is_it) {
            let batch = tokio::time::timeout(DEADLINE, self.events.recv()).await;
            told.extend(batch.unwrap_or_else(|_| panic!("not told, but {told:?}")).unwrap());
        }
        told
    }

    async fn stop(&self) {
        self.server.stop(DEADLINE).await;
    }
}

#[tokio::test]
async fn a_change_published_from_another_thread_wakes_the_stream() {
    let one = One::start();
    let mut client = Client::unix(&one.path).await;
    client.subscribe(Some("whatever"), CDS, &[]).await;
    let publisher = one.server.clone();
    let thread = std::thread::spawn(move || {
        publisher.publish(update("other", vec![cluster("not yours", 1)]));
        publisher.publish(update("one", vec![cluster("a", 1)]));
    });
    assert_eq!(client.names().await, ["a"]);
    thread.join().unwrap();
    one.stop().await;
    assert!(!one.path.exists());
}

#[tokio::test]
async fn large_and_small_pieces_arrive_whole() {
    let one = One::start();
    let bodies: Vec<Vec<Bytes>> = (0..40)
        .map(|n| vec![Bytes::from(vec![1u8; n]), Bytes::from(vec![2u8; n * 2000]), Bytes::from(vec![3u8; 5])])
        .collect();
    let puts = bodies
        .iter()
        .enumerate()
        .map(|(n, body)| put(TypeUrl::Cluster, &format!("c{n:02}"), 1, body.clone()))
        .collect();
    one.publish(puts);
    let mut client = one.client().await;
    let response = client.next().await.unwrap();
    for (resource, body) in response.resources.iter().zip(&bodies) {
        assert!(resource.resource.as_ref().unwrap().value == body.concat(), "{}", resource.name);
    }
    assert_eq!(response.resources.len(), 40);
    one.stop().await;
}

#[tokio::test]
async fn over_tcp_the_node_says_which_fleet_and_may_be_refused() {
    let (server, _events) = server();
    let gate = Gate::new(Arc::new(|_| Fleets::These(vec!["one".into(), "three".into()])), Limits::default());
    let address = server.listen_tcp("127.0.0.1:0".parse().unwrap(), gate).unwrap();
    server.publish(update("one", vec![cluster("a", 1)]));
    let mut client = Client::tcp(address).await;
    client.subscribe(Some("one"), CDS, &[]).await;
    assert_eq!(client.names().await, ["a"]);
    let mut stranger = Client::tcp(address).await;
    stranger.subscribe(Some("two"), CDS, &[]).await;
    assert_eq!(stranger.next().await, Err("7".into()));
    client.subscribe(Some("two"), EDS, &[]).await;
    assert_eq!(client.next().await, Err("3".into()));
    server.stop(DEADLINE).await;
}

#[tokio::test]
async fn a_name_of_more_than_4_kib_ends_the_stream() {
    let one = One::start();
    one.publish(Vec::new());
    let long = "n".repeat(4097);
    let mut client = Client::unix(&one.path).await;
    client.subscribe(None, EDS, &[&long[1..]]).await;
    assert_eq!(client.names().await, [format!("-{}", &long[1..])], "there is none");
    client.subscribe(None, EDS, &[&long]).await;
    assert_eq!(client.next().await, Err("3".into()));
    for (node, kind) in [(Some(&*long), EDS), (None, &*long)] {
        let mut client = Client::unix(&one.path).await;
        client.subscribe(node, kind, &[]).await;
        assert_eq!(client.next().await, Err("3".into()));
    }
    one.stop().await;
}

#[tokio::test]
async fn tcp_beyond_this_machine_is_refused() {
    let (server, _events) = server();
    let refused = server.listen_tcp("0.0.0.0:0".parse().unwrap(), Gate::open());
    assert!(matches!(refused, Err(ListenError::NotLoopback(_))));
}

#[tokio::test]
async fn a_dead_socket_is_taken_over_and_a_live_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("xds.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let (first, _events) = server();
    first.listen_unix(&path, "one".into(), None).unwrap();
    let (second, _events) = server();
    assert!(matches!(second.listen_unix(&path, "one".into(), None), Err(ListenError::InUse(_))));
    first.stop(DEADLINE).await;
    second.listen_unix(&path, "one".into(), None).unwrap();
    second.stop(DEADLINE).await;
}

#[tokio::test]
async fn a_file_that_is_no_socket_is_named_with_the_remedy_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("xds.sock");
    std::fs::write(&path, "somebody's").unwrap();
    let (server, _events) = server();
    let words = server.listen_unix(&path, "one".into(), None).unwrap_err().to_string();
    for part in [path.to_str().unwrap(), "no socket", "move it away or remove it"] {
        assert!(words.contains(part), "{words:?} lacks {part:?}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"somebody's");
    std::fs::remove_file(&path).unwrap();
    server.listen_unix(&path, "one".into(), None).unwrap();
    server.stop(DEADLINE).await;
}

#[tokio::test]
async fn a_socket_whose_file_was_removed_can_be_made_again_and_stays() {
    let one = One::start();
    one.publish(vec![cluster("a", 1)]);
    let mut before = one.client().await;
    assert_eq!(before.names().await, ["a"]);
    std::fs::remove_file(&one.path).unwrap();
    one.listen();
    assert_eq!(before.next().await, Err("14".into()), "its stream ends when the old listener has");
    let mut after = one.client().await;
    assert_eq!(after.names().await, ["a"]);
    one.stop().await;
    assert!(!one.path.exists());
}

#[tokio::test]
async fn other_methods_and_broken_messages_are_refused() {
    let one = One::start();
    let io = Box::new(UnixStream::connect(&one.path).await.unwrap());
    let client = Client::call(io, &DELTA.replace("Delta", "NoSuch"), None).await;
    assert_eq!(client.headers["grpc-status"], "12");
    let mut client = Client::unix(&one.path).await;
    client.send(DeltaDiscoveryRequest { type_url: "x".repeat(17 << 20), ..DeltaDiscoveryRequest::default() }).await;
    assert_eq!(client.next().await, Err("8".into()));
    one.stop().await;
}

#[tokio::test]
async fn a_stopping_server_ends_its_streams() {
    let mut one = One::start();
    one.publish(Vec::new());
    let mut client = one.client().await;
    assert_eq!(client.names().await, Vec::<String>::new());
    assert!(matches!(one.events.recv().await.unwrap()[..], [Event::Connected { .. }]));
    one.stop().await;
    assert_eq!(client.next().await, Err("14".into()));
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_nobody_and_gets_the_latest_in_the_end() {
    let one = One::start();
    let body = |n: u8| vec![Bytes::from(vec![n; 300 << 10])];
    one.publish(vec![put(TypeUrl::Cluster, "a", 1, body(1))]);
    let mut slow = one.client().await;
    let mut quick = one.client().await;
    assert_eq!(quick.names().await, ["a"]);
    for version in 2..40 {
        one.publish(vec![put(TypeUrl::Cluster, "a", version, body(1))]);
        assert_eq!(quick.names().await, ["a"]);
    }
    let mut seen = 0;
    loop {
        let response = slow.next().await.unwrap();
        slow.ack(&response).await;
        seen += 1;
        if Version::parse(&response.resources[0].version) == Some(Version(39)) {
            break;
        }
    }
    assert!(seen < 5, "{seen} versions for a client that read at the end");
    one.stop().await;
}

/// Gives a client all clusters and listeners, of which there are these.
async fn complete(client: &mut Client, clusters: &[&str]) {
    client.subscribe(None, CDS, &[]).await;
    assert_eq!(client.names().await, clusters);
    client.subscribe(None, LDS, &[]).await;
    assert_eq!(client.names().await, [""; 0]);
}

/// The server has taken in all that this client has said.
async fn settle(client: &mut Client, name: &str) {
    client.subscribe(None, EDS, &[name]).await;
    while client.names().await != [format!("-{name}")] {}
}

fn is_warm(event: &Event, cluster: &str) -> bool {
    matches!(event, Event::ClusterWarm { name, .. } if &**name == cluster)
}

#[tokio::test]
async fn nobody_waits_for_a_client_that_stops_reading_in_the_middle_of_a_response_until_it_reads_on() {
    let mut one = One::start();
    one.publish(vec![cluster("a", 1)]);
    let mut deaf = one.complete(&["a"]).await;
    one.told_until(|event| matches!(event, Event::Live { .. })).await;
    let mut quick = one.complete(&["a"]).await;
    settle(&mut quick, "x").await;
    // more than the deaf one's windows take
    one.publish(vec![put(TypeUrl::Cluster, "large", 1, vec![Bytes::from(vec![1; 12 << 20])])]);
    assert_eq!(quick.names().await, ["large"]);
    one.told_until(|event| is_warm(event, "large")).await;
    one.publish(vec![cluster("b", 1)]);
    assert_eq!(quick.names().await, ["b"]);
    one.told_until(|event| is_warm(event, "b")).await;
    assert_eq!(deaf.names().await, ["large"]);
    assert_eq!(deaf.names().await, ["b"]);
    settle(&mut deaf, "x").await;
    one.publish(vec![cluster("c", 1)]);
    assert_eq!(quick.names().await, ["c"]);
    settle(&mut quick, "y").await;
    let _third = one.client().await;
    let told = one.told_until(|event| matches!(event, Event::Connected { connected: 3, .. })).await;
    assert!(!told.iter().any(|event| is_warm(event, "c")), "the other one is waited for again: {told:?}");
    assert_eq!(deaf.names().await, ["c"]);
    one.told_until(|event| is_warm(event, "c")).await;
    one.stop().await;
}

/// Takes every token, for an hour.
struct AnHour;

impl VerifyToken for AnHour {
    fn verify(&self, _: &str) -> Verifying<'_> {
        let expires = Some(Instant::now() + Duration::from_secs(3_600));
        Box::pin(std::future::ready(Ok(Identity { name: "anybody".into(), expires, revoked: None })))
    }
}

#[tokio::test]
async fn nobody_waits_for_a_client_that_stops_reading_once_more_though_its_identity_has_an_end() {
    let mut one = One::start();
    one.publish(vec![cluster("a", 1)]);
    let gate = Gate::with_tokens(Arc::new(|_| Fleets::Only("one".into())), Limits::default(), Arc::new(AnHour));
    let at = one.server.listen_tcp("127.0.0.1:0".parse().unwrap(), gate).unwrap();
    let mut deaf = Client::call(Box::new(TcpStream::connect(at).await.unwrap()), DELTA, Some("token")).await;
    complete(&mut deaf, &["a"]).await;
    one.told_until(|event| matches!(event, Event::Live { .. })).await;
    let mut quick = one.complete(&["a"]).await;
    for name in ["first", "second"] {
        settle(&mut quick, name).await;
        one.publish(vec![put(TypeUrl::Cluster, name, 1, vec![Bytes::from(vec![1; 12 << 20])])]);
        assert_eq!(quick.names().await, [name]);
        one.told_until(|event| is_warm(event, name)).await;
        assert_eq!(deaf.names().await, [name]);
        settle(&mut deaf, name).await;
    }
    one.stop().await;
}

#[tokio::test]
async fn a_fleet_that_comes_back_serves_the_clients_that_never_went() {
    let one = One::start();
    one.publish(vec![cluster("a", 1)]);
    let mut client = one.client().await;
    assert_eq!(client.names().await, ["a"]);
    one.publish(vec![Change::Remove { type_url: TypeUrl::Cluster, name: "a".into() }]);
    one.server.forget(&"one".into());
    one.publish(vec![cluster("b", 1)]);
    // an update without changes takes nothing away
    one.publish(Vec::new());
    assert!(client.names().await.contains(&"b".to_owned()));
    let mut second = one.client().await;
    assert_eq!(second.names().await, ["b"]);
    one.stop().await;
}

#[tokio::test]
async fn what_is_left_of_a_forgotten_fleet_is_there_when_it_comes_back() {
    let one = One::start();
    one.publish(vec![cluster("a", 1)]);
    one.server.forget(&"one".into());
    one.publish(vec![cluster("b", 1)]);
    let mut client = one.client().await;
    assert_eq!(client.names().await, ["a", "b"]);
    one.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_is_closed_and_opened_again_stays() {
    let one = One::start();
    one.publish(vec![cluster("a", 1)]);
    for _ in 0..50 {
        // it is served: the task of the listener runs
        let mut client = one.client().await;
        assert_eq!(client.names().await, ["a"]);
        one.server.close_unix(&one.path);
        assert!(!one.path.exists());
        one.listen();
    }
    one.stop().await;
    assert!(!one.path.exists());
}

#[tokio::test]
async fn nobody_waits_for_another_fleet_that_is_being_worked_on() {
    let (server, _events) = server();
    server.publish(update("busy", vec![cluster("a", 1)]));
    let (told, other) = std::sync::mpsc::channel();
    let thread = server.0.with_fleet(&"busy".into(), |_| {
        let server = server.clone();
        let thread = std::thread::spawn(move || {
            server.publish(update("other", vec![cluster("b", 1)]));
            told.send(()).unwrap();
        });
        other.recv_timeout(Duration::from_secs(20)).expect("published meanwhile");
        thread
    });
    thread.1.join().unwrap();
    server.stop(DEADLINE).await;
}

#[tokio::test]
async fn a_fleet_that_was_dropped_while_somebody_was_about_to_use_it_is_not_used() {
    let (server, _events) = server();
    let (old, ()) = server.0.with_fleet(&"one".into(), |_| {});
    server.0.drop_if_idle("one", &old);
    server.publish(update("one", vec![cluster("a", 1)]));
    server.0.drop_if_idle("one", &old);
    let there = server.0.look("one", |fleet| fleet.snapshot().targets(&TypeUrl::Cluster).count());
    assert_eq!(there, Some(1));
    server.stop(DEADLINE).await;
}

/// The timers of the sockets of this machine's processes that are connected and have this port, as `proc_pid_net(5)` has them: which
/// timer (02: keepalive), and in how many hundredths of a second it is due.
fn timers(port: u16) -> Vec<(String, u64)> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let socket = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let (own, _other, state, _queues, timer) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let (kind, due) = timer.split_once(':')?;
        let here = own.ends_with(&format!(":{port:04X}")) && state == "01";
        here.then(|| (kind.to_owned(), u64::from_str_radix(due, 16).unwrap()))
    };
    table.lines().filter_map(socket).collect()
}

#[tokio::test]
async fn the_system_watches_over_tcp_connections() {
    let (server, _events) = server();
    let address = server.listen_tcp("127.0.0.1:0".parse().unwrap(), Gate::open()).unwrap();
    server.publish(update("one", vec![cluster("a", 1)]));
    let mut client = Client::tcp(address).await;
    client.subscribe(Some("one"), CDS, &[]).await;
    assert_eq!(client.names().await, ["a"]);
    let begin = std::time::Instant::now();
    let watched = |(kind, due): &(String, u64)| kind == "02" && *due <= 3000;
    while !timers(address.port()).iter().any(watched) {
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", timers(address.port()));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.stop(DEADLINE).await;
}

#[tokio::test]
async fn many_small_requests_at_once_are_taken_slowly_but_all() {
    const REQUESTS: usize = 6_000;
    let (server, _events) = server();
    let address = server.listen_tcp("127.0.0.1:0".parse().unwrap(), Gate::open()).unwrap();
    server.publish(update("one", vec![put(TypeUrl::Endpoints, "there", 1, Vec::new())]));
    let mut client = Client::tcp(address).await;
    let sender = client.sender();
    let sending = tokio::spawn(async move {
        for n in 0..REQUESTS {
            let node = (n == 0).then(|| Node { id: "test".into(), cluster: "one".into(), ..Node::default() });
            let resource_names_subscribe = vec![format!("set-{n}")];
            let request =
                DeltaDiscoveryRequest { node, type_url: EDS.into(), resource_names_subscribe, ..<_>::default() };
            sender.send(frame(&request)).await.unwrap();
        }
    });
    let mut denied = 0;
    while denied < REQUESTS {
        denied += client.next().await.unwrap().removed_resources.len();
    }
    sending.await.unwrap();
    server.stop(DEADLINE).await;
}
