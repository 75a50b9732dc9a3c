//! `BackendTLSPolicy`: which policy holds for a port of a Service, and what of TLS it makes. One that cannot be used closes the way: its backend has no
//! endpoints then, so that nothing goes there in cleartext or unverified.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::backend_tls_policy::{BackendTlsPolicy, BackendTlsValidation, SubjectAltName as Written, SubjectAltNameType};
use api::reference::{LocalObjectRef, PolicyTargetRef};
use api::{Fault, Kind, ObjectKey};
use ir::cluster::{SubjectAltName, Trust, UpstreamTls};

use crate::backend::object::Lookup;
use crate::backend::{Encryption, SecretPart, SecretUse, holds_bundles, no_bundle};
use crate::backend_traffic_policy::{PolicyTarget, Target};
use crate::key::Age;
use crate::listener::Refusal;
use crate::reference::{Reference, permit, unfit};
use crate::secret::{self, Size};
use crate::status;

/// A policy, judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsPolicy {
    pub(crate) generation: i64,
    pub(crate) targets: Vec<Target>,
    /// What it makes, or why it cannot be used.
    pub(crate) tls: Result<Encryption, TlsFault>,
    /// Why `ResolvedRefs` does not hold where some of several bundles can be used, and are.
    pub(crate) unresolved: Option<Refusal>,
    /// What is written and ignored: reason and words.
    pub(crate) warnings: Vec<(&'static str, String)>,
    /// Precedence among the policies of its namespace.
    pub(crate) age: Age,
    /// Bytes of its bundle, once for each of its targets.
    pub(crate) weight: Size,
}

/// Why a policy cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFault {
    /// `Accepted`.
    pub(crate) accepted: Refusal,
    /// `ResolvedRefs`: none if it holds.
    pub(crate) resolved: Option<Refusal>,
    /// The field at fault, of which whoever reads objects has told.
    pub(crate) written: Option<Box<Fault>>,
}

/// Judges a policy by itself.
pub(crate) fn read(lookup: &mut impl Lookup, key: &ObjectKey, policy: &BackendTlsPolicy) -> TlsPolicy {
    let read = match &policy.spec.fault {
        Some(fault) => Err(TlsFault { written: Some(fault.clone()), ..invalid(&fault.to_string()) }),
        None => upstream(lookup, key, &policy.spec.validation),
    };
    let (tls, unresolved, size) = match read {
        Ok(Verified { tls, bundle, unresolved, size }) => {
            (Ok(Encryption::tls(tls, bundle.into_iter().collect())), unresolved, size)
        }
        Err(fault) => (Err(fault), None, Size::default()),
    };
    let targets = targets(policy);
    let times = u32::try_from(targets.len()).unwrap_or(u32::MAX);
    let ignored = policy.spec.ignored.iter().map(|field| (status::UNSUPPORTED, field.to_string()));
    let options = (!policy.spec.options.is_empty())
        .then(|| (status::UNSUPPORTED, "spec.options: no option is known, they are ignored".to_owned()));
    TlsPolicy {
        generation: policy.meta.generation,
        targets,
        tls,
        unresolved,
        warnings: ignored.chain(options).collect(),
        age: Age::from(&policy.meta),
        weight: Size(size.0.saturating_mul(times)),
    }
}

impl TlsPolicy {
    /// Over what its backends are spoken to.
    pub(crate) fn encryption(&self) -> Encryption {
        self.tls.clone().unwrap_or(Encryption::Closed)
    }

    /// The same where older policies of its namespace have left too little for its bundle: nothing is sent to its targets.
    pub(crate) fn beyond_budget(&self) -> Self {
        let text = format!(
            "the bundle has {} KiB (once for each target), and older BackendTLSPolicies of the namespace leave less of the {} KiB that all may have \
             together: leave out the authorities that are not needed, or use fewer policies",
            self.weight.0,
            secret::MOST_BUNDLES.0
        );
        Self { tls: Err(too_large(&text)), unresolved: None, ..self.clone() }
    }

    /// The field for the sake of which nothing is sent to its targets, and what these are.
    pub(crate) fn closed(&self) -> Option<(&Fault, String)> {
        let fault = self.tls.as_ref().err()?.written.as_deref()?;
        let object = |target: &Target| match target {
            Target::Known(target) | Target::Spoilt(target, _) => Some(target.object.to_string()),
            Target::Refused(..) => None,
        };
        let targets: BTreeSet<String> = self.targets.iter().filter_map(object).collect();
        let named = targets.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        (!named.is_empty()).then_some((fault, named))
    }

