//! The tasks of the process, none of which may end before it does.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::path::PathBuf;

use api::{Kind, ObjectKey};
use provider::file::{Links, Past, SocketPaths};
use store::Change;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::core::Input;

/// See the module.
#[derive(Default)]
pub(super) struct Tasks(JoinSet<(&'static str, anyhow::Result<()>)>);

impl Tasks {
    /// No tasks.
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Starts one.
    pub(super) fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) {
        self.0.spawn(async move { (name, task.await) });
    }

    /// Starts one on other threads.
    pub(super) fn spawn_on(
        &mut self,
        threads: &Handle,
        name: &'static str,
        task: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) {
        self.0.spawn_on(async move { (name, task.await) }, threads);
    }

    /// Waits for the end of any one: the reason why the process has to end.
    pub(super) async fn first_end(&mut self) -> anyhow::Error {
        match self.0.join_next().await {
            None => std::future::pending().await,
            Some(Ok((name, Ok(())))) => anyhow::anyhow!("the task \"{name}\" ended by itself; please report it"),
            Some(Ok((_, Err(error)))) => error,
            Some(Err(error)) => anyhow::Error::new(error).context("a task broke; please report it"),
        }
    }

    /// Ends all.
    pub(super) async fn shutdown(&mut self) {
        self.0.shutdown().await;
    }
}

/// Follows files and hands what they come to to the core. The task ends with the thread that does so, with its reason, and ends
/// the thread when it is told to stop.
pub(super) fn follow(
    (roots, links): (&[PathBuf], Links),
    past: Past,
    (inputs, sockets): (mpsc::Sender<Input>, SocketPaths),
    stop: CancellationToken,
) -> anyhow::Result<impl Future<Output = anyhow::Result<()>> + Send + 'static> {
    let (alive, ended) = oneshot::channel::<Infallible>();
    let watcher = provider::file::watch((roots, links), past, move |mut batch| {
        sockets.add(&mut batch);
        // It belongs to the thread, however that ends.
        let _alive = &alive;
        if let Some(line) = gone(&batch) {
            info!("{line}");
        }
        match inputs.blocking_send(Input::Batch(batch)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    Ok(async move {
        tokio::select! {
            _ = ended => Ok(tokio::task::spawn_blocking(move || watcher.join()).await??),
            () = stop.cancelled() => Ok(()),
        }
    })
}

/// Kinds without which most goes, in that order.
const MISSED: [Kind; 9] = [
    Kind::Gateway,
    Kind::ListenerSet,
    Kind::HttpRoute,
    Kind::GrpcRoute,
    Kind::TlsRoute,
    Kind::TcpRoute,
    Kind::UdpRoute,
    Kind::Service,
    Kind::Backend,
];

/// What a batch takes away: a file that was emptied or deleted by mistake has no other trace, as nothing is wrong with it.
fn gone(batch: &store::Batch) -> Option<String> {
    let keys = || {
        batch.changes.iter().filter_map(|change| match change {
            Change::Delete(key) => Some(key),
            _ => None,
        })
    };
    // What is missed most stands first.
    let rank = |key: &&ObjectKey| MISSED.iter().position(|kind| key.kind() == Some(*kind)).unwrap_or(MISSED.len());
    let (first, more) = (keys().min_by_key(rank)?, keys().count() - 1);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    Some(format!("removed, as no file has it any more: {first}{more}"))
}

#[cfg(test)]
mod tests;
