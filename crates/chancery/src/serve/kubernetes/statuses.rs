//! Statuses on their way to the API server, and what it says of them.

use std::sync::Arc;

use api::{ObjectKey, Problem, Severity};
use provider::kubernetes::Observed;
use provider::kubernetes::replicas::Heard;
use provider::kubernetes::status::{Board, Refused};
use store::{Batch, Change, Source};
use tokio::sync::{mpsc, watch};

use crate::core::{Asking, Input, Which};

/// Fills the board when somebody begins to write, and puts back on it what somebody else has changed.
pub(super) async fn feed(asking: Asking, board: Board, observed: Observed) -> anyhow::Result<()> {
    let mut opening = board.opening();
    loop {
        if opening.wait_for(|open| *open).await.is_err() || !asking.ready().await {
            return Ok(());
        }
        // Also of those that have none any more: nobody may have been there to take it back.
        if !asking.put_statuses(Which::All { with: observed.with_ours() }).await {
            return Ok(());
        }
        while *opening.borrow_and_update() {
            tokio::select! {
                changed = opening.changed() => if changed.is_err() { return Ok(()) },
                keys = observed.changed() => if !asking.put_statuses(Which::These(keys)).await { return Ok(()) },
            }
        }
    }
}

/// Tells what cannot be written, as problems of the objects.
pub(super) async fn tell(mut refused: watch::Receiver<Refused>, inputs: mpsc::Sender<Input>) -> anyhow::Result<()> {
    while refused.changed().await.is_ok() {
        let problems = refused.borrow_and_update().iter().map(problem).collect();
        let changes = vec![Change::Problems { origin: "statuses".into(), problems }];
        let batch = Batch { source: Source::Kubernetes, changes, listed: false };
        if inputs.send(Input::Batch(batch)).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// Hands what other replicas say to the core; ends with either side.
pub(super) async fn hear(mut heard: watch::Receiver<Arc<Heard>>, inputs: mpsc::Sender<Input>) -> anyhow::Result<()> {
    while heard.changed().await.is_ok() {
        let now = Arc::clone(&heard.borrow_and_update());
        if inputs.send(Input::Replicas(now)).await.is_err() {
            break;
        }
    }
    Ok(())
}

fn problem((object, words): &(ObjectKey, Arc<str>)) -> Problem {
    let text = format!("its status cannot be written, and is tried again: {words}");
    Problem::of(object, "status", Severity::Warning, text)
}