    /// The policy as it holds for a target: one that is written with a fault is not sent to.
    pub(crate) fn at(self: Arc<Self>, target: &PolicyTarget) -> Arc<Self> {
        let spoilt = |one: &Target| matches!(one, Target::Spoilt(of, _) if of == target);
        match self.targets.iter().find(|one| spoilt(one)).and_then(Target::fault) {
            None => self,
            Some(fault) => Arc::new(Self { tls: Err(invalid(fault)), ..(*self).clone() }),
        }
    }
}

/// Bundles that a policy may use: only these are parsed.
pub(crate) fn secret_uses(policy: &BackendTlsPolicy) -> Vec<ObjectKey> {
    let namespace = policy.meta.namespace();
    let bundles = policy.spec.validation.ca_certificate_refs.iter();
    bundles.map(|to| Reference::from(to).object(namespace)).collect()
}

/// Kinds that a policy can be about.
const TARGETS: [Kind; 3] = [Kind::Service, Kind::ServiceImport, Kind::Backend];

/// Returns true for a kind that a policy can be about.
pub(crate) fn is_target(kind: Option<Kind>) -> bool {
    kind.is_some_and(|kind| TARGETS.contains(&kind))
}

pub(crate) fn targets(policy: &BackendTlsPolicy) -> Vec<Target> {
    let namespace = policy.meta.namespace();
    let read = |(at, reference): (usize, &PolicyTargetRef)| {
        let object = ObjectKey::new(&reference.group, &reference.kind, namespace, &reference.name);
        let section: Option<Arc<str>> = reference.section_name.as_deref().map(Arc::from);
        if let Some((_, fault)) = policy.spec.bad_targets.iter().find(|(index, _)| *index == at) {
            return spoilt(object, reference, fault.to_string().into());
        }
        match (object.kind(), &section) {
            (Some(Kind::Service | Kind::ServiceImport), _) | (Some(Kind::Backend), None) => {
                Target::Known(PolicyTarget { object, section })
            }
            (Some(Kind::Backend), Some(_)) => {
                let text = format!("{object}: a Backend has no sections").into();
                spoilt(object, reference, text)
            }
            _ => {
                let text = unfit(&reference.group, &reference.kind, "a target", &TARGETS).into();
                spoilt(object, reference, text)
            }
        }
    };
    policy.spec.target_refs.iter().enumerate().map(read).collect()
}

/// A target at fault. Where it is clear enough what is meant nothing is sent there unencrypted, to none of its ports.
fn spoilt(object: ObjectKey, reference: &PolicyTargetRef, fault: Arc<str>) -> Target {
    let meant = match object.kind() {
        Some(kind) => TARGETS.contains(&kind).then_some(kind),
        None => meant_kind(&reference.kind),
    };
    match meant.filter(|_| !object.name().is_empty()) {
        Some(kind) => {
            let object = ObjectKey::of(kind, object.namespace(), object.name());
            Target::Spoilt(PolicyTarget { object, section: None }, fault)
        }
        None => Target::Refused(object, fault),
    }
}

/// Without a kind a Service is meant, as most often.
fn meant_kind(written: &str) -> Option<Kind> {
    let near = || api::nearest(written, TARGETS.map(Kind::name));
    let meant = if written.is_empty() { Some(Kind::Service.name()) } else { near() };
    TARGETS.into_iter().find(|kind| Some(kind.name()) == meant)
}

/// How a certificate is checked.
pub(crate) struct Verified {
    pub(crate) tls: UpstreamTls,
    /// What `tls` names.
    pub(crate) bundle: Option<SecretUse>,
    /// Why not all that is written can be used; it is checked with the rest.
    pub(crate) unresolved: Option<Refusal>,
    /// The size of the bundle.
    pub(crate) size: Size,
}

