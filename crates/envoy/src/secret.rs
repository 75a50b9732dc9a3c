//! Secrets: certificates with their keys, and trust bundles.

#[cfg(test)]
mod tests;

use bytes::Bytes;
use ir::Secret;
use ir::secret::{Hidden, SecretContent};
use proto::envoy::config::core::v3::DataSource;
use proto::envoy::config::core::v3::data_source::Specifier;
use proto::envoy::extensions::transport_sockets::tls::v3 as tls;

use crate::resource::{Encoded, type_url};

/// What is written in the place of a secret's content where people read it.
pub const HIDDEN: &str = "<hidden>";

/// A secret with its content. Its bytes must never be logged or shown.
pub fn secret(secret: &Secret) -> Encoded {
    Encoded::whole(type_url::SECRET, secret.name.0.clone(), &message(secret, shown), Vec::new())
}

/// How a content is written.
pub(crate) type Writing = fn(&Hidden) -> DataSource;

/// The content itself.
pub(crate) fn shown(content: &Hidden) -> DataSource {
    DataSource { specifier: Some(Specifier::InlineBytes(Bytes::copy_from_slice(&content.0))), ..DataSource::default() }
}

/// [`HIDDEN`] in its place.
pub(crate) fn hidden(_: &Hidden) -> DataSource {
    DataSource { specifier: Some(Specifier::InlineString(HIDDEN.to_owned())), ..DataSource::default() }
}

pub(crate) fn message(secret: &Secret, write: Writing) -> tls::Secret {
    let content = match &secret.content {
        SecretContent::Certificate { chain, key } => tls::secret::Type::TlsCertificate(tls::TlsCertificate {
            certificate_chain: Some(write(chain)),
            private_key: Some(write(key)),
            ..tls::TlsCertificate::default()
        }),
        SecretContent::Bundle(bundle) => tls::secret::Type::ValidationContext(tls::CertificateValidationContext {
            trusted_ca: Some(write(bundle)),
            ..tls::CertificateValidationContext::default()
        }),
    };
    tls::Secret { name: secret.name.as_str().to_owned(), r#type: Some(content) }
}
