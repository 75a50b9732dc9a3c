//! `EnvoyProxy` of `gateway.envoyproxy.io`: how the proxies of a fleet run.

use std::sync::Arc;

use api::envoy_proxy::EnvoyProxySpec;
use ir::infra::ProxyOptions;

/// What an `EnvoyProxy` asks for, and what of it we do not do yet.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct ProxyView {
    pub(crate) options: ProxyOptions,
    /// Path of the field and what about it.
    pub(crate) warnings: Vec<(&'static str, &'static str)>,
}

/// Reads the settings.
pub(crate) fn read(spec: &EnvoyProxySpec) -> ProxyView {
    let mut log_level = None;
    let mut component_log_levels = Vec::new();
    for (component, level) in spec.logging.level.iter() {
        match component {
            "default" => log_level = Some(Arc::from(level)).filter(|level: &Arc<str>| &**level != DEFAULT_LEVEL),
            _ => component_log_levels.push((Arc::from(component), Arc::from(level))),
        }
    }
    let drain = spec.shutdown.as_deref().and_then(|shutdown| shutdown.drain_timeout.as_ref());
    let options = ProxyOptions {
        concurrency: spec.concurrency,
        log_level,
        component_log_levels,
        drain_timeout: drain.and_then(api::DurationText::get),
        extra_args: spec.extra_args.iter().map(|argument| Arc::from(&**argument)).collect(),
    };
    let custom_log = spec.telemetry.as_deref().and_then(|telemetry| telemetry.access_log.as_ref());
    let written = [
        (spec.ip_family.is_some(), "spec.ipFamily", "not supported yet, ignored"),
        (custom_log.is_some(), "spec.telemetry.accessLog", "not supported yet, ignored"),
    ];
    let warnings = written.into_iter().filter(|(there, ..)| *there).map(|(_, path, text)| (path, text)).collect();
    ProxyView { options, warnings }
}

/// Envoy Gateway's default, and ours.
const DEFAULT_LEVEL: &str = "warn";
