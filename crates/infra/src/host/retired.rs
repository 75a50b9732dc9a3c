//! Envoys on their way out. They are recorded apart from the one that serves, *before* anything is done to them: whoever comes
//! after a crash lets them end and starts another, and adopts none of them. A successor can start while they drain.

use std::path::{Path, PathBuf};

use super::ProxyPaths;
use super::process::{Process, Record};

/// The names of their records: this and the process's number.
const RECORD: &str = "draining.";

/// An Envoy that takes nothing new, or soon will not.
#[derive(Debug)]
pub(crate) struct Retired {
    pub(crate) process: Process,
    /// Its admin socket, moved out of its successor's way.
    pub(crate) admin_socket: PathBuf,
    record: PathBuf,
}

impl Retired {
    /// Records that a process is being ended. It may be called again for the same process.
    pub(crate) fn new(process: Process, paths: &ProxyPaths) -> Self {
        let retired = Self::recorded(process, paths);
        paths.hide_admin_socket();
        let _absent = std::fs::rename(&paths.admin_socket, &retired.admin_socket);
        // Last: as long as this is there, what stands above may not have been done.
        let _absent = std::fs::remove_file(&paths.record);
        retired
    }

    /// Records that a process is being ended whose successor serves, and that this one is the proxy's process from now on. It may be called again.
    pub(crate) fn replaced(process: Process, paths: &ProxyPaths) -> Self {
        let retired = Self::recorded(process, paths);
        let _absent = std::fs::rename(&paths.admin_socket, &retired.admin_socket);
        // As long as this is not done, a later chancery does it: see `earlier`.
        let _absent = std::fs::rename(&paths.next_record, &paths.record);
        paths.hide_admin_socket();
        retired
    }

    fn recorded(process: Process, paths: &ProxyPaths) -> Self {
        let retired = Self::of(process, paths);
        if let Err(error) = retired.process.record().write(&retired.record) {
            tracing::warn!(pid = retired.process.pid, %error, "a later chancery will not know that this envoy drains");
        }
        retired
    }

    /// Those that an earlier process began to end, in the order of their numbers. What is left of others is removed.
    pub(crate) fn earlier(paths: &ProxyPaths) -> Vec<Self> {
        let current = Record::read(&paths.record).map(|record| record.pid);
        let read = |pid: u32| Record::read(&record_path(paths, pid)).filter(|record| record.pid == pid);
        let next = || Record::read(&paths.next_record).and_then(|next| Process::of(next, paths).ok().flatten());
        let mut found = Vec::new();
        for pid in recorded(&paths.dir) {
            match read(pid).map_or(Ok(None), |record| Process::of(record, paths)) {
                Ok(Some(process)) if current == Some(pid) => {
                    let end = if next().is_some() { Self::replaced } else { Self::new };
                    found.push(end(process, paths));
                }
                Ok(Some(process)) => found.push(Self::of(process, paths)),
                Ok(None) => forget(&record_path(paths, pid), &socket_path(paths, pid)),
                Err(error) => tracing::warn!(pid, %error, "cannot watch an envoy that drains"),
            }
        }
        found
    }

    /// It has ended: removes its files.
    pub(crate) fn forget(self) {
        forget(&self.record, &self.admin_socket);
    }

    fn of(process: Process, paths: &ProxyPaths) -> Self {
        let (record, admin_socket) = (record_path(paths, process.pid), socket_path(paths, process.pid));
        Self { process, admin_socket, record }
    }
}

fn forget(record: &Path, admin_socket: &Path) {
    for file in [admin_socket, record] {
        let _absent = std::fs::remove_file(file);
    }
}

fn record_path(paths: &ProxyPaths, pid: u32) -> PathBuf {
    paths.dir.join(format!("{RECORD}{pid}"))
}

fn socket_path(paths: &ProxyPaths, pid: u32) -> PathBuf {
    paths.sockets.join(format!("drain.{pid}"))
}

/// The numbers in the names of the records, sorted.
fn recorded(dir: &Path) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut numbers: Vec<u32> = names.filter_map(|name| name.strip_prefix(RECORD)?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}
