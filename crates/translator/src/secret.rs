//! Secrets and `ConfigMap`s with certificates: parsed, and the key held against its certificate, before a proxy sees them.

mod key;

use std::sync::Arc;

use api::{ClusterTrustBundle, ConfigMap, Kind, ObjectKey, Secret, Timestamp};
use ir::SecretName;
use ir::secret::{Hidden, SecretContent};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::backend::{SecretPart, SecretUse};

/// A certificate or bundle that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// What a proxy gets, or why it gets nothing. The text never quotes the content.
    pub(crate) content: Result<SecretContent, Arc<str>>,
    /// When the first of its certificates ends.
    pub(crate) not_after: Option<Timestamp>,
}

impl Parsed {
    fn bad(text: impl Into<Arc<str>>) -> Self {
        Self { content: Err(text.into()), not_after: None }
    }

    /// Good, or why not: all that readers of the verdict need.
    pub(crate) fn verdict(&self) -> Result<(), Arc<str>> {
        self.content.as_ref().map(drop).map_err(Arc::clone)
    }
}

/// The name under which a proxy asks for a certificate.
pub(crate) fn certificate_name(object: &ObjectKey) -> SecretName {
    format!("secret/{}/{}", object.namespace(), object.name()).into()
}

/// The name of a bundle; a Secret may hold both.
fn bundle_name(object: &ObjectKey) -> String {
    let (namespace, name) = (object.namespace(), object.name());
    match object.kind() {
        Some(Kind::Secret) => format!("secret/{namespace}/{name}/{BUNDLE}"),
        Some(Kind::ClusterTrustBundle) => format!("clustertrustbundle/{name}"),
        _ => format!("configmap/{namespace}/{name}"),
    }
}

/// The name under which a proxy asks for it; of bundles that belong together their names with `+` between them.
pub(crate) fn name(wanted: &SecretUse) -> SecretName {
    if wanted.part == SecretPart::Certificate {
        return certificate_name(&wanted.object);
    }
    let names: Vec<String> = wanted.parts().map(|part| bundle_name(&part.object)).collect();
    names.join("+").into()
}

/// What a proxy gets for it; none as long as a part of it is not there, or bad.
pub(crate) fn content(
    wanted: &SecretUse,
    mut part: impl FnMut(&SecretUse) -> Option<SecretContent>,
) -> Option<SecretContent> {
    if wanted.with.is_empty() {
        return part(wanted);
    }
    let mut joined = Vec::new();
    for one in wanted.parts() {
        let SecretContent::Bundle(Hidden(text)) = part(&one)? else { return None };
        joined.extend_from_slice(&text);
        if !text.ends_with(b"\n") {
            joined.push(b'\n');
        }
    }
    Some(SecretContent::Bundle(Hidden(joined.into())))
}

/// Key of a trust bundle in a Secret or `ConfigMap` (Gateway API `caCertificateRefs`).
const BUNDLE: &str = "ca.crt";

/// Of a Secret that is, perhaps, meant for something else.
pub(crate) const NO_PAIR: &str = "it needs the keys tls.crt and tls.key";

/// The same of a bundle.
pub(crate) const NO_BUNDLE: &str = "it has no key ca.crt";

/// What a Secret that somebody uses can be used for.
pub(crate) fn read_secret(secret: &Secret) -> Vec<(SecretPart, Parsed)> {
    let bundle = secret.spec.get(BUNDLE).map_or_else(|| Parsed::bad(NO_BUNDLE), |text| parse_bundle(BUNDLE, text));
    vec![(SecretPart::Certificate, certificate(secret)), (SecretPart::Bundle, bundle)]
}

/// What a `ConfigMap` that somebody uses can be used for.
pub(crate) fn read_config_map(config_map: &ConfigMap) -> Vec<(SecretPart, Parsed)> {
    let parsed = match config_map.spec.data.get(BUNDLE) {
        Some(text) => parse_bundle(BUNDLE, text.as_bytes()),
        None => Parsed::bad(NO_BUNDLE),
    };
    vec![(SecretPart::Bundle, parsed)]
}

/// What a `ClusterTrustBundle` that somebody uses can be used for.
pub(crate) fn read_trust_bundle(bundle: &ClusterTrustBundle) -> Vec<(SecretPart, Parsed)> {
    vec![(SecretPart::Bundle, parse_bundle("spec.trustBundle", bundle.spec.trust_bundle.as_bytes()))]
}

fn certificate(secret: &Secret) -> Parsed {
    let entry = |name: &str| secret.spec.get(name).filter(|content| !content.is_empty());
    let (Some(chain), Some(key)) = (entry("tls.crt"), entry("tls.key")) else {
        return Parsed::bad(NO_PAIR);
    };
    let not_after = match check_pair(chain, key) {
        Ok(not_after) => not_after,
        Err(text) => return Parsed::bad(text),
    };
    let content = SecretContent::Certificate { chain: Hidden(chain.into()), key: Hidden(key.into()) };
    Parsed { content: Ok(content), not_after }
}

/// What stands in this field of its object.
fn parse_bundle(field: &str, text: &[u8]) -> Parsed {
    match check_chain(text) {
        Ok((_, not_after)) => Parsed { content: Ok(SecretContent::Bundle(Hidden(text.into()))), not_after },
        Err(error) => Parsed::bad(format!("{field}: {error}")),
    }
}

pub(crate) fn check_pair(chain: &[u8], key: &[u8]) -> Result<Option<Timestamp>, String> {
    let (leaf, not_after) = check_chain(chain).map_err(|error| format!("tls.crt: {error}"))?;
    let (_, leaf) = X509Certificate::from_der(&leaf).map_err(|_| "tls.crt: the first certificate cannot be read")?;
    key::check(leaf.public_key(), key).map_err(|error| format!("tls.key: {error}"))?;
    Ok(not_after)
}

/// Certificates to trust.
pub(crate) fn check_bundle(text: &[u8]) -> Result<Option<Timestamp>, String> {
    check_chain(text).map(|(_, not_after)| not_after)
}

/// The first certificate, and when the first of them ends. Every certificate has to be readable.
fn check_chain(text: &[u8]) -> Result<(CertificateDer<'static>, Option<Timestamp>), String> {
    let mut first = None;
    let mut not_after: Option<i64> = None;
    for (number, certificate) in CertificateDer::pem_slice_iter(text).enumerate() {
        let certificate = certificate.map_err(|_| format!("block {} is not PEM", number + 1))?;
        let (rest, parsed) = X509Certificate::from_der(&certificate)
            .map_err(|_| format!("certificate {} cannot be read", number + 1))?;
        if !rest.is_empty() {
            return Err(format!("certificate {} has something behind it", number + 1));
        }
        let ends = parsed.validity().not_after.timestamp();
        not_after = Some(not_after.map_or(ends, |earlier| earlier.min(ends)));
        first.get_or_insert(certificate);
    }
    let first = first.ok_or("it holds no certificate in PEM")?;
    Ok((first, not_after.map(Timestamp)))
}

#[cfg(test)]
mod tests;
