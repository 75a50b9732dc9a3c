//! Which service answers which method. What is not here is not served, unary `Fetch` methods among it.

use super::call::{Call, Reply};
use super::stream::Stream;

/// What answers a method.
#[derive(Clone, Copy)]
pub(super) enum Service {
    /// A delta discovery stream for all kinds of resources.
    DeltaAds,
}

/// Every method that is served, by its path.
const METHODS: &[(&str, Service)] =
    &[("/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources", Service::DeltaAds)];

impl Service {
    /// The service at this path.
    pub(super) fn at(path: &str) -> Option<Self> {
        METHODS.iter().find(|(method, _)| *method == path).map(|(_, service)| *service)
    }

    /// Whether it tells nothing of any fleet, so that whoever came through the transport may call it.
    pub(super) fn is_for_anyone(self) -> bool {
        match self {
            Self::DeltaAds => false,
        }
    }

    /// Answers a call.
    pub(super) fn answer(self, call: Call) -> Reply {
        match self {
            Self::DeltaAds => Reply::Stream(Box::new(Stream::new(call))),
        }
    }
}
