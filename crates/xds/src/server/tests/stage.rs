//! A server, a real Envoy 1.40 that it serves over a Unix socket, and backends.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::super::locked;
use super::client::DEADLINE;
use super::proxy::{Backend, Envoy, free_address, get, wait_for};
use super::resources::{cluster, endpoints, listener};
use crate::saved::{SavedFleet, Unsaved};
use crate::{Change, Event, FleetUpdate, Server, TypeUrl};

/// Well below the 15 s after which Envoy makes do without what it waits for.
pub(super) const SOON: Duration = Duration::from_secs(12);

/// A server with its own runtime, an Envoy, and two backends.
pub(super) struct Stage {
    runtime: Runtime,
    server: Server,
    pub(super) events: Arc<Mutex<Vec<Event>>>,
    pub(super) envoy: Envoy,
    folder: TempDir,
    /// What was saved of the fleet.
    saved: Mutex<Vec<u8>>,
    pub(super) at: SocketAddr,
    pub(super) a: Backend,
    pub(super) b: Backend,
    _told: Told,
}

/// Shows what was reported last if the test fails.
struct Told(Arc<Mutex<Vec<Event>>>);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Ok(events) = self.0.lock()
        {
            let last = events.get(events.len().saturating_sub(40)..).unwrap_or_default();
            let _told = writeln!(std::io::stderr(), "the last that was reported: {last:#?}");
        }
    }
}

/// A server that listens nowhere yet and whose facts are collected.
pub(super) fn server(runtime: &Runtime, events: &Arc<Mutex<Vec<Event>>>) -> Server {
    let (sender, mut receiver) = mpsc::channel::<Vec<Event>>(8);
    let seen = Arc::clone(events);
    runtime.spawn(async move {
        while let Some(batch) = receiver.recv().await {
            seen.lock().unwrap().extend(batch);
        }
    });
    Server::start(runtime.handle(), sender)
}

/// Where the server listens.
pub(super) fn socket(folder: &Path) -> PathBuf {
    folder.join("xds.sock")
}

impl Stage {
    /// Cluster `a` with its endpoints, a listener, and these routes, until requests are answered.
    pub(super) fn new(more: Vec<Change>) -> Self {
        let stage = Self::begin(more);
        stage.wait("the fleet to be live", |event| matches!(event, Event::Live { .. }));
        let clients = stage.events.lock().unwrap().iter().filter(|e| matches!(e, Event::Connected { .. })).count();
        assert_eq!(clients, 1, "whatever the number of its streams");
        stage
    }

    /// The same, without waiting for anything.
    pub(super) fn begin(more: Vec<Change>) -> Self {
        let stage = Self::bare(socket);
        let mut changes = stage.small(1);
        changes.extend(more);
        stage.publish(changes);
        stage
    }

    /// Nothing is published yet. In its folder `way` gives the socket at which Envoy looks for the server.
    pub(super) fn bare(way: impl FnOnce(&Path) -> PathBuf) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let events = Arc::default();
        let server = server(&runtime, &events);
        server.keep(true);
        server.listen_unix(&socket(folder.path()), "ns/gw".into(), None).unwrap();
        let (a, b, at) = (Backend::start("a"), Backend::start("b"), free_address());
        let envoy = Envoy::start(folder.path(), &way(folder.path()));
        let _told = Told(Arc::clone(&events));
        Self { runtime, server, events, envoy, folder, saved: Mutex::default(), at, a, b, _told }
    }

    /// This version of cluster `a` with its endpoints, and a listener.
    pub(super) fn small(&self, version: u128) -> Vec<Change> {
        vec![cluster("a", version), endpoints("a", 1, self.a.address), listener(self.at)]
    }

    pub(super) fn publish(&self, changes: Vec<Change>) {
        self.server.publish(vec![FleetUpdate { fleet: "ns/gw".into(), changes }]);
    }

    /// Waits until something was reported.
    pub(super) fn wait(&self, what: &str, is_it: impl Fn(&Event) -> bool) {
        wait_for(what, SOON, || self.events.lock().unwrap().iter().any(&is_it));
    }

    pub(super) fn wait_for_routes(&self, number: u128) {
        self.wait(
            "the routes to be accepted",
            |event| matches!(event, Event::Accepted { type_url: TypeUrl::Route, version, .. } if version.0 == number),
        );
    }

    /// Waits until Envoy has answered all that it was sent: before that the server may send nothing more of a name.
    pub(super) fn wait_until_all_is_answered(&self) {
        let settled = |kept: Vec<(&'static str, usize)>| {
            kept.iter().all(|(what, count)| !["flights", "dirty", "cures"].contains(what) || *count == 0)
        };
        wait_for("all to be answered", SOON, || {
            let fleet = locked(&self.server.0.fleets).get("ns/gw").map(Arc::clone);
            let clients = fleet.map(|fleet| fleet.clients.clients()).unwrap_or_default();
            clients.len() == 1
                && clients.iter().all(|client| client.look(|session| session.kept()).is_some_and(settled))
        });
    }

    pub(super) fn wait_for_answer(&self, host: &str, answer: &str) {
        wait_for(answer, SOON, || get(self.at, host) == answer);
    }

    /// Another server in the place of this one, which nothing is published to yet.
    pub(super) fn restart(&mut self) {
        self.restart_with(|_| {});
    }

    /// The same with what the one before has saved.
    pub(super) fn restart_with_what_was_saved(&mut self) {
        let saved = self.save();
        self.restart_with(|server| server.restore(saved));
    }

    /// Saves what is to be saved; what there is then.
    pub(super) fn save(&self) -> SavedFleet {
        let (mut saved, unsaved) = (self.saved.lock().unwrap(), self.server.take_unsaved());
        if unsaved.iter().any(Unsaved::is_whole) {
            saved.clear();
        }
        saved.extend(unsaved.iter().flat_map(Unsaved::parts).flatten());
        SavedFleet::read(&Bytes::from(saved.clone())).unwrap()
    }

    fn restart_with(&mut self, prepare: impl FnOnce(&Server)) {
        self.runtime.block_on(self.server.stop(DEADLINE));
        self.events.lock().unwrap().clear();
        self.server = server(&self.runtime, &self.events);
        self.server.keep(true);
        prepare(&self.server);
        self.server.listen_unix(&socket(self.folder.path()), "ns/gw".into(), None).unwrap();
    }

    pub(super) fn end(self) {
        drop(self.envoy);
        self.runtime.block_on(self.server.stop(DEADLINE));
    }
}

/// Each of these stories over this transport, or over one stream in both variants.
macro_rules! over {
    (ads: [$($story:ident,)*]) => {
        over!(delta_ads: Variant::Delta, true, [$($story,)*]);
        over!(sotw_ads: Variant::Sotw, true, [$($story,)*]);
    };
    ($transport:ident: $variant:expr, $aggregated:expr, [$($story:ident,)*]) => {
        mod $transport {
            use crate::wire::Variant;
            $(
                #[test]
                fn $story() {
                    crate::server::tests::proxy::Transport { variant: $variant, aggregated: $aggregated }.run(super::$story);
                }
            )*
        }
    };
}

pub(super) use over;
