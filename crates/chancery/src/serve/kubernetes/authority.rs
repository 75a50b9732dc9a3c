//! The authority that proxies trust: kept in a Secret that all replicas share, and replaced before it ends without anybody losing trust.
//! Pure: the Secret comes in as it is, and comes out as it shall be.
//!
//! | key | holds |
//! |---|---|
//! | `tls.crt`, `tls.key` | who signs |
//! | `next.crt`, `next.key` | who signs next: proxies learn to trust it first |
//! | `ca.crt` | whom proxies trust: both, and who signed before |
//!
//! A Secret that is not marked as ours comes from elsewhere: it is used as it is and never written.

use std::time::Duration;

use api::Timestamp;
use provider::kubernetes::Kept;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, SanType,
};
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::time::ASN1Time;

#[cfg(test)]
mod tests;

/// The label of a Secret that is ours.
const OURS: (&str, &str) = ("app.kubernetes.io/managed-by", "chancery");

/// The trust domain of certificates that Chancery's own authority signs for proxies.
pub(crate) const TRUST_DOMAIN: &str = "cluster.local";

/// Clocks may differ by this much.
const SKEW: Duration = Duration::from_mins(5);

/// How long what holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    /// An authority; the next one is made when a third of it is left.
    pub(crate) authority: Duration,
    /// How long proxies have to learn of the next authority before it signs. A kubelet brings a changed `ConfigMap` into a Pod within some two
    /// minutes.
    pub(crate) overlap: Duration,
    /// A server's certificate; the next one is made when a third of it is left.
    pub(crate) server: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            authority: Duration::from_hours(365 * 24),
            overlap: Duration::from_mins(10),
            server: Duration::from_hours(24),
        }
    }
}

/// A certificate with its key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Who signs, and whom proxies trust.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Authority {
    signer: Pair,
    /// Certificates as PEM.
    pub(crate) trusted: String,
    /// Chancery made it, and it signs for Chancery's proxies only.
    pub(crate) is_ours: bool,
}

/// What the certificate of an authority is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It signs.
    Signs,
    /// It signs next: proxies learn of it.
    Next,
    /// It signed before, and proxies trust it as long as it holds.
    Trusted,
}

/// The certificate of an authority, as people are shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) role: Role,
    /// Whose it is: its subject.
    pub(crate) subject: String,
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
}

/// Whether a Secret is ours to write.
pub(crate) fn is_ours(kept: &Kept) -> bool {
    kept.labels.get(OURS.0).is_some_and(|value| value == OURS.1)
}

/// Who signs, who signs next, and whom proxies trust beside them.
pub(crate) fn list(kept: &Kept) -> Vec<Listed> {
    // A certificate chain may follow who signs.
    let of_pair = |name, role| {
        pair(kept, name).and_then(|pair| Some((role, certificates(&pair.certificate).into_iter().next()?)))
    };
    let trusted = text(kept, "ca.crt").map(|pem| certificates(&pem)).unwrap_or_default();
    let mut known: Vec<String> = Vec::new();
    let mut all = Vec::new();
    let signing = of_pair("tls", Role::Signs).into_iter().chain(of_pair("next", Role::Next));
    for (role, pem) in signing.chain(trusted.into_iter().map(|pem| (Role::Trusted, pem))) {
        if !known.contains(&pem) {
            all.extend(listed(role, &pem));
            known.push(pem);
        }
    }
    all
}

fn listed(role: Role, pem: &str) -> Option<Listed> {
    let (subject, (from, until)) = in_certificate(pem, |found| (found.subject().to_string(), validity(found)))?;
    Some(Listed { role, subject, from: Timestamp(from), until: Timestamp(until) })
}

