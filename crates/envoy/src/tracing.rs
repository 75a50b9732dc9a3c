//! Traces of HTTP requests: which are recorded, with what, and where spans go.

use ir::listener::{SpanAttribute, SpanValue, Tracing};
use proto::envoy::config::core::v3::grpc_service::{EnvoyGrpc, TargetSpecifier};
use proto::envoy::config::core::v3::{GrpcService, HeaderValue, TypedExtensionConfig};
use proto::envoy::config::trace::v3::OpenTelemetryConfig;
use proto::envoy::config::trace::v3::tracing::{Http, http::ConfigType};
use proto::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager as hcm;
use proto::envoy::extensions::tracers::opentelemetry::samplers::v3::{
    ParentBasedSamplerConfig, TraceIdRatioBasedSamplerConfig,
};
use proto::envoy::r#type::tracing::v3::{CustomTag, custom_tag};
use proto::google::protobuf::Any;

use crate::wire::{millionths, seconds};

/// A collector that does not take spans in this time loses them.
const EXPORT_SECONDS: u32 = 10;

/// The host as the client wrote it, with its port, whatever a route makes of it. Envoy takes away a client's own header of this name.
const ORIGINAL_HOST: &str = "%REQ(X-ENVOY-ORIGINAL-HOST?:AUTHORITY)%";

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

fn tag(SpanAttribute { name, value }: &SpanAttribute, port: u16) -> CustomTag {
    let command = |text: &str| custom_tag::Type::Value(text.to_owned());
    let text = |value: &str| custom_tag::Type::Literal(custom_tag::Literal { value: value.to_owned() });
    let kind = match value {
        SpanValue::Literal(value) => text(value),
        SpanValue::RequestHeader(name) => custom_tag::Type::RequestHeader(custom_tag::Header {
            name: name.as_ref().to_owned(),
            ..custom_tag::Header::default()
        }),
        SpanValue::ResponseHeader(name) => command(&format!("%RESP({name})%")),
        SpanValue::Method => command("%REQ(:METHOD)%"),
        SpanValue::Status => command("%RESPONSE_CODE%"),
        SpanValue::Scheme => command("%REQ(:SCHEME)%"),
        SpanValue::Path => command("%PATH(NQ:ORIG_OR_PATH)%"),
        SpanValue::Query => command("%QUERY_PARAMS(ORIG)%"),
        SpanValue::Url => command(&format!("%REQ(:SCHEME)%://{ORIGINAL_HOST}%PATH(WQ:ORIG_OR_PATH)%")),
        SpanValue::ClientAddress => command("%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"),
        SpanValue::ClientPort => command("%DOWNSTREAM_REMOTE_PORT%"),
        SpanValue::Host => command(ORIGINAL_HOST),
        SpanValue::ServerPort => text(&port.to_string()),
        SpanValue::PeerAddress => command("%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%"),
        SpanValue::PeerPort => command("%DOWNSTREAM_DIRECT_REMOTE_PORT%"),
    };
    let is_number =
        matches!(value, SpanValue::Status | SpanValue::ClientPort | SpanValue::ServerPort | SpanValue::PeerPort);
    let value_type = if is_number { custom_tag::ValueType::Int } else { custom_tag::ValueType::Unspecified };
    CustomTag { tag: name.as_ref().to_owned(), value_type: value_type as i32, r#type: Some(kind) }
}
