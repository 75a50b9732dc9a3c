//! Files that change all at once: they are links into `..data`, itself a link to a folder, which is replaced by one rename. Programs that
//! watch for that (Envoy, Chancery) are tested with what they meet in a real cluster.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{Error, Result};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Component, Path};

use super::Content;

/// The link that is replaced.
const DATA: &str = "..data";

/// What all may read is readable for the volume's group, if it has one.
const GROUP_READS: u32 = 0o440;

/// Writes the content if it differs from what is there. Files belong to root and the group.
pub(crate) fn write(folder: &Path, content: &Content, group: Option<u32>) -> Result<()> {
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    let old = fs::read_link(folder.join(DATA)).ok();
    if old.as_ref().is_some_and(|old| is_same(&folder.join(old), content)) {
        return Ok(());
    }
    let name = free_name(folder);
    for (path, entry) in content {
        let file = folder.join(&name).join(checked(path)?);
        fs::create_dir_all(file.parent().unwrap_or(folder))?;
        fs::write(&file, &entry.bytes)?;
        let mode = if group.is_some() { entry.mode | GROUP_READS } else { entry.mode };
        fs::set_permissions(&file, Permissions::from_mode(mode))?;
        chown(&file, entry.owner, group)?;
    }
    fs::create_dir_all(folder.join(&name))?;
    symlink(&name, folder.join("..data_tmp"))?;
    fs::rename(folder.join("..data_tmp"), folder.join(DATA))?;
    link(folder, content)?;
    match old {
        Some(old) => fs::remove_dir_all(folder.join(old)),
        None => Ok(()),
    }
}

/// The links that people see: one for each first part of a path.
fn link(folder: &Path, content: &Content) -> Result<()> {
    let wanted: BTreeSet<&str> = content.keys().filter_map(|path| path.split('/').next()).collect();
    for name in &wanted {
        if fs::symlink_metadata(folder.join(name)).is_err() {
            symlink(Path::new(DATA).join(name), folder.join(name))?;
        }
    }
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with("..") && !wanted.contains(&*name) {
            fs::remove_file(folder.join(&*name))?;
        }
    }
    Ok(())
}

/// Of a folder that is not there yet.
fn free_name(folder: &Path) -> String {
    let mut number = 0_u32;
    loop {
        let name = format!("..{number}");
        if !folder.join(&name).exists() {
            return name;
        }
        number += 1;
    }
}

/// A path that does not lead out of the volume (the API server refuses others too).
fn checked(path: &str) -> Result<&Path> {
    let path = Path::new(path);
    let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    if inside { Ok(path) } else { Err(Error::other(format!("{} leads out of the volume", path.display()))) }
}

fn is_same(folder: &Path, content: &Content) -> bool {
    let mut count = 0;
    let same = content.iter().all(|(path, entry)| {
        count += 1;
        fs::read(folder.join(path)).is_ok_and(|bytes| bytes == entry.bytes)
    });
    same && files(folder) == count
}

/// How many files there are.
fn files(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { 1 }).sum()
}

#[cfg(test)]
mod tests;
