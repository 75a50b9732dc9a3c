//! What a container is made of: its pod's word, its image, and what the node knows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod, Volume, VolumeMount};

use super::image::Image;
use super::{expansion, security, volume};
use crate::container::{Mount, Root, Spec};

/// What is known of the pod.
pub(crate) struct Known<'a> {
    pub(crate) pod: &'a Pod,
    /// The process that holds its namespaces.
    pub(crate) sandbox: i32,
    /// Where its volumes are, and its files for `/etc`.
    pub(crate) folder: &'a Path,
}

/// What programs find if nothing else is said.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The spec of a container, whose own files are in a folder.
///
/// # Errors
/// If what the pod asks for cannot be.
pub(crate) fn of(
    known: &Known<'_>,
    container: &Container,
    image: &Image,
    variables: BTreeMap<String, String>,
    folder: PathBuf,
) -> Result<Spec, String> {
    let credentials = security::credentials(known.pod, container, image)?;
    let command = command(container, image, &variables)?;
    let mut environment = variables.clone();
    let hostname = hostname(known.pod);
    for (name, value) in
        [("PATH", PATH), ("HOSTNAME", &hostname), ("HOME", if credentials.user == 0 { "/root" } else { "/" })]
    {
        environment.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    let read_only = container.security_context.as_ref().and_then(|own| own.read_only_root_filesystem) == Some(true);
    Ok(Spec {
        sandbox: known.sandbox,
        root: Root { folder, read_only },
        mounts: mounts(known, container, image, &variables)?,
        credentials,
        directory: container
            .working_dir
            .clone()
            .filter(|folder| !folder.is_empty())
            .map_or_else(|| "/".into(), PathBuf::from),
        command,
        environment: environment.into_iter().collect(),
    })
}

/// The name of the host that a pod sees.
pub(crate) fn hostname(pod: &Pod) -> String {
    let asked = pod.spec.as_ref().and_then(|spec| spec.hostname.clone()).filter(|name| !name.is_empty());
    // a host's name has 63 bytes at most
    let name = asked.or_else(|| pod.metadata.name.clone()).unwrap_or_default();
    name.get(..name.len().min(63)).unwrap_or_default().trim_end_matches(['-', '.']).to_owned()
}

/// `command` stands for the image's entrypoint and takes its arguments away; `args` stands for the arguments.
fn command(container: &Container, image: &Image, variables: &BTreeMap<String, String>) -> Result<Vec<String>, String> {
    let expand = |words: &[String]| -> Vec<String> {
        words.iter().map(|word| expansion::expand(word, |name| variables.get(name).map(String::as_str))).collect()
    };
    let own = container.command.as_deref().filter(|command| !command.is_empty());
    let arguments = container.args.as_deref().filter(|arguments| !arguments.is_empty());
    let command = match (own, arguments) {
        (Some(own), arguments) => [expand(own), expand(arguments.unwrap_or_default())].concat(),
        (None, Some(arguments)) => [image.entrypoint.clone(), expand(arguments)].concat(),
        (None, None) => [image.entrypoint.clone(), image.arguments.clone()].concat(),
    };
    if command.is_empty() { Err("no command specified".to_owned()) } else { Ok(command) }
}

/// The image's program, the pod's files for `/etc`, the volumes.
fn mounts(
    known: &Known<'_>,
    container: &Container,
    image: &Image,
    variables: &BTreeMap<String, String>,
) -> Result<Vec<Mount>, String> {
    let program = image.program.iter().map(|(source, target)| Mount {
        // a link would be followed inside of the container
        source: source.canonicalize().unwrap_or_else(|_| source.clone()),
        target: PathBuf::from(target),
        read_only: true,
    });
    let files = FILES.iter().map(|name| Mount {
        source: known.folder.join("etc").join(name),
        target: Path::new("/etc").join(name),
        read_only: false,
    });
    let mut all: Vec<Mount> = program.chain(files).collect();
    let volumes = known.pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    for wanted in container.volume_mounts.iter().flatten() {
        let volume = volumes.iter().find(|volume| volume.name == wanted.name);
        let volume = volume.ok_or_else(|| format!("no volume {}", wanted.name))?;
        let mount = of_volume(known, volume, wanted, variables)?;
        // one that a person writes for a file of ours takes its place
        all.retain(|other| other.target != mount.target);
        all.push(mount);
    }
    all.sort_by_key(|mount| mount.target.components().count());
    Ok(all)
}

/// What the node puts into `/etc` of each container.
pub(crate) const FILES: [&str; 3] = ["hosts", "hostname", "resolv.conf"];

fn of_volume(
    known: &Known<'_>,
    volume: &Volume,
    wanted: &VolumeMount,
    variables: &BTreeMap<String, String>,
) -> Result<Mount, String> {
    let mut source = volume::folder(&known.folder.join("volumes"), &volume.name);
    let expanded = wanted
        .sub_path_expr
        .as_ref()
        .map(|path| expansion::expand(path, |name| variables.get(name).map(String::as_str)));
    if let Some(path) = expanded.or_else(|| wanted.sub_path.clone()).filter(|path| !path.is_empty()) {
        if Path::new(&path).components().any(|part| !matches!(part, std::path::Component::Normal(_))) {
            return Err(format!("subPath {path} leads out of the volume"));
        }
        source.push(&path);
        if !source.exists() && volume.empty_dir.is_some() {
            std::fs::create_dir_all(&source).map_err(|error| format!("subPath {path}: {error}"))?;
        }
        // what it is now: it does not change any more
        source = source.canonicalize().map_err(|error| format!("subPath {path}: {error}"))?;
    }
    let read_only = wanted.read_only == Some(true) || volume::is_read_only(volume);
    Ok(Mount { source, target: Path::new("/").join(wanted.mount_path.trim_start_matches('/')), read_only })
}

#[cfg(test)]
mod tests;
