//! Tables of everything that is wrong with objects.

mod choices;
mod names;
mod unsupported;

use std::sync::Arc;

use api::endpoint_slice::{IMPORT_NAME_LABEL, SERVICE_NAME_LABEL};
use api::envoy_gateway::{InfrastructureProviderType, ProviderConfig, ProviderType, ResourceProviderType};
use api::status::ConditionStatus;
use api::{EnvoyGateway, FieldPath, Kind, ListenerSet, ObjectKey, Problem, RefusalKind, Severity};
use engine::{Cx, Graph, Index, Table};
use ir::EndpointSetName;
use ir::raw::{Power, RawFault};
use store::{FactKey, ProxyFacts};

use super::backend::EndpointSet;
use super::delivery::Delivery;
use super::status::Sources;
use super::{BackendPolicies, Base, EndpointSets, Telemetry, refused_secrets};
use crate::backend::slice::Lack;
use crate::backend::{Reading, SecretUse};
use crate::backend_tls_policy::TlsPolicy;
use crate::blame;
use crate::envoy_patch_policy::{self, PatchOutcome, PatchStanding};
use crate::envoy_proxy;
use crate::gateway::{GatewayPlan, NamedSettings};
use crate::key::{AttachmentKey, BackendKey, ProblemKey, Transport};
use crate::listener::{ListenerPlan, Refusal};
use crate::listener_set::{self, SetPlan};
use crate::raw::{Lost, RawOutcome, refusal};
use crate::reference::grant;
use crate::secret::{NO_BUNDLE, NO_PAIR, Parsed};
use crate::status;
use crate::status::gateway::refused_port;
use crate::status::policy::{Reach, Reached, Standing};

/// How many tables of problems there are.
pub(crate) const PROBLEM_TABLES: usize = 37;

/// What was found of routes and policies.
#[derive(Clone, Copy)]
pub(super) struct Found {
    /// Routes with a form that proxies refused.
    pub(super) refused: Table<AttachmentKey, Arc<str>>,
    /// What became of each `BackendTrafficPolicy`.
    pub(super) reached: Table<ObjectKey, Arc<Reach>>,
    /// The same of each policy of Envoy Gateway's, as far as fields guard.
    pub(super) attached: Table<ObjectKey, Arc<Vec<Reached>>>,
    /// The same of each `BackendTLSPolicy`.
    pub(super) tls_reached: Table<ObjectKey, Arc<Vec<Reached>>>,
    /// The same of policies for retries and sessions.
    pub(super) backends_reached: Table<ObjectKey, Arc<Reach>>,
    /// The same of policies for traces.
    pub(super) told: Table<ObjectKey, Arc<Vec<Reached>>>,
}

pub(super) fn problems(
    g: &mut Graph,
    sources: &Sources,
    Found { refused, reached, attached, tls_reached, backends_reached, told }: Found,
) -> [Table<ProblemKey, Arc<Problem>>; PROBLEM_TABLES] {
    let Sources { base, gateways, backends, tls_policies, routes, secrets, delivery, raws, patches, .. } = *sources;
    let (clock, proxies) = (base.own.clock, base.inputs.proxies);
    let [secrets, config_maps, trust_bundles] = secrets.parsed;
    let expiry =
        move |cx: &mut Cx<'_>, key: &_, parsed: &Arc<Parsed>| expired(key, parsed, cx.get(clock, &()).copied());
    let [of_services, of_imports, of_objects, of_x_backends] = of_readings(g, backends.readings);
    let [silent, silent_imports, silent_x_backends, strays] = endpoints(g, &base, backends.sets, &delivery);
    let [classes, unserved, grants] = misspelt(g, &base);
    let [shadowed, shadowed_streams] = routes.shadowed;
    let [own_sets, bound_sets, stray_sets] = listener_sets(g, base, gateways.sets, secrets);
    [
        silent,
        silent_imports,
        silent_x_backends,
        strays,
        classes,
        unserved,
        grants,
        g.derive("gateway_problem", gateways.plans, move |cx, key, plan| {
            let misnamed = names::problems(cx, secrets, key, plan.own_listeners());
            numbered(key, 0, gateway_problems(key, plan).into_iter().chain(misnamed))
        }),
        g.derive("proxy_problem", gateways.plans, move |cx, key, plan| {
            cx.get(proxies, &plan.fleet.0).map(|facts| proxy_problems(key, plan, facts)).unwrap_or_default()
        }),
        own_sets,
        bound_sets,
        stray_sets,
        g.derive("route_problem", routes.outcomes, |_, key, found| numbered(key, 0, found.problems().iter().cloned())),
        routes.streams.behind,
        shadowed,
        shadowed_streams,
        routes.overlaps,
        g.derive("refusal_problem", refused, |_, key: &AttachmentKey, words| [refused_route(key, words)]),
        g.derive("resource_problem", base.inputs.route_refusals, |_, fact: &FactKey, words| {
            if blame::is_resource(fact) { resource_problem(fact, words) } else { Vec::new() }
        }),
        refused_secrets::problems(g, base.inputs),
        g.derive("dispute_problem", base.inputs.disputes, |_, fact: &FactKey, words| resource_problem(fact, words)),
        of_services,
        of_imports,
        of_objects,
        of_x_backends,
        envoy_proxies(g, &base),
        static_settings(g, &base),
        g.derive("policy_problem", reached, |_, key, reach| policy_problems(key, reach)),
        unsupported::problems(g, sources, attached),
        backend_policy_problems(g, sources.backend_policies, backends_reached),
        telemetry_problems(g, sources.telemetry, told),
        g.derive("tls_policy_problem", tls_policies.policies, move |cx, key, policy| {
            let reached = cx.get(tls_reached, key).cloned().unwrap_or_default();
            tls_policy_problems(key, policy, &reached)
        }),
        g.derive("patch_problem", patches.outcomes, |_, key, outcome| patch_problems(key, outcome)),
        g.derive("raw_problem", raws.outcomes, |_, key, outcome| numbered(key, 0, raw_problems(key, outcome))),
        g.derive("secret_problem", secrets, expiry),
        g.derive("config_map_problem", config_maps, expiry),
        g.derive("trust_bundle_problem", trust_bundles, expiry),
    ]
}

