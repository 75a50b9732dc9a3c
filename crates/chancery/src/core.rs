//! The one thread that owns the graph: events in, one tick for all that wait, changes out. Nothing else writes.

mod explain;
mod facts;
mod holding;
mod lines;
mod loads;
mod metrics;
mod patches;
mod refusals;
mod replicas;
#[cfg(test)]
mod tests;
mod thread;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use api::status::Status;
use api::{ObjectKey, Pod, Timestamp};
use ir::{FleetName, Infra};
use provider::file::Texts;
use provider::kubernetes::replicas::{Heard, Said};
use provider::kubernetes::status::Board;
use serde_json::{Value, json};
use store::{FactKey, Refusals};
use tokio::runtime::{self, Runtime};
use tokio::sync::{mpsc, oneshot, watch};
use translator::{Outputs, OwnPlaces, Translator};

use crate::last_good;
use crate::publish::Publisher;
use crate::report::{self, Findings, Transitions};

use holding::Holding;
use lines::Lines;
use metrics::Metrics;
use replicas::Replicas;
pub(crate) use thread::Thread;
pub(crate) use workloads::is_workload;

/// Events that may wait before their senders do: a batch of a source is one event, an acknowledgement another. 4,096 of the
/// latter, some 100 bytes each, are 0.4 MB.
pub(crate) const QUEUE: usize = 4096;

/// Events taken into one tick at most, so that a storm cannot starve the publishing.
const MAX_PER_TICK: usize = 4096;

/// A question, asked on the core's thread after the next commit.
pub(crate) type Ask = Box<dyn FnOnce(&Core) + Send>;

/// Something that happened.
pub(crate) enum Input {
    /// A source has news.
    Batch(store::Batch),
    /// The xDS server saw something.
    Xds(Vec<xds::Event>),
    /// The supervisor of proxies saw something.
    Host(infra::host::HostFact),
    /// What runs proxies in a cluster saw something.
    Pods(infra::kubernetes::PodsFact),
    /// What other replicas say.
    Replicas(Arc<Heard>),
    /// Places of our own are others now.
    Own(Arc<OwnPlaces>),
    /// Somebody asks.
    Ask(Ask),
    /// Nothing more comes.
    End,
}

/// The state of the whole control plane.
pub(crate) struct Core {
    translator: Translator,
    outputs: Outputs,
    publisher: Publisher,
    server: xds::Server,
    holding: Holding,
    /// The listeners that were published last: what is said of an earlier version does not count.
    listeners: BTreeMap<FactKey, xds::Version>,
    /// The same of secrets.
    secrets: BTreeMap<FactKey, xds::Version>,
    /// The same of everything that workloads get, by [`FactKey::of_kind`].
    raw: BTreeMap<FactKey, xds::Version>,
    transitions: Transitions,
    /// Nothing more comes: what is there is taken, then it is over.
    ending: bool,
    infra: watch::Sender<Arc<BTreeMap<FleetName, Arc<Infra>>>>,
    workloads: watch::Sender<Arc<BTreeSet<FleetName>>>,
    revision: watch::Sender<u64>,
    problems: watch::Sender<u64>,
    serving: watch::Sender<bool>,
    ready: Arc<AtomicBool>,
    with_proxies: bool,
    clock: fn() -> Timestamp,
    metrics: Metrics,
    /// Gateways that there are not, of which a proxy is connected all the same.
    strangers: BTreeSet<Arc<str>>,
    lines: Lines,
    /// Where statuses go that somebody writes elsewhere.
    board: Option<Board>,
    replicas: Replicas,
    /// Workloads for which nothing is any more, of which a proxy is connected: it is told that it has nothing, and they are forgotten with it.
    leaving: BTreeSet<FleetName>,
    /// Workloads that are there because their proxies say so; none: nobody is asked.
    said_labels: Option<BTreeMap<Arc<str>, Arc<Pod>>>,
    /// What the proxies that are connected here refused of resources that several make.
    refusals: BTreeMap<FactKey, Refusals>,
    /// Of Gateways of which something is refused: proxies that are gone since it was tried.
    gone: BTreeMap<Arc<str>, usize>,
    /// Gateways that are gone, of which proxies have everything.
    left: BTreeSet<Arc<str>>,
    /// Wakes the core's thread without an event.
    timer: Runtime,
}

