//! Traces of HTTP requests: which are recorded, with what, and where spans go.

use std::collections::BTreeSet;

use ir::listener::{SpanAttribute, SpanValue, Tracing};
use proto::envoy::config::core::v3::grpc_service::{EnvoyGrpc, TargetSpecifier};
use proto::envoy::config::core::v3::{
    DataSource, GrpcService, HeaderValue, SubstitutionFormatString, TypedExtensionConfig, data_source,
    substitution_format_string,
};
use proto::envoy::config::trace::v3::OpenTelemetryConfig;
use proto::envoy::config::trace::v3::tracing::{Http, http::ConfigType};
use proto::envoy::extensions::filters::common::set_filter_state::v3::{FilterStateValue, filter_state_value};
use proto::envoy::extensions::filters::http::set_filter_state::v3::Config;
use proto::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpFilter, http_connection_manager as hcm,
};
use proto::envoy::extensions::tracers::opentelemetry::samplers::v3::{
    ParentBasedSamplerConfig, TraceIdRatioBasedSamplerConfig,
};
use proto::envoy::r#type::tracing::v3::{CustomTag, custom_tag};
use proto::google::protobuf::Any;

use crate::http_connection_manager::filter;
use crate::wire::{millionths, seconds};

/// A collector that does not take spans in this time loses them.
const EXPORT_SECONDS: u32 = 10;

/// Most of a collector's answer, which says how many spans it left out and why.
const ANSWER_BYTES: u32 = 64 * 1024;

/// The filter that keeps what clients sent.
const KEEPER: &str = "envoy.filters.http.set_filter_state";

/// The traces of one connection manager on a port that clients see as this.
pub(crate) fn message(tracing: &Tracing, port: u16) -> hcm::Tracing {
    let config = OpenTelemetryConfig {
        grpc_service: Some(collector(tracing)),
        service_name: tracing.service_name.as_ref().to_owned(),
        sampler: Some(sampler(tracing)),
        ..OpenTelemetryConfig::default()
    };
    hcm::Tracing {
        custom_tags: tracing.attributes.iter().map(|attribute| tag(attribute, port)).collect(),
        provider: Some(Http {
            name: "envoy.tracers.opentelemetry".to_owned(),
            config_type: Some(ConfigType::TypedConfig(Any::pack(&config))),
        }),
        operation: tracing.span_name.as_deref().unwrap_or_default().to_owned(),
        ..hcm::Tracing::default()
    }
}

fn collector(tracing: &Tracing) -> GrpcService {
    let header = |(key, value): &(std::sync::Arc<str>, std::sync::Arc<str>)| HeaderValue {
        key: key.as_ref().to_owned(),
        value: value.as_ref().to_owned(),
        ..HeaderValue::default()
    };
    GrpcService {
        timeout: Some(seconds(EXPORT_SECONDS)),
        initial_metadata: tracing.headers.iter().map(header).collect(),
        target_specifier: Some(TargetSpecifier::EnvoyGrpc(EnvoyGrpc {
            cluster_name: tracing.collector.as_str().to_owned(),
            authority: tracing.authority.as_ref().to_owned(),
            max_receive_message_length: Some(ANSWER_BYTES),
            ..EnvoyGrpc::default()
        })),
        ..GrpcService::default()
    }
}

/// The samplers decide alone: Envoy's own shares, all of which are the whole, say nothing of what belongs to a trace already.
fn sampler(tracing: &Tracing) -> TypedExtensionConfig {
    let ratio = TraceIdRatioBasedSamplerConfig { sampling_percentage: Some(millionths(tracing.sampling)) };
    let ratio = TypedExtensionConfig {
        name: "envoy.tracers.opentelemetry.samplers.trace_id_ratio_based".to_owned(),
        typed_config: Some(Any::pack(&ratio)),
    };
    if !tracing.follows_parent {
        return ratio;
    }
    TypedExtensionConfig {
        name: "envoy.tracers.opentelemetry.samplers.parent_based".to_owned(),
        typed_config: Some(Any::pack(&ParentBasedSamplerConfig { wrapped_sampler: Some(ratio) })),
    }
}

