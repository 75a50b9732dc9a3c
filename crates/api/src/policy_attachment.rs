//! `PolicyAttachment`: the targets of a policy of Envoy Gateway, and its fields that guard and are not built.
//!
//! `SecurityPolicy`, `EnvoyExtensionPolicy` and `ClientTrafficPolicy` have nothing else yet: of their settings only the names are kept.

pub(crate) mod loose;
pub(crate) mod remnant;

use std::sync::Arc;

use serde::Deserialize;

use crate::backend_traffic_policy::{BackendTrafficPolicy, BackendTrafficPolicySpec};
use crate::kind::{Kind, Object, group};
use crate::meta::ObjectMeta;
use crate::open::open_enum;
use crate::problem::{Fault, FieldPath, Unit, UnitFaults};
use crate::reference::PolicyTargetRef;
use crate::resource::{Resource, Spec};
use crate::selector::LabelSelector;

/// The targets of a policy, and the reasons to close them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyAttachment {
    /// Deprecated in favour of `target_refs`.
    pub target_ref: Option<Box<PolicyTargetRef>>,
    /// Gateways, `ListenerSet`s and routes of the policy's namespace.
    pub target_refs: Box<[PolicyTargetRef]>,
    /// The same by their labels, of other namespaces too.
    pub target_selectors: Box<[PolicyTargetSelector]>,
    /// Fields that are written, guard, and are not built.
    #[serde(skip)]
    pub guards: Box<[FieldPath]>,
    /// The reason why the policy cannot be used at all, where that may concern what guards.
    #[serde(skip)]
    pub fault: Option<Box<Fault>>,
    /// Items of `target_refs` (from 0) that are not as they have to be, with what is wrong.
    #[serde(skip)]
    pub target_faults: Box<[(usize, Fault)]>,
    /// Fields that are written and ignored.
    #[serde(skip)]
    pub ignored: Box<[Fault]>,
    /// Targets that other texts of the same policy name.
    #[serde(skip)]
    pub further: Box<[PolicyTargetRef]>,
    /// The policy guards, and what for cannot be read: it may be for everything in its namespace.
    #[serde(skip)]
    pub for_all: bool,
    /// The policy cannot be used, or not everything that it is for can be read: this is what is left of it.
    #[serde(skip)]
    pub remnant: bool,
}

/// `targetSelectors[]`: objects of a kind with these labels. A selector without conditions selects all of the kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyTargetSelector {
    /// Group, default `gateway.networking.k8s.io`.
    pub group: Box<str>,
    /// Kind.
    pub kind: Box<str>,
    /// Conditions on the labels of the targets.
    #[serde(flatten)]
    pub labels: LabelSelector,
    /// The namespaces of the targets; none: that of the policy.
    pub namespaces: Option<Box<PolicyTargetNamespaces>>,
}

impl Default for PolicyTargetSelector {
    fn default() -> Self {
        Self { group: group::GATEWAY.into(), kind: Box::default(), labels: LabelSelector::default(), namespaces: None }
    }
}

/// `targetSelectors[].namespaces`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyTargetNamespaces {
    /// Their selection. Others than the policy's own need a `ReferenceGrant` as well.
    pub from: PolicyTargetsFrom,
    /// Conditions on the labels of the namespaces, for `Selector`.
    pub selector: Option<LabelSelector>,
}

open_enum! {
    /// `targetSelectors[].namespaces.from`.
    PolicyTargetsFrom {
        /// The namespace of the policy.
        Same = "Same",
        /// Every namespace.
        All = "All",
        /// Namespaces with the labels of `selector`.
        Selector = "Selector",
    }
}

impl PolicyAttachment {
    /// All named targets, the deprecated field first.
    pub fn targets(&self) -> impl Iterator<Item = &PolicyTargetRef> {
        self.target_ref.as_deref().into_iter().chain(&self.target_refs)
    }

    /// Notes what checking found. Faults of fields below one of `harmless` have nothing to do with what guards.
    pub(crate) fn mark(&mut self, found: UnitFaults, harmless: &[&str]) {
        self.guards = found.guards.into();
        self.ignored = found.ignored.into();
        let (whole, items): (Vec<_>, Vec<_>) = found.faults.into_iter().partition(|(unit, _)| *unit == Unit::WHOLE);
        self.target_faults = items.into_iter().map(|(unit, fault)| (unit.item, fault)).collect();
        let is_harmless = |path: &FieldPath| harmless.iter().any(|field| path.starts_with(field));
        let whole = whole.into_iter().filter(|(_, fault)| !is_harmless(&fault.path));
        self.fault = UnitFaults::first(whole.collect());
    }
}

