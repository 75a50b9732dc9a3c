//! `cargo xtask tidy`: the walls of the design as a program. Allowed edges between rooms, file sizes, `//!` headers, orphan files,
//! and the tests that SECURITY.md names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde::Deserialize;

use crate::{Chore, Outcome, say};

mod security;

/// The arrows that exist: a room and the rooms that it may name. Every other arrow between rooms is refused.
const EDGES: &[(&str, &[&str])] = &[
    ("engine", &[]),
    ("patch", &[]),
    ("api", &["patch"]),
    ("store", &["api", "engine"]),
    ("ir", &[]),
    ("translator", &["api", "engine", "ir", "store"]),
    ("proto", &[]),
    ("descriptors", &[]),
    ("protojson", &["proto"]),
    ("envoy", &["ir", "patch", "proto", "protojson"]),
    ("xds", &["proto"]),
    ("provider", &["api", "store", "xds"]),
    ("infra", &["envoy", "ir", "patch"]),
    (
        "chancery",
        &[
            "api",
            "descriptors",
            "engine",
            "envoy",
            "infra",
            "ir",
            "proto",
            "protojson",
            "provider",
            "store",
            "translator",
            "xds",
        ],
    ),
];

/// Rooms that compute and never do: no runtime, network, file watching or logging may be among their dependencies.
const PURE: &[&str] =
    &["engine", "patch", "api", "ir", "store", "translator", "proto", "descriptors", "protojson", "envoy"];

/// What a pure room may not depend on.
const EFFECTS: &[&str] = &[
    "tokio",
    "tokio-stream",
    "hyper",
    "hyper-util",
    "tonic",
    "axum",
    "notify",
    "tracing",
    "tracing-subscriber",
    "nix",
];

/// Libraries that are seen only in some places: their names in code, and where.
const SEEN_ONLY_IN: &[(&[&str], &[&str])] = &[(
    &["kube", "k8s_openapi"],
    &[
        "crates/provider/src/kubernetes",
        "crates/infra/src/kubernetes",
        "crates/provider/tests/large_",
        "crates/infra/tests/large_",
        "lab/",
    ],
)];

/// Lines of a source file: aimed at 400, refused beyond this (generated files apart).
const MAX_LINES: usize = 800;

/// Checks everything and prints each breach with its place.
pub(crate) fn run(chore: &Chore<'_>) -> anyhow::Result<Outcome> {
    let mut breaches = edges(chore.root)?;
    let files = sources(chore.root)?;
    for file in &files {
        breaches.extend(file_breaches(chore.root, file)?);
    }
    breaches.extend(orphans(chore.root)?);
    breaches.extend(security::breaches(chore.root, &files)?);
    for breach in &breaches {
        say(breach);
    }
    Ok(if breaches.is_empty() { Outcome::Fine } else { Outcome::Wrong })
}

/// Arrows between rooms that the design does not have, and effects in pure rooms.
fn edges(root: &Path) -> anyhow::Result<Vec<String>> {
    let allowed: BTreeMap<&str, &[&str]> = EDGES.iter().copied().collect();
    let mut breaches = Vec::new();
    for (room, named) in dependencies(root)? {
        let Some(targets) = allowed.get(room.as_str()) else { continue };
        for name in &named {
            if allowed.contains_key(name.as_str()) && !targets.contains(&name.as_str()) {
                breaches.push(format!(
                    "crates/{room}/Cargo.toml: `{room}` may not depend on `{name}` (ARCHITECTURE.md: rooms)"
                ));
            }
            if PURE.contains(&room.as_str()) && EFFECTS.contains(&name.as_str()) {
                breaches.push(format!("crates/{room}/Cargo.toml: `{room}` is pure and may not depend on `{name}`"));
            }
        }
    }
    Ok(breaches)
}

