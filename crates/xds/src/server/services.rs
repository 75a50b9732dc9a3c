//! Which service answers which method. What is not here is not served, unary `Fetch` methods of discovery among it.

use std::sync::Arc;

use super::call::{Call, Reply};
use super::exchange::{Exchange, Turns};
use super::load::LoadStream;
use super::stream::Stream;
use super::{health, reflection, status};

/// What answers a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// A delta discovery stream for all kinds of resources.
    DeltaAds,
    /// Whether services are there.
    Health(Turns),
    /// The list of services and whether they are there.
    HealthList,
    /// What each client of the caller's fleet holds.
    ClientStatus(Turns),
    /// A stream of load reports.
    Loads,
    /// What services there are and what their messages look like.
    Reflection,
}

/// The methods that are served: services in full, their methods.
const METHODS: &[(&str, &str, Service)] = &[
    ("envoy.service.discovery.v3.AggregatedDiscoveryService", "DeltaAggregatedResources", Service::DeltaAds),
    ("envoy.service.load_stats.v3.LoadReportingService", "StreamLoadStats", Service::Loads),
    ("envoy.service.status.v3.ClientStatusDiscoveryService", "FetchClientStatus", Service::ClientStatus(Turns::One)),
    ("envoy.service.status.v3.ClientStatusDiscoveryService", "StreamClientStatus", Service::ClientStatus(Turns::Many)),
    ("grpc.health.v1.Health", "Check", Service::Health(Turns::One)),
    ("grpc.health.v1.Health", "List", Service::HealthList),
    ("grpc.health.v1.Health", "Watch", Service::Health(Turns::Watch)),
    ("grpc.reflection.v1.ServerReflection", "ServerReflectionInfo", Service::Reflection),
    ("grpc.reflection.v1alpha.ServerReflection", "ServerReflectionInfo", Service::Reflection),
];

/// The services that are served, sorted.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let mut names: Vec<&str> = METHODS.iter().map(|(service, ..)| *service).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter()
}

impl Service {
    /// The service at this path.
    pub(super) fn at(path: &str) -> Option<Self> {
        let (service, method) = path.strip_prefix('/')?.split_once('/')?;
        METHODS.iter().find(|(of, name, _)| *of == service && *name == method).map(|(.., service)| *service)
    }

    /// Whether it tells nothing of any fleet, so that whoever came through the transport may call it.
    pub(super) fn is_for_anyone(self) -> bool {
        match self {
            Self::DeltaAds | Self::Loads | Self::ClientStatus(_) => false,
            Self::Health(_) | Self::HealthList | Self::Reflection => true,
        }
    }

    /// Answers a call.
    pub(super) fn answer(self, call: Call) -> Reply {
        match self {
            Self::DeltaAds => Reply::Stream(Box::new(Stream::new(call))),
            Self::Loads => Reply::Loads(LoadStream::new(call)),
            Self::ClientStatus(turns) => {
                let answer = status::answer(Arc::clone(&call.shared));
                Reply::Exchange(Exchange::new(call, turns, answer))
            }
            Self::Health(turns) => Reply::Exchange(Exchange::new(call, turns, health::check(turns))),
            Self::HealthList => Reply::Exchange(Exchange::new(call, Turns::One, health::list())),
            Self::Reflection => {
                let answer = reflection::answer(Arc::clone(&call.shared.descriptors));
                Reply::Exchange(Exchange::new(call, Turns::Many, answer))
            }
        }
    }
}
