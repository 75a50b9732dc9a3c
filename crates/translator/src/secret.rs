//! Secrets and `ConfigMap`s with certificates: parsed, and the key held against its certificate, before a proxy sees them.

mod key;
mod pem;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::secret::SecretSpec;
use api::{ClusterTrustBundle, ConfigMap, Kind, ObjectKey, Secret, Timestamp};
use ir::SecretName;
use ir::secret::{Hidden, SecretContent};
use memchr::memmem;
use x509_parser::certificate::BasicExtension;
use x509_parser::der_parser::{Oid, oid};
use x509_parser::extensions::{GeneralName, KeyUsage};
use x509_parser::prelude::{FromDer, X509Certificate, X509Extension};
use x509_parser::revocation_list::CertificateRevocationList;

use self::key::PrivateKey;
use crate::backend::{SecretPart, SecretUse};

/// A certificate or bundle that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// What a proxy gets, or why it gets nothing. The text never quotes the content.
    pub(crate) content: Result<SecretContent, Arc<str>>,
    /// When the first of its certificates ends.
    pub(crate) not_after: Option<Timestamp>,
    /// DNS names of a certificate that is shown, in small letters.
    pub(crate) names: Arc<[Arc<str>]>,
    /// Why the object's own pair cannot be used, where all this is of the pair before it.
    pub(crate) fault: Option<Arc<str>>,
}

impl Parsed {
    fn bad(text: impl Into<Arc<str>>) -> Self {
        Self { content: Err(text.into()), not_after: None, names: Arc::default(), fault: None }
    }

    /// Its size if it is good, or why it is not: all that readers of the verdict need.
    pub(crate) fn verdict(&self) -> Verdict {
        let bytes = match self.content.as_ref().map_err(Arc::clone)? {
            SecretContent::Certificate { chain, key } => chain.0.len().saturating_add(key.0.len()),
            SecretContent::Bundle(bundle) => bundle.0.len(),
        };
        let size = Size(u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX));
        Ok(Usable { size, fault: self.fault.clone() })
    }
}

/// A content that can be used, or why it cannot.
pub(crate) type Verdict = Result<Usable, Arc<str>>;

/// A content that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Usable {
    pub(crate) size: Size,
    /// [`Parsed::fault`].
    pub(crate) fault: Option<Arc<str>>,
}

/// A size in KiB, rounded up: a certificate that is renewed has the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub(crate) u32);

/// Largest bundle that is trusted as one: 1 MiB is what a `ConfigMap` of Kubernetes may hold, and the store of Mozilla has 220 KB. An Envoy takes some six
/// times as much for each cluster that has it.
const MOST_BUNDLE: Size = Size(1 << 10);

/// Bytes of bundles that the `BackendTLSPolicy` objects of one namespace may bring into clusters, a policy its bundle once for each of its targets; and
/// those that the listeners of one namespace may bring on a Gateway. 16 MiB are 70 times Mozilla's store of 220 KB, or 8,000 authorities of 2 KB. Each is a product:
/// of 8 bundles there are 255 subsets. An Envoy takes six times as much (40 to 55 MB for 8 MB, measured), so some 100 MB.
pub(crate) const MOST_BUNDLES: Size = Size(16 << 10);

