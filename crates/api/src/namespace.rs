//! `Namespace`: its labels are all that we want.

use serde::Deserialize;

use crate::kind::Kind;
use crate::resource::{Resource, Spec};

/// A core Namespace.
pub type Namespace = Resource<NamespaceSpec>;

/// `Namespace.spec`: nothing of it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
pub struct NamespaceSpec {}

impl Spec for NamespaceSpec {
    const KIND: Kind = Kind::Namespace;
}
