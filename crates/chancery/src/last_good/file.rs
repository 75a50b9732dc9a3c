//! One file: nobody else's, whole or not there.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use xds::saved::SavedFleet;

/// The largest file that is read: 50,000 routes are 50 MB, and a file grows to twice of what it holds. A start takes about a second longer
/// for such a one, which only our own user can have put there.
const LARGEST: u64 = 1 << 30;

/// So many files are kept that were set aside, of each Gateway. Beyond, the last one is replaced.
const ASIDE: u32 = 4;

const ENDING: &str = "journal";

/// A file that is being written.
const NEW: &str = "new";

/// What the endings of files begin with that were set aside.
const DAMAGED: &str = "damaged-";

/// While this file is there, any other one may hold secrets.
const SECRETS: &str = "secrets";

/// The files of a folder, by name.
#[derive(Default)]
pub(super) struct Files {
    pub(super) journals: Vec<PathBuf>,
    /// Those that were set aside.
    pub(super) aside: Vec<PathBuf>,
}

/// The files of the folder, which need not be there. What was being written when a process died is removed.
pub(super) fn list(folder: &Path) -> io::Result<Files> {
    let mut files = Files::default();
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        match path.extension().and_then(|ending| ending.to_str()) {
            Some(ENDING) => files.journals.push(path),
            Some(NEW) => drop(std::fs::remove_file(path)),
            Some(ending) if ending.starts_with(DAMAGED) => files.aside.push(path),
            _ => {}
        }
    }
    files.journals.sort();
    files.aside.sort();
    Ok(files)
}

/// Whether files of the folder may hold secrets: those that cannot be read too.
pub(super) fn may_hold_secrets(folder: &Path) -> bool {
    folder.join(SECRETS).symlink_metadata().is_ok()
}

/// From now on they may; it is on the disk before the first one is.
pub(super) fn expect_secrets(folder: &Path) -> io::Result<()> {
    if may_hold_secrets(folder) {
        return Ok(());
    }
    make(folder)?;
    options().write(true).create_new(true).mode(0o600).open(folder.join(SECRETS))?;
    File::open(folder)?.sync_all()
}

/// No file does any more.
pub(super) fn expect_no_secrets(folder: &Path) -> io::Result<()> {
    std::fs::remove_file(folder.join(SECRETS))
}

/// Reads a file, and cuts off what remains in it of a write that was cut off.
pub(super) fn read(path: &Path) -> Result<SavedFleet, String> {
    let words = |error: io::Error| error.to_string();
    let mut file = options().read(true).write(true).open(path).map_err(|error| match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => "a symbolic link, not a file".to_owned(),
        _ => words(error),
    })?;
    let metadata = file.metadata().map_err(words)?;
    if !metadata.is_file() {
        return Err("not a file".to_owned());
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
        return Err("others than the user of this process can write it".to_owned());
    }
    if metadata.len() > LARGEST {
        return Err(format!("{} bytes are more than are read", metadata.len()));
    }
    if metadata.mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600)).map_err(words)?;
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(words)?;
    let length = bytes.len();
    let saved = SavedFleet::read(&bytes.into()).map_err(|error| error.to_string())?;
    if path.file_name().is_none_or(|name| *name != *file_name(saved.fleet())) {
        return Err(format!("it is of {} by what it holds, and of another Gateway by its name", saved.fleet()));
    }
    if saved.intact() < length {
        file.set_len(saved.intact() as u64).map_err(words)?;
    }
    Ok(saved)
}

/// Gives a file another name, beside. Gives that.
pub(super) fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let names = (1..=ASIDE).map(|number| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{DAMAGED}{number}"));
        PathBuf::from(name)
    });
    let names: Vec<PathBuf> = names.collect();
    let free = names.iter().find(|name| name.symlink_metadata().is_err()).or(names.last());
    let Some(free) = free else { return Err(io::Error::other("no name is left")) };
    std::fs::rename(path, free)?;
    Ok(free.clone())
}

/// Writes a file of this content in place of what there is; gives its length.
pub(super) fn replace(folder: &Path, fleet: &str, parts: impl Iterator<Item = Vec<u8>>) -> io::Result<u64> {
    make(folder)?;
    let path = folder.join(file_name(fleet));
    let beside = path.with_extension(NEW);
    let _left_by_a_write_that_failed = std::fs::remove_file(&beside);
    let written = write_new(&beside, parts);
    let renamed = written.and_then(|length| std::fs::rename(&beside, &path).map(|()| length));
    if renamed.is_err() {
        let _was_not_made = std::fs::remove_file(&beside);
    }
    let length = renamed?;
    File::open(folder)?.sync_all()?;
    Ok(length)
}

fn write_new(path: &Path, parts: impl Iterator<Item = Vec<u8>>) -> io::Result<u64> {
    let mut file = options().write(true).create_new(true).mode(0o600).open(path)?;
    let mut length = 0;
    for part in parts {
        file.write_all(&part)?;
        length += part.len() as u64;
    }
    file.sync_all()?;
    Ok(length)
}

/// Adds to a file of this length; gives its length then. If that fails it is what it was, as far as that can be had.
pub(super) fn append(folder: &Path, fleet: &str, length: u64, parts: impl Iterator<Item = Vec<u8>>) -> io::Result<u64> {
    let mut file = options().append(true).open(folder.join(file_name(fleet)))?;
    if file.metadata()?.len() != length {
        return Err(io::Error::other("another program has changed the file"));
    }
    let mut grown = length;
    let mut written = Ok(());
    for part in parts {
        grown += part.len() as u64;
        written = written.and_then(|()| file.write_all(&part));
    }
    if let Err(error) = written.and_then(|()| file.sync_data()) {
        file.set_len(length)?;
        return Err(error);
    }
    Ok(grown)
}

/// Writes which sources the files are of.
pub(super) fn note_sources(path: &Path, sources: &str) -> io::Result<()> {
    let beside = path.with_extension(NEW);
    let _left_by_a_write_that_failed = std::fs::remove_file(&beside);
    write_new(&beside, std::iter::once(sources.as_bytes().to_vec()))?;
    std::fs::rename(beside, path)
}

/// Removes a file, which need not be there.
pub(super) fn remove(folder: &Path, fleet: &str) -> io::Result<()> {
    match std::fs::remove_file(folder.join(file_name(fleet))) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The name of a Gateway's file: readable, and different for each.
pub(super) fn file_name(fleet: &str) -> String {
    let readable = fleet.chars().take(40).map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '.' });
    let readable: String = readable.collect();
    format!("{}-{:016x}.{ENDING}", readable.trim_start_matches('.'), xxhash_rust::xxh3::xxh3_64(fleet.as_bytes()))
}

/// The folder, which nobody else can look into.
fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let metadata = folder.symlink_metadata()?;
    if !metadata.is_dir() {
        return Err(io::Error::other("not a folder, but a link to one"));
    }
    if metadata.mode() & 0o077 != 0 {
        std::fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// No link is followed, and nobody waits for the other end of a pipe.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    options
}