fn static_settings(g: &mut Graph, base: &Base) -> Table<ProblemKey, Arc<Problem>> {
    let file_mode = base.options.file_mode;
    g.derive("settings_problem", base.inputs.settings, move |_, (), settings| settings_problems(settings, file_mode))
}

/// Fields of an `EnvoyProxy` without an effect.
fn envoy_proxies(g: &mut Graph, base: &Base) -> Table<ProblemKey, Arc<Problem>> {
    g.derive("envoy_proxy_problem", base.proxies, |_, key, view| {
        let found = view.warnings.iter().map(|(path, text)| {
            let problem = Problem::of(key, FieldPath::from(&**path), Severity::Warning, &**text);
            Arc::new(problem.refusing(view.refused.get(path).copied()))
        });
        numbered(key, 0, found)
    })
}

/// The problem of a certificate, key or bundle that cannot be used now.
fn expired(key: &SecretUse, parsed: &Parsed, now: Option<api::Timestamp>) -> Vec<(ProblemKey, Arc<Problem>)> {
    numbered(&key.object, key.part as u32, unusable(key, parsed, now).into_iter().map(Arc::new))
}

/// A part of a route that a fleet's proxies refuse.
fn refused_route(key: &AttachmentKey, words: &str) -> (ProblemKey, Arc<Problem>) {
    let text = format!("a proxy of {} refused a part of this route: {words}", key.fleet);
    let problem = Problem::of(&key.route, "spec", Severity::Error, text);
    (ProblemKey::hashed(&key.route, &[&key.fleet.0]), Arc::new(problem))
}

/// What is worth saying of backends.
fn of_readings(
    g: &mut Graph,
    [services, imports, objects, x_backends]: [Table<BackendKey, Arc<Reading>>; 4],
) -> [Table<ProblemKey, Arc<Problem>>; 4] {
    let of_reading = |key: &BackendKey, reading: &Arc<Reading>| {
        // A Service has a row per port, so its problems are numbered by port.
        let offset = u32::from(key.port) << 8;
        numbered(&key.object, offset, reading.problems.clone())
    };
    [
        g.derive("service_problem", services, move |_, key, reading| of_reading(key, reading)),
        g.derive("service_import_problem", imports, move |_, key, reading| of_reading(key, reading)),
        g.derive("backend_problem", objects, move |_, key, reading| of_reading(key, reading)),
        g.derive("x_backend_problem", x_backends, move |_, key, reading| of_reading(key, reading)),
    ]
}

/// What is wrong with `ListenerSet`s: in themselves, at proxies, and with those that no Gateway of ours has.
fn listener_sets(
    g: &mut Graph,
    base: Base,
    sets: Table<ObjectKey, Arc<SetPlan>>,
    secrets: Table<SecretUse, Arc<Parsed>>,
) -> [Table<ProblemKey, Arc<Problem>>; 3] {
    let proxies = base.inputs.proxies;
    [
        g.derive("listener_set_problem", sets, move |cx, key, plan| {
            let listeners = if plan.refused.is_none() { &*plan.listeners } else { &[] };
            let misnamed = names::problems(cx, secrets, key, listeners);
            numbered(key, 0, listener_set_problems(key, plan).into_iter().chain(misnamed))
        }),
        g.derive("listener_set_proxy_problem", sets, move |cx, key, plan| {
            let facts = cx.get(proxies, &plan.fleet.0).filter(|_| plan.refused.is_none());
            let found = facts.map(|facts| refused_ports(key, &plan.listeners, facts).collect::<Vec<_>>());
            numbered(key, PROXY_NUMBER, found.unwrap_or_default())
        }),
        g.derive("stray_listener_set", base.inputs.listener_sets, move |cx, key, set| {
            let problem = if cx.contains(sets, key) { None } else { Some(stray_set(cx, &base, key, set)) };
            numbered(key, 0, problem.map(Arc::new))
        }),
    ]
}

