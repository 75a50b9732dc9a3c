//! Infrastructure: which proxies there shall be, and how they are started.

pub mod kubernetes;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::name::FleetName;

pub use kubernetes::KubernetesInfra;

/// The proxies of one fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Infra {
    /// Whose.
    pub fleet: FleetName,
    /// The Gateway they serve.
    pub gateway: ObjectName,
    /// Addresses that the Gateway asks for; empty means any, on this machine every interface (as does an unspecified one).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
    /// TCP ports in use, sorted. With no port of either kind the Gateway cannot be served now, and what there is of its proxies stays as it is.
    pub ports: Vec<u16>,
    /// UDP ports in use, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub udp_ports: Vec<u16>,
    /// How each proxy runs.
    #[serde(default, skip_serializing_if = "ProxyOptions::is_default")]
    pub options: ProxyOptions,
    /// How their objects in a cluster shall be; none: they run on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<Box<KubernetesInfra>>,
}

impl Infra {
    /// It has a port: the Gateway can be served.
    pub fn is_served(&self) -> bool {
        !self.ports.is_empty() || !self.udp_ports.is_empty()
    }

    /// Numbers of all ports, sorted, each once.
    pub fn port_numbers(&self) -> Vec<u16> {
        let mut all = [&*self.ports, &*self.udp_ports].concat();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectName {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

/// How a proxy runs (`EnvoyProxy`); everything absent is our default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProxyOptions {
    /// Worker threads (`spec.concurrency`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Envoy's log level (`spec.logging.level.default`): trace, debug, info, warn, error or critical.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_level: Option<Arc<str>>,
    /// Log levels by Envoy component (`spec.logging.level`), sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub component_log_levels: Vec<(Arc<str>, Arc<str>)>,
    /// How long connections may end by themselves at shutdown (`spec.shutdown.drainTimeout`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_timeout: Option<Duration>,
    /// How long a proxy in a Pod goes on taking new connections at shutdown (`spec.shutdown.minDrainDuration`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_drain: Option<Duration>,
    /// Further arguments for Envoy (`spec.extraArgs`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra_args: Vec<Arc<str>>,
}

/// Envoy's options that are ours to give, short forms included, and whether a value follows. Envoy ends at its start when one is
/// given twice, so [`ProxyOptions::extra_args`] has none of them; whoever starts a proxy uses none but these.
pub const OWN_OPTIONS: [(&str, bool); 20] = [
    ("-c", true),
    ("--config-path", true),
    ("--disable-hot-restart", false),
    ("--base-id", true),
    ("--base-id-path", true),
    ("--use-dynamic-base-id", false),
    ("--skip-hot-restart-on-no-parent", false),
    ("--restart-epoch", true),
    ("--socket-path", true),
    ("--socket-mode", true),
    ("--parent-shutdown-time-s", true),
    ("--skip-hot-restart-parent-stats", false),
    ("--concurrency", true),
    ("--drain-time-s", true),
    ("--drain-strategy", true),
    ("--log-format", true),
    ("--log-format-escaped", false),
    ("-l", true),
    ("--log-level", true),
    ("--component-log-level", true),
];

impl ProxyOptions {
    /// Nothing was asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
