//! The process of a crowd: `bench --crowd ADDRESS CLIENTS SETS`, all of them on one thread. It takes commands as lines and answers each
//! with a line of JSON.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, ready};
use std::time::Duration;

use anyhow::Context as _;
use prost::Message as _;
use proto::envoy::config::core::v3::Node;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;

use super::h2::Connection;
use super::wire::{Resource, Response, put, put_entry, request};
use crate::process::authorization;
use crate::{ads, certificates, endpoints};

const PATH: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";

/// A client that lost its connection tries again after some of this time, and then after some of twice as long: the back-off of our
/// bootstrap, which Envoy takes a random part of.
const PAUSE: Duration = Duration::from_millis(100);

/// The longest [`PAUSE`].
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Clients with the same source address: a third of the ports that one has.
const CLIENTS_PER_ADDRESS: usize = 8_000;

/// Bytes that are read at once.
const CHUNK: usize = 128 << 10;

/// Where the server is.
enum Place {
    /// With the value of `authorization` that it needs.
    Unix(PathBuf, Option<String>),
    Tcp(SocketAddr),
    Tls(SocketAddr, TlsConnector),
}

impl Place {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let (kind, rest) = text.split_once(':').context("an address has a kind")?;
        Ok(match kind {
            "unix" => Self::Unix(rest.into(), authorization(rest.as_ref())),
            "tcp" => Self::Tcp(rest.parse()?),
            _ => {
                let (address, folder) = rest.split_once('=').context("a folder of certificates")?;
                Self::Tls(address.parse()?, certificates::connector(folder.as_ref())?)
            }
        })
    }
}

/// A byte stream of any kind.
trait Io: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

/// One client.
#[derive(Clone, Default)]
struct Client {
    /// It has had an answer on its present stream.
    is_served: bool,
    /// Endpoint sets that came on its present stream.
    received: usize,
    /// It has had its listeners, so that all that it asked for before was looked at.
    has_listeners: bool,
    /// When it had these and as many sets as it waits for; 0: not yet.
    synced_at: u64,
    /// The latest event that it has seen.
    latest: u32,
}

/// All clients, with what they have in common.
struct Crowd {
    place: Place,
    /// They subscribe to what they hear of, as Envoy does, and not just to endpoint sets.
    follows: bool,
    /// Endpoint sets without which a client is not in sync.
    expected: Cell<usize>,
    /// Their subscription to the endpoint sets.
    subscription: RefCell<Rc<Vec<u8>>>,
    clients: RefCell<Vec<Client>>,
    /// Versions by name, as the first client has them.
    versions: RefCell<BTreeMap<Vec<u8>, Vec<u8>>>,
    scratch: RefCell<Vec<u8>>,
    bytes_in: Cell<u64>,
    bytes_out: Cell<u64>,
    /// Sets are looked into.
    watches: Cell<bool>,
    /// Sets that came while they are.
    deliveries: Cell<u64>,
    /// And how long after their events, in microseconds.
    late: RefCell<Vec<u32>>,
    /// Whoever was in sync before this is not counted.
    since: Cell<u64>,
    /// Why a stream was lost last.
    lost: RefCell<String>,
}

