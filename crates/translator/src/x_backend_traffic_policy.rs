//! `XBackendTrafficPolicy` of Gateway API: retry budgets and sessions of backends (GEP-3388, GEP-1619).

use std::sync::Arc;
use std::time::Duration;

use api::reference::PolicyTargetRef;
use api::x_backend_traffic_policy::{RetryConstraint, XBackendTrafficPolicy};
use api::{DurationText, ObjectKey};
use ir::cluster::RetryBudget;

use crate::backend::{KINDS, is_backend};
use crate::backend_traffic_policy::{PolicyTarget, Target};
use crate::reference::unfit;
use crate::session::Persistence;
use crate::status;

/// A policy, judged by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackendPolicy {
    pub(crate) generation: i64,
    pub(crate) targets: Vec<Target>,
    /// Why it cannot be used. It has its place beside other policies nevertheless: what it is for is not left to them.
    pub(crate) fault: Option<Arc<str>>,
    pub(crate) budget: Option<RetryBudget>,
    pub(crate) persistence: Option<Persistence>,
    /// What is written and ignored, or done otherwise: reason and words.
    pub(crate) warnings: Vec<(&'static str, String)>,
    /// The same as far as nobody has told it yet: field and words.
    pub(crate) told_here: Vec<(String, String)>,
}

/// Reads a policy. A part of it that cannot be done costs the other nothing.
pub(crate) fn read(policy: &XBackendTrafficPolicy) -> BackendPolicy {
    let spec = &policy.spec;
    let ignored = spec.ignored.iter().map(|field| (status::UNSUPPORTED, field.to_string()));
    let mut warnings: Vec<_> = ignored.collect();
    let (mut persistence, mut told_here) = (None, Vec::new());
    match spec.session_persistence.as_deref().map(Persistence::read) {
        None => {}
        Some(Ok(read)) => {
            let told = |(field, text): (&str, &str)| (format!("spec.sessionPersistence.{field}"), text.to_owned());
            told_here.extend(read.warning.map(told));
            persistence = Some(read);
        }
        Some(Err((field, text))) => {
            told_here.push((format!("spec.sessionPersistence.{field}"), format!("{text}; there are no sessions")));
        }
    }
    warnings.extend(told_here.iter().map(|(field, text)| (status::UNSUPPORTED, format!("{field}: {text}"))));
    BackendPolicy {
        generation: policy.meta.generation,
        targets: targets(policy),
        fault: spec.fault.as_ref().map(|fault| fault.to_string().into()),
        budget: spec.retry_constraint.as_ref().filter(|_| spec.fault.is_none()).map(budget),
        persistence: persistence.filter(|_| spec.fault.is_none()),
        warnings,
        told_here,
    }
}

/// The targets of a policy, all in its own namespace.
pub(crate) fn targets(policy: &XBackendTrafficPolicy) -> Vec<Target> {
    let read = |reference: &PolicyTargetRef| {
        let object = ObjectKey::new(&reference.group, &reference.kind, policy.meta.namespace(), &reference.name);
        if !is_backend(object.kind()) {
            let text = unfit(&reference.group, &reference.kind, "a target", &KINDS).into();
            return Target::Refused(object, text);
        }
        Target::Known(PolicyTarget { object, section: None })
    };
    policy.spec.target_refs.iter().map(read).collect()
}

/// Envoy limits retries at a time, and not those of a time: with so many at a time as there may be in `minRetryRate.interval` no fewer get through,
/// unless one takes longer than that.
fn budget(constraint: &RetryConstraint) -> RetryBudget {
    let (budget, rate) =
        (constraint.budget.clone().unwrap_or_default(), constraint.min_retry_rate.clone().unwrap_or_default());
    let interval = budget.interval.as_ref().and_then(DurationText::get).unwrap_or(DEFAULT_INTERVAL);
    RetryBudget {
        percent: u8::try_from(budget.percent.unwrap_or(DEFAULT_PERCENT)).unwrap_or(u8::MAX).min(100),
        interval,
        min_parallel_retries: rate.count.unwrap_or(DEFAULT_RETRIES),
    }
}

/// The API's defaults, which files may leave to us.
const DEFAULT_PERCENT: u32 = 20;
const DEFAULT_INTERVAL: Duration = Duration::from_secs(10);
const DEFAULT_RETRIES: u32 = 10;
