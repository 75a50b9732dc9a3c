//! All wiring: which table is computed from which. Read top to bottom it is the way from objects to what proxies get.
//!
//! A transform reads tables declared before it. First come small tables that hold only what others ask for; nobody but its own
//! first transform reads a raw Gateway, Service or Namespace.

mod backend;
mod budget;
mod closing;
mod delivery;
mod gateway;
mod overlap;
mod patch;
mod problem;
mod raw;
mod refused_secrets;
mod route;
mod status;
mod telemetry;

use std::path::PathBuf;
use std::sync::Arc;

use api::envoy_gateway::DeployType;
use api::envoy_proxy::{EnvoyProxySpec, MergeType};
use api::{Kind, Labels, ObjectKey};
use engine::{Cx, Graph, Table};
use ir::ClosedAddresses;
use ir::RawName;
use ir::infra::kubernetes::Place;
use ir::raw::{Power, Powers, RawRules};
use store::{GatewayApi, Tables};

pub(crate) use self::backend::{BackendPolicies, Backends, EndpointSets, Policies, Secrets, SharedSet, TlsPolicies};
pub(crate) use self::closing::Closings;
pub(crate) use self::gateway::{Gateways, SetKey};
pub(crate) use self::patch::Patches;
pub(crate) use self::problem::PROBLEM_TABLES;
pub(crate) use self::raw::{ComposedRows, RawBySet, Raws};
pub(crate) use self::refused_secrets::RefusedSecrets;
use self::route::Routes;
pub(crate) use self::status::RouteOutcomes;
pub(crate) use self::telemetry::Telemetry;
use crate::envoy_proxy::{self, Named, ProxyRules, ProxyView};
use crate::gateway_class::{self, ClassView};
use crate::key::InFleet;
use crate::lookup::{GrantIndex, NAMESPACE_LABEL, ServiceAddresses};
use crate::output::Outputs;
use crate::raw::trial::MadeOf;
use crate::reference::uses;
use crate::{Options, OwnPlaces, UnsupportedPolicies};

/// Inputs that only the translator writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    /// What was published last for each route and fleet.
    pub(crate) served: Table<crate::key::AttachmentKey, Arc<crate::http_route::AttachedRoute>>,
    /// For a route with a refused form: the form before.
    pub(crate) fallback: Table<crate::key::AttachmentKey, Arc<crate::http_route::AttachedRoute>>,
    /// Each object with a resource of Envoy's as it was when nothing was wrong with it.
    pub(crate) raw_served: Table<ObjectKey, Arc<api::Raw>>,
    /// Each Secret as it was with its last good pair of certificate and key.
    pub(crate) pairs_served: Table<ObjectKey, Arc<api::Secret>>,
    /// Of resources that several objects make, what they were made of when proxies accepted them last.
    pub(crate) raw_accepted: Table<InFleet<RawName>, Arc<MadeOf>>,
    /// Of such resources, what proxies had accepted when this process began: until they answer.
    pub(crate) raw_before: Table<InFleet<RawName>, Arc<[u8]>>,
    /// The time, cut to the hour.
    pub(crate) clock: Table<(), api::Timestamp>,
    /// Places that no backend leads to.
    pub(crate) places: Table<(), Arc<crate::OwnPlaces>>,
}

/// What everything else is built on.
#[derive(Clone, Copy)]
pub(crate) struct Base {
    pub(crate) inputs: Tables,
    pub(crate) own: Own,
    pub(crate) options: Options,
    pub(crate) settings: Settings,
    pub(crate) installed: Installed,
    pub(crate) grants: GrantIndex,
    pub(crate) addresses: ServiceAddresses,
    pub(crate) refused_secrets: RefusedSecrets,
    pub(crate) namespaces: Table<ObjectKey, Arc<Labels>>,
    pub(crate) proxies: Table<ObjectKey, Arc<ProxyView>>,
    /// Usable, or why not: all that Gateways and classes read.
    pub(crate) proxy_verdicts: Table<ObjectKey, Result<(), Arc<str>>>,
    /// How each is combined with those behind it.
    pub(crate) merge_types: Table<ObjectKey, MergeType>,
    pub(crate) classes: Table<ObjectKey, Arc<ClassView>>,
}