/// What the first certificate of a text says.
fn in_certificate<T>(pem: &str, read: impl FnOnce(&X509Certificate<'_>) -> T) -> Option<T> {
    let (pem, _) = Pem::read(std::io::Cursor::new(pem)).ok()?;
    let (_, certificate) = X509Certificate::from_der(&pem.contents).ok()?;
    Some(read(&certificate))
}

fn validity(certificate: &X509Certificate<'_>) -> (i64, i64) {
    let validity = certificate.validity();
    (validity.not_before.timestamp(), validity.not_after.timestamp())
}

/// The next authority, and since when this process has seen proxies being told of it. In memory: what is announced while nobody runs, or by
/// somebody whose clock is wrong, and what a restart forgets, is given its time again.
#[derive(Debug, Default)]
pub(crate) struct Announced(Option<(String, Timestamp)>);

impl Announced {
    /// Whether proxies have had the time to learn of it: of one that `ca.crt` does not have they have not been told.
    fn is_known(&mut self, next: &Pair, kept: &Kept, now: Timestamp, terms: Terms) -> bool {
        let told = certificates(&text(kept, "ca.crt").unwrap_or_default()).contains(&next.certificate);
        let since = self.0.take().filter(|(seen, _)| *seen == next.certificate).map_or(now, |(_, since)| since);
        self.0 = told.then(|| (next.certificate.clone(), since));
        told && now.0 >= since.0 + seconds(terms.overlap)
    }
}

/// What a Secret means at a moment: the authority, and the Secret if it has to be written first.
pub(crate) fn look(
    found: Option<Kept>,
    now: Timestamp,
    terms: Terms,
    announced: &mut Announced,
) -> Result<(Authority, Option<Kept>), String> {
    match found {
        Some(kept) if !is_ours(&kept) => current(&kept).map(|all| (all, None)),
        found => {
            let old = found.unwrap_or_else(fresh);
            let mut new = old.clone();
            let authority = renew(&mut new, now, terms, announced)?;
            Ok((authority, (new != old).then_some(new)))
        }
    }
}

/// Asks for another authority before its time: it is announced, and signs when proxies know it.
pub(crate) fn announce_next(kept: &mut Kept, now: Timestamp, terms: Terms) -> Result<(), String> {
    put(kept, "next", &authority_pair(now, terms.authority)?);
    Ok(())
}

/// A certificate for a server with these names.
pub(crate) fn server_certificate(
    authority: &Authority,
    hosts: &[String],
    now: Timestamp,
    terms: Terms,
) -> Result<Pair, String> {
    let mut params = CertificateParams::new(hosts).map_err(words)?;
    params.distinguished_name = named("Chancery");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    valid(&mut params, now, terms.server)?;
    signed(params, &authority.signer)
}

/// A certificate for proxies of a Gateway (trust domain, `namespace/name`). It holds no longer than who signs it.
pub(crate) fn proxy_certificate(
    authority: &Authority,
    (domain, gateway): (&str, &str),
    now: Timestamp,
    life: Duration,
) -> Result<Pair, String> {
    let (_, end) = span(&authority.signer.certificate).filter(|(_, end)| *end > now.0).ok_or("who signs has ended")?;
    let mut params = CertificateParams::default();
    params.distinguished_name = named("Chancery proxy");
    let identity = format!("spiffe://{domain}/{gateway}").try_into().map_err(words)?;
    params.subject_alt_names = vec![SanType::URI(identity)];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    valid(&mut params, now, life.min(Duration::from_secs(u64::try_from(end - now.0).unwrap_or_default())))?;
    signed(params, &authority.signer)
}

fn signed(mut params: CertificateParams, Pair { certificate, key }: &Pair) -> Result<Pair, String> {
    params.use_authority_key_identifier_extension = true;
    let issuer = Issuer::from_ca_cert_pem(certificate, KeyPair::from_pem(key).map_err(words)?).map_err(words)?;
    let key = KeyPair::generate().map_err(words)?;
    let own = params.signed_by(&key, &issuer).map_err(words)?.pem();
    // An authority from elsewhere may itself be signed by one that is trusted.
    Ok(Pair { certificate: own + certificate, key: key.serialize_pem() })
}

/// When a certificate ends; none if it cannot be read.
pub(crate) fn end(certificate: &str) -> Option<Timestamp> {
    span(certificate).map(|(_, end)| Timestamp(end))
}

/// Whether two thirds of the time of a certificate are over.
pub(crate) fn is_due(certificate: &str, now: Timestamp) -> bool {
    span(certificate).is_none_or(|(from, to)| now.0 >= to - (to - from) / 3)
}

fn fresh() -> Kept {
    Kept::new("kubernetes.io/tls", [(OURS.0.to_owned(), OURS.1.to_owned())].into())
}

/// The authority as a Secret has it: `ca.crt` says whom to trust, or what signs does.
pub(crate) fn current(kept: &Kept) -> Result<Authority, String> {
    let signer = pair(kept, "tls")
        .ok_or("it has no usable tls.crt and tls.key: a certificate authority and its own private key as PEM")?;
    let trusted = text(kept, "ca.crt").unwrap_or_else(|| signer.certificate.clone());
    Ok(Authority { signer, trusted, is_ours: is_ours(kept) })
}

/// Brings the Secret into line with the time.
fn renew(kept: &mut Kept, now: Timestamp, terms: Terms, announced: &mut Announced) -> Result<Authority, String> {
    let current = pair(kept, "tls").filter(|pair| is_valid(&pair.certificate, now));
    let next = pair(kept, "next").filter(|pair| is_valid(&pair.certificate, now));
    let signer = match (current, next) {
        (Some(current), Some(next)) if !announced.is_known(&next, kept, now, terms) => current,
        (_, Some(next)) => {
            kept.data.retain(|key, _| !key.starts_with("next."));
            next
        }
        (Some(current), None) => {
            if is_due(&current.certificate, now) {
                announce_next(kept, now, terms)?;
            }
            current
        }
        (None, None) => authority_pair(now, terms.authority)?,
    };
    put(kept, "tls", &signer);
    let to_come = text(kept, "next.crt").unwrap_or_default();
    let before = text(kept, "ca.crt").unwrap_or_default();
    let mut trusted: Vec<String> = Vec::new();
    for certificate in [&signer.certificate, &to_come, &before].into_iter().flat_map(|pem| certificates(pem)) {
        if is_valid(&certificate, now) && !trusted.contains(&certificate) {
            trusted.push(certificate);
        }
    }
    let trusted = trusted.concat();
    kept.data.insert("ca.crt".to_owned(), trusted.clone().into_bytes());
    Ok(Authority { signer, trusted, is_ours: true })
}

fn is_valid(certificate: &str, now: Timestamp) -> bool {
    span(certificate).is_some_and(|(from, to)| from <= now.0 && now.0 < to)
}

/// From when to when a certificate holds.
fn span(certificate: &str) -> Option<(i64, i64)> {
    in_certificate(certificate, validity)
}

/// Each certificate of a text, as it is written by [`rcgen`].
fn certificates(pem: &str) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----";
    let parts = pem.split_inclusive(END).filter(|part| part.ends_with(END));
    parts.map(|part| format!("{}\n", part.trim())).collect()
}

