//! Keepalive enforcement and flood protection. The HTTP/2 library answers every PING and every SETTINGS of a client and counts none, so they
//! are counted on their way in: a client that sends more of them than it may gets GOAWAY with ENHANCE_YOUR_CALM, and the connection ends. So
//! does one whose header block is larger than it was allowed.
//!
//! Every other frame costs time as well, whatever its kind, and so does each TLS record ([`super::records`]); a header block costs it by its
//! length. A client that causes more work than it may is read more slowly, and so are all clients of an identity that together cause more than
//! one may.
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
use tokio::time::{Sleep, sleep};

use super::backlog::{Backlog, Held};
use super::connection::{FirstCaller, HEADER_LIST};
use super::limits::{Account, Bucket, Rate};
use super::percent::Authorities;
use super::records::InRecords;
use super::refusals::RefusalReason;

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

/// The same for a header block that is too large.
const LARGE_HEADERS: &[u8] = b"\0\0\x19\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0btoo_large_headers";

/// Largest header block, all its frames together: what a client may send as it counts ([`HEADER_LIST`]) is shorter as it travels. Half a
/// kilobyte more for padding and priority.
const HEADER_BLOCK: usize = HEADER_LIST as usize + 512;

/// Work on the frames of one connection, in microseconds ([`cost`]): beyond it the connection is read more slowly. A hundredth of a core, and
/// a third of a second at once: a client that opens all its 16,384 streams has a HEADERS frame of 150 bytes for each, 10 µs as they are
/// counted. An Envoy sends 20 frames when it begins and some for each response; gRPC's clients do the same.
const WORK: Rate = Rate { per_second: 10_000, burst: 300_000 };

/// The same of a connection that proves nothing by itself, before a call was let in: 20 frames with a token are 200 µs. What others have caused of
/// whom nothing is known either counts for none of them.
const UNPROVEN: Rate = Rate { per_second: 100, burst: 5_000 };

/// Bytes written for which a frame costs nothing: a client that reads sends two WINDOW_UPDATE for each 16 KiB, or fewer.
const PAYS: usize = 4 << 10;

/// Bytes of a header block that are a microsecond of work: a byte is up to one header field of 70 ns.
const HEADERS_A_MICROSECOND: usize = 16;

/// The same of other frames but DATA, which are only moved.
const BYTES_A_MICROSECOND: usize = 1 << 10;

/// Weight of a byte of a header block among those that are read before the streams have their turn: 2 KiB are 140 µs.
const HEADER_BYTE: usize = 8;

/// What is read before the streams have their turn, give or take one read: some 100 acknowledgements. The library keeps a thousand small
/// frames.
const AT_ONCE: usize = 16 << 10;

/// What a frame counts for beside its bytes: the smallest have 9, and the library takes 0.2 to 1 µs for each. The same of a TLS record, which
/// has 22 and takes a quarter of a microsecond.
const FRAME: usize = 64;

/// Bytes that are read at once beyond the frame that has begun: in them 100 requests at most begin, of 10 bytes or more. While the socket takes nothing
/// of the answers it is less.
const BEYOND: usize = 1 << 10;
const BEYOND_WHILE_STUCK: usize = 256;

/// The cost of a TLS record, in microseconds, besides that of what it brings.
const RECORD: usize = 1;

/// The same of one that may have been a TLS 1.3 key update, in addition: new keys, and an answer where one is requested, are 10 µs where nothing is
/// optimized and a third of that else. Clients that measure up send one after 2^24 records.
const KEY_UPDATE: usize = 10;

/// Length of what a client sends before its first frame.
const PREFACE: usize = 24;

/// The kinds of frames that are distinguished (RFC 9113, 6), and the flag that ends a header block.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS_FRAME: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// The flag of the last frame of a stream's side.
const END_STREAM: u8 = 1;

/// A byte stream whose frames are counted.
pub(super) struct Calm<T> {
    io: T,
    account: Arc<Account>,
    /// The account of the first call that was let in, where the connection proves nothing by itself.
    proven: Option<FirstCaller>,
    /// Work on frames before that.
    unproven: Bucket,
    frames: Frames,
    /// Those that are written.
    written_frames: Frames,
    backlog: Arc<Backlog>,
    /// What is changed on its way in, where the connection came over a Unix socket.
    authorities: Option<Authorities>,
    pings: Bucket,
    settings: Bucket,
    /// Bytes that were written since the last PING.
    written: usize,
    /// Work on frames.
    work: Bucket,
    /// Bytes that were written and have paid for no frame yet.
    paying: usize,
    /// Until this nothing is read: the connection, or its identity, has caused more work than it may.
    pause: Option<Pin<Box<Sleep>>>,
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
    /// Microseconds of work.
    pub(super) work: usize,
    /// Bytes of header blocks.
    pub(super) headers: usize,
    /// Header blocks.
    pub(super) blocks: usize,
    /// Streams that are reset.
    pub(super) resets: usize,
    /// Frames that are the last of their stream's side.
    pub(super) ends: usize,
    /// A header block is larger than it may be.
    pub(super) is_too_large: bool,
}

