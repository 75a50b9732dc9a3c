//! `BackendTLSPolicy`: which policy holds for a port of a Service, and what of TLS it makes. One that cannot be used closes the way: its backend has no
//! endpoints then, so that nothing goes there in cleartext or unverified.

use std::sync::Arc;

use api::backend_tls_policy::{BackendTlsPolicy, BackendTlsValidation, SubjectAltName as Written, SubjectAltNameType};
use api::reference::{LocalObjectRef, PolicyTargetRef};
use api::{Kind, ObjectKey};
use ir::cluster::{SubjectAltName, Trust, UpstreamTls};

use crate::backend::object::Lookup;
use crate::backend::{SecretPart, SecretUse};
use crate::backend_traffic_policy::{PolicyTarget, Target};
use crate::listener::Refusal;
use crate::reference::{Reference, permit};
use crate::secret::bundle_name;
use crate::status;

/// A policy, judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsPolicy {
    pub(crate) generation: i64,
    pub(crate) targets: Vec<Target>,
    /// What it makes, or why it cannot be used.
    pub(crate) tls: Result<Box<UpstreamTls>, TlsFault>,
    /// Bundles that `tls` names.
    pub(crate) secrets: Box<[SecretUse]>,
    /// What is written and ignored: reason and words.
    pub(crate) warnings: Vec<(&'static str, String)>,
}

/// Why a policy cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFault {
    /// `Accepted`.
    pub(crate) accepted: Refusal,
    /// `ResolvedRefs`: none if it holds.
    pub(crate) resolved: Option<Refusal>,
}

/// Judges a policy by itself.
pub(crate) fn read(lookup: &mut impl Lookup, key: &ObjectKey, policy: &BackendTlsPolicy) -> TlsPolicy {
    let mut secrets = Vec::new();
    let tls = match &policy.spec.fault {
        Some(fault) => Err(invalid(&fault.to_string())),
        None => upstream(lookup, key, &policy.spec.validation, &mut secrets).map(Box::new),
    };
    let ignored = policy.spec.ignored.iter().map(|field| (status::UNSUPPORTED, field.to_string()));
    let options = (!policy.spec.options.is_empty())
        .then(|| (status::UNSUPPORTED, "spec.options: no option is known, they are ignored".to_owned()));
    TlsPolicy {
        generation: policy.meta.generation,
        targets: targets(policy),
        tls,
        secrets: secrets.into(),
        warnings: ignored.chain(options).collect(),
    }
}

/// Bundles that a policy may use: only these are parsed.
pub(crate) fn secret_uses(policy: &BackendTlsPolicy) -> Vec<ObjectKey> {
    let namespace = policy.meta.namespace();
    let bundles = policy.spec.validation.ca_certificate_refs.iter();
    bundles.map(|to| ObjectKey::new(&to.group, &to.kind, namespace, &to.name)).collect()
}

pub(crate) fn targets(policy: &BackendTlsPolicy) -> Vec<Target> {
    let namespace = policy.meta.namespace();
    let read = |reference: &PolicyTargetRef| {
        let object = ObjectKey::new(&reference.group, &reference.kind, namespace, &reference.name);
        let section: Option<Arc<str>> = reference.section_name.as_deref().map(Arc::from);
        match (object.kind(), &section) {
            (Some(Kind::Service), _) | (Some(Kind::Backend), None) => Target::Known(PolicyTarget { object, section }),
            (Some(Kind::Backend), Some(_)) => {
                let text = format!("{object}: a Backend has no sections").into();
                Target::Refused(object, text)
            }
            _ => {
                let text = format!("{object}: this kind cannot be a target, a Service can").into();
                Target::Refused(object, text)
            }
        }
    };
    policy.spec.target_refs.iter().map(read).collect()
}

fn upstream(
    lookup: &mut impl Lookup,
    key: &ObjectKey,
    validation: &BackendTlsValidation,
    secrets: &mut Vec<SecretUse>,
) -> Result<UpstreamTls, TlsFault> {
    let trust = match (&*validation.ca_certificate_refs, validation.well_known_ca_certificates.as_deref()) {
        ([reference], None) => {
            let wanted = bundle(lookup, key, reference)?;
            let trust = Trust::Bundle(bundle_name(&wanted.object));
            secrets.push(wanted);
            trust
        }
        ([], Some("System")) => Trust::System,
        ([], Some(word)) => {
            return Err(invalid(&format!("wellKnownCACertificates {word:?} is not supported, System is")));
        }
        ([_, _, ..], None) => return Err(invalid("several references in caCertificateRefs are not supported")),
        _ => return Err(invalid("exactly one of caCertificateRefs and wellKnownCACertificates is needed")),
    };
    let names = validation.subject_alt_names.iter().map(subject_alt_name);
    Ok(UpstreamTls {
        server_name: Some((&*validation.hostname).into()),
        subject_alt_names: names.collect::<Result<_, _>>()?,
        trust,
        certificate: None,
    })
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

fn bundle(lookup: &mut impl Lookup, key: &ObjectKey, reference: &LocalObjectRef) -> Result<SecretUse, TlsFault> {
    const AT: &str = "spec.validation.caCertificateRefs[0].name";
    let fault = |reason: &'static str, text: String| TlsFault {
        accepted: Refusal::new("NoValidCACertificate", &*text).at(AT),
        resolved: Some(Refusal::new(reason, text).at(AT)),
    };
    let LocalObjectRef { group, kind, name } = reference;
    let to = Reference { group, kind, namespace: None, name };
    let permit = permit(lookup, key, to).map_err(|found| fault("InvalidCACertificateRef", found.text.to_string()))?;
    let target = permit.target();
    if !matches!(target.kind(), Some(Kind::ConfigMap | Kind::Secret)) {
        let text = format!("{kind} of group {group:?} cannot hold CA certificates, a ConfigMap can");
        return Err(fault("InvalidKind", text));
    }
    match lookup.secret(&permit, SecretPart::Bundle) {
        Some(Ok(())) => Ok(SecretUse { object: target.clone(), part: SecretPart::Bundle }),
        Some(Err(text)) => Err(fault("InvalidCACertificateRef", format!("{target}: {text}"))),
        None => Err(fault("InvalidCACertificateRef", format!("{target} does not exist"))),
    }
}

fn invalid(text: &str) -> TlsFault {
    TlsFault { accepted: Refusal::new("Invalid", text).at("spec.validation"), resolved: None }
}
