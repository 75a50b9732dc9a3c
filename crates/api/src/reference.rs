//! References from one object to another.

use serde::{Deserialize, Serialize};

use crate::key::ObjectKey;
use crate::kind::{Kind, group};
use crate::open::open_enum;

/// `ParentReference`: what a route attaches to. Group and kind are filled in (Gateway API defaults).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParentRef {
    /// Group, default `gateway.networking.k8s.io`.
    pub group: Box<str>,
    /// Kind, default `Gateway`.
    pub kind: Box<str>,
    /// Namespace; none means the route's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Box<str>>,
    /// Name.
    pub name: Box<str>,
    /// A listener by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_name: Option<Box<str>>,
    /// Listeners by port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

impl Default for ParentRef {
    fn default() -> Self {
        let (group, kind) = (group::GATEWAY.into(), "Gateway".into());
        Self { group, kind, namespace: None, name: Box::default(), section_name: None, port: None }
    }
}

impl ParentRef {
    /// The object that is meant in an object of this namespace.
    #[must_use]
    pub fn object(&self, namespace: &str) -> ObjectKey {
        ObjectKey::new(&self.group, &self.kind, self.namespace.as_deref().unwrap_or(namespace), &self.name)
    }
}

/// `BackendObjectReference`: where traffic goes. Group and kind are filled in (core Service).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendObjectRef {
    /// Group, default core.
    pub group: Box<str>,
    /// Kind, default `Service`.
    pub kind: Box<str>,
    /// Namespace; none means that of the object that refers.
    pub namespace: Option<Box<str>>,
    /// Name.
    pub name: Box<str>,
    /// Port; required where the target is a Service.
    pub port: Option<u16>,
}

impl ParentRef {
    /// A Gateway as a whole.
    #[must_use]
    pub fn of_gateway(gateway: &ObjectKey) -> Self {
        Self { namespace: Some(gateway.namespace().into()), name: gateway.name().into(), ..Self::default() }
    }
}

impl Default for BackendObjectRef {
    fn default() -> Self {
        Self { group: Box::default(), kind: "Service".into(), namespace: None, name: Box::default(), port: None }
    }
}

/// `SecretObjectReference`: a certificate. Group and kind are filled in (core Secret).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SecretRef {
    /// Group, default core.
    pub group: Box<str>,
    /// Kind, default `Secret`.
    pub kind: Box<str>,
    /// Namespace; none means that of the object that refers.
    pub namespace: Option<Box<str>>,
    /// Name.
    pub name: Box<str>,
}

impl Default for SecretRef {
    fn default() -> Self {
        Self { group: Box::default(), kind: "Secret".into(), namespace: None, name: Box::default() }
    }
}

/// `ObjectReference` and `ParametersReference`: group, kind and name are required, the namespace is not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectRef {
    /// Group, empty for core.
    pub group: Box<str>,
    /// Kind.
    pub kind: Box<str>,
    /// Namespace; none means that of the object that refers (or cluster scope).
    pub namespace: Option<Box<str>>,
    /// Name.
    pub name: Box<str>,
}

/// `LocalObjectReference` and `LocalParametersReference`: an object of the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalObjectRef {
    /// Group, empty for core.
    pub group: Box<str>,
    /// Kind.
    pub kind: Box<str>,
    /// Name.
    pub name: Box<str>,
}

/// `LocalPolicyTargetReferenceWithSectionName`: what a policy is about, in the policy's namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyTargetRef {
    /// Group.
    pub group: Box<str>,
    /// Kind.
    pub kind: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// A listener of a Gateway, a rule of a route, a port of a Service.
    pub section_name: Option<Box<str>>,
}

/// A kind of route: in `allowedRoutes.kinds` and in a listener's `supportedKinds`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteGroupKind {
    /// Group, default `gateway.networking.k8s.io`.
    pub group: Box<str>,
    /// Kind.
    pub kind: Box<str>,
}

impl RouteGroupKind {
    /// Of a kind that we know.
    #[must_use]
    pub fn of(kind: Kind) -> Self {
        Self { group: kind.group().into(), kind: kind.name().into() }
    }
}

impl Default for RouteGroupKind {
    fn default() -> Self {
        Self { group: group::GATEWAY.into(), kind: Box::default() }
    }
}

open_enum! {
    /// `useDefaultGateways` and `defaultScope` (GEP-3793, experimental).
    GatewayScope {
        /// Not a default Gateway, or no use of default Gateways.
        None = "None",
        /// All.
        All = "All",
    }
}
