//! Who follows the API server: a process that does nothing but keep what it is given in a store.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use engine::Graph;
use provider::kubernetes::{Connection, Observed, Options, Pace, Scope, connect, follow};
use store::{Batch, Change, Store};
use tokio_util::sync::CancellationToken;

use crate::child;

/// The first word of the process's command line.
pub(crate) const VERB: &str = "--kubernetes-follower";

/// What it keeps.
struct Kept {
    graph: Graph,
    store: Store,
    listed: bool,
}

/// Follows until it is killed; says `listed` once, and `mark` for each object with the label `mark`.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let [kubeconfig] = arguments else { anyhow::bail!("{VERB} KUBECONFIG") };
    child::raise_file_limit()?;
    let mut graph = Graph::new();
    let store = Store::declare(&mut graph);
    let kept = Arc::new(Mutex::new(Kept { graph, store, listed: false }));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let connection = Connection { kubeconfig: Some(PathBuf::from(kubeconfig)), context: None };
        let client = connect(&connection).await?;
        let observed = Observed::new("example.org/ours");
        let options = Options { client, scope: Scope::All, observed, pace: Pace::default() };
        let sink = move |batch| {
            kept.lock().unwrap_or_else(PoisonError::into_inner).take(batch);
            std::future::ready(ControlFlow::Continue(()))
        };
        Ok(follow(options, sink, CancellationToken::new()).await?)
    })
}

impl Kept {
    fn take(&mut self, batch: Batch) {
        let listed = batch.listed;
        let is_mark =
            |change: &&Change| matches!(change, Change::Apply(object, _) if object.meta().labels.get("mark").is_some());
        let marks = if self.listed { batch.changes.iter().filter(is_mark).count() } else { 0 };
        self.store.apply(&mut self.graph, batch);
        self.graph.tick();
        self.graph.settle();
        let mut out = std::io::stdout();
        if listed && !self.listed {
            self.listed = true;
            let _ = writeln!(out, "listed");
        }
        for _ in 0..marks {
            let _ = writeln!(out, "mark");
        }
    }
}
