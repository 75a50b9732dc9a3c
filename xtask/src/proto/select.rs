//! Which of the descriptors are API, and which of those become Rust types.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use prost_types::FileDescriptorSet;

use super::scan::Found;

/// Files under these folders are API, and so is whatever they import. The rest of what Envoy links (hot restart,
/// tracers' wire formats, gRPC's own) can never stand in a configuration.
const API_FOLDERS: &[&str] = &["envoy/", "xds/", "udpa/", "validate/", "google/rpc/", "google/protobuf/"];
/// Descriptor bookkeeping that nothing in the API imports.
const NOT_API: &[&str] = &["google/protobuf/cpp_features.proto"];

/// The API: its files in an order in which each one comes after its imports.
pub(super) fn api(found: &BTreeMap<String, Found>) -> Vec<&Found> {
    ordered(found, found.keys().map(String::as_str).filter(|name| is_api(name)))
}

/// The files named by `roots` with everything that they import. A root that Envoy does not have is an error.
pub(super) fn closure(found: &BTreeMap<String, Found>, roots: &[&str]) -> anyhow::Result<FileDescriptorSet> {
    for root in roots {
        found.get(*root).with_context(|| format!("this Envoy has no {root}"))?;
    }
    let files = ordered(found, roots.iter().copied());
    Ok(FileDescriptorSet { file: files.into_iter().map(|found| found.file.clone()).collect() })
}

/// A `FileDescriptorSet` of the bytes as they were found.
pub(super) fn descriptor_set(files: &[&Found]) -> Vec<u8> {
    let mut out = Vec::new();
    for found in files {
        prost::encoding::bytes::encode(1, &found.bytes, &mut out);
    }
    out
}

fn is_api(name: &str) -> bool {
    API_FOLDERS.iter().any(|folder| name.starts_with(folder)) && !NOT_API.contains(&name)
}

/// Depth first, imports before importers.
fn ordered<'a>(found: &'a BTreeMap<String, Found>, roots: impl Iterator<Item = &'a str>) -> Vec<&'a Found> {
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
