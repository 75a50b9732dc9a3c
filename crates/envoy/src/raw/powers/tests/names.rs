//! Names of Envoy's API that sound like a power: a new Envoy makes its reader decide for each whether it joins a table or is harmless, and why.

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};

use super::super::{FIELDS, MESSAGES, is_code, opaque};

/// Packages that stand in no resource: bootstraps, what an Envoy answers, and what servers are asked.
const ELSEWHERE: [&str; 14] = [
    "cel.",
    "envoy.admin.",
    "envoy.annotations.",
    "envoy.config.bootstrap.",
    "envoy.data.",
    "envoy.extensions.bootstrap.",
    "envoy.service.",
    "google.",
    "io.",
    "opentelemetry.",
    "prometheus.",
    "udpa.annotations.",
    "validate.",
    "xds.annotations.",
];

/// Parts of names of fields, without the `s` of a plural.
const WORDS: [&str; 32] = [
    "admin",
    "bin",
    "binary",
    "code",
    "command",
    "credential",
    "device",
    "dir",
    "directorie",
    "directory",
    "env",
    "environment",
    "exec",
    "executable",
    "file",
    "filename",
    "filepath",
    "folder",
    "handshaker",
    "interface",
    "lib",
    "librarie",
    "library",
    "module",
    "path",
    "pipe",
    "plugin",
    "profile",
    "program",
    "script",
    "source",
    "unix",
];

/// Texts anywhere in names of fields.
const TEXTS: [&str; 6] = ["cluster_header", "environ", "host_key", "metadata_key", "socket", "target_uri"];

/// Words in names of messages.
const KINDS: [&str; 24] = [
    "AWS",
    "Admin",
    "Aws",
    "Command",
    "Credential",
    "Credentials",
    "Detector",
    "Env",
    "Environment",
    "Exec",
    "File",
    "Files",
    "IAM",
    "Iam",
    "Internal",
    "Library",
    "Module",
    "Pipe",
    "Plugin",
    "Profile",
    "Script",
    "Socket",
    "Source",
    "Unix",
];

