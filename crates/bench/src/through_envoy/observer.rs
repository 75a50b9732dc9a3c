//! A scripted client beside Envoy: it gets the same resources from the same socket and notes when.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::sync::oneshot;

use crate::ads::{Client, Received};
use crate::dataset::ROUTES_PER_HOST;

/// The client, on a thread of its own.
pub(super) struct Observer {
    seen: Receiver<Received>,
    /// Gone: the client ends.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Observer {
    /// Connects, and takes what there is.
    pub(super) fn start(socket: PathBuf, routes: usize) -> anyhow::Result<Self> {
        let (sender, seen) = channel();
        let (stop, mut stopped) = oneshot::channel::<()>();
        let (ready, waiting) = channel();
        let thread = std::thread::spawn(move || -> anyhow::Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let mut client = Client::connect(&socket).await?;
                client.complete(routes, routes.div_ceil(ROUTES_PER_HOST)).await?;
                client.drain(Duration::from_millis(200)).await?;
                ready.send(())?;
                loop {
                    tokio::select! {
                        _ = &mut stopped => return Ok(()),
                        received = client.next() => sender.send(received?)?,
                    }
                }
            })
        });
        let observer = Self { seen, stop: Some(stop), thread: Some(thread) };
        waiting.recv().context("the scripted client ended")?;
        Ok(observer)
    }

    /// When a resource of such a name came, after `since`.
    pub(super) fn received(&self, is_it: impl Fn(&str) -> bool, since: Instant) -> anyhow::Result<Instant> {
        loop {
            let received =
                self.seen.recv_timeout(Duration::from_secs(10)).context("the scripted client got nothing")?;
            if received.at > since && received.names.iter().any(|name| is_it(name)) {
                return Ok(received.at);
            }
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
