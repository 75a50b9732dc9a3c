//! Statuses in the shape that Kubernetes gives them.

use std::sync::Arc;

use serde::Serialize;

use crate::gateway::AddressType;
use crate::kind::Kind;
use crate::meta::Timestamp;
use crate::reference::{ParentRef, RouteGroupKind};

/// What of a status belongs to one controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnStatus {
    /// All of it.
    Whole,
    /// The entries that it signed as `controllerName`, of the list of this name, in which so many are allowed of all controllers.
    Entries(&'static str, usize),
}

/// Bound of the API (`RouteStatus.parents`).
pub const MOST_PARENTS: usize = 32;

/// Bound of the API (`PolicyStatus.ancestors`).
pub const MOST_ANCESTORS: usize = 16;

/// Bound of the API (`XBackend.status.ancestors`).
pub const MOST_ANCESTORS_OF_A_BACKEND: usize = 32;

/// Type and reason of the condition on the last entry of a list from which some were left out.
pub const AGGREGATED: &str = "Aggregated";

/// Type of the condition on a target of policies that guard it with fields which are not built.
pub const UNSUPPORTED_POLICY: &str = "UnsupportedPolicy";

impl Kind {
    /// What of the status of an object of this kind is ours; none where there is no such status.
    #[must_use]
    pub const fn own_status(self) -> Option<OwnStatus> {
        match self {
            kind if kind.message().is_some() => Some(OwnStatus::Whole),
            Self::GatewayClass | Self::Gateway | Self::ListenerSet | Self::Backend | Self::EnvoyProxy => {
                Some(OwnStatus::Whole)
            }
            kind if kind.is_route() => Some(OwnStatus::Entries("parents", MOST_PARENTS)),
            Self::XBackend => Some(OwnStatus::Entries("ancestors", MOST_ANCESTORS_OF_A_BACKEND)),
            Self::BackendTlsPolicy
            | Self::BackendTrafficPolicy
            | Self::EnvoyPatchPolicy
            | Self::SecurityPolicy
            | Self::EnvoyExtensionPolicy
            | Self::ClientTrafficPolicy
            | Self::XBackendTrafficPolicy
            | Self::XTelemetryPolicy => Some(OwnStatus::Entries("ancestors", MOST_ANCESTORS)),
            Self::ReferenceGrant
            | Self::Service
            | Self::EndpointSlice
            | Self::Secret
            | Self::ConfigMap
            | Self::ClusterTrustBundle
            | Self::ServiceImport
            | Self::Namespace
            | Self::EnvoyGateway
            | Self::Pod => None,
            // those with a message
            _ => None,
        }
    }
}

/// Types of conditions of ours that tell more than whether an object is in order: they give way where others leave no room.
pub const PASSING_CONDITIONS: [&str; 10] = [
    "AddressesAssigned",
    AGGREGATED,
    "Conflicted",
    "DefaultGateway",
    "InsecureFrontendValidationMode",
    "Overridden",
    "OverlappingTLSConfig",
    "PartiallyInvalid",
    UNSUPPORTED_POLICY,
    "Warning",
];

/// Types of the other conditions of ours.
const STANDING_CONDITIONS: [&str; 4] = ["Accepted", "Programmed", "ResolvedRefs", "SupportedVersion"];

/// Types that Envoy Gateway writes and Chancery does not: where it was before under the same controller name it has left them.
const LEFT_CONDITIONS: [&str; 3] = ["BackendsAvailable", "Merged", "RouteRulesOverlap"];

/// Whether conditions of this type are ours, so that one which we do not say any more goes. Whatever else a status has is somebody else's.
#[must_use]
pub fn is_own_condition(condition_type: &str) -> bool {
    let own = [&PASSING_CONDITIONS[..], &STANDING_CONDITIONS, &LEFT_CONDITIONS];
    own.iter().any(|types| types.contains(&condition_type))
}

/// `metav1.Condition`. Most words of conditions are the same on every object, so they are shared.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type, for example `Accepted`.
    #[serde(rename = "type")]
    pub condition_type: Arc<str>,
    /// True, False or Unknown.
    pub status: ConditionStatus,
    /// Generation of the object that carries the condition.
    pub observed_generation: i64,
    /// When `status` changed last. None until the writer that knows the time fills it in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
    /// One word for machines.
    pub reason: Arc<str>,
    /// A sentence for people, at most 32,768 characters.
    pub message: Arc<str>,
}

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Nobody knows yet.
    Unknown,
}

impl ConditionStatus {
    /// The word as written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl std::fmt::Display for ConditionStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `GatewayClass.status`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayClassStatus {
    /// Conditions by type.
    pub conditions: Vec<Condition>,
    /// Features that the conformance suite may test, sorted, at most 64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub supported_features: Vec<SupportedFeature>,
}