/// Runs the process until its standard input ends.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let [address, clients, sets] = arguments else { anyhow::bail!("--crowd ADDRESS CLIENTS SETS") };
    let (clients, sets): (usize, usize) = (clients.parse()?, sets.parse()?);
    let crowd = Rc::new(Crowd {
        place: Place::parse(address)?,
        follows: sets == 0,
        expected: Cell::new(sets),
        subscription: RefCell::default(),
        clients: RefCell::new(vec![Client::default(); clients]),
        versions: RefCell::default(),
        scratch: RefCell::new(vec![0; CHUNK]),
        bytes_in: Cell::new(0),
        bytes_out: Cell::new(0),
        watches: Cell::new(false),
        deliveries: Cell::new(0),
        late: RefCell::default(),
        since: Cell::new(0),
        lost: RefCell::default(),
    });
    crowd.subscribe_to((0..sets).map(|set| endpoints::name(set).into_bytes()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    let (lines, mut commands) = mpsc::channel(1);
    std::thread::spawn(move || {
        std::io::stdin().lines().map_while(Result::ok).try_for_each(|line| lines.blocking_send(line))
    });
    local.block_on(&runtime, async {
        for index in 0..clients {
            let crowd = Rc::clone(&crowd);
            tokio::task::spawn_local(async move { crowd.live(index).await });
        }
        while let Some(command) = commands.recv().await {
            let answer = crowd.obey(&command);
            writeln!(std::io::stdout(), "{answer}")?;
        }
        anyhow::Ok(())
    })
}

impl Crowd {
    /// Does what a line says.
    fn obey(&self, command: &str) -> Value {
        match command {
            // the server is another one from now on
            "since" => {
                self.since.set(endpoints::now());
                self.watches.set(false);
                self.count_from_here();
            }
            // whoever comes again says what it has, and lacks nothing
            "resume" => {
                self.subscribe_to(std::iter::empty());
                self.expected.set(0);
            }
            "watch" => {
                self.watches.set(true);
                self.count_from_here();
            }
            _ => {}
        }
        self.status()
    }

    fn count_from_here(&self) {
        self.late.borrow_mut().clear();
        [&self.bytes_in, &self.bytes_out, &self.deliveries].iter().for_each(|counter| counter.set(0));
    }

    fn status(&self) -> Value {
        let clients = self.clients.borrow();
        let mut times: Vec<u64> =
            clients.iter().map(|client| client.synced_at).filter(|at| *at > self.since.get()).collect();
        times.sort_unstable();
        let mut late = self.late.borrow_mut();
        late.sort_unstable();
        let at = |percent: usize| late.get((late.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        json!({
            "served": clients.iter().filter(|client| client.is_served).count(),
            "synced": times.len(),
            "synced_at_median": times.get(times.len() / 2),
            "synced_at_last": times.last(),
            "latest": clients.iter().map(|client| client.latest).min(),
            "received": clients.iter().map(|client| client.received).sum::<usize>(),
            "bytes_in": self.bytes_in.get(),
            "bytes_out": self.bytes_out.get(),
            "deliveries": self.deliveries.get(),
            "late_p50": at(50),
            "late_p99": at(99),
            "late_max": late.last(),
            "lost": *self.lost.borrow(),
        })
    }

    /// One client's life.
    async fn live(&self, index: usize) {
        let mut pause = PAUSE;
        loop {
            if let Err(error) = self.stream(index).await {
                *self.lost.borrow_mut() = format!("{error:#}");
            }
            self.with(index, |client| {
                pause = if client.is_served { PAUSE } else { LONGEST_PAUSE.min(pause * 2) };
                *client = Client { latest: client.latest, ..Client::default() };
            });
            tokio::time::sleep(pause.mul_f64(fastrand::f64())).await;
        }
    }

    /// One stream, until it ends.
    async fn stream(&self, index: usize) -> anyhow::Result<()> {
        let mut io = self.connect(index).await.context("connecting")?;
        let authorization = match &self.place {
            Place::Unix(_, authorization) => authorization.as_deref(),
            Place::Tcp(_) | Place::Tls(..) => None,
        };
        let mut connection = Connection::open(PATH, authorization);
        let node = Node {
            id: format!("client-{index}"),
            cluster: "default/edge".to_owned(),
            user_agent_name: "envoy".to_owned(),
            ..Node::default()
        };
        let mut first = request(ads::CLUSTER.as_bytes());
        put(&mut first, 1, &node.encode_to_vec());
        put(&mut first, 3, b"*");
        connection.send(&first);
        if !self.follows {
            connection.send(&Rc::clone(&self.subscription.borrow()));
        }
        let mut listeners = request(ads::LISTENER.as_bytes());
        put(&mut listeners, 3, b"*");
        connection.send(&listeners);
        loop {
            if !connection.out.is_empty() {
                io.write_all(&connection.out).await?;
                self.bytes_out.set(self.bytes_out.get() + connection.out.len() as u64);
                connection.written();
            }
            poll_fn(|cx| {
                let mut scratch = self.scratch.borrow_mut();
                let mut chunk = ReadBuf::new(&mut scratch);
                ready!(Pin::new(&mut io).poll_read(cx, &mut chunk)).context("reading")?;
                let read = chunk.filled();
                self.bytes_in.set(self.bytes_in.get() + read.len() as u64);
                let taken = connection.receive(read, |connection, message| self.take(index, connection, message));
                Poll::Ready(match taken {
                    _ if read.is_empty() => Err(anyhow::anyhow!("the connection ended")),
                    taken => taken.map_err(Into::into),
                })
            })
            .await?;
        }
    }

    async fn connect(&self, index: usize) -> anyhow::Result<Box<dyn Io>> {
        let tcp = async |address: SocketAddr| {
            let socket = TcpSocket::new_v4()?;
            let own = Ipv4Addr::new(127, 0, 1, u8::try_from(1 + index / CLIENTS_PER_ADDRESS)?);
            socket.bind(SocketAddr::new(IpAddr::V4(own), 0))?;
            let stream: TcpStream = socket.connect(address).await?;
            stream.set_nodelay(true)?;
            anyhow::Ok(stream)
        };
        Ok(match &self.place {
            Place::Unix(path, _) => Box::new(UnixStream::connect(path).await?),
            Place::Tcp(address) => Box::new(tcp(*address).await?),
            Place::Tls(address, connector) => {
                let name = certificates::SERVER.try_into()?;
                Box::new(connector.connect(name, tcp(*address).await?).await?)
            }
        })
    }

    /// Takes a response, and acknowledges it.
    fn take(&self, index: usize, connection: &mut Connection, message: &[u8]) {
        let response = Response::read(message);
        let mut answer = request(response.type_url);
        put(&mut answer, 6, response.nonce);
        connection.send(&answer);
        if response.type_url == ads::ENDPOINTS.as_bytes() {
            self.take_sets(index, &response);
        } else if self.follows {
            follow(connection, &response);
        }
        self.with(index, |client| {
            client.is_served = true;
            client.has_listeners |= response.type_url == ads::LISTENER.as_bytes();
            let has_all = client.has_listeners && client.received >= self.expected.get();
            if client.synced_at == 0 && has_all {
                client.synced_at = endpoints::now();
            }
        });
    }

    fn take_sets(&self, index: usize, response: &Response<'_>) {
        let mut latest = 0;
        if self.watches.get() {
            let now = endpoints::now();
            let mut late = self.late.borrow_mut();
            for resource in &response.resources {
                let Some((at, event)) = endpoints::event_of(Resource::read(resource).body) else { continue };
                latest = event.max(latest);
                late.push(u32::try_from(now.saturating_sub(at) / 1_000).unwrap_or(u32::MAX));
            }
            self.deliveries.set(self.deliveries.get() + response.resources.len() as u64);
        }
        if index == 0 {
            let read = |resource: &&[u8]| {
                let Resource { name, version, .. } = Resource::read(resource);
                (name.to_vec(), version.to_vec())
            };
            self.versions.borrow_mut().extend(response.resources.iter().map(read));
        }
        self.with(index, |client| {
            client.latest = latest.max(client.latest);
            client.received += response.resources.len();
        });
    }

    fn with(&self, index: usize, change: impl FnOnce(&mut Client)) {
        if let Some(client) = self.clients.borrow_mut().get_mut(index) {
            change(client);
        }
    }

    /// New streams ask for these sets and those of which a version is known, and say so.
    fn subscribe_to(&self, names: impl Iterator<Item = Vec<u8>>) {
        let mut message = request(ads::ENDPOINTS.as_bytes());
        names.for_each(|name| put(&mut message, 3, &name));
        let versions = self.versions.borrow();
        versions.keys().for_each(|name| put(&mut message, 3, name));
        versions.iter().for_each(|(name, version)| put_entry(&mut message, 5, name, version));
        *self.subscription.borrow_mut() = Rc::new(message);
    }
}

/// Asks for what a response names.
fn follow(connection: &mut Connection, response: &Response<'_>) {
    let resources = || response.resources.iter().map(|resource| Resource::read(resource));
    let mut ask = |kind: &str, names: &mut dyn Iterator<Item = Vec<u8>>| {
        let mut message = request(kind.as_bytes());
        names.for_each(|name| put(&mut message, 3, &name));
        connection.send(&message);
    };
    if response.type_url == ads::CLUSTER.as_bytes() {
        ask(ads::ENDPOINTS, &mut resources().map(|resource| resource.name.to_vec()));
    } else if response.type_url == ads::LISTENER.as_bytes() {
        let routes = resources().flat_map(|resource| ads::route_configurations_in(resource.body));
        ask(ads::ROUTES, &mut routes.map(String::into_bytes));
    } else if response.type_url == ads::ROUTES.as_bytes() {
        ask(ads::HOSTS, &mut std::iter::empty());
    }
}
