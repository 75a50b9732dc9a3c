//! `Pod`: a workload, of which only the labels are read.

use serde::Deserialize;

use crate::kind::Kind;
use crate::resource::{Resource, Spec};

/// A workload.
pub type Pod = Resource<PodSpec>;

/// `Pod.spec`: nothing of it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
pub struct PodSpec {}

impl Spec for PodSpec {
    const KIND: Kind = Kind::Pod;
}
