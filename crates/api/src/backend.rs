//! `Backend` of Envoy Gateway: a target that is no Service.

use serde::Deserialize;

use crate::kind::Kind;
use crate::open::open_enum;
use crate::problem::{Fault, FieldPath, UnitFaults};
use crate::reference::{LocalObjectRef, SecretRef};
use crate::resource::{Resource, Spec};

/// A target given by addresses.
pub type Backend = Resource<BackendSpec>;

/// `Backend.spec`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendSpec {
    /// Whether the endpoints are listed or resolved per request.
    #[serde(rename = "type")]
    pub backend_type: BackendType,
    /// Endpoints, at most 256.
    pub endpoints: Box<[BackendEndpoint]>,
    /// Application protocols.
    pub app_protocols: Box<[BackendAppProtocol]>,
    /// Used only while the other targets of the rule are unhealthy.
    pub fallback: Option<bool>,
    /// TLS towards the endpoints.
    pub tls: Option<Box<BackendTls>>,
    /// Why none of it can be used.
    #[serde(skip)]
    pub fault: Option<Box<Fault>>,
    /// Fields that are written, guard, and are not built.
    #[serde(skip)]
    pub guards: Box<[FieldPath]>,
}

impl Spec for BackendSpec {
    const KIND: Kind = Kind::Backend;

    fn mark(&mut self, found: UnitFaults) {
        self.fault = UnitFaults::first(found.faults);
        self.guards = found.guards.into();
    }
}

open_enum! {
    /// `Backend.spec.type`.
    BackendType {
        /// `endpoints` lists them.
        Endpoints = "Endpoints",
        /// The Host header says where the request goes.
        DynamicResolver = "DynamicResolver",
    }
}

open_enum! {
    /// `Backend.spec.appProtocols[]`.
    BackendAppProtocol {
        /// HTTP/2 in clear text.
        H2c = "gateway.envoyproxy.io/h2c",
        /// WebSocket in clear text.
        Ws = "gateway.envoyproxy.io/ws",
        /// WebSocket over TLS.
        Wss = "gateway.envoyproxy.io/wss",
    }
}

/// `Backend.spec.endpoints[]`: exactly one of `ip`, `fqdn` and `unix`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendEndpoint {
    /// A DNS name.
    pub fqdn: Option<FqdnEndpoint>,
    /// An address.
    pub ip: Option<IpEndpoint>,
    /// A Unix socket.
    pub unix: Option<UnixEndpoint>,
    /// Zone that it is in.
    pub zone: Option<Box<str>>,
}

/// `endpoints[].fqdn`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FqdnEndpoint {
    /// DNS name.
    pub hostname: Box<str>,
    /// Port, 1 to 65535.
    pub port: u16,
}

/// `endpoints[].ip`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IpEndpoint {
    /// IPv4 or IPv6.
    pub address: Box<str>,
    /// Port, 1 to 65535.
    pub port: u16,
}

/// `endpoints[].unix`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UnixEndpoint {
    /// Path of the socket, at most 108 bytes; `@` in front is the abstract name space.
    pub path: Box<str>,
}

/// `Backend.spec.tls`: the fields that this version reads.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendTls {
    /// Where the CA certificates are: `ConfigMap` or Secret of the same namespace.
    pub ca_certificate_refs: Box<[LocalObjectRef]>,
    /// `System`: the machine's own CA certificates.
    #[serde(rename = "wellKnownCACertificates")]
    pub well_known_ca_certificates: Option<Box<str>>,
    /// Whether the certificate is not checked.
    pub insecure_skip_verify: bool,
    /// Server name to ask for.
    pub sni: Option<Box<str>>,
    /// The certificate to present.
    pub client_certificate_ref: Option<SecretRef>,
    /// Protocols to offer.
    pub alpn_protocols: Box<[Box<str>]>,
}
