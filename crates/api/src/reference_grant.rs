//! `ReferenceGrant`.

use serde::Deserialize;

use crate::key::ObjectKey;
use crate::kind::Kind;
use crate::resource::{Resource, Spec};

/// Leave for objects of other namespaces to refer to objects of the grant's namespace.
pub type ReferenceGrant = Resource<ReferenceGrantSpec>;

/// `ReferenceGrant.spec`: any of `from` may refer to any of `to`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReferenceGrantSpec {
    /// Who may refer, 1 to 16.
    pub from: Box<[GrantFrom]>,
    /// To what, 1 to 16.
    pub to: Box<[GrantTo]>,
}

impl ReferenceGrantSpec {
    /// Returns true if an object may refer to another, which is of the grant's namespace.
    pub fn allows(&self, from: &ObjectKey, to: &ObjectKey) -> bool {
        self.from.iter().any(|allowed| allowed.is(from)) && self.to.iter().any(|allowed| allowed.is(to))
    }
}

impl Spec for ReferenceGrantSpec {
    const KIND: Kind = Kind::ReferenceGrant;
}

/// `ReferenceGrant.spec.from[]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrantFrom {
    /// Group, empty for core.
    pub group: Box<str>,
    /// Kind.
    pub kind: Box<str>,
    /// Namespace.
    pub namespace: Box<str>,
}

impl GrantFrom {
    fn is(&self, object: &ObjectKey) -> bool {
        *self.group == *object.group() && *self.kind == *object.kind_name() && *self.namespace == *object.namespace()
    }
}

/// `ReferenceGrant.spec.to[]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrantTo {
    /// Group, empty for core.
    pub group: Box<str>,
    /// Kind.
    pub kind: Box<str>,
    /// One object; none is all of the kind.
    pub name: Option<Box<str>>,
}

impl GrantTo {
    /// Returns the name of the only object; none: all of the kind, also where an empty name is written.
    pub fn only(&self) -> Option<&str> {
        self.name.as_deref().filter(|name| !name.is_empty())
    }

    fn is(&self, object: &ObjectKey) -> bool {
        let is_kind = *self.group == *object.group() && *self.kind == *object.kind_name();
        is_kind && self.only().is_none_or(|name| name == object.name())
    }
}
