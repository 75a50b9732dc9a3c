//! Keepalive enforcement. The HTTP/2 library answers every PING of a client and counts none, so they are counted on their way in: a client
//! that pings more often than it may while nothing else is said gets GOAWAY with ENHANCE_YOUR_CALM, and the connection ends.
//!
//! The library in turn counts small DATA frames that nobody has taken from it, and ends the connection with the same words if there are too
//! many. It reads as long as there is something to read, and an Envoy that acknowledges hundreds of responses at once sends as many small
//! frames: so it is given few bytes at once, and the streams take their frames in between.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::limits::{Bucket, Rate};

#[cfg(test)]
mod tests;

/// How often a client may ping: keepalive times are 10 s and more, and one that goes through an outage may try some times in vain.
const PINGS: Rate = Rate { per_second: 1, burst: 60 };

/// A client may ping as it likes as long as it is sent more than this between two PINGs, in bytes: gRPC's clients measure their
/// throughput so. The answer to a PING and a PING of ours have 17 each.
const SAID: usize = 64;

/// GOAWAY on stream 0: no last stream, error 11 (ENHANCE_YOUR_CALM), and the words that gRPC's clients know and slow down for.
const GOAWAY: &[u8] = b"\0\0\x16\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0btoo_many_pings";

/// Bytes that are read before the streams have their turn: some 150 acknowledgements, a third of the small frames that the library keeps.
const AT_ONCE: usize = 16 << 10;

/// Length of what a client sends before its first frame.
const PREFACE: usize = 24;

/// A byte stream whose PINGs are counted.
pub(super) struct Calm<T> {
    io: T,
    frames: Frames,
    pings: Bucket,
    /// Bytes that were written since the last PING.
    written: usize,
    /// Bytes that were read since the streams had their turn.
    read: usize,
    /// How much of [`GOAWAY`] was sent; none as long as all is well.
    goaway: Option<usize>,
}

/// Follows frames through a byte stream.
pub(super) struct Frames {
    /// Bytes until the next head.
    skip: usize,
    head: [u8; 9],
    /// How much of the head there is.
    have: usize,
}

impl Frames {
    /// Those of a client that has said nothing.
    pub(super) fn new() -> Self {
        Self { skip: PREFACE, head: [0; 9], have: 0 }
    }

    /// How many PINGs (no answers to ours) begin in these bytes.
    pub(super) fn pings(&mut self, mut bytes: &[u8]) -> usize {
        let mut pings = 0;
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            let Some((byte, rest)) = bytes.split_first() else { break };
            if let Some(place) = self.head.get_mut(self.have) {
                *place = *byte;
            }
            (self.have, bytes) = (self.have + 1, rest);
            if self.have == self.head.len() {
                let [a, b, c, kind, flags, ..] = self.head;
                self.skip = u32::from_be_bytes([0, a, b, c]) as usize;
                self.have = 0;
                pings += usize::from(kind == 6 && flags & 1 == 0);
            }
        }
        pings
    }
}

impl<T> Calm<T> {
    pub(super) fn new(io: T) -> Self {
        Self { io, frames: Frames::new(), pings: Bucket::full(Instant::now()), written: 0, read: 0, goaway: None }
    }

    fn count(&mut self, pings: usize) {
        for _ in 0..pings {
            let free = std::mem::take(&mut self.written) > SAID;
            if !free && self.pings.take(PINGS, Instant::now()).is_err() && self.goaway.is_none() {
                tracing::info!("an xDS connection is ended: its client pings too often");
                self.goaway = Some(0);
            }
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Calm<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.goaway == Some(GOAWAY.len()) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        if self.read >= AT_ONCE {
            self.read = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let Poll::Ready(result) = Pin::new(&mut self.io).poll_read(cx, buf) else {
            self.read = 0;
            return Poll::Pending;
        };
        result?;
        self.read += buf.filled().len() - before;
        let pings = self.frames.pings(buf.filled().get(before..).unwrap_or_default());
        self.count(pings);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Calm<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write(cx, buf))?;
        self.written = self.written.saturating_add(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write_vectored(cx, bufs))?;
        self.written = self.written.saturating_add(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    /// The library flushes when whole frames were written, as it does after its answer to a PING: here the last word fits.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while let Some(sent) = &mut this.goaway
            && let Some(rest) = GOAWAY.get(*sent..).filter(|rest| !rest.is_empty())
        {
            *sent += ready!(Pin::new(&mut this.io).poll_write(cx, rest))?;
        }
        Pin::new(&mut this.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
