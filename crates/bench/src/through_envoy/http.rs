//! Requests: over one connection that stays open to a loopback port, and to Envoy's admin socket.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

/// How long one request may take before it counts as failed.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What came back.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// The HTTP status.
    pub(super) status: u16,
    /// The header `x-value`.
    pub(super) value: Option<String>,
    /// The body.
    pub(super) body: String,
}

/// A connection for one request after the other.
pub(super) struct Connection {
    stream: BufReader<TcpStream>,
    port: u16,
    line: String,
}

impl Connection {
    /// Connects to a port of loopback.
    pub(super) fn open(port: u16) -> anyhow::Result<Self> {
        Ok(Self { stream: BufReader::new(connect(port)?), port, line: String::new() })
    }

    /// One GET. If the other side says that it closes, the next request has a connection of its own.
    pub(super) fn get(&mut self, host: &str, path: &str) -> anyhow::Result<Answer> {
        self.stream.get_mut().write_all(format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes())?;
        let status = self.next_line()?.split(' ').nth(1).and_then(|word| word.parse().ok()).context("no status")?;
        let (mut answer, mut length, mut closes) = (Answer { status, ..Answer::default() }, 0, false);
        loop {
            let line = self.next_line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            let value = value.trim();
            match &*name.to_ascii_lowercase() {
                "content-length" => length = value.parse()?,
                "connection" => closes = value.eq_ignore_ascii_case("close"),
                "x-value" => answer.value = Some(value.to_owned()),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        answer.body = String::from_utf8_lossy(&body).into_owned();
        if closes {
            self.stream = BufReader::new(connect(self.port)?);
        }
        Ok(answer)
    }

    fn next_line(&mut self) -> anyhow::Result<&str> {
        self.line.clear();
        let count = self.stream.read_line(&mut self.line)?;
        anyhow::ensure!(count > 0, "the connection was closed");
        Ok(self.line.trim_end())
    }
}

fn connect(port: u16) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// The text that Envoy's admin interface gives: head and body.
pub(super) fn admin(socket: &Path, path: &str) -> anyhow::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: admin\r\nconnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}
