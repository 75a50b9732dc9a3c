//! Memory that the process may use: the least of what its control groups and the machine leave it.

use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

#[cfg(test)]
mod tests;

/// Longest file that is read: `meminfo` has some 1,500 bytes.
const LONGEST: u64 = 64 << 10;

/// Memory of a machine of which nothing can be found out, in bytes: what a small one has.
const UNKNOWN: u64 = 1 << 30;

/// Bytes that this process may use.
pub(crate) fn available() -> u64 {
    least(Path::new("/")).unwrap_or(UNKNOWN)
}

/// The same, of a machine whose files are below this folder.
fn least(root: &Path) -> Option<u64> {
    let groups = read(&root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().flat_map(|line| of_group(root, line));
    limits.chain(machine(root)).filter(|bytes| *bytes > 0).min()
}

/// Memory of the machine.
fn machine(root: &Path) -> Option<u64> {
    let text = read(&root.join("proc/meminfo"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1 << 10)
}

/// The limits of a control group and of those that it is in: `hierarchy:controllers:path` of `cgroup(7)`.
fn of_group(root: &Path, line: &str) -> Vec<u64> {
    let mut fields = line.splitn(3, ':');
    let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
        return Vec::new();
    };
    let (folder, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        controllers if controllers.split(',').any(|one| one == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    // In a container the path may be that of the machine, of which there is only the end: then the root is the container's own group.
    let inside: PathBuf = Path::new(path).components().filter(|part| matches!(part, Component::Normal(_))).collect();
    let limit = |group: &Path| read(&root.join(folder).join(group).join(file))?.trim().parse().ok();
    inside.ancestors().filter_map(limit).collect()
}

fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(LONGEST).read_to_string(&mut text).ok()?;
    Some(text)
}

/// A size as Kubernetes writes memory: bytes, or `512Mi`, `1Gi`, `500M`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 6] =
        [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];
    let unit = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)));
    let (number, bytes) = unit.unwrap_or((text, 1));
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let size = digits.then(|| number.parse::<u64>().ok()?.checked_mul(bytes)).flatten();
    size.filter(|size| *size >= SMALLEST).ok_or_else(|| "a size of 16Mi or more, such as 512Mi or 2Gi".to_owned())
}

/// Least memory that can be worked with.
const SMALLEST: u64 = 16 << 20;
