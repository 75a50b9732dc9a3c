//! [`Target`]: what one watch is about.

use std::fmt;
use std::sync::Arc;

use api::{Kind, ObjectKey, Scope};

use crate::kubernetes::discovery::Served;

/// Objects of one kind: all, those of a namespace, or one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) resource: Resource,
    pub(crate) namespace: Option<Arc<str>>,
    pub(crate) name: Option<Arc<str>>,
}

/// What an API server has objects of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resource {
    /// A kind in a version.
    Kind(Kind, &'static str),
    /// Definitions of kinds, of which only the metadata is read.
    Definitions,
}

impl Resource {
    pub(crate) fn kind(self) -> Option<Kind> {
        match self {
            Self::Kind(kind, _) => Some(kind),
            Self::Definitions => None,
        }
    }

    fn group_version_plural(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Kind(kind, version) => (kind.group(), version, kind.plural()),
            Self::Definitions => ("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
        }
    }

    /// In which version of its API it is read.
    pub(crate) fn api_version(self) -> &'static str {
        self.group_version_plural().1
    }

    /// `plural.group`, as definitions are named and as rights are written.
    pub(crate) fn full_name(self) -> String {
        match self.group_version_plural() {
            ("", _, plural) => plural.to_owned(),
            (group, _, plural) => format!("{plural}.{group}"),
        }
    }

    /// The key of an object with this name.
    pub(crate) fn key(self, namespace: &str, name: &str) -> ObjectKey {
        match self {
            Self::Kind(kind, _) if kind.scope() == Scope::Cluster => ObjectKey::of(kind, "", name),
            Self::Kind(kind, _) => ObjectKey::of(kind, namespace, name),
            Self::Definitions => ObjectKey::new("apiextensions.k8s.io", "CustomResourceDefinition", "", name),
        }
    }
}

impl Target {
    /// All objects.
    pub(crate) fn all(resource: Resource) -> Self {
        Self { resource, namespace: None, name: None }
    }

    /// Those of a namespace.
    pub(crate) fn of(resource: Resource, namespace: &Arc<str>) -> Self {
        Self { namespace: Some(Arc::clone(namespace)), ..Self::all(resource) }
    }

    /// The one of a key.
    pub(crate) fn one(resource: Resource, key: &ObjectKey) -> Self {
        let namespace = Some(key.namespace()).filter(|namespace| !namespace.is_empty()).map(Arc::from);
        Self { resource, namespace, name: Some(key.name().into()) }
    }

    /// The path of its URL.
    pub(crate) fn path(&self) -> String {
        let (group, version, plural) = self.resource.group_version_plural();
        let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        match &self.namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{plural}"),
        }
    }

    /// What of the path's objects is meant.
    pub(crate) fn field_selector(&self) -> Option<String> {
        self.name.as_ref().map(|name| format!("metadata.name={name}"))
    }

    /// The key, where it is one object.
    pub(crate) fn key(&self) -> Option<ObjectKey> {
        let name = self.name.as_deref()?;
        Some(self.resource.key(self.namespace.as_deref().unwrap_or_default(), name))
    }

    /// Whether an object of this key belongs to it.
    pub(crate) fn covers(&self, key: &ObjectKey) -> bool {
        let is = |wanted: &Option<Arc<str>>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        self.resource.kind() == key.kind() && is(&self.namespace, key.namespace()) && is(&self.name, key.name())
    }

    /// Whether its kind is read in this version.
    pub(crate) fn is_served(&self, served: &Served) -> bool {
        match self.resource {
            Resource::Kind(kind, version) => served.get(&kind) == Some(&version),
            Resource::Definitions => true,
        }
    }

    /// Whether there may be objects that belong to both.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let meet = |one: &Option<Arc<str>>, two: &Option<Arc<str>>| match (one, two) {
            (Some(one), Some(two)) => one == two,
            _ => true,
        };
        self.resource.kind() == other.resource.kind()
            && meet(&self.namespace, &other.namespace)
            && meet(&self.name, &other.name)
    }
}

impl fmt::Display for Target {
    /// For people, for example `httproutes.gateway.networking.k8s.io in namespace shop`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource.full_name())?;
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => Ok(()),
        }
    }
}

/// Whether a text can be the name of an object or of a namespace: others are not asked for, as they cannot exist.
pub(crate) fn can_be_name(text: &str) -> bool {
    // Colons are in names of `ClusterTrustBundle`s.
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b':');
    (1..=253).contains(&text.len()) && text.bytes().all(fits) && !text.contains("..") && text != "."
}
