//! Powers that a resource uses, found by the types of the messages in it: wherever a type stands, in an `Any` or a `TypedStruct` too.

use ir::raw::{Power, PowerUse, RawAddress, RawSocket};
use protojson::{Message, Part, View};

use super::SECRET;
use super::addresses::{self, Found};
use super::inline::LISTENER;
use super::opaque;

const FILE: &str = "reads or writes the file";
const VARIABLE: &str = "reads the environment variable";
const SOCKET: &str = "uses the socket";
const CREDENTIALS: &str = "uses the credentials of the proxy's environment";
const BY_HEADER: &str = "lets requests name any cluster, those of the proxy's bootstrap included, by the header";

const ANYWHERE: &str = "lets requests name any address, those of the proxy's admin interface included";

/// In messages of a type, a field that uses a power when it is set, and what it does then in words before its value.
const FIELDS: &[(&str, &str, Power, &str)] = &[
    ("envoy.config.cluster.v3.Cluster.OriginalDstLbConfig", "use_http_header", Power::Admin, ANYWHERE),
    ("envoy.config.core.v3.ConfigSource", "path", Power::Files, FILE),
    ("envoy.config.core.v3.DataSource", "environment_variable", Power::Environment, VARIABLE),
    ("envoy.config.core.v3.DataSource", "filename", Power::Files, FILE),
    (GOOGLE_GRPC, "credentials_factory_name", Power::Environment, "uses the credentials of the proxy with"),
    (
        GOOGLE_CALLS,
        "google_compute_engine",
        Power::Environment,
        "uses the identity of the machine with google_compute_engine",
    ),
    (
        GOOGLE_CHANNEL,
        "google_default",
        Power::Environment,
        "uses the credentials of the proxy's environment with google_default",
    ),
    ("envoy.config.core.v3.GrpcService.GoogleGrpc.CallCredentials.StsService", "actor_token_path", Power::Files, FILE),
    (
        "envoy.config.core.v3.GrpcService.GoogleGrpc.CallCredentials.StsService",
        "subject_token_path",
        Power::Files,
        FILE,
    ),
    ("envoy.config.core.v3.HealthCheck", "event_log_path", Power::Files, FILE),
    ("envoy.config.core.v3.PathConfigSource", "path", Power::Files, FILE),
    ("envoy.config.core.v3.Pipe", "path", Power::Sockets, SOCKET),
    ("envoy.config.core.v3.SocketAddress", "network_namespace_filepath", Power::Files, FILE),
    ("envoy.config.core.v3.SocketAddress", "resolver_name", Power::Admin, "goes to any address with the resolver"),
    ("envoy.config.core.v3.WatchedDirectory", "path", Power::Files, FILE),
    ("envoy.config.core.v3.EnvoyInternalAddress", "server_listener_name", Power::Sockets, "uses the internal listener"),
    ("envoy.config.route.v3.RouteAction", "cluster_header", Power::Admin, BY_HEADER),
    ("envoy.config.route.v3.RouteAction.RequestMirrorPolicy", "cluster_header", Power::Admin, BY_HEADER),
    ("envoy.config.route.v3.WeightedCluster.ClusterWeight", "cluster_header", Power::Admin, BY_HEADER),
    ("envoy.config.tap.v3.FilePerTapSink", "path_prefix", Power::Files, FILE),
    ("envoy.config.trace.v3.DynamicOtConfig", "library", Power::Lua, "runs the code of the library"),
    ("envoy.config.trace.v3.LightstepConfig", "access_token_file", Power::Files, FILE),
    (FILE_LOG, "path", Power::Files, FILE),
    ("envoy.extensions.filters.http.aws_lambda.v3.Config", "credentials_profile", Power::Files, "reads the profile"),
    (
        "envoy.extensions.filters.http.file_server.v3.FileServerConfig.PathMapping",
        "file_path_prefix",
        Power::Files,
        FILE,
    ),
    (
        "envoy.extensions.filters.http.grpc_json_reverse_transcoder.v3.GrpcJsonReverseTranscoder",
        "descriptor_path",
        Power::Files,
        FILE,
    ),
    (
        "envoy.extensions.filters.http.grpc_json_transcoder.v3.GrpcJsonTranscoder",
        "proto_descriptor",
        Power::Files,
        FILE,
    ),
    ("envoy.extensions.filters.network.thrift_proxy.v3.RouteAction", "cluster_header", Power::Admin, BY_HEADER),
    ("envoy.extensions.geoip_providers.maxmind.v3.MaxMindConfig", "anon_db_path", Power::Files, FILE),
    ("envoy.extensions.geoip_providers.maxmind.v3.MaxMindConfig", "asn_db_path", Power::Files, FILE),
    ("envoy.extensions.geoip_providers.maxmind.v3.MaxMindConfig", "city_db_path", Power::Files, FILE),
    ("envoy.extensions.geoip_providers.maxmind.v3.MaxMindConfig", "country_db_path", Power::Files, FILE),
    ("envoy.extensions.geoip_providers.maxmind.v3.MaxMindConfig", "isp_db_path", Power::Files, FILE),
    (
        "envoy.extensions.health_check.event_sinks.file.v3.HealthCheckEventFileSink",
        "event_log_path",
        Power::Files,
        FILE,
    ),
    (
        "envoy.extensions.http.cache.file_system_http_cache.v3.FileSystemHttpCacheConfig",
        "cache_path",
        Power::Files,
        FILE,
    ),
    (
        "envoy.extensions.http.cache_v2.file_system_http_cache.v3.FileSystemHttpCacheV2Config",
        "cache_path",
        Power::Files,
        FILE,
    ),
    ("envoy.extensions.key_value.file_based.v3.FileBasedKeyValueStoreConfig", "filename", Power::Files, FILE),
    ("envoy.extensions.resource_monitors.injected_resource.v3.InjectedResourceConfig", "filename", Power::Files, FILE),
    ("envoy.extensions.transport_sockets.tls.v3.TlsKeyLog", "path", Power::Files, FILE),
    ("envoy.extensions.wasm.v3.EnvironmentVariables", "host_env_keys", Power::Environment, VARIABLE),
    ("envoy.extensions.watchdog.profile_action.v3.ProfileActionConfig", "profile_path", Power::Files, FILE),
    ("envoy.type.tracing.v3.CustomTag.Environment", "name", Power::Environment, VARIABLE),
];