/// Joins the bundles that are trusted together; none where there is none. The same bundles in another order are the same.
pub(crate) fn join(found: Vec<(ObjectKey, Size)>) -> Result<Option<(SecretUse, Size)>, String> {
    let found: BTreeMap<ObjectKey, Size> = found.into_iter().collect();
    let size = Size(found.values().fold(0, |sum, size| size.0.saturating_add(sum)));
    if size > MOST_BUNDLE {
        return Err(format!(
            "the bundles of caCertificateRefs have {} KiB together, and {} can be used: leave out the authorities that are not needed",
            size.0, MOST_BUNDLE.0
        ));
    }
    Ok(SecretUse::bundles(found.into_keys()).map(|bundle| (bundle, size)))
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

/// Returns the words for the author of a backend or a policy. A proxy's own can hold the secret.
pub(crate) fn refused_by_proxies(wanted: &SecretUse) -> Arc<str> {
    let objects: Vec<String> = wanted.parts().map(|part| part.object.to_string()).collect();
    format!("{}: the proxies refuse its content; replace the certificate or the key", objects.join(" and ")).into()
}

/// The object of a certificate or of one bundle with this name.
pub(crate) fn object(name: &str) -> Option<ObjectKey> {
    let mut parts = name.split('/');
    let key = match (parts.next()?, parts.next()?, parts.next()) {
        ("secret", namespace, Some(name)) => ObjectKey::of(Kind::Secret, namespace, name),
        ("configmap", namespace, Some(name)) => ObjectKey::of(Kind::ConfigMap, namespace, name),
        ("clustertrustbundle", name, None) => ObjectKey::of(Kind::ClusterTrustBundle, "", name),
        _ => return None,
    };
    Some(key)
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
    let mut texts = Vec::new();
    for one in wanted.parts() {
        let SecretContent::Bundle(Hidden(text)) = part(&one)? else { return None };
        texts.push(text);
    }
    let (mut joined, mut seen) = (Vec::new(), BTreeSet::new());
    for block in texts.iter().flat_map(|text| pem::written(text)).filter(|block| seen.insert(*block)) {
        joined.extend_from_slice(block);
    }
    Some(SecretContent::Bundle(Hidden(joined.into())))
}

/// Key of a trust bundle in a Secret or `ConfigMap` (Gateway API `caCertificateRefs`).
const BUNDLE: &str = "ca.crt";

/// Of a Secret that is, perhaps, meant for something else.
pub(crate) const NO_PAIR: &str = "it needs the keys tls.crt and tls.key";

/// The same of a bundle.
pub(crate) const NO_BUNDLE: &str = "it has no key ca.crt";

/// Returns the parts of a Secret that is used. `earlier` gives the Secret as it was with its last good pair, and is called where that of today is not good.
pub(crate) fn read_secret(secret: &Secret, earlier: impl FnOnce() -> Option<Arc<Secret>>) -> Vec<(SecretPart, Parsed)> {
    let bundle = secret.spec.get(BUNDLE).map_or_else(|| Parsed::bad(NO_BUNDLE), |text| parse_bundle(BUNDLE, text));
    vec![(SecretPart::Certificate, kept(secret, certificate(secret), earlier)), (SecretPart::Bundle, bundle)]
}

/// The pair before a bad one, where there is one: a certificate and its key may be written one after the other. A Secret without one of the two
/// entries is no pair any more, and another object of the name has no earlier pair.
fn kept(secret: &Secret, pair: Parsed, earlier: impl FnOnce() -> Option<Arc<Secret>>) -> Parsed {
    let Err(text) = &pair.content else { return pair };
    let has_both = ["tls.crt", "tls.key"].iter().all(|name| secret.spec.get(name).is_some());
    let earlier = if has_both { earlier() } else { None };
    let Some(earlier) = earlier.filter(|earlier| earlier.meta.uid() == secret.meta.uid()) else { return pair };
    let text = if &**text == NO_PAIR { "an entry is empty" } else { text };
    let fault = format!("{text}; the certificate and key before these stay served until both belong together");
    Parsed { fault: Some(fault.into()), ..certificate(&earlier) }
}

/// Returns a Secret with the pair that it had before: all other entries are those of today, which may have been replaced because they leaked.
pub(crate) fn with_pair_of(secret: &Secret, earlier: &Secret) -> Secret {
    let entry = |key: &str| {
        let of = if ["tls.crt", "tls.key"].contains(&key) { earlier } else { secret };
        Some((key.into(), of.spec.get(key)?.into()))
    };
    let spec = SecretSpec::new(secret.spec.secret_type.as_deref(), secret.spec.keys().filter_map(entry));
    Secret { meta: secret.meta.clone(), spec }
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
    match read_pair(chain, key) {
        Ok(Pair { chain, key, not_after, names }) => {
            let content = SecretContent::Certificate { chain: Hidden(chain.into()), key: Hidden(key.into()) };
            Parsed { content: Ok(content), not_after, names: names.into(), fault: None }
        }
        Err(text) => Parsed::bad(text),
    }
}

/// What stands in this field of its object.
fn parse_bundle(field: &str, text: &[u8]) -> Parsed {
    match read_bundle(text) {
        Ok(Bundle { text, not_after }) => {
            let content = SecretContent::Bundle(Hidden(text.into()));
            Parsed { content: Ok(content), not_after, names: Arc::default(), fault: None }
        }
        Err(error) => Parsed::bad(format!("{field}: {error}")),
    }
}

/// A certificate chain and its key, each in canonical PEM.
pub(crate) struct Pair {
    pub(crate) chain: Vec<u8>,
    pub(crate) key: Vec<u8>,
    /// The end of the certificate that ends first.
    pub(crate) not_after: Option<Timestamp>,
    /// DNS names of the first certificate, in small letters.
    names: Vec<Arc<str>>,
}

/// Largest number of certificates of a chain. Each client gets all of it in each handshake: chains of public authorities have two to four certificates of
/// 1 KB to 2 KB, so 16 are some 32 KB. Clients refuse much longer ones (OpenSSL's bound is 100 KB).
const MOST_CERTIFICATES: usize = 16;

/// Reads a chain whose first certificate belongs to the key. The error never quotes either.
pub(crate) fn read_pair(chain: &[u8], key: &[u8]) -> Result<Pair, String> {
    let certificates = certificates(chain, Revocations::Skip).map_err(|error| format!("tls.crt: {error}"))?;
    let count = certificates.count;
    if count > MOST_CERTIFICATES {
        return Err(format!(
            "tls.crt: the chain has {count} certificates, and at most {MOST_CERTIFICATES} can be used: keep the certificate and the authorities between it and \
             the one that clients trust"
        ));
    }
    let key = PrivateKey::read(key).map_err(|error| format!("tls.key: {error}"))?;
    let belongs = |der: &Vec<u8>| {
        let parsed = X509Certificate::from_der(der);
        parsed.is_ok_and(|(_, certificate)| key.belongs_to(certificate.public_key()))
    };
    match certificates.ders.iter().position(belongs) {
        Some(0) => {}
        Some(index) => {
            let number = index + 1;
            return Err(format!(
                "tls.key: the key does not belong to the first certificate of tls.crt, but to number {number}: put that one first"
            ));
        }
        None => return Err("tls.key: the key does not belong to the certificate".to_owned()),
    }
    match certificates.ders.first().and_then(|leaf| unusable(leaf)) {
        Some(text) => Err(format!("tls.crt: {text}")),
        None => {
            let names = certificates.ders.first().map(|leaf| names(leaf)).unwrap_or_default();
            Ok(Pair { chain: certificates.text, key: key.pem, not_after: certificates.not_after, names })
        }
    }
}

/// Most DNS names of a certificate that are kept: public authorities give 100.
const MOST_NAMES: usize = 128;

/// DNS names of a certificate, in small letters; none where there are more than are kept.
fn names(leaf: &[u8]) -> Vec<Arc<str>> {
    let Ok((_, leaf)) = X509Certificate::from_der(leaf) else { return Vec::new() };
    let Ok(Some(extension)) = leaf.subject_alternative_name() else { return Vec::new() };
    if extension.value.general_names.len() > MOST_NAMES {
        return Vec::new();
    }
    let dns = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase().into()),
        _ => None,
    };
    extension.value.general_names.iter().filter_map(dns).collect()
}

