//! Between an Envoy and the server: bytes pass, until what goes with clusters is held back. So a stream can be broken while they warm.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::stage::socket;

/// The type of an HTTP/2 frame that holds a part of a body (RFC 9113 section 6.1).
const DATA: u8 = 0;

/// See the module; it ends with this value.
pub(super) struct Relay {
    shared: Arc<Shared>,
    listener: Arc<UnixListener>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    at: PathBuf,
    server: PathBuf,
    /// Of which cluster the endpoints are held back; none if all passes.
    holding: Mutex<Option<String>>,
    /// Both ends of each connection.
    open: Mutex<Vec<UnixStream>>,
    /// What was asked for first over the last connection: `cluster`, `endpoint`.
    first: Mutex<String>,
}

impl Relay {
    /// Starts one before the server of this folder.
    pub(super) fn start(folder: &Path) -> Self {
        let at = folder.join("relay.sock");
        let listener = Arc::new(UnixListener::bind(&at).unwrap());
        let shared = Arc::new(Shared { at, server: socket(folder), ..Shared::default() });
        let (accepting, listening) = (Arc::clone(&shared), Arc::clone(&listener));
        let thread = std::thread::spawn(move || {
            while let Ok((client, _)) = listening.accept() {
                // while the server is away Envoy is told so
                if let Ok(server) = UnixStream::connect(&accepting.server) {
                    accepting.connect(&client, &server);
                }
            }
        });
        Self { shared, listener, thread: Some(thread) }
    }

    /// Where Envoy finds it.
    pub(super) fn socket(&self) -> PathBuf {
        self.shared.at.clone()
    }

    /// From the response with the endpoints of this cluster on nothing more of what the server says passes on the connections of now.
    pub(super) fn hold_endpoints_of(&self, cluster: &str) {
        *self.shared.holding.lock().unwrap() = Some(cluster.to_owned());
    }

    /// All passes again, on new connections: those of now break.
    pub(super) fn break_off(&self) {
        self.shared.first.lock().unwrap().clear();
        *self.shared.holding.lock().unwrap() = None;
        for stream in self.shared.open.lock().unwrap().drain(..) {
            // it may be broken already
            let _gone = stream.shutdown(Shutdown::Both);
        }
    }

    /// What was asked for first since the last break.
    pub(super) fn first(&self) -> String {
        self.shared.first.lock().unwrap().clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // nobody is accepted any more
        let _woken = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
        self.break_off();
    }
}

impl Shared {
    fn connect(self: &Arc<Self>, client: &UnixStream, server: &UnixStream) {
        let copy = |stream: &UnixStream| stream.try_clone().unwrap();
        self.open.lock().unwrap().extend([copy(client), copy(server)]);
        let (shared, [from, to]) = (Arc::clone(self), [copy(client), copy(server)]);
        std::thread::spawn(move || {
            let _broken = shared.up(&from, &to);
            let _gone = to.shutdown(Shutdown::Both);
        });
        let (shared, [from, to]) = (Arc::clone(self), [copy(server), copy(client)]);
        std::thread::spawn(move || {
            let _broken = shared.down(&from, &to);
            let _gone = to.shutdown(Shutdown::Both);
        });
    }

    /// What Envoy says; notes the first kind of resources that it names.
    fn up(&self, mut from: &UnixStream, mut to: &UnixStream) -> std::io::Result<()> {
        let (mut bytes, mut said, mut named) = ([0; 16 << 10], Vec::new(), false);
        loop {
            let read = match from.read(&mut bytes)? {
                0 => return Ok(()),
                read => &bytes[..read],
            };
            if !named {
                said.extend_from_slice(read);
                let text = String::from_utf8_lossy(&said);
                let kind = text.split("type.googleapis.com/envoy.config.").nth(1).and_then(|rest| rest.split_once('.'));
                if let Some((kind, _)) = kind {
                    kind.clone_into(&mut self.first.lock().unwrap());
                    named = true;
                }
            }
            to.write_all(read)?;
        }
    }

    /// What the server says, frame by frame: 24 bits of length, type, flags, stream (RFC 9113 section 4.1).
    fn down(&self, mut from: &UnixStream, mut to: &UnixStream) -> std::io::Result<()> {
        let mut held = false;
        loop {
            let mut head = [0; 9];
            from.read_exact(&mut head)?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut frame = vec![0; length as usize];
            from.read_exact(&mut frame)?;
            let holding = self.holding.lock().unwrap().clone().filter(|_| head[3] == DATA && !held);
            if let Some(cluster) = holding {
                let before = endpoints_in(&frame, &cluster);
                held = before < frame.len();
                frame.truncate(before);
                head[..3].copy_from_slice(&u32::try_from(before).unwrap().to_be_bytes()[1..]);
                to.write_all(&head)?;
                to.write_all(&frame)?;
            } else if !held {
                to.write_all(&head)?;
                to.write_all(&frame)?;
            }
        }
    }
}

/// Where the first response with endpoints of this cluster begins; the end if there is none. Small responses are in one frame.
fn endpoints_in(frame: &[u8], cluster: &str) -> usize {
    let mut at = 0;
    while let Some([_, length @ ..]) = frame.get(at..).and_then(<[u8]>::first_chunk::<5>) {
        let end = at + 5 + u32::from_be_bytes(*length) as usize;
        let message = String::from_utf8_lossy(&frame[at..end.min(frame.len())]);
        if message.contains("ClusterLoadAssignment") && message.contains(cluster) {
            return at;
        }
        at = end;
    }
    frame.len()
}
