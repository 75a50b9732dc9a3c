//! Kinds that are not read: what was probably meant.

use crate::kind::{Kind, group};
use crate::policy_attachment::remnant;
use crate::problem::Severity;
use crate::schema::nearest;

/// Kinds that exist and are not read, but have names so like those that are read that one might take them for mistakes.
const EXISTING: &[(&str, &str)] = &[(group::ENVOY_GATEWAY, "HTTPRouteFilter")];

/// What people had before, and may take to be read.
const INGRESS: (&str, &str) = ("networking.k8s.io", "Ingress");

/// Groups of which every kind is about gateways: what is written in them and not read is missing there.
const GATEWAY_GROUPS: [&str; 3] = [group::GATEWAY, group::EXPERIMENTAL, group::ENVOY_GATEWAY];

/// Groups in which there are no kinds but those that we read.
const OWN_GROUPS: [&str; 2] = [group::CHANCERY, group::BOOTES];

/// Returns true if a kind is meant by the other group's name for it, or by that of its message: `EnvoyListener`, `Listener`;
/// `EnvoyRoute`, `RouteConfiguration`.
fn is_alike(known: Kind, word: &str) -> bool {
    let bare = |name: &str| name.strip_prefix("Envoy").unwrap_or(name).to_owned();
    bare(known.name()) == bare(word) || known.message().is_some_and(|message| message.rsplit('.').next() == Some(word))
}

/// The problem of a kind that is not read.
pub(super) struct Unknown {
    pub(super) severity: Severity,
    /// The field at fault.
    pub(super) field: &'static str,
    pub(super) text: String,
    /// The kind that was probably meant.
    pub(super) meant: Option<Kind>,
}

/// A note, unless the kind looks like one that we read.
pub(super) fn kind(group: &str, kind: &str) -> Unknown {
    let error = |field, text, meant| Unknown { severity: Severity::Error, field, text, meant };
    let ours = || Kind::ALL.iter().copied().filter(|_| !EXISTING.contains(&(group, kind)));
    let of_group = || ours().filter(|known| known.group() == group);
    let close = nearest(kind, of_group().map(Kind::name));
    let close = close.or_else(|| of_group().find(|known| is_alike(*known, kind)).map(Kind::name));
    // Groups of Kubernetes are taken for each other; a kind of this name in a group of others is another kind.
    let is_near =
        |known: &Kind| !group.contains('.') || [group, known.group()].iter().all(|group| group.ends_with("k8s.io"));
    // Kinds that were experimental had an X before their name.
    let graduated = kind.strip_prefix('X').filter(|_| group == group::EXPERIMENTAL);
    let elsewhere = ours().find(|known| known.name() == graduated.unwrap_or(kind)).filter(is_near);
    if let Some(meant) = meant_group(group, kind) {
        let policy = remnant::meant(Some(meant), kind).map(|(policy, _)| policy);
        return error("apiVersion", format!("the group {group} is not read; did you mean {meant}?"), policy);
    }
    match (close, elsewhere) {
        (Some(close), _) => {
            let text = format!("there is no kind {kind} in {}; did you mean {close}?", group_name(group));
            error("kind", text, Kind::find(group, close))
        }
        (None, Some(known)) => {
            let (group, version) = (group_name(group), known.api_version());
            let kind_too = graduated.map(|name| format!("kind {name} and ")).unwrap_or_default();
            error(
                "kind",
                format!("there is no kind {kind} in {group}; write {kind_too}apiVersion {version}"),
                Some(known),
            )
        }
        (None, None) if OWN_GROUPS.contains(&group) => {
            let kinds: Vec<&str> = of_group().map(Kind::name).collect();
            error("kind", format!("there is no kind {kind} in {group}; there are {}", kinds.join(", ")), None)
        }
        (None, None) => {
            let text = format!("the kind {kind} of {} is not read", group_name(group));
            let (severity, text) = match (group, kind) {
                _ if GATEWAY_GROUPS.contains(&group) => {
                    (Severity::Warning, format!("{text}: nothing of this object has any effect"))
                }
                INGRESS => (
                    Severity::Warning,
                    format!(
                        "{text}: none of its rules is served; write HTTPRoutes (ingress2gateway makes them from Ingresses)"
                    ),
                ),
                _ => (Severity::Note, text),
            };
            Unknown { severity, field: "kind", text, meant: None }
        }
    }
}

/// The group that was meant by another one: one that is read with a mistake in it, or any with other capitals; of a kind about gateways its own with a
/// mistake in it.
fn meant_group(group: &str, kind: &str) -> Option<&'static str> {
    let groups = || Kind::ALL.iter().map(|kind| kind.group());
    if groups().any(|known| known == group) {
        return nearest(group, OWN_GROUPS).filter(|meant| *meant != group);
    }
    let bare = kind.strip_suffix("List").unwrap_or(kind);
    let of_kind = Kind::ALL.iter().filter(|known| known.name().eq_ignore_ascii_case(bare)).map(|known| known.group());
    let same = groups().find(|known| known.eq_ignore_ascii_case(group));
    let about_gateways = || nearest(group, of_kind.filter(|known| GATEWAY_GROUPS.contains(known)));
    same.or_else(|| nearest(group, OWN_GROUPS)).or_else(about_gateways)
}

fn group_name(group: &str) -> &str {
    if group.is_empty() { "the core group" } else { group }
}
