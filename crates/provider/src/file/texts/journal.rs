//! The file of the state folder that keeps [`super::LastTexts`]: rows with a checksum each, some of them followed by a text.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use api::ObjectKey;
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::{KeptFile, KeptText, TextFile};
use crate::file::ages::journal::{open_own, opened, options, sealed};
use crate::file::read::MAX_FILE;

/// The first line: what the file is, the version of its rows, and whether it may hold private keys.
const HEADERS: [&str; 2] = ["chancery texts 1", "chancery texts 1, with secrets"];

/// What a record holds.
pub(super) struct StoredTexts {
    pub(super) file: File,
    pub(super) files: BTreeMap<PathBuf, KeptFile>,
    pub(super) length: u64,
}

/// A row as it is written.
#[derive(Debug, Serialize, Deserialize)]
enum RecordRow {
    /// The bytes behind it, of a file by its path: their hash, their number and their checksum.
    Text(String, String, u64, u64),
    /// A file gives what texts with these hashes give, none if that is not known, and objects whose texts are not kept.
    File(String, Option<Vec<String>>, Vec<[String; 4]>),
}

impl RecordRow {
    fn push(&self, out: &mut Vec<u8>) {
        // Texts and numbers always become JSON, in one line.
        out.extend_from_slice(sealed(&serde_json::to_string(self).unwrap_or_default()).as_bytes());
    }
}

/// What a file gives from now on.
pub(super) struct FileRow<'a> {
    pub(super) path: &'a Path,
    pub(super) hashes: Option<Vec<u128>>,
    pub(super) withheld: &'a [ObjectKey],
}

impl FileRow<'_> {
    pub(super) fn push(self, out: &mut Vec<u8>) {
        let hashes = self.hashes.map(|hashes| hashes.iter().map(|hash| format!("{hash:x}")).collect());
        let names = |key: &ObjectKey| [key.group(), key.kind_name(), key.namespace(), key.name()].map(str::to_owned);
        RecordRow::File(escaped(self.path), hashes, self.withheld.iter().map(names).collect()).push(out);
    }
}

/// Adds a text to what is to be written at an offset.
pub(super) fn push_text(out: &mut Vec<u8>, at: u64, (path, hash, text): (&Path, u128, &str)) -> KeptText {
    let (before, length, sum) = (out.len(), text.len() as u64, xxh3_64(text.as_bytes()));
    RecordRow::Text(escaped(path), format!("{hash:x}"), length, sum).push(out);
    let offset = at + (out.len() - before) as u64;
    out.extend_from_slice(text.as_bytes());
    out.push(b'\n');
    KeptText { hash, offset, length, sum }
}

/// Reads a record but for its texts. None if there is none that can be used.
pub(super) fn read(place: &TextFile) -> Result<Option<StoredTexts>, String> {
    let words = |error: io::Error| format!("cannot be read: {error}");
    let Some((file, end)) = open_own(&place.path, options().read(true).write(true))? else { return Ok(None) };
    file.set_permissions(Permissions::from_mode(0o600)).map_err(words)?;
    let mut reader = BufReader::new(file);
    let mut scan = RecordScan { end, ..RecordScan::default() };
    scan.rows(&mut reader, place)?;
    let file = reader.into_inner();
    if place.secrets && !scan.has_secrets {
        // From now on it may hold some.
        let (file, length) =
            rewrite(place, &file, &mut scan.files).map_err(|error| format!("cannot be written: {error}"))?;
        return Ok(Some(StoredTexts { file, files: scan.files, length }));
    }
    if scan.at < scan.end {
        // What is missing was being written when its process ended: it was never published.
        file.set_len(scan.at).map_err(words)?;
    }
    Ok(Some(StoredTexts { file, files: scan.files, length: scan.at }))
}

/// A record as far as it was read.
#[derive(Default)]
struct RecordScan {
    end: u64,
    at: u64,
    has_secrets: bool,
    texts: HashMap<(PathBuf, u128), KeptText>,
    files: BTreeMap<PathBuf, KeptFile>,
}

impl RecordScan {
    fn rows(&mut self, reader: &mut BufReader<File>, place: &TextFile) -> Result<(), String> {
        let mut line = Vec::new();
        loop {
            line.clear();
            // The longest row names all texts of the largest file.
            let bound = MAX_FILE.min(self.end - self.at);
            reader
                .by_ref()
                .take(bound)
                .read_until(b'\n', &mut line)
                .map_err(|error| format!("cannot be read: {error}"))?;
            if !line.ends_with(b"\n") {
                let is_torn = self.at > 0 && self.at + line.len() as u64 == self.end;
                return if is_torn { Ok(()) } else { Err("it is damaged".to_owned()) };
            }
            let text = opened(&line).ok_or("it is damaged")?;
            let after = self.at + line.len() as u64;
            if self.at == 0 {
                match HEADERS.iter().position(|header| *header == text) {
                    Some(secrets) if secrets == 0 || place.secrets => {
                        self.at = after;
                        self.has_secrets = secrets > 0;
                    }
                    Some(_) => {
                        let removed = remove(&place.path);
                        let removed = removed
                            .map_or_else(|error| format!("cannot be removed: {error}"), |()| "was removed".to_owned());
                        return Err(format!(
                            "it may hold private keys, which are not to be saved any more, and {removed}"
                        ));
                    }
                    None => return Err("it is of another version".to_owned()),
                }
            } else if !self.row(serde_json::from_str(text).map_err(|_| "it is damaged")?, after)? {
                return Ok(());
            }
            let skipped = i64::try_from(self.at - after).map_err(|_| "it is damaged")?;
            reader.seek_relative(skipped).map_err(|error| format!("cannot be read: {error}"))?;
        }
    }

