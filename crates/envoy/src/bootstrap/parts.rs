//! A whole configuration in one file, without a control plane: `translate --to envoy`, and what `envoy --mode validate` reads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use ir::route::Hosts;
use ir::{
    Cluster, EndpointSetName, Endpoints, Listener, RouteConfiguration, RouteConfigurationName, Runtime, Secret,
    TcpProxy, VirtualHost,
};
use prost::Name;
use prost_types::{Struct, value::Kind};
use proto::envoy::config::bootstrap::v3::bootstrap::{DeferredStatOptions, StaticResources};
use proto::envoy::config::bootstrap::v3::runtime_layer::LayerSpecifier;
use proto::envoy::config::bootstrap::v3::{Bootstrap, LayeredRuntime, RuntimeLayer};
use serde_json::Value;

use crate::RUNTIME_LAYER;
use crate::listener::{Options, Parts, Written};
use crate::regex::REGEX_PROGRAM_SIZE_LIMIT;
use crate::secret::{hidden, shown};
use crate::{cluster, listener, secret, tcp_proxy, virtual_host};

/// The resources of one fleet, each kind in the order in which it shall be written.
#[derive(Clone, Debug, Default)]
pub struct StaticParts<'a> {
    /// Listeners.
    pub listeners: Vec<&'a Listener>,
    /// Route configurations. One that no listener names is left out.
    pub route_configurations: Vec<&'a RouteConfiguration>,
    /// The virtual hosts of configurations whose hosts are delivered apart; others are not looked at. A host belongs to the
    /// configuration whose name and a slash its own name starts with (the longest one).
    pub separate_hosts: Vec<&'a VirtualHost>,
    /// Where connections go that are no HTTP. One that no listener names is left out.
    pub tcp_proxies: Vec<&'a TcpProxy>,
    /// Clusters.
    pub clusters: Vec<&'a Cluster>,
    /// Endpoints, found by the clusters that read them.
    pub endpoints: Vec<&'a Endpoints>,
    /// Secrets.
    pub secrets: Vec<&'a Secret>,
    /// Values that are looked up.
    pub runtime: Option<&'a Runtime>,
}

/// How a static configuration is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaticOptions {
    /// For the listeners.
    pub listeners: Options,
    /// Certificates and keys are written out. Otherwise [`crate::secret::HIDDEN`] stands in their place, and Envoy refuses
    /// the configuration if there is any.
    pub show_secrets: bool,
}

/// One bootstrap with everything in it: route configurations in the listeners, endpoints in the clusters, secrets by name.
pub fn static_bootstrap(parts: &StaticParts<'_>, options: &StaticOptions) -> Bootstrap {
    let writer = Writer::new(parts, options);
    Bootstrap {
        static_resources: Some(StaticResources {
            listeners: parts.listeners.iter().map(|part| writer.listener(part)).collect(),
            clusters: parts.clusters.iter().map(|part| writer.cluster(part)).collect(),
            secrets: parts.secrets.iter().map(|part| writer.secret(part)).collect(),
        }),
        deferred_stat_options: Some(DeferredStatOptions { enable_deferred_creation_stats: true }),
        layered_runtime: Some(LayeredRuntime { layers: layers(parts.runtime) }),
        ..Bootstrap::default()
    }
}

/// Writes single resources.
struct Writer<'a> {
    written: Written,
    sets: BTreeMap<&'a EndpointSetName, &'a Endpoints>,
    options: &'a StaticOptions,
}

impl<'a> Writer<'a> {
    fn new(parts: &StaticParts<'a>, options: &'a StaticOptions) -> Self {
        let sets = parts.endpoints.iter().map(|set| (&set.name, *set)).collect();
        let proxies = parts.tcp_proxies.iter();
        let proxies = proxies.map(|part| (part.name.clone(), tcp_proxy::message(part, &options.listeners))).collect();
        Self { written: Written { routes: inline_routes(parts), proxies }, sets, options }
    }

    fn listener(&self, part: &Listener) -> proto::envoy::config::listener::v3::Listener {
        listener::message(part, &self.options.listeners, Parts::Inline(&self.written))
    }

    fn cluster(&self, part: &Cluster) -> proto::envoy::config::cluster::v3::Cluster {
        let endpoints = part.endpoints.set().and_then(|name| self.sets.get(name).copied());
        cluster::static_message(part, endpoints)
    }

    fn secret(&self, part: &Secret) -> proto::envoy::extensions::transport_sockets::tls::v3::Secret {
        secret::message(part, if self.options.show_secrets { shown } else { hidden })
    }
}

