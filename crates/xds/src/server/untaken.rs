//! Answers of one connection whose client does not take what was said. The library asks such an answer for nothing more, whatever happens:
//! so the connection looks at them by its own time, that nobody else waits for this client and that no identity outlives itself.

use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::Context;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::call::Answer;
use super::{Shared, locked};
use crate::session::LAGGING;

/// See the module.
pub(super) struct Watch {
    shared: Arc<Shared>,
    /// [`super::limits::Limits::taken`].
    taken: Duration,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Those that have said something since they were looked at last, each once.
    answers: Vec<Weak<Mutex<Answer>>>,
    /// When to look at them.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Watch {
    pub(super) fn new(shared: &Arc<Shared>, taken: Duration) -> Self {
        Self { shared: Arc::clone(shared), taken, inner: Mutex::default() }
    }

    /// The time for the state machines.
    pub(super) fn now(&self) -> Duration {
        self.shared.now()
    }

    /// An answer has said something.
    pub(super) fn add(&self, answer: &Arc<Mutex<Answer>>) {
        locked(&self.inner).answers.push(Arc::downgrade(answer));
    }

    /// There are answers for which no time is set: [`Self::poll`] is to be called.
    pub(super) fn is_due(&self) -> bool {
        let inner = locked(&self.inner);
        inner.timer.is_none() && !inner.answers.is_empty()
    }

    /// Looks at those whose time has come.
    pub(super) fn poll(&self, cx: &mut Context<'_>) {
        loop {
            let mut inner = locked(&self.inner);
            if let Some(timer) = &mut inner.timer {
                if timer.as_mut().poll(cx).is_pending() {
                    return;
                }
                inner.timer = None;
            }
            let answers = std::mem::take(&mut inner.answers);
            drop(inner);
            let (mut left, mut next, now) = (Vec::new(), None, self.now());
            for answer in answers {
                let Some(strong) = answer.upgrade() else { continue };
                let at = locked(&strong).look(&self.shared, now, self.taken);
                if let Some(at) = at {
                    left.push(answer);
                    // what is taken meanwhile, and then not, is to be seen in time
                    let at = at.min(now + LAGGING.min(self.taken));
                    next = next.into_iter().chain([at]).min();
                }
            }
            let Some(at) = next else { return };
            let mut inner = locked(&self.inner);
            inner.answers.append(&mut left);
            inner.timer = Some(Box::pin(sleep_until(Instant::from_std(self.shared.epoch + at))));
        }
    }
}