fn authority_pair(now: Timestamp, life: Duration) -> Result<Pair, String> {
    let mut params = CertificateParams::default();
    // Each has a name of its own, by which clients tell them apart.
    params.distinguished_name = named(&format!("Chancery {now}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    valid(&mut params, now, life)?;
    let key = KeyPair::generate().map_err(words)?;
    let certificate = params.self_signed(&key).map_err(words)?.pem().replace("\r\n", "\n");
    Ok(Pair { certificate, key: key.serialize_pem() })
}

fn named(name: &str) -> DistinguishedName {
    let mut all = DistinguishedName::new();
    all.push(DnType::CommonName, name);
    all
}

fn valid(params: &mut CertificateParams, now: Timestamp, life: Duration) -> Result<(), String> {
    let time = |at: i64| ASN1Time::from_timestamp(at).map(|time| time.to_datetime()).map_err(|error| error.to_string());
    params.not_before = time(now.0 - seconds(SKEW))?;
    params.not_after = time(now.0 + seconds(life))?;
    Ok(())
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

/// The pair under these keys, if both can be read and belong together.
fn pair(kept: &Kept, name: &str) -> Option<Pair> {
    let (certificate, key) = (text(kept, &format!("{name}.crt"))?, text(kept, &format!("{name}.key"))?);
    let public = KeyPair::from_pem(&key).ok()?.subject_public_key_info();
    let is_its_own = in_certificate(&certificate, |found| found.public_key().raw == public)?;
    is_its_own.then_some(Pair { certificate, key })
}

fn put(kept: &mut Kept, name: &str, Pair { certificate, key }: &Pair) {
    kept.data.insert(format!("{name}.crt"), certificate.clone().into_bytes());
    kept.data.insert(format!("{name}.key"), key.clone().into_bytes());
}

fn text(kept: &Kept, key: &str) -> Option<String> {
    kept.data.get(key).and_then(|value| String::from_utf8(value.clone()).ok())
}

#[expect(clippy::needless_pass_by_value, reason = "what map_err gives")]
fn words(error: rcgen::Error) -> String {
    error.to_string()
}
