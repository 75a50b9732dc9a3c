//! `cargo xtask proto`: Envoy's API, read out of the Envoy binary itself, as descriptors and as Rust types.
//!
//! The binary that we ship against is the truth about its own API: it carries every `FileDescriptorProto` that it was
//! linked with. [`descriptors`] finds them, [`select`] keeps the API and orders it, [`generate`] writes the Rust. All output is a
//! function of the binary and of the lists in [`roots`], so `--check` can compare bytes.

mod generate;
mod roots;
mod select;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use descriptors::{Found, descriptor_set, file_descriptors};

use crate::{Chore, Outcome, say};

/// The Envoy whose descriptors are read; `tools/install-envoy` puts it there.
const ENVOY: &str = ".tools/envoy/1.40.0/bin/envoy";
/// Where the complete descriptor set is kept.
const DESCRIPTORS: &str = "crates/protojson/descriptors/envoy.binpb";
/// Where the generated Rust is kept. Files there that are not written by this verb are removed by it.
const TYPES: &str = "crates/proto/src/gen";

/// Writes the descriptor set and the Rust types, or with `--check` says which files would change.
pub(crate) fn run(chore: &Chore<'_>) -> anyhow::Result<Outcome> {
    let check_only = chore.check_only()?;
    let binary = chore.root.join(ENVOY);
    let bytes = fs::read(&binary).with_context(|| format!("cannot read {ENVOY} (run tools/install-envoy first)"))?;
    let written = outputs(&file_descriptors(&bytes))?;
    let existing = existing(chore.root)?;
    if check_only {
        return Ok(compare(&written, &existing));
    }
    write(chore.root, &written, &existing)?;
    say(&format!("proto: {} files written", written.len()));
    Ok(Outcome::Fine)
}

/// Every file that this verb owns, by path from the root of the repository.
fn outputs(found: &BTreeMap<String, Found>) -> anyhow::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let descriptors = descriptor_set(&select::api(found));
    let mut written = BTreeMap::from([(PathBuf::from(DESCRIPTORS), descriptors)]);
    let subset = select::closure(found, roots::ROOTS)?;
    for (name, text) in generate::rust(subset)? {
        written.insert(Path::new(TYPES).join(name), text.into_bytes());
    }
    Ok(written)
}

/// What is on disk now of what this verb owns.
fn existing(root: &Path) -> anyhow::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    if let Ok(bytes) = fs::read(root.join(DESCRIPTORS)) {
        found.insert(PathBuf::from(DESCRIPTORS), bytes);
    }
    let Ok(folder) = fs::read_dir(root.join(TYPES)) else { return Ok(found) };
    for entry in folder {
        let name = entry?.file_name();
        let path = Path::new(TYPES).join(name);
        found.insert(path.clone(), fs::read(root.join(&path))?);
    }
    Ok(found)
}

fn compare(written: &BTreeMap<PathBuf, Vec<u8>>, existing: &BTreeMap<PathBuf, Vec<u8>>) -> Outcome {
    let mut outcome = Outcome::Fine;
    let both = written.keys().chain(existing.keys().filter(|path| !written.contains_key(*path)));
    for path in both {
        let verdict = match (written.get(path), existing.get(path)) {
            (Some(new), Some(old)) if new == old => continue,
            (Some(_), Some(_)) => "is out of date",
            (Some(_), None) => "is missing",
            _ => "is not generated",
        };
        say(&format!("proto: {} {verdict}: run cargo xtask proto", path.display()));
        outcome = Outcome::Wrong;
    }
    outcome
}

/// Writes what changed and removes what is no longer generated; untouched files keep their time stamps, so that cargo
/// rebuilds only when something is new.
fn write(
    root: &Path,
    written: &BTreeMap<PathBuf, Vec<u8>>,
    existing: &BTreeMap<PathBuf, Vec<u8>>,
) -> anyhow::Result<()> {
    for (path, bytes) in written {
        if existing.get(path) == Some(bytes) {
            continue;
        }
        let target = root.join(path);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&target, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    for path in existing.keys().filter(|path| !written.contains_key(*path)) {
        fs::remove_file(root.join(path)).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}
