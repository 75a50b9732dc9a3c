//! `EnvoyProxy` of `gateway.envoyproxy.io`: how the proxies of a fleet run.

pub(crate) mod arguments;
pub(crate) mod kubernetes;
mod narrowed;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::envoy_proxy::{EnvoyProxySpec, ProxyProviderType};
use api::{Fault, ObjectKey, RefusalKind};
use ir::infra::ProxyOptions;

use kubernetes::ObjectSettings;
pub(crate) use narrowed::ProxyRules;

/// What an `EnvoyProxy` asks for, and what of it cannot be done.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct ProxyView {
    pub(crate) options: ProxyOptions,
    pub(crate) objects: ObjectSettings,
    /// Path of the field and what about it.
    pub(crate) warnings: Vec<(String, String)>,
    /// The reasons of those that refuse what an author asks for, by their paths.
    pub(crate) refused: BTreeMap<String, RefusalKind>,
    /// The same of fields that are not read at all; whoever reads objects has told them.
    pub(crate) ignored: Vec<(String, String)>,
    /// Why none of it can be used.
    pub(crate) fault: Option<Arc<str>>,
}

/// Reads the settings. In `file_mode` proxies run on this machine; `rules`: what the operator allows.
pub(crate) fn read(spec: &EnvoyProxySpec, file_mode: bool, rules: &ProxyRules) -> ProxyView {
    let (mut warnings, mut refused) = (without_effect(spec, file_mode), BTreeMap::new());
    let (log_level, component_log_levels) = levels(spec, &mut warnings);
    let shutdown = spec.shutdown.as_deref();
    let drain = shutdown.and_then(|shutdown| shutdown.drain_timeout.as_ref());
    let min_drain = shutdown.and_then(|shutdown| shutdown.min_drain_duration.as_ref());
    let options = ProxyOptions {
        concurrency: spec.concurrency,
        log_level,
        component_log_levels,
        drain_timeout: drain.and_then(api::DurationText::get),
        min_drain: min_drain.and_then(api::DurationText::get).filter(|_| !file_mode),
        extra_args: extra_args(spec, &rules.arguments, (&mut warnings, &mut refused)),
    };
    let ignored = spec.ignored.iter().map(|field| (field.path.to_string(), field.text.to_string())).collect();
    let provider = spec.provider.as_deref().and_then(|provider| provider.kubernetes.as_deref());
    let (objects, left_out) = narrowed::narrowed(provider.map(kubernetes::read).unwrap_or_default(), rules);
    for (refusal, (path, text)) in left_out {
        refused.insert(path.clone(), refusal);
        warnings.push((path, text));
    }
    let fault = spec.fault.as_ref().map(|fault| fault.to_string().into());
    ProxyView { options, objects, warnings, refused, ignored, fault }
}

/// The settings of a Gateway: those that it names itself over those of its class, and these over those of the static configuration, each as
/// `mergeType` says; without a word the nearest stand alone.
///
/// # Errors
/// If they cannot be combined.
pub(crate) fn combined(
    own: Option<&EnvoyProxySpec>,
    class: Option<&EnvoyProxySpec>,
    default: Option<&EnvoyProxySpec>,
) -> Result<Option<EnvoyProxySpec>, Fault> {
    let named = match (own, class) {
        (Some(own), Some(class)) => Some(own.over(class, &own.merge_type)?),
        (named, None) | (None, named) => named.cloned(),
    };
    let how = class.or(own).map(|named| &named.merge_type);
    match (named, default, how) {
        (Some(named), Some(default), Some(how)) => named.over(default, how).map(Some),
        (named, default, _) => Ok(named.or_else(|| default.cloned())),
    }
}

/// The `EnvoyProxy` that a reference names, and whether it is there and can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) object: ObjectKey,
    pub(crate) usable: Result<(), Arc<str>>,
}

impl Named {
    /// From what is known of the object; nothing is if it is not there.
    pub(crate) fn new(object: &ObjectKey, verdict: Option<&Result<(), Arc<str>>>) -> Self {
        let usable = match verdict {
            Some(Ok(())) => Ok(()),
            Some(Err(text)) => Err(format!("{object}: {text}").into()),
            None => Err(format!("{object} does not exist").into()),
        };
        Self { object: object.clone(), usable }
    }
}

