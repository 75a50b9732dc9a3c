//! Bodies that a server judges come whole, or not at all: filters before that server is asked, as configuration of a route or a virtual host.
//!
//! Envoy's `ext_authz` looks at the length of a body only while more of it is to come: one whose last frame exceeds the most that may be sent is cut for
//! the server and passes whole (measured with Envoy 1.40, HTTP/2). And a second server is asked with the body that was kept for the first. So the body is kept
//! before, which gives each request a `content-length` (RFC 9110 8.6), and a request with a longer one is refused. So is one for another protocol: Envoy
//! shows no server what comes then, and the route of the request as it came decides on an upgrade, which the answer of a listener's server may
//! change.

use std::sync::Arc;

use ir::route::ExternalAuth;
use proto::envoy::config::rbac::v3::{
    Permission, Policy, Principal, Rbac as Rules, permission, principal, rbac::Action,
};
use proto::envoy::config::route::v3::HeaderMatcher;
use proto::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use proto::envoy::extensions::filters::http::buffer::v3::Buffer;
use proto::envoy::extensions::filters::http::rbac::v3::{Rbac, RbacPerRoute};
use proto::envoy::r#type::v3::Int64Range;
use proto::google::protobuf::Any;

use super::external_auth::{self, Asks};
use super::matches::present;

/// The filters that refuse another protocol (it has no end that could be waited for), keep a body, and refuse a long one: in front of the servers of
/// listeners, and of those of routes.
pub(crate) const LISTENER_FILTERS: [&str; 3] =
    ["chancery.whole_body.listener.protocol", "chancery.whole_body.listener", "chancery.whole_body.listener.length"];
pub(crate) const FILTERS: [&str; 3] =
    ["chancery.whole_body.protocol", "chancery.whole_body", "chancery.whole_body.length"];

/// A filter that refuses requests, where nothing asks for it. The one that keeps bodies is a `composite` ([`external_auth::off`]).
pub(crate) fn off() -> Any {
    Any::pack(&Rbac::default())
}

/// The filters' configuration by their names; none where no server is shown a body. The smallest of several limits counts: a request passes all of
/// them or none.
pub(crate) fn policies(asked: &[Arc<ExternalAuth>], asks: Asks) -> impl Iterator<Item = (String, Any)> {
    let names = match asks {
        Asks::BeforeRoutes => LISTENER_FILTERS,
        Asks::OfRoute => FILTERS,
    };
    let most = asked.iter().filter_map(|auth| auth.max_body).min();
    most.into_iter().flat_map(move |most| {
        let kept = Any::pack(&Buffer { max_request_bytes: Some(most.get()) });
        let kept = external_auth::composed("envoy.filters.http.buffer", kept);
        names.into_iter().map(str::to_owned).zip([refusing(present("upgrade")), kept, refusing(longer(most.get()))])
    })
}

/// Requests with a body of more bytes.
fn longer(most: u32) -> HeaderMatcher {
    let longer = Int64Range { start: i64::from(most) + 1, end: i64::MAX };
    HeaderMatcher {
        name: "content-length".to_owned(),
        header_match_specifier: Some(HeaderMatchSpecifier::RangeMatch(longer)),
        ..HeaderMatcher::default()
    }
}

/// A filter that refuses requests with such a header.
fn refusing(header: HeaderMatcher) -> Any {
    let permissions = vec![Permission { rule: Some(permission::Rule::Header(header)) }];
    let all = Principal { identifier: Some(principal::Identifier::Any(true)) };
    let policy = Policy { permissions, principals: vec![all], ..Policy::default() };
    let rules =
        Rules { action: Action::Deny as i32, policies: [("body".to_owned(), policy)].into(), ..Rules::default() };
    Any::pack(&RbacPerRoute { rbac: Some(Rbac { rules: Some(rules), ..Rbac::default() }) })
}
