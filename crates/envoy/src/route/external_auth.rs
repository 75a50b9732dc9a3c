//! Authorisation by another server: Envoy's filter for it, whole, as configuration of one route.
//!
//! Envoy's `ext_authz` cannot be told per route which headers to send, so the chain of filters holds a `composite` in its place, which
//! does nothing until a route says what it is to be. A route and what it asks change in one step so, and the listener never does.

use std::sync::Arc;

use ir::ClusterName;
use ir::route::{AuthProtocol, ExternalAuth, Filters};
use proto::envoy::config::common::mutation_rules::v3::HeaderMutationRules;
use proto::envoy::config::core::v3::grpc_service::{EnvoyGrpc, TargetSpecifier};
use proto::envoy::config::core::v3::{
    ApiVersion, GrpcService, HttpUri, TypedExtensionConfig, http_uri::HttpUpstreamType,
};
use proto::envoy::extensions::filters::http::composite::v3::{
    Composite, CompositePerRoute, ExecuteFilterAction, FilterChainConfiguration,
};
use proto::envoy::extensions::filters::http::ext_authz::v3::{
    AuthorizationResponse, BufferSettings, ExtAuthz, HttpService, ext_authz::Services,
};
use proto::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use proto::envoy::r#type::matcher::v3::{ListStringMatcher, RegexMatcher, StringMatcher};
use proto::google::protobuf::Any;
use proto::xds::r#type::matcher::v3::{Matcher, matcher};

use crate::wire::seconds;

/// The filter's name, as key of a route's configuration for it.
pub(crate) const FILTER: &str = "chancery.external_auth";

/// Who does not answer in this time has not allowed it. People may be waiting, and the server may ask others in turn.
const ANSWER_SECONDS: u32 = 10;

/// What no answer changes of a request: for whom it is (Gateway API: host and authority stay), and where it ends or what becomes of its connection
/// (RFC 9110 7.6.1, RFC 9112 6): an answer has such headers of its own. Envoy matches the whole name.
const KEPT: &str = "host|:authority|:scheme|:status|connection|content-length|keep-alive|proxy-connection|te|trailer|transfer-encoding|upgrade";

/// The filter's configuration where no route has any: everything passes.
pub(crate) fn nobody() -> Any {
    Any::pack(&Composite::default())
}

/// Asks one after the other; the first that does not allow it answers.
pub(super) fn policy(asked: &[Arc<ExternalAuth>]) -> Any {
    let typed_config = asked.iter().map(|auth| extension("envoy.filters.http.ext_authz", Any::pack(&filter(auth))));
    let chain = FilterChainConfiguration { typed_config: typed_config.collect() };
    let action = ExecuteFilterAction { filter_chain: Some(chain), ..ExecuteFilterAction::default() };
    let action = proto::xds::core::v3::TypedExtensionConfig {
        name: "composite-action".to_owned(),
        typed_config: Some(Any::pack(&action)),
    };
    let always =
        matcher::OnMatch { on_match: Some(matcher::on_match::OnMatch::Action(action)), ..matcher::OnMatch::default() };
    let matcher = Matcher { on_no_match: Some(Box::new(always)), ..Matcher::default() };
    Any::pack(&CompositePerRoute { matcher: Some(matcher) })
}

/// Notes the clusters of those that are asked.
pub(super) fn note_clusters(filters: &Filters, clusters: &mut Vec<ClusterName>) {
    clusters.extend(filters.external_auth.iter().map(|auth| auth.cluster.clone()));
}

fn extension(name: &str, config: Any) -> TypedExtensionConfig {
    TypedExtensionConfig { name: name.to_owned(), typed_config: Some(config) }
}

/// Whatever goes wrong is answered 403, which is Envoy's default. Of a body that is longer than what may be sent nothing is sent: a request is judged
/// as a whole or not at all.
fn filter(auth: &ExternalAuth) -> ExtAuthz {
    ExtAuthz {
        transport_api_version: ApiVersion::V3 as i32,
        with_request_body: auth
            .max_body
            .map(|bytes| BufferSettings { max_request_bytes: bytes.get(), ..BufferSettings::default() }),
        allowed_headers: (!auth.request_headers.is_empty()).then(|| names(&auth.request_headers)),
        decoder_header_mutation_rules: Some(HeaderMutationRules {
            allow_all_routing: Some(true),
            disallow_expression: Some(RegexMatcher { regex: KEPT.to_owned(), ..RegexMatcher::default() }),
            ..HeaderMutationRules::default()
        }),
        services: Some(match &auth.protocol {
            AuthProtocol::Http { path_prefix, response_headers } => {
                Services::HttpService(http(&auth.cluster, path_prefix, response_headers))
            }
            AuthProtocol::Grpc { authority } => Services::GrpcService(grpc(&auth.cluster, authority)),
        }),
        ..ExtAuthz::default()
    }
}

fn http(cluster: &ClusterName, path_prefix: &str, response_headers: &[Arc<str>]) -> HttpService {
    let all = MatchPattern::SafeRegex(RegexMatcher { regex: ".*".to_owned(), ..RegexMatcher::default() });
    let taken = match response_headers {
        [] => ListStringMatcher { patterns: vec![super::matches::string(all)] },
        given => names(given),
    };
    HttpService {
        server_uri: Some(HttpUri {
            // Envoy asks for the request's own host, whatever stands here.
            uri: "http://external-auth".to_owned(),
            timeout: Some(seconds(ANSWER_SECONDS)),
            http_upstream_type: Some(HttpUpstreamType::Cluster(cluster.as_str().to_owned())),
        }),
        path_prefix: path_prefix.to_owned(),
        authorization_response: Some(AuthorizationResponse {
            allowed_upstream_headers: Some(taken),
            ..AuthorizationResponse::default()
        }),
        ..HttpService::default()
    }
}

fn grpc(cluster: &ClusterName, authority: &str) -> GrpcService {
    GrpcService {
        timeout: Some(seconds(ANSWER_SECONDS)),
        target_specifier: Some(TargetSpecifier::EnvoyGrpc(EnvoyGrpc {
            cluster_name: cluster.as_str().to_owned(),
            authority: authority.to_owned(),
            ..EnvoyGrpc::default()
        })),
        ..GrpcService::default()
    }
}

fn names(names: &[Arc<str>]) -> ListStringMatcher {
    let exact = |name: &Arc<str>| StringMatcher {
        ignore_case: true,
        match_pattern: Some(MatchPattern::Exact(name.as_ref().to_owned())),
    };
    ListStringMatcher { patterns: names.iter().map(exact).collect() }
}
