//! The scale of the tests: as much as fits between other tests, or with `CHAOS=full` (`make nightly PART=chaos`) as much as is claimed.

use std::time::Duration;

/// Replicas of the control plane, as the installation has them.
pub(crate) const CONTROL_PLANES: &str = "--replicas=2";

fn is_full() -> bool {
    std::env::var_os("CHAOS").is_some_and(|scale| scale == "full")
}

/// How long the API server is away.
pub(crate) fn outage() -> Duration {
    Duration::from_secs(if is_full() { 60 } else { 30 })
}

/// How many Pods a service has whose Pods are all replaced.
pub(crate) fn backends() -> u32 {
    if is_full() { 100 } else { 10 }
}