/// Fields that are written and have no effect.
fn without_effect(spec: &EnvoyProxySpec, file_mode: bool) -> Vec<(String, String)> {
    let custom_log = spec.telemetry.as_deref().and_then(|telemetry| telemetry.access_log.as_ref());
    let asks = |place| spec.provider.as_deref().is_some_and(|provider| provider.provider_type == place);
    let objects = spec.provider.as_deref().is_some_and(|provider| provider.kubernetes.is_some());
    let (on_kubernetes, on_host) = (asks(ProxyProviderType::Kubernetes), asks(ProxyProviderType::Host));
    let written = [
        (
            on_kubernetes && file_mode,
            "spec.provider.type",
            "proxies run as processes of this machine, not as Deployments",
        ),
        (
            objects && file_mode,
            "spec.provider.kubernetes",
            "no effect: proxies run as processes of this machine, for which no objects are made",
        ),
        (on_host && !file_mode, "spec.provider.type", "proxies run as Deployments, not as processes of a machine"),
        (
            file_mode && spec.shutdown.as_deref().is_some_and(|shutdown| shutdown.min_drain_duration.is_some()),
            "spec.shutdown.minDrainDuration",
            "a process of this machine takes no new connections once it drains, ignored",
        ),
        (spec.ip_family.is_some(), "spec.ipFamily", "not supported yet, ignored"),
        (custom_log.is_some(), "spec.telemetry.accessLog", "not supported yet, ignored"),
    ];
    let there = written.into_iter().filter(|(there, ..)| *there);
    there.map(|(_, path, text)| (path.to_owned(), text.to_owned())).collect()
}

/// Envoy ends at its start when an option is given twice, and many options read or write files.
fn extra_args(
    spec: &EnvoyProxySpec,
    allowed: &[Box<str>],
    (warnings, refused): (&mut Vec<(String, String)>, &mut BTreeMap<String, RefusalKind>),
) -> Vec<Arc<str>> {
    let (passed, left_out) = arguments::passed(&spec.extra_args, allowed);
    for (index, text) in left_out {
        let path = format!("spec.extraArgs[{index}]");
        refused.insert(path.clone(), RefusalKind::Argument);
        warnings.push((path, text));
    }
    passed
}

/// A log level, and those of components.
type Levels = (Option<Arc<str>>, Vec<(Arc<str>, Arc<str>)>);

/// Envoy ends at its start when it is given a level or a component that it does not know.
fn levels(spec: &EnvoyProxySpec, warnings: &mut Vec<(String, String)>) -> Levels {
    let (mut default, mut components) = (None, Vec::new());
    for (component, level) in spec.logging.level.iter() {
        let mut refuse = |text| warnings.push((format!("spec.logging.level.{component}"), text));
        if !LEVELS.contains(&level) {
            refuse(format!("{level:?} is no log level and is ignored; there are {}", LEVELS.join(", ")));
        } else if component == "default" {
            default = Some(Arc::from(level)).filter(|level: &Arc<str>| &**level != DEFAULT_LEVEL);
        } else if COMPONENTS.binary_search(&component).is_ok() {
            components.push((Arc::from(component), Arc::from(level)));
        } else {
            refuse(format!("Envoy has no component {component:?} with a log level of its own, ignored"));
        }
    }
    (default, components)
}

/// Envoy Gateway's default, and ours.
const DEFAULT_LEVEL: &str = "warn";

/// Levels that Envoy knows (`--log-level`).
const LEVELS: [&str; 7] = ["trace", "debug", "info", "warn", "error", "critical", "off"];

/// Components of Envoy 1.40 with a log level of their own, as its admin interface lists them (`/logging`), sorted.
const COMPONENTS: &[&str] = &[
    "a2a",
    "admin",
    "ai_protocol_manager",
    "alternate_protocols_cache",
    "assert",
    "aws",
    "backtrace",
    "basic_auth",
    "cache_filter",
    "client",
    "compression",
    "config",
    "conn_handler",
    "connection",
    "credential_injector",
    "decompression",
    "dns",
    "dubbo",
    "dynamic_modules",
    "envoy_bug",
    "ext_authz",
    "ext_proc",
    "file",
    "filter",
    "forward_proxy",
    "geolocation",
    "golang",
    "grpc",
    "happy_eyeballs",
    "hc",
    "health_checker",
    "http",
    "http2",
    "hystrix",
    "init",
    "io",
    "ip_tagging",
    "json_rpc",
    "jwt",
    "kafka",
    "key_value_store",
    "local_rate_limit",
    "lua",
    "main",
    "matcher",
    "mcp",
    "misc",
    "mongo",
    "multi_connection",
    "notification",
    "oauth2",
    "pool",
    "quic",
    "quic_stream",
    "rate_limit_quota",
    "rbac",
    "rds",
    "redis",
    "rocketmq",
    "router",
    "runtime",
    "secret",
    "sse",
    "stats",
    "stats_sinks",
    "tap",
    "testing",
    "thrift",
    "tracing",
    "udp",
    "upstream",
    "wasm",
    "websocket",
];

#[cfg(test)]
mod tests;