/// A filter that keeps what attributes tell of a request as the client sent it: spans end when routes have changed it. None where no attribute does.
/// It comes before all that changes anything.
pub(crate) fn keeper(tracing: &Tracing, port: u16) -> Option<HttpFilter> {
    let kept = |attribute: &SpanAttribute| match told(&attribute.value, port) {
        Told::Sent { key, format } => Some((key, format)),
        Told::AtTheEnd(_) => None,
    };
    let kept: BTreeSet<(String, String)> = tracing.attributes.iter().filter_map(kept).collect();
    let value = |(key, format)| FilterStateValue {
        key: Some(filter_state_value::Key::ObjectKey(key)),
        factory_key: "envoy.string".to_owned(),
        value: Some(filter_state_value::Value::FormatString(SubstitutionFormatString {
            omit_empty_values: true,
            format: Some(substitution_format_string::Format::TextFormatSource(DataSource {
                specifier: Some(data_source::Specifier::InlineString(format)),
                ..DataSource::default()
            })),
            ..SubstitutionFormatString::default()
        })),
        skip_if_empty: true,
        ..FilterStateValue::default()
    };
    let is_needed = !kept.is_empty();
    let config = Config { on_request_headers: kept.into_iter().map(value).collect(), ..Config::default() };
    is_needed.then(|| filter(KEEPER, Any::pack(&config)))
}

/// What a span's attribute is taken from.
enum Told {
    /// What the client sent: Envoy's format for it, and under which key it is kept.
    Sent { key: String, format: String },
    /// What is there when the span ends.
    AtTheEnd(custom_tag::Type),
}

fn told(value: &SpanValue, port: u16) -> Told {
    let sent = |key: &str, format: &str| Told::Sent { key: format!("chancery.trace.{key}"), format: format.to_owned() };
    let command = |text: &str| Told::AtTheEnd(custom_tag::Type::Value(text.to_owned()));
    let text = |value: &str| Told::AtTheEnd(custom_tag::Type::Literal(custom_tag::Literal { value: value.to_owned() }));
    match value {
        SpanValue::Literal(value) => text(value),
        SpanValue::RequestHeader(name) if is_plain(name) => sent(&format!("header.{name}"), &format!("%REQ({name})%")),
        SpanValue::RequestHeader(name) => Told::AtTheEnd(custom_tag::Type::RequestHeader(custom_tag::Header {
            name: name.as_ref().to_owned(),
            ..custom_tag::Header::default()
        })),
        SpanValue::ResponseHeader(name) => command(&format!("%RESP({name})%")),
        SpanValue::Method => command("%REQ(:METHOD)%"),
        SpanValue::Status => command("%RESPONSE_CODE%"),
        SpanValue::Scheme => command("%REQ(:SCHEME)%"),
        SpanValue::Path => sent("path", "%PATH(NQ:PATH)%"),
        SpanValue::Query => sent("query", "%QUERY_PARAMS(ORIG)%"),
        SpanValue::Url => sent("url", "%REQ(:SCHEME)%://%REQ(:AUTHORITY)%%REQ(:PATH)%"),
        SpanValue::ClientAddress => command("%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"),
        SpanValue::ClientPort => command("%DOWNSTREAM_REMOTE_PORT%"),
        SpanValue::Host => sent("host", "%REQ(:AUTHORITY)%"),
        SpanValue::ServerPort => text(&port.to_string()),
        SpanValue::PeerAddress => command("%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%"),
        SpanValue::PeerPort => command("%DOWNSTREAM_DIRECT_REMOTE_PORT%"),
    }
}

/// Of the letters that a header's name may have some mean something in a format.
fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn tag(SpanAttribute { name, value }: &SpanAttribute, port: u16) -> CustomTag {
    let kind = match told(value, port) {
        Told::Sent { key, .. } => custom_tag::Type::Value(format!("%FILTER_STATE({key}:PLAIN)%")),
        Told::AtTheEnd(kind) => kind,
    };
    let is_number =
        matches!(value, SpanValue::Status | SpanValue::ClientPort | SpanValue::ServerPort | SpanValue::PeerPort);
    let value_type = if is_number { custom_tag::ValueType::Int } else { custom_tag::ValueType::Unspecified };
    CustomTag { tag: name.as_ref().to_owned(), value_type: value_type as i32, r#type: Some(kind) }
}