fn raw_problems(key: &ObjectKey, outcome: &RawOutcome) -> Vec<Arc<Problem>> {
    let of = |severity, fault: &RawFault| {
        let path = if fault.path.is_empty() { "spec.config".to_owned() } else { format!("spec.config.{}", fault.path) };
        Arc::new(Problem::of(key, FieldPath::from(&*path), severity, &*fault.text).refusing(fault.refusal.map(refusal)))
    };
    let earlier = outcome.read.is_earlier;
    let error = |fault: &RawFault| Arc::new(Problem { earlier, ..Arc::unwrap_or_clone(of(Severity::Error, fault)) });
    let mut found: Vec<_> = outcome.read.reading.errors.iter().map(error).collect();
    found.extend(outcome.read.reading.ignored.iter().map(|fault| of(Severity::Warning, fault)));
    let conditions = status::raw::status(outcome, false).conditions.into_iter();
    found.extend(conditions.filter(|one| one.status == ConditionStatus::False).filter_map(|one| {
        let (_, path) = REPORTED.into_iter().find(|(reason, _)| *reason == &*one.reason)?;
        let may_be_elsewhere = outcome.read.fault.is_none() && &*one.condition_type == "ResolvedRefs";
        let severity = if may_be_elsewhere { Severity::Warning } else { Severity::Error };
        let text = one.message.strip_prefix(path).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&one.message);
        Some(Arc::new(Problem::of(key, FieldPath::from(path), severity, text)))
    }));
    let refused = status::raw::refused(outcome);
    found.extend(refused.map(|text| Arc::new(Problem::of(key, "spec.config", Severity::Error, text))));
    if let Some(Lost::Parts(parts) | Lost::EveryPart(parts)) = &outcome.lost {
        found.extend(parts.iter().map(|(claim, by)| {
            let problem =
                Problem::of(key, "spec.config", Severity::Error, format!("{claim} is that of {by}, and left out here"));
            Arc::new(Problem { refers_to: Some(by.clone()), ..problem })
        }));
    }
    found
}

/// Reasons of conditions that are worth a problem, with its place: what a reading found is told at its own.
const REPORTED: [(&str, &str); 7] = [
    ("BackendNotFound", "spec.service"),
    ("Conflicted", "spec.config"),
    ("InvalidSecret", "spec.secretRef"),
    ("NoWorkload", "spec.workloadSelector"),
    ("RefNotPermitted", "spec.secretRef"),
    ("ReferenceNotFound", "spec.config"),
    ("SecretNotFound", "spec.secretRef"),
];

/// Targets for which a policy does not hold. `single` of them is in `targetRef`, before the others.
fn target_problems(key: &ObjectKey, reached: &[Reached], single: usize) -> impl Iterator<Item = Arc<Problem>> {
    reached.iter().enumerate().filter_map(move |(at, reached)| {
        let refers_to = (reached.standing == Standing::NotFound).then(|| reached.target.object.clone());
        let item = at.checked_sub(single).map_or("spec.targetRef".to_owned(), |at| format!("spec.targetRefs[{at}]"));
        let field = match reached.standing {
            Standing::NotFound => ".name",
            Standing::NoPort | Standing::NoRule | Standing::NoListener => ".sectionName",
            // It is said at the fields.
            Standing::Unsupported(_) => return None,
            Standing::Accepted | Standing::Conflicted(_) | Standing::Invalid(_) | Standing::Foreign => "",
        };
        let path = FieldPath::from(format!("{item}{field}"));
        let problem = Problem::of(key, path, Severity::Error, reached.refusal()?.1);
        Some(Arc::new(Problem { refers_to, ..problem }))
    })
}

fn policy_problems(key: &ObjectKey, reach: &Reach) -> Vec<(ProblemKey, Arc<Problem>)> {
    // Whoever reads objects has told the fields that are ignored.
    let old = reach.warnings.iter().filter(|(reason, _)| *reason == status::DEPRECATED);
    let found = target_problems(key, &reach.reached, old.clone().count());
    let old = old.map(|(_, text)| warning(key, "spec.targetRef", text));
    numbered(key, 0, found.chain(old))
}

fn backend_policy_problems(
    g: &mut Graph,
    policies: BackendPolicies,
    reached: Table<ObjectKey, Arc<Reach>>,
) -> Table<ProblemKey, Arc<Problem>> {
    g.derive("backend_policy_problem", reached, move |cx, key, reach| {
        let told = cx.get(policies.policies, key).map(|policy| policy.told_here.clone());
        let told = told.into_iter().flatten().map(|(field, text)| warning(key, &field, &text));
        numbered(key, 0, target_problems(key, &reach.reached, 0).chain(told).collect::<Vec<_>>())
    })
}

