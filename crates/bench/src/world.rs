//! Objects in, bytes out, within this process: what the core thread does with a batch, and how long it takes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::{Object, ObjectKey, Severity};
use chancery::publish::Publisher;
use ir::FleetName;
use nix::time::{ClockId, clock_gettime};
use store::{Batch, Change, ClusterState, FactKey, Origin, Source};
use translator::{InFleet, Options, Translator};

/// A translator and what publishes its changes.
pub(crate) struct World {
    translator: Translator,
    publisher: Publisher,
    origin: Origin,
}

/// What one batch cost.
pub(crate) struct Step {
    /// From the first input written until all bytes are there and noted as published. Making the objects, and freeing what was
    /// replaced, are not in it. By the clock, or by the CPU time of this thread (the only one) where that is less: then
    /// somebody else had the core in between.
    pub(crate) took: Duration,
    /// The part of it that the encoding took.
    pub(crate) encoding: Duration,
    /// Runs of transforms.
    pub(crate) runs: u64,
    /// Resources that came, changed or went.
    pub(crate) resources: usize,
    /// Bytes of the resources that came or changed.
    pub(crate) bytes: usize,
}

impl World {
    /// An empty one.
    pub(crate) fn new() -> Self {
        let translator = Translator::new(Options { file_mode: true, ..Options::default() });
        let publisher = Publisher::new(translator.outputs(), envoy::Options::default());
        Self { translator, publisher, origin: Origin { file: Arc::from("bench"), line: 1 } }
    }

    /// Brings objects into force.
    pub(crate) fn put(&mut self, objects: impl IntoIterator<Item = Object>) -> anyhow::Result<Step> {
        let origin = self.origin.clone();
        let changes = objects.into_iter().map(|object| Change::Apply(object, origin.clone())).collect();
        self.apply(changes)
    }

    /// Takes an object away.
    pub(crate) fn delete(&mut self, key: ObjectKey) -> anyhow::Result<Step> {
        self.apply(vec![Change::Delete(key)])
    }

    fn apply(&mut self, changes: Vec<Change>) -> anyhow::Result<Step> {
        let batch = Batch { source: Source::File, changes, listed: true };
        let (cpu, began) = (thread_time()?, Instant::now());
        let (store, graph) = self.translator.store();
        store.apply(graph, batch);
        let runs = self.translator.tick().runs;
        let ticked = Instant::now();
        let updates = self.publisher.updates(self.translator.graph(), Instant::now());
        let encoded = Instant::now();
        self.translator.remember_served();
        let took = began.elapsed().min(thread_time()? - cpu);
        self.translator.settle();
        let changes = || updates.iter().flat_map(|update| &update.changes);
        Ok(Step {
            took,
            encoding: encoded - ticked,
            runs,
            resources: changes().count(),
            bytes: changes().map(size).sum(),
        })
    }

    /// What is wrong with objects, or without effect.
    pub(crate) fn problems(&self) -> Vec<String> {
        let problems = self.translator.outputs().problems(self.translator.graph());
        let told = problems.filter(|(_, problem)| problem.severity != Severity::Note);
        told.map(|(_, problem)| format!("{:?} {}", problem.object, problem.text)).collect()
    }

    /// How many clusters there are.
    pub(crate) fn clusters(&self) -> usize {
        self.translator.outputs().clusters(self.translator.graph()).count()
    }

    /// Every fleet has a proxy that has everything, as it is most of the time: from now on routes ask whether their clusters
    /// are warm.
    pub(crate) fn go_live(&mut self) {
        let outputs = self.translator.outputs();
        let clusters: Vec<_> = outputs.clusters(self.translator.graph()).map(|(cluster, _)| cluster.clone()).collect();
        let fleets: Vec<FleetName> =
            self.translator.graph().iter(outputs.infra).map(|(fleet, _)| fleet.clone()).collect();
        let (store, graph) = self.translator.store();
        let tables = store.tables();
        for InFleet { fleet, name } in clusters {
            graph.set(tables.cluster_state, FactKey { fleet: fleet.0, name: name.0 }, ClusterState::Warm);
        }
        for fleet in fleets {
            graph.set(tables.fleet_live, fleet.0, ());
        }
        self.translator.tick();
        self.publisher.updates(self.translator.graph(), Instant::now());
        self.translator.remember_served();
        self.translator.settle();
    }

    /// The nodes of the graph that took most time since the last call, as lines; `since` is what the last call gave.
    pub(crate) fn costs(&self, since: &mut Vec<(Duration, u64)>) -> Vec<String> {
        let nodes: Vec<_> = self.translator.graph().nodes().collect();
        since.resize(nodes.len(), (Duration::ZERO, 0));
        let mut spent: Vec<(Duration, u64, &str)> = nodes
            .iter()
            .zip(since.iter())
            .map(|(node, (time, runs))| (node.time.saturating_sub(*time), node.runs - runs, node.name))
            .collect();
        *since = nodes.iter().map(|node| (node.time, node.runs)).collect();
        spent.sort_unstable_by(|one, two| two.cmp(one));
        let line = |(time, runs, name): &(Duration, u64, &str)| format!("{time:>12.1?} {runs:>8} runs  {name}");
        spent.iter().filter(|(time, ..)| !time.is_zero()).take(12).map(line).collect()
    }

    /// Rules of the program that were broken while measuring: a transform that panicked.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let panics = self.translator.graph().panics();
        anyhow::ensure!(panics.is_empty(), "transforms panicked: {panics:?}");
        Ok(())
    }
}

/// CPU time of this thread so far, to the nanosecond.
fn thread_time() -> anyhow::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

fn size(change: &xds::Change) -> usize {
    match change {
        xds::Change::Put(resource) => resource.body.iter().map(bytes::Bytes::len).sum(),
        xds::Change::Remove { .. } => 0,
    }
}

/// The objects of a text in YAML.
pub(crate) fn objects(text: &str) -> anyhow::Result<Vec<Object>> {
    let file: Arc<str> = Arc::from("bench");
    let mut found = Vec::new();
    for document in api::yaml::documents(text) {
        let decoded = api::read(&document, &file);
        if let Some(problem) = decoded.problems.first() {
            anyhow::bail!("an object of the bench is wrong: {problem}");
        }
        found.extend(decoded.objects);
    }
    Ok(found)
}

/// The one object of a text in YAML.
pub(crate) fn object(text: &str) -> anyhow::Result<Object> {
    objects(text)?.pop().ok_or_else(|| anyhow::anyhow!("no object in: {text}"))
}