/// The static configuration, one table per asker.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    controller: Table<(), Arc<str>>,
    backends: Table<(), Option<bool>>,
    patches: Table<(), bool>,
    /// Joined with `allowed`, the powers of the command line.
    powers: Table<(), Powers>,
    allowed: Powers,
    /// Places that nothing leads to: those of this process, with the static configuration's word on link-local addresses.
    pub(crate) places: Table<(), Arc<OwnPlaces>>,
    /// The addresses of these.
    closed: Table<(), Arc<ClosedAddresses>>,
    /// Folders of Chancery and its proxies.
    folders: Table<(), Arc<[PathBuf]>>,
    /// Proxies may run on this machine.
    here: bool,
    rules: Table<(), Arc<ProxyRules>>,
    proxy: Table<(), Arc<EnvoyProxySpec>>,
    /// The command line's word on policies that are not built counts before that.
    allows_unsupported: Table<(), bool>,
    unsupported: Option<UnsupportedPolicies>,
    /// True: in the controller's namespace.
    deploys_here: Table<(), bool>,
}

impl Settings {
    fn declare(g: &mut Graph, inputs: Tables, own: Own, options: Options) -> Self {
        let link_local = g.map("link_local_backends", inputs.settings, |_, (), settings| {
            settings.spec.extension_apis.enable_link_local_backends
        });
        let places = g.map("closed_places", own.places, move |cx, (), places| {
            let mut places = Arc::clone(places);
            if !places.addresses.link_local && cx.get(link_local, &()).copied().unwrap_or_default() {
                Arc::make_mut(&mut places).addresses.link_local = true;
            }
            places
        });
        Self {
            controller: g.map("controller_name", inputs.settings, |_, (), settings| {
                Arc::from(&*settings.spec.gateway.controller_name)
            }),
            backends: g
                .map("enable_backend", inputs.settings, |_, (), settings| settings.spec.extension_apis.enable_backend),
            patches: g.map("enable_envoy_patch_policy", inputs.settings, |_, (), settings| {
                settings.spec.extension_apis.enable_envoy_patch_policy
            }),
            powers: g.map("raw_powers", inputs.settings, |_, (), settings| {
                let words = settings.spec.extension_apis.raw_resources.iter();
                words.filter_map(|word| Power::of_word(word)).collect::<Powers>()
            }),
            allowed: options.powers,
            places,
            closed: g.map("closed_addresses", places, |_, (), places| Arc::new(places.addresses.clone())),
            folders: g.map("own_folders", places, |_, (), places| Arc::from(&*places.folders)),
            here: options.file_mode,
            rules: g.map("proxy_rules", inputs.settings, |_, (), settings| Arc::new(ProxyRules::of(settings))),
            proxy: g.derive("default_envoy_proxy", inputs.settings, |_, (), settings| {
                settings.spec.envoy_proxy.as_deref().map(|own| ((), Arc::new(own.clone())))
            }),
            allows_unsupported: g.map("allow_unsupported_policies", inputs.settings, |_, (), settings| {
                settings.spec.unsupported_policies == Some(api::envoy_gateway::UnsupportedPolicies::Allow)
            }),
            unsupported: options.unsupported_policies,
            deploys_here: g.map("deploy_type", inputs.settings, |_, (), settings| {
                let kubernetes = settings.spec.kubernetes();
                kubernetes.is_some_and(|kubernetes| kubernetes.deploy.deploy_type == DeployType::ControllerNamespace)
            }),
        }
    }

    /// Who we are.
    pub(crate) fn controller(&self, cx: &mut Cx<'_>) -> Arc<str> {
        cx.get(self.controller, &()).cloned().unwrap_or_else(|| api::envoy_gateway::DEFAULT_CONTROLLER_NAME.into())
    }

    /// Whether routes may name a `Backend`, if the configuration says it.
    pub(crate) fn backends(&self, cx: &mut Cx<'_>) -> Option<bool> {
        cx.get(self.backends, &()).copied().flatten()
    }

    /// Whether an `EnvoyPatchPolicy` has any effect.
    pub(crate) fn patches(&self, cx: &mut Cx<'_>) -> bool {
        cx.get(self.patches, &()).copied().unwrap_or_default()
    }

    /// Returns what raw resources and patches may do to the proxy's machine, and where they may lead.
    pub(crate) fn raw_rules(&self, cx: &mut Cx<'_>) -> RawRules {
        let powers = self.allowed.or(cx.get(self.powers, &()).copied().unwrap_or_default());
        let closed = cx.get(self.closed, &()).cloned().unwrap_or_default();
        let folders = cx.get(self.folders, &()).cloned().unwrap_or_default();
        RawRules { powers, closed, folders, here: self.here, claimed: None }
    }

