//! `BackendTrafficPolicy` of Envoy Gateway: so far its circuit breaker.

use serde::Deserialize;

use crate::kind::Kind;
use crate::policy_attachment::PolicyAttachment;
use crate::problem::{Fault, Unit, UnitFaults};
use crate::reference::PolicyTargetRef;
use crate::resource::{Resource, Spec};

/// How Envoy treats the backends of a route or Gateway.
pub type BackendTrafficPolicy = Resource<BackendTrafficPolicySpec>;

/// `BackendTrafficPolicy.spec`: the fields that this version reads.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendTrafficPolicySpec {
    /// Its targets: Gateways and routes.
    #[serde(flatten)]
    pub attachment: PolicyAttachment,
    /// Limits on what is sent to one cluster.
    pub circuit_breaker: Option<Box<CircuitBreaker>>,
    /// Why none of it can be used.
    #[serde(skip)]
    pub fault: Option<Box<Fault>>,
    /// Fields that are written and not read.
    #[serde(skip)]
    pub ignored: Box<[Fault]>,
}

impl BackendTrafficPolicySpec {
    /// All targets, the deprecated field first.
    pub fn targets(&self) -> impl Iterator<Item = &PolicyTargetRef> {
        self.attachment.targets()
    }
}

impl Spec for BackendTrafficPolicySpec {
    const KIND: Kind = Kind::BackendTrafficPolicy;

    fn mark(&mut self, found: UnitFaults) {
        let whole = found.faults.iter().find(|(unit, _)| *unit == Unit::WHOLE);
        self.fault = whole.map(|(_, fault)| Box::new(fault.clone()));
        self.ignored = found.ignored.iter().cloned().collect();
        self.attachment.mark(found, HARMLESS);
    }
}

/// Fields that guard nothing: what is wrong with them leaves the targets open, without the policy.
const HARMLESS: &[&str] = &["spec.circuitBreaker"];

/// `BackendTrafficPolicy.spec.circuitBreaker`. Absent limits have Envoy Gateway's default of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CircuitBreaker {
    /// Connections at once.
    pub max_connections: u32,
    /// Requests that wait for a connection.
    pub max_pending_requests: u32,
    /// Requests at once.
    pub max_parallel_requests: u32,
    /// Retries at once.
    pub max_parallel_retries: u32,
    /// Requests over one connection; none is no limit.
    pub max_requests_per_connection: Option<u32>,
    /// Limits for each endpoint.
    pub per_endpoint: Option<PerEndpointCircuitBreaker>,
}

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self {
            max_connections: 1024,
            max_pending_requests: 1024,
            max_parallel_requests: 1024,
            max_parallel_retries: 1024,
            max_requests_per_connection: None,
            per_endpoint: None,
        }
    }
}

/// `circuitBreaker.perEndpoint`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PerEndpointCircuitBreaker {
    /// Connections at once to one endpoint, default 1024.
    pub max_connections: u32,
}

impl Default for PerEndpointCircuitBreaker {
    fn default() -> Self {
        Self { max_connections: 1024 }
    }
}
