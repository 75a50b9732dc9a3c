//! TLS towards clients and towards backends. Certificates and bundles always come by name, from secret discovery.

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use ir::SecretName;
use ir::cluster::{Protocol, SubjectAltName, Trust, UpstreamTls};
use ir::listener::{Application, ClientValidation, DownstreamTls};
use prost::{Message, Name};
use proto::envoy::config::core::v3::data_source::Specifier;
use proto::envoy::config::core::v3::{DataSource, TransportSocket, transport_socket};
use proto::envoy::extensions::transport_sockets::tls::v3 as tls;
use proto::envoy::extensions::transport_sockets::tls::v3::certificate_validation_context::TrustChainVerification;
use proto::envoy::extensions::transport_sockets::tls::v3::common_tls_context::{
    CombinedCertificateValidationContext, ValidationContextType,
};
use proto::envoy::extensions::transport_sockets::tls::v3::subject_alt_name_matcher::SanType;
use proto::envoy::extensions::transport_sockets::tls::v3::tls_parameters::TlsProtocol;
use proto::envoy::r#type::matcher::v3::StringMatcher;
use proto::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use proto::google::protobuf::Any;

use crate::resource::{Need, type_url};
use crate::wire::ads;

/// Where the operating system keeps the certificates that it believes: the path of Debian, its children, Alpine and the
/// official Envoy images. Envoy refuses a cluster when the file is not there.
pub const SYSTEM_TRUST_BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Where a reference to a secret leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecretSource {
    /// Secret discovery: the constant of [`ads`].
    Ads,
    /// The secrets written in the same bootstrap.
    Static,
}

/// TLS towards clients: TLS 1.2 and up. Of HTTP they are offered both versions, HTTP/2 before HTTP/1.1; of a stream nobody here knows what is
/// spoken in it, and an offer would choose for the backend.
pub(crate) fn downstream(tls: &DownstreamTls, application: &Application, source: SecretSource) -> TransportSocket {
    let offered: &[&str] = match application {
        Application::Http(_) => &["h2", "http/1.1"],
        _ => &[],
    };
    let context = tls::DownstreamTlsContext {
        common_tls_context: Some(tls::CommonTlsContext {
            tls_certificate_sds_secret_configs: tls.certificates.iter().map(|name| reference(name, source)).collect(),
            alpn_protocols: offered.iter().map(ToString::to_string).collect(),
            validation_context_type: tls.client_validation.as_ref().map(|validation| client(validation, source)),
            ..common()
        }),
        require_client_certificate: tls.client_validation.as_ref().map(|validation| validation.required),
        ..tls::DownstreamTlsContext::default()
    };
    socket(&context)
}

/// TLS towards a backend.
pub(crate) fn upstream(tls: &UpstreamTls, protocol: Protocol, source: SecretSource) -> TransportSocket {
    let alpn = match protocol {
        Protocol::Http1 => "http/1.1",
        Protocol::Http2 => "h2",
    };
    let context = tls::UpstreamTlsContext {
        common_tls_context: Some(tls::CommonTlsContext {
            tls_certificate_sds_secret_configs: tls.certificate.iter().map(|name| reference(name, source)).collect(),
            alpn_protocols: vec![alpn.to_owned()],
            validation_context_type: server(tls, source),
            ..common()
        }),
        sni: tls.server_name.as_deref().filter(|name| !is_address(name)).unwrap_or_default().to_owned(),
        ..tls::UpstreamTlsContext::default()
    };
    socket(&context)
}

/// The secrets that TLS towards clients names.
pub(crate) fn downstream_needs(tls: &DownstreamTls) -> impl Iterator<Item = Need> + '_ {
    tls.certificates.iter().chain(tls.client_validation.iter().map(|validation| &validation.ca)).map(need)
}

/// The secrets that TLS towards a backend names.
pub(crate) fn upstream_needs(tls: &UpstreamTls) -> impl Iterator<Item = Need> + '_ {
    let bundle = match &tls.trust {
        Trust::Bundle(name) => Some(name),
        Trust::System | Trust::Anything => None,
    };
    bundle.into_iter().chain(&tls.certificate).map(need)
}

fn need(secret: &SecretName) -> Need {
    Need { type_url: type_url::SECRET, name: secret.0.clone() }
}

