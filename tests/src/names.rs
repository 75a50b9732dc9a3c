//! A server of names for proxies that tests start: every name is this machine, after a while or never.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// It answers on a port of loopback, until it is dropped.
pub struct Names {
    /// Where it listens.
    pub port: u16,
    delay: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    asked: Arc<Mutex<BTreeSet<String>>>,
    thread: Option<JoinHandle<()>>,
}

/// In place of a delay: nobody is answered.
const NEVER: u64 = u64::MAX;

/// Names below this are never answered, as those of a domain whose server is kept silent.
pub const SILENT: &str = "silent.example";

impl Names {
    /// Starts one that answers after this time.
    ///
    /// # Errors
    /// If no port is free.
    pub fn start(delay: Duration) -> anyhow::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(Duration::from_millis(50)))?;
        let port = socket.local_addr()?.port();
        let millis = u64::try_from(delay.as_millis())?;
        let (delay, over) = (Arc::new(AtomicU64::new(millis)), Arc::new(AtomicBool::new(false)));
        let (waits, ends) = (Arc::clone(&delay), Arc::clone(&over));
        let asked = Arc::default();
        let noted = Arc::clone(&asked);
        let note = move |name| {
            lock(&noted).insert(name);
        };
        let thread = thread::spawn(move || serve(&socket, &waits, &ends, note));
        Ok(Self { port, delay, over, asked, thread: Some(thread) })
    }

    /// From now on it answers nobody.
    pub fn fall_silent(&self) {
        self.delay.store(NEVER, Ordering::Release);
    }

    /// Whether anybody has asked for this name.
    #[must_use]
    pub fn was_asked(&self, name: &str) -> bool {
        lock(&self.asked).contains(name)
    }
}

fn lock(asked: &Mutex<BTreeSet<String>>) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Names {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.thread.take().map(JoinHandle::join);
    }
}

/// One question after the other.
fn serve(socket: &UdpSocket, delay: &AtomicU64, over: &AtomicBool, note: impl Fn(String)) {
    let mut room = [0; 512];
    while !over.load(Ordering::Acquire) {
        let Ok((length, from)) = socket.recv_from(&mut room) else { continue };
        let Some(answer) = room.get(..length).and_then(answer) else { continue };
        let name = name(&answer);
        let is_silent = name.ends_with(SILENT);
        note(name);
        match delay.load(Ordering::Acquire) {
            _ if is_silent => {}
            NEVER => {}
            millis => {
                thread::sleep(Duration::from_millis(millis));
                let _ = socket.send_to(&answer, from);
            }
        }
    }
}

/// The name that a question or its answer is about: labels, each behind its length (RFC 1035, 3.1).
fn name(message: &[u8]) -> String {
    let mut labels = Vec::new();
    let mut rest = message.get(12..).unwrap_or_default();
    while let Some((length, label)) = rest.split_first().filter(|(length, _)| **length > 0) {
        let length = usize::from(*length).min(label.len());
        labels.push(String::from_utf8_lossy(label.get(..length).unwrap_or_default()).into_owned());
        rest = label.get(length..).unwrap_or_default();
    }
    labels.join(".")
}

/// The answer to a question (RFC 1035, section 4): 127.0.0.1 for an `A`, and nothing of any other type.
fn answer(question: &[u8]) -> Option<Vec<u8>> {
    const HEADER: usize = 12;
    let name = question.get(HEADER..)?.iter().position(|byte| *byte == 0)?;
    let end = HEADER + name + 5;
    let is_address = question.get(end - 4..end - 2)? == [0, 1];
    let mut answer = question.get(..end)?.to_vec();
    // a response, recursion desired and available; one question, so many answers, and nothing else
    let header = [0x81, 0x80, 0, 1, 0, u8::from(is_address), 0, 0, 0, 0];
    answer.get_mut(2..HEADER)?.copy_from_slice(&header);
    if is_address {
        // the name of the question, `A`, `IN`, 60 s, four bytes
        answer.extend([0xC0, 0x0C, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
    }
    Some(answer)
}
