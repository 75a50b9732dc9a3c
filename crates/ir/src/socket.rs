//! Paths of sockets to which nothing leads on behalf of an author.

use std::path::{Path, PathBuf};

/// Folders through which everything has another name: processes' roots and descriptors, devices.
const ALIASES: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Bytes of the longest path of a socket: a socket address holds 108, the last is a zero (unix(7)).
pub const LONGEST_PATH: usize = 107;

/// Says why no socket of a path is used, in words that follow it; `own` are the folders of Chancery and its proxies. A relative path would lead to the folder
/// in which a proxy runs, where its own sockets are.
#[must_use]
pub fn refuses_path(path: &str, own: &[PathBuf]) -> Option<String> {
    if path.len() > LONGEST_PATH || path.contains('\0') {
        return Some(format!("is not a path of a socket, which has {LONGEST_PATH} bytes at most"));
    }
    let is_plain = |rest: &str| rest.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if !path.strip_prefix('/').is_some_and(is_plain) {
        return Some("is not an absolute path without `.`, `..` and empty parts".to_owned());
    }
    if ALIASES.iter().any(|alias| Path::new(path).starts_with(alias)) {
        return Some("is below /proc, /sys or /dev".to_owned());
    }
    let is_own = own.iter().any(|folder| Path::new(path).starts_with(folder));
    is_own.then(|| "belongs to Chancery and its proxies".to_owned())
}