/// Every member of the workspace with the packages that it depends on, for whatever target and under whatever name; development
/// and build dependencies are free.
fn dependencies(root: &Path) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--locked", "--format-version=1"])
        .current_dir(root)
        .output()
        .context("running cargo metadata")?;
    anyhow::ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    let Metadata { packages } = serde_json::from_slice(&output.stdout).context("reading what cargo metadata says")?;
    let named = |package: Package| {
        let normal = package.dependencies.into_iter().filter(|dependency| dependency.kind.is_none());
        (package.name, normal.map(|dependency| dependency.name).collect())
    };
    Ok(packages.into_iter().map(named).collect())
}

/// What of `cargo metadata` counts here.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `dev`, `build`, or nothing.
    kind: Option<String>,
}

/// What is wrong with one file by itself.
fn file_breaches(root: &Path, file: &Path) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let shown = file.strip_prefix(root).unwrap_or(file).display().to_string();
    let mut breaches = Vec::new();
    if !text.starts_with("//!") {
        breaches.push(format!("{shown}:1: opens without a `//!` sentence on what the file holds"));
    }
    breaches.extend(strangers(&shown, &text));
    let lines = text.lines().count();
    if lines > MAX_LINES {
        breaches.push(format!("{shown}: {lines} lines, at most {MAX_LINES}: split it"));
    }
    if file.file_name().is_some_and(|name| name == "mod.rs") {
        breaches.push(format!("{shown}: `foo.rs` beside `foo/`, not `foo/mod.rs`"));
    }
    Ok(breaches)
}

/// Libraries that a file names and may not.
fn strangers(shown: &str, text: &str) -> Vec<String> {
    let barred = SEEN_ONLY_IN.iter().filter(|(_, places)| !places.iter().any(|place| shown.starts_with(place)));
    let named = barred.flat_map(|(names, places)| names.iter().map(move |name| (name, places)));
    named
        .filter(|(name, _)| {
            text.match_indices(&format!("{name}::")).any(|(at, _)| !ends_in_word(text.get(..at).unwrap_or_default()))
        })
        .map(|(name, places)| format!("{shown}: names `{name}`, which is seen only in {}", places.join(", ")))
        .collect()
}

/// Whether what follows would be the rest of a longer name.
fn ends_in_word(text: &str) -> bool {
    text.ends_with(|character: char| character.is_alphanumeric() || character == '_')
}

/// Source files that no `mod` line names, so that nobody compiles them.
fn orphans(root: &Path) -> anyhow::Result<Vec<String>> {
    let files = sources(root)?;
    let mut breaches = Vec::new();
    for file in &files {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let Some(folder) = file.parent() else { continue };
        let inside_src = file.components().any(|part| part.as_os_str() == "src");
        if !inside_src || stem == "lib" || stem == "main" || folder.ends_with("src/bin") {
            continue;
        }
        if !parents(folder).iter().any(|parent| declares(parent, &stem)) {
            breaches.push(format!(
                "{}: no `mod {stem};` names this file",
                file.strip_prefix(root).unwrap_or(file).display()
            ));
        }
    }
    Ok(breaches)
}

/// The files that may declare the modules of a folder.
fn parents(folder: &Path) -> Vec<PathBuf> {
    if folder.ends_with("src") {
        return vec![folder.join("lib.rs"), folder.join("main.rs")];
    }
    vec![folder.with_extension("rs")]
}

/// True if the file has a line that declares the module.
fn declares(file: &Path, module: &str) -> bool {
    let wanted = format!("mod {module};");
    std::fs::read_to_string(file).is_ok_and(|text| text.lines().any(|line| line.trim_end().ends_with(&wanted)))
}

/// Every Rust source of ours, generated ones left out, in order of path.
fn sources(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> =
        ["crates", "lab", "tests", "xtask", "fuzz"].iter().map(|name| root.join(name)).collect();
    while let Some(folder) = folders.pop() {
        if !folder.is_dir() {
            continue;
        }
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && !["gen", "target", "node_modules"].contains(&name.as_str()) {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
