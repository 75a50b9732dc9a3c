//! Requests without pause while something happens, each with the answers that are right for it at any moment.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::client::{Answer, Kept, KeptOn, KeptPlain};
use crate::wait::until;

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
    pub fn run(&self, ask: impl FnMut(&str) -> anyhow::Result<Answer>, allowed: &[Allowed<'_>]) {
        let paths: Vec<&str> = allowed.iter().map(|(path, _)| *path).collect();
        let bodies: BTreeMap<&str, &[&str]> = allowed.iter().copied().collect();
        self.run_judged(ask, &paths, |path, _, answer| {
            let bodies = bodies.get(path).copied().unwrap_or_default();
            body(answer).is_some_and(|body| bodies.contains(&body))
        });
    }

    /// The same, where it depends on the time what is right: that of the request is handed on with its answer.
    pub fn run_judged(
        &self,
        mut ask: impl FnMut(&str) -> anyhow::Result<Answer>,
        paths: &[&str],
        is_right: impl Fn(&str, Instant, &anyhow::Result<Answer>) -> bool,
    ) {
        while !self.over.load(Ordering::Acquire) {
            for path in paths {
                self.asked.fetch_add(1, Ordering::Relaxed);
                let sent = Instant::now();
                let answer = ask(path);
                if is_right(path, sent, &answer) {
                    continue;
                }
                let wrong = match answer {
                    Ok(other) => format!("{path}: {} {}", other.status, other.body),
                    Err(error) => format!("{path}: {error:#}"),
                };
                *self.wrong.lock().unwrap_or_else(PoisonError::into_inner).entry(wrong).or_default() += 1;
            }
        }
    }

    /// Waits until so many more were asked, so that a step of a test meets requests however fast it is.
    ///
    /// # Errors
    /// After [`crate::wait::DEADLINE`].
    pub fn more(&self, requests: u64) -> anyhow::Result<()> {
        let asked = || self.asked.load(Ordering::Relaxed);
        let enough = asked() + requests;
        until("requests", || (asked() >= enough).then_some(()))
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

/// An answer as [`Allowed`] writes it down; none: it is right nowhere.
pub fn body(answer: &anyhow::Result<Answer>) -> Option<&str> {
    match answer {
        Ok(Answer { status: 200, body }) => Some(body),
        Ok(Answer { status: 404, .. }) => Some("404"),
        Ok(_) => None,
        Err(_) => Some("down"),
    }
}

struct Asking<'a>(&'a AtomicBool);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Asks in cleartext, on one connection for as long as the server keeps it.
pub fn over_kept(port: u16) -> impl FnMut(&str) -> anyhow::Result<Answer> {
    over_each(move || KeptPlain::connect(port))
}

/// Asks over TLS, on one connection for as long as the server keeps it.
pub fn over_kept_tls(port: u16, certificates: &[&str]) -> impl FnMut(&str) -> anyhow::Result<Answer> {
    over_each(move || Kept::connect(port, "x.example", certificates))
}

fn over_each<S: Read + Write>(
    connect: impl Fn() -> anyhow::Result<KeptOn<S>>,
) -> impl FnMut(&str) -> anyhow::Result<Answer> {
    let mut kept = None;
    move |path| {
        let mut connection = kept.take().map_or_else(&connect, Ok)?;
        let (answer, last) = connection.get_and_tell("x.example", path)?;
        kept = (!last).then_some(connection);
        Ok(answer)
    }
}
