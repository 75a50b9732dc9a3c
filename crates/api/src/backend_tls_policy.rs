//! `BackendTLSPolicy`: TLS to the endpoints of Services.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::kind::Kind;
use crate::open::open_enum;
use crate::problem::{Fault, Unit, UnitFaults};
use crate::reference::{LocalObjectRef, PolicyTargetRef};
use crate::resource::{Resource, Spec};
use crate::tree::Verbatim;

/// How proxies talk TLS to backends.
pub type BackendTlsPolicy = Resource<BackendTlsPolicySpec>;

/// `BackendTLSPolicy.spec`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendTlsPolicySpec {
    /// What it is about: Services of its namespace, or ports of these by their names; 1 to 16.
    pub target_refs: Box<[PolicyTargetRef]>,
    /// How the backend is known.
    pub validation: BackendTlsValidation,
    /// Options by name; none is known.
    pub options: BTreeMap<Box<str>, Box<str>>,
    /// Why it cannot be used. What it is about is not sent to then.
    #[serde(skip)]
    pub fault: Option<Box<Fault>>,
    /// Targets at fault, by their number, and why. They are its targets nevertheless: what is said of TLS to them is not left out.
    #[serde(skip)]
    pub bad_targets: Box<[(usize, Fault)]>,
    /// It is written so often that its targets are not known: it is for all Services and Backends of its namespace that no other policy is for.
    #[serde(skip)]
    pub for_all: bool,
    /// Fields that are written and not read.
    #[serde(skip)]
    pub ignored: Box<[Fault]>,
}

impl Spec for BackendTlsPolicySpec {
    const KIND: Kind = Kind::BackendTlsPolicy;

    fn mark(&mut self, found: UnitFaults) {
        let (whole, of_targets) = found.faults.into_iter().partition(|(unit, _)| *unit == Unit::WHOLE);
        self.fault = UnitFaults::first(whole);
        let of_targets: Vec<(Unit, Fault)> = of_targets;
        self.bad_targets = of_targets.into_iter().map(|(unit, fault)| (unit.item, fault)).collect();
        self.ignored = found.ignored.into();
    }

    fn keep(&mut self, written: impl FnOnce() -> Verbatim) {
        if self.fault.is_some() && self.target_refs.is_empty() {
            self.target_refs = meant_targets(&written().0);
        } else if !self.bad_targets.is_empty() {
            let written = written();
            for (index, _) in &self.bad_targets {
                let item = written.0.get("targetRefs").and_then(|list| list.get(index));
                if let (Some(target), Some(name)) = (self.target_refs.get_mut(*index), item.and_then(meant_name)) {
                    *target = PolicyTargetRef { name: name.into(), section_name: None, ..std::mem::take(target) };
                }
            }
        }
    }
}

/// Largest number of targets of a policy that is written more than once: 16 texts with all that the API allows. With more it is for everything in its
/// namespace: a target that is left out would be sent to in cleartext.
const MOST_UNITED: usize = 256;

impl BackendTlsPolicySpec {
    /// The policy with what another text of the same identity is for as well: no text opens to cleartext what another one encrypts. None if that is nothing.
    pub(crate) fn united(&self, other: &Self, fault: impl FnOnce() -> String) -> Option<Self> {
        if self.for_all {
            return None;
        }
        let is_named = |target: &PolicyTargetRef| {
            self.target_refs.iter().any(|own| {
                let same_part = own.section_name.is_none() || own.section_name == target.section_name;
                (&own.group, &own.kind, &own.name) == (&target.group, &target.kind, &target.name) && same_part
            })
        };
        let room = MOST_UNITED.saturating_sub(self.target_refs.len());
        let new = other.target_refs.iter().enumerate().filter(|(_, target)| !is_named(target));
        if other.for_all || new.clone().nth(room).is_some() {
            let text = format!(
                "{}; all texts together name more than {MOST_UNITED} targets, so nothing is sent to the Services and Backends of the namespace that no \
                 other BackendTLSPolicy is for; write each policy once",
                fault()
            );
            let fault = Some(Box::new(Fault { path: "metadata.name".into(), text: text.into() }));
            return Some(Self { for_all: true, fault, ..self.clone() });
        }
        let (numbers, new): (Vec<usize>, Vec<PolicyTargetRef>) = new.map(|(at, target)| (at, target.clone())).unzip();
        if new.is_empty() {
            return None;
        }
        let mut united = self.clone();
        let faults = (self.target_refs.len()..).zip(numbers).filter_map(|(at, number)| {
            let (_, fault) = other.bad_targets.iter().find(|(index, _)| *index == number)?;
            Some((at, fault.clone()))
        });
        united.bad_targets = self.bad_targets.iter().cloned().chain(faults).collect();
        united.target_refs = self.target_refs.iter().cloned().chain(new).collect();
        united.fault.get_or_insert_with(|| Box::new(Fault { path: "metadata.name".into(), text: fault().into() }));
        Some(united)
    }
}

