//! Which of the descriptors are API, and which of those become Rust types.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use prost_types::{FileDescriptorProto, FileDescriptorSet};

/// Files under these folders are API, and so is whatever they import. The rest of what Envoy links (hot restart,
/// tracers' wire formats, gRPC's own) can never stand in a configuration.
const API_FOLDERS: &[&str] = &["envoy/", "xds/", "udpa/", "validate/", "google/rpc/", "google/protobuf/"];
/// Descriptor bookkeeping that nothing in the API imports.
const NOT_API: &[&str] = &["google/protobuf/cpp_features.proto"];

/// The API: its files in an order in which each one comes after its imports, free of what differs between two builds of
/// the same API.
pub(super) fn api(mut found: BTreeMap<String, FileDescriptorProto>) -> FileDescriptorSet {
    for file in found.values_mut() {
        file.source_code_info = None;
    }
    let roots = found.keys().filter(|name| is_api(name)).cloned().collect::<Vec<_>>();
    ordered(&found, roots.iter().map(String::as_str))
}

/// The files named by `roots` with everything that they import. A root that Envoy does not have is an error.
pub(super) fn closure(api: &FileDescriptorSet, roots: &[&str]) -> anyhow::Result<FileDescriptorSet> {
    let files: BTreeMap<String, FileDescriptorProto> =
        api.file.iter().map(|file| (file.name().to_owned(), file.clone())).collect();
    for root in roots {
        files.get(*root).with_context(|| format!("this Envoy has no {root}"))?;
    }
    Ok(ordered(&files, roots.iter().copied()))
}

fn is_api(name: &str) -> bool {
    API_FOLDERS.iter().any(|folder| name.starts_with(folder)) && !NOT_API.contains(&name)
}

/// Depth first, imports before importers. Imports that are not there (a linker may drop pure annotations) are left out
/// of the importer too, so that the set is complete in itself.
fn ordered<'a>(
    files: &'a BTreeMap<String, FileDescriptorProto>,
    roots: impl Iterator<Item = &'a str>,
) -> FileDescriptorSet {
    let mut seen = BTreeSet::new();
    let mut set = FileDescriptorSet::default();
    for root in roots {
        visit(files, root, &mut seen, &mut set.file);
    }
    set
}

fn visit<'a>(
    files: &'a BTreeMap<String, FileDescriptorProto>,
    name: &'a str,
    seen: &mut BTreeSet<&'a str>,
    out: &mut Vec<FileDescriptorProto>,
) {
    let Some(file) = files.get(name) else { return };
    if !seen.insert(name) {
        return;
    }
    for import in &file.dependency {
        visit(files, import, seen, out);
    }
    out.push(file.clone());
}
