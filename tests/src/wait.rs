//! Waiting for a fact with a deadline.

use std::time::{Duration, Instant};

/// How long a fact may take before its test fails. Far above what any fact needs, so that only a fact that never comes fails.
pub const DEADLINE: Duration = Duration::from_secs(180);

/// Asks again and again until the answer is `Some`, and gives it.
///
/// # Errors
/// After [`DEADLINE`], with what was waited for.
pub fn until<T>(what: &str, ask: impl FnMut() -> Option<T>) -> anyhow::Result<T> {
    within(DEADLINE, what, ask)
}

/// The same for what others have set a longer time for.
///
/// # Errors
/// After that time, with what was waited for.
pub fn within<T>(longest: Duration, what: &str, mut ask: impl FnMut() -> Option<T>) -> anyhow::Result<T> {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return Ok(answer);
        }
        anyhow::ensure!(began.elapsed() < longest, "waited {} s for {what}", longest.as_secs());
        std::thread::sleep(Duration::from_millis(2));
    }
}
