//! Files to statuses, intent and Envoy configuration without starting anything.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use api::{Problem, Timestamp};
use engine::Graph;
use envoy::{StaticOptions, StaticParts};
use ir::{EndpointSetName, Endpoints, FleetName, RawName, TcpProxy, VirtualHost};
use provider::file::{Input, Links, Texts};
use serde_json::{Map, Value, json};
use translator::{ClosedAddresses, InFleet, Options, Outputs, OwnPlaces, RouteBudget, Translator};
use xds::{Change, FleetUpdate};

use crate::cli::PermissionArgs;
use crate::explain::{self, Answer};
use crate::publish::{self, Mark, Publisher};
use crate::report::{self, Findings, Transitions};

/// Everything that a set of files becomes.
pub(crate) struct Offline {
    translator: Translator,
    outputs: Outputs,
    /// Resources with patches, by fleet, in their JSON form.
    patched: BTreeMap<FleetName, BTreeMap<RawName, Value>>,
    /// What stood on standard input: it cannot be read again to find places in it.
    typed: Option<String>,
    texts: Texts,
}

/// What stands for the name of a file where there is none.
const STDIN: &str = "<stdin>";

impl Offline {
    /// Reads files and folders (`-` is standard input) and translates them. What is wrong inside them is a problem; an error is
    /// only a path that cannot be read at all.
    pub(crate) fn load(paths: &[PathBuf], links: Links, permissions: &PermissionArgs) -> anyhow::Result<Self> {
        let inputs = inputs(paths)?;
        let loaded = provider::file::load_inputs_following(&inputs, links);
        let typed = inputs.into_iter().find_map(|input| match input {
            Input::Text { bytes, .. } => String::from_utf8(bytes).ok(),
            Input::Path(_) => None,
        });
        let options = Options {
            file_mode: true,
            offline: true,
            unsupported_policies: permissions.unsupported_policies(),
            powers: permissions.powers(),
            read_raw: envoy::read_raw,
            // What is right for a Chancery with plenty of memory: that of another machine is not known.
            route_budget: RouteBudget::default(),
        };
        let mut translator = Translator::new(options);
        let link_local = permissions.allow_link_local;
        translator.set_own_places(Arc::new(OwnPlaces {
            addresses: ClosedAddresses { link_local, ..ClosedAddresses::default() },
            socket_roots: permissions.socket_roots(),
            ..OwnPlaces::default()
        }));
        let (store, graph) = translator.store();
        store.apply(graph, loaded.into_batch());
        translator.set_time(crate::serve::now());
        translator.tick();
        let outputs = translator.outputs();
        let patched = patch(&mut translator, outputs)?;
        Ok(Self { translator, outputs, patched, typed, texts: Texts::new(paths, links) })
    }

    /// How many objects were read.
    pub(crate) fn objects(&self) -> usize {
        self.translator.stored().len()
    }

    /// How many of those with a name cannot be used because of what stands in them.
    pub(crate) fn unusable(&self) -> usize {
        self.findings().unusable()
    }

    fn findings(&self) -> Findings {
        report::findings(self.translator.stored(), self.translator.graph(), self.outputs)
    }

