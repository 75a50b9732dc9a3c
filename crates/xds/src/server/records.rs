//! TLS records on their way in. Each costs the server a decryption, however little it brings, and one that brings nothing is not seen above TLS:
//! so they are counted below it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

#[cfg(test)]
mod tests;

/// A byte stream that may come in TLS records.
pub(super) trait InRecords {
    /// Takes the number of records that have come since the last call.
    fn take_records(&mut self) -> usize {
        0
    }
}

impl InRecords for UnixStream {}

impl InRecords for TcpStream {}

impl<S> InRecords for TlsStream<Records<S>> {
    fn take_records(&mut self) -> usize {
        std::mem::take(&mut self.get_mut().0.seen)
    }
}

impl<T: InRecords + ?Sized> InRecords for Box<T> {
    fn take_records(&mut self) -> usize {
        (**self).take_records()
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
    seen: usize,
}

impl<S> Records<S> {
    pub(super) fn new(io: S) -> Self {
        Self { io, skip: 0, head: [0; 5], have: 0, seen: 0 }
    }

    /// Counts the records that begin in these bytes.
    fn see(&mut self, mut bytes: &[u8]) {
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
                let [_, _, _, high, low] = self.head;
                (self.skip, self.have) = (u16::from_be_bytes([high, low]).into(), 0);
                self.seen += 1;
            }
        }
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
