//! The same with TLS: secrets, a listener that shows one, a cluster that trusts one.

use std::net::SocketAddr;

use proto::envoy::config::cluster::v3::Cluster;
use proto::envoy::config::core::v3::{DataSource, TransportSocket, data_source, transport_socket};
use proto::envoy::config::listener::v3::Listener;
use proto::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, DownstreamTlsContext, SdsSecretConfig, Secret, TlsCertificate,
    UpstreamTlsContext, common_tls_context::ValidationContextType, secret,
};
use proto::google::protobuf::Any;

use super::super::authority::Pair;
use super::{altered, cluster, listener_of, put, source};
use crate::{Change, Need, Resource, TypeUrl};

fn inline(text: &str) -> Option<DataSource> {
    let specifier = Some(data_source::Specifier::InlineBytes(text.as_bytes().to_vec().into()));
    Some(DataSource { specifier, ..DataSource::default() })
}

/// A certificate with its key.
pub(in super::super) fn certificate(name: &str, version: u128, pair: &Pair) -> Change {
    let (certificate_chain, private_key) = (inline(&pair.certificate), inline(&pair.key));
    let certificate = TlsCertificate { certificate_chain, private_key, ..TlsCertificate::default() };
    secret(name, version, secret::Type::TlsCertificate(certificate))
}

/// What a client trusts.
pub(in super::super) fn trusted(name: &str, version: u128, pem: &str) -> Change {
    let context = CertificateValidationContext { trusted_ca: inline(pem), ..CertificateValidationContext::default() };
    secret(name, version, secret::Type::ValidationContext(context))
}

fn secret(name: &str, version: u128, kind: secret::Type) -> Change {
    put(TypeUrl::Secret, name, version, &Secret { name: name.into(), r#type: Some(kind) }, Vec::new())
}

/// [`listener_of`] over TLS with the certificate of this secret.
pub(in super::super) fn tls_listener(name: &str, version: u128, secret: &str, at: SocketAddr) -> Change {
    let context = DownstreamTlsContext {
        common_tls_context: Some(CommonTlsContext {
            tls_certificate_sds_secret_configs: vec![reference(secret)],
            ..CommonTlsContext::default()
        }),
        ..DownstreamTlsContext::default()
    };
    altered(listener_of(name, version, "r", at), |resource: &mut Resource, listener: &mut Listener| {
        resource.needs = [[Need::new(TypeUrl::Route, "r"), Need::new(TypeUrl::Secret, secret)].into()].into();
        for chain in &mut listener.filter_chains {
            chain.transport_socket = transport_socket(Any::pack(&context));
        }
    })
}

/// [`cluster`] over TLS, to a server that the secret `ca` trusts, showing it the certificate `cert`.
pub(in super::super) fn tls_cluster(name: &str, version: u128) -> Change {
    let context = UpstreamTlsContext {
        sni: "server".into(),
        common_tls_context: Some(CommonTlsContext {
            tls_certificate_sds_secret_configs: vec![reference("cert")],
            validation_context_type: Some(ValidationContextType::ValidationContextSdsSecretConfig(reference("ca"))),
            ..CommonTlsContext::default()
        }),
        ..UpstreamTlsContext::default()
    };
    altered(cluster(name, version), |resource: &mut Resource, cluster: &mut Cluster| {
        resource.needs = [["ca", "cert"].map(|name| Need::new(TypeUrl::Secret, name)).into()].into();
        resource.apart = true;
        cluster.transport_socket = transport_socket(Any::pack(&context));
    })
}

fn reference(secret: &str) -> SdsSecretConfig {
    SdsSecretConfig { name: secret.into(), sds_config: source() }
}

fn transport_socket(context: Any) -> Option<TransportSocket> {
    let config_type = Some(transport_socket::ConfigType::TypedConfig(context));
    Some(TransportSocket { name: "tls".into(), config_type })
}