const DISCOVERY: &str = "envoy.config.core.v3.ExtensionConfigSource";
const FILE_LOG: &str = "envoy.extensions.access_loggers.file.v3.FileAccessLog";
const GOOGLE_GRPC: &str = "envoy.config.core.v3.GrpcService.GoogleGrpc";
const GOOGLE_CALLS: &str = "envoy.config.core.v3.GrpcService.GoogleGrpc.CallCredentials";
const GOOGLE_CHANNEL: &str = "envoy.config.core.v3.GrpcService.GoogleGrpc.ChannelCredentials";

/// Messages that use a power whatever they hold.
const MESSAGES: &[(&str, Power, &str)] = &[
    ("envoy.extensions.clusters.dynamic_forward_proxy.v3.ClusterConfig", Power::Admin, ANYWHERE),
    ("envoy.config.tap.v3.BufferedAdminSink", Power::Admin, "shows requests on the admin interface"),
    ("envoy.config.tap.v3.StreamingAdminSink", Power::Admin, "shows requests on the admin interface"),
    // The tracer's library reads DD_AGENT_HOST, DD_TRACE_AGENT_URL, DD_TAGS and others, and sends tags to its collector.
    ("envoy.config.trace.v3.DatadogConfig", Power::Environment, "reads the DD_ environment variables of the proxy"),
    ("envoy.extensions.common.aws.v3.AssumeRoleCredentialProvider", Power::Environment, CREDENTIALS),
    ("envoy.extensions.common.aws.v3.AssumeRoleWithWebIdentityCredentialProvider", Power::Environment, CREDENTIALS),
    ("envoy.extensions.common.aws.v3.AwsCredentialProvider", Power::Environment, CREDENTIALS),
    ("envoy.extensions.common.aws.v3.ConfigCredentialProvider", Power::Environment, CREDENTIALS),
    ("envoy.extensions.common.aws.v3.ConfigCredentialProvider", Power::Files, "reads the proxy's file of credentials"),
    ("envoy.extensions.common.aws.v3.ContainerCredentialProvider", Power::Environment, CREDENTIALS),
    (
        "envoy.extensions.common.aws.v3.CredentialsFileCredentialProvider",
        Power::Files,
        "reads the proxy's file of credentials",
    ),
    ("envoy.extensions.common.aws.v3.EnvironmentCredentialProvider", Power::Environment, CREDENTIALS),
    ("envoy.extensions.common.aws.v3.InstanceProfileCredentialProvider", Power::Environment, CREDENTIALS),
    ("envoy.extensions.common.tap.v3.AdminConfig", Power::Admin, "shows requests on the admin interface"),
    ("envoy.extensions.filters.http.aws_lambda.v3.Config", Power::Environment, CREDENTIALS),
    ("envoy.extensions.filters.http.aws_request_signing.v3.AwsRequestSigning", Power::Environment, CREDENTIALS),
    ("envoy.extensions.filters.http.file_server.v3.FileServerConfig", Power::Files, "serves files of the proxy"),
    (
        "envoy.extensions.filters.http.file_system_buffer.v3.FileSystemBufferFilterConfig",
        Power::Files,
        "writes requests to files of the proxy",
    ),
    ("envoy.extensions.filters.network.redis_proxy.v3.AwsIam", Power::Environment, CREDENTIALS),
    (
        "envoy.extensions.filters.network.sni_cluster.v3.SniCluster",
        Power::Admin,
        "lets connections name any cluster, those of the proxy's bootstrap included",
    ),
    ("envoy.extensions.formatter.file_content.v3.FileContent", Power::Files, "reads files of the proxy"),
    ("envoy.extensions.network.socket_interface.sockmap.v3.Sockmap", Power::Files, "loads a program from a file"),
    (
        "envoy.extensions.tracers.opentelemetry.resource_detectors.v3.DynatraceResourceDetectorConfig",
        Power::Files,
        "reads files of the proxy's machine",
    ),
    (
        "envoy.extensions.tracers.opentelemetry.resource_detectors.v3.EnvironmentResourceDetectorConfig",
        Power::Environment,
        "reads environment variables of the proxy",
    ),
];

