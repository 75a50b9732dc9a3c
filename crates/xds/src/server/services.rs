//! Which service answers which method. What is not here is not served, unary `Fetch` methods of discovery among it.

use std::sync::Arc;

use super::call::{Call, Reply};
use super::exchange::{Exchange, Questions};
use super::load::LoadStream;
use super::stream::Stream;
use super::streams::Purpose;
use super::{health, reflection, status};
use crate::resource::TypeUrl;
use crate::wire::Variant;

/// What answers a method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// A discovery stream.
    Discovery(Purpose),
    /// Whether services are there.
    Health(Questions),
    /// The list of services and whether they are there.
    HealthList,
    /// What each client of the caller's fleet holds.
    ClientStatus(Questions),
    /// A stream of load reports.
    Loads,
    /// What services there are and what their messages look like.
    Reflection,
}

/// A discovery service: its path, the SotW and the delta method, and the kind that it is for (none: all).
type Discovery = (&'static str, Option<&'static str>, Option<&'static str>, Option<TypeUrl>);

/// Every discovery service (`envoy/service/*/v3/*.proto`).
const DISCOVERY: [Discovery; 11] = [
    (
        "envoy.service.discovery.v3.AggregatedDiscoveryService",
        Some("StreamAggregatedResources"),
        Some("DeltaAggregatedResources"),
        None,
    ),
    (
        "envoy.service.cluster.v3.ClusterDiscoveryService",
        Some("StreamClusters"),
        Some("DeltaClusters"),
        Some(TypeUrl::Cluster),
    ),
    (
        "envoy.service.endpoint.v3.EndpointDiscoveryService",
        Some("StreamEndpoints"),
        Some("DeltaEndpoints"),
        Some(TypeUrl::Endpoints),
    ),
    (
        "envoy.service.endpoint.v3.LocalityEndpointDiscoveryService",
        None,
        Some("DeltaLocalityEndpoints"),
        Some(TypeUrl::LocalityEndpoint),
    ),
    (
        "envoy.service.listener.v3.ListenerDiscoveryService",
        Some("StreamListeners"),
        Some("DeltaListeners"),
        Some(TypeUrl::Listener),
    ),
    ("envoy.service.route.v3.RouteDiscoveryService", Some("StreamRoutes"), Some("DeltaRoutes"), Some(TypeUrl::Route)),
    ("envoy.service.route.v3.VirtualHostDiscoveryService", None, Some("DeltaVirtualHosts"), Some(TypeUrl::VirtualHost)),
    (
        "envoy.service.route.v3.ScopedRoutesDiscoveryService",
        Some("StreamScopedRoutes"),
        Some("DeltaScopedRoutes"),
        Some(TypeUrl::ScopedRoute),
    ),
    (
        "envoy.service.secret.v3.SecretDiscoveryService",
        Some("StreamSecrets"),
        Some("DeltaSecrets"),
        Some(TypeUrl::Secret),
    ),
    (
        "envoy.service.runtime.v3.RuntimeDiscoveryService",
        Some("StreamRuntime"),
        Some("DeltaRuntime"),
        Some(TypeUrl::Runtime),
    ),
    (
        "envoy.service.extension.v3.ExtensionConfigDiscoveryService",
        Some("StreamExtensionConfigs"),
        Some("DeltaExtensionConfigs"),
        Some(TypeUrl::ExtensionConfig),
    ),
];

/// The other methods that are served: services in full, their methods.
const METHODS: &[(&str, &str, Service)] = &[
    ("envoy.service.load_stats.v3.LoadReportingService", "StreamLoadStats", Service::Loads),
    (
        "envoy.service.status.v3.ClientStatusDiscoveryService",
        "FetchClientStatus",
        Service::ClientStatus(Questions::One),
    ),
    (
        "envoy.service.status.v3.ClientStatusDiscoveryService",
        "StreamClientStatus",
        Service::ClientStatus(Questions::Many),
    ),
    ("grpc.health.v1.Health", "Check", Service::Health(Questions::One)),
    ("grpc.health.v1.Health", "List", Service::HealthList),
    ("grpc.health.v1.Health", "Watch", Service::Health(Questions::Watch)),
    ("grpc.reflection.v1.ServerReflection", "ServerReflectionInfo", Service::Reflection),
    ("grpc.reflection.v1alpha.ServerReflection", "ServerReflectionInfo", Service::Reflection),
];

/// The services that are served, sorted.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let discovery = DISCOVERY.iter().map(|(service, ..)| *service);
    let mut names: Vec<&str> = METHODS.iter().map(|(service, ..)| *service).chain(discovery).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter()
}

/// The methods that are served, each with its service.
#[cfg(test)]
pub(super) fn methods() -> impl Iterator<Item = (&'static str, &'static str)> {
    let discovery = DISCOVERY.iter().flat_map(|(service, sotw, delta, _)| {
        [sotw, delta].into_iter().flatten().map(move |method| (*service, *method))
    });
    METHODS.iter().map(|(service, method, _)| (*service, *method)).chain(discovery)
}

impl Service {
    /// The service at this path.
    pub(super) fn at(path: &str) -> Option<Self> {
        let (service, method) = path.strip_prefix('/')?.split_once('/')?;
        if let Some((_, sotw, delta, kind)) = DISCOVERY.iter().find(|(name, ..)| *name == service) {
            let variants = [(sotw, Variant::Sotw), (delta, Variant::Delta)];
            let (_, variant) = variants.into_iter().find(|(name, _)| **name == Some(method))?;
            return Some(Self::Discovery(Purpose { variant, kind: kind.clone() }));
        }
        METHODS.iter().find(|(of, name, _)| *of == service && *name == method).map(|(.., service)| service.clone())
    }

    /// Whether it tells nothing of any fleet, so that whoever came through the transport may call it.
    pub(super) fn is_for_anyone(&self) -> bool {
        match self {
            Self::Discovery(_) | Self::Loads | Self::ClientStatus(_) => false,
            Self::Health(_) | Self::HealthList | Self::Reflection => true,
        }
    }

    /// Answers a call.
    pub(super) fn answer(self, call: Call) -> Reply {
        match self {
            Self::Discovery(purpose) => Reply::Stream(Box::new(Stream::new(call, purpose))),
            Self::Loads => Reply::Loads(LoadStream::new(call)),
            Self::ClientStatus(turns) => {
                let answer = status::answer(Arc::clone(&call.shared));
                Reply::Exchange(Box::new(Exchange::new(call, turns, answer).in_turn()))
            }
            Self::Health(turns) => Reply::Exchange(Box::new(Exchange::new(call, turns, health::check(turns)))),
            Self::HealthList => Reply::Exchange(Box::new(Exchange::new(call, Questions::One, health::list()))),
            Self::Reflection => {
                let answer = reflection::answer(Arc::clone(&call.shared.descriptors));
                Reply::Exchange(Box::new(Exchange::new(call, Questions::Many, answer).in_turn()))
            }
        }
    }
}
