//! From [`ir`] to Envoy: each function takes one resolved value and gives the bytes of one Envoy resource, or of a part of one.
//!
//! Pure: equal input gives equal bytes on every machine, and nothing here reads a file, a clock or the environment. A
//! resource is encoded once and shared by all proxies: composite ones (virtual hosts, route configurations, load assignments)
//! are lists of the encodings of their parts.
//!
//! | Envoy concept | module | from |
//! |---|---|---|
//! | `Listener`, `FilterChain` | [`listener()`] | [`ir::Listener`] |
//! | `HttpConnectionManager`, access log, traces | `http_connection_manager`, [`AccessLog`], `tracing` | constants and [`Options`], [`ir::listener::Tracing`] |
//! | `Route` | [`route_piece`] | [`ir::RoutePiece`] |
//! | `VirtualHost`, `RouteConfiguration` | [`virtual_host()`], [`inline_host`], [`route_configuration`] | [`ir::VirtualHost`], [`ir::RouteConfiguration`] |
//! | `Cluster` | [`cluster()`] | [`ir::Cluster`] |
//! | `ClusterLoadAssignment` | [`endpoint_set`], [`load_assignment`], [`own_load_assignment`] | [`ir::Endpoints`] |
//! | `TcpProxy` | [`tcp_proxy()`] | [`ir::TcpProxy`] |
//! | `Secret` | [`secret()`] | [`ir::Secret`] |
//! | any, as its author wrote it | [`read_raw`], [`raw()`], [`raw_bootstrap`] | [`ir::RawResource`] |
//! | any, with what users change of it | [`patched()`], [`patched_bootstrap`] | [`ir::PatchSet`] |
//! | `Bootstrap` | [`bootstrap()`], [`static_bootstrap`] | [`BootstrapOptions`]; everything at once |

mod access_log;
pub mod bootstrap;
mod cluster;
mod endpoints;
mod http_connection_manager;
mod listener;
mod patched;
mod raw;
mod regex;
mod resource;
mod route;
mod runtime;
mod secret;
mod tcp_proxy;
#[cfg(test)]
mod testing;
mod tls;
mod tracing;
mod udp;
mod virtual_host;
mod wire;
mod write;

pub use access_log::AccessLog;
pub use bootstrap::{BootstrapOptions, StaticOptions, StaticParts, bootstrap, static_bootstrap, static_bootstrap_json};
pub use cluster::{DEFAULT_CONNECTIONS, DEFAULT_LIMIT, DEFAULT_RETRY_LIMIT, cluster};
pub use endpoints::{endpoint_set, load_assignment, own_load_assignment};
pub use listener::{Options, listener};
pub use patched::{Base, PatchOutcome, Patched, patched, patched_bootstrap};
/// The name nearest to one that there is not.
pub use protojson::nearest;
pub use raw::{raw, raw_bootstrap, read_raw};
pub use regex::{REGEX_PROGRAM_SIZE_LIMIT, escape};
pub use resource::{Body, Encoded, EncodedHost, EncodedPiece, EncodedSet, Need, type_url};
pub use route::route_piece;
pub use runtime::{RUNTIME_LAYER, runtime};
pub use secret::{HIDDEN, secret};
pub use tcp_proxy::tcp_proxy;
pub use tls::SYSTEM_TRUST_BUNDLE;
pub use virtual_host::{inline_host, route_configuration, virtual_host};
