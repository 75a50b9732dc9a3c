//! Listeners: an address, and for each server name what happens to a connection.

use std::net::IpAddr;
use std::sync::Arc;

use serde::Serialize;

use crate::name::{ClusterName, ListenerName, RouteConfigurationName, SecretName, TcpProxyName};

/// One bound port of a fleet, at one address of those that are asked for: proxies cannot change the addresses of one that they have.
/// Listeners of the user's API that share a port are one of these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listener {
    /// Unique in the fleet.
    pub name: ListenerName,
    /// Where to bind; none means every interface, IPv4 and IPv6.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
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
    /// What is recorded of each HTTP request; none: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracing: Option<Arc<Tracing>>,
    /// Some cluster has a retry budget, so that there is something to answer requests which it leaves no room for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub retry_budgets: bool,
}

/// Traces of HTTP requests, as OpenTelemetry has them (GEP-4768).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tracing {
    /// Who gets the spans, by OTLP over gRPC.
    pub collector: ClusterName,
    /// For whom they are, in the words of whoever wrote the reference (`otel.monitoring`): the cluster's name is none that HTTP allows.
    pub authority: Arc<str>,
    /// Sent along with them; without `%`, which would begin a command of the proxy's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(Arc<str>, Arc<str>)>,
    /// `service.name` of the spans.
    pub service_name: Arc<str>,
    /// The name of a span, without `%`; none: the proxy's own choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span_name: Option<Arc<str>>,
    /// The share of the requests of which a trace is begun, in millionths.
    pub sampling: u32,
    /// A request that belongs to a trace already is recorded as was decided there.
    pub follows_parent: bool,
    /// What spans carry besides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<SpanAttribute>,
}

/// A thing that is told of each request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SpanAttribute {
    /// Its key in the span.
    pub name: Arc<str>,
    /// What is told.
    pub value: SpanValue,
}

/// What is told of a request; where there is none the attribute is not there. Keys of OpenTelemetry's conventions beside each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SpanValue {
    /// Always this text.
    Literal(Arc<str>),
    /// A header of the request (`http.request.header.<name>`).
    RequestHeader(Arc<str>),
    /// A header of the response (`http.response.header.<name>`).
    ResponseHeader(Arc<str>),
    /// `http.request.method`
    Method,
    /// `http.response.status_code`
    Status,
    /// `url.scheme`
    Scheme,
    /// `url.path`
    Path,
    /// `url.query`
    Query,
    /// `url.full`
    Url,
    /// `client.address`: that of the client, as far as it is known.
    ClientAddress,
    /// `client.port`
    ClientPort,
    /// `server.address`: whom the request is for.
    Host,
    /// `server.port`: the listener's.
    ServerPort,
    /// `network.peer.address`: that of the other end of the connection.
    PeerAddress,
    /// `network.peer.port`
    PeerPort,
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
