//! Requests through Envoy over one connection, one after the other.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::objects::At;

/// What no answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a change may take: as long as Envoy needs for all that were made before.
const LONGEST: Duration = Duration::from_secs(300);

/// Between two requests: little against what is measured.
const PAUSE: Duration = Duration::from_millis(1);

/// A connection to a Gateway.
pub(super) struct Probe(BufReader<TcpStream>);

/// An answer: its status, and which version of the route gave it.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) version: String,
}

impl Probe {
    pub(super) fn connect(address: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect((address, 80)).context("connecting to the Gateway")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    pub(super) fn ask(&mut self, At { host, path }: &At) -> anyhow::Result<Answer> {
        write!(self.0.get_mut(), "GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n")?;
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            ensure!(self.0.read_line(&mut head)? > 0, "the Gateway closed the connection");
        }
        let head = head.to_ascii_lowercase();
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let length = field("content-length:").map_or(Ok(0), str::parse)?;
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        let status = head.split(' ').nth(1).context("an answer without a status")?.parse()?;
        Ok(Answer { status, version: field("x-version:").unwrap_or_default().to_owned() })
    }

    /// The time until this version answers; each answer on the way is looked at.
    pub(super) fn until(&mut self, at: &At, version: &str, look: impl Fn(&Answer)) -> anyhow::Result<Duration> {
        let began = Instant::now();
        loop {
            let answer = self.ask(at)?;
            look(&answer);
            if answer.version == version {
                return Ok(began.elapsed());
            }
            ensure!(began.elapsed() < LONGEST, "no new answer at {}{} after {} s", at.host, at.path, LONGEST.as_secs());
            std::thread::sleep(PAUSE);
        }
    }
}