/// Reads how a certificate is to be checked, as an object says it that lies at `key`.
pub(crate) fn upstream(
    lookup: &mut impl Lookup,
    key: &ObjectKey,
    validation: &BackendTlsValidation,
) -> Result<Verified, TlsFault> {
    let (trust, bundle, unresolved, size) =
        match (&*validation.ca_certificate_refs, validation.well_known_ca_certificates.as_deref()) {
            (references @ [_, ..], None) => {
                let (bundle, size, unresolved) = bundles(lookup, key, references)?;
                (Trust::Bundle(secret::name(&bundle)), Some(bundle), unresolved, size)
            }
            ([], Some("System")) => (Trust::System, None, None, Size::default()),
            ([], Some(word)) => {
                return Err(invalid(&format!("wellKnownCACertificates {word:?} is not supported, System is")));
            }
            _ => return Err(invalid("exactly one of caCertificateRefs and wellKnownCACertificates is needed")),
        };
    let names = validation.subject_alt_names.iter().map(subject_alt_name);
    let tls = UpstreamTls {
        server_name: Some((&*validation.hostname).into()),
        subject_alt_names: names.collect::<Result<_, _>>()?,
        trust,
        certificate: None,
    };
    Ok(Verified { tls, bundle, unresolved, size })
}

fn subject_alt_name(name: &Written) -> Result<SubjectAltName, TlsFault> {
    let lower = |text: &str| Arc::<str>::from(text.to_ascii_lowercase());
    match (&name.name_type, name.hostname.as_deref(), name.uri.as_deref()) {
        (SubjectAltNameType::Hostname, Some(hostname), None) => Ok(SubjectAltName::Dns(lower(hostname))),
        (SubjectAltNameType::Uri, None, Some(uri)) => Ok(SubjectAltName::Uri(uri.into())),
        (SubjectAltNameType::Unknown(word), ..) => {
            Err(invalid(&format!("subjectAltNames of type {word} are not supported, Hostname and URI are")))
        }
        _ => Err(invalid("an entry of subjectAltNames needs exactly the field of its type")),
    }
}

/// What is to be believed: all bundles that can be had, and why that is not all of them.
fn bundles(
    lookup: &mut impl Lookup,
    key: &ObjectKey,
    references: &[LocalObjectRef],
) -> Result<(SecretUse, Size, Option<Refusal>), TlsFault> {
    let (mut found, mut unresolved) = (Vec::with_capacity(references.len()), None);
    for (index, reference) in references.iter().enumerate() {
        match bundle(lookup, key, reference) {
            Ok(object) => found.push(object),
            Err(refusal) => {
                let at = format!("spec.validation.caCertificateRefs[{index}].name");
                unresolved = unresolved.or_else(|| Some(refusal.at(at)));
            }
        }
    }
    match (secret::join(found).map_err(|text| too_large(&text))?, unresolved) {
        (Some((bundle, size)), unresolved) => Ok((bundle, size, unresolved)),
        (None, resolved) => {
            let (text, at) = resolved.as_ref().map_or(("", ""), |refusal| (&*refusal.text, &*refusal.at));
            Err(TlsFault { accepted: Refusal::new("NoValidCACertificate", text).at(at), resolved, written: None })
        }
    }
}

fn bundle(lookup: &mut impl Lookup, key: &ObjectKey, reference: &LocalObjectRef) -> Result<(ObjectKey, Size), Refusal> {
    let LocalObjectRef { group, kind, name } = reference;
    let to = Reference { group, kind, namespace: None, name };
    let permit = permit(lookup, key, to).map_err(|found| Refusal::new(INVALID_BUNDLE, found.text))?;
    let target = permit.target();
    if !holds_bundles(target.kind()) || !lookup.is_served(target) {
        return Err(Refusal::new("InvalidKind", no_bundle(group, kind)));
    }
    match lookup.secret(&permit, SecretPart::Bundle) {
        Some(Ok(usable)) => Ok((target.clone(), usable.size)),
        Some(Err(text)) => Err(Refusal::new(INVALID_BUNDLE, format!("{target}: {text}"))),
        None => Err(Refusal::new(INVALID_BUNDLE, format!("{target} does not exist"))),
    }
}

const INVALID_BUNDLE: &str = "InvalidCACertificateRef";

fn too_large(text: &str) -> TlsFault {
    let refusal = |reason| Refusal::new(reason, text).at(REFERENCES);
    TlsFault { accepted: refusal("NoValidCACertificate"), resolved: Some(refusal(INVALID_BUNDLE)), written: None }
}

/// The field that names bundles.
const REFERENCES: &str = "spec.validation.caCertificateRefs";

fn invalid(text: &str) -> TlsFault {
    TlsFault { accepted: Refusal::new("Invalid", text).at("spec.validation"), resolved: None, written: None }
}
