//! The access log: one JSON line per request.

use std::collections::BTreeMap;
use std::sync::Arc;

use prost_types::{Struct, Value, value::Kind};
use proto::envoy::config::accesslog::v3::{self as accesslog, access_log};
use proto::envoy::config::core::v3::{SubstitutionFormatString, substitution_format_string::Format};
use proto::envoy::extensions::access_loggers::file::v3::{FileAccessLog, file_access_log};
use proto::envoy::extensions::access_loggers::stream::v3::{StdoutAccessLog, stdout_access_log};
use proto::google::protobuf::Any;

/// Where a proxy writes a line for each request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AccessLog {
    /// Nowhere.
    #[default]
    Off,
    /// Its standard output.
    Stdout,
    /// This file, appended to.
    File(Arc<str>),
}

/// Fields of a line and what Envoy puts there (its substitution commands). The names are those that Envoy Gateway writes, so
/// that what reads its logs reads these.
const FIELDS: &[(&str, &str)] = &[
    (":authority", "%REQ(:AUTHORITY)%"),
    ("bytes_received", "%BYTES_RECEIVED%"),
    ("bytes_sent", "%BYTES_SENT%"),
    ("connection_termination_details", "%CONNECTION_TERMINATION_DETAILS%"),
    ("downstream_local_address", "%DOWNSTREAM_LOCAL_ADDRESS%"),
    ("downstream_remote_address", "%DOWNSTREAM_REMOTE_ADDRESS%"),
    ("duration", "%DURATION%"),
    ("method", "%REQ(:METHOD)%"),
    ("protocol", "%PROTOCOL%"),
    ("requested_server_name", "%REQUESTED_SERVER_NAME%"),
    ("response_code", "%RESPONSE_CODE%"),
    ("response_code_details", "%RESPONSE_CODE_DETAILS%"),
    ("response_flags", "%RESPONSE_FLAGS%"),
    ("route_name", "%ROUTE_NAME%"),
    ("start_time", "%START_TIME%"),
    ("upstream_cluster", "%UPSTREAM_CLUSTER%"),
    ("upstream_host", "%UPSTREAM_HOST%"),
    ("upstream_local_address", "%UPSTREAM_LOCAL_ADDRESS%"),
    ("upstream_transport_failure_reason", "%UPSTREAM_TRANSPORT_FAILURE_REASON%"),
    ("user-agent", "%REQ(USER-AGENT)%"),
    ("x-envoy-origin-path", "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%"),
    ("x-envoy-upstream-service-time", "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%"),
    ("x-forwarded-for", "%REQ(X-FORWARDED-FOR)%"),
    ("x-request-id", "%REQ(X-REQUEST-ID)%"),
];

/// The loggers of a connection manager.
pub(crate) fn loggers(log: &AccessLog) -> Vec<accesslog::AccessLog> {
    let (name, config) = match log {
        AccessLog::Off => return Vec::new(),
        AccessLog::Stdout => {
            let format = stdout_access_log::AccessLogFormat::LogFormat(line());
            ("envoy.access_loggers.stdout", Any::pack(&StdoutAccessLog { access_log_format: Some(format) }))
        }
        AccessLog::File(path) => {
            let format = file_access_log::AccessLogFormat::LogFormat(line());
            let path = path.as_ref().to_owned();
            ("envoy.access_loggers.file", Any::pack(&FileAccessLog { path, access_log_format: Some(format) }))
        }
    };
    vec![accesslog::AccessLog {
        name: name.to_owned(),
        filter: None,
        config_type: Some(access_log::ConfigType::TypedConfig(config)),
    }]
}

fn line() -> SubstitutionFormatString {
    let value = |text: &str| Value { kind: Some(Kind::StringValue(text.to_owned())) };
    let fields: BTreeMap<_, _> = FIELDS.iter().map(|(name, command)| ((*name).to_owned(), value(command))).collect();
    SubstitutionFormatString {
        format: Some(Format::JsonFormat(Struct { fields })),
        ..SubstitutionFormatString::default()
    }
}
