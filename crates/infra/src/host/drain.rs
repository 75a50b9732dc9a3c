//! The end of a proxy: nothing new, time for what runs, then signals.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use super::admin;
use super::retired::Retired;
use super::run::{Ending, Order};

/// From SIGTERM to SIGKILL: Envoy ends within 10 ms unless it hangs.
const TERM_GRACE: Duration = Duration::from_secs(5);

/// The same when somebody is in a hurry.
const SHORT_GRACE: Duration = Duration::from_millis(500);

/// From SIGKILL until we stop waiting for the kernel.
const KILL_GRACE: Duration = Duration::from_secs(5);

/// How often Envoy is asked whether it is idle: at first, and at most.
const ASK_FIRST: Duration = Duration::from_millis(10);
const ASK_SLOWEST: Duration = Duration::from_millis(250);

/// Ends a proxy: its listeners close, each answer closes its connection, and it gets up to `bound` for what runs. It ends
/// sooner if nothing runs, and at once when the order says so or `room` is needed. `closed` gets a message when its listeners are closed,
/// and dropped when it is gone.
pub(crate) async fn end(
    Retired { process, admin_socket, .. }: &mut Retired,
    bound: Duration,
    (closed, room): (oneshot::Sender<()>, oneshot::Receiver<()>),
    mut orders: watch::Receiver<Order>,
) {
    let pid = process.pid;
    // Out here, so that it is not dropped with the future below.
    let mut closed = Some(closed);
    let hurry = async {
        // A sender that is gone asks for no hurry.
        if orders.wait_for(|order| order.ending == Ending::AtOnce).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let room = async {
        // Without a sender nothing begins to drain after it.
        if room.await.is_err() {
            std::future::pending::<()>().await;
        }
        tracing::warn!(
            pid,
            "ends an envoy that still drained: the next one of its Gateway drains now, and one may at a time"
        );
    };
    let hurried = tokio::select! {
        biased;
        () = hurry => true,
        () = room => true,
        _ = process.ended() => return,
        () = until_idle(admin_socket, bound, &mut closed) => false,
    };
    process.signal(Signal::TERM);
    let grace = if hurried { SHORT_GRACE } else { TERM_GRACE };
    if timeout(grace, process.ended()).await.is_ok() {
        return;
    }
    tracing::warn!(pid, "envoy did not end in time, killed");
    process.signal(Signal::KILL);
    if timeout(KILL_GRACE, process.ended()).await.is_err() {
        tracing::error!(pid, "envoy could not be killed");
    }
}

async fn until_idle(admin_socket: &Path, bound: Duration, closed: &mut Option<oneshot::Sender<()>>) {
    let deadline = Instant::now() + bound;
    if let Err(error) = admin::drain(admin_socket).await {
        tracing::debug!(%error, "not drained");
        return;
    }
    let _nobody_waits = closed.take().map(|closed| closed.send(()));
    let mut pause = ASK_FIRST;
    while Instant::now() < deadline {
        match admin::busy(admin_socket).await {
            Ok(busy) if !busy.is_idle() => {}
            _ => return,
        }
        sleep(pause.min(deadline.saturating_duration_since(Instant::now()))).await;
        pause = (pause * 2).min(ASK_SLOWEST);
    }
}