fn socket<M: Message + Name>(context: &M) -> TransportSocket {
    TransportSocket {
        name: "envoy.transport_sockets.tls".to_owned(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(Any::pack(context))),
    }
}

/// As a client, Envoy would stop at TLS 1.2 unless told otherwise.
fn common() -> tls::CommonTlsContext {
    let parameters = tls::TlsParameters {
        tls_minimum_protocol_version: TlsProtocol::TlSv12 as i32,
        tls_maximum_protocol_version: TlsProtocol::TlSv13 as i32,
        ..tls::TlsParameters::default()
    };
    tls::CommonTlsContext { tls_params: Some(parameters), ..tls::CommonTlsContext::default() }
}

fn reference(name: &SecretName, source: SecretSource) -> tls::SdsSecretConfig {
    tls::SdsSecretConfig { name: name.as_str().to_owned(), sds_config: (source == SecretSource::Ads).then(ads) }
}

/// Where a certificate is wished but not required, an untrusted one is let through as well (Gateway API
/// `AllowInsecureFallback`).
fn client(validation: &ClientValidation, source: SecretSource) -> ValidationContextType {
    let bundle = reference(&validation.ca, source);
    if validation.required {
        return ValidationContextType::ValidationContextSdsSecretConfig(bundle);
    }
    combined(
        tls::CertificateValidationContext {
            trust_chain_verification: TrustChainVerification::AcceptUntrusted as i32,
            ..tls::CertificateValidationContext::default()
        },
        bundle,
    )
}

/// `None` verifies nothing.
fn server(tls: &UpstreamTls, source: SecretSource) -> Option<ValidationContextType> {
    let names = tls::CertificateValidationContext {
        match_typed_subject_alt_names: subjects(tls),
        ..tls::CertificateValidationContext::default()
    };
    match &tls.trust {
        Trust::Anything => None,
        Trust::Bundle(bundle) => Some(combined(names, reference(bundle, source))),
        Trust::System => Some(ValidationContextType::ValidationContext(tls::CertificateValidationContext {
            trusted_ca: Some(file(SYSTEM_TRUST_BUNDLE)),
            ..names
        })),
    }
}

fn combined(fixed: tls::CertificateValidationContext, bundle: tls::SdsSecretConfig) -> ValidationContextType {
    ValidationContextType::CombinedValidationContext(CombinedCertificateValidationContext {
        default_validation_context: Some(fixed),
        validation_context_sds_secret_config: Some(bundle),
        ..CombinedCertificateValidationContext::default()
    })
}

/// The names of which a certificate must have one.
fn subjects(tls: &UpstreamTls) -> Vec<tls::SubjectAltNameMatcher> {
    if tls.subject_alt_names.is_empty() {
        return tls.server_name.iter().map(|name| subject(name)).collect();
    }
    let matcher = |name: &SubjectAltName| match name {
        SubjectAltName::Dns(name) => match name.strip_prefix('*') {
            None => subject(name),
            Some(suffix) => typed(SanType::Dns, MatchPattern::Suffix(suffix.to_owned())),
        },
        SubjectAltName::Uri(uri) => typed(SanType::Uri, MatchPattern::Exact(uri.as_ref().to_owned())),
    };
    tls.subject_alt_names.iter().map(matcher).collect()
}

/// Envoy compares a name of type DNS as RFC 6125 wants, wildcards of the certificate included.
fn subject(name: &str) -> tls::SubjectAltNameMatcher {
    let of = if is_address(name) { SanType::IpAddress } else { SanType::Dns };
    typed(of, MatchPattern::Exact(name.to_owned()))
}

fn typed(san_type: SanType, pattern: MatchPattern) -> tls::SubjectAltNameMatcher {
    tls::SubjectAltNameMatcher {
        san_type: san_type as i32,
        matcher: Some(StringMatcher { match_pattern: Some(pattern), ..StringMatcher::default() }),
        ..tls::SubjectAltNameMatcher::default()
    }
}

/// A server name indication is never an address (RFC 6066 3).
fn is_address(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok()
}

fn file(path: &str) -> DataSource {
    DataSource { specifier: Some(Specifier::Filename(path.to_owned())), ..DataSource::default() }
}