/// Parts of the full names of messages whose settings are code, or name code.
const CODE: [&str; 4] = [".dynamic_modules.", ".golang.", ".lua.", ".wasm."];

/// Commands in formats of logs, headers and bodies that read from the machine.
const FORMATS: [(&str, Power, &str); 2] = [
    ("%ENVIRONMENT(", Power::Environment, "reads an environment variable with the format"),
    ("%FILE_CONTENT(", Power::Files, "reads a file with the format"),
];

/// The beginning of the names of clusters in the bootstrap of Chancery's proxies.
const OWN: &str = "chancery.";
/// The one of these that never exists.
const INVALID: &str = "chancery.invalid";
/// Under these names filters say to which cluster or address a connection goes, or in which network.
const STATES: [&str; 8] = [
    "envoy.network.network_namespace",
    "envoy.network.transport_socket.http_11_proxy.info",
    "envoy.network.transport_socket.original_dst_address",
    "envoy.network.upstream_bind_override.network_namespace",
    "envoy.tcp_proxy.cluster",
    "envoy.udp_proxy.cluster",
    "envoy.upstream.dynamic_host",
    "envoy.upstream.dynamic_port",
];
/// Arguments of Google's gRPC client that name another way to its target.
const GRPC_PROXIES: [&str; 3] =
    ["grpc.address_http_proxy", "grpc.address_http_proxy_enabled_addresses", "grpc.http_proxy"];

/// Fields with the addresses of a listener.
const BOUND: [&str; 2] = ["address.", "additionalAddresses["];

/// Fields with addresses to which a proxy binds connections that it opens (`BindConfig`). Port 0 is any that is free.
const SOURCES: [&str; 3] = ["sourceAddress", "additionalSourceAddresses", "extraSourceAddresses"];

/// The effects of a resource beyond its requests; sorted, each once.
#[derive(Default)]
pub(super) struct RawEffects {
    pub(super) uses: Vec<PowerUse>,
    /// Addresses to which it leads.
    pub(super) leads: Vec<RawAddress>,
    pub(super) sockets: Vec<RawSocket>,
    /// Addresses that it takes for itself.
    pub(super) bound: Vec<RawAddress>,
}