fn telemetry_problems(
    g: &mut Graph,
    telemetry: Telemetry,
    reached: Table<ObjectKey, Arc<Vec<Reached>>>,
) -> Table<ProblemKey, Arc<Problem>> {
    g.derive("telemetry_policy_problem", telemetry.policies, move |cx, key, policy| {
        let reached = cx.get(reached, key).cloned().unwrap_or_default();
        let told = policy.told_here.iter().map(|(field, text)| warning(key, field, text));
        let unresolved = policy.unresolved.as_ref().map(|refusal| {
            let text = format!("{}; nothing is recorded", refusal.text);
            let problem = Problem::of(key, FieldPath::from(refusal.path("spec")), Severity::Error, text);
            Arc::new(Problem { refers_to: refusal.refers_to.clone(), ..problem })
        });
        numbered(key, 0, target_problems(key, &reached, 0).chain(told).chain(unresolved).collect::<Vec<_>>())
    })
}

fn tls_policy_problems(key: &ObjectKey, policy: &TlsPolicy, reached: &[Reached]) -> Vec<(ProblemKey, Arc<Problem>)> {
    let refused = target_problems(key, reached, 0);
    // Whoever reads objects has told what is wrong with fields.
    let fault = policy.tls.as_ref().err().filter(|fault| fault.resolved.is_some()).map(|fault| {
        let path = FieldPath::from(fault.accepted.path("spec"));
        let text = format!("{}; nothing is sent to what the policy is about", fault.accepted.text);
        Arc::new(Problem::of(key, path, Severity::Error, text))
    });
    let closed = policy.closed().map(|(fault, targets)| {
        let text = format!("{} (nothing is sent to {targets})", fault.text);
        Arc::new(Problem::of(key, fault.path.clone(), Severity::Error, text))
    });
    let partly = policy.unresolved.as_ref().map(|refusal| {
        let text = format!("{}; it is checked with the others", refusal.text);
        Arc::new(Problem::of(key, FieldPath::from(refusal.path("spec")), Severity::Error, text))
    });
    let options = policy.warnings.iter().filter(|(_, text)| text.starts_with("spec.options"));
    let options = options.map(|(_, text)| warning(key, "spec.options", text));
    numbered(key, 0, refused.chain(fault).chain(closed).chain(partly).chain(options).collect::<Vec<_>>())
}

fn patch_problems(key: &ObjectKey, outcome: &PatchOutcome) -> Vec<(ProblemKey, Arc<Problem>)> {
    let error = |path: &str, text: &str| Problem::of(key, FieldPath::from(path), Severity::Error, text);
    // Whoever reads objects has told what is wrong with it as a whole.
    let refusal = outcome.refusal().filter(|(reason, _)| *reason != "Invalid" || outcome.policy.fault_is_ours);
    let refusal = refusal.map(|(reason, text)| {
        let refers_to = (reason == "TargetNotFound").then(|| outcome.policy.target.clone());
        let path = if reason == "Disabled" { "" } else { "spec.targetRef" };
        Problem { refers_to, ..error(path, &text) }
    });
    let faults = envoy_patch_policy::faults(outcome).into_iter();
    let faults = faults.filter(|_| outcome.standing == PatchStanding::Accepted);
    let faults = faults.map(|fault| error(&fault.path, &fault.text).refusing(fault.refusal));
    let missing = envoy_patch_policy::missing(outcome).map(|(id, cluster)| {
        let named = format!("{} {}", id.kind(), id.name);
        let text = format!("{named} names cluster {cluster}, which these proxies do not get");
        Problem { severity: Severity::Warning, ..error("spec.jsonPatches", &text) }
    });
    numbered(key, 0, refusal.into_iter().chain(faults).chain(missing).map(Arc::new))
}

fn settings_problems(settings: &EnvoyGateway, file_mode: bool) -> Vec<(ProblemKey, Arc<Problem>)> {
    let object = &settings.meta.key;
    let apis = &settings.spec.extension_apis;
    let view = settings.spec.envoy_proxy.as_deref();
    let view =
        view.map(|own| envoy_proxy::read(own, file_mode, &envoy_proxy::ProxyRules::of(settings))).unwrap_or_default();
    let unknown = apis.raw_resources.iter().enumerate().filter(|(_, word)| Power::of_word(word).is_none());
    let unknown = unknown.map(|(index, word)| {
        let words = Power::ALL.map(Power::word).join(", ");
        let text = format!("{word:?} is nothing that resources may do, ignored; there are {words}");
        warning(object, &format!("extensionApis.rawResources[{index}]"), &text)
    });
    let inside = |path: &str| format!("envoyProxy{}", path.trim_start_matches("spec"));
    let found = view.warnings.iter().map(|(path, text)| warning(object, &inside(path), text));
    let provider = settings.spec.provider.as_deref().filter(|_| file_mode).and_then(elsewhere);
    numbered(object, 0, found.chain(unknown).chain(provider.map(|(path, text)| warning(object, path, text))))
}