    /// All problems: causes before what follows from them, each in order of place.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let text_of = |file: &str| if file == STDIN { self.typed.clone() } else { self.texts.get(file) };
        self.findings().complete_from(&text_of)
    }

    /// Statuses in Kubernetes shape. No transition was seen, so every one has the start of 1970.
    pub(crate) fn status(&self) -> Value {
        let mut transitions = Transitions::default();
        let statuses = report::statuses(self.translator.graph(), self.outputs);
        for (key, status) in &statuses {
            transitions.note(key, Some(status.clone()), Timestamp(0));
        }
        Value::Array(
            statuses
                .into_iter()
                .map(|(key, mut status)| {
                    transitions.fill(&key, &mut status);
                    report::object(&key, &status)
                })
                .collect(),
        )
    }

    /// Which objects make what a workload gets.
    pub(crate) fn explain(&self, workload: &str) -> Answer {
        explain::answer(self.translator.stored(), self.translator.graph(), self.outputs, workload, true)
    }

    /// Resolved intent by fleet, sorted by name.
    pub(crate) fn ir(&self) -> anyhow::Result<Value> {
        let (graph, outputs) = (self.translator.graph(), self.outputs);
        let mut fleets: Map<String, Value> = Map::new();
        let mut fleet_names: Vec<_> =
            graph.iter(outputs.infra).map(|(fleet, infra)| (fleet.clone(), infra.clone())).collect();
        fleet_names.sort_by(|a, b| a.0.cmp(&b.0));
        for (fleet, infra) in fleet_names {
            let mut content = Map::new();
            content.insert("infra".to_owned(), serde_json::to_value(&*infra)?);
            content.insert("listeners".to_owned(), list(&of_fleet(graph.iter(outputs.listeners), &fleet))?);
            content.insert(
                "routeConfigurations".to_owned(),
                list(&of_fleet(graph.iter(outputs.route_configurations), &fleet))?,
            );
            content.insert("tcpProxies".to_owned(), list(&streams_of_fleet(graph, outputs, &fleet))?);
            content.insert("clusters".to_owned(), list(&of_fleet(outputs.clusters(graph), &fleet))?);
            content.insert("secrets".to_owned(), list(&of_fleet(graph.iter(outputs.secrets), &fleet))?);
            if let Some(runtime) = graph.get(outputs.runtimes, &fleet).filter(|one| ***one != ir::Runtime::default()) {
                content.insert("runtime".to_owned(), serde_json::to_value(&**runtime)?);
            }
            content.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
            fleets.insert(fleet.0.to_string(), Value::Object(content));
        }
        for fleet in self.workloads() {
            fleets.insert(fleet.0.to_string(), json!({ "raw": list(&of_fleet(graph.iter(outputs.raw), fleet))? }));
        }
        let sets = endpoint_sets(graph, outputs);
        Ok(json!({ "fleets": fleets, "endpoints": list(&sets.iter().collect::<Vec<_>>())? }))
    }

    /// Workloads that get something, sorted.
    fn workloads(&self) -> BTreeSet<&FleetName> {
        self.translator.graph().iter(self.outputs.raw).map(|(key, _)| &key.fleet).collect()
    }

    /// A complete static configuration that Envoy can read: of the one Gateway, or workload, or by name where there are several.
    pub(crate) fn envoy(&self, show_secrets: bool) -> anyhow::Result<Value> {
        let (graph, outputs) = (self.translator.graph(), self.outputs);
        let mut fleets: Vec<&FleetName> = graph.iter(outputs.infra).map(|(fleet, _)| fleet).collect();
        fleets.sort();
        let options = StaticOptions { show_secrets, ..StaticOptions::default() };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut written = Map::new();
        let sets = endpoint_sets(graph, outputs);
        for fleet in fleets {
            let parts = StaticParts {
                listeners: of_fleet(graph.iter(outputs.listeners), fleet),
                route_configurations: of_fleet(graph.iter(outputs.route_configurations), fleet),
                separate_hosts: hosts_of_fleet(graph, outputs, fleet),
                tcp_proxies: streams_of_fleet(graph, outputs, fleet),
                clusters: of_fleet(outputs.clusters(graph), fleet),
                endpoints: sets.iter().collect(),
                secrets: of_fleet(graph.iter(outputs.secrets), fleet),
                runtime: graph.get(outputs.runtimes, fleet).map(|runtime| &**runtime),
            };
            let mut bootstrap = envoy::bootstrap::static_bootstrap_json(&parts, &options, threads)?;
            if let Some(patched) = self.patched.get(fleet) {
                bootstrap = envoy::patched_bootstrap(bootstrap, patched);
            }
            written.insert(fleet.0.to_string(), bootstrap);
        }
        for fleet in self.workloads() {
            let endpoints = |set: &EndpointSetName| {
                let empty = || Endpoints { name: set.clone(), localities: Vec::new() };
                outputs.endpoint_set(graph, set).unwrap_or_else(empty)
            };
            let bootstrap = envoy::raw_bootstrap(&of_fleet(graph.iter(outputs.raw), fleet), show_secrets, endpoints)?;
            written.insert(fleet.0.to_string(), bootstrap);
        }
        Ok(match written.len() {
            1 => written.into_iter().next().map(|(_, only)| only).unwrap_or_default(),
            _ => Value::Object(written),
        })
    }
}