impl PolicyAttachment {
    /// True if something is wrong with it that may concern what it is for.
    pub(crate) fn is_faulty(&self) -> bool {
        self.fault.is_some() || !self.target_faults.is_empty()
    }

    /// True if nothing is wrong with it but a rule of the whole spec.
    pub(crate) fn lacks_targets_alone(&self) -> bool {
        let is_rule = |fault: &Fault| *fault.path == *"spec";
        self.target_faults.is_empty() && self.fault.as_deref().is_none_or(is_rule)
    }
}

/// Kinds of which nothing but the attachment is read.
macro_rules! unbuilt {
    ($($(#[$meta:meta])* $Policy:ident, $Spec:ident;)+) => {$(
        $(#[$meta])*
        pub type $Policy = Resource<$Spec>;

        /// Its spec.
        #[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
        #[serde(transparent)]
        pub struct $Spec {
            /// All that is kept of it.
            pub attachment: PolicyAttachment,
        }

        impl Spec for $Spec {
            const KIND: Kind = Kind::$Policy;

            fn mark(&mut self, found: UnitFaults) {
                self.attachment.mark(found, &[]);
            }
        }
    )+

        impl Object {
            /// The attachment of a policy; none if it is no policy of Envoy Gateway, or one that changes resources of Envoy's only.
            #[must_use]
            pub fn attachment(&self) -> Option<PolicyAttachment> {
                self.attachment_ref().cloned()
            }

            fn attachment_ref(&self) -> Option<&PolicyAttachment> {
                match self {
                    $(Self::$Policy(policy) => Some(&policy.spec.attachment),)+
                    Self::BackendTrafficPolicy(policy) => Some(&policy.spec.attachment),
                    _ => None,
                }
            }

            pub(crate) fn attachment_mut(&mut self) -> Option<&mut PolicyAttachment> {
                match self {
                    $(Self::$Policy(policy) => Some(&mut Arc::make_mut(policy).spec.attachment),)+
                    Self::BackendTrafficPolicy(policy) => Some(&mut Arc::make_mut(policy).spec.attachment),
                    _ => None,
                }
            }

            /// A policy of which nothing but its attachment is known.
            fn with_attachment(meta: ObjectMeta, attachment: PolicyAttachment) -> Option<Self> {
                match meta.key.kind()? {
                    $(Kind::$Policy => Some($Policy { meta, spec: $Spec { attachment } }.into()),)+
                    Kind::BackendTrafficPolicy => {
                        let fault = attachment.fault.clone();
                        let spec = BackendTrafficPolicySpec { attachment, fault, ..BackendTrafficPolicySpec::default() };
                        Some(BackendTrafficPolicy { meta, spec }.into())
                    }
                    _ => None,
                }
            }
        }

        impl Kind {
            /// True if objects of this kind have an [`Object::attachment`].
            #[must_use]
            pub const fn is_attached(self) -> bool {
                self.is_unbuilt_policy() || matches!(self, Self::BackendTrafficPolicy)
            }

            /// The kind of a target of policies that a name means, whatever its case and its group: Gateways, their sets, and routes.
            #[must_use]
            pub fn of_policy_target(name: &str) -> Option<Self> {
                let can = |kind: &&Self| matches!(kind, Self::Gateway | Self::ListenerSet) || kind.is_route();
                Self::ALL.iter().copied().filter(|kind| can(&kind)).find(|kind| kind.name().eq_ignore_ascii_case(name))
            }

            /// True for a kind of policies of which no field is built.
            #[must_use]
            pub const fn is_unbuilt_policy(self) -> bool {
                matches!(self, $(Self::$Policy)|+)
            }
        }
    };
}

unbuilt! {
    /// Authentication and authorization of requests to a route or Gateway.
    SecurityPolicy, SecurityPolicySpec;
    /// Programs that see the requests of a route or Gateway.
    EnvoyExtensionPolicy, EnvoyExtensionPolicySpec;
    /// The treatment of a Gateway's clients.
    ClientTrafficPolicy, ClientTrafficPolicySpec;
}

#[cfg(test)]
mod tests;
