//! Which of the descriptors are API, and which of those become Rust types.

use std::collections::BTreeMap;

use anyhow::Context as _;
use descriptors::{Found, ordered};
use prost_types::FileDescriptorSet;

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

fn is_api(name: &str) -> bool {
    API_FOLDERS.iter().any(|folder| name.starts_with(folder)) && !NOT_API.contains(&name)
}
