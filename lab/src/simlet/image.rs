//! What stands for the images that the lab knows. It fetches none: any other image cannot be pulled.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::place::Place;

/// An image: the machine's own files, one program of ours among them, and what is run if the pod does not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    /// The program, where it is on the machine and where in the image.
    pub(crate) program: Option<(PathBuf, &'static str)>,
    pub(crate) entrypoint: Vec<String>,
    pub(crate) arguments: Vec<String>,
    /// User and group.
    pub(crate) user: u32,
}

/// The user `nonroot` of distroless images.
const NONROOT: u32 = 65532;

/// Echo servers of the Gateway API conformance suite.
const ECHO: &str = "registry.k8s.io/gateway-api/conformance/echo-basic";

/// The same of the suites until v1.6, which come with it.
const EARLIER_ECHO: &str = "registry.k8s.io/gateway-api/echo-basic";

/// What answers datagrams for these.
const COREDNS: &str = "registry.k8s.io/coredns/coredns";

/// Where their programs are.
const EARLIER: &str = ".tools/conformance/v1.6.3/bin";

/// Any version: the pinned Envoy runs.
const ENVOY: &str = "docker.io/envoyproxy/envoy";

const CHANCERY: &str = "ghcr.io/chancery/chancery";

/// Nothing of ours: for tests that need a shell.
const MACHINE: &str = "docker.io/lab/machine";

/// What stands for an image, unless it is unknown.
pub(crate) fn find(place: &Place, name: &str) -> Option<Image> {
    let (repository, tag) = parse(name);
    let image = |program: PathBuf, target: &'static str, user: u32| Image {
        program: Some((program, target)),
        entrypoint: vec![target.to_owned()],
        arguments: Vec::new(),
        user,
    };
    match repository.as_str() {
        ECHO => Some(image(place.programs().join("echo-basic"), "/echo-basic", NONROOT)),
        EARLIER_ECHO => Some(image(place.project(EARLIER).join("echo-basic"), "/echo-basic", NONROOT)),
        // Its file has the right to bind port 53 in the real image, where it is not root's.
        COREDNS => Some(image(place.project(EARLIER).join("coredns"), "/coredns", 0)),
        ENVOY => {
            let user = if tag.starts_with("distroless-") { NONROOT } else { 0 };
            let envoy = image(place.project(".tools/envoy/1.40.0/bin/envoy"), "/usr/local/bin/envoy", user);
            Some(Image { arguments: vec!["-c".to_owned(), "/etc/envoy/envoy.yaml".to_owned()], ..envoy })
        }
        CHANCERY => Some(image(chancery(place)?, "/usr/local/bin/chancery", NONROOT)),
        MACHINE => Some(Image { program: None, entrypoint: Vec::new(), arguments: Vec::new(), user: 0 }),
        _ => None,
    }
}

/// The repository with its host, and the tag.
fn parse(name: &str) -> (String, &str) {
    let name = name.split_once('@').map_or(name, |(name, _digest)| name);
    let (repository, tag) = match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, tag),
        _ => (name, "latest"),
    };
    let host = repository.split_once('/').map(|(host, _)| host);
    let has_host = host.is_some_and(|host| host.contains(['.', ':']) || host == "localhost");
    let repository = match (has_host, repository.contains('/')) {
        (true, _) => repository.to_owned(),
        (false, true) => format!("docker.io/{repository}"),
        (false, false) => format!("docker.io/library/{repository}"),
    };
    (repository, tag)
}

/// Chancery as it was built: what `lab up --chancery` named, else the one beside this program, else the newest in the folders
/// that cargo builds into.
pub(crate) fn chancery(place: &Place) -> Option<PathBuf> {
    let named = std::fs::read_link(place.file("chancery")).ok();
    let own = std::env::current_exe().ok();
    let beside = own.as_ref().map(|own| own.with_file_name("chancery"));
    let targets = [
        Some(place.project("target")),
        own.as_deref().and_then(Path::parent).and_then(Path::parent).map(Path::to_owned),
    ];
    let built = targets
        .into_iter()
        .flatten()
        .flat_map(|target| ["release/chancery", "debug/chancery"].map(|file| target.join(file)));
    let age = |file: &PathBuf| file.metadata().and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let there = |file: &PathBuf| Path::is_file(file);
    named.or(beside.filter(there)).or_else(|| built.filter(there).max_by_key(age))
}

#[cfg(test)]
mod tests;
