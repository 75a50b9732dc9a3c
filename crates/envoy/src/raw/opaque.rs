//! Settings that Envoy reads otherwise than by the type that stands there, or that it gets from elsewhere: what they do cannot be judged.

use protojson::{Part, Place, View};

const CLUSTER_OPTIONS: &str = "envoy.config.cluster.v3.Cluster.typed_extension_protocol_options";
const CONFIG_SOURCE: &str = "envoy.config.core.v3.ConfigSource";
const SECRETS: &str = "envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig.sds_config";

/// Fields in which an `Any` with a `Struct` is data. All others are settings of an extension, and what Envoy makes of a `Struct` is up to the extension.
const DATA: [&str; 2] = [
    // The reader of an entry takes the one type that it knows.
    "envoy.config.core.v3.Metadata.typed_filter_metadata",
    // It becomes such an entry.
    "envoy.extensions.filters.http.set_metadata.v3.Metadata.typed_value",
];

/// Fields whose extension Envoy finds by a name next to them and not by their type, with the field around them where theirs has other uses.
const BY_NAME: [(&str, Option<&str>); 5] = [
    ("envoy.config.core.v3.GrpcService.GoogleGrpc.CallCredentials.MetadataCredentialsFromPlugin.typed_config", None),
    (
        "envoy.config.core.v3.TypedExtensionConfig.typed_config",
        Some("envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext.custom_validator_config"),
    ),
    ("envoy.extensions.filters.network.dubbo_proxy.v3.DubboFilter.config", None),
    ("envoy.extensions.filters.network.generic_proxy.action.v3.RouteAction.per_filter_config", None),
    ("envoy.extensions.transport_sockets.tls.v3.PrivateKeyProvider.typed_config", None),
];

/// Keys of a cluster's options, and the message that Envoy makes of what stands there.
const OPTIONS: [(&str, &str); 8] = [
    ("envoy.extensions.upstreams.http.reverse_tunnel.v3.ReverseTunnelUpstreamCodecOptions", TUNNEL),
    ("envoy.extensions.upstreams.http.v3.HttpProtocolOptions", HTTP),
    ("envoy.extensions.upstreams.tcp.v3.TcpProtocolOptions", TCP),
    ("envoy.filters.network.redis_proxy", REDIS),
    ("envoy.filters.network.thrift_proxy", "envoy.extensions.filters.network.thrift_proxy.v3.ThriftProtocolOptions"),
    ("envoy.redis_proxy", REDIS),
    ("envoy.upstreams.http.http_protocol_options", HTTP),
    ("envoy.upstreams.tcp.tcp_protocol_options", TCP),
];

const HTTP: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
const REDIS: &str = "envoy.extensions.filters.network.redis_proxy.v3.RedisProtocolOptions";
const TCP: &str = "envoy.extensions.upstreams.tcp.v3.TcpProtocolOptions";
const TUNNEL: &str = "envoy.extensions.upstreams.http.reverse_tunnel.v3.ReverseTunnelUpstreamCodecOptions";

/// Messages by which settings come from elsewhere, after everything that is judged here.
const ELSEWHERE: [&str; 2] = ["envoy.config.core.v3.ApiConfigSource", "xds.core.v3.Authority"];

/// The switch of Envoy's runtime by which it finds extensions by their names again.
const LOOKUP: &str = "no_extension_lookup_by_name";

/// Says why a part may do anything, so that it needs all powers.
pub(super) fn unjudged(part: &Part<'_>, place: &Place<'_>) -> Option<String> {
    match part {
        Part::Message(view) => elsewhere(view, place).map(str::to_owned),
        Part::Text(text) => text
            .contains(LOOKUP)
            .then(|| format!("lets names of extensions choose what Envoy makes of their settings with {text}")),
        Part::Opaque(name) => Some(format!("has settings that cannot be read: {name}")),
        Part::Untyped(name) => {
            let words = || format!("has settings as {name} in place of their own type");
            (!is_data(place)).then(words)
        }
        Part::Typed(name) => {
            let words = || format!("has settings as a TypedStruct of {name} where Envoy goes by a name");
            (!is_of_its_type(name, place)).then(words)
        }
    }
}

/// Returns true if an `Any` with a `Struct` is data there.
fn is_data(place: &Place<'_>) -> bool {
    let field = place.fields().next();
    // What code gets needs the power of the code, which can do anything with it.
    field.is_some_and(|field| DATA.contains(&field) || super::powers::is_code(field))
}

/// Returns true if Envoy makes of a `TypedStruct` there what its type says. An `Any` with any other message is that or refused.
fn is_of_its_type(typed: &str, place: &Place<'_>) -> bool {
    let mut fields = place.fields();
    let (field, around) = (fields.next().unwrap_or_default(), fields.next());
    if field == CLUSTER_OPTIONS {
        return OPTIONS.iter().any(|(key, message)| place.key() == Some(key) && typed == *message);
    }
    !BY_NAME.iter().any(|(named, within)| field == *named && within.is_none_or(|within| around == Some(within)))
}

/// Says where a message takes settings from that nothing here judges.
fn elsewhere(view: &View<'_>, place: &Place<'_>) -> Option<&'static str> {
    if ELSEWHERE.contains(&view.name()) {
        return Some("takes configuration from another control plane, which may bring anything");
    }
    // Secrets hold files or variables, and nothing that does more.
    let is_secret = || place.fields().next() == Some(SECRETS);
    let is_file = view.is(CONFIG_SOURCE) && ["path", "path_config_source"].iter().any(|field| view.has(field));
    (is_file && !is_secret()).then_some("takes configuration from a file, which may hold anything")
}

/// Returns true for a field of the tables.
#[cfg(test)]
pub(super) fn is_listed(field: &str) -> bool {
    field == CLUSTER_OPTIONS || DATA.contains(&field) || BY_NAME.iter().any(|(named, _)| field == *named)
}

/// Returns true for a message by which settings come from elsewhere.
#[cfg(test)]
pub(super) fn is_elsewhere(name: &str) -> bool {
    name == CONFIG_SOURCE || ELSEWHERE.contains(&name)
}

#[cfg(test)]
mod tests;
