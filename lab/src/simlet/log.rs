//! What containers write: a file each, a line for each of theirs with its time, as kubelet keeps it. `query` is what is asked for.

pub(crate) mod query;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::sync::watch;

use super::now;

/// A file that is longer becomes the old one, of which there is one: a container has twice this at most.
const MAX: u64 = 32 << 20;

/// A longer line is kept in parts, as runtimes do it.
const MAX_LINE: usize = 16 << 10;

/// All logs, by namespace, pod and container; of each container the last two.
pub(crate) struct Logs {
    folder: PathBuf,
    of: Mutex<BTreeMap<[String; 3], Vec<Log>>>,
}

/// Whose log it is.
pub(crate) struct Whose<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) pod: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) container: &'a str,
}

/// A log that can be read.
#[derive(Clone)]
pub(crate) struct Log {
    uid: String,
    path: PathBuf,
    progress: watch::Receiver<Progress>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Progress {
    written: u64,
    /// How many files came before this one.
    files: u32,
    ended: bool,
}

impl Logs {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, of: Mutex::default() }
    }

    /// A new log for the next run of a container.
    pub(crate) fn open(&self, whose: &Whose<'_>, attempt: i32) -> std::io::Result<Arc<Writer>> {
        let folder = self.folder.join(format!("{}_{}_{}", whose.namespace, whose.pod, whose.uid)).join(whose.container);
        fs::create_dir_all(&folder)?;
        let path = folder.join(format!("{attempt}.log"));
        let file = File::options().create(true).append(true).open(&path)?;
        let (sender, progress) = watch::channel(Progress::default());
        let key = [whose.namespace, whose.pod, whose.container].map(str::to_owned);
        let mut all = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let logs = all.entry(key).or_default();
        logs.retain(|log| log.uid == whose.uid);
        if logs.len() > 1 {
            let oldest = logs.remove(0);
            let _gone = fs::remove_file(old(&oldest.path));
            fs::remove_file(oldest.path)?;
        }
        logs.push(Log { uid: whose.uid.to_owned(), path: path.clone(), progress });
        Ok(Arc::new(Writer { state: Mutex::new((file, sender)), path }))
    }

    /// The log of the run that is now or was last, or of the one before.
    pub(crate) fn find(&self, key: &[String; 3], previous: bool) -> Option<Log> {
        let all = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let logs = all.get(key)?;
        logs.get(logs.len().checked_sub(1 + usize::from(previous))?).cloned()
    }

    /// Forgets a pod's logs: its object is gone.
    pub(crate) fn remove(&self, namespace: &str, pod: &str, uid: &str) {
        let mut all = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|[of, name, _], logs| !(of == namespace && name == pod && logs.iter().all(|log| log.uid == uid)));
        let _never_wrote = fs::remove_dir_all(self.folder.join(format!("{namespace}_{pod}_{uid}")));
    }
}

fn old(path: &std::path::Path) -> PathBuf {
    path.with_extension("old")
}

/// A log that is being written; its end is when nobody has it any more.
pub(crate) struct Writer {
    state: Mutex<(File, watch::Sender<Progress>)>,
    path: PathBuf,
}

impl Writer {
    /// Writes what comes from a stream of the container, until its end.
    pub(crate) async fn copy(self: Arc<Self>, stream: &'static str, reader: impl AsyncRead + Unpin) {
        let mut reader = BufReader::with_capacity(MAX_LINE, reader);
        loop {
            let Ok(buffer) = reader.fill_buf().await else { return };
            if buffer.is_empty() {
                return;
            }
            // a line that is not whole is waited for if there is room
            let mut line = Vec::with_capacity(128);
            let whole = take_line(&mut reader, &mut line).await;
            let tag = if whole { "F" } else { "P" };
            if let Err(error) = self.line(stream, tag, &line) {
                tracing::warn!("{}: {error}", self.path.display());
            }
        }
    }

    fn line(&self, stream: &str, tag: &str, text: &[u8]) -> std::io::Result<()> {
        let mut line = format!("{} {stream} {tag} ", query::stamp(now())).into_bytes();
        line.extend(text);
        line.push(b'\n');
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, progress) = &mut *state;
        if progress.borrow().written > MAX {
            fs::rename(&self.path, old(&self.path))?;
            *file = File::options().create(true).append(true).open(&self.path)?;
            progress.send_modify(|progress| *progress = Progress { files: progress.files + 1, ..Progress::default() });
        }
        file.write_all(&line)?;
        let length = u64::try_from(line.len()).unwrap_or_default();
        progress.send_modify(|progress| progress.written += length);
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.1.send_modify(|progress| progress.ended = true);
    }
}

/// Takes a line without its end. False: it is longer, and this is a part of it.
async fn take_line(reader: &mut BufReader<impl AsyncRead + Unpin>, line: &mut Vec<u8>) -> bool {
    loop {
        let Ok(buffer) = reader.fill_buf().await else { return true };
        if buffer.is_empty() {
            return true;
        }
        let room = buffer.len().min(MAX_LINE - line.len());
        let part = buffer.get(..room).unwrap_or_default();
        if let Some(end) = part.iter().position(|byte| *byte == b'\n') {
            line.extend(part.iter().take(end));
            reader.consume(end + 1);
            return true;
        }
        line.extend(part);
        reader.consume(room);
        if line.len() >= MAX_LINE {
            return false;
        }
    }
}

/// A place in a log from which on it is read.
pub(crate) struct Cursor {
    log: Log,
    file: u32,
    offset: u64,
}

impl Log {
    /// The place before everything.
    pub(crate) fn begin(self) -> Cursor {
        let files = self.progress.borrow().files;
        Cursor { log: self, file: files.saturating_sub(1), offset: 0 }
    }
}

impl Cursor {
    /// The lines from here to the end, which is then the place.
    pub(crate) fn read(&mut self) -> std::io::Result<Vec<u8>> {
        let mut lines = Vec::new();
        let files = self.log.progress.borrow().files;
        if self.file < files {
            // what is older than the old file is lost
            self.offset = if self.file + 1 < files { 0 } else { self.offset };
            self.read_file(&old(&self.log.path.clone()), &mut lines)?;
            (self.file, self.offset) = (files, 0);
        }
        self.read_file(&self.log.path.clone(), &mut lines)?;
        Ok(lines)
    }

    fn read_file(&mut self, path: &std::path::Path, lines: &mut Vec<u8>) -> std::io::Result<()> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let length = file.read_to_end(lines)?;
        self.offset += u64::try_from(length).unwrap_or_default();
        Ok(())
    }

    /// Waits until there is more. False: there will be no more.
    pub(crate) async fn more(&mut self) -> bool {
        let (file, offset) = (self.file, self.offset);
        let is_more = |progress: &Progress| progress.files > file || progress.written > offset || progress.ended;
        match self.log.progress.wait_for(is_more).await {
            Ok(progress) => progress.files > file || progress.written > offset,
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests;
