//! [`Past`]: what an earlier process left, and what of the start has to wait for because of it.
//!
//! A broken place keeps what it gave, also after a restart, as far as the texts are kept that gave it (`texts`). Where that is not known, or a private key
//! among it was not kept, a start after which proxies have something waits for the place as for a root that is not there, and all that was served stays in
//! force whole: whatever was published without it could take something away, also where nothing looks removed. What was broken before and gave nothing
//! holds up no start: those places are recorded.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::file::access::{Access, Links};
use crate::file::ages::journal::AgeFile;
use crate::file::read::read_bytes;
use crate::file::texts::TextFile;

/// What an earlier process left.
#[derive(Debug, Clone, Default)]
pub struct Past {
    /// Proxies were given something: nothing of it is to go because a file cannot be understood now.
    pub served: bool,
    /// The file that names broken places that gave nothing; it is kept up to date.
    pub record: Option<PathBuf>,
    /// The file that keeps how old objects are; without one ages end with the process.
    pub ages: Option<AgeFile>,
    /// The file that keeps the texts of what files gave; without one it is not known what they gave.
    pub texts: Option<TextFile>,
}

/// A broken place that neither gives nor keeps anything: a document by the hash of its text, or a whole file or directory.
pub(crate) type Dud = Option<u128>;

/// The record: one place a line.
#[derive(Debug)]
pub(crate) struct Duds {
    served: bool,
    record: Option<PathBuf>,
    lines: BTreeSet<String>,
}

impl Duds {
    /// Those of the process before.
    pub(crate) fn read(past: Past) -> Self {
        // Of the state folder, which the operator names.
        let own = Access::new(Links::Everywhere, []);
        let bytes = past.record.as_deref().and_then(|path| read_bytes(path, &own).ok()).unwrap_or_default();
        let lines = String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect();
        Self { served: past.served, record: past.record, lines }
    }

    /// Returns true if proxies were given something by an earlier process.
    pub(crate) fn has_served(&self) -> bool {
        self.served
    }

    /// Whether something that was served may be lost with this.
    pub(crate) fn is_loss(&self, path: &Path, dud: Dud) -> bool {
        self.served && !self.lines.contains(&line(path, dud))
    }

    /// From now on it is these. Where that cannot be written nothing is recorded: the next start waits for one place too many then, and
    /// says so.
    pub(crate) fn record(&mut self, duds: impl Iterator<Item = (PathBuf, Dud)>) {
        let lines: BTreeSet<String> = duds.map(|(path, dud)| line(&path, dud)).collect();
        let Some(record) = self.record.as_deref().filter(|_| lines != self.lines) else { return };
        let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
        let beside = record.with_extension("new");
        let written = !lines.is_empty() && fs::write(&beside, text).and_then(|()| fs::rename(&beside, record)).is_ok();
        if !written {
            let _absent = fs::remove_file(record);
        }
        self.lines = lines;
    }
}

/// With the path as Rust writes it, so that it is one line whatever it is.
fn line(path: &Path, dud: Dud) -> String {
    match dud {
        Some(hash) => format!("{hash:032x} {path:?}"),
        None => format!("whole {path:?}"),
    }
}
