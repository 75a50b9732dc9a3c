//! Datagrams: small servers that answer each with their name, and clients that ask once.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::client::Answer;
use crate::objects::service;

/// A server that answers each datagram with its name.
pub struct Echo {
    /// Where it listens, on loopback.
    pub port: u16,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    /// Starts one on a free port; it ends when dropped.
    ///
    /// # Errors
    /// If no port is free.
    pub fn start(name: &'static str) -> anyhow::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(Duration::from_millis(50)))?;
        let port = socket.local_addr()?.port();
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let thread = thread::spawn(move || {
            let mut room = [0; 64];
            while !ends.load(Ordering::Acquire) {
                if let Ok((_, from)) = socket.recv_from(&mut room) {
                    let _ = socket.send_to(name.as_bytes(), from);
                }
            }
        });
        Ok(Self { port, over, thread: Some(thread) })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Long enough for any answer on a loaded machine; only what is dropped waits for so long.
pub const ANSWERED: Duration = Duration::from_secs(5);

/// The answers to one datagram each of so many clients that have sent none before; none where none comes. All wait at the same time.
///
/// # Errors
/// If there is no room for so many sockets.
pub fn ask_all(port: u16, count: usize) -> anyhow::Result<Vec<Option<String>>> {
    let client = |_| -> std::io::Result<UdpSocket> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(("127.0.0.1", port))?;
        // where nobody listens, or not any more, the answer says so
        let _unheard = socket.send(b"who");
        Ok(socket)
    };
    let clients = (0..count).map(client).collect::<std::io::Result<Vec<UdpSocket>>>()?;
    let end = Instant::now() + ANSWERED;
    let answer = |socket: &UdpSocket| {
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(left)).ok()?;
        let mut room = [0; 64];
        let length = socket.recv(&mut room).ok()?;
        Some(String::from_utf8_lossy(room.get(..length)?).into_owned())
    };
    Ok(clients.iter().map(answer).collect())
}

/// The answer to one; none where none comes.
pub fn ask(port: u16) -> Option<String> {
    ask_all(port, 1).ok()?.pop().flatten()
}

/// One more client, which waits a little first: a listener has room for as many as ask without pause in some seconds.
///
/// # Errors
/// If no answer comes.
pub fn paced(port: u16) -> anyhow::Result<Answer> {
    thread::sleep(Duration::from_millis(5));
    let body = ask(port).context("no answer")?;
    Ok(Answer { status: 200, body })
}

/// A Service of datagrams.
pub fn datagrams(name: &str, port: u16) -> String {
    let text = service(name, port).replace("    port: 80\n", "    port: 80\n    protocol: UDP\n");
    text.replace("- name: http\n  port", "- name: http\n  protocol: UDP\n  port")
}
