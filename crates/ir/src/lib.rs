//! Resolved intent: what a proxy shall do, after every reference, default, conflict and precedence has been decided.
//!
//! The translator writes these values and `envoy` turns each of them into exactly one Envoy resource (or a part of one).
//! They are plain data: no type of the user's API and no type of Envoy's appears here, nothing can be unresolved, alternatives
//! are enums and never two options that exclude each other. `Serialize` serves `chancery translate --to ir` and the golden
//! files; nothing is ever read back.
//!
//! | module | holds |
//! |---|---|
//! | [`name`] | the names by which resources refer to each other |
//! | [`listener`] | [`Listener`], its [`FilterChain`]s and TLS |
//! | [`route`] | [`RouteConfiguration`], [`VirtualHost`], [`Route`] with match, action and filters |
//! | [`cluster`] | [`Cluster`], [`Endpoints`] |
//! | [`secret`] | [`Secret`]: certificates and trust bundles |
//! | [`runtime`] | [`Runtime`]: values that are looked up while a proxy runs |
//! | [`patch`] | [`PatchSet`]: what users change of what is generated |
//! | [`raw`] | [`RawResource`]: what users wrote as Envoy has it |
//! | [`tcp`] | [`TcpProxy`]: where connections go that are no HTTP |
//! | [`address`] | [`ClosedAddresses`]: where nothing leads |
//! | [`socket`] | paths of sockets to which nothing leads |
//! | [`infra`] | [`Infra`]: the proxies themselves |

pub mod address;
pub mod cluster;
pub mod infra;
pub mod listener;
pub mod name;
pub mod patch;
pub mod raw;
pub mod route;
pub mod runtime;
pub mod secret;
pub mod socket;
pub mod tcp;

pub use address::ClosedAddresses;
pub use cluster::{Address, Cluster, Endpoint, EndpointSource, Endpoints};
pub use infra::Infra;
pub use listener::{FilterChain, Listener};
pub use name::{
    ClusterName, EndpointSetName, FleetName, ListenerName, RouteConfigurationName, SecretName, TcpProxyName,
    VirtualHostName,
};
pub use patch::PatchSet;
pub use raw::{RawName, RawResource};
pub use route::{Route, RouteConfiguration, RoutePiece, VirtualHost};
pub use runtime::Runtime;
pub use secret::Secret;
pub use tcp::TcpProxy;