/// As in every bootstrap, with what the control plane would fill in.
fn layers(runtime: Option<&Runtime>) -> Vec<RuntimeLayer> {
    let limit = prost_types::Value { kind: Some(Kind::NumberValue(f64::from(REGEX_PROGRAM_SIZE_LIMIT))) };
    let fields = [("re2.max_program_size.error_level".to_owned(), limit)].into();
    let filled = runtime.map(crate::runtime::layer).filter(|layer| !layer.fields.is_empty());
    let layer = |name: &str, values| RuntimeLayer {
        name: name.to_owned(),
        layer_specifier: Some(LayerSpecifier::StaticLayer(values)),
    };
    let filled = filled.map(|values| layer(RUNTIME_LAYER, values));
    std::iter::once(layer("chancery", Struct { fields })).chain(filled).collect()
}

/// The same as JSON, printed by at most so many threads.
///
/// # Errors
/// None for what [`static_bootstrap`] builds; a message that the descriptors do not know would be one.
pub fn static_bootstrap_json(
    parts: &StaticParts<'_>,
    options: &StaticOptions,
    threads: usize,
) -> Result<Value, protojson::Error> {
    let mut json = protojson::message_to_json(&static_bootstrap(&StaticParts::default(), options))?;
    let writer = &Writer::new(parts, options);
    let listeners = parts.listeners.iter().map(|part| task(move || writer.listener(part)));
    let clusters = parts.clusters.iter().map(|part| task(move || writer.cluster(part)));
    let secrets = parts.secrets.iter().map(|part| task(move || writer.secret(part)));
    let mut printed = on_threads(threads, &listeners.chain(clusters).chain(secrets).collect::<Vec<_>>())?.into_iter();
    let lists =
        [("listeners", parts.listeners.len()), ("clusters", parts.clusters.len()), ("secrets", parts.secrets.len())];
    if let Some(resources) = json.get_mut("staticResources") {
        let lists = lists.into_iter().filter(|(_, count)| *count > 0);
        *resources =
            lists.map(|(name, count)| (name.to_owned(), printed.by_ref().take(count).collect::<Value>())).collect();
    }
    Ok(json)
}

/// Writes and prints one resource.
type Task<'a> = Box<dyn Fn() -> Result<Value, protojson::Error> + Sync + 'a>;

fn task<'a, T: Name>(write: impl Fn() -> T + Sync + 'a) -> Task<'a> {
    Box::new(move || protojson::message_to_json(&write()))
}

/// What tasks give, in their order. They are as unequal as a listener with all routes and a cluster, so each thread takes the next one
/// when it has done one. Where no more threads are to be had, fewer do it.
fn on_threads(threads: usize, tasks: &[Task<'_>]) -> Result<Vec<Value>, protojson::Error> {
    /// For fewer a thread would take longer to start.
    const SHARE: usize = 64;
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(task) = tasks.get(at) else { return Ok(done) };
            done.push((at, task()?));
        }
    };
    let threads = threads.min(tasks.len().div_ceil(SHARE));
    thread::scope(|scope| {
        let start = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..threads).filter_map(start).collect();
        let mut done: Vec<(usize, Value)> = work()?;
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        done.sort_unstable_by_key(|(at, _)| *at);
        Ok(done.into_iter().map(|(_, value)| value).collect())
    })
}

fn inline_routes(
    parts: &StaticParts<'_>,
) -> BTreeMap<RouteConfigurationName, proto::envoy::config::route::v3::RouteConfiguration> {
    let mut separate: BTreeMap<&str, Vec<&VirtualHost>> = BTreeMap::new();
    for configuration in &parts.route_configurations {
        if configuration.hosts == Hosts::Separate {
            separate.insert(configuration.name.as_str(), Vec::new());
        }
    }
    for host in &parts.separate_hosts {
        if let Some(hosts) = owner(host.name.as_str()).find(|name| separate.contains_key(name)) {
            separate.entry(hosts).or_default().push(host);
        }
    }
    let whole = |configuration: &&RouteConfiguration| {
        let message = match &configuration.hosts {
            Hosts::Inline(hosts) => virtual_host::message(configuration, hosts.iter().map(AsRef::as_ref)),
            Hosts::Separate => {
                let hosts = separate.get(configuration.name.as_str()).into_iter().flatten().copied();
                virtual_host::message(configuration, hosts)
            }
        };
        (configuration.name.clone(), message)
    };
    parts.route_configurations.iter().map(whole).collect()
}

/// What stands before each slash of a name, the longest first.
fn owner(name: &str) -> impl Iterator<Item = &str> {
    name.rmatch_indices('/').filter_map(|(slash, _)| name.get(..slash))
}