/// Follows frames through a byte stream.
pub(super) struct Frames {
    /// Bytes until the next head.
    skip: usize,
    head: [u8; 9],
    /// How much of the head there is.
    have: usize,
    /// Bytes of the header block that has begun.
    block: usize,
}

/// The cost of a frame, in microseconds.
fn cost(kind: u8, length: usize) -> usize {
    match kind {
        DATA => 1,
        HEADERS | CONTINUATION => 1 + length / HEADERS_A_MICROSECOND,
        _ => 1 + length / BYTES_A_MICROSECOND,
    }
}

impl Frames {
    /// Those of a client that has said nothing.
    pub(super) fn new() -> Self {
        Self { skip: PREFACE, ..Self::of_server() }
    }

    /// Those of a server that has said nothing: they begin at once.
    fn of_server() -> Self {
        Self { skip: 0, head: [0; 9], have: 0, block: 0 }
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
                self.begin(&mut seen);
            }
        }
        seen
    }

    /// A head is complete.
    fn begin(&mut self, seen: &mut Seen) {
        let [a, b, c, kind, flags, ..] = self.head;
        self.skip = u32::from_be_bytes([0, a, b, c]) as usize;
        self.have = 0;
        let asks = flags & 1 == 0;
        seen.frames += 1;
        seen.pings += usize::from(kind == PING && asks);
        seen.settings += usize::from(kind == SETTINGS_FRAME && asks);
        seen.work += cost(kind, self.skip);
        seen.blocks += usize::from(kind == HEADERS);
        seen.resets += usize::from(kind == RESET);
        seen.ends += usize::from(matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0);
        if matches!(kind, HEADERS | CONTINUATION) {
            seen.headers += self.skip;
            self.block += self.skip;
            seen.is_too_large |= self.block > HEADER_BLOCK;
            if flags & END_HEADERS != 0 {
                self.block = 0;
            }
        }
    }
}

impl<T> Calm<T> {
    #[cfg(test)]
    pub(super) fn new(io: T, account: Arc<Account>) -> Self {
        Self::of(io, account, None, Arc::default())
    }

    /// The frames of a connection of this account, or of that which `proven` is going to have.
    pub(super) fn of(io: T, account: Arc<Account>, proven: Option<FirstCaller>, backlog: Arc<Backlog>) -> Self {
        let full = Bucket::full(Instant::now());
        Self {
            io,
            account,
            proven,
            unproven: full,
            frames: Frames::new(),
            written_frames: Frames::of_server(),
            backlog,
            authorities: None,
            pings: full,
            settings: full,
            written: 0,
            work: full,
            paying: 0,
            pause: None,
            read: 0,
            end: End::Not,
        }
    }

    /// The same over a Unix socket, whose name clients may have for an authority.
    pub(super) fn over_unix(self) -> Self {
        Self { authorities: Some(Authorities::new()), ..self }
    }

    fn count(&mut self, seen: Seen) {
        let now = Instant::now();
        for _ in 0..seen.pings {
            let free = std::mem::take(&mut self.written) > SAID;
            if !free && self.pings.take(PINGS, now).is_err() {
                self.end_with(MANY_PINGS, RefusalReason::Pings, "it pings too often; the connection is ended");
            }
        }
        if (0..seen.settings).any(|_| self.settings.take(SETTINGS, now).is_err()) {
            let words = "it changes its HTTP/2 settings too often; the connection is ended";
            self.end_with(MANY_SETTINGS, RefusalReason::Settings, words);
        }
        if seen.is_too_large {
            let words = "it sends larger headers than the server's settings allow; the connection is ended";
            self.end_with(LARGE_HEADERS, RefusalReason::HeaderBlock, words);
        }
        self.charge(seen, now);
    }

    /// Takes room for the work on frames, but for what the bytes pay that were written.
    fn charge(&mut self, seen: Seen, now: Instant) {
        let plain = seen.work.saturating_sub(seen.headers / HEADERS_A_MICROSECOND);
        let paid = plain.min(self.paying / PAYS);
        self.paying -= paid * PAYS;
        let work = u32::try_from(seen.work - paid).unwrap_or(u32::MAX);
        if work > 0 {
            self.work.charge(WORK, work, now);
            self.settle_account();
            if self.proven.is_some() {
                self.unproven.charge(UNPROVEN, work, now);
            }
            self.account.charge_frames(work, now);
        }
    }

