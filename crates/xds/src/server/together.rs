//! Parts of one task that are woken apart: only those that were are polled. Parts that wake each other, as a stream that has said something
//! wakes the connection that is to send it, are polled again at once: their task waits only when none of them has anything to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::task::AtomicWaker;

#[cfg(test)]
mod tests;

/// How often the parts are polled before other tasks have their turn.
const TURNS: usize = 16;

/// The parts are being polled: whoever wakes them need not wake the task. The bits below this are those of the parts that were woken.
const POLLED: u8 = 1 << 7;

/// The parts of one task, up to seven, by number.
pub(super) struct Together<const PARTS: usize> {
    state: Arc<State>,
    wakers: [Waker; PARTS],
}

struct State {
    flags: AtomicU8,
    task: AtomicWaker,
}

/// What wakes one part.
struct Part {
    bit: u8,
    state: Arc<State>,
}

impl Wake for Part {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.flags.fetch_or(self.bit, Ordering::AcqRel) == 0 {
            self.state.task.wake();
        }
    }
}

impl<const PARTS: usize> Together<PARTS> {
    /// All of them are to be polled.
    pub(super) fn new() -> Self {
        let state = Arc::new(State { flags: AtomicU8::new((1 << PARTS) - 1), task: AtomicWaker::new() });
        let waker = |part: usize| Waker::from(Arc::new(Part { bit: 1 << part, state: Arc::clone(&state) }));
        Self { wakers: std::array::from_fn(waker), state }
    }

    /// Something was done to a part from outside: it is to be polled the next time.
    pub(super) fn touch(&self, part: usize) {
        self.state.flags.fetch_or(1 << part, Ordering::AcqRel);
    }

    /// Polls the parts that were woken, in their order, until none is or one of them is ready.
    pub(super) fn poll<T>(
        &self,
        cx: &Context<'_>,
        mut poll: impl FnMut(usize, &mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let flags = &self.state.flags;
        self.state.task.register(cx.waker());
        flags.fetch_or(POLLED, Ordering::AcqRel);
        for _ in 0..TURNS {
            for (part, waker) in self.wakers.iter().enumerate() {
                let bit = 1 << part;
                if flags.fetch_and(!bit, Ordering::AcqRel) & bit != 0
                    && let Poll::Ready(result) = poll(part, &mut Context::from_waker(waker))
                {
                    flags.fetch_and(!POLLED, Ordering::AcqRel);
                    return Poll::Ready(result);
                }
            }
            if flags.compare_exchange(POLLED, 0, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return Poll::Pending;
            }
        }
        flags.fetch_and(!POLLED, Ordering::AcqRel);
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
