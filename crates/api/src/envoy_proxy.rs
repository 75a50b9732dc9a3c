//! `EnvoyProxy` of Envoy Gateway: settings of a fleet of proxies. The fields that this version reads.

use serde::Deserialize;

use crate::duration::DurationText;
use crate::kind::Kind;
use crate::meta::Labels;
use crate::open::open_enum;
use crate::problem::{Fault, UnitFaults};
use crate::resource::{Resource, Spec};

/// Settings of a fleet of proxies.
pub type EnvoyProxy = Resource<EnvoyProxySpec>;

/// `EnvoyProxy.spec`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvoyProxySpec {
    /// Where proxies run.
    pub provider: Option<Box<EnvoyProxyProvider>>,
    /// Levels of Envoy's log.
    pub logging: EnvoyProxyLogging,
    /// Worker threads; none is one per core.
    pub concurrency: Option<u32>,
    /// Further arguments of the Envoy process.
    pub extra_args: Box<[Box<str>]>,
    /// Address families of listeners and upstream connections.
    #[serde(rename = "ipFamily")]
    pub ip_family: Option<IpFamily>,
    /// How a proxy stops.
    pub shutdown: Option<Box<ShutdownConfig>>,
    /// Access log.
    pub telemetry: Option<Box<EnvoyProxyTelemetry>>,
    /// Why none of it can be used.
    #[serde(skip)]
    pub fault: Option<Box<Fault>>,
    /// Fields that are written and not read.
    #[serde(skip)]
    pub ignored: Box<[Fault]>,
}

impl Spec for EnvoyProxySpec {
    const KIND: Kind = Kind::EnvoyProxy;

    fn mark(&mut self, found: UnitFaults) {
        self.fault = UnitFaults::first(found.faults);
        self.ignored = found.ignored.into();
    }
}

/// `EnvoyProxy.spec.provider`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvoyProxyProvider {
    /// Where.
    #[serde(rename = "type")]
    pub provider_type: ProxyProviderType,
}

open_enum! {
    /// `EnvoyProxy.spec.provider.type`.
    ProxyProviderType {
        /// As Deployments.
        Kubernetes = "Kubernetes",
        /// As processes of this machine.
        Host = "Host",
    }
}

/// `EnvoyProxy.spec.logging`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvoyProxyLogging {
    /// Level by component; `default` is for all others. Without entry: `warn`.
    pub level: Labels,
}

impl Default for EnvoyProxyLogging {
    fn default() -> Self {
        Self { level: [("default", "warn")].into_iter().collect() }
    }
}

open_enum! {
    /// `EnvoyProxy.spec.ipFamily`.
    IpFamily {
        /// IPv4 only.
        Ipv4 = "IPv4",
        /// IPv6 only.
        Ipv6 = "IPv6",
        /// Both.
        DualStack = "DualStack",
    }
}

/// `EnvoyProxy.spec.shutdown`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ShutdownConfig {
    /// Longest time for open requests to end, default 60 s.
    pub drain_timeout: Option<DurationText>,
}

/// `EnvoyProxy.spec.telemetry`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvoyProxyTelemetry {
    /// Access log.
    pub access_log: Option<AccessLog>,
}

/// `EnvoyProxy.spec.telemetry.accessLog`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AccessLog {
    /// Turns the default log off.
    pub disable: bool,
    /// Logs instead of the default one.
    pub settings: Box<[AccessLogSetting]>,
}

/// `accessLog.settings[]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AccessLogSetting {
    /// How a line looks.
    pub format: Option<AccessLogFormat>,
    /// Where lines go.
    pub sinks: Box<[AccessLogSink]>,
}

/// `accessLog.settings[].format`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AccessLogFormat {
    /// Text or JSON.
    #[serde(rename = "type")]
    pub format_type: AccessLogFormatType,
    /// For `Text`: Envoy's format string.
    pub text: Option<Box<str>>,
    /// For `JSON`: format strings by field.
    pub json: Labels,
}

open_enum! {
    /// `accessLog.settings[].format.type`.
    AccessLogFormatType {
        /// A format string.
        Text = "Text",
        /// A JSON object per line.
        Json = "JSON",
    }
}

/// `accessLog.settings[].sinks[]`: the kind that this version reads.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AccessLogSink {
    /// Kind of sink.
    #[serde(rename = "type")]
    pub sink_type: AccessLogSinkType,
    /// For `File`.
    pub file: Option<FileSink>,
}

open_enum! {
    /// `accessLog.settings[].sinks[].type`.
    AccessLogSinkType {
        /// A file.
        File = "File",
        /// Envoy's access log service.
        Als = "ALS",
        /// OpenTelemetry.
        OpenTelemetry = "OpenTelemetry",
    }
}

/// `accessLog.settings[].sinks[].file`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FileSink {
    /// Path, `/dev/stdout` for standard output.
    pub path: Box<str>,
}
