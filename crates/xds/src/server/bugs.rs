//! Panics. They are bugs; no task of the server ends by one without a word, and none that others need ends at all.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use tokio::task::JoinError;

#[cfg(test)]
mod tests;

/// Pause after a panic, which may come again at once.
const PAUSE: Duration = Duration::from_millis(100);

/// Does this; false, after a pause, if it panicked.
pub(super) async fn survived(what: &str, work: impl Future<Output = ()>) -> bool {
    let survived = AssertUnwindSafe(work).catch_unwind().await.is_ok();
    if !survived {
        tracing::error!(
            "{what} panicked and begins anew; this is a bug: please report it with the message of the panic"
        );
        tokio::time::sleep(PAUSE).await;
    }
    survived
}

/// Tells how a connection has ended, if that is by a panic.
pub(super) fn note(ended: Result<(), JoinError>) {
    if ended.is_err_and(|error| error.is_panic()) {
        tracing::error!(
            "an xDS connection panicked and is closed; this is a bug: please report it with the message of the panic"
        );
    }
}
