//! References between objects: the one place where it is decided whether one object may name another.

pub(crate) mod grant;
pub(crate) mod pod;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::reference_grant::ReferenceGrant;
use api::{Kind, ObjectKey, Scope, group, nearest};

/// The proof that a reference is allowed. Tables of targets are read with it and with nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Permit {
    target: ObjectKey,
}

impl Permit {
    /// What may be read.
    pub(crate) fn target(&self) -> &ObjectKey {
        &self.target
    }
}

/// What an object names, as written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reference<'a> {
    pub(crate) group: &'a str,
    pub(crate) kind: &'a str,
    /// None means the namespace of the object that refers.
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: &'a str,
}

impl<'a> Reference<'a> {
    /// An object in full.
    pub(crate) fn to(object: &'a ObjectKey) -> Self {
        let (group, kind) = (object.group(), object.kind_name());
        Self { group, kind, namespace: Some(object.namespace()), name: object.name() }
    }

    /// The object that is meant in an object of this namespace, whether it may be named or not.
    pub(crate) fn object(self, namespace: &str) -> ObjectKey {
        let namespace = if self.is_of_cluster() { "" } else { self.namespace.unwrap_or(namespace) };
        ObjectKey::new(self.group, self.kind, namespace, self.name)
    }

    /// What it names belongs to no namespace: everybody may name it.
    fn is_of_cluster(self) -> bool {
        Kind::find(self.group, self.kind).is_some_and(|kind| kind.scope() == Scope::Cluster)
    }
}

/// Asks whether some `ReferenceGrant` allows a use.
pub(crate) trait Grants {
    /// Whether there is such a grant.
    fn granted(&mut self, wanted: &GrantUse) -> bool;
}

/// One use that a `ReferenceGrant` allows: a kind of a namespace may name a kind of another, one object or all of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GrantUse {
    pub(crate) from_group: Arc<str>,
    pub(crate) from_kind: Arc<str>,
    pub(crate) from_namespace: Arc<str>,
    pub(crate) to_group: Arc<str>,
    pub(crate) to_kind: Arc<str>,
    pub(crate) to_namespace: Arc<str>,
    /// None: every object of the kind.
    pub(crate) to_name: Option<Arc<str>>,
}

/// Why a reference leads nowhere (Gateway API, reasons of `ResolvedRefs`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefFault {
    pub(crate) reason: RefReason,
    pub(crate) text: Arc<str>,
}

/// Reasons of `ResolvedRefs` False on routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefReason {
    NotPermitted,
    InvalidKind,
    NotFound,
    /// The Service is there and the port is not.
    NoPort,
    /// It cannot be spoken to in the route's way.
    UnsupportedProtocol,
}

impl RefReason {
    /// As the API writes it on a route.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::NotPermitted => "RefNotPermitted",
            Self::InvalidKind => "InvalidKind",
            Self::NotFound | Self::NoPort => "BackendNotFound",
            Self::UnsupportedProtocol => "UnsupportedProtocol",
        }
    }
}

/// Follows a reference from `from`: inside a namespace it is free, into another it needs a grant there. Permission is judged
/// before existence and kind (Gateway API `ReferenceGrant`).
pub(crate) fn permit(grants: &mut impl Grants, from: &ObjectKey, to: Reference<'_>) -> Result<Permit, RefFault> {
    let namespace = to.namespace.unwrap_or_else(|| from.namespace());
    if namespace != from.namespace() && !to.is_of_cluster() && !is_granted(grants, from, to, namespace) {
        let kind = to.kind;
        let text = format!(
            "{kind} {namespace}/{} is in another namespace and no ReferenceGrant there allows it; add a ReferenceGrant in \
             namespace {namespace} that allows {} of {} to {kind}",
            to.name,
            from.kind_name(),
            from.namespace(),
        );
        return Err(RefFault { reason: RefReason::NotPermitted, text: text.into() });
    }
    Ok(Permit { target: to.object(from.namespace()) })
}