/// What the static configuration asks for that this process, which reads files and runs proxies itself, does not do.
fn elsewhere(provider: &ProviderConfig) -> Option<(&'static str, &'static str)> {
    let custom = provider.custom.as_ref();
    let objects = custom.is_some_and(|custom| custom.resource.resource_type != ResourceProviderType::File);
    let proxies = custom.and_then(|custom| custom.infrastructure.as_ref());
    let proxies = proxies.is_some_and(|proxies| proxies.infrastructure_type != InfrastructureProviderType::Host);
    if provider.provider_type == ProviderType::Kubernetes {
        let text = "objects come from files and Envoys run on this machine, no cluster is asked; write Custom";
        return Some(("provider.type", text));
    }
    if objects {
        return Some(("provider.custom.resource.type", "objects come from files, no cluster is asked; write File"));
    }
    proxies.then_some(("provider.custom.infrastructure.type", "Envoys run on this machine; write Host"))
}

/// Classes whose controller is nearly ours, Gateways of classes that are not ours (in a cluster others serve them, where the class is there;
/// a folder is written for us), and grants that allow nothing.
fn misspelt(g: &mut Graph, base: &Base) -> [Table<ProblemKey, Arc<Problem>>; 3] {
    let Base { inputs, settings, classes, options, .. } = *base;
    let near = g.derive("class_problem", inputs.gateway_classes, move |cx, key, class| {
        let (named, ours) = (&*class.spec.controller_name, settings.controller(cx));
        let near = api::nearest(named, [&*ours]).filter(|near| *near != named);
        let told = near.map(|near| {
            let text = format!("{named} is not this controller, so Gateways of this class are not served");
            warning(key, "spec.controllerName", &format!("{text}; did you mean {near}?"))
        });
        let unusable = cx.get(classes, key).and_then(|class| class.settings().err());
        let unusable = unusable.map(|text| Arc::new(Problem::of(key, "spec.parametersRef", Severity::Error, &*text)));
        numbered(key, 0, told.into_iter().chain(unusable))
    });
    let ours = g.index("class_of_ours", classes, |_, _| [()]);
    let unserved = g.derive("unserved_problem", inputs.gateways, move |cx, key, gateway| {
        let name = &*gateway.spec.gateway_class_name;
        let named = ObjectKey::of(Kind::GatewayClass, "", name);
        let class = cx.get(inputs.gateway_classes, &named);
        if !options.file_mode {
            let told = class.is_none().then(|| no_class(key, named, cx.keys(ours, &())));
            return numbered(key, 0, told);
        }
        if cx.any(ours, &()) {
            return Vec::new();
        }
        let told = class.map(|class| {
            let theirs = &class.spec.controller_name;
            let controller = settings.controller(cx);
            let text = format!("GatewayClass {name} belongs to {theirs}, so this Gateway is not served");
            warning(key, "spec.gatewayClassName", &format!("{text}; here a class with controllerName {controller} is"))
        });
        numbered(key, 0, told)
    });
    let grants = g.derive("grant_problem", inputs.reference_grants, |_, key, grant| {
        let found = grant::warnings(grant).into_iter();
        numbered(key, 0, found.map(|(path, text)| warning(key, &path, &text)))
    });
    [near, unserved, grants]
}

/// In a cluster a Gateway whose class is not there is nobody's: no status says anything of it.
fn no_class<'a>(key: &ObjectKey, named: ObjectKey, ours: impl Iterator<Item = &'a ObjectKey>) -> Arc<Problem> {
    let near = api::nearest(named.name(), ours.map(ObjectKey::name));
    let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    let text = format!("GatewayClass {} does not exist, so nothing serves this Gateway{hint}", named.name());
    let problem = Problem::of(key, "spec.gatewayClassName", Severity::Warning, text);
    // The name that is near is said once.
    Arc::new(Problem { refers_to: near.is_none().then_some(named), ..problem })
}

