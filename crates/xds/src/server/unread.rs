//! What the streams of one connection have said that is not on its way yet: bounded for all of them together, so that many streams whose
//! client does not read cost what one does.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Frame;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

#[cfg(test)]
mod tests;

/// Bytes that wait for the client to read, of all streams of a connection: those of two streams (`SEND_BUFFER`) are 96 KiB, so that one that
/// is not read holds up no other.
const MOST: usize = 96 << 10;

/// Taken for a part of an answer before it is there; what it does not need is given back. Only what is shared with the fleet comes in larger
/// parts.
pub(super) const PART: u32 = 16 << 10;

/// The budget of a connection.
pub(super) struct Unread(Arc<Semaphore>);

impl Default for Unread {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST)))
    }
}

impl Unread {
    /// For one more stream.
    pub(super) fn share(&self) -> Share {
        Share { all: Arc::clone(&self.0), waiting: None }
    }
}

type Waiting = Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>;

/// A stream's share of the budget.
pub(super) struct Share {
    all: Arc<Semaphore>,
    /// For its turn, after those that waited before.
    waiting: Option<Waiting>,
}

/// A part of an answer, until it is on its way or nobody wants it any more.
struct Counted {
    bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Share {
    /// Gives the next part of an answer, when there is room for it.
    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
        answer: impl FnOnce(&mut Context<'_>) -> Poll<Option<Frame<Bytes>>>,
    ) -> Poll<Option<Frame<Bytes>>> {
        let room = ready!(self.poll_room(cx));
        let frame = ready!(answer(cx));
        Poll::Ready(frame.map(|frame| frame.map_data(|bytes| counted(bytes, room))))
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Option<OwnedSemaphorePermit>> {
        if self.waiting.is_none()
            && let Ok(room) = Arc::clone(&self.all).try_acquire_many_owned(PART)
        {
            return Poll::Ready(Some(room));
        }
        let all = &self.all;
        let waiting = self.waiting.get_or_insert_with(|| {
            let all = Arc::clone(all);
            Box::pin(async move { all.acquire_many_owned(PART).await.ok() })
        });
        let room = ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        Poll::Ready(room)
    }
}

/// The part with the room that it needs.
fn counted(bytes: Bytes, room: Option<OwnedSemaphorePermit>) -> Bytes {
    let needed = bytes.len().min(PART as usize);
    match room.and_then(|mut room| room.split(needed)) {
        Some(room) => Bytes::from_owner(Counted { bytes, _room: room }),
        None => bytes,
    }
}
