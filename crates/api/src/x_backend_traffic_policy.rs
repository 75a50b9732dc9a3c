//! `XBackendTrafficPolicy` of Gateway API (GEP-3388, experimental): how much of what goes to a backend may be retries.

use serde::Deserialize;

use crate::duration::DurationText;
use crate::http_route::SessionPersistence;
use crate::kind::Kind;
use crate::problem::{Fault, UnitFaults};
use crate::reference::PolicyTargetRef;
use crate::resource::{Resource, Spec};

/// How traffic to backends is treated.
pub type XBackendTrafficPolicy = Resource<XBackendTrafficPolicySpec>;

/// `XBackendTrafficPolicy.spec`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct XBackendTrafficPolicySpec {
    /// What it is about: backends of its namespace; 1 to 16.
    pub target_refs: Box<[PolicyTargetRef]>,
    /// How many retries there may be.
    pub retry_constraint: Option<RetryConstraint>,
    /// Sticky sessions (deprecated).
    pub session_persistence: Option<Box<SessionPersistence>>,
    /// Why none of it can be used.
    #[serde(skip)]
    pub fault: Option<Box<Fault>>,
    /// Fields that are written and not read.
    #[serde(skip)]
    pub ignored: Box<[Fault]>,
}

impl Spec for XBackendTrafficPolicySpec {
    const KIND: Kind = Kind::XBackendTrafficPolicy;

    fn mark(&mut self, found: UnitFaults) {
        self.fault = UnitFaults::first(found.faults);
        self.ignored = found.ignored.into();
    }
}

/// `XBackendTrafficPolicy.spec.retryConstraint`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RetryConstraint {
    /// The share of the requests that may be retries.
    pub budget: Option<RetryBudget>,
    /// So many there may be whatever the share is.
    pub min_retry_rate: Option<RequestRate>,
}

/// `retryConstraint.budget`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RetryBudget {
    /// 0 to 100, default 20.
    pub percent: Option<u32>,
    /// Requests of so long count, default 10 s.
    pub interval: Option<DurationText>,
}

/// `retryConstraint.minRetryRate`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestRate {
    /// So many, default 10.
    pub count: Option<u32>,
    /// In so long, default 1 s.
    pub interval: Option<DurationText>,
}
