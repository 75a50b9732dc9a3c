//! Resources of Envoy's as objects: those of Bootes, and our own of the same shape for every other resource.

use serde::Deserialize;

use crate::kind::Kind;
use crate::meta::{Labels, ObjectMeta};
use crate::problem::{Fault, UnitFaults};
use crate::resource::{Resource, Spec};
use crate::selector::{LabelRequirement, LabelSelector};
use crate::tree::Verbatim;

/// The annotation that says what becomes of fields of `config` that the message does not have: with `true` they are errors, with `false`
/// warnings. Without it they are warnings in objects of Bootes, as there, and errors in others.
pub const STRICT: &str = "chancery.io/strict";

/// An Envoy resource for some workloads.
pub type Raw = Resource<RawSpec>;

/// `spec` of an object that holds a resource of Envoy's.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawSpec {
    /// For which workloads of its namespace; none: all.
    pub workload_selector: Option<Box<WorkloadSelector>>,
    /// Whose workloads it is for: those of the namespaces with these labels, of which all but its own have to allow it by a `ReferenceGrant` to
    /// their Pods. None: those of its own namespace.
    pub namespace_selector: Option<Box<LabelSelector>>,
    /// Of several objects for one resource the highest counts, or comes first where they are put together.
    pub priority: i32,
    /// The message in its JSON form.
    pub config: Verbatim,
    /// Where the endpoints are those of a Service: its name and port.
    pub service: Option<Box<ServicePort>>,
    /// Where what is secret in a secret comes from.
    pub secret_ref: Option<Box<RawSecretRef>>,
    /// Why none of it can be used.
    #[serde(skip)]
    pub fault: Option<Box<Fault>>,
    /// Fields beside `config` that are written and not read.
    #[serde(skip)]
    pub ignored: Box<[Fault]>,
}

/// `spec.workloadSelector`: all of it has to hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadSelector {
    /// Labels that must have exactly these values, as Bootes writes them.
    pub labels: Labels,
    /// The same, as Kubernetes writes it.
    pub match_labels: Labels,
    /// Further conditions.
    pub match_expressions: Box<[LabelRequirement]>,
}

impl WorkloadSelector {
    /// Whether a workload with these labels is selected.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        let mut exact = self.labels.iter().chain(self.match_labels.iter());
        exact.all(|(name, value)| labels.get(name) == Some(value))
            && self.match_expressions.iter().all(|requirement| requirement.holds(labels))
    }

    /// Everything that has to hold, as `kubectl` writes selectors, and whether it does for a workload with these labels.
    #[must_use]
    pub fn conditions(&self, labels: &Labels) -> Vec<LabelCondition<'_>> {
        let exact = self.labels.iter().chain(self.match_labels.iter());
        let exact = exact.map(|(label, value)| LabelCondition {
            label,
            words: format!("{label}={value}"),
            holds: labels.get(label) == Some(value),
        });
        let further = self.match_expressions.iter().map(|requirement| LabelCondition {
            label: &requirement.key,
            words: requirement.to_string(),
            holds: requirement.holds(labels),
        });
        exact.chain(further).collect()
    }

    /// A label that every workload must have which is selected, if there is one: by it candidates are found.
    #[must_use]
    pub fn anchor(&self) -> Option<(&str, &str)> {
        self.labels.iter().chain(self.match_labels.iter()).next()
    }
}

/// One thing that a selector asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelCondition<'a> {
    /// The label that it is about.
    pub label: &'a str,
    /// `app=web`, `tier in (a,b)`, `!tier`.
    pub words: String,
    /// Whether it holds.
    pub holds: bool,
}

/// `spec.service`: a port of a Service of the namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    /// Name of the Service.
    pub name: Box<str>,
    /// Its port.
    pub port: u16,
}

/// `spec.secretRef`: a Secret, or one entry of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawSecretRef {
    /// Name of the Secret.
    pub name: Box<str>,
    /// Its namespace; none: that of the object.
    pub namespace: Option<Box<str>>,
    /// The entry, where one is wanted; none: what the kind of secret takes by itself.
    pub key: Option<Box<str>>,
}

impl Spec for RawSpec {
    // Of many kinds: which one, the object itself knows.
    const KIND: Kind = Kind::BootesCluster;

    fn mark(&mut self, found: UnitFaults) {
        self.fault = UnitFaults::first(found.faults);
        self.ignored = found.ignored.into();
    }
}

/// Whether fields of `config` that the message does not have are errors.
#[must_use]
pub fn is_strict(meta: &ObjectMeta) -> bool {
    match meta.annotation(STRICT) {
        Some("true") => true,
        Some("false") => false,
        _ => meta.key.group() != crate::group::BOOTES,
    }
}
