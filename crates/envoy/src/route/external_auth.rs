//! Authorisation by another server: Envoy's filter for it, whole, as configuration of one route.
//!
//! Envoy's `ext_authz` cannot be told per route which headers to send, so the chain of filters holds a `composite` in its place, which
//! does nothing until a route says what it is to be. A route and what it asks change in one step so, and the listener never does.

use std::sync::Arc;

use ir::route::{AuthProtocol, ExternalAuth, Filters};
use ir::{ClusterName, VirtualHost};
use proto::envoy::config::common::mutation_rules::v3::HeaderMutationRules;
use proto::envoy::config::core::v3::grpc_service::{EnvoyGrpc, TargetSpecifier};
use proto::envoy::config::core::v3::{
    ApiVersion, GrpcService, HttpUri, TypedExtensionConfig, http_uri::HttpUpstreamType,
};
use proto::envoy::config::route::v3::route_action::UpgradeConfig;
use proto::envoy::extensions::filters::http::composite::v3::{Composite, CompositePerRoute, ExecuteFilterAction};
use proto::envoy::extensions::filters::http::ext_authz::v3::{
    AuthorizationResponse, BufferSettings, ExtAuthz, HttpService, ext_authz::Services,
};
use proto::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use proto::envoy::r#type::matcher::v3::{ListStringMatcher, RegexMatcher, StringMatcher};
use proto::google::protobuf::Any;
use proto::xds::r#type::matcher::v3::{Matcher, matcher};

use crate::wire::seconds;

/// The names of the filters that routes say what to be, as keys of their configuration: one for who is asked by a rule, and one for who is asked for a
/// destination. Each is one filter: of several inside one `composite` Envoy leaves out those behind one that waits for an answer (measured with 1.40).
pub(crate) const FILTERS: [&str; 2] = ["chancery.external_auth", "chancery.external_auth.next"];

/// Those before them, of which virtual hosts say what they are to be: they come before anything that looks at a route. They are off where the virtual
/// host says nothing, which does not change while a request is under way, as its route may. As many as a listener can have: another number would be
/// another chain, and end connections. That most are off costs requests nothing that can be measured, and a proxy some 0.6 kB each.
pub(crate) const LISTENER_FILTERS: [&str; VirtualHost::MOST_EXTERNAL_AUTH] = [
    "chancery.external_auth.listener",
    "chancery.external_auth.listener.2",
    "chancery.external_auth.listener.3",
    "chancery.external_auth.listener.4",
    "chancery.external_auth.listener.5",
    "chancery.external_auth.listener.6",
    "chancery.external_auth.listener.7",
    "chancery.external_auth.listener.8",
    "chancery.external_auth.listener.9",
    "chancery.external_auth.listener.10",
    "chancery.external_auth.listener.11",
    "chancery.external_auth.listener.12",
    "chancery.external_auth.listener.13",
    "chancery.external_auth.listener.14",
    "chancery.external_auth.listener.15",
    "chancery.external_auth.listener.16",
];

/// Where it is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    /// Before a route is chosen: by the request as the answer changes it.
    BeforeRoutes,
    OfRoute,
}

/// Who does not answer in this time has not allowed it. People may be waiting, and the server may ask others in turn.
const ANSWER_SECONDS: u32 = 10;

/// Most of an answer over gRPC: as much as the headers of a request may have (60 KiB), and some for a body. Without it Envoy keeps any.
const ANSWER_BYTES: u32 = 1024 * 1024;

/// What no answer changes of a request: for whom it is (Gateway API: host and authority stay), and where it ends or what becomes of its connection
/// (RFC 9110 7.6.1, RFC 9112 6): an answer has such headers of its own. Envoy matches the whole name; of the pseudo-headers with these letters there are
/// `:authority`, `:scheme` and `:status`: written out it would be more than an Envoy takes by itself (a program of 100 in RE2, where its runtime says
/// nothing of `re2.max_program_size`).
const KEPT: &str =
    "host|:[as].*|connection|content-length|keep-alive|proxy-connection|te|trailer|transfer-encoding|upgrade";

/// The filter's configuration where no route has any: everything passes.
pub(crate) fn off() -> Any {
    Any::pack(&Composite::default())
}

/// What the filters are to be, by their names: they ask one after the other, and the first that does not allow it answers. More than there are filters
/// for cannot be asked, and nothing passes.
pub(crate) fn policies(asked: &[Arc<ExternalAuth>], asks: Asks) -> impl Iterator<Item = (String, Any)> + use<'_> {
    let names: &[&str] = match asks {
        Asks::BeforeRoutes => &LISTENER_FILTERS,
        Asks::OfRoute => &FILTERS,
    };
    let too_many = asked.len() > names.len();
    names.iter().zip(asked).enumerate().map(move |(at, (name, auth))| {
        let none =
            (too_many && at == 0).then(|| ExternalAuth { cluster: ClusterName::INVALID.into(), ..(**auth).clone() });
        ((*name).to_owned(), policy(none.as_ref().unwrap_or(auth), asks))
    })
}

fn policy(auth: &ExternalAuth, asks: Asks) -> Any {
    composed("envoy.filters.http.ext_authz", Any::pack(&filter(auth, asks)))
}

/// What one of the filters is to be: this one, with this configuration.
pub(super) fn composed(name: &str, config: Any) -> Any {
    let filter = TypedExtensionConfig { name: name.to_owned(), typed_config: Some(config) };
    let action = ExecuteFilterAction { typed_config: Some(filter), ..ExecuteFilterAction::default() };
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

/// Of a request that asks for another protocol Envoy shows nobody the body: where bodies are judged there is no such request.
pub(super) fn upgrades(filters: &Filters) -> Vec<UpgradeConfig> {
    let judged = filters.external_auth.iter().any(|auth| auth.max_body.is_some());
    let none =
        || UpgradeConfig { upgrade_type: "websocket".to_owned(), enabled: Some(false), ..UpgradeConfig::default() };
    judged.then(none).into_iter().collect()
}

/// Whatever goes wrong is answered 403, which is Envoy's default. So is an answer over gRPC with a line's end in a header: it would begin another response. Of a body that is longer than what may be sent nothing is sent: a request is judged
/// as a whole or not at all.
fn filter(auth: &ExternalAuth, asks: Asks) -> ExtAuthz {
    ExtAuthz {
        transport_api_version: ApiVersion::V3 as i32,
        clear_route_cache: asks == Asks::BeforeRoutes,
        validate_mutations: true,
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
            max_receive_message_length: Some(ANSWER_BYTES),
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
