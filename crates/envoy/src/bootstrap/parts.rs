//! A whole configuration in one file, without a control plane: `translate --to envoy`, and what `envoy --mode validate` reads.

use std::collections::BTreeMap;
use std::thread;

use ir::route::Hosts;
use ir::{
    Cluster, EndpointSetName, EndpointSource, Endpoints, Listener, RouteConfiguration, RouteConfigurationName, Secret,
    VirtualHost,
};
use prost::Name;
use prost_types::{Struct, value::Kind};
use proto::envoy::config::bootstrap::v3::bootstrap::{DeferredStatOptions, StaticResources};
use proto::envoy::config::bootstrap::v3::runtime_layer::LayerSpecifier;
use proto::envoy::config::bootstrap::v3::{Bootstrap, LayeredRuntime, RuntimeLayer};
use serde_json::Value;

use crate::listener::{Options, Parts};
use crate::regex::REGEX_PROGRAM_SIZE_LIMIT;
use crate::secret::{hidden, shown};
use crate::{cluster, listener, secret, virtual_host};

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
    /// Clusters.
    pub clusters: Vec<&'a Cluster>,
    /// Endpoints, found by the clusters that read them.
    pub endpoints: Vec<&'a Endpoints>,
    /// Secrets.
    pub secrets: Vec<&'a Secret>,
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
    let routes = inline_routes(parts);
    let sets: BTreeMap<&EndpointSetName, &Endpoints> = parts.endpoints.iter().map(|set| (&set.name, *set)).collect();
    let listener = |part: &&Listener| listener::message(part, &options.listeners, Parts::Inline(&routes));
    let cluster = |part: &&Cluster| cluster::static_message(part, endpoints_of(part, &sets));
    let write = if options.show_secrets { shown } else { hidden };
    Bootstrap {
        static_resources: Some(StaticResources {
            listeners: parts.listeners.iter().map(listener).collect(),
            clusters: parts.clusters.iter().map(cluster).collect(),
            secrets: parts.secrets.iter().map(|part| secret::message(part, write)).collect(),
        }),
        deferred_stat_options: Some(DeferredStatOptions { enable_deferred_creation_stats: true }),
        layered_runtime: Some(LayeredRuntime { layers: vec![runtime()] }),
        ..Bootstrap::default()
    }
}

/// As in every bootstrap.
fn runtime() -> RuntimeLayer {
    let limit = prost_types::Value { kind: Some(Kind::NumberValue(f64::from(REGEX_PROGRAM_SIZE_LIMIT))) };
    let fields = [("re2.max_program_size.error_level".to_owned(), limit)].into();
    RuntimeLayer { name: "chancery".to_owned(), layer_specifier: Some(LayerSpecifier::StaticLayer(Struct { fields })) }
}

/// The same as JSON.
///
/// # Errors
/// None for what [`static_bootstrap`] builds; a message that the descriptors do not know would be one.
pub fn static_bootstrap_json(parts: &StaticParts<'_>, options: &StaticOptions) -> Result<Value, protojson::Error> {
    let mut bootstrap = static_bootstrap(parts, options);
    let StaticResources { listeners, clusters, secrets } =
        bootstrap.static_resources.replace(StaticResources::default()).unwrap_or_default();
    let mut json = protojson::message_to_json(&bootstrap)?;
    // Resource by resource: what is needed for printing one is room for the next.
    let lists = [("listeners", listed(&listeners)?), ("clusters", listed(&clusters)?), ("secrets", listed(&secrets)?)];
    let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
    if let Some(resources) = json.get_mut("staticResources") {
        *resources = lists.map(|(name, list)| (name.to_owned(), Value::from(list))).collect();
    }
    Ok(json)
}

/// Prints messages on all cores. One by one where they are so few that a thread would take longer to start.
fn listed<T: Name + Sync>(messages: &[T]) -> Result<Vec<Value>, protojson::Error> {
    const SHARE: usize = 64;
    let print = |part: &[T]| part.iter().map(protojson::message_to_json).collect::<Result<Vec<_>, _>>();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let share = messages.len().div_ceil(cores).max(SHARE);
    let (own, others) = messages.split_at(share.min(messages.len()));
    thread::scope(|scope| {
        let others: Vec<_> = others.chunks(share).map(|part| scope.spawn(move || print(part))).collect();
        let mut printed = print(own)?;
        for other in others {
            printed.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(printed)
    })
}

fn endpoints_of<'a>(cluster: &Cluster, sets: &BTreeMap<&EndpointSetName, &'a Endpoints>) -> Option<&'a Endpoints> {
    match &cluster.endpoints {
        EndpointSource::Discovered(name) => sets.get(name).copied(),
        EndpointSource::Dns(_) => None,
    }
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
