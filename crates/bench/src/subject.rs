//! The server that a crowd is let loose on, in a process of its own: ours, with the threads that `chancery run` gives it, or the baseline.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use prost::Message as _;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use xds::{Change, FleetUpdate, Fleets, Gate, Limits, Resource, Server, Tls, TypeUrl, Version};
use xxhash_rust::xxh3::xxh3_128;

use crate::baseline::Baseline;
use crate::child::Child;
use crate::{ads, certificates, endpoints};

/// The first word of the process's command line.
pub(crate) const VERB: &str = "--subject";

/// The fleet of all clients.
const FLEET: &str = "default/edge";

/// A running server.
pub(crate) struct Subject {
    pub(crate) child: Child,
    /// Where a crowd finds it.
    pub(crate) address: String,
}

impl Subject {
    /// Starts a server of so many endpoint sets after so many events, at an address of the form `unix:PATH`, `tcp:IP:PORT` or
    /// `tls:IP:PORT=FOLDER`, where the folder has the certificates; with `baseline:` in front, the other server, and with `clusters:`,
    /// ours with a cluster for each set.
    pub(crate) fn start(address: &str, sets: usize, events: u32) -> anyhow::Result<Self> {
        let mut child = Child::start(&[VERB, address, &sets.to_string(), &events.to_string()])?;
        let address = child.answer()?;
        Ok(Self { child, address })
    }

    /// The next event happens.
    pub(crate) fn event(&mut self) -> anyhow::Result<()> {
        self.child.tell("event")
    }
}

/// What serves.
enum Kind {
    Ours(Server),
    Baseline(Baseline),
}

/// Runs the process until its standard input ends.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let [address, sets, events] = arguments else { anyhow::bail!("--subject ADDRESS SETS EVENTS") };
    let (sets, mut event): (usize, u32) = (sets.parse()?, events.parse()?);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = Builder::new_multi_thread().worker_threads((cores / 2).max(1)).enable_all().build()?;
    let last = |set: usize| (1..=event).rev().find(|event| endpoints::changed_by(*event, sets) == set).unwrap_or(0);
    let all = (0..sets).map(|set| (set, last(set)));
    let (kind, address) = match address.split_once(':').context("an address has a kind")? {
        ("baseline", address) => baseline(&runtime, address, all)?,
        ("clusters", address) => {
            ours(&runtime, address, all.map(put_set).chain((0..sets).map(|set| put_cluster(set, 0))))?
        }
        _ => ours(&runtime, address, all.map(put_set))?,
    };
    writeln!(std::io::stdout(), "{address}")?;
    let mut clusters = 0;
    for line in std::io::stdin().lines() {
        match (line?.as_str(), &kind) {
            ("cluster", Kind::Ours(server)) => {
                clusters += 1;
                publish(server, [put_cluster(0, clusters)].into_iter());
                continue;
            }
            (command, _) => anyhow::ensure!(command == "event", "no such command: {command}"),
        }
        event += 1;
        let set = endpoints::changed_by(event, sets);
        match &kind {
            Kind::Ours(server) => publish(server, [put_set((set, event))].into_iter()),
            Kind::Baseline(baseline) => baseline.set(endpoints::name(set), endpoints::encoded(set, event)),
        }
    }
    Ok(())
}

fn ours(runtime: &Runtime, address: &str, changes: impl Iterator<Item = Change>) -> anyhow::Result<(Kind, String)> {
    let (sender, mut events) = mpsc::channel(64);
    let server = Server::start(runtime.handle(), sender);
    runtime.spawn(async move { while events.recv().await.is_some() {} });
    publish(&server, changes);
    let (kind, place) = address.split_once(':').context("an address has a kind")?;
    let address = match kind {
        "unix" => {
            server.listen_unix(Path::new(place), FLEET.into(), None)?;
            address.to_owned()
        }
        "tcp" => format!("tcp:{}", server.listen_tcp(place.parse()?, Gate::open())?),
        _ => {
            let (place, folder) = place.split_once('=').context("a folder of certificates")?;
            let tls = Tls::new(&certificates::pem(folder.as_ref())?)?;
            let gate = Gate::new(Arc::new(|_| Fleets::Any), Limits::default());
            format!("tls:{}={folder}", server.listen_tls(place.parse()?, tls, gate)?)
        }
    };
    Ok((Kind::Ours(server), address))
}

fn baseline(
    runtime: &Runtime,
    address: &str,
    sets: impl Iterator<Item = (usize, u32)>,
) -> anyhow::Result<(Kind, String)> {
    let sets = sets.map(|(set, event)| (endpoints::name(set), endpoints::encoded(set, event)));
    let baseline = Baseline::new(ads::ENDPOINTS, sets);
    let address: SocketAddr = address.strip_prefix("tcp:").context("the baseline is for TCP")?.parse()?;
    let listener = runtime.block_on(tokio::net::TcpListener::bind(address))?;
    let address = format!("tcp:{}", listener.local_addr()?);
    runtime.spawn(baseline.clone().serve(listener));
    Ok((Kind::Baseline(baseline), address))
}

fn publish(server: &Server, changes: impl Iterator<Item = Change>) {
    server.publish(vec![FleetUpdate { fleet: FLEET.into(), changes: changes.collect() }]);
}

/// An endpoint set after an event.
fn put_set((set, event): (usize, u32)) -> Change {
    put(TypeUrl::Endpoints, endpoints::name(set), endpoints::encoded(set, event))
}

/// The cluster of an endpoint set after so many changes.
fn put_cluster(set: usize, changes: i32) -> Change {
    put(TypeUrl::Cluster, endpoints::name(set), endpoints::cluster(set, changes).encode_to_vec())
}

fn put(type_url: TypeUrl, name: String, body: Vec<u8>) -> Change {
    let version = Version(xxh3_128(&body));
    Change::Put(Resource::new(type_url, name, version, [body.into()]).into())
}