/// `GatewayClass.status.supportedFeatures[]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SupportedFeature {
    /// Name of the feature.
    pub name: Box<str>,
}

/// `Gateway.status`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayStatus {
    /// Addresses that are really bound.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<GatewayStatusAddress>,
    /// How many `ListenerSet`s are attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attached_listener_sets: Option<u32>,
    /// Conditions by type.
    pub conditions: Vec<Condition>,
    /// One entry per listener, in the order of the spec.
    pub listeners: Vec<ListenerStatus>,
}

/// `Gateway.status.addresses[]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayStatusAddress {
    /// Kind of address.
    #[serde(rename = "type")]
    pub address_type: AddressType,
    /// The address.
    pub value: Box<str>,
    /// From where it is reachable (GEP-5093, experimental): empty without a guarantee; none where the API does not know the field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routability: Option<Box<str>>,
}

/// `ListenerSet.status`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerSetStatus {
    /// Conditions by type.
    pub conditions: Vec<Condition>,
    /// One entry per listener, in the order of the spec; none where the Gateway does not take the set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<ListenerStatus>,
}

/// `Gateway.status.listeners[]` and `ListenerSet.status.listeners[]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerStatus {
    /// Name of the listener.
    pub name: Box<str>,
    /// Kinds of routes that may attach.
    pub supported_kinds: Vec<RouteGroupKind>,
    /// How many routes are attached.
    pub attached_routes: u32,
    /// Conditions by type.
    pub conditions: Vec<Condition>,
}

/// `status` of every kind of route.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteStatus {
    /// One entry per parent reference, in the order of the spec.
    pub parents: Vec<RouteParentStatus>,
}

/// `status.parents[]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteParentStatus {
    /// The reference, namespace filled in.
    pub parent_ref: ParentRef,
    /// Who wrote the entry.
    pub controller_name: Arc<str>,
    /// Conditions by type.
    pub conditions: Vec<Condition>,
}

/// `status` of policies.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyStatus {
    /// One entry per Gateway that the policy reaches, at most 16.
    pub ancestors: Vec<PolicyAncestorStatus>,
}

/// `status.ancestors[]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyAncestorStatus {
    /// The Gateway or route.
    pub ancestor_ref: ParentRef,
    /// Who wrote the entry.
    pub controller_name: Arc<str>,
    /// Conditions by type.
    pub conditions: Vec<Condition>,
}

/// `Backend.status`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendStatus {
    /// Conditions by type.
    pub conditions: Vec<Condition>,
}

/// `status` of an object that holds a resource of Envoy's.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RawStatus {
    /// Conditions by type.
    pub conditions: Vec<Condition>,
}

/// `EnvoyProxy.status`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvoyProxyStatus {
    /// One entry per `GatewayClass` and Gateway that names it.
    pub ancestors: Vec<EnvoyProxyAncestorStatus>,
}

/// `EnvoyProxy.status.ancestors[]`. Unlike with policies nobody signs it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvoyProxyAncestorStatus {
    /// The `GatewayClass` or Gateway.
    pub ancestor_ref: ParentRef,
    /// Conditions by type.
    pub conditions: Vec<Condition>,
}

/// The status of an object of any kind that has one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub enum Status {
    /// Of a `GatewayClass`.
    GatewayClass(GatewayClassStatus),
    /// Of a Gateway.
    Gateway(GatewayStatus),
    /// Of a `ListenerSet`.
    ListenerSet(ListenerSetStatus),
    /// Of a route.
    Route(RouteStatus),
    /// Of a policy.
    Policy(PolicyStatus),
    /// Of a `Backend`.
    Backend(BackendStatus),
    /// Of an `EnvoyProxy`.
    EnvoyProxy(EnvoyProxyStatus),
    /// Of an object that holds a resource of Envoy's.
    Raw(RawStatus),
}

impl Status {
    /// The conditions that are about the whole object: of a route and a policy those of each entry.
    pub fn conditions_mut(&mut self) -> Vec<&mut Vec<Condition>> {
        match self {
            Self::GatewayClass(class) => vec![&mut class.conditions],
            Self::Gateway(gateway) => vec![&mut gateway.conditions],
            Self::ListenerSet(set) => vec![&mut set.conditions],
            Self::Backend(backend) => vec![&mut backend.conditions],
            Self::Raw(raw) => vec![&mut raw.conditions],
            Self::Route(route) => route.parents.iter_mut().map(|entry| &mut entry.conditions).collect(),
            Self::Policy(policy) => policy.ancestors.iter_mut().map(|entry| &mut entry.conditions).collect(),
            Self::EnvoyProxy(proxy) => proxy.ancestors.iter_mut().map(|entry| &mut entry.conditions).collect(),
        }
    }
}
