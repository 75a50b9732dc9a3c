//! All sources of objects behind one door: precedence between them, the engine's input tables, problems, readiness.
//!
//! A source (the local API, files, Kubernetes, a key-value store, xDS) sends [`Batch`]es of [`Change`]s.
//! [`Store::apply`] writes those that count into the [`Tables`], one engine input per kind, at a cost of the size of
//! the batch and never of the store. Of the same identity from two sources the stronger one wins whole; the weaker
//! object is kept aside, with a warning that names both, and takes over when the stronger goes.
//!
//! What comes back from proxies is input like the rest: the fact tables in [`Tables`], see [`fact`].
//!
//! Map: [`batch`] what sources send, [`tables`] the engine inputs, [`fact`] what proxies report, `in_force` where each object comes from, `shelf` the precedence,
//! [`store`] the store itself.

pub mod batch;
pub mod fact;
mod in_force;
mod shelf;
pub mod store;
pub mod tables;

pub use batch::{Batch, Change, Origin, SocketTarget, Source};
pub use fact::{
    ClusterState, Definitions, FactKey, GatewayApi, ListenerState, LoadFacts, LocalityLoad, PatchState, ProxyFacts,
    RawState, Refusals, Rejected, SecretRefusal, Traffic,
};
pub use store::{Store, identity};
pub use tables::Tables;