/// The uses that a grant allows: any of `from` with any of `to`. An index of what [`api::reference_grant::ReferenceGrantSpec::allows`] says.
pub(crate) fn uses(grant: &ReferenceGrant) -> Vec<GrantUse> {
    let namespace: Arc<str> = grant.meta.namespace().into();
    let pairs = grant.spec.from.iter().flat_map(|from| grant.spec.to.iter().map(move |to| (from, to)));
    pairs
        .map(|(from, to)| GrantUse {
            from_group: (&*from.group).into(),
            from_kind: (&*from.kind).into(),
            from_namespace: (&*from.namespace).into(),
            to_group: (&*to.group).into(),
            to_kind: (&*to.kind).into(),
            to_namespace: namespace.clone(),
            to_name: to.only().map(Arc::from),
        })
        .collect()
}

fn is_granted(grants: &mut impl Grants, from: &ObjectKey, to: Reference<'_>, namespace: &str) -> bool {
    let mut wanted = GrantUse {
        from_group: from.group().into(),
        from_kind: from.kind_name().into(),
        from_namespace: from.namespace().into(),
        to_group: to.group.into(),
        to_kind: to.kind.into(),
        to_namespace: namespace.into(),
        to_name: None,
    };
    if grants.granted(&wanted) {
        return true;
    }
    wanted.to_name = Some(to.name.into());
    grants.granted(&wanted)
}

impl<'a> From<&'a api::reference::BackendObjectRef> for Reference<'a> {
    fn from(reference: &'a api::reference::BackendObjectRef) -> Self {
        let api::reference::BackendObjectRef { group, kind, namespace, name, .. } = reference;
        Self { group, kind, namespace: namespace.as_deref(), name }
    }
}

impl<'a> From<&'a api::reference::SecretRef> for Reference<'a> {
    fn from(reference: &'a api::reference::SecretRef) -> Self {
        let api::reference::SecretRef { group, kind, namespace, name } = reference;
        Self { group, kind, namespace: namespace.as_deref(), name }
    }
}

impl<'a> From<&'a api::reference::ObjectRef> for Reference<'a> {
    fn from(reference: &'a api::reference::ObjectRef) -> Self {
        let api::reference::ObjectRef { group, kind, namespace, name } = reference;
        Self { group, kind, namespace: namespace.as_deref(), name }
    }
}

impl<'a> From<&'a api::reference::LocalObjectRef> for Reference<'a> {
    fn from(reference: &'a api::reference::LocalObjectRef) -> Self {
        let api::reference::LocalObjectRef { group, kind, name } = reference;
        Self { group, kind, namespace: None, name }
    }
}

/// `; did you mean X?`, or nothing if no known name is near.
pub(crate) fn did_you_mean<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    api::nearest(name, known).map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}

/// Why objects of a kind cannot be what a reference makes of them (`role`), and what is probably meant: one of these kinds can.
pub(crate) fn unfit(group: &str, kind: &str, role: &str, can: &[Kind]) -> String {
    let meant = match can.iter().find(|one| one.name() == kind) {
        _ if ["core", "v1"].contains(&group) => "the core group is written as \"\"".to_owned(),
        Some(one) if one.group() == group::CORE => {
            format!("{kind} is of the core group, which is written as \"\"")
        }
        Some(one) => format!("{kind} is of group {}", one.group()),
        None => match nearest(kind, can.iter().map(|one| one.name())) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("{} can", one_of(can)),
        },
    };
    format!("{} cannot be {role}: {meant}", kind_text(group, kind))
}

/// `Service, Backend or XBackend`
fn one_of(kinds: &[Kind]) -> String {
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// A kind in words: `Service`, or `kind.group` where the group is not core.
pub(crate) fn kind_text(group: &str, kind: &str) -> String {
    if group == group::CORE { kind.to_owned() } else { format!("{kind}.{group}") }
}
