//! Small HTTP servers that answer every request with their name, or fail in it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A server on a free loopback port; it ends when dropped.
pub struct Backend {
    /// What it answers.
    pub name: String,
    /// Where it listens.
    pub port: u16,
    address: SocketAddr,
    ended: Arc<AtomicBool>,
}

impl Backend {
    /// Starts one.
    ///
    /// # Errors
    /// If no port is free.
    pub fn start(name: &str) -> anyhow::Result<Self> {
        Self::start_at(name, (Ipv4Addr::LOCALHOST, 0).into(), 200)
    }

    /// Starts one that answers with this status.
    ///
    /// # Errors
    /// If no port is free.
    pub fn answering(name: &str, status: u16) -> anyhow::Result<Self> {
        Self::start_at(name, (Ipv4Addr::LOCALHOST, 0).into(), status)
    }

    /// Starts one at a loopback address; port 0 is any that is free.
    ///
    /// # Errors
    /// If the port is not free.
    pub fn start_at(name: &str, address: SocketAddr, status: u16) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let ended = Arc::new(AtomicBool::new(false));
        let (over, answer) = (Arc::clone(&ended), name.to_owned());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::Acquire) {
                    break;
                }
                let answer = answer.clone();
                std::thread::spawn(move || drop(serve(stream, status, &answer)));
            }
        });
        Ok(Self { name: name.to_owned(), port: address.port(), address, ended })
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // Wakes the thread that waits for a connection.
        let _ = TcpStream::connect(self.address);
    }
}

/// Answers requests on one connection until the other side closes it or asks for its end.
fn serve(stream: TcpStream, status: u16, name: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let mut line = String::new();
        let mut first = true;
        let mut is_last = false;
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim().is_empty() && !first {
                break;
            }
            first = false;
            is_last |= line.trim().eq_ignore_ascii_case("connection: close");
        }
        // In one piece: the second of two would wait until the first is acknowledged.
        let answer = format!("HTTP/1.1 {status} .\r\ncontent-length: {}\r\n\r\n{name}", name.len());
        writer.write_all(answer.as_bytes())?;
        if is_last {
            return Ok(());
        }
    }
}
