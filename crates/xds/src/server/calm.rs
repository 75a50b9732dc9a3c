//! Keepalive enforcement. The HTTP/2 library answers every PING and every SETTINGS of a client and counts none, so they are counted on their
//! way in: a client that sends more of them than it may gets GOAWAY with ENHANCE_YOUR_CALM, and the connection ends.
//!
//! The library in turn counts small DATA frames that nobody has taken from it, and ends the connection with the same words if there are too
//! many. It reads as long as there is something to read, and an Envoy that acknowledges hundreds of responses at once sends as many small
//! frames: so it is given few bytes and few frames at once, and the streams take theirs in between.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::limits::{Account, Bucket, Rate};

#[cfg(test)]
mod tests;

/// How often a client may ping: keepalive times are 10 s and more, and one that goes through an outage may try some times in vain.
const PINGS: Rate = Rate { per_second: 1, burst: 60 };

/// A client may ping as it likes as long as it is sent more than this between two PINGs, in bytes: gRPC's clients measure their
/// throughput so. The answer to a PING and a PING of ours have 17 each.
const SAID: usize = 64;

/// How often a client may change its SETTINGS. It does so once, or now and then as it finds out how fast its way is; a change of the window
/// costs the library a look at each stream, some 70 ns.
const SETTINGS: Rate = Rate { per_second: 1, burst: 60 };

/// GOAWAY on stream 0: no last stream, error 11 (ENHANCE_YOUR_CALM), and the words that gRPC's clients know and slow down for.
const MANY_PINGS: &[u8] = b"\0\0\x16\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0btoo_many_pings";

/// The same for the other reason.
const MANY_SETTINGS: &[u8] = b"\0\0\x19\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0btoo_many_settings";

/// What is read before the streams have their turn, give or take one read: some 100 acknowledgements. The library keeps a thousand small
/// frames.
const AT_ONCE: usize = 16 << 10;

/// What a frame counts for beside its bytes: the smallest have 9, and the library takes 0.2 to 1 µs for each.
const FRAME: usize = 64;

/// Length of what a client sends before its first frame.
const PREFACE: usize = 24;

/// A byte stream whose PINGs and SETTINGS are counted.
pub(super) struct Calm<T> {
    io: T,
    account: Arc<Account>,
    frames: Frames,
    pings: Bucket,
    settings: Bucket,
    /// Bytes that were written since the last PING.
    written: usize,
    /// What was read since the streams had their turn.
    read: usize,
    end: End,
}

/// How far the end of a connection is.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// All is well.
    Not,
    /// What is left of the GOAWAY.
    Words(&'static [u8]),
    Said,
}

/// Frames that begin in some bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Of any kind.
    pub(super) frames: usize,
    /// PINGs, no answers to ours.
    pub(super) pings: usize,
    /// SETTINGS, no acknowledgements of ours.
    pub(super) settings: usize,
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

    /// What begins in these bytes.
    pub(super) fn see(&mut self, mut bytes: &[u8]) -> Seen {
        let mut seen = Seen::default();
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
                let asks = flags & 1 == 0;
                seen.frames += 1;
                seen.pings += usize::from(kind == 6 && asks);
                seen.settings += usize::from(kind == 4 && asks);
            }
        }
        seen
    }
}

impl<T> Calm<T> {
    pub(super) fn new(io: T, account: Arc<Account>) -> Self {
        let full = Bucket::full(Instant::now());
        Self { io, account, frames: Frames::new(), pings: full, settings: full, written: 0, read: 0, end: End::Not }
    }

    fn count(&mut self, seen: Seen) {
        let now = Instant::now();
        for _ in 0..seen.pings {
            let free = std::mem::take(&mut self.written) > SAID;
            if !free && self.pings.take(PINGS, now).is_err() {
                self.end_with(MANY_PINGS, "it pings too often; the connection is ended");
            }
        }
        if (0..seen.settings).any(|_| self.settings.take(SETTINGS, now).is_err()) {
            self.end_with(MANY_SETTINGS, "it changes its HTTP/2 settings too often; the connection is ended");
        }
    }

    fn end_with(&mut self, goaway: &'static [u8], words: &str) {
        if self.end == End::Not {
            self.account.tell(words);
            self.end = End::Words(goaway);
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Calm<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.end {
            End::Not => {}
            // `poll_flush` sends them, and wakes
            End::Words(_) => return Poll::Pending,
            End::Said => return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
        }
        if self.read >= AT_ONCE {
            // what was read beyond that counts for the next turn
            self.read -= AT_ONCE;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let Poll::Ready(result) = Pin::new(&mut self.io).poll_read(cx, buf) else {
            self.read = 0;
            return Poll::Pending;
        };
        result?;
        let new = buf.filled().get(before..).unwrap_or_default();
        let seen = self.frames.see(new);
        self.read += new.len() + seen.frames * FRAME;
        self.count(seen);
        if self.end != End::Not {
            // the library is to say the last word and not to work on
            buf.set_filled(before);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
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

    /// The library flushes when whole frames were written: here the last word fits. Who does not take it at once does without.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while let End::Words(words) = this.end {
            this.end = match Pin::new(&mut this.io).poll_write(cx, words) {
                Poll::Ready(Ok(sent)) if sent > 0 && sent < words.len() => {
                    End::Words(words.get(sent..).unwrap_or_default())
                }
                _ => End::Said,
            };
            if this.end == End::Said {
                cx.waker().wake_by_ref();
            }
        }
        Pin::new(&mut this.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
