//! Further tries, and the time that one try gets.

use std::sync::LazyLock;
use std::time::Duration;

use ir::route::{Forward, Retry};
use proto::envoy::config::route::v3::RetryPolicy;
use proto::envoy::config::route::v3::retry_policy::{RetryBackOff, RetryHostPredicate, retry_host_predicate};
use proto::envoy::extensions::retry::host::previous_hosts::v3::PreviousHostsPredicate;
use proto::google::protobuf::Any;

use crate::wire::duration;

/// Envoy's rule for a pause without upper end: ten times the base.
const MAX_BACKOFF_FACTOR: u32 = 10;

/// The body of a request that is kept to be sent again, in bytes. A longer one is sent once. Without a limit of its own a request has that of its
/// connection, [`crate::listener::CONNECTION_BUFFER`].
const RETRIED_BODY: u64 = 1 << 20;

/// How often another endpoint is looked for that was not yet tried, before any is taken.
const HOST_SELECTION_ATTEMPTS: i64 = 5;

/// Absent when neither tries nor a time-out for one try were asked for.
///
/// A time-out of one try works without any retry. Envoy tries a timed-out try again only if `reset` is among the conditions,
/// so it is when both are given: resets are then retried too.
pub(super) fn policy(forward: &Forward) -> Option<RetryPolicy> {
    let retry = forward.retry.as_deref().filter(|retry| retry.attempts > 0);
    let per_try_timeout = forward.try_timeout.map(duration);
    match retry {
        None if per_try_timeout.is_none() => None,
        None => Some(RetryPolicy { per_try_timeout, num_retries: Some(0), ..RetryPolicy::default() }),
        Some(retry) => Some(RetryPolicy {
            retry_on: conditions(retry, per_try_timeout.is_some()),
            num_retries: Some(retry.attempts),
            per_try_timeout,
            retriable_status_codes: retry.codes.iter().copied().map(u32::from).collect(),
            retry_back_off: retry.backoff.and_then(back_off),
            retry_host_predicate: vec![previous_hosts()],
            host_selection_retry_max_attempts: HOST_SELECTION_ATTEMPTS,
            ..RetryPolicy::default()
        }),
    }
}

/// The bytes of a request's body that are kept for further tries; none where nothing is tried again.
pub(super) fn body_limit(forward: &Forward) -> Option<u64> {
    forward.retry.as_deref().filter(|retry| retry.attempts > 0).map(|_| RETRIED_BODY)
}

/// A connection that could not be made and a request that was refused before any work are always tried again.
fn conditions(retry: &Retry, timed: bool) -> String {
    let mut conditions = "connect-failure,refused-stream".to_owned();
    if !retry.codes.is_empty() {
        conditions.push_str(",retriable-status-codes");
    }
    if timed {
        conditions.push_str(",reset");
    }
    conditions
}

/// Envoy wants a base above 0 and an end not below it.
fn back_off(base: Duration) -> Option<RetryBackOff> {
    let end = base.saturating_mul(MAX_BACKOFF_FACTOR);
    (!base.is_zero()).then(|| RetryBackOff { base_interval: Some(duration(base)), max_interval: Some(duration(end)) })
}

/// Prefers endpoints that have not yet failed this request.
fn previous_hosts() -> RetryHostPredicate {
    static CONFIG: LazyLock<Any> = LazyLock::new(|| Any::pack(&PreviousHostsPredicate {}));
    RetryHostPredicate {
        name: "envoy.retry_host_predicates.previous_hosts".to_owned(),
        config_type: Some(retry_host_predicate::ConfigType::TypedConfig(CONFIG.clone())),
    }
}
