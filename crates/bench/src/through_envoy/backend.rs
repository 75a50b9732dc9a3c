//! One server behind all services: each endpoint is an address of loopback of its own, and the answer names the service that
//! the address belongs to.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::dataset;

/// A server on a free port of all addresses of loopback; it ends when dropped.
pub(super) struct Backend {
    /// Where it listens.
    pub(super) port: u16,
    ended: Arc<AtomicBool>,
}

impl Backend {
    /// Starts it.
    pub(super) fn start() -> anyhow::Result<Self> {
        // All of 127.0.0.0/8 can only be had together with the other addresses; who is not loopback is not answered.
        let listener = TcpListener::bind(("0.0.0.0", 0))?;
        let port = listener.local_addr()?.port();
        let ended = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&ended);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::Acquire) {
                    break;
                }
                std::thread::spawn(move || drop(serve(stream)));
            }
        });
        Ok(Self { port, ended })
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // Wakes the thread that waits for a connection.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Answers requests on one connection until the other side closes it.
fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let IpAddr::V4(address) = stream.local_addr()?.ip() else { return Ok(()) };
    if !stream.peer_addr()?.ip().is_loopback() {
        return Ok(());
    }
    stream.set_nodelay(true)?;
    let name = format!("service-{}", dataset::service_at(address.octets()));
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{name}", name.len());
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if line.trim().is_empty() {
            stream.write_all(answer.as_bytes())?;
        }
    }
}