/// Fields and messages that use no power, by the reason.
const HARMLESS: &[(&str, &[&str])] = &[
    (
        "a path, a header or a code of HTTP, or of a protocol like it",
        &[
            "envoy.config.core.v3.HealthCheck.HttpHealthCheck.path",
            "envoy.config.route.v3.RedirectAction.path_redirect",
            "envoy.config.route.v3.RedirectAction.path_rewrite",
            "envoy.config.route.v3.RedirectAction.response_code",
            "envoy.config.route.v3.RouteAction.HashPolicy.Cookie.path",
            "envoy.config.route.v3.RouteAction.cluster_not_found_response_code",
            "envoy.config.route.v3.RouteAction.path_rewrite",
            "envoy.config.route.v3.RouteMatch.path",
            "envoy.config.route.v3.RouteMatch.path_separated_prefix",
            "envoy.extensions.clusters.mcp_multicluster.v3.ClusterConfig.McpCluster.path",
            "envoy.extensions.filters.http.api_key_auth.v3.KeySource",
            "envoy.extensions.filters.http.ext_authz.v3.HttpService.path_override",
            "envoy.extensions.filters.http.ext_authz.v3.HttpService.path_prefix",
            "envoy.extensions.filters.http.mcp_json_rest_bridge.v3.McpServerInfo.path",
            "envoy.extensions.filters.http.mcp_router.v3.HeaderSource",
            "envoy.extensions.filters.http.mcp_router.v3.McpRouter.McpCluster.path",
            "envoy.extensions.filters.http.oauth2.v3.CookieConfig.path",
            "envoy.extensions.filters.http.oauth2.v3.OAuth2Credentials.CookieNames.code_verifier",
            "envoy.extensions.filters.network.dubbo_proxy.v3.RouteConfiguration.interface",
            "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.path_with_escaped_slashes_action",
            "envoy.extensions.filters.network.mongo_proxy.v3.MongoProxy.commands",
            "envoy.extensions.filters.network.redis_proxy.v3.RedisProxy.PrefixRoutes.Route.ReadCommandPolicy",
            "envoy.extensions.filters.network.redis_proxy.v3.RedisProxy.RedisFault.commands",
            "envoy.extensions.filters.network.redis_proxy.v3.RedisProxy.custom_commands",
            "envoy.extensions.filters.network.reverse_tunnel.v3.ReverseTunnel.request_path",
            "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.TunnelingConfig.post_path",
            "envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig.UdpTunnelingConfig.post_path",
            "envoy.extensions.http.custom_response.local_response_policy.v3.LocalResponsePolicy.response_code_details",
            "envoy.extensions.http.header_validators.envoy_default.v3.HeaderValidatorConfig.UriPathNormalizationOptions.path_with_escaped_slashes_action",
            "envoy.extensions.path.match.uri_template.v3.UriTemplateMatchConfig.path_template",
            "envoy.extensions.path.rewrite.uri_template.v3.UriTemplateRewriteConfig.path_template_rewrite",
            "envoy.type.HttpStatus.code",
            "envoy.type.http.v3.Cookie.path",
            "envoy.type.v3.HttpStatus.code",
        ],
    ),
    (
        "a path within a document or within metadata, where something is read or left",
        &[
            "envoy.config.rbac.v3.SourcedMetadata.metadata_source",
            "envoy.config.route.v3.RateLimit.Action.DynamicMetaData.metadata_key",
            "envoy.config.route.v3.RateLimit.Action.MetaData.metadata_key",
            "envoy.config.route.v3.RateLimit.Action.MetaData.source",
            "envoy.config.route.v3.RateLimit.Override.DynamicMetadata.metadata_key",
            "envoy.extensions.filters.http.a2a.v3.MethodParsingConfig.paths",
            "envoy.extensions.filters.http.a2a.v3.ParserConfig.group_metadata_key",
            "envoy.extensions.filters.http.gcp_authn.v3.GcpAuthnFilterConfig.token_metadata_key",
            "envoy.extensions.filters.http.grpc_field_extraction.v3.RequestFieldValueDisposition.metadata_key",
            "envoy.extensions.filters.http.mcp.v3.Mcp.attribute_source",
            "envoy.extensions.filters.http.mcp.v3.ParserConfig.AttributeExtractionRule.path",
            "envoy.extensions.filters.http.mcp.v3.ParserConfig.group_metadata_key",
            "envoy.extensions.filters.http.mcp_json_rest_bridge.v3.HttpRule.ParameterBinding.argument_path",
            "envoy.extensions.filters.http.mcp_router.v3.DynamicMetadataSource",
            "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.TunnelingConfig.request_id_metadata_key",
            "envoy.extensions.transport_sockets.internal_upstream.v3.InternalUpstreamTransport.MetadataValueSource",
            "envoy.type.tracing.v3.CustomTag.Metadata.metadata_key",
        ],
    ),
    (
        "what is compared, not used",
        &[
            "envoy.config.common.matcher.v3.HttpGenericBodyMatch.GenericTextMatch.binary_match",
            "envoy.config.listener.v3.FilterChainMatch.source_type",
            "envoy.config.route.v3.RateLimit.Action.SourceCluster",
            "envoy.config.tap.v3.HttpGenericBodyMatch.GenericTextMatch.binary_match",
            "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.InternalAddressConfig",
            "envoy.extensions.matching.common_inputs.network.v3.DirectSourceIPInput",
            "envoy.extensions.matching.common_inputs.network.v3.SourceIPInput",
            "envoy.extensions.matching.common_inputs.network.v3.SourcePortInput",
            "envoy.extensions.matching.common_inputs.network.v3.SourceTypeInput",
            "envoy.type.HashPolicy.SourceIp",
            "envoy.type.v3.HashPolicy.SourceIp",
        ],
    ),
    (
        "bytes or secrets that stand there themselves, or in a DataSource, which is judged",
        &[
            "envoy.config.core.v3.AsyncDataSource",
            "envoy.config.core.v3.GrpcService.GoogleGrpc.CallCredentials.GoogleIAMCredentials",
            "envoy.config.core.v3.GrpcService.GoogleGrpc.CallCredentials.MetadataCredentialsFromPlugin",
            "envoy.config.core.v3.GrpcService.GoogleGrpc.CallCredentials.ServiceAccountJWTAccessCredentials",
            "envoy.config.core.v3.GrpcService.GoogleGrpc.GoogleLocalCredentials",
            "envoy.config.core.v3.GrpcService.GoogleGrpc.SslCredentials",
            "envoy.config.core.v3.HealthCheck.Payload.binary",
            "envoy.config.core.v3.RemoteDataSource",
            "envoy.config.grpc_credential.v3.FileBasedMetadataConfig",
            "envoy.extensions.common.aws.v3.IAMRolesAnywhereCredentialProvider",
            "envoy.extensions.common.aws.v3.IAMRolesAnywhereCredentialProvider.profile_arn",
            "envoy.extensions.common.aws.v3.InlineCredentialProvider",
            "envoy.extensions.filters.http.api_key_auth.v3.Credential",
            "envoy.extensions.filters.http.aws_lambda.v3.Credentials",
            "envoy.extensions.filters.http.credential_injector.v3.CredentialInjector",
            "envoy.extensions.filters.http.gcp_authn.v3.Audience.IAMAccessToken",
            "envoy.extensions.filters.http.grpc_json_reverse_transcoder.v3.GrpcJsonReverseTranscoder.descriptor_binary",
            "envoy.extensions.filters.http.grpc_json_transcoder.v3.GrpcJsonTranscoder.proto_descriptor_bin",
            "envoy.extensions.filters.http.oauth2.v3.OAuth2Credentials",
            "envoy.extensions.filters.network.redis_proxy.v3.RedisProtocolOptions.Credential",
            "envoy.extensions.http.injected_credentials.oauth2.v3.OAuth2.ClientCredentials",
            "envoy.extensions.quic.server_preferred_address.v3.DataSourceServerPreferredAddressConfig",
            "envoy.extensions.tracers.opentelemetry.resource_detectors.v3.StaticConfigResourceDetectorConfig",
        ],
    ),
    (
        "it only works in, or holds, what needs its power anyway",
        &[
            "envoy.config.cluster.v3.Cluster.OriginalDstLbConfig.metadata_key",
            "envoy.config.core.v3.ExtensionConfigSource",
            "envoy.config.listener.v3.Listener.InternalListenerConfig",
            "envoy.extensions.clusters.original_dst.v3.OriginalDstCluster.metadata_key",
            "envoy.extensions.common.async_files.v3.AsyncFileManagerConfig",
            "envoy.extensions.filters.http.aws_request_signing.v3.AwsRequestSigningPerRoute",
            "envoy.extensions.filters.http.file_server.v3.FileServerConfig.DirectoryBehavior.default_file",
            "envoy.extensions.filters.http.file_server.v3.FileServerConfig.PathMapping.request_path_prefix",
            "envoy.extensions.transport_sockets.internal_upstream.v3.InternalUpstreamTransport",
            "envoy.extensions.transport_sockets.tap.v3.SocketTapConfig",
        ],
    ),
    (
        "it names an extension or a field next to it, or a host of the cluster itself",
        &[
            "envoy.config.cluster.v3.Cluster.TransportSocketMatch",
            "envoy.config.core.v3.SocketCmsgHeaders",
            "envoy.config.core.v3.SocketOption",
            "envoy.config.core.v3.SocketOption.SocketType",
            "envoy.config.core.v3.SocketOptionsOverride",
            "envoy.config.core.v3.TransportSocket",
            "envoy.config.core.v3.UdpSocketConfig",
            "envoy.config.core.v3.ExtraSourceAddress",
            "envoy.config.route.v3.ClusterSpecifierPlugin",
            "envoy.config.route.v3.InternalRedirectPolicy",
            "envoy.config.route.v3.RouteAction.cluster_specifier_plugin",
            "envoy.extensions.filters.http.aws_eventstream_parser.v3.AwsEventstreamParser",
            "envoy.extensions.load_balancing_policies.override_host.v3.OverrideHost.OverrideHostSource",
            "envoy.extensions.load_balancing_policies.override_host.v3.OverrideHost.selected_host_key",
            "envoy.extensions.matching.common_inputs.transport_socket.v3.TransportSocketNameAction",
            "envoy.extensions.network.socket_interface.v3.DefaultSocketInterface",
            "envoy.extensions.quic.proof_source.v3.ProofSourceConfig",
            "envoy.extensions.transport_sockets.tls.v3.CertificateProviderPluginInstance",
        ],
    ),
    (
        "the control plane that brings the resource itself",
        &["envoy.config.core.v3.AggregatedConfigSource", "envoy.config.core.v3.SelfConfigSource"],
    ),
];

