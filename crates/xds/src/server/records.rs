//! TLS records on their way in. Each costs the server a decryption, however little it brings, and one that brings nothing is not seen above TLS:
//! so they are counted below it. What a record has room for and did not bring was for TLS itself: a key update costs more than a decryption.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustls::ProtocolVersion;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

#[cfg(test)]
mod tests;

/// Bytes of a TLS 1.3 record that are no content: the kind and the tag (RFC 8446, 5.2).
const AROUND: usize = 17;

/// Length of a key update (RFC 8446, 4 and 4.6.3). It ends its record, as the keys change behind it.
const KEY_UPDATE: usize = 5;

/// TLS records that came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordsSeen {
    /// Of any kind.
    pub(super) all: usize,
    /// Those that may have been key updates: no more than the bytes have room for that brought nothing.
    pub(super) updates: usize,
}

/// A byte stream that may come in TLS records.
pub(super) trait InRecords {
    /// Takes the records that have come since the last call, in which so many bytes were read.
    fn take_records(&mut self, _read: usize) -> RecordsSeen {
        RecordsSeen::default()
    }
}

impl InRecords for UnixStream {}

impl InRecords for TcpStream {}

impl<S> InRecords for TlsStream<Records<S>> {
    fn take_records(&mut self, read: usize) -> RecordsSeen {
        let (records, session) = self.get_mut();
        let has_updates = session.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        // all that came has been processed: this says how much of it waits to be read
        let waiting = session.process_new_packets().map_or(0, |state| state.plaintext_bytes_to_read());
        let seen = records.take(read, waiting);
        if has_updates { seen } else { RecordsSeen { updates: 0, ..seen } }
    }
}

impl<T: InRecords + ?Sized> InRecords for Box<T> {
    fn take_records(&mut self, read: usize) -> RecordsSeen {
        (**self).take_records(read)
    }
}

/// A byte stream below TLS whose incoming records are counted.
pub(super) struct Records<S> {
    io: S,
    /// Bytes until the next head.
    skip: usize,
    /// Kind, version, length (RFC 8446, 5.1).
    head: [u8; 5],
    /// Bytes of the head that there are.
    have: usize,
    /// Records that have begun.
    seen: usize,
    /// Records that have ended.
    whole: usize,
    /// Content that the record has which has begun.
    begun: usize,
    /// Content of whole records that was not read yet, and that is not known to be for TLS itself.
    content: usize,
}

impl<S> Records<S> {
    pub(super) fn new(io: S) -> Self {
        Self { io, skip: 0, head: [0; 5], have: 0, seen: 0, whole: 0, begun: 0, content: 0 }
    }

    /// Counts the records that begin in these bytes.
    fn see(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            if skipped > 0 && self.skip == 0 {
                self.end_record();
            }
            let Some((byte, rest)) = bytes.split_first() else { break };
            if let Some(place) = self.head.get_mut(self.have) {
                *place = *byte;
            }
            (self.have, bytes) = (self.have + 1, rest);
            if self.have == self.head.len() {
                let [_, _, _, high, low] = self.head;
                (self.skip, self.have) = (u16::from_be_bytes([high, low]).into(), 0);
                self.begun = self.skip.saturating_sub(AROUND);
                self.seen += 1;
            }
        }
    }

    fn end_record(&mut self) {
        self.content += std::mem::take(&mut self.begun);
        self.whole += 1;
    }

    /// The handshake is over, whose records are charged as such; so many bytes behind it wait to be read.
    pub(super) fn begin(&mut self, waiting: usize) {
        (self.seen, self.whole, self.content) = (0, 0, waiting);
    }

    /// Takes what came, of which so many bytes were read since the last call, and so many wait to be.
    fn take(&mut self, read: usize, waiting: usize) -> RecordsSeen {
        let unread = self.content.saturating_sub(read);
        let nothing = unread.saturating_sub(waiting);
        self.content = unread - nothing;
        let (all, whole) = (std::mem::take(&mut self.seen), std::mem::take(&mut self.whole));
        RecordsSeen { all, updates: whole.min(nothing.div_ceil(KEY_UPDATE)) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Records<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        self.see(buf.filled().get(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Records<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