/// What is named under a name like that of `targetRefs`, or there though it is no list: the policy is at fault, and nothing is to go there in cleartext.
fn meant_targets(spec: &serde_json::Value) -> Box<[PolicyTargetRef]> {
    let fields = spec.as_object().into_iter().flatten();
    let is_near =
        |name: &str| name.to_ascii_lowercase().starts_with("target") || crate::nearest(name, ["targetRefs"]).is_some();
    fields.filter(|(name, _)| is_near(name)).flat_map(|(_, value)| targets_in(value)).collect()
}

/// The targets that are meant where something is written: each by its name, or as a map with it, in lists and by keys.
fn targets_in(written: &serde_json::Value) -> Box<dyn Iterator<Item = PolicyTargetRef> + '_> {
    let text = |field: &str| written.get(field).and_then(serde_json::Value::as_str);
    let target = |name: &str| PolicyTargetRef {
        group: text("group").unwrap_or_default().into(),
        kind: text("kind").unwrap_or(Kind::Service.name()).into(),
        name: name.into(),
        section_name: None,
    };
    match (written, text("name").or(written.as_str())) {
        (_, Some(name)) => Box::new(std::iter::once(target(name))),
        (serde_json::Value::Array(items), None) => Box::new(items.iter().flat_map(targets_in)),
        (serde_json::Value::Object(fields), None) => Box::new(fields.values().flat_map(targets_in)),
        _ => Box::new(std::iter::empty()),
    }
}

/// The name that a target means which is at fault: that under `name`, else what stands under another name than those of its other fields.
fn meant_name(target: &serde_json::Value) -> Option<&str> {
    const OTHERS: [&str; 6] = ["group", "kind", "name", "namespace", "port", "sectionName"];
    let found = match target {
        serde_json::Value::String(name) => Some(&**name),
        serde_json::Value::Array(items) => items.iter().find_map(meant_name),
        serde_json::Value::Object(fields) => fields.get("name").and_then(meant_name).or_else(|| {
            let mut others = fields.iter().filter(|(field, _)| !OTHERS.contains(&&***field));
            others.find_map(|(field, value)| if value.is_null() { Some(&**field) } else { meant_name(value) })
        }),
        _ => None,
    };
    found.filter(|name| !name.is_empty())
}

/// `BackendTLSPolicy.spec.validation`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendTlsValidation {
    /// Bundles of certificates to believe, in the policy's namespace; up to 8.
    pub ca_certificate_refs: Box<[LocalObjectRef]>,
    /// A well-known bundle: `System`.
    #[serde(rename = "wellKnownCACertificates")]
    pub well_known_ca_certificates: Option<Box<str>>,
    /// The server name that is sent, and that the certificate must have unless `subject_alt_names` is given.
    pub hostname: Box<str>,
    /// Of these names the certificate must have one; up to 5.
    pub subject_alt_names: Box<[SubjectAltName]>,
}

/// `validation.subjectAltNames[]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubjectAltName {
    /// Which of the other fields counts.
    #[serde(rename = "type")]
    pub name_type: SubjectAltNameType,
    /// A host name, or `*.` and one.
    pub hostname: Option<Box<str>>,
    /// A URI such as `spiffe://cluster.local/ns/shop/sa/web`.
    pub uri: Option<Box<str>>,
}

open_enum! {
    /// `subjectAltNames[].type`.
    SubjectAltNameType {
        /// A name of DNS.
        Hostname = "Hostname",
        /// A URI.
        Uri = "URI",
    }
}
