//! HTTP on a connection: codec, time-outs, trust, and the chain of filters. Everything is a constant but the route
//! configuration's name and the access log: what changes often must not be here (a change ends the listener's connections).

use ir::Listener;
use proto::envoy::config::core::v3::http_protocol_options::HeadersWithUnderscoresAction;
use proto::envoy::config::core::v3::{Http2ProtocolOptions, HttpProtocolOptions};
use proto::envoy::extensions::filters::http::cors::v3::Cors;
use proto::envoy::extensions::filters::http::router::v3::Router;
use proto::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::{
    CodecType, PathWithEscapedSlashesAction, RouteSpecifier, ServerHeaderTransformation, UpgradeConfig,
};
use proto::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, http_filter,
};
use proto::google::protobuf::Any;

use crate::access_log::{AccessLog, loggers};
use crate::route::{external_auth, over_budget, session, whole_body};
use crate::tracing;
use crate::wire::seconds;

/// A filter's name, whether a request passes it only where its route or virtual host says so, and its configuration.
type Declared = (&'static str, bool, fn() -> Any);

/// The HTTP filters in the order in which a request passes them, behind what virtual hosts may put before the choice of a route; the router is last.
const HTTP_FILTERS: &[Declared] = &[
    ("envoy.filters.http.cors", false, || Any::pack(&Cors {})),
    (whole_body::FILTERS[0], false, whole_body::off),
    (whole_body::FILTERS[1], false, external_auth::off),
    (whole_body::FILTERS[2], false, whole_body::off),
    (external_auth::FILTERS[0], false, external_auth::off),
    (external_auth::FILTERS[1], false, external_auth::off),
    (over_budget::FILTER, true, over_budget::off),
    (session::FILTER, true, session::off),
    ("envoy.filters.http.router", false, || Any::pack(&Router { suppress_envoy_headers: true, ..Router::default() })),
];

/// A client that opens a connection and says nothing for an hour is gone.
const IDLE_SECONDS: u32 = 3600;
/// The head of a request must arrive in this time (against slow senders).
const REQUEST_HEADERS_SECONDS: u32 = 10;
/// Silence on a stream in both directions: long enough for a WebSocket or a long poll, short enough that clients that left without
/// a word do not stay for ever.
pub(crate) const STREAM_IDLE_SECONDS: u32 = 3600;
/// Streams of one HTTP/2 connection and the bytes in flight on one stream and on all: Envoy's advice for an edge proxy.
/// A connection can hold at most 1 MiB of ours.
const HTTP2_STREAMS: u32 = 100;
const HTTP2_STREAM_WINDOW: u32 = 64 * 1024;
const HTTP2_CONNECTION_WINDOW: u32 = 1024 * 1024;

/// The connection manager of one filter chain.
///
/// - A path is normalised before it is compared, and forwarded so (RFC 3986, 6.2.2): dot segments are resolved, percent-encoded unreserved
///   characters decoded, backslashes turned into slashes, repeated slashes merged. One with `%2F` or `%5C` is answered with a redirect to the path with
///   a slash, one with `%00` or a fragment with 400. Else a guarded prefix has other spellings that pass by its route (measured with Envoy 1.40).
/// - A dot at the end of a request's host is forwarded (Gateway API `HTTPRouteSpec.hostnames`): virtual hosts have both spellings.
/// - No client is trusted: its address is that of its connection, `X-Forwarded-For` gets it appended, `x-envoy-*` headers
///   that steer Envoy are removed from every request; `x-envoy-external-address` is added with that address.
/// - WebSocket is allowed on every route (Gateway API `HTTPRouteBackendProtocolWebSocket`), over HTTP/2 too (RFC 8441).
/// - A backend's `server` header passes. A request with an underscore in a header's name is refused: many servers read it as a dash, so that it
///   passes for a header that a proxy has checked or set.
/// - Statistics are kept per port, not per server name: their number does not grow with certificates.
pub(crate) fn connection_manager(
    listener: &Listener,
    routes: RouteSpecifier,
    access_log: &AccessLog,
) -> HttpConnectionManager {
    HttpConnectionManager {
        codec_type: CodecType::Auto as i32,
        stat_prefix: format!("http-{}", listener.port),
        route_specifier: Some(routes),
        http_filters: http_filters(listener),
        tracing: listener.tracing.as_deref().map(|tracing| tracing::message(tracing, listener.port)),
        access_log: loggers(access_log),
        common_http_protocol_options: Some(HttpProtocolOptions {
            idle_timeout: Some(seconds(IDLE_SECONDS)),
            headers_with_underscores_action: HeadersWithUnderscoresAction::RejectRequest as i32,
            ..HttpProtocolOptions::default()
        }),
        http2_protocol_options: Some(Http2ProtocolOptions {
            max_concurrent_streams: Some(HTTP2_STREAMS),
            initial_stream_window_size: Some(HTTP2_STREAM_WINDOW),
            initial_connection_window_size: Some(HTTP2_CONNECTION_WINDOW),
            allow_connect: true,
            ..Http2ProtocolOptions::default()
        }),
        request_headers_timeout: Some(seconds(REQUEST_HEADERS_SECONDS)),
        stream_idle_timeout: Some(seconds(STREAM_IDLE_SECONDS)),
        server_header_transformation: ServerHeaderTransformation::PassThrough as i32,
        // No `internal_address_config`: left out it makes nobody internal, given empty it makes loopback internal, and internal clients may
        // set `x-envoy-*` headers such as time-outs (measured with Envoy 1.40).
        use_remote_address: Some(true),
        upgrade_configs: vec![UpgradeConfig { upgrade_type: "websocket".to_owned(), ..UpgradeConfig::default() }],
        normalize_path: Some(true),
        merge_slashes: true,
        path_with_escaped_slashes_action: PathWithEscapedSlashesAction::UnescapeAndRedirect as i32,
        ..HttpConnectionManager::default()
    }
}

/// First what keeps a request as it was sent, for traces, and what virtual hosts may put before the choice of a route, off until one does. What
/// answers over a budget is there only with one: Envoy warns of it wherever it is, as work in progress.
fn http_filters(listener: &Listener) -> Vec<HttpFilter> {
    let keeper = listener.tracing.as_deref().and_then(|tracing| tracing::keeper(tracing, listener.port));
    let [refuses, keeps] = [whole_body::off(), external_auth::off()];
    let bodies = whole_body::LISTENER_FILTERS.into_iter().zip([refuses.clone(), keeps, refuses]);
    let bodies = bodies.map(|(name, config)| (name, true, config));
    let asked = external_auth::LISTENER_FILTERS.iter().map(|name| (*name, true, external_auth::off()));
    let before = bodies.chain(asked);
    let declared = HTTP_FILTERS.iter().filter(|(name, ..)| listener.retry_budgets || *name != over_budget::FILTER);
    let all = before.chain(declared.map(|(name, disabled, config)| (*name, *disabled, config())));
    let all = all.map(|(name, disabled, config)| HttpFilter { disabled, ..filter(name, config) });
    keeper.into_iter().chain(all).collect()
}

pub(crate) fn filter(name: &str, config: Any) -> HttpFilter {
    HttpFilter {
        name: name.to_owned(),
        config_type: Some(http_filter::ConfigType::TypedConfig(config)),
        ..HttpFilter::default()
    }
}
