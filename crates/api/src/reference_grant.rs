//! `ReferenceGrant`.

use serde::Deserialize;

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
