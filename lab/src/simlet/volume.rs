//! Volumes of a pod: folders on the node, some of which are kept as their Secrets and ConfigMaps are.

pub(crate) mod atomic;
mod content;
mod token;

use std::net::Ipv4Addr;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Volume};

use super::{Context, security};
pub(crate) use content::Content;
pub(crate) use token::Tokens;

/// Whose volumes they are.
pub(crate) struct Of<'a> {
    pub(crate) context: &'a Context,
    pub(crate) pod: &'a Pod,
    pub(crate) address: Ipv4Addr,
}

/// A volume that could not be made, as an event says it.
pub(crate) struct Failure {
    pub(crate) volume: String,
    pub(crate) why: String,
}

/// Makes all volumes of a pod, or brings them up to date; gives the time until tokens in them have to be renewed, if there are any.
///
/// # Errors
/// With the first one that cannot be made.
pub(crate) async fn make(of: &Of<'_>, folder: &Path, tokens: &mut Tokens) -> Result<Option<Duration>, Failure> {
    let pod = of.pod;
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    for volume in volumes {
        let failure = |why: String| Failure { volume: volume.name.clone(), why };
        let folder = folder.join(&volume.name);
        if volume.empty_dir.is_some() {
            empty(pod, &folder).map_err(|error| failure(error.to_string()))?;
            continue;
        }
        let content = content::content(of, volume, tokens).await.map_err(failure)?;
        let Some(content) = content else { return Err(failure(unsupported(volume))) };
        let group = group(pod);
        atomic::write(&folder, &content, group).map_err(|error| failure(error.to_string()))?;
    }
    Ok(tokens.renewal())
}

/// The kind that a volume is of, by the name of its field.
fn unsupported(volume: &Volume) -> String {
    let fields = serde_json::to_value(volume).unwrap_or_default();
    let mut kinds = fields.as_object().into_iter().flatten().map(|(field, _)| field).filter(|field| *field != "name");
    format!("volumes of kind {} are not what this node has", kinds.next().map_or("?", String::as_str))
}

/// Whom the files of a volume belong to, besides root.
fn group(pod: &Pod) -> Option<u32> {
    security::of_pod(pod).fs_group.and_then(|group| u32::try_from(group).ok())
}

/// An empty folder that all may write, once.
fn empty(pod: &Pod, folder: &Path) -> std::io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(folder)?;
    let group = group(pod);
    // the group's bit makes what is put there belong to the group too
    let mode = if group.is_some() { 0o2777 } else { 0o777 };
    chown(folder, None, group)?;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode))
}

/// Whether containers must not write there, whatever their mount says.
pub(crate) fn is_read_only(volume: &Volume) -> bool {
    volume.empty_dir.is_none()
}

/// Where a volume is.
pub(crate) fn folder(volumes: &Path, name: &str) -> PathBuf {
    volumes.join(name)
}
