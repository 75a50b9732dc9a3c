//! TLS contexts. The bytes of a reference to a secret are a constant for ever.

use ir::cluster::{Protocol, Trust, UpstreamTls};
use ir::listener::{Application, ClientValidation, DownstreamTls};
use prost::Message;
use proto::envoy::config::core::v3::TransportSocket;
use serde_json::Value;

use super::{SecretSource, downstream, reference, upstream};
use crate::testing::expect;

fn context(socket: &TransportSocket) -> Value {
    let mut json = protojson::message_to_json(socket).unwrap();
    let mut context = json["typedConfig"].take();
    context.as_object_mut().unwrap().remove("@type");
    context
}

#[test]
fn the_reference_to_a_secret_never_changes_its_bytes() {
    // envoyproxy/envoy#47309: other bytes make running proxies lose their certificates. Do not update this test.
    let found = reference(&"s".into(), SecretSource::Ads).encode_to_vec();
    assert_eq!(found, [0x0a, 1, b's', 0x12, 4, 0x1a, 0, 0x30, 2]);
    assert_eq!(crate::wire::ads().encode_to_vec(), [0x1a, 0, 0x30, 2]);
}

#[test]
fn clients_get_the_certificates_and_both_versions_of_http() {
    let tls = DownstreamTls { certificates: vec!["secret/ns/a".into(), "secret/ns/b".into()], client_validation: None };
    expect(
        &context(&downstream(&tls, &Application::Http("r".into()), SecretSource::Ads)),
        "
commonTlsContext:
  tlsParams: {tlsMinimumProtocolVersion: TLSv1_2, tlsMaximumProtocolVersion: TLSv1_3}
  alpnProtocols: [h2, http/1.1]
  tlsCertificateSdsSecretConfigs:
  - {name: secret/ns/a, sdsConfig: {ads: {}, resourceApiVersion: V3}}
  - {name: secret/ns/b, sdsConfig: {ads: {}, resourceApiVersion: V3}}
",
    );
}

fn check_validation(required: bool, wanted: &str) {
    let validation = ClientValidation { ca: "configmap/ns/ca".into(), required };
    let tls = DownstreamTls { certificates: vec!["secret/ns/a".into()], client_validation: Some(validation) };
    let mut found = context(&downstream(&tls, &Application::Http("r".into()), SecretSource::Static));
    let common = found["commonTlsContext"].as_object_mut().unwrap();
    common.retain(|field, _| field.to_lowercase().contains("validation"));
    expect(&found, wanted);
}

#[test]
fn a_required_client_certificate_must_be_there_and_trusted() {
    check_validation(
        true,
        "
commonTlsContext: {validationContextSdsSecretConfig: {name: configmap/ns/ca}}
requireClientCertificate: true
",
    );
}

#[test]
fn a_wished_client_certificate_may_be_missing_or_untrusted() {
    check_validation(
        false,
        "
commonTlsContext:
  combinedValidationContext:
    defaultValidationContext: {trustChainVerification: ACCEPT_UNTRUSTED}
    validationContextSdsSecretConfig: {name: configmap/ns/ca}
requireClientCertificate: false
",
    );
}

fn check_upstream(
    trust: Trust,
    server_name: Option<&str>,
    certificate: Option<&str>,
    protocol: Protocol,
    wanted: &str,
) {
    let (server_name, certificate) = (server_name.map(Into::into), certificate.map(Into::into));
    let tls = UpstreamTls { server_name, trust, certificate, ..UpstreamTls::unverified() };
    let mut found = context(&upstream(&tls, protocol, SecretSource::Static));
    found["commonTlsContext"].as_object_mut().unwrap().remove("tlsParams");
    expect(&found, wanted);
}

#[test]
fn a_backend_is_verified_by_name_against_a_bundle_and_shown_a_certificate() {
    check_upstream(
        Trust::Bundle("configmap/ns/ca".into()),
        Some("a.example"),
        Some("secret/ns/client"),
        Protocol::Http2,
        "
commonTlsContext:
  alpnProtocols: [h2]
  tlsCertificateSdsSecretConfigs: [{name: secret/ns/client}]
  combinedValidationContext:
    defaultValidationContext:
      matchTypedSubjectAltNames: [{sanType: DNS, matcher: {exact: a.example}}]
    validationContextSdsSecretConfig: {name: configmap/ns/ca}
sni: a.example
",
    );
}

#[test]
fn a_backend_is_verified_against_the_systems_bundle() {
    check_upstream(
        Trust::System,
        Some("a.example"),
        None,
        Protocol::Http1,
        "
commonTlsContext:
  alpnProtocols: [http/1.1]
  validationContext:
    trustedCa: {filename: /etc/ssl/certs/ca-certificates.crt}
    matchTypedSubjectAltNames: [{sanType: DNS, matcher: {exact: a.example}}]
sni: a.example
",
    );
}

#[test]
fn an_address_is_verified_as_one_and_never_sent_as_a_name() {
    check_upstream(
        Trust::Bundle("ca".into()),
        Some("10.0.0.1"),
        None,
        Protocol::Http1,
        "
commonTlsContext:
  alpnProtocols: [http/1.1]
  combinedValidationContext:
    defaultValidationContext:
      matchTypedSubjectAltNames: [{sanType: IP_ADDRESS, matcher: {exact: 10.0.0.1}}]
    validationContextSdsSecretConfig: {name: ca}
",
    );
}

#[test]
fn a_backend_that_shall_not_be_verified_is_not() {
    check_upstream(
        Trust::Anything,
        Some("a.example"),
        None,
        Protocol::Http1,
        "
commonTlsContext: {alpnProtocols: [http/1.1]}
sni: a.example
",
    );
}

#[test]
fn nothing_is_offered_where_connections_are_passed_on() {
    let tls = DownstreamTls { certificates: vec!["secret/ns/a".into()], client_validation: None };
    let found = context(&downstream(&tls, &Application::Tcp("t".into()), SecretSource::Ads));
    assert_eq!(found["commonTlsContext"].get("alpnProtocols"), None);
}
