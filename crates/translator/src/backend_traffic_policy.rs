//! `BackendTrafficPolicy` of `gateway.envoyproxy.io`: which policy holds for what, and its circuit breaker.

use std::sync::Arc;

use api::backend_traffic_policy::BackendTrafficPolicy;
use api::reference::PolicyTargetRef;
use api::{Kind, ObjectKey, ObjectMeta, RouteObject};
use ir::cluster::CircuitBreaker;

use crate::key::{Age, Seniority};
use crate::reference::unfit;
use crate::status;

/// What a policy is about: a Gateway, a route, or a rule of a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PolicyTarget {
    pub(crate) object: ObjectKey,
    pub(crate) section: Option<Arc<str>>,
}

/// The claim of a policy on a target. Of several the oldest holds, then the first by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Claim {
    pub(crate) target: PolicyTarget,
    pub(crate) seniority: Seniority,
}

/// A target as written, and what we make of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Something that a policy can hold for.
    Known(PolicyTarget),
    /// The same with a fault in how it is written: what a policy is for is not left to others, or to nobody.
    Spoilt(PolicyTarget, Arc<str>),
    /// Something that it cannot, and why.
    Refused(ObjectKey, Arc<str>),
}

impl Target {
    /// What is wrong with how it is written.
    pub(crate) fn fault(&self) -> Option<&Arc<str>> {
        match self {
            Self::Spoilt(_, fault) => Some(fault),
            Self::Known(_) | Self::Refused(..) => None,
        }
    }
}

/// The targets of a policy, all in its own namespace.
pub(crate) fn targets(policy: &BackendTrafficPolicy) -> Vec<Target> {
    let namespace = policy.meta.namespace();
    let single = usize::from(policy.spec.attachment.target_ref.is_some());
    let read = |(at, reference): (usize, &PolicyTargetRef)| {
        let object = ObjectKey::new(&reference.group, &reference.kind, namespace, &reference.name);
        let section: Option<Arc<str>> = reference.section_name.as_deref().map(Arc::from);
        if let Some(fault) = &policy.spec.fault {
            return Target::Refused(object, fault.to_string().into());
        }
        let fault = policy.spec.attachment.target_faults.iter().find(|(item, _)| at.checked_sub(single) == Some(*item));
        if let Some((_, fault)) = fault {
            return Target::Refused(object, fault.to_string().into());
        }
        match (object.kind(), &section) {
            (Some(Kind::Gateway), Some(_)) => {
                let text = format!("{object}: a single listener cannot be a target yet").into();
                Target::Refused(object, text)
            }
            (Some(kind), _) if kind == Kind::Gateway || kind.is_route() => {
                Target::Known(PolicyTarget { object, section })
            }
            _ => {
                let can: Vec<Kind> = [Kind::Gateway].iter().chain(RouteObject::KINDS).copied().collect();
                let text = unfit(&reference.group, &reference.kind, "a target", &can).into();
                Target::Refused(object, text)
            }
        }
    };
    policy.spec.targets().enumerate().map(read).collect()
}

/// What a policy claims, usable or not: what it is for is not left to others because it is broken.
pub(crate) fn claims(meta: &ObjectMeta, targets: Vec<Target>) -> Vec<(Claim, ())> {
    let seniority = Seniority { age: Age::from(meta), object: meta.key.clone() };
    let known = targets.into_iter().filter_map(|target| match target {
        Target::Known(target) | Target::Spoilt(target, _) => Some((Claim { target, seniority: seniority.clone() }, ())),
        Target::Refused(..) => None,
    });
    known.collect()
}

/// What is written and ignored, or should be written otherwise: reason and words.
pub(crate) fn warnings(policy: &BackendTrafficPolicy) -> Vec<(&'static str, String)> {
    let deprecated = "spec.targetRef is deprecated, use spec.targetRefs instead";
    let attachment = &policy.spec.attachment;
    let deprecated = attachment.target_ref.is_some().then(|| (status::DEPRECATED, deprecated.to_owned()));
    let ignored = policy.spec.ignored.iter().map(|field| (status::UNSUPPORTED, field.to_string()));
    let selectors = "spec.targetSelectors: only what guards is taken into account where it selects";
    let selectors = (!attachment.target_selectors.is_empty()).then(|| (status::UNSUPPORTED, selectors.to_owned()));
    let guards = attachment.guards.iter();
    let guards =
        guards.map(|field| (status::UNSUPPORTED, format!("{field} guards and is not supported by this version")));
    deprecated.into_iter().chain(ignored).chain(selectors).chain(guards).collect()
}

/// The limits of a policy; none leaves ours.
pub(crate) fn circuit_breaker(policy: &BackendTrafficPolicy) -> CircuitBreaker {
    policy.spec.circuit_breaker.as_deref().map_or_else(CircuitBreaker::default, |limits| CircuitBreaker {
        max_connections: Some(limits.max_connections),
        max_pending_requests: Some(limits.max_pending_requests),
        max_parallel_requests: Some(limits.max_parallel_requests),
        max_parallel_retries: Some(limits.max_parallel_retries),
        max_requests_per_connection: limits.max_requests_per_connection,
        max_connections_per_endpoint: limits.per_endpoint.map(|limits| limits.max_connections),
        retry_budget: None,
    })
}
