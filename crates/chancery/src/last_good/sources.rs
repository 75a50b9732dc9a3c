//! The sources of what is saved: another set of folders has another past, which is never served for this one.

use std::io;
use std::path::Path;

use super::file;

/// The file of the state folder that names the sources.
const SOURCES: &str = "sources";

/// The name of what was saved of others.
const ASIDE: &str = "last-good-of-other-sources";

/// Sets aside what was saved of other sources, or removes it if it may hold `secrets` that are not to be saved. Returns what was done, for people.
///
/// # Errors
/// It can be neither set aside nor removed, or the sources cannot be noted: it would be served.
pub(super) fn bind(state: &Path, sources: &str, secrets: bool) -> io::Result<Option<String>> {
    let path = state.join(SOURCES);
    let before = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        before => Some(before?),
    };
    if before.as_deref() == Some(sources) {
        return Ok(None);
    }
    let (folder, aside) = (state.join("last-good"), state.join(ASIDE));
    let mut done = None;
    // What an earlier version saved does not say whose it is.
    if let Some(before) = before.filter(|_| folder.symlink_metadata().is_ok()) {
        remove(&aside)?;
        let is_removed = !secrets && file::may_hold_secrets(&folder);
        if is_removed {
            remove(&folder)?;
        } else {
            std::fs::rename(&folder, &aside)?;
        }
        let what = if is_removed {
            "removed, as it may hold private keys".to_owned()
        } else {
            format!("set aside as {}", aside.display())
        };
        done = Some(format!(
            "{}: the last good configuration is of other sources ({}); it is not used, and was {what}. Give each set of sources a state folder of \
             its own (--state-dir)",
            folder.display(),
            before.trim_end().replace('\n', ", ")
        ));
    }
    file::note_sources(&path, sources)?;
    Ok(done)
}

fn remove(folder: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
