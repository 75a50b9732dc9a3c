//! Requests without pause while something happens, each with the answers that are right for it at any moment.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::client::{Answer, Kept};

/// A path with the bodies that are right for it: `404` is that status, and `down` no answer at all.
pub type Allowed<'a> = (&'a str, &'a [&'a str]);

/// What was asked, and what was wrong about the answers.
#[derive(Default)]
pub struct Prober {
    wrong: Mutex<BTreeMap<String, u64>>,
    asked: AtomicU64,
    over: AtomicBool,
}

impl Prober {
    /// Asks every path in turn until it is over; an answer that its path does not allow is noted.
    pub fn run(&self, mut ask: impl FnMut(&str) -> anyhow::Result<Answer>, allowed: &[Allowed<'_>]) {
        while !self.over.load(Ordering::Acquire) {
            for (path, bodies) in allowed {
                self.asked.fetch_add(1, Ordering::Relaxed);
                let right = match ask(path) {
                    Ok(Answer { status: 200, body }) if bodies.contains(&&*body) => None,
                    Ok(Answer { status: 404, .. }) if bodies.contains(&"404") => None,
                    Err(_) if bodies.contains(&"down") => None,
                    Ok(other) => Some(format!("{path}: {} {}", other.status, other.body)),
                    Err(error) => Some(format!("{path}: {error:#}")),
                };
                if let Some(wrong) = right {
                    *self.wrong.lock().unwrap_or_else(PoisonError::into_inner).entry(wrong).or_default() += 1;
                }
            }
        }
    }

    /// Everybody stops asking when this is dropped, also by a test that fails.
    pub fn until_dropped(&self) -> impl Drop {
        Asking(&self.over)
    }

    /// How many requests there were, and what was wrong how often.
    pub fn told(self) -> (u64, BTreeMap<String, u64>) {
        (self.asked.into_inner(), self.wrong.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Asking<'a>(&'a AtomicBool);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Asks over TLS, on one connection for as long as the server keeps it.
pub fn over_kept_tls(port: u16, certificates: &[&str]) -> impl FnMut(&str) -> anyhow::Result<Answer> {
    let mut kept = None;
    move |path| {
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => Kept::connect(port, "x.example", certificates)?,
        };
        let (answer, last) = connection.get("x.example", path)?;
        kept = (!last).then_some(connection);
        Ok(answer)
    }
}