/// What the core is made from.
pub(crate) struct Parts {
    /// The graph, with its sources announced.
    pub(crate) translator: Translator,
    /// How Envoy's resources are written.
    pub(crate) options: envoy::Options,
    /// Where updates go.
    pub(crate) server: xds::Server,
    /// Where wanted proxies go.
    pub(crate) infra: watch::Sender<Arc<BTreeMap<FleetName, Arc<Infra>>>>,
    /// Where the fleets of workloads go.
    pub(crate) workloads: watch::Sender<Arc<BTreeSet<FleetName>>>,
    /// Proxies are started: ready means that they serve.
    pub(crate) with_proxies: bool,
    /// Labels of workloads that no source has are those that their proxies say.
    pub(crate) believes_labels: bool,
    /// The one clock.
    pub(crate) clock: fn() -> Timestamp,
    /// Where statuses go that somebody writes elsewhere.
    pub(crate) board: Option<Board>,
    /// Where to tell what other replicas have to know of the proxies that are connected here.
    pub(crate) told: Option<watch::Sender<Arc<Said>>>,
    /// Reads files again, to find places in them.
    pub(crate) texts: Texts,
}

/// Asks the core from other threads; cheap to clone.
#[derive(Clone)]
pub(crate) struct Asking {
    inputs: mpsc::Sender<Input>,
    revision: watch::Receiver<u64>,
    problems: watch::Receiver<u64>,
    serving: watch::Receiver<bool>,
    ready: Arc<AtomicBool>,
    texts: Texts,
}

/// Starts the core on a thread of its own. It ends when every sender of inputs is gone.
pub(crate) fn start(parts: Parts) -> anyhow::Result<(mpsc::Sender<Input>, Asking, Thread)> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let (revision, seen) = watch::channel(0);
    let (problems, problems_seen) = watch::channel(0);
    let (serving, serving_seen) = watch::channel(false);
    let ready = Arc::new(AtomicBool::new(false));
    let outputs = parts.translator.outputs();
    let core = Core {
        outputs,
        publisher: Publisher::new(outputs, parts.options),
        translator: parts.translator,
        server: parts.server,
        holding: Holding::default(),
        listeners: BTreeMap::new(),
        secrets: BTreeMap::new(),
        raw: BTreeMap::new(),
        transitions: Transitions::default(),
        ending: false,
        infra: parts.infra,
        workloads: parts.workloads,
        revision,
        problems,
        serving,
        ready: Arc::clone(&ready),
        with_proxies: parts.with_proxies,
        clock: parts.clock,
        metrics: Metrics::default(),
        strangers: BTreeSet::new(),
        lines: Lines::new(Instant::now()),
        board: parts.board,
        replicas: Replicas::new(parts.told),
        leaving: BTreeSet::new(),
        said_labels: parts.believes_labels.then(BTreeMap::new),
        refusals: BTreeMap::new(),
        gone: BTreeMap::new(),
        left: BTreeSet::new(),
        timer: runtime::Builder::new_current_thread().enable_time().build()?,
    };
    let (inputs, texts) = (sender.clone(), parts.texts);
    let asking = Asking { inputs, revision: seen, problems: problems_seen, serving: serving_seen, ready, texts };
    Ok((sender, asking, Thread::start(core, receiver)?))
}

impl Core {
    fn run(&mut self, inputs: &mut mpsc::Receiver<Input>) {
        while let Some(first) = self.wait(inputs) {
            let began = Instant::now();
            let mut asks = Vec::new();
            let mut changed = first.is_none_or(|first| self.take(first, &mut asks));
            for _ in 1..MAX_PER_TICK {
                let Ok(next) = inputs.try_recv() else { break };
                changed |= self.take(next, &mut asks);
            }
            if changed || self.wakes().is_some_and(|wakes| wakes <= began) {
                self.commit(began);
            }
            self.tell_replicas();
            for ask in asks {
                ask(self);
            }
            if self.ending {
                inputs.close();
            }
        }
    }

    /// Waits for an event, or until there is something to publish without one: then there is none. None at all: nothing more comes.
    fn wait(&self, inputs: &mut mpsc::Receiver<Input>) -> Option<Option<Input>> {
        let Some(wakes) = self.wakes() else { return inputs.blocking_recv().map(Some) };
        let next = async { tokio::time::timeout_at(wakes.into(), inputs.recv()).await };
        match self.timer.block_on(next) {
            Ok(input) => input.map(Some),
            Err(_) => Some(None),
        }
    }