/// Fields that hold an `Any` for an extension that Envoy finds by the type in it, or that takes one type alone.
const BY_TYPE: [&str; 40] = [
    "envoy.config.accesslog.v3.AccessLog.typed_config",
    "envoy.config.accesslog.v3.ExtensionFilter.typed_config",
    // Without a type in it by its name, which is judged with the address.
    "envoy.config.cluster.v3.Cluster.CustomClusterType.typed_config",
    "envoy.config.cluster.v3.Filter.typed_config",
    "envoy.config.core.v3.ExtensionConfigSource.default_config",
    "envoy.config.core.v3.GrpcService.GoogleGrpc.call_credentials_plugin",
    "envoy.config.core.v3.GrpcService.GoogleGrpc.channel_credentials_plugin",
    "envoy.config.core.v3.HealthCheck.CustomHealthCheck.typed_config",
    "envoy.config.core.v3.RetryPolicy.RetryHostPredicate.typed_config",
    "envoy.config.core.v3.RetryPolicy.RetryPriority.typed_config",
    "envoy.config.core.v3.TransportSocket.typed_config",
    "envoy.config.core.v3.TypedExtensionConfig.typed_config",
    "envoy.config.listener.v3.ApiListener.api_listener",
    "envoy.config.listener.v3.Filter.typed_config",
    "envoy.config.listener.v3.ListenerFilter.typed_config",
    "envoy.config.metrics.v3.StatsSink.typed_config",
    "envoy.config.overload.v3.OverloadAction.typed_config",
    "envoy.config.overload.v3.ResourceMonitor.typed_config",
    "envoy.config.route.v3.FilterAction.action",
    "envoy.config.route.v3.FilterConfig.config",
    "envoy.config.route.v3.RetryPolicy.RetryHostPredicate.typed_config",
    "envoy.config.route.v3.RetryPolicy.RetryPriority.typed_config",
    "envoy.config.route.v3.Route.TypedPerFilterConfigEntry.value",
    "envoy.config.route.v3.RouteAction.retry_policy_typed_config",
    "envoy.config.route.v3.RouteConfiguration.TypedPerFilterConfigEntry.value",
    "envoy.config.route.v3.VirtualHost.TypedPerFilterConfigEntry.value",
    "envoy.config.route.v3.VirtualHost.retry_policy_typed_config",
    "envoy.config.route.v3.WeightedCluster.ClusterWeight.TypedPerFilterConfigEntry.value",
    "envoy.config.trace.v3.Tracing.Http.typed_config",
    "envoy.extensions.filters.http.cache.v3.CacheConfig.typed_config",
    "envoy.extensions.filters.http.cache_v2.v3.CacheV2Config.typed_config",
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter.typed_config",
    "envoy.extensions.filters.network.http_connection_manager.v3.RequestIDExtension.typed_config",
    "envoy.extensions.filters.network.thrift_proxy.v3.ThriftFilter.typed_config",
    "envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig.SessionFilter.typed_config",
    "xds.core.v3.CollectionEntry.InlineEntry.resource",
    "xds.core.v3.Resource.resource",
    "xds.core.v3.TypedExtensionConfig.typed_config",
    // Judged as maps of options and of metadata.
    "envoy.config.cluster.v3.Cluster.TypedExtensionProtocolOptionsEntry.value",
    "envoy.config.core.v3.Metadata.TypedFilterMetadataEntry.value",
];

