//! Who a client's certificate says it is. That it was given by an authority of ours has been verified.

use std::time::{Duration, Instant};

use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::server::gate::Identity;

/// The identity in a certificate: its SPIFFE URI, else its first DNS name that is no wildcard. Several SPIFFE URIs are none, as
/// the standard of SPIFFE certificates wants.
pub(super) fn identity(certificate: &CertificateDer<'_>, now: UnixTime) -> Option<Identity> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let names = &certificate.subject_alternative_name().ok()??.value.general_names;
    let mut spiffe = names.iter().filter_map(|name| match name {
        GeneralName::URI(uri) if uri.starts_with("spiffe://") => Some(*uri),
        _ => None,
    });
    let mut dns = names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) if !name.contains('*') && !name.is_empty() => Some(*name),
        _ => None,
    });
    let name = match (spiffe.next(), spiffe.next()) {
        (Some(uri), None) => uri,
        (Some(_), Some(_)) => return None,
        (None, _) => dns.next()?,
    };
    // the last second belongs to it
    let until = u64::try_from(certificate.validity().not_after.timestamp()).ok()?.saturating_add(1);
    let left = Duration::from_secs(until).checked_sub(Duration::from_secs(now.as_secs()))?;
    // a certificate without end has 9999 as its year: that is beyond every connection
    Some(Identity { name: name.into(), expires: Instant::now().checked_add(left) })
}