/// Returns all of it.
pub(super) fn of(message: &Message<'_>) -> RawEffects {
    let (is_secret, is_listener) = (message.view().is(SECRET), message.view().is(LISTENER));
    let RawEffects { mut uses, mut leads, mut sockets, mut bound } = RawEffects::default();
    message.walk(&mut |part, place| {
        let mut add = |power, what: String| {
            uses.push(PowerUse { power, what: what.into(), path: place.to_string().into() });
        };
        if let Some(words) = opaque::unjudged(&part, place) {
            all(&words, &mut add);
        }
        match part {
            Part::Message(view) => {
                in_message(&view, &mut add);
                addresses::in_message(&view, &mut |found| match found {
                    Found::Use(power, what) => add(power, what),
                    Found::Socket(socket) => {
                        sockets.push(RawSocket { socket: socket.into(), path: place.to_string().into() });
                    }
                    Found::Address(host, port) => {
                        let path: Box<str> = place.to_string().into();
                        let found = RawAddress { host: host.into(), port, path };
                        // A listener is bound there, and no request leads there.
                        if is_listener && BOUND.iter().any(|field| found.path.starts_with(field)) {
                            bound.push(found);
                            return;
                        }
                        if port > 0 && is_source(&found.path) {
                            bound.push(found.clone());
                        }
                        leads.push(found);
                    }
                });
            }
            // Envoy reads no text of a secret as a format.
            Part::Text(text) if !is_secret => in_text(&text, &mut add),
            Part::Text(_) | Part::Opaque(_) | Part::Untyped(_) | Part::Typed(_) => {}
        }
    });
    uses.sort_unstable();
    uses.dedup_by(|one, kept| (one.power, &one.what) == (kept.power, &kept.what));
    leads.sort_unstable();
    leads.dedup_by(|one, kept| (&one.host, one.port) == (&kept.host, kept.port));
    sockets.sort_unstable();
    sockets.dedup_by(|one, kept| one.socket == kept.socket);
    bound.sort_unstable();
    bound.dedup_by(|one, kept| (&one.host, one.port) == (&kept.host, kept.port));
    RawEffects { uses, leads, sockets, bound }
}

/// Returns true for an address of a `BindConfig`.
fn is_source(path: &str) -> bool {
    let names = path.split('.').map(|part| part.split('[').next().unwrap_or_default());
    names.into_iter().any(|name| SOURCES.contains(&name))
}

/// Adds a use of each power, for what may do anything.
fn all(what: &str, add: &mut dyn FnMut(Power, String)) {
    Power::ALL.into_iter().for_each(|power| add(power, what.to_owned()));
}

fn in_message(view: &View<'_>, add: &mut dyn FnMut(Power, String)) {
    let name = view.name();
    for (_, field, power, what) in FIELDS.iter().filter(|(of, ..)| *of == name) {
        if view.has(field) && !is_harmless(view, field) {
            let text = view.text(field);
            let texts = if text.is_empty() { view.texts(field).join(", ") } else { text };
            add(*power, format!("{what} {texts}").trim_end().to_owned());
        }
    }
    if view.is(DISCOVERY) {
        view.texts("type_urls").iter().for_each(|url| of_type(proto::full_name(url), add));
    }
    of_type(name, add);
}

/// Adds what a message does whatever it holds.
fn of_type(name: &str, add: &mut dyn FnMut(Power, String)) {
    for (_, power, what) in MESSAGES.iter().filter(|(of, ..)| *of == name) {
        add(*power, (*what).to_owned());
    }
    if is_code(name) {
        add(Power::Lua, format!("runs code in the proxy with {name}"));
    }
}

/// Returns true for a message whose settings are code or name code, and for its fields.
pub(super) fn is_code(name: &str) -> bool {
    CODE.iter().any(|part| name.contains(part))
}

/// Fields whose value may be one that uses no power, and these values: logs that go to the proxy's own output are no files.
const HARMLESS: [(&str, &str, &[&str]); 3] = [
    (FILE_LOG, "path", &["/dev/stdout", "/dev/stderr", "/dev/null"]),
    (
        GOOGLE_GRPC,
        "credentials_factory_name",
        &["envoy.grpc_credentials.default", "envoy.grpc_credentials.file_based_metadata"],
    ),
    ("envoy.config.core.v3.SocketAddress", "resolver_name", &["envoy.ip"]),
];

fn is_harmless(view: &View<'_>, field: &str) -> bool {
    HARMLESS.iter().any(|(of, its, values)| view.is(of) && *its == field && values.contains(&&*view.text(field)))
}

fn in_text(text: &str, add: &mut dyn FnMut(Power, String)) {
    if text.starts_with(OWN) && text != INVALID {
        add(Power::Admin, format!("names {text}, which is Chancery's own"));
    }
    if STATES.contains(&text) {
        add(Power::Admin, format!("sets {text}, by which connections go anywhere, to the proxy's admin interface too"));
    }
    if GRPC_PROXIES.contains(&text) {
        add(Power::Admin, format!("sets {text}, by which connections go to any address"));
    }
    for (format, power, what) in FORMATS {
        if text.contains(format) {
            add(power, format!("{what} {text}"));
        }
    }
}

#[cfg(test)]
mod tests;
