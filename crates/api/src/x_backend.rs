//! `XBackend` of Gateway API (GEP-4894, experimental): a target with how it is spoken to, be it Pods or a name elsewhere.

use serde::Deserialize;

use crate::backend_tls_policy::BackendTlsValidation;
use crate::http_route::SessionPersistence;
use crate::kind::Kind;
use crate::meta::Labels;
use crate::open::open_enum;
use crate::problem::{Fault, UnitFaults};
use crate::reference::SecretRef;
use crate::resource::{Resource, Spec};

/// Something to send to, with how that is done.
pub type XBackend = Resource<XBackendSpec>;

/// `XBackend.spec`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct XBackendSpec {
    /// Which of the fields of this name counts.
    #[serde(rename = "type")]
    pub backend_type: XBackendType,
    /// Port of the endpoints.
    pub port: XBackendPort,
    /// For `ExternalHostname`.
    pub external_hostname: Option<ExternalHostname>,
    /// For `EndpointSelector`.
    pub endpoint_selector: Option<EndpointSelector>,
    /// What is spoken; none leaves it to the route.
    pub protocol: Option<XBackendProtocol>,
    /// TLS towards the endpoints.
    pub tls: Option<Box<XBackendTls>>,
    /// Sticky sessions, for `EndpointSelector`.
    pub session_persistence: Option<Box<SessionPersistence>>,
    /// Why none of it can be used.
    #[serde(skip)]
    pub fault: Option<Box<Fault>>,
}

impl Spec for XBackendSpec {
    const KIND: Kind = Kind::XBackend;

    fn mark(&mut self, found: UnitFaults) {
        self.fault = UnitFaults::first(found.faults);
    }
}

open_enum! {
    /// `XBackend.spec.type`.
    XBackendType {
        /// A name that is resolved.
        ExternalHostname = "ExternalHostname",
        /// Pods of the namespace.
        EndpointSelector = "EndpointSelector",
    }
}

/// `XBackend.spec.port`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct XBackendPort {
    /// 1 to 65535; 0 where it is not written.
    pub number: u16,
}

/// `XBackend.spec.externalHostname`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExternalHostname {
    /// A DNS name, not of the cluster.
    pub hostname: Box<str>,
}

/// `XBackend.spec.endpointSelector`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSelector {
    /// Labels that a Pod has to have, 1 to 64.
    pub match_labels: Labels,
}

open_enum! {
    /// `XBackend.spec.protocol`.
    XBackendProtocol {
        /// Whatever comes.
        Tcp = "TCP",
        /// HTTP.
        Http = "HTTP",
        /// HTTP/2 over TLS.
        Http2 = "HTTP2",
        /// HTTP/1.1.
        Http11 = "HTTP11",
        /// HTTP/2 in clear text.
        H2c = "H2C",
        /// Model Context Protocol, over HTTP.
        Mcp = "MCP",
        /// gRPC.
        Grpc = "GRPC",
        /// WebSocket over TLS.
        Wss = "WSS",
    }
}

/// `XBackend.spec.tls`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct XBackendTls {
    /// Who shows a certificate.
    pub mode: XBackendTlsMode,
    /// What is checked, unless the mode is `None`.
    pub validation: Option<Box<BackendTlsValidation>>,
    /// What is shown, for `ClientAndServer`.
    pub client_certificate_ref: Option<SecretRef>,
}

open_enum! {
    /// `XBackend.spec.tls.mode`.
    XBackendTlsMode {
        /// No TLS.
        None = "None",
        /// The endpoint shows a certificate.
        ServerOnly = "ServerOnly",
        /// Both do.
        ClientAndServer = "ClientAndServer",
    }
}
