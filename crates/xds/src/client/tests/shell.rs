//! The shell, over real sockets, with our own server on the other side.

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::DuplexStream;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::rig::{config, judge};
use crate::client::connect::{Command, Connect, Connecting, Io, Plain, User, run};
use crate::client::{Cache, Client, Config, Event, Offer, Saved};
use crate::{Change, Event as Fact, FleetUpdate, Resource, Server, TypeUrl, Version};

/// Longest wait for anything here.
const DEADLINE: Duration = Duration::from_secs(20);

struct Told(mpsc::UnboundedSender<String>);

impl User for Told {
    fn judge(&mut self, offer: &Offer<'_>) -> Result<(), String> {
        judge(offer)
    }

    fn told(&mut self, cache: &Cache, event: Event) {
        let text = match &event {
            Event::Changed { type_url, name } => {
                let held = cache.get(type_url, name).and_then(|entry| entry.held());
                held.map_or(String::new(), |held| String::from_utf8_lossy(&held.body).into_owned())
            }
            Event::Gone { name, absence, .. } => format!("{name} {absence:?}"),
            Event::Refused { name, .. } => format!("{name} refused"),
            Event::InUse { server } => format!("in use {server}"),
            Event::Lost { server, .. } => format!("lost {server}"),
            other => format!("{other:?}"),
        };
        let _ = self.0.send(text);
    }
}

/// A running client.
struct Running {
    commands: mpsc::Sender<Command>,
    told: mpsc::UnboundedReceiver<String>,
    task: JoinHandle<()>,
}

impl Running {
    fn start(servers: &[&str]) -> Self {
        Self::over(Plain, servers)
    }

    fn over(connect: impl Connect + 'static, servers: &[&str]) -> Self {
        let (commands, taken) = mpsc::channel(8);
        #[expect(clippy::disallowed_methods, reason = "a test reads all of it")]
        let (into, told) = mpsc::unbounded_channel();
        let client = Client::new(Config { shared_versions: true, ..config(servers) });
        let task = tokio::spawn(async move { run(client, &connect, &mut Told(into), taken).await });
        Self { commands, told, task }
    }

    async fn subscribe(&self, names: &[&str]) {
        let names = names.iter().map(|&name| name.into()).collect();
        assert!(self.commands.send(Command::Subscribe(TypeUrl::Runtime, names)).await.is_ok());
    }

    /// Waits until this has been told.
    async fn until(&mut self, text: &str) {
        let mut all = Vec::new();
        while all.last().is_none_or(|last| last != text) {
            let next = tokio::time::timeout(DEADLINE, self.told.recv()).await;
            all.push(next.unwrap_or_else(|_| panic!("no {text:?} in time, only {all:?}")).expect("the client runs"));
        }
    }

    async fn end(self) {
        drop(self.commands);
        tokio::time::timeout(DEADLINE, self.task).await.expect("it ends").expect("without a panic");
    }
}

/// Servers that take a connection and never say a word.
struct Mute(Mutex<Vec<DuplexStream>>);

impl Connect for Mute {
    fn connect(&self, _server: &str) -> Connecting {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        self.0.lock().unwrap().push(theirs);
        Box::pin(async move { Ok(Box::new(ours) as Box<dyn Io>) })
    }
}

fn put(name: &str, version: u128, text: &str) -> Change {
    Change::Put(Resource::new(TypeUrl::Runtime, name, Version(version), [Bytes::from(text.to_owned())]).into())
}

fn server(path: &Path, changes: Vec<Change>) -> (Server, mpsc::Receiver<Vec<Fact>>) {
    let (events, received) = mpsc::channel(64);
    let server = Server::start(&Handle::current(), events);
    server.listen_unix(path, "fleet".into(), None).unwrap();
    server.publish(vec![FleetUpdate { fleet: "fleet".into(), changes }]);
    (server, received)
}

fn publish(server: &Server, change: Change) {
    server.publish(vec![FleetUpdate { fleet: "fleet".into(), changes: vec![change] }]);
}

#[tokio::test]
async fn resources_come_change_are_refused_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("xds.sock");
    let (server, mut facts) = server(&path, vec![put("a", 1, "one"), put("b", 1, "one of b")]);
    let mut client = Running::start(&[&format!("unix:{}", path.display())]);
    client.subscribe(&["a", "nowhere"]).await;
    client.until("one").await;
    publish(&server, put("a", 2, "two"));
    client.until("two").await;
    publish(&server, put("a", 3, "bad"));
    client.until("a refused").await;
    let refused = async {
        loop {
            let facts = facts.recv().await.expect("the server runs");
            let refusal = facts.into_iter().find_map(|fact| match fact {
                Fact::Refused { name, text, .. } => Some(format!("{name} {text}")),
                _ => None,
            });
            if let Some(refusal) = refusal {
                break refusal;
            }
        }
    };
    let text = tokio::time::timeout(DEADLINE, refused).await.expect("the server is told");
    assert!(text.starts_with("a ") && text.ends_with(" is bad"), "{text}");
    publish(&server, Change::Remove { type_url: TypeUrl::Runtime, name: "a".into() });
    client.until("a Removed").await;
    client.subscribe(&["b"]).await;
    client.until("one of b").await;
    let (to, bytes) = oneshot::channel();
    assert!(client.commands.send(Command::Save(false, to)).await.is_ok());
    assert!(Saved::decode(&bytes.await.expect("the state")).is_ok());
    client.end().await;
    server.stop(DEADLINE).await;
}

#[tokio::test]
async fn another_server_steps_in_and_the_better_one_takes_over_again() {
    let folder = tempfile::tempdir().unwrap();
    let paths = [folder.path().join("one.sock"), folder.path().join("two.sock")];
    let (one, _facts) = server(&paths[0], vec![put("a", 1, "one")]);
    let (two, _facts) = server(&paths[1], vec![put("a", 2, "two")]);
    let names = paths.each_ref().map(|path| format!("unix:{}", path.display()));
    let mut client = Running::start(&names.each_ref().map(String::as_str));
    client.subscribe(&["*"]).await;
    client.until("one").await;
    one.stop(DEADLINE).await;
    client.until("two").await;
    let (one, _facts) = server(&paths[0], vec![put("a", 3, "three")]);
    client.until("three").await;
    publish(&two, put("a", 4, "four"));
    publish(&one, put("a", 5, "five"));
    client.until("five").await;
    client.end().await;
    one.stop(DEADLINE).await;
    two.stop(DEADLINE).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_connections_and_is_silent_is_not_taken_for_one_that_has_nothing_new_to_say() {
    let mut client = Running::over(Mute(Mutex::default()), &["mute", "mute too"]);
    client.subscribe(&["a"]).await;
    // before its silence would have counted as an answer
    let silent = tokio::time::timeout(crate::client::PROVEN, client.until("lost 0"));
    silent.await.expect("it is found out in time");
    client.end().await;
}
