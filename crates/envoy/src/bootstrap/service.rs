//! The control plane as a Service of a cluster: the proxy knows it by a certificate, and it knows the proxy by a token. Both come from
//! files that change while the proxy runs; it takes them over.

use std::sync::Arc;

use serde_json::{Value, json};

use super::local::{http2, tcp_keepalive};
use super::{XDS_CLUSTER, any};
use crate::cluster::PROTOCOL_OPTIONS;

/// Where a control plane is that is not on the proxy's machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdsService {
    /// Its host name, which its certificate has.
    pub host: Arc<str>,
    /// Its port.
    pub port: u16,
    /// The folder in which the proxy finds the files of [`secret_files`].
    pub folder: Arc<str>,
    /// The file in which the proxy finds its token.
    pub token: Arc<str>,
}

/// The file with the authorities.
const AUTHORITIES: &str = "xds-authorities.json";
/// The file that says where the token is.
const TOKEN: &str = "xds-token.json";

/// What has to be in the folder: file names and contents. `authorities` are certificates in PEM; whom they sign is believed to be the
/// control plane if it has the right name.
pub fn secret_files(service: &XdsService, authorities: &str) -> [(&'static str, Value); 2] {
    let name = json!({ "sanType": "DNS", "matcher": { "exact": &*service.host } });
    let validation = json!({ "trustedCa": { "inlineString": authorities }, "matchTypedSubjectAltNames": [name] });
    let token = json!({ "secret": { "filename": &*service.token } });
    [(AUTHORITIES, secret("validationContext", validation)), (TOKEN, secret("genericSecret", token))]
}

/// The same name for both: each is alone in its file.
fn secret(kind: &str, content: Value) -> Value {
    let secret = any("envoy.extensions.transport_sockets.tls.v3.Secret", json!({ "name": XDS_CLUSTER, kind: content }));
    json!({ "resources": [secret] })
}

/// A file of a mounted volume is replaced by moving a link in its folder, which is what has to be watched.
fn from_file(path: String, watched: &str) -> Value {
    let source = json!({ "path": path, "watchedDirectory": { "path": watched } });
    json!({ "name": XDS_CLUSTER, "sdsConfig": { "pathConfigSource": source, "resourceApiVersion": "V3" } })
}

/// The way to the control plane: HTTP/2 over TLS, with a token in every call.
pub(super) fn control_plane(service: &XdsService) -> Value {
    let XdsService { host, port, folder, token } = service;
    let tls = any(
        "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        json!({
            "sni": &**host,
            "commonTlsContext": {
                "alpnProtocols": ["h2"],
                // As a client Envoy goes no further than 1.2 by itself.
                "tlsParams": { "tlsMinimumProtocolVersion": "TLSv1_3", "tlsMaximumProtocolVersion": "TLSv1_3" },
                "validationContextSdsSecretConfig": from_file(format!("{folder}/{AUTHORITIES}"), folder),
            },
        }),
    );
    let options = json!({
        "explicitHttpConfig": http2(),
        "httpFilters": [token_filter(folder, token), codec_filter()],
    });
    let address = json!({ "socketAddress": { "address": &**host, "portValue": port } });
    json!({
        "name": XDS_CLUSTER,
        "type": "STRICT_DNS",
        "connectTimeout": "1s",
        "loadAssignment": {
            "clusterName": XDS_CLUSTER,
            "endpoints": [{ "lbEndpoints": [{ "endpoint": { "address": address } }] }],
        },
        "transportSocket": { "name": "envoy.transport_sockets.tls", "typedConfig": tls },
        "typedExtensionProtocolOptions": { PROTOCOL_OPTIONS: any(PROTOCOL_OPTIONS, options) },
        "upstreamConnectionOptions": tcp_keepalive(),
    })
}

/// Puts the token into every call.
fn token_filter(folder: &str, token: &str) -> Value {
    let watched = token.rsplit_once('/').map_or("/", |(folder, _)| folder);
    let credential = any(
        "envoy.extensions.http.injected_credentials.generic.v3.Generic",
        json!({ "credential": from_file(format!("{folder}/{TOKEN}"), watched), "headerValuePrefix": "Bearer " }),
    );
    let injector = any(
        "envoy.extensions.filters.http.credential_injector.v3.CredentialInjector",
        json!({
            "overwrite": true,
            "credential": { "name": "envoy.http.injected_credentials.generic", "typedConfig": credential },
        }),
    );
    json!({ "name": "envoy.filters.http.credential_injector", "typedConfig": injector })
}

/// Ends every chain of upstream filters.
fn codec_filter() -> Value {
    let codec = any("envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec", json!({}));
    json!({ "name": "envoy.filters.http.upstream_codec", "typedConfig": codec })
}