/// Services and others that get requests and have no endpoints, and slices that belong to no Service. Only of these there are rows: a change
/// of endpoints that leaves some runs nothing here.
fn endpoints(
    g: &mut Graph,
    base: &Base,
    sets: EndpointSets,
    delivery: &Delivery,
) -> [Table<ProblemKey, Arc<Problem>>; 4] {
    let ([of_services, of_imports, _, of_x_backends], inputs) = (sets.rows, base.inputs);
    let services = inputs.services;
    let silent = [
        silent(g, base, delivery, ("endpoint_set_without_endpoints", "endpoint_problem", of_services)),
        silent(g, base, delivery, ("import_set_without_endpoints", "import_endpoint_problem", of_imports)),
        silent(g, base, delivery, ("x_backend_set_without_endpoints", "x_backend_endpoint_problem", of_x_backends)),
    ];
    // In a cluster slices are made by controllers, and outlive their Service for a moment.
    let file_mode = base.options.file_mode;
    let strays = g.distinct("service_that_slices_miss", sets.slices, move |cx, service: &ObjectKey| {
        let is_there = cx.contains(services, service) || cx.contains(inputs.service_imports, service);
        (file_mode && !is_there).then(|| (service.clone(), ()))
    });
    let strays = g.derive("slice_problem", strays, move |cx, service, ()| {
        let slices = cx.keys(sets.slices, service);
        slices.flat_map(|slice| numbered(slice, 0, [stray(slice, service)])).collect::<Vec<_>>()
    });
    let [of_services, of_imports, of_x_backends] = silent;
    [of_services, of_imports, of_x_backends, strays]
}

/// Those of one kind.
fn silent(
    g: &mut Graph,
    base: &Base,
    delivery: &Delivery,
    (index, table, rows): (&'static str, &'static str, Table<EndpointSetName, EndpointSet>),
) -> Table<ProblemKey, Arc<Problem>> {
    let (services, file_mode) = (base.inputs.services, base.options.file_mode);
    let empty: Index<ObjectKey, EndpointSetName, EndpointSet> = g.index(index, rows, |_, set: &EndpointSet| {
        (set.lack.is_some() || set.is_choosy).then(|| set.backend.object.clone())
    });
    let ([of_routes, _, of_gateways], sharers) = (delivery.clusters_by_set, delivery.shared_by_set);
    g.derive_group(table, empty, move |cx, service, sets| {
        let used: Vec<_> = sets
            .iter()
            .filter(|(name, _)| cx.any(of_routes, *name) || cx.any(of_gateways, *name) || cx.any(sharers, *name))
            .map(|(_, set)| set)
            .collect();
        let spec = if used.is_empty() { None } else { cx.get(services, service).map(|service| &service.spec) };
        let selects = spec.is_some_and(|spec| spec.selects);
        let choices = spec.map(|spec| choices::problems(service, spec)).unwrap_or_default();
        let lacks = used.iter().filter_map(|set| Some((&set.backend, set.lack?)));
        let mut found: Vec<_> = lacks.map(|lack| lacking(service, lack, (selects, file_mode))).collect();
        // Without any slice each of its ports has the same to say.
        found.dedup();
        numbered(service, ENDPOINT_NUMBER, found.into_iter().chain(choices))
    })
}

/// What a Service's port lacks. With a selector it is complete for a cluster, which finds the endpoints itself: there that is worth knowing and not
/// suspicious. In files nothing finds them.
fn lacking(
    service: &ObjectKey,
    (backend, lack): (&BackendKey, Lack),
    (selects, file_mode): (bool, bool),
) -> Arc<Problem> {
    let mut severity = Severity::Warning;
    let (port, transport) = (backend.port, backend.transport);
    let lost = match transport {
        Transport::Tcp => "answered with 503 (connections that are passed on are closed)",
        Transport::Udp => "dropped",
    };
    let (path, text) = match lack {
        Lack::Slice => {
            let label = format!("{}: {}", label_of(service), service.name());
            let text = format!("no EndpointSlice gives it endpoints, so requests to it are {lost}");
            severity = if selects && !file_mode { Severity::Note } else { severity };
            let remedy = match (selects, file_mode) {
                (true, true) => {
                    " (its selector finds none without a cluster), or send to a Backend of gateway.envoyproxy.io in place of it"
                }
                (true, false) => " (its selector finds none without a cluster)",
                (false, _) => "",
            };
            ("", format!("{text}; add one with the label {label}{remedy}"))
        }
        Lack::Port => {
            let text =
                format!("no EndpointSlice of it has a {} port with the same name as its port {port}", transport.word());
            ("spec.ports", format!("{text}, so requests to that port are {lost}"))
        }
        Lack::Pod => {
            let path = "spec.endpointSelector.matchLabels";
            (
                path,
                format!(
                    "no Pod of namespace {} with these labels is ready and has an address, so requests to it are {lost}",
                    service.namespace()
                ),
            )
        }
        Lack::Own => {
            let text = "its EndpointSlices have addresses to which no backend leads: where Chancery listens, link-local ones, or those of a cloud's metadata service (see --allow-link-local); requests to it are";
            severity = Severity::Error;
            ("", format!("{text} {lost}"))
        }
        Lack::Ready => ("", format!("no endpoint of port {port} is ready, so requests to that port are {lost}")),
    };
    let refusal = matches!(lack, Lack::Own).then_some(RefusalKind::OwnAddress);
    Arc::new(Problem::of(service, path, severity, text).refusing(refusal))
}