    /// Takes in a row that ends at this offset. Returns false if its text is not there.
    fn row(&mut self, row: RecordRow, after: u64) -> Result<bool, String> {
        match row {
            RecordRow::Text(path, hash, length, sum) => {
                let behind = length.checked_add(after + 1).ok_or("it is damaged")?;
                if behind > self.end {
                    return Ok(false);
                }
                let (path, hash) = (unescaped(&path), number(&hash)?);
                self.texts.insert((path, hash), KeptText { hash, offset: after, length, sum });
                self.at = behind;
            }
            RecordRow::File(path, hashes, withheld) => {
                let path = unescaped(&path);
                let is_unknown = hashes.is_none();
                let mut texts = Vec::new();
                for hash in hashes.unwrap_or_default() {
                    let text = self.texts.get(&(path.clone(), number(&hash)?));
                    texts.push(*text.ok_or("it is damaged")?);
                }
                let key =
                    |[group, kind, namespace, name]: [String; 4]| ObjectKey::new(&group, &kind, &namespace, &name);
                let withheld: Vec<ObjectKey> = withheld.into_iter().map(key).collect();
                if texts.is_empty() && withheld.is_empty() && !is_unknown {
                    self.files.remove(&path);
                } else {
                    self.files.insert(path, KeptFile { texts, withheld, is_unknown, is_seen: false });
                }
                self.at = after;
            }
        }
        Ok(true)
    }
}

fn number(hash: &str) -> Result<u128, String> {
    u128::from_str_radix(hash, 16).map_err(|_| "it is damaged".to_owned())
}

/// Reads a text, if it is intact.
pub(super) fn read_text(file: &File, text: &KeptText) -> Option<String> {
    let mut bytes = vec![0; usize::try_from(text.length).ok()?];
    file.read_exact_at(&mut bytes, text.offset).ok()?;
    String::from_utf8(bytes).ok().filter(|content| xxh3_64(content.as_bytes()) == text.sum)
}

/// Adds to the file, which has this length. If that fails it is what it was, as far as that can be had.
pub(super) fn append(file: &mut File, length: u64, bytes: &[u8]) -> io::Result<()> {
    if file.metadata()?.len() != length {
        return Err(io::Error::other("another program has changed it"));
    }
    file.seek(SeekFrom::Start(length))?;
    file.write_all(bytes)
}

/// Makes a record next to the place that it will have.
pub(super) fn create(place: &TextFile) -> io::Result<(File, u64)> {
    let beside = place.path.with_extension("new");
    let _left_by_a_process_that_ended = std::fs::remove_file(&beside);
    let mut file = options().read(true).write(true).create_new(true).mode(0o600).open(&beside)?;
    let [without, with] = HEADERS;
    let header = sealed(if place.secrets { with } else { without });
    file.write_all(header.as_bytes())?;
    Ok((file, header.len() as u64))
}

/// Gives a record its name.
pub(super) fn give_name(file: &File, path: &Path) -> io::Result<()> {
    file.sync_all()?;
    std::fs::rename(path.with_extension("new"), path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Writes all that counts into another file, which takes the place of this one.
pub(super) fn rewrite(
    place: &TextFile,
    old: &File,
    files: &mut BTreeMap<PathBuf, KeptFile>,
) -> io::Result<(File, u64)> {
    let (mut file, mut at) = create(place)?;
    for (path, kept) in files {
        let mut rows = Vec::new();
        for text in &mut kept.texts {
            let content = read_text(old, text).ok_or_else(|| io::Error::other("it is damaged"))?;
            *text = push_text(&mut rows, at, (path, text.hash, &content));
            file.write_all(&rows)?;
            at += rows.len() as u64;
            rows.clear();
        }
        let hashes = (!kept.is_unknown).then(|| kept.texts.iter().map(|text| text.hash).collect());
        FileRow { path, hashes, withheld: &kept.withheld }.push(&mut rows);
        file.write_all(&rows)?;
        at += rows.len() as u64;
    }
    give_name(&file, &place.path)?;
    Ok((file, at))
}

/// Removes the record, which need not be there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let _need_not_be_there = std::fs::remove_file(path.with_extension("new"));
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A path as text: bytes that are none, and `%`, by their numbers.
fn escaped(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(&chunk.valid().replace('%', "%25"));
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("%{byte:02x}")));
    }
    text
}

fn unescaped(text: &str) -> PathBuf {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (number, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        bytes.extend(u8::from_str_radix(number, 16));
        bytes.extend_from_slice(rest.as_bytes());
    }
    PathBuf::from(OsString::from_vec(bytes))
}
