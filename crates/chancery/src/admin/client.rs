//! The other end of the admin socket: what `chancery status` asks a running process.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use infra::host::Layout;

/// Answers larger than this are refused: 64 MiB holds the statuses of 50,000 routes (about 1 kB each) with room.
const MAX_ANSWER: u64 = 64 << 20;

/// How long the process may say nothing: somewhat longer than it waits for a change ([`super::MAX_WAIT`]).
const MAX_SILENCE: Duration = Duration::from_secs(60);

/// Asks the process that owns a state folder.
pub(crate) struct Client {
    socket: PathBuf,
}

impl Client {
    /// For the process of this state folder.
    pub(crate) fn new(state: &Path) -> Self {
        Self { socket: Layout::own_socket(state) }
    }

    /// The body of the answer to a GET; an error if nobody answers or the answer is no success.
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        let mut stream =
            UnixStream::connect(&self.socket).with_context(|| format!("connecting to {}", self.socket.display()))?;
        stream.set_read_timeout(Some(MAX_SILENCE))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: chancery\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.take(MAX_ANSWER).read_to_end(&mut answer).context("it lives and does not answer")?;
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").context("it ended before it answered")?;
        let head = String::from_utf8_lossy(answer.get(..end).unwrap_or_default()).into_owned();
        let body = answer.split_off(end + 4);
        let status = head.split_whitespace().nth(1).unwrap_or_default();
        anyhow::ensure!(status == "200", "{path}: {status} {}", String::from_utf8_lossy(&body).trim());
        Ok(body)
    }
}
