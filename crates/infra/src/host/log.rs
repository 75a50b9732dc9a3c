//! Envoy's output, carried from its files into our log and to our standard output. Files, not pipes: an Envoy whose Chancery was killed must neither
//! block on a full pipe nor die of a broken one. A file that was read to its end is emptied when it has grown.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ir::FleetName;
use rustix::fs::inotify;
use tokio::io::unix::AsyncFd;
use xxhash_rust::xxh3::xxh3_64;

use super::ProxyPaths;
use super::readable::readable;

/// A file that has grown to this and was read is emptied: 100 bytes per line make 40,000 lines.
const EMPTY_AT: u64 = 4 << 20;

/// What is not read yet beyond this is skipped, and the log says so: a flood shall not hold back what is new.
const MAX_BEHIND: u64 = 16 << 20;

/// Bytes of a line of the log that are carried; the rest of it is cut.
const MAX_LINE: usize = 4096;

/// The same of a line of an access log, which somebody parses: twice what Envoy takes of a request's headers (60 KiB).
const MAX_OUTPUT_LINE: usize = 128 << 10;

/// The target of the lines that proxies write to standard output: they are no log lines of ours and go on as they are.
pub const OUTPUT_TARGET: &str = "access";

/// Bytes read at once. The files are in the page cache: a read takes microseconds, less than handing it to a thread.
const CHUNK: usize = 64 << 10;

/// How often the files are looked at where they are not there, or the system has no inotify instance left for us (128 per user by
/// default).
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Which of the two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Envoy's own log.
    Log,
    /// What was configured to go to standard output: access logs.
    Output,
}

/// Carries both files of a proxy into our log. Never ends; drop it to stop.
pub(crate) async fn carry(fleet: &FleetName, paths: &ProxyPaths) {
    let mut repeats = Repeats::default();
    follow(paths, |kind, line| carry_line(fleet, kind, line, &mut repeats)).await;
}

/// Hands on each line that comes to one of the files.
async fn follow(paths: &ProxyPaths, mut carry: impl FnMut(Kind, &str)) {
    let mut tails = [Tail::new(&paths.log, Kind::Log), Tail::new(&paths.output, Kind::Output)];
    let files = [&*paths.log, &*paths.output];
    let mut wake = Wake::new(&files);
    loop {
        let mut more = false;
        for tail in &mut tails {
            more |= tail.read(&mut carry);
        }
        if more {
            tokio::task::yield_now().await;
            continue;
        }
        if tails.iter().any(Tail::is_gone) {
            // One at a time: the next round comes to the other.
            let reopened = tails.iter_mut().any(Tail::reopen);
            wake = Wake::new(&files);
            // What was written before this watch wakes nobody.
            if reopened {
                continue;
            }
        }
        wake.wait().await;
    }
}

/// The last grave line of Envoy's log: why it ended.
pub(crate) fn last_words(log: &Path) -> Option<String> {
    let mut file = File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(CHUNK as u64))).ok()?;
    let mut text = Vec::new();
    file.take(CHUNK as u64).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    // Which functions it was in says nothing to people.
    let grave =
        |line: &&str| matches!(parse(line), Some(("error" | "critical", component, _)) if component != "backtrace");
    // Before the log's format is known Envoy writes plain lines: a wrong argument, a missing library.
    let plain = |line: &&str| !line.trim().is_empty() && parse(line).is_none();
    let line = text.lines().rev().find(grave).or_else(|| text.lines().rev().find(plain))?;
    let said = parse(line).map_or(line, |(_, _, said)| said);
    Some(redact(cut(said.trim())).to_owned())
}

/// Reads on in one file.
struct Tail {
    path: PathBuf,
    kind: Kind,
    file: Option<File>,
    offset: u64,
    /// A line whose end is not written yet, as much of it as is carried.
    partial: Vec<u8>,
}

impl Tail {
    /// Begins at the end: what is there was carried by an earlier process, or written while there was none.
    fn new(path: &Path, kind: Kind) -> Self {
        let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path).ok();
        let offset = file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |found| found.len());
        let mut tail = Self { path: path.to_owned(), kind, file, offset, partial: Vec::new() };
        tail.empty(offset);
        tail
    }

    /// Carries at most one chunk; true if there may be more.
    fn read(&mut self, carry: &mut dyn FnMut(Kind, &str)) -> bool {
        let Some(length) = self.file.as_ref().and_then(|file| file.metadata().ok()).map(|found| found.len()) else {
            return false;
        };
        if length < self.offset {
            self.offset = 0;
        }
        if length - self.offset > MAX_BEHIND {
            tracing::warn!(path = %self.path.display(), bytes = length - self.offset, "envoy's output is too fast, skipped");
            self.offset = length;
            self.partial.clear();
        }
        let mut chunk = vec![0; CHUNK];
        let Some(read) = self.read_at(&mut chunk) else { return false };
        self.offset += read as u64;
        for piece in chunk.get(..read).unwrap_or_default().split_inclusive(|byte| *byte == b'\n') {
            let (line, whole) = piece.strip_suffix(b"\n").map_or((piece, false), |line| (line, true));
            let most = if self.kind == Kind::Output { MAX_OUTPUT_LINE } else { MAX_LINE };
            let room = most.saturating_sub(self.partial.len()).min(line.len());
            self.partial.extend_from_slice(line.get(..room).unwrap_or_default());
            if whole {
                carry(self.kind, &String::from_utf8_lossy(&self.partial));
                self.partial.clear();
            }
        }
        if read == CHUNK {
            return true;
        }
        self.empty(length);
        false
    }

    /// The file was removed, with its folder perhaps: the next Envoy writes to another one.
    fn is_gone(&self) -> bool {
        self.file.as_ref().and_then(|file| file.metadata().ok()).is_none_or(|found| found.nlink() == 0)
    }

    /// Goes over to the file that is there now, if any, where this one is gone; whether it did.
    fn reopen(&mut self) -> bool {
        if self.is_gone()
            && let Ok(file) = OpenOptions::new().read(true).append(true).open(&self.path)
        {
            (self.file, self.offset) = (Some(file), 0);
            self.partial.clear();
            return true;
        }
        false
    }

    fn read_at(&mut self, chunk: &mut [u8]) -> Option<usize> {
        let file = self.file.as_mut()?;
        file.seek(SeekFrom::Start(self.offset)).ok()?;
        file.read(chunk).ok()
    }

    /// Envoy appends, so its next line begins the emptied file. A line that it writes between our reading and this is lost.
    fn empty(&mut self, length: u64) {
        if length >= EMPTY_AT && self.file.as_ref().is_some_and(|file| file.set_len(0).is_ok()) {
            self.offset = 0;
        }
    }
}

