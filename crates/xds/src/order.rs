//! The order of delivery, declared once: make before break.
//!
//! Each time a client can be told something, the steps are walked from first to last. What a step puts in place is there
//! before a later step names it; removals come last, and only when nothing that could still use them is on its way.

use crate::resource::TypeUrl;

/// One step for one client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// New and changed clusters, each response with the endpoint sets and secrets of its clusters right behind (R1, R8).
    Clusters,
    /// New and changed resources of this kind. Behind listeners go their secrets (R8).
    Put(TypeUrl),
    /// The same of all kinds without a place of their own.
    PutRest,
    /// New and changed virtual hosts of VHDS, right behind their route configurations, asked for or not.
    VirtualHosts,
    /// Resources of this kind that are gone. A removal waits until everything above it in [`STEPS`] is acknowledged.
    Remove(TypeUrl),
    /// The same of all kinds without a place of their own.
    RemoveRest,
}

/// Whether a kind has no place of its own: what Envoy neither waits for nor names by cluster.
pub(crate) fn is_rest(type_url: &TypeUrl) -> bool {
    use TypeUrl::{ExtensionConfig, LocalityEndpoint, Other, Runtime};
    matches!(type_url, LocalityEndpoint | Runtime | ExtensionConfig | Other(_))
}

/// The order. Secrets come before the listeners only as far as a client has asked for them by itself: a renewed certificate
/// does not wait for anything.
pub(crate) static STEPS: [Step; 16] = [
    Step::Clusters,
    Step::Put(TypeUrl::Endpoints),
    Step::Put(TypeUrl::Secret),
    Step::PutRest,
    Step::Put(TypeUrl::Listener),
    Step::Put(TypeUrl::ScopedRoute),
    Step::Put(TypeUrl::Route),
    Step::VirtualHosts,
    Step::Remove(TypeUrl::Listener),
    Step::Remove(TypeUrl::VirtualHost),
    Step::Remove(TypeUrl::ScopedRoute),
    Step::Remove(TypeUrl::Route),
    Step::Remove(TypeUrl::Cluster),
    Step::Remove(TypeUrl::Endpoints),
    Step::Remove(TypeUrl::Secret),
    Step::RemoveRest,
];
