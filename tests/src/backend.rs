//! Small HTTP servers that answer every request with their name.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A server on a free loopback port; it ends when dropped.
pub struct Backend {
    /// What it answers.
    pub name: String,
    /// Where it listens.
    pub port: u16,
    ended: Arc<AtomicBool>,
}

impl Backend {
    /// Starts one.
    ///
    /// # Errors
    /// If no port is free.
    pub fn start(name: &str) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let ended = Arc::new(AtomicBool::new(false));
        let (over, answer) = (Arc::clone(&ended), name.to_owned());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::Acquire) {
                    break;
                }
                let answer = answer.clone();
                std::thread::spawn(move || drop(serve(stream, &answer)));
            }
        });
        Ok(Self { name: name.to_owned(), port, ended })
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // Wakes the thread that waits for a connection.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Answers requests on one connection until the other side closes it or asks for its end.
fn serve(stream: TcpStream, name: &str) -> std::io::Result<()> {
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
        write!(writer, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{name}", name.len())?;
        if is_last {
            return Ok(());
        }
    }
}