/// By which slices say whose they are.
fn label_of(service: &ObjectKey) -> &'static str {
    if service.kind() == Some(Kind::ServiceImport) { IMPORT_NAME_LABEL } else { SERVICE_NAME_LABEL }
}

fn stray(slice: &ObjectKey, service: &ObjectKey) -> Arc<Problem> {
    let text = if service.name().is_empty() {
        format!("the label {SERVICE_NAME_LABEL} is missing, so these endpoints belong to no Service")
    } else {
        format!("{service} does not exist, so these endpoints get no requests")
    };
    let problem = Problem::of(slice, "metadata.labels", Severity::Warning, text);
    Arc::new(Problem { refers_to: Some(service.clone()), ..problem })
}

/// The number of the first problem of a Service's endpoints; those of its ports are below.
const ENDPOINT_NUMBER: u32 = 1 << 25;

/// Classes that need no object in files: that of the chart, and that of Envoy Gateway's examples.
const KNOWN_CLASSES: [&str; 2] = ["chancery", "eg"];

/// The number of the first problem of a Gateway's proxy; a Gateway has far fewer of its own.
const PROXY_NUMBER: u32 = 1 << 16;

/// What keeps the proxy of a Gateway from serving what was asked for.
fn proxy_problems(key: &ObjectKey, plan: &GatewayPlan, facts: &ProxyFacts) -> Vec<(ProblemKey, Arc<Problem>)> {
    let error = |path: String, text: &str| Arc::new(Problem::of(key, path, Severity::Error, text));
    let mut found: Vec<_> = facts.problem.iter().map(|words| error(String::new(), words)).collect();
    let lacking = plan.addresses.assign(Some(facts)).unwrap_or_default().lacking;
    let lacking = lacking.iter().filter(|(index, _)| plan.addresses.is_possible(*index));
    found.extend(lacking.map(|(_, refusal)| error(refusal.path("spec"), &refusal.text)));
    let unassigned = facts.unassigned.iter().filter(|_| plan.addresses.is_empty());
    found.extend(unassigned.map(|words| warning(key, "", words)));
    found.extend(refused_ports(key, plan.own_listeners(), facts));
    let mut found = numbered(key, PROXY_NUMBER, found);
    found.extend(settings_faults(key, plan, facts));
    found
}

/// Listeners whose port proxies cannot bind.
fn refused_ports<'a>(
    key: &'a ObjectKey,
    listeners: &'a [ListenerPlan],
    facts: &'a ProxyFacts,
) -> impl Iterator<Item = Arc<Problem>> + 'a {
    let accepted = listeners.iter().enumerate().filter(|(_, listener)| listener.refused.is_none());
    accepted.filter_map(move |(index, listener)| {
        let words = refused_port(facts, listener)?;
        Some(Arc::new(Problem::of(key, format!("spec.listeners[{index}].port"), Severity::Error, &*words)))
    })
}

/// What of that the settings in force are to blame for, said of them as well. Many Gateways can have the same: their names tell what is
/// said of each apart.
fn settings_faults(gateway: &ObjectKey, plan: &GatewayPlan, facts: &ProxyFacts) -> Vec<(ProblemKey, Arc<Problem>)> {
    let Some(NamedSettings { settings, .. }) = plan.settings_in_force(gateway) else { return Vec::new() };
    let problem = |(path, words): &(Arc<str>, Arc<str>)| {
        let text = format!("{words} (for {gateway})");
        let problem = Problem::of(&settings, FieldPath::from(&**path), Severity::Error, text);
        Arc::new(Problem { refers_to: Some(gateway.clone()), ..problem })
    };
    let ProblemKey { number, .. } = ProblemKey::hashed(&settings, &[&plan.fleet.0]);
    numbered(&settings, number, facts.faults.iter().map(problem))
}

/// A refusal that fits no route in particular belongs to the Gateway.
fn resource_problem(fact: &FactKey, words: &Arc<str>) -> Vec<(ProblemKey, Arc<Problem>)> {
    let (namespace, name) = fact.fleet.split_once('/').unwrap_or(("", &fact.fleet));
    let gateway = ObjectKey::of(Kind::Gateway, namespace, name);
    let problem = Problem::of(&gateway, "", Severity::Error, format!("a proxy refused {}: {words}", fact.name));
    // Several resources of one Gateway can be refused: their names tell them apart.
    vec![(ProblemKey::hashed(&gateway, &[&fact.name]), Arc::new(problem))]
}

fn numbered(
    object: &ObjectKey,
    offset: u32,
    problems: impl IntoIterator<Item = Arc<Problem>>,
) -> Vec<(ProblemKey, Arc<Problem>)> {
    let number = |(at, problem)| (ProblemKey { object: object.clone(), number: offset.saturating_add(at) }, problem);
    (0_u32..).zip(problems).map(number).collect()
}

fn warning(object: &ObjectKey, path: &str, text: &str) -> Arc<Problem> {
    Arc::new(Problem::of(object, FieldPath::from(path), Severity::Warning, text))
}