    /// When there is something to publish though nothing has happened.
    fn wakes(&self) -> Option<Instant> {
        [self.publisher.wakes(), self.holding.wakes()].into_iter().flatten().min()
    }

    /// Writes one event into the store; true if a tick is due.
    fn take(&mut self, input: Input, asks: &mut Vec<Ask>) -> bool {
        match input {
            Input::Batch(batch) => {
                self.metrics.batches += 1;
                let (store, graph) = self.translator.store();
                store.apply(graph, batch);
                true
            }
            Input::Xds(events) => {
                let mut due = false;
                for event in events {
                    due |= self.note_event(event);
                }
                due
            }
            Input::Host(fact) => self.note_proxy(fact),
            Input::Pods(fact) => self.note_pods(fact),
            Input::Replicas(heard) => self.note_replicas(heard),
            Input::Own(places) => {
                self.translator.set_own_places(places);
                true
            }
            Input::Ask(ask) => {
                asks.push(ask);
                false
            }
            Input::End => {
                self.ending = true;
                false
            }
        }
    }

    /// Brings what was taken into force, and then what follows from it for facts, before anybody can ask.
    fn commit(&mut self, mut began: Instant) {
        if !self.translator.store().0.ready() {
            self.tell_awaited();
            return;
        }
        while self.round(began) {
            began = Instant::now();
        }
    }

    /// One tick and what follows from it: publish, note, then free. True if facts are out of date by it.
    fn round(&mut self, began: Instant) -> bool {
        let now = (self.clock)();
        let first = !self.ready.load(Ordering::Acquire);
        if first {
            let (store, graph) = self.translator.store();
            last_good::note_in_use(store, graph, &BTreeSet::new());
            last_good::note_without_keys(store, graph, &[]);
        }
        self.translator.set_time(now);
        let stats = self.translator.tick();
        self.tell_infra();
        self.tell_workloads();
        let updates = self.publisher.updates(self.translator.graph(), Instant::now());
        let (updates, late) = self.hold(updates);
        let outdated = late | self.outdate_facts(&updates) | self.note_outdated_listeners() | self.note_patches();
        if !updates.is_empty() {
            self.server.publish(updates);
        }
        self.publish_fleets();
        if first {
            self.server.forget_unpublished();
        }
        self.metrics.tick(&stats, began.elapsed());
        self.note_statuses(now);
        self.ready.store(true, Ordering::Release);
        self.revision.send_modify(|revision| *revision += 1);
        if first || self.translator.graph().changes(self.outputs.infra).next().is_some() {
            self.note_strangers();
        }
        self.tell();
        self.translator.remember_served_but(|fleet| self.holding.holds(&fleet.0));
        self.translator.settle();
        outdated
    }

    /// Notes which statuses have changed, for people and for whoever writes them.
    fn note_statuses(&mut self, now: Timestamp) {
        let Self { transitions, board, .. } = self;
        report::note_changes(self.translator.graph(), self.outputs, |key, status| {
            if let Some(board) = board {
                board.put(key.clone(), status.clone());
            }
            transitions.note(key, status, now);
        });
    }

    /// Puts statuses on the board: of these objects, or of all and of those that had one.
    fn put_statuses(&self, which: Which) {
        let (Some(board), graph) = (&self.board, self.translator.graph()) else { return };
        let also = match which {
            Which::All { with } => {
                for (key, status) in report::statuses(graph, self.outputs) {
                    board.put(key, Some(status));
                }
                with
            }
            Which::These(keys) => keys,
        };
        for key in also {
            let status = report::status(graph, self.outputs, &key);
            board.put(key, status);
        }
    }

    /// Tells what sources say before they have listed, as why they have not: whoever asks then gets an answer.
    fn tell_awaited(&self) {
        let by_sources = self.translator.stored().problems_revision();
        if self.problems.send_if_modified(|revision| std::mem::replace(revision, by_sources) != by_sources) {
            self.revision.send_modify(|revision| *revision += 1);
        }
    }

    /// Tells those who wait for problems, and for the first moment in which everything is served.
    fn tell(&self) {
        let graph = self.translator.graph();
        let told = self.outputs.problems_changed(graph);
        let by_sources = self.translator.stored().problems_revision();
        self.problems.send_if_modified(|revision| {
            let changed = told || *revision != by_sources;
            *revision = by_sources;
            changed
        });
        if !*self.serving.borrow() && self.all_serve() {
            self.serving.send_replace(true);
        }
    }