/// Fields that hold a `Struct`, of which Envoy makes nothing: metadata, values to compare, texts of logs, data for code.
const STRUCTS: [&str; 26] = [
    "envoy.config.cluster.v3.Cluster.LbSubsetConfig.default_subset",
    "envoy.config.cluster.v3.Cluster.TransportSocketMatch.match",
    "envoy.config.core.v3.BuildVersion.metadata",
    "envoy.config.core.v3.GrpcService.GoogleGrpc.config",
    "envoy.config.core.v3.HealthCheck.transport_socket_match_criteria",
    "envoy.config.core.v3.KeyValuePair.value",
    "envoy.config.core.v3.Metadata.FilterMetadataEntry.value",
    "envoy.config.core.v3.Node.metadata",
    "envoy.config.core.v3.SubstitutionFormatString.json_format",
    "envoy.config.endpoint.v3.UpstreamEndpointStats.metadata",
    "envoy.config.trace.v3.DynamicOtConfig.config",
    "envoy.config.trace.v3.XRayConfig.SegmentFields.aws",
    "envoy.extensions.access_loggers.file.v3.FileAccessLog.json_format",
    "envoy.extensions.access_loggers.file.v3.FileAccessLog.typed_json_format",
    "envoy.extensions.access_loggers.fluentd.v3.FluentdAccessLogConfig.record",
    "envoy.extensions.filters.http.aws_eventstream_parser.v3.AwsEventstreamParser.HeaderKeyValuePair.value",
    "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz.filter_metadata",
    "envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor.filter_metadata",
    "envoy.extensions.filters.http.fault.v3.HTTPFault.filter_metadata",
    "envoy.extensions.filters.http.json_to_metadata.v3.JsonToMetadata.KeyValuePair.value",
    "envoy.extensions.filters.http.set_metadata.v3.Config.value",
    "envoy.extensions.filters.http.set_metadata.v3.Metadata.value",
    "envoy.extensions.filters.http.thrift_to_metadata.v3.KeyValuePair.value",
    "envoy.extensions.load_balancing_policies.common.v3.OrcaOobReportingConfig.transport_socket_match_criteria",
    "envoy.extensions.load_balancing_policies.subset.v3.Subset.default_subset",
    // The message that its type says is judged.
    "xds.type.v3.TypedStruct.value",
];

