//! [`Lines`]: from parts of a watch to its lines.

use bytes::{Bytes, BytesMut};

/// The longest line. etcd takes objects of 1.5 MB by default; as JSON with `managedFields` one is at most some times that.
const MAX_LINE: usize = 32 << 20;

/// What has come of the next line.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    rest: BytesMut,
}

impl Lines {
    /// Takes the next part; gives all complete lines in one piece. `None`: a line is too long.
    pub(crate) fn push(&mut self, part: &[u8]) -> Option<Bytes> {
        let end = memchr::memrchr(b'\n', part).map(|at| self.rest.len() + at + 1);
        self.rest.extend_from_slice(part);
        let complete = self.rest.split_to(end.unwrap_or(0)).freeze();
        (self.rest.len() <= MAX_LINE).then_some(complete)
    }
}

/// The lines of a piece, without empty ones.
pub(crate) fn each(piece: &Bytes) -> impl Iterator<Item = Bytes> {
    let mut start = 0;
    let ends = memchr::memchr_iter(b'\n', piece).collect::<Vec<_>>().into_iter();
    ends.map(move |end| {
        let line = piece.slice(start..end);
        start = end + 1;
        line
    })
    .filter(|line| !line.iter().all(u8::is_ascii_whitespace))
}