    /// True if every proxy serves, or cannot and says why.
    fn all_serve(&self) -> bool {
        let (graph, tables) = (self.translator.graph(), self.translator.stored().tables());
        !self.with_proxies
            || graph.iter(self.outputs.infra).all(|(fleet, _)| {
                graph.get(tables.proxies, &fleet.0).is_some_and(|facts| facts.ready || facts.problem.is_some())
            })
    }

    /// Tells which proxies there shall be. It comes before any encoding, so that a new proxy starts meanwhile.
    fn tell_infra(&self) {
        let (graph, [by_itself, by_class]) = (self.translator.graph(), self.outputs.held);
        let tables = [by_itself, by_class, self.outputs.infra];
        let changed = tables.iter().any(|table| graph.changes(*table).next().is_some());
        if self.ready.load(Ordering::Acquire) && !changed {
            return;
        }
        let all = tables.iter().flat_map(|table| graph.iter(*table));
        self.infra.send_replace(Arc::new(all.map(|(fleet, infra)| (fleet.clone(), Arc::clone(infra))).collect()));
    }

    /// Tells which workloads there are.
    fn tell_workloads(&mut self) {
        let changes: Vec<_> = self.translator.graph().changes(self.outputs.workloads).collect();
        if changes.is_empty() {
            return;
        }
        for change in changes {
            if change.new.is_some() {
                self.leaving.remove(change.key);
            } else if self.metrics.has(&change.key.0) {
                self.leaving.insert(change.key.clone());
            }
        }
        self.send_workloads();
    }

    fn send_workloads(&self) {
        let rows = self.translator.graph().iter(self.outputs.workloads).map(|(fleet, _)| fleet);
        self.workloads.send_replace(Arc::new(rows.chain(&self.leaving).cloned().collect()));
    }

    /// Fleets come and go at the server here and nowhere else, in one order with their content.
    fn publish_fleets(&mut self) {
        let (mut gone, mut back) = (Vec::new(), Vec::new());
        for change in self.translator.graph().changes(self.outputs.infra) {
            let fleet = Arc::clone(&change.key.0);
            match (change.old, change.new) {
                // Until its first update a fleet's clients get no answer: a Gateway without anything to serve has an empty one.
                (None, Some(_)) => {
                    if self.left.remove(&fleet) {
                        back.push(Arc::clone(&fleet));
                    }
                    self.server.publish(vec![xds::FleetUpdate { fleet, changes: Vec::new() }]);
                }
                (_, None) => {
                    self.server.forget(&fleet);
                    self.replicas.forget_fleet(&fleet);
                    self.gone.remove(&fleet);
                    gone.push(fleet);
                }
                _ => {}
            }
        }
        // What comes back before its proxies are gone is published whole: at first nothing of it waits for what they know no more.
        let (store, graph) = self.translator.store();
        let live = store.tables().fleet_live;
        back.into_iter().for_each(|fleet| graph.set(live, fleet, ()));
        self.left.extend(gone.into_iter().filter(|fleet| graph.remove(live, fleet)));
        let (mut came, mut left) = (Vec::new(), Vec::new());
        for change in self.translator.graph().changes(self.outputs.workloads) {
            let fleet = Arc::clone(&change.key.0);
            match change.new {
                Some(_) => came.push(fleet),
                None if self.leaving.contains(change.key) => {}
                None => left.push(fleet),
            }
        }
        if !came.is_empty() {
            let nothing = |fleet| xds::FleetUpdate { fleet, changes: Vec::new() };
            self.server.publish(came.into_iter().map(nothing).collect());
        }
        for fleet in left {
            self.server.forget(&fleet);
            self.forget_workload(&fleet);
        }
    }

    /// Every status, with the time since when each condition holds.
    fn statuses(&self) -> Vec<(ObjectKey, Status)> {
        let mut statuses = report::statuses(self.translator.graph(), self.outputs);
        for (key, status) in &mut statuses {
            self.transitions.fill(key, status);
        }
        statuses
    }

    fn problems(&self) -> Findings {
        report::findings(self.translator.stored(), self.translator.graph(), self.outputs)
    }

    /// The nodes of the graph with their costs.
    fn graph_report(&self) -> Value {
        let nodes = self.translator.graph().nodes().map(|node| {
            json!({ "name": node.name, "rows": node.size, "runs": node.runs, "micros": node.time.as_micros().to_string() })
        });
        Value::Array(nodes.collect())
    }
}