/// `id-pe-tlsfeature` (RFC 7633).
const TLS_FEATURE: Oid<'static> = oid!(1.3.6.1.5.5.7.1.24);

/// The number 5 in DER, as `status_request` stands in [`TLS_FEATURE`].
const STATUS_REQUEST: &[u8] = &[2, 1, 5];

/// Returns the reason why Envoy refuses a certificate as the first of a chain, though it can be read.
fn unusable(leaf: &[u8]) -> Option<&'static str> {
    let (_, leaf) = X509Certificate::from_der(leaf).ok()?;
    let is_must_staple = |extension: &X509Extension<'_>| {
        extension.oid == TLS_FEATURE && memmem::find(extension.value, STATUS_REQUEST).is_some()
    };
    if leaf.extensions().iter().any(is_must_staple) {
        return Some(
            "the certificate demands a stapled OCSP response, which is not supported: order one without that (must-staple)",
        );
    }
    let signs = |usage: BasicExtension<&KeyUsage>| usage.value.digital_signature();
    let usage = leaf.key_usage().ok().flatten();
    (!key::is_rsa(leaf.public_key()) && !usage.is_none_or(signs))
        .then_some("the certificate's key usage lacks digitalSignature, which TLS needs with this key")
}

/// Certificates to trust, in canonical PEM.
pub(crate) struct Bundle {
    pub(crate) text: Vec<u8>,
    /// The end of the certificate that ends first.
    pub(crate) not_after: Option<Timestamp>,
}

