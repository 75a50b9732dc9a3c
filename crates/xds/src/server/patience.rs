//! How long somebody may take, in time in which he was listened to. A server that has more to do than it can comes late to each of its
//! connections, and what has arrived there counts only when it is read. So time passes here in parts, each of which begins when it was seen
//! that the one before is over: a look counts for one part, however late it comes, and a late one after which something is found to have
//! come for none.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

#[cfg(test)]
mod tests;

/// The parts of the whole time.
pub(super) const PARTS: u32 = 12;

/// See the module.
pub(super) struct Patience {
    part: Duration,
    over: u32,
    /// The last look was later than by another part.
    was_late: bool,
    timer: Pin<Box<Sleep>>,
}

impl Patience {
    pub(super) fn new(whole: Duration) -> Self {
        let part = whole / PARTS;
        Self { part, over: 0, was_late: false, timer: Box::pin(sleep(part)) }
    }

    /// Something was heard, which may have come before the last look.
    pub(super) fn hear(&mut self) {
        self.over -= u32::from(std::mem::take(&mut self.was_late));
    }

    /// Ready when so many of the [`PARTS`] are over.
    pub(super) fn poll_parts(&mut self, parts: u32, cx: &mut Context<'_>) -> Poll<()> {
        while self.over < parts {
            ready!(self.timer.as_mut().poll(cx));
            let (due, now) = (self.timer.deadline(), Instant::now());
            self.over += 1;
            self.was_late = now >= due + self.part;
            self.timer.as_mut().reset(now + self.part);
        }
        Poll::Ready(())
    }
}

impl Future for Patience {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_parts(PARTS, cx)
    }
}
