//! Listeners: an address, and for each server name what happens to a connection.

use std::net::IpAddr;
use std::sync::Arc;

use serde::Serialize;

use crate::name::{ClusterName, ListenerName, RouteConfigurationName, SecretName, TcpProxyName};

/// One bound port of a fleet. Listeners of the user's API that share a port are one of these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listener {
    /// Unique in the fleet.
    pub name: ListenerName,
    /// Where to bind; empty means every interface, IPv4 and IPv6.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
    /// 1 to 65535; the port that clients see and that redirects name.
    pub port: u16,
    /// The port that is bound in its place, if it is not this one: a Service leads there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mapped_to: Option<u16>,
    /// At least one; in order of server names, the chain without any last. None where datagrams are taken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chains: Vec<FilterChain>,
    /// UDP in place of TCP: the cluster to which the datagrams of each client go, and from which they come back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp: Option<ClusterName>,
}

impl Listener {
    /// The port that is bound.
    pub fn bound_port(&self) -> u16 {
        self.mapped_to.unwrap_or(self.port)
    }
}

/// What happens to connections whose server name (TLS SNI) is one of `server_names`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FilterChain {
    /// Unique in the listener and stable over edits: the hostname, or `*`.
    pub name: Arc<str>,
    /// Exact names or `*.` suffix wildcards; empty takes every connection that no other chain takes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub server_names: Vec<Arc<str>>,
    /// Terminate TLS first; absent on cleartext listeners.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<DownstreamTls>,
    /// What is spoken inside.
    pub application: Application,
}

/// What is spoken on a connection once TLS is off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Application {
    /// HTTP/1.1 and HTTP/2, routed by this route configuration.
    Http(RouteConfigurationName),
    /// Whatever client and backend speak: connections are passed on as this says.
    Tcp(TcpProxyName),
    /// Nothing: the connection is closed. Keeps a port bound whose listeners are all broken.
    Close,
}

/// TLS towards clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DownstreamTls {
    /// Certificates to choose from by key type and name; at least one.
    pub certificates: Vec<SecretName>,
    /// Ask clients for a certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_validation: Option<ClientValidation>,
}

/// How a client's certificate is judged (Gateway API `spec.tls.frontend`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClientValidation {
    /// The trust bundle.
    pub ca: SecretName,
    /// A missing or untrusted certificate ends the handshake (true) or is let through (false).
    pub required: bool,
}