    /// Ready when the work that was caused is made good, as far as it has to be.
    fn poll_pause(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            let now = Instant::now();
            self.settle_account();
            let others = match self.proven {
                Some(_) => self.unproven.owed(UNPROVEN, now),
                None => self.account.owes_frames(now),
            };
            let owed = self.work.owed(WORK, now).into_iter().chain(others).max();
            let Some(wait) = owed else { return Poll::Ready(()) };
            let words = "more HTTP/2 frames or headers in a second than a client may send; it is read more slowly";
            self.account.tell(RefusalReason::Frames, words);
            self.pause = Some(Box::pin(sleep(wait)));
        }
    }

    /// Once it is known whose the connection is, it is counted there.
    fn settle_account(&mut self) {
        if let Some(account) = self.proven.as_ref().and_then(|proven| proven.get()) {
            self.account = Arc::clone(account);
            self.proven = None;
        }
    }

    /// Ready when more may be read as far as answers wait for the client, or requests for this server.
    fn poll_backlog(&self) -> Poll<()> {
        match self.backlog.holds() {
            None => return Poll::Ready(()),
            Some(Held::Untaken) => {
                let words =
                    "it takes no answers, of which many wait; nothing more is read from the connection until it does";
                self.account.tell(RefusalReason::Buffer, words);
            }
            Some(Held::Asking) => {}
        }
        Poll::Pending
    }

    /// Notes whether the socket has taken anything: if so, reading may go on.
    fn note_socket<R>(&self, polled: &Poll<R>, cx: &Context<'_>) {
        if self.backlog.note_socket(polled.is_pending()) {
            cx.waker().wake_by_ref();
        }
    }

    /// Notes what was written.
    fn note_frames<'a>(&mut self, mut length: usize, bufs: impl Iterator<Item = &'a [u8]>) {
        self.note_written(length);
        let mut ends = 0;
        for buf in bufs {
            let written = buf.get(..length).unwrap_or(buf);
            length -= written.len();
            ends += self.written_frames.see(written).ends;
        }
        self.backlog.note_ends(ends);
    }

    fn note_written(&mut self, bytes: usize) {
        self.written = self.written.saturating_add(bytes);
        self.paying = self.paying.saturating_add(bytes).min(PAYS * WORK.burst as usize);
    }

    fn end_with(&mut self, goaway: &'static [u8], reason: RefusalReason, words: &str) {
        if self.end == End::Not {
            self.account.tell(reason, words);
            self.end = End::Words(goaway);
        }
    }
}

impl<T: AsyncRead + Unpin> Calm<T> {
    /// Reads the rest of the frame that has begun and little more, so that few requests come at once.
    fn poll_part(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let beyond = if self.backlog.is_stuck() { BEYOND_WHILE_STUCK } else { BEYOND };
        let most = self.frames.skip.saturating_add(beyond);
        if buf.remaining() <= most {
            return Pin::new(&mut self.io).poll_read(cx, buf);
        }
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(most));
        let polled = Pin::new(&mut self.io).poll_read(cx, &mut part);
        let read = part.filled().len();
        buf.advance(read);
        polled
    }
}

impl<T: AsyncRead + InRecords + Unpin> AsyncRead for Calm<T> {
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
        ready!(self.poll_backlog());
        ready!(self.poll_pause(cx));
        let before = buf.filled().len();
        let polled = self.poll_part(cx, buf);
        let new = buf.filled_mut().get_mut(before..).unwrap_or_default();
        if let Some(authorities) = &mut self.authorities {
            authorities.pass(new);
        }
        // those that bring nothing too, after which nothing may be ready
        let records = self.io.take_records(new.len());
        let for_records = records.all * RECORD + records.updates * KEY_UPDATE;
        let Poll::Ready(result) = polled else {
            self.read = 0;
            self.charge(Seen { work: for_records, ..Seen::default() }, Instant::now());
            return Poll::Pending;
        };
        result?;
        let mut seen = self.frames.see(new);
        seen.work += for_records;
        self.backlog.note_blocks(seen.blocks);
        self.backlog.note_resets(seen.resets);
        let weight = (seen.frames + records.all) * FRAME + records.updates * KEY_UPDATE * FRAME;
        self.read += new.len() + weight + seen.headers * HEADER_BYTE;
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
        let polled = Pin::new(&mut self.io).poll_write(cx, buf);
        self.note_socket(&polled, cx);
        let written = ready!(polled)?;
        self.note_frames(written, std::iter::once(buf));
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.note_socket(&polled, cx);
        let written = ready!(polled)?;
        self.note_frames(written, bufs.iter().map(|buf| &**buf));
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
        let polled = Pin::new(&mut this.io).poll_flush(cx);
        this.note_socket(&polled, cx);
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
