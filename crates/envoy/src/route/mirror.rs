//! Copies of requests.

use ir::route::Mirror;
use proto::envoy::config::core::v3::RuntimeFractionalPercent;
use proto::envoy::config::route::v3::route_action::RequestMirrorPolicy;

use crate::wire::millionths;

/// One policy per mirror that gets anything. The copy keeps the request's host: Envoy would append `-shadow` to it.
pub(super) fn policies(mirrors: &[Mirror]) -> Vec<RequestMirrorPolicy> {
    mirrors.iter().filter(|mirror| mirror.share > 0).map(policy).collect()
}

fn policy(mirror: &Mirror) -> RequestMirrorPolicy {
    let fraction = RuntimeFractionalPercent { default_value: Some(millionths(mirror.share)), ..Default::default() };
    RequestMirrorPolicy {
        cluster: mirror.cluster.as_str().to_owned(),
        runtime_fraction: (mirror.share < 1_000_000).then_some(fraction),
        disable_shadow_host_suffix_append: true,
        ..RequestMirrorPolicy::default()
    }
}