    /// Returns the rights of an `EnvoyProxy`.
    pub(crate) fn rules(&self, cx: &mut Cx<'_>) -> Arc<ProxyRules> {
        cx.get(self.rules, &()).cloned().unwrap_or_default()
    }

    /// True if targets of policies are closed that guard with fields which are not built.
    pub(crate) fn closes_unsupported(&self, cx: &mut Cx<'_>) -> bool {
        match self.unsupported {
            Some(said) => said == UnsupportedPolicies::Deny,
            None => !cx.get(self.allows_unsupported, &()).copied().unwrap_or_default(),
        }
    }

    /// Where the objects of proxies are made.
    pub(crate) fn place(&self, cx: &mut Cx<'_>) -> Place {
        if cx.get(self.deploys_here, &()).copied().unwrap_or_default() { Place::Controller } else { Place::Gateway }
    }

    /// Settings for every fleet without its own.
    pub(crate) fn proxy(&self, cx: &mut Cx<'_>) -> Option<Arc<EnvoyProxySpec>> {
        cx.get(self.proxy, &()).cloned()
    }
}

/// Which kinds there are, one table per asker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Installed {
    trust_bundles: Table<(), bool>,
    gateway_api: Table<(), Option<GatewayApi>>,
}

impl Installed {
    fn declare(g: &mut Graph, inputs: Tables) -> Self {
        Self {
            trust_bundles: g.map("has_trust_bundles", inputs.definitions, |_, (), found| {
                found.kinds.contains(&Kind::ClusterTrustBundle)
            }),
            gateway_api: g.map("gateway_api", inputs.definitions, |_, (), found| found.gateway_api.clone()),
        }
    }

    /// Whether there can be objects of a kind: of those that a reference may name and a cluster may lack.
    pub(crate) fn serves(&self, cx: &mut Cx<'_>, object: &ObjectKey) -> bool {
        object.kind() != Some(Kind::ClusterTrustBundle) || self.has_trust_bundles(cx)
    }

    fn has_trust_bundles(&self, cx: &mut Cx<'_>) -> bool {
        cx.get(self.trust_bundles, &()).copied().unwrap_or(true)
    }

    /// What a class says of the cluster that it is in; none with files.
    pub(crate) fn view(&self, cx: &mut Cx<'_>) -> Option<gateway_class::Installed> {
        let gateway_api = cx.get(self.gateway_api, &()).cloned()?;
        Some(gateway_class::Installed { gateway_api, trust_bundles: self.has_trust_bundles(cx) })
    }
}

/// Declares everything behind the store's tables.
pub(crate) fn declare(g: &mut Graph, inputs: Tables, options: Options) -> (Own, Outputs) {
    let own = own(g);
    let base = base(g, inputs, own, options);
    let secrets = backend::secrets(g, &base);
    let backend_policies = backend::backend_policies(g, &base);
    let tls_policies = backend::tls_policies(g, &base, secrets);
    let backends = backend::backends(g, &base, secrets, (backend_policies, tls_policies));
    let policies = backend::policies(g, &base);
    let closings = closing::closings(g, &base);
    let gateways = gateway::gateways(g, &base, secrets, (backends, closings));
    let routes: Routes = route::routes(g, &base, gateways, backends, (policies, closings));
    let telemetry = telemetry::telemetry(g, &base, gateways, (secrets, backends));
    let raws = raw::raws(g, &base, secrets, backends.sets);
    let sources = delivery::Sources {
        gateways,
        backends,
        policies,
        tls_policies,
        backend_policies,
        routes,
        secrets,
        refused_secrets: base.refused_secrets,
        telemetry,
    };
    let delivery = delivery::delivery(g, sources);
    let patches = patch::patches(g, &base, gateways, delivery.clusters);
    let sources = status::Sources {
        base,
        gateways,
        backends,
        policies,
        tls_policies,
        backend_policies,
        routes,
        secrets,
        telemetry,
        delivery,
        raws,
        patches,
        closings,
    };
    let statuses = status::statuses(g, sources);
    let listeners = gateway::listeners(g, gateways, routes, telemetry, inputs.proxies);
    (own, outputs(sources, statuses, listeners))
}

