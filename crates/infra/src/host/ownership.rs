//! Ownership of the state folder: a user who can write there, or to a folder above it, can take over the sockets of every proxy.

use std::fs::{DirBuilder, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use super::Error;

#[cfg(test)]
mod tests;

/// Makes the state folder (mode 0700) if it is not there, and checks that it belongs to this user, is writable by no other, and, if `and_above`, that
/// neither is any folder above it. Links on the way count as well. `and_above` is false for a volume that no other process of the machine has:
/// the root of a Kubernetes `emptyDir` has mode 0777.
///
/// # Errors
/// [`Error::File`] if a folder cannot be made or looked at; [`Error::Untrusted`] if another user could change it.
pub fn own_state_folder(state: &Path, and_above: bool) -> Result<(), Error> {
    let state = std::path::absolute(state).map_err(Error::file("use", state))?;
    DirBuilder::new().recursive(true).mode(0o700).create(&state).map_err(Error::file("make", &state))?;
    let real = std::fs::canonicalize(&state).map_err(Error::file("find", &state))?;
    let found = std::fs::metadata(&real).map_err(Error::file("look at", &real))?;
    let own = geteuid().as_raw();
    if found.uid() != own {
        return Err(untrusted(&state, &real, format!("belongs to user {}, and this is user {own}", found.uid())));
    }
    if let Some(words) = shared(&found).filter(|_| !is_private_group(&found)) {
        return Err(untrusted(&state, &real, words.to_owned()));
    }
    if !and_above {
        return Ok(());
    }
    let above = [&state, &real].into_iter().flat_map(|path| path.ancestors().skip(1));
    for folder in above {
        check_above(&state, folder, own)?;
    }
    // A link in another user's folder was refused above; one that another user owns can be turned in a sticky folder.
    for link in state.ancestors() {
        let found = std::fs::symlink_metadata(link).map_err(Error::file("look at", link))?;
        if found.is_symlink() && ![0, own].contains(&found.uid()) {
            return Err(untrusted(&state, link, format!("is a link of user {}", found.uid())));
        }
    }
    Ok(())
}

fn check_above(state: &Path, folder: &Path, own: u32) -> Result<(), Error> {
    let found = std::fs::metadata(folder).map_err(Error::file("look at", folder))?;
    if ![0, own].contains(&found.uid()) {
        return Err(untrusted(state, folder, format!("belongs to user {}", found.uid())));
    }
    // In a sticky folder (/tmp) only its owner renames or removes a file.
    let is_sticky = found.mode() & 0o1000 != 0;
    match shared(&found).filter(|_| !is_sticky && !is_private_group(&found)) {
        Some(words) => Err(untrusted(state, folder, words.to_owned())),
        None => Ok(()),
    }
}

/// Returns the other users who may write there, in words; none if there are none.
fn shared(found: &Metadata) -> Option<&'static str> {
    match found.mode() {
        mode if mode & 0o002 != 0 => Some("is writable by every user"),
        mode if mode & 0o020 != 0 => Some("is writable by its group"),
        _ => None,
    }
}

/// Returns true if only the group may write, and that group is the user's own: many systems give each user one of the same number, and a umask of 0002.
fn is_private_group(found: &Metadata) -> bool {
    found.mode() & 0o002 == 0 && found.gid() == found.uid()
}

fn untrusted(state: &Path, path: &Path, words: String) -> Error {
    Error::Untrusted { state: state.to_owned(), path: PathBuf::from(path), words }
}