/// Applies patches, and tells the graph what became of them.
fn patch(
    translator: &mut Translator,
    outputs: Outputs,
) -> anyhow::Result<BTreeMap<FleetName, BTreeMap<RawName, Value>>> {
    let mut patched: BTreeMap<FleetName, BTreeMap<RawName, Value>> = BTreeMap::new();
    if translator.graph().is_empty(outputs.patches) {
        return Ok(patched);
    }
    let mut publisher = Publisher::new(outputs, StaticOptions::default().listeners);
    for FleetUpdate { fleet, changes } in publisher.updates(translator.graph(), Instant::now()) {
        for change in changes {
            let Change::Put(resource) = change else { continue };
            let Some(name) = publish::named(&resource.type_url, &resource.name) else { continue };
            let key = InFleet { fleet: FleetName(Arc::clone(&fleet)), name };
            if matches!(publisher.mark_of(&key, resource.version), Some(Mark::Of(_))) {
                let json = protojson::to_json(key.name.message, &resource.body.concat())?;
                patched.entry(key.fleet).or_default().insert(key.name, json);
            }
        }
    }
    let told = publisher.take_told();
    translator.settle();
    let (store, graph) = translator.store();
    for (key, states) in told {
        states.into_iter().for_each(|states| graph.set(store.tables().patch_states, key.clone(), states));
    }
    translator.tick();
    Ok(patched)
}

/// The values of one fleet, in order of name.
fn of_fleet<'g, N: Ord + 'g, V: 'g>(
    rows: impl Iterator<Item = (&'g InFleet<N>, &'g Arc<V>)>,
    fleet: &FleetName,
) -> Vec<&'g V> {
    let mut rows: Vec<_> = rows.filter(|(key, _)| key.fleet == *fleet).collect();
    rows.sort_by(|a, b| a.0.name.cmp(&b.0.name));
    rows.into_iter().map(|(_, value)| &**value).collect()
}

/// All virtual hosts of a fleet, in order of name.
fn hosts_of_fleet<'g>(graph: &'g Graph, outputs: Outputs, fleet: &FleetName) -> Vec<&'g VirtualHost> {
    let mut rows: Vec<_> = outputs.virtual_hosts(graph).filter(|(key, _)| key.fleet == *fleet).collect();
    rows.sort_by(|a, b| a.0.cmp(b.0));
    rows.into_iter().map(|(_, host)| &**host).collect()
}

/// Where connections of a fleet go that are passed on, in order of name.
fn streams_of_fleet<'g>(graph: &'g Graph, outputs: Outputs, fleet: &FleetName) -> Vec<&'g TcpProxy> {
    let mut rows: Vec<_> = outputs.streams(graph).filter(|(key, _)| key.fleet() == fleet).collect();
    rows.sort_by(|a, b| a.0.name().cmp(b.0.name()));
    rows.into_iter().map(|(_, proxy)| &**proxy).collect()
}

/// All sets of endpoints that a cluster reads, in order of name.
fn endpoint_sets(graph: &Graph, outputs: Outputs) -> Vec<Endpoints> {
    let read: BTreeSet<&EndpointSetName> =
        outputs.clusters(graph).filter_map(|(_, cluster)| cluster.endpoints.set()).collect();
    let rows = outputs.endpoints(graph).filter(|(name, _)| read.contains(name));
    let mut sets: Vec<Endpoints> = rows.map(|(_, endpoints)| endpoints).collect();
    sets.sort_by(|a, b| a.name.cmp(&b.name));
    sets
}

/// Paths as inputs; `-` is what stands on standard input.
fn inputs(paths: &[PathBuf]) -> anyhow::Result<Vec<Input>> {
    paths
        .iter()
        .map(|path| {
            if path.as_os_str() != "-" {
                match std::fs::metadata(path) {
                    Err(error) if error.kind() == ErrorKind::NotFound => {
                        anyhow::bail!("{}: no such file or folder", path.display())
                    }
                    Err(error) => return Err(error).with_context(|| path.display().to_string()),
                    Ok(_) => {}
                }
                return Ok(Input::Path(path.clone()));
            }
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes)?;
            Ok(Input::Text { name: STDIN.into(), bytes })
        })
        .collect()
}

/// Data of values.
fn list<V: serde::Serialize>(values: &[&V]) -> anyhow::Result<Value> {
    Ok(serde_json::to_value(values)?)
}
