//! `GatewayClass`.

use serde::Deserialize;

use crate::kind::Kind;
use crate::reference::ObjectRef;
use crate::resource::{Resource, Spec};

/// A class of Gateways and the controller that serves it.
pub type GatewayClass = Resource<GatewayClassSpec>;

/// `GatewayClass.spec`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayClassSpec {
    /// `domain/path` of the controller.
    pub controller_name: Box<str>,
    /// Settings for all Gateways of the class, for example an `EnvoyProxy`.
    pub parameters_ref: Option<Box<ObjectRef>>,
    /// For people.
    pub description: Option<Box<str>>,
}

impl Spec for GatewayClassSpec {
    const KIND: Kind = Kind::GatewayClass;
}