#[test]
fn no_name_that_sounds_like_a_power_is_unknown() {
    let mut unknown = Vec::new();
    each(&mut |name, message| {
        let is_map = message.options.as_ref().is_some_and(|options| options.map_entry());
        if is_known(name) || is_map {
            return;
        }
        let has_field = FIELDS.iter().any(|(of, ..)| *of == name);
        if camel(name).iter().any(|word| KINDS.contains(&&**word)) && !has_field && !is_harmless(name) {
            unknown.push(name.to_owned());
        }
        for field in message.field.iter().filter(|field| sounds(field)) {
            let full = format!("{name}.{}", field.name());
            let is_listed = FIELDS.iter().any(|(of, of_field, ..)| *of == name && *of_field == field.name());
            let is_target = super::super::addresses::is_target(name, field.name());
            let is_tag = full == "envoy.type.tracing.v3.CustomTag.environment";
            if !is_listed && !is_target && !is_tag && !is_harmless(&full) {
                unknown.push(full);
            }
        }
    });
    assert!(unknown.is_empty(), "each joins a table of powers, or is harmless with a reason: {unknown:#?}");
}

#[test]
fn no_place_for_settings_is_unknown() {
    let mut unknown = Vec::new();
    each(&mut |name, message| {
        for field in &message.field {
            let full = format!("{name}.{}", field.name());
            let is_known = match field.type_name() {
                ".google.protobuf.Any" => {
                    let of_map = name.rsplit_once('.').map(|(outer, entry)| {
                        let field = entry.trim_end_matches("Entry");
                        format!("{outer}.{}", snake(field))
                    });
                    let is_listed = |full: &str| opaque::is_listed(full);
                    BY_TYPE.contains(&&*full) || is_listed(&full) || of_map.is_some_and(|full| is_listed(&full))
                }
                ".google.protobuf.Struct" | ".google.protobuf.Value" | ".google.protobuf.ListValue" => {
                    STRUCTS.contains(&&*full) || full == "udpa.type.v1.TypedStruct.value"
                }
                _ => true,
            };
            if !is_known && !is_code(name) && !ELSEWHERE.iter().any(|of| name.starts_with(of)) {
                unknown.push(full);
            }
        }
    });
    assert!(unknown.is_empty(), "is what stands there chosen by its type, by a name, or data? {unknown:#?}");
}

