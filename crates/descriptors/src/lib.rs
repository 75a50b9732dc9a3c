//! The protobuf descriptors that a program carries: read out of its binary, put in order, written as a `FileDescriptorSet`.
//!
//! Here, because both the generator of our types (`cargo xtask proto`) and `chancery proxy descriptors` need it, and the first cannot depend on
//! what it generates.

mod scan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use scan::{Found, file_descriptors};

/// A `FileDescriptorSet` of the bytes as they were found.
#[must_use]
pub fn descriptor_set(files: &[&Found]) -> Vec<u8> {
    let mut out = Vec::new();
    for found in files {
        prost::encoding::bytes::encode(1, &found.bytes, &mut out);
    }
    out
}

/// These files and what they import, each behind its imports. What was not found is left out.
pub fn ordered<'a>(found: &'a BTreeMap<String, Found>, roots: impl Iterator<Item = &'a str>) -> Vec<&'a Found> {
    let mut seen = BTreeSet::new();
    let mut out = Vec::new();
    for root in roots {
        visit(found, root, &mut seen, &mut out);
    }
    out
}

fn visit<'a>(
    found: &'a BTreeMap<String, Found>,
    name: &'a str,
    seen: &mut BTreeSet<&'a str>,
    out: &mut Vec<&'a Found>,
) {
    let Some(this) = found.get(name) else { return };
    if !seen.insert(name) {
        return;
    }
    for import in &this.file.dependency {
        visit(found, import, seen, out);
    }
    out.push(this);
}