fn gateway_problems(key: &ObjectKey, plan: &GatewayPlan) -> Vec<Arc<Problem>> {
    let error = |owner: &str, refusal: &Refusal| {
        let problem = Problem::of(key, refusal.path(owner), Severity::Error, &*refusal.text);
        Arc::new(Problem { refers_to: refusal.refers_to.clone(), ..problem })
    };
    let mut found: Vec<_> = plan.warnings.iter().map(|(path, text)| warning(key, path, text)).collect();
    if let Some(class) = &plan.missing_class {
        let (severity, text) = missing_class(class);
        let problem = Problem::of(key, "spec.gatewayClassName", severity, text);
        let refers_to = Some(ObjectKey::of(Kind::GatewayClass, "", class));
        found.push(Arc::new(Problem { refers_to, ..problem }));
    }
    let own = [&plan.refused, &plan.unresolved].into_iter().flatten();
    found.extend(own.chain(plan.addresses.refused()).map(|refusal| error("spec", refusal)));
    for (index, listener) in plan.own_listeners().iter().enumerate() {
        let owner = format!("spec.listeners[{index}]");
        let refusals = [&listener.refused, &listener.misgated, &listener.unresolved, &listener.untrusted];
        found.extend(refusals.into_iter().flatten().map(|refusal| error(&owner, refusal)));
    }
    found
}

/// A class of another name than all examples have may be another controller's, or a slip.
fn missing_class(class: &str) -> (Severity, String) {
    let text = format!("GatewayClass {class:?} is not there, the Gateway is taken as ours");
    if KNOWN_CLASSES.contains(&class) {
        return (Severity::Note, text);
    }
    let remedy = "in a cluster without that class nothing would serve it: add the class, or write chancery";
    (Severity::Warning, format!("{text}; {remedy}"))
}

fn listener_set_problems(key: &ObjectKey, plan: &SetPlan) -> Vec<Arc<Problem>> {
    let error = |path: String, refusal: &Refusal| {
        let problem = Problem::of(key, path, Severity::Error, &*refusal.text);
        Arc::new(Problem { refers_to: refusal.refers_to.clone(), ..problem })
    };
    let mut found: Vec<_> = plan.warnings.iter().map(|(path, text)| warning(key, path, text)).collect();
    if let Some([accepted, _]) = &plan.refused {
        found.push(error(accepted.path("spec"), accepted));
        return found;
    }
    for (index, listener) in plan.listeners.iter().enumerate() {
        let owner = format!("spec.listeners[{index}]");
        for refusal in
            [&listener.refused, &listener.misgated, &listener.unresolved, &listener.untrusted].into_iter().flatten()
        {
            found.push(error(refusal.path(&owner), refusal));
        }
    }
    found
}

/// A set of which no Gateway of ours knows.
fn stray_set(cx: &mut Cx<'_>, base: &Base, key: &ObjectKey, set: &ListenerSet) -> Problem {
    let Some(gateway) = listener_set::gateway(set) else {
        let parent = &set.spec.parent_ref;
        let text = format!(
            "{} {:?} of group {:?} cannot be the parent of a ListenerSet, a Gateway can",
            parent.kind, parent.name, parent.group
        );
        // In a cluster it may be a word of somebody else's.
        let severity = if base.options.file_mode { Severity::Error } else { Severity::Note };
        return Problem::of(key, "spec.parentRef", severity, text);
    };
    let path = "spec.parentRef.name";
    if cx.contains(base.inputs.rejected, &gateway) {
        return Problem::of(key, path, Severity::Note, format!("{gateway} cannot be read"));
    }
    if cx.contains(base.inputs.gateways, &gateway) {
        return Problem::of(key, path, Severity::Note, format!("{gateway} belongs to another controller"));
    }
    let text = format!("{gateway} does not exist, nothing listens for this set");
    Problem { refers_to: Some(gateway), ..Problem::of(key, path, Severity::Error, text) }
}

/// What is wrong inside, told where it is written too and not only where it is named. A certificate that is no longer valid is
/// served all the same: clients that do not look still get an answer.
fn unusable(key: &SecretUse, parsed: &Parsed, now: Option<api::Timestamp>) -> Option<Problem> {
    if let Err(text) = &parsed.content {
        let other_use = [NO_PAIR, NO_BUNDLE].contains(&&**text) && key.object.kind() == Some(Kind::Secret);
        return (!other_use).then(|| Problem::of(&key.object, "", Severity::Error, &**text));
    }
    if let Some(text) = &parsed.fault {
        return Some(Problem::of(&key.object, "", Severity::Error, &**text));
    }
    let (ends, now) = (parsed.not_after?, now?);
    let text = format!("a certificate in it has expired on {ends}");
    (ends <= now).then(|| Problem::of(&key.object, "", Severity::Warning, text))
}