#[test]
fn each_name_in_a_table_is_one_of_envoy() {
    let mut names = Vec::new();
    each(&mut |name, message| {
        names.push(name.to_owned());
        names.extend(message.field.iter().map(|field| format!("{name}.{}", field.name())));
    });
    let fields = FIELDS.iter().map(|(of, field, ..)| format!("{of}.{field}"));
    let messages = MESSAGES.iter().map(|(of, ..)| (*of).to_owned());
    let harmless = HARMLESS.iter().flat_map(|(_, names)| names.iter());
    let others = harmless.chain(&BY_TYPE).chain(&STRUCTS).map(|name| (*name).to_owned());
    let gone: Vec<String> = fields.chain(messages).chain(others).filter(|name| !names.contains(name)).collect();
    assert!(gone.is_empty(), "{gone:#?}");
}

/// Shows each message with its full name.
fn each(seen: &mut dyn FnMut(&str, &DescriptorProto)) {
    fn within(outer: &str, message: &DescriptorProto, seen: &mut dyn FnMut(&str, &DescriptorProto)) {
        let name = format!("{outer}.{}", message.name());
        seen(&name, message);
        message.nested_type.iter().for_each(|inner| within(&name, inner, seen));
    }
    let set = FileDescriptorSet::decode(protojson::DESCRIPTORS).unwrap();
    for file in &set.file {
        file.message_type.iter().for_each(|message| within(file.package(), message, seen));
    }
}

fn is_known(name: &str) -> bool {
    let is_elsewhere = ELSEWHERE.iter().any(|of| name.starts_with(of));
    is_elsewhere || is_code(name) || opaque::is_elsewhere(name) || MESSAGES.iter().any(|(of, ..)| *of == name)
}

fn is_harmless(name: &str) -> bool {
    HARMLESS.iter().any(|(_, names)| names.contains(&name))
}

fn sounds(field: &FieldDescriptorProto) -> bool {
    let wrapped = [".google.protobuf.StringValue", ".google.protobuf.BytesValue"];
    let is_text =
        matches!(field.r#type(), Type::String | Type::Bytes | Type::Enum) || wrapped.contains(&field.type_name());
    let has_word = field.name().split('_').any(|word| WORDS.contains(&word.strip_suffix('s').unwrap_or(word)));
    let is_message = field.r#type() == Type::Message && field.label() != Label::Repeated;
    let has_text = |texts: &[&str]| texts.iter().any(|text| field.name().contains(text));
    is_text && (has_word || has_text(&TEXTS)) || is_message && has_text(&["environ", "host_key", "metadata_key"])
}

/// The words in the last part of a name: `AWS`, `Iam`, `Config`.
fn camel(name: &str) -> Vec<String> {
    let last = name.rsplit('.').next().unwrap_or_default();
    let mut words: Vec<String> = Vec::new();
    let chars: Vec<char> = last.chars().collect();
    for (at, char) in chars.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| chars[at]);
        let after = chars.get(at + 1);
        let starts = char.is_uppercase()
            && (before.is_none_or(|before| !before.is_uppercase()) || after.is_some_and(|after| after.is_lowercase()));
        match words.last_mut().filter(|_| !starts) {
            Some(word) => word.push(*char),
            None => words.push(char.to_string()),
        }
    }
    words
}

/// The name of a field in the proto file, from that of the message of its map.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for char in name.chars() {
        if char.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(char.to_lowercase());
    }
    out
}
