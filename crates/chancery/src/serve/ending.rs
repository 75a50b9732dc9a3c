//! The end of `chancery run`: signals, and what they mean for the Envoys of this machine.

use std::time::Duration;

use infra::host::{self, Ending, Layout, LeftEnvoy, StateLock};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::{info, warn};

use super::tasks::Tasks;
use crate::cli::OnExit;
use crate::core;

/// How often the lock of the state folder is looked at.
const LOOK_AT_LOCK: Duration = Duration::from_secs(1);

/// The way to end the proxies of this machine, or to leave them.
pub(super) struct Ends {
    /// Notifies their supervisor.
    proxies: watch::Sender<Ending>,
    /// The meaning of SIGTERM.
    on_exit: OnExit,
    /// Their files.
    layout: Layout,
}

impl Ends {
    /// Nothing ends yet; gives what the supervisor of proxies listens to as well.
    pub(super) fn new(on_exit: OnExit, layout: Layout) -> (Self, watch::Receiver<Ending>) {
        let (proxies, ending) = watch::channel(Ending::No);
        (Self { proxies, on_exit, layout }, ending)
    }

    /// Returns true if proxies are ending.
    fn has_begun(&self) -> bool {
        *self.proxies.borrow() != Ending::No
    }

    /// Drains at the first signal, ends at once at the second.
    fn drain(&self) {
        self.proxies.send_modify(|ending| {
            *ending = if *ending == Ending::No { Ending::Drain } else { Ending::AtOnce };
            match ending {
                Ending::AtOnce => warn!("ending at once"),
                _ => info!("draining; a second signal ends at once"),
            }
        });
    }

    /// Logs which Envoys serve on without Chancery, and how to end them.
    fn leave(&self) {
        let left = LeftEnvoy::find(&self.layout);
        for envoy in &left {
            let (gateway, pid) = (envoy.fleet.as_str(), envoy.pid);
            match envoy.is_draining() {
                true => info!(gateway, pid, "leaves an envoy that drains"),
                false => info!(gateway, pid, "leaves an envoy that serves on"),
            }
        }
        let state = self.layout.state().display();
        info!(
            "ends without its {} envoys: the next start on {state} takes them over, `chancery stop --state-dir {state}` ends them",
            left.len()
        );
    }
}

/// Waits until the state folder, deleted meanwhile, belongs to another process: both would serve the same Gateways.
async fn lost(lock: &mut StateLock) -> host::Error {
    loop {
        tokio::time::sleep(LOOK_AT_LOCK).await;
        // Other errors are reported where the folder is used.
        if let Err(reason @ host::Error::Locked { .. }) = lock.renew() {
            return reason;
        }
    }
}

/// Waits for signals, for the proxies to be gone after the first one, and for the end of anything that should not end.
pub(super) async fn until_the_end(
    (core, tasks): (&mut core::Thread, &mut Tasks),
    lock: &mut StateLock,
    proxies: Option<impl Future<Output = Result<(), host::Error>>>,
    end: &Ends,
) -> anyhow::Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    // The terminal was closed.
    let mut hangup = signal(SignalKind::hangup())?;
    // `chancery stop` sends it. Before this handler is there the signal ends the process as well, which leaves the Envoys.
    let mut leave = signal(SignalKind::user_defined1())?;
    let supervised = proxies.is_some();
    let proxies = async {
        match proxies {
            Some(proxies) => proxies.await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(proxies);
    loop {
        tokio::select! {
            // The core first: its end makes others end, and it has the reason.
            biased;
            ended = core.end() => return ended.and(Err(anyhow::anyhow!("the core ended"))),
            reason = tasks.first_end() => return Err(reason),
            reason = lost(lock) => return Err(reason.into()),
            result = &mut proxies => {
                let asked = end.has_begun();
                return result.map_err(Into::into).and(if asked { Ok(()) } else { Err(anyhow::anyhow!("the supervisor of proxies ended")) });
            }
            _ = interrupt.recv() => end.drain(),
            _ = hangup.recv() => end.drain(),
            _ = terminate.recv() => if end.on_exit == OnExit::Drain || end.has_begun() {
                end.drain();
            } else {
                // The supervisor is dropped, and lets them run.
                end.leave();
                return Ok(());
            },
            // Those that drain already go on with that.
            _ = leave.recv(), if !end.has_begun() => {
                end.leave();
                return Ok(());
            }
        }
        if !supervised && end.has_begun() {
            return Ok(());
        }
    }
}
