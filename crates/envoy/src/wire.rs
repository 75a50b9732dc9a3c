//! Small values that Envoy's messages are full of: `Any`, durations, addresses, and the one way to reach the control plane.

use std::net::IpAddr;
use std::time::Duration;

use proto::envoy::config::core::v3::{
    Address, AggregatedConfigSource, ApiVersion, ConfigSource, Pipe, SocketAddress, address,
    config_source::ConfigSourceSpecifier, socket_address::PortSpecifier,
};
use proto::envoy::r#type::v3::{FractionalPercent, fractional_percent::DenominatorType};

/// `{ads: {}, resource_api_version: V3}`: where every dynamic part comes from.
///
/// These bytes are a constant for ever. A change of a secret reference's `ConfigSource` makes a running Envoy 1.40 build a new
/// secret provider that asks for nothing and fails every handshake after its time-out (envoyproxy/envoy#47309).
pub(crate) fn ads() -> ConfigSource {
    ConfigSource {
        resource_api_version: ApiVersion::V3 as i32,
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
        ..ConfigSource::default()
    }
}

/// Protobuf durations end at 315,576,000,000 s (about 10,000 years, `duration.proto`); a longer one is cut to that.
pub(crate) fn duration(duration: Duration) -> prost_types::Duration {
    const LONGEST: u64 = 315_576_000_000;
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs().min(LONGEST)).unwrap_or(0),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}

/// Whole seconds.
pub(crate) fn seconds(seconds: u32) -> prost_types::Duration {
    prost_types::Duration { seconds: i64::from(seconds), nanos: 0 }
}

/// A TCP address.
pub(crate) fn socket_address(ip: IpAddr, port: u16) -> Address {
    host_address(ip.to_string(), port)
}

/// A TCP address whose host may be a name.
pub(crate) fn host_address(host: String, port: u16) -> Address {
    let port_specifier = Some(PortSpecifier::PortValue(u32::from(port)));
    wrap(address::Address::SocketAddress(SocketAddress { address: host, port_specifier, ..SocketAddress::default() }))
}

/// Where a listener binds: none is every interface, IPv4 and IPv6; without `ipv6`, for a machine whose kernel has none, IPv4 only.
pub(crate) fn bind_address(ip: Option<IpAddr>, port: u16, ipv6: bool) -> Address {
    if let Some(ip) = ip {
        return socket_address(ip, port);
    }
    wrap(address::Address::SocketAddress(SocketAddress {
        address: if ipv6 { "::" } else { "0.0.0.0" }.to_owned(),
        ipv4_compat: ipv6,
        port_specifier: Some(PortSpecifier::PortValue(u32::from(port))),
        ..SocketAddress::default()
    }))
}

/// A Unix domain socket. `mode` 0 leaves the permissions to the umask.
pub(crate) fn pipe(path: &str, mode: u32) -> Address {
    wrap(address::Address::Pipe(Pipe { path: path.to_owned(), mode }))
}

fn wrap(address: address::Address) -> Address {
    Address { address: Some(address) }
}

/// `numerator` millionths. One denominator everywhere: thresholds over one random value compare only so.
pub(crate) fn millionths(numerator: u32) -> FractionalPercent {
    FractionalPercent { numerator, denominator: DenominatorType::Million as i32 }
}