/// Reads certificates to trust, and revocation lists that stand with them: without these a proxy would trust what they revoke.
pub(crate) fn read_bundle(text: &[u8]) -> Result<Bundle, String> {
    let Certificates { text, not_after, .. } = certificates(text, Revocations::Keep)?;
    Ok(Bundle { text, not_after })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Revocations {
    Keep,
    Skip,
}

/// Certificates in their order.
#[derive(Default)]
struct Certificates {
    /// Those that are read, repeated ones included.
    count: usize,
    /// Of a bundle each once, whatever its text repeats.
    ders: Vec<Vec<u8>>,
    /// The same in canonical PEM, with the revocation lists that are kept.
    text: Vec<u8>,
    not_after: Option<Timestamp>,
}

/// Reads all certificates of a text. Each has to be readable, and there has to be one. Blocks of other kinds are left out.
fn certificates(text: &[u8], revocations: Revocations) -> Result<Certificates, String> {
    let (mut found, mut seen) = (Certificates::default(), BTreeSet::new());
    let mut is_new = |der: &Vec<u8>| revocations == Revocations::Skip || seen.insert(der.clone());
    for block in pem::blocks(text) {
        let block = block.map_err(|defect| defect.to_string())?;
        let number = found.count + 1;
        match block.label {
            "CERTIFICATE" | "X509 CERTIFICATE" => {
                let der = block.der().map_err(|defect| defect.to_string())?;
                found.count = number;
                if is_new(&der) {
                    found.add(number, der)?;
                }
            }
            "TRUSTED CERTIFICATE" => {
                return Err(format!(
                    "certificate {number} has the label TRUSTED CERTIFICATE, whose trust settings are not supported: convert it with openssl x509"
                ));
            }
            "X509 CRL" if revocations == Revocations::Keep => {
                let der = block.der().map_err(|defect| defect.to_string())?;
                let is_list = CertificateRevocationList::from_der(&der).is_ok_and(|(rest, _)| rest.is_empty());
                if !is_list {
                    return Err(format!("block {} is no revocation list", block.number));
                }
                if is_new(&der) {
                    pem::write(&mut found.text, "X509 CRL", &der);
                }
            }
            _ => {}
        }
    }
    match found.ders.is_empty() {
        true => Err(pem::mistaken(text).unwrap_or("it holds no certificate in PEM").to_owned()),
        false => Ok(found),
    }
}

impl Certificates {
    fn add(&mut self, number: usize, der: Vec<u8>) -> Result<(), String> {
        let (rest, parsed) =
            X509Certificate::from_der(&der).map_err(|_| format!("certificate {number} cannot be read"))?;
        if !rest.is_empty() {
            return Err(format!("certificate {number} has something behind it"));
        }
        let ends = Timestamp(parsed.validity().not_after.timestamp());
        self.not_after = Some(self.not_after.map_or(ends, |earlier| earlier.min(ends)));
        pem::write(&mut self.text, "CERTIFICATE", &der);
        self.ders.push(der);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