/// The tables that are read from outside.
fn outputs(
    sources: status::Sources,
    statuses: status::Statuses,
    listeners: Table<InFleet<ir::ListenerName>, Arc<ir::Listener>>,
) -> Outputs {
    let status::Sources { gateways, backends, routes, secrets, delivery, raws, patches, .. } = sources;
    Outputs {
        listeners,
        route_configurations: routes.configurations,
        streams: routes.streams.rows,
        hosts: routes.hosts,
        hosts_by_configuration: routes.hosts_of,
        route_pieces: routes.pieces,
        clusters: delivery.clusters,
        clusters_by_set: delivery.clusters_by_set,
        endpoint_sets: backends.sets,
        shared_sets: delivery.shared_sets,
        secrets: delivery.secrets,
        pairs: secrets.parsed_of_secrets(),
        runtimes: delivery.runtimes,
        infra: gateways.infra,
        held: gateways.held,
        gateway_class_statuses: statuses.gateway_classes,
        gateway_statuses: statuses.gateways,
        listener_set_statuses: statuses.listener_sets,
        route_statuses: statuses.routes,
        route_outcomes: statuses.outcomes,
        policy_statuses: statuses.policies,
        tls_policy_statuses: statuses.tls_policies,
        backend_statuses: statuses.backends,
        x_backend_statuses: statuses.x_backends,
        backend_policy_statuses: statuses.backend_policies,
        telemetry_policy_statuses: statuses.telemetry_policies,
        envoy_proxy_statuses: statuses.envoy_proxies,
        patch_statuses: statuses.patches,
        unbuilt_policy_statuses: statuses.unbuilt_policies,
        patches: patches.sets,
        raw_statuses: statuses.raw,
        raw: raws.outputs,
        raw_composed: raws.composed,
        raw_by_set: raws.by_set,
        raw_readings: raws.readings,
        raw_selected: raws.selected,
        workloads: raws.fleets,
        rejections: statuses.rejected,
        findings: statuses.problems,
        effective: routes.effective,
        refused_forms: routes.refused,
    }
}

fn own(g: &mut Graph) -> Own {
    Own {
        served: g.input("served"),
        fallback: g.input("fallback"),
        raw_served: g.input("raw_served"),
        pairs_served: g.input("pairs_served"),
        raw_accepted: g.input("raw_accepted"),
        raw_before: g.input("raw_before"),
        clock: g.input("clock"),
        places: g.input("own_places"),
    }
}

fn base(g: &mut Graph, inputs: Tables, own: Own, options: Options) -> Base {
    let installed = Installed::declare(g, inputs);
    let settings = Settings::declare(g, inputs, own, options);
    let grants = g.index("grant_by_use", inputs.reference_grants, |_, grant| uses(grant));
    let addresses = backend::service_addresses(g, inputs);
    let refused_secrets = RefusedSecrets::declare(g, inputs);
    let namespaces = g.map("namespace_labels", inputs.namespaces, |_, _, namespace| {
        let own = namespace.meta.labels.iter();
        Arc::new(own.chain([(NAMESPACE_LABEL, namespace.meta.name())]).collect::<Labels>())
    });
    let proxies = g.map("envoy_proxy_view", inputs.envoy_proxies, move |cx, _, proxy| {
        Arc::new(envoy_proxy::read(&proxy.spec, options.file_mode, &settings.rules(cx)))
    });
    let merge_types = g.map("envoy_proxy_merge", inputs.envoy_proxies, |_, _, proxy| proxy.spec.merge_type.clone());
    let proxy_verdicts = g.map("envoy_proxy_verdict", proxies, |_, _, view| view.fault.clone().map_or(Ok(()), Err));
    let classes = g.derive("gateway_class_view", inputs.gateway_classes, move |cx, key, class| {
        let controller = settings.controller(cx);
        let found = installed.view(cx);
        let view =
            gateway_class::read(class, &controller, found, |proxy| Named::new(proxy, cx.get(proxy_verdicts, proxy)));
        view.map(|view| (key.clone(), Arc::new(view)))
    });
    Base {
        inputs,
        own,
        options,
        settings,
        installed,
        grants,
        addresses,
        refused_secrets,
        namespaces,
        proxies,
        proxy_verdicts,
        merge_types,
        classes,
    }
}
