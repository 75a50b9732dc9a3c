//! Who a client's certificate says it is. That it was given by an authority of ours has been verified.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::server::gate::Peer;

/// What a certificate proves; none if it cannot be read.
pub(super) fn peer(certificate: &CertificateDer<'_>, now: UnixTime) -> Option<Peer> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    // the last second belongs to it
    let until = u64::try_from(certificate.validity().not_after.timestamp()).ok()?.saturating_add(1);
    let left = Duration::from_secs(until.saturating_sub(now.as_secs()));
    // a certificate without end has 9999 as its year
    Some(Peer::Tls(name(&certificate), Instant::now().checked_add(left)))
}

/// Whether this is the name of one host, which no other kind of identity can be taken for (`spiffe://…`).
fn is_host(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

/// Whom a certificate names: its SPIFFE URI, else its first DNS name that is the name of a host and no wildcard. Several SPIFFE URIs are nobody, as the
/// standard of SPIFFE certificates wants.
fn name(certificate: &X509Certificate<'_>) -> Option<Arc<str>> {
    let names = &certificate.subject_alternative_name().ok()??.value.general_names;
    let mut spiffe = names.iter().filter_map(|name| match name {
        GeneralName::URI(uri) if uri.starts_with("spiffe://") => Some(*uri),
        _ => None,
    });
    let mut dns = names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) if is_host(name) => Some(*name),
        _ => None,
    });
    match (spiffe.next(), spiffe.next()) {
        (Some(uri), None) => Some(uri.into()),
        (Some(_), Some(_)) => None,
        (None, _) => dns.next().map(Into::into),
    }
}