/// Wakes when one of the files was written to or removed.
enum Wake {
    Told(AsyncFd<OwnedFd>),
    Looking,
}

impl Wake {
    fn new(files: &[&Path]) -> Self {
        let told = || -> std::io::Result<AsyncFd<OwnedFd>> {
            let notices = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
            for file in files {
                // Attributes: a removed file has one link less.
                let written_or_removed = inotify::WatchFlags::MODIFY | inotify::WatchFlags::ATTRIB;
                inotify::add_watch(&notices, *file, written_or_removed)?;
            }
            readable(notices)
        };
        told().map_or(Self::Looking, Self::Told)
    }

    async fn wait(&mut self) {
        let told = match self {
            Self::Told(notices) => notices.readable().await.map(|mut ready| {
                let mut buffer = [MaybeUninit::uninit(); 4096];
                let mut reader = inotify::Reader::new(notices.get_ref(), &mut buffer);
                while reader.next().is_ok() {}
                ready.clear_ready();
            }),
            Self::Looking => Err(std::io::ErrorKind::Unsupported.into()),
        };
        if told.is_err() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

fn carry_line(fleet: &FleetName, kind: Kind, line: &str, repeats: &mut Repeats) {
    let gateway = fleet.as_str();
    if kind == Kind::Output {
        tracing::info!(target: OUTPUT_TARGET, "{line}");
        return;
    }
    let (level, component, said) = parse(line).unwrap_or(("info", "", line));
    let said = redact(said);
    let is_bad = matches!(level, "warning" | "warn" | "error" | "critical");
    if is_bad && !repeats.is_news(said, Instant::now()) {
        return;
    }
    match level {
        "trace" => tracing::trace!(target: "proxy", gateway, component, "{said}"),
        "debug" => tracing::debug!(target: "proxy", gateway, component, "{said}"),
        // that is our own doing
        "warning" if said == "caught ENVOY_SIGTERM" => tracing::debug!(target: "proxy", gateway, component, "{said}"),
        "warning" | "warn" => tracing::warn!(target: "proxy", gateway, component, "{said}"),
        "error" | "critical" => tracing::error!(target: "proxy", gateway, component, "{said}"),
        _ => tracing::info!(target: "proxy", gateway, component, "{said}"),
    }
}

/// What Envoy warned of lately. It repeats, word for word, what it says of a listener each time that this is tried again.
#[derive(Default)]
struct Repeats(BTreeMap<u64, Instant>);

impl Repeats {
    /// Within this time the same is not said again.
    const AGAIN: Duration = Duration::from_secs(60);

    /// Lines that are remembered; when there are more, all are forgotten.
    const MOST: usize = 256;

    fn is_news(&mut self, said: &str, now: Instant) -> bool {
        let hash = xxh3_64(said.as_bytes());
        if self.0.get(&hash).is_some_and(|before| now.duration_since(*before) < Self::AGAIN) {
            return false;
        }
        if self.0.len() >= Self::MOST {
            self.0.clear();
        }
        self.0.insert(hash, now);
        true
    }
}

/// `[level][component] text`.
fn parse(line: &str) -> Option<(&str, &str, &str)> {
    let (level, rest) = line.strip_prefix('[')?.split_once("][")?;
    let (component, said) = rest.split_once("] ")?;
    let known = ["trace", "debug", "info", "warning", "warn", "error", "critical"].contains(&level);
    known.then_some((level, component, said))
}

/// Parts of lines that may hold a key or a token, in lower case: Envoy repeats refused configuration word for word, and with the level `debug` of a component it
/// writes down the headers of requests and of its own calls, of which each has the proxy's token.
const MARKS: [&str; 9] = [
    "private key",
    "private_key",
    "tls.v3.secret",
    "inline_bytes",
    "inline_string",
    "password",
    "authorization",
    "bearer ",
    "cookie",
];

/// Returns what is carried of a line: nothing of one that may hold a key or a token.
fn redact(said: &str) -> &str {
    let lower = said.to_ascii_lowercase();
    if MARKS.iter().any(|mark| lower.contains(mark)) { "(a line that may hold a secret is not shown)" } else { said }
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_LINE)).unwrap_or(text)
}

#[cfg(test)]
mod tests;
