//! `EnvoyProxy` of Envoy Gateway: settings of a fleet of proxies. The fields that this version reads.

pub mod kubernetes;

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::duration::DurationText;
use crate::kind::Kind;
use crate::meta::Labels;
use crate::open::open_enum;
use crate::problem::{Fault, UnitFaults};
use crate::resource::{Resource, Spec};
use crate::tree::Verbatim;

pub use kubernetes::KubernetesProvider;

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
    /// How it is combined with the settings that would hold without it.
    pub merge_type: MergeType,
    /// All of it as it is written: what is combined.
    #[serde(skip)]
    pub written: Verbatim,
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

    fn keep(&mut self, written: impl FnOnce() -> Verbatim) {
        self.written = written();
    }
}

impl EnvoyProxySpec {
    /// These settings over others, as [`EnvoyProxySpec::merge_type`] says.
    ///
    /// # Errors
    /// If the two cannot be combined: then these settings have no meaning.
    pub fn over(&self, base: &Self, merge_type: &MergeType) -> Result<Self, Fault> {
        let mut merged = if base.written.0.is_null() { json!({}) } else { (*base.written.0).clone() };
        match merge_type {
            MergeType::Replace | MergeType::Unknown(_) => return Ok(self.clone()),
            MergeType::JsonMerge => patch::json_merge(&mut merged, &self.written.0),
            MergeType::StrategicMerge => patch::strategic_merge(&mut merged, &self.written.0)
                .map_err(|error| Fault { path: "spec".into(), text: error.to_string().into() })?,
        }
        drop_nulls(&mut merged);
        let written = Verbatim(Arc::new(merged.clone()));
        let spec: Self = serde_json::from_value(merged)
            .map_err(|error| Fault { path: "spec".into(), text: format!("cannot be merged: {error}").into() })?;
        Ok(Self { written, fault: self.fault.clone(), ignored: self.ignored.clone(), ..spec })
    }
}

/// What is null is not there, but inside a `patch`, where it takes a field away.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            for (name, value) in fields {
                match value {
                    Value::Object(patch) if name == "patch" => patch.retain(|_, value| !value.is_null()),
                    value => drop_nulls(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

open_enum! {
    /// `EnvoyProxy.spec.mergeType`.
    MergeType {
        /// It stands alone.
        Replace = "Replace",
        /// Some lists are merged item by item.
        StrategicMerge = "StrategicMerge",
        /// RFC 7396.
        JsonMerge = "JSONMerge",
    }
}

/// `EnvoyProxy.spec.provider`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvoyProxyProvider {
    /// Where.
    #[serde(rename = "type")]
    pub provider_type: ProxyProviderType,
    /// For `Kubernetes`.
    pub kubernetes: Option<Box<KubernetesProvider>>,
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
    /// How long a Pod that ends goes on taking new connections while it says that it is not ready, default 10 s.
    pub min_drain_duration: Option<DurationText>,
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

#[cfg(test)]
mod tests;