/// Statuses of which objects.
pub(crate) enum Which {
    /// Of all that have one, and of these, which may have none any more.
    All {
        /// Objects that had one.
        with: Vec<ObjectKey>,
    },
    /// Of these.
    These(Vec<ObjectKey>),
}

impl Asking {
    /// Waits until the first commit is out; false if the core has ended.
    pub(crate) async fn ready(&self) -> bool {
        self.revision.clone().wait_for(|_| self.is_ready()).await.is_ok()
    }

    /// Has statuses put on the board of whoever writes them; false if the core has ended.
    pub(crate) async fn put_statuses(&self, which: Which) -> bool {
        self.ask(move |core| core.put_statuses(which)).await.is_some()
    }

    /// Counts commits; a change of it means that a report may differ.
    pub(crate) fn revision(&self) -> watch::Receiver<u64> {
        self.revision.clone()
    }

    /// True once every source has listed and the first commit is out.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// True if no source gives any object; `None` if the core has ended.
    pub(crate) async fn is_empty(&self) -> Option<bool> {
        self.ask(|core| core.translator.stored().is_empty()).await
    }

    /// Changes when problems may have changed.
    pub(crate) fn problems(&self) -> watch::Receiver<u64> {
        self.problems.clone()
    }

    /// Waits until everything is served for the first time; false if the core has ended.
    pub(crate) async fn serving(&self) -> bool {
        self.serving.clone().wait_for(|serving| *serving).await.is_ok()
    }

    /// Every problem as one line, causes first; `None` if the core has ended.
    pub(crate) async fn problem_lines(&self) -> Option<Vec<(api::Severity, String)>> {
        let found = self.ask(Core::problems).await?;
        let texts = self.texts.clone();
        apart(move || found.complete(&texts).iter().map(|problem| (problem.severity, problem.log_line())).collect())
            .await
    }

    /// Every status and problem as JSON, with the number of the commit; `None` if the core has ended.
    pub(crate) async fn report(&self) -> Option<Vec<u8>> {
        let question = |core: &Core| (*core.revision.borrow(), core.statuses(), core.problems());
        let (revision, statuses, found) = self.ask(question).await?;
        let (waits, texts) = (!self.is_ready(), self.texts.clone());
        apart(move || {
            let unread = report::unread(&found, &statuses);
            let problems = report::problems(found.complete(&texts).iter());
            let objects = report::objects(&statuses);
            let report = json!({
                "revision": revision, "waits": waits, "objects": objects, "unread": unread, "problems": problems
            });
            report.to_string().into_bytes()
        })
        .await
    }

    /// The objects and lines of rules, by the names of their routes in Envoy; `None` if the core has ended.
    pub(crate) async fn rules(&self) -> Option<Value> {
        let question = |core: &Core| report::rule_sources(core.translator.stored(), core.translator.graph());
        let (sources, texts) = (self.ask(question).await?, self.texts.clone());
        apart(move || sources.complete(&texts)).await
    }

    /// Every status as JSON for people; `None` if the core has ended.
    pub(crate) async fn objects(&self) -> Option<Vec<u8>> {
        let statuses = self.ask(Core::statuses).await?;
        apart(move || format!("{:#}\n", report::objects(&statuses)).into_bytes()).await
    }

    /// The nodes of the graph; `None` if the core has ended.
    pub(crate) async fn graph(&self) -> Option<Value> {
        self.ask(Core::graph_report).await
    }

    /// What proxies send to each cluster; `None` if the core has ended.
    pub(crate) async fn loads(&self) -> Option<Value> {
        self.ask(Core::loads_report).await
    }

    /// OpenMetrics, with the lines of the log that were dropped; `None` if the core has ended.
    pub(crate) async fn metrics(&self, dropped_lines: usize) -> Option<String> {
        self.ask(move |core| core.metrics.text(core, dropped_lines)).await
    }

    async fn ask<T: Send + 'static>(&self, question: impl FnOnce(&Core) -> T + Send + 'static) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let ask = move |core: &Core| drop(answer.send(question(core)));
        self.inputs.send(Input::Ask(Box::new(ask))).await.ok()?;
        answered.await.ok()
    }
}

/// Does what takes long, or reads files, where it holds up nobody.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

/// Microseconds as a whole number, for figures that people read.
fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
