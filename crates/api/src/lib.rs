//! What users write: the kinds that Chancery reads, from text to checked values.
//!
//! The way of one document: [`yaml::documents`] splits a file, [`yaml::parse`] makes a [`tree::Tree`] that knows the
//! place of every value, [`decode()`] checks it against the schema of its kind (structure and CEL rules) and makes an
//! [`Object`]; [`read`] is all of it for one document. What an API server gives comes as JSON, without places: [`json::read`]. Whatever is wrong becomes a [`Problem`] with its place; nothing
//! here fails as a whole because of one bad field.

pub mod backend;
pub mod backend_tls_policy;
pub mod backend_traffic_policy;
mod base64;
mod cel;
pub mod cluster_trust_bundle;
pub mod config_map;
pub mod decode;
pub mod duration;
pub mod endpoint_slice;
pub mod envoy_gateway;
pub mod envoy_patch_policy;
pub mod envoy_proxy;
pub mod gateway;
pub mod gateway_class;
pub mod grpc_route;
pub mod http_route;
pub mod json;
pub mod key;
pub mod kind;
pub mod listener_set;
pub mod locate;
pub mod meta;
pub mod namespace;
mod open;
pub mod pod;
pub mod problem;
pub mod raw;
pub mod reference;
pub mod reference_grant;
mod references;
pub mod resource;
pub mod route_object;
mod schema;
pub mod secret;
pub mod selector;
pub mod service;
pub mod service_import;
pub mod status;
pub mod stream_route;
pub mod tree;
pub mod x_backend;
pub mod x_backend_traffic_policy;
pub mod x_telemetry_policy;
pub mod yaml;

pub use backend::Backend;
pub use backend_tls_policy::BackendTlsPolicy;
pub use backend_traffic_policy::BackendTrafficPolicy;
pub use cluster_trust_bundle::ClusterTrustBundle;
pub use config_map::ConfigMap;
pub use decode::{Decoded, Origin, decode, read};
pub use duration::DurationText;
pub use endpoint_slice::EndpointSlice;
pub use envoy_gateway::EnvoyGateway;
pub use envoy_patch_policy::EnvoyPatchPolicy;
pub use envoy_proxy::EnvoyProxy;
pub use gateway::Gateway;
pub use gateway_class::GatewayClass;
pub use grpc_route::GrpcRoute;
pub use http_route::HttpRoute;
pub use key::ObjectKey;
pub use kind::{Kind, Object, Scope, group};
pub use listener_set::ListenerSet;
pub use meta::{Labels, ObjectMeta, Timestamp};
pub use namespace::Namespace;
pub use pod::Pod;
pub use problem::{Fault, FieldPath, Place, Problem, Severity};
pub use raw::Raw;
pub use reference_grant::ReferenceGrant;
pub use references::pods_of;
pub use resource::{Resource, Spec};
pub use route_object::RouteObject;
pub use schema::{definition, is_dns_label, is_dns_subdomain, nearest};
pub use secret::Secret;
pub use selector::LabelSelector;
pub use service::Service;
pub use service_import::ServiceImport;
pub use stream_route::{TcpRoute, TlsRoute, UdpRoute};
pub use x_backend::XBackend;
pub use x_backend_traffic_policy::XBackendTrafficPolicy;
pub use x_telemetry_policy::XTelemetryPolicy;
