//! Who a container is and what it may do: `securityContext` of the pod and of the container.

use k8s_openapi::api::core::v1::{Container, Pod, PodSecurityContext, SecurityContext};
use rustix::thread::CapabilitySet;

use super::image::Image;
use crate::container::Credentials;

/// What runtimes give to root unless told otherwise.
const DEFAULT: [&str; 14] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "NET_RAW",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// The credentials of a container.
///
/// # Errors
/// If it must not run as root and would, or names a capability that nobody knows.
pub(crate) fn credentials(pod: &Pod, container: &Container, image: &Image) -> Result<Credentials, String> {
    let of_pod = of_pod(pod);
    let own = container.security_context.clone().unwrap_or_default();
    let user = id(own.run_as_user.or(of_pod.run_as_user)).unwrap_or(image.user);
    // like a runtime without a user database: of a user that only the pod names, the group is 0
    let group = id(own.run_as_group.or(of_pod.run_as_group));
    let group = group.unwrap_or(if user == image.user { image.user } else { 0 });
    if own.run_as_non_root.or(of_pod.run_as_non_root) == Some(true) && user == 0 {
        return Err("container has runAsNonRoot and image will run as root".to_owned());
    }
    let mut groups: Vec<u32> =
        of_pod.supplemental_groups.unwrap_or_default().into_iter().filter_map(|group| id(Some(group))).collect();
    groups.extend(id(of_pod.fs_group));
    groups.push(group);
    groups.sort_unstable();
    groups.dedup();
    let privileged = own.privileged == Some(true);
    Ok(Credentials {
        user,
        group,
        groups,
        capabilities: capabilities(&own, privileged)?,
        no_new_privileges: own.allow_privilege_escalation == Some(false),
    })
}

/// Of the pod, or an empty one.
pub(crate) fn of_pod(pod: &Pod) -> PodSecurityContext {
    pod.spec.as_ref().and_then(|spec| spec.security_context.clone()).unwrap_or_default()
}

/// The user of every container, if the pod says one for each and it is the same: token files are then its own.
pub(crate) fn common_user(pod: &Pod) -> Option<u32> {
    let spec = pod.spec.as_ref()?;
    let of_pod = of_pod(pod).run_as_user;
    let all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let user = |container: &Container| container.security_context.as_ref().and_then(|own| own.run_as_user).or(of_pod);
    let mut users = all.map(user);
    let first = users.next()??;
    users.all(|user| user == Some(first)).then(|| id(Some(first)))?
}

fn id(value: Option<i64>) -> Option<u32> {
    value.and_then(|value| u32::try_from(value).ok())
}

fn capabilities(own: &SecurityContext, privileged: bool) -> Result<u64, String> {
    if privileged {
        return Ok(u64::MAX);
    }
    let wanted = own.capabilities.clone().unwrap_or_default();
    let (add, drop) = (wanted.add.unwrap_or_default(), wanted.drop.unwrap_or_default());
    let is_all = |name: &String| name.eq_ignore_ascii_case("ALL");
    let mut kept = 0;
    if add.iter().any(is_all) {
        kept = u64::MAX;
    } else if !drop.iter().any(is_all) {
        for name in DEFAULT {
            kept |= bit(name)?;
        }
    }
    for name in drop.iter().filter(|name| !is_all(name)) {
        kept &= !bit(name)?;
    }
    for name in add.iter().filter(|name| !is_all(name)) {
        kept |= bit(name)?;
    }
    Ok(kept)
}

/// With and without `CAP_`.
fn bit(name: &str) -> Result<u64, String> {
    let upper = name.to_ascii_uppercase();
    let plain = upper.strip_prefix("CAP_").unwrap_or(&upper);
    let capability = CapabilitySet::from_name(plain).ok_or_else(|| format!("unknown capability \"{name}\""))?;
    Ok(capability.bits())
}

#[cfg(test)]
mod tests;
