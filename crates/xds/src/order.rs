//! The order of delivery, declared once: make before break.
//!
//! Each time a client can be told something, the steps are walked from first to last. What a step puts in place is there
//! before a later step names it; removals come last, and only when nothing that could still use them is on its way.

use crate::resource::TypeUrl;

/// One step for one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// New and changed clusters, each response with the endpoint sets and secrets of its clusters right behind (R1, R8).
    Clusters,
    /// New and changed resources of this class. Behind listeners go their secrets (R8).
    Put(Class),
    /// New and changed virtual hosts of VHDS, right behind their route configurations, asked for or not.
    VirtualHosts,
    /// Resources of this class that are gone. A removal waits until everything above it in [`STEPS`] is acknowledged.
    Remove(Class),
}

/// What has one place in the order: a kind, or all those that have none of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// CDS.
    Cluster,
    /// EDS.
    Endpoints,
    /// LDS.
    Listener,
    /// SDS.
    Secret,
    /// SRDS.
    ScopedRoute,
    /// RDS.
    Route,
    /// VHDS.
    VirtualHost,
    /// Everything that Envoy neither waits for nor names by cluster: ECDS, RTDS, foreign kinds.
    Rest,
}

impl Class {
    /// The class of a kind in the order of delivery.
    pub(crate) fn of(type_url: &TypeUrl) -> Self {
        match type_url {
            TypeUrl::Cluster => Self::Cluster,
            TypeUrl::Endpoints => Self::Endpoints,
            TypeUrl::Listener => Self::Listener,
            TypeUrl::Secret => Self::Secret,
            TypeUrl::ScopedRoute => Self::ScopedRoute,
            TypeUrl::Route => Self::Route,
            TypeUrl::VirtualHost => Self::VirtualHost,
            TypeUrl::LocalityEndpoint | TypeUrl::Runtime | TypeUrl::ExtensionConfig | TypeUrl::Other(_) => Self::Rest,
        }
    }
}

/// The order. Secrets come before the listeners only as far as a client has asked for them by itself: a renewed certificate
/// does not wait for anything.
pub(crate) const STEPS: [Step; 16] = [
    Step::Clusters,
    Step::Put(Class::Endpoints),
    Step::Put(Class::Secret),
    Step::Put(Class::Rest),
    Step::Put(Class::Listener),
    Step::Put(Class::ScopedRoute),
    Step::Put(Class::Route),
    Step::VirtualHosts,
    Step::Remove(Class::Listener),
    Step::Remove(Class::VirtualHost),
    Step::Remove(Class::ScopedRoute),
    Step::Remove(Class::Route),
    Step::Remove(Class::Cluster),
    Step::Remove(Class::Endpoints),
    Step::Remove(Class::Secret),
    Step::Remove(Class::Rest),
];
