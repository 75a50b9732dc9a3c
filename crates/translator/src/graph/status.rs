//! Tables of what people are told: statuses and problems.

use std::sync::Arc;

use api::status::{BackendStatus, EnvoyProxyStatus, GatewayClassStatus, GatewayStatus, PolicyStatus, RouteStatus};
use api::{FieldPath, Kind, ObjectKey, Problem, Severity};
use engine::{Cx, Graph, Table};
use ir::FleetName;

use super::{Backends, Base, Gateways, Policies, Routes, Secrets};
use crate::backend::{Reading, SecretUse};
use crate::backend_traffic_policy::{self as policy, PolicyTarget, Target};
use crate::blame;
use crate::digest::Digest;
use crate::envoy_proxy;
use crate::gateway::GatewayPlan;
use crate::http_route::RouteOutcome;
use crate::key::{AttachmentKey, BackendKey, ProblemKey, short_hash};
use crate::lookup::{Reader, StatusTables};
use crate::secret::Parsed;
use crate::status;
use crate::status::policy::{Reach, Reached, Standing};
use store::{FactKey, ProxyFacts};

/// How many tables of problems there are.
pub(crate) const PROBLEM_TABLES: usize = 13;

/// What this stage reads.
#[derive(Clone, Copy)]
pub(super) struct Sources {
    pub(super) base: Base,
    pub(super) gateways: Gateways,
    pub(super) backends: Backends,
    pub(super) policies: Policies,
    pub(super) routes: Routes,
    pub(super) secrets: Secrets,
}

/// What people are told.
#[derive(Clone, Copy)]
pub(super) struct Statuses {
    pub(super) gateway_classes: Table<ObjectKey, Arc<GatewayClassStatus>>,
    pub(super) gateways: Table<ObjectKey, Arc<GatewayStatus>>,
    pub(super) routes: Table<ObjectKey, Digest>,
    pub(super) outcomes: RouteOutcomes,
    pub(super) policies: Table<ObjectKey, Arc<PolicyStatus>>,
    pub(super) backends: Table<ObjectKey, Arc<BackendStatus>>,
    pub(super) envoy_proxies: Table<ObjectKey, Arc<EnvoyProxyStatus>>,
    pub(super) problems: [Table<ProblemKey, Arc<Problem>>; PROBLEM_TABLES],
}

pub(super) fn statuses(g: &mut Graph, sources: Sources) -> Statuses {
    let Sources { base, gateways, routes, .. } = sources;
    let (inputs, options) = (base.inputs, base.options);
    let gateway_classes = g.derive("gateway_class_status", base.classes, move |cx, key, class| {
        let generation = cx.get(inputs.gateway_classes, key)?.meta.generation;
        Some((key.clone(), Arc::new(status::gateway_class::status(generation, class))))
    });
    let gateway_statuses = g.map("gateway_status", gateways.plans, move |cx, _, plan| {
        let tables = StatusTables { inputs, attached: routes.attached, fleet: &plan.fleet };
        Arc::new(status::gateway::status(&mut Reader { cx, tables }, plan, options.offline))
    });
    // Refusals are rare: a table of their own keeps statuses from looking again whenever a form changes.
    let refused = g.derive("route_refused", routes.effective, |_, key, effective| {
        effective.refusal.clone().map(|words| (key.clone(), words))
    });
    let any_refused = g.index("refused_by_namespace", refused, |key: &AttachmentKey, _| {
        [(key.fleet.clone(), Arc::from(key.route.namespace()))]
    });
    let route_statuses = g.map("route_status", routes.outcomes, move |cx, key: &ObjectKey, outcome| {
        let refused = |parent: &crate::http_route::ParentOutcome| {
            // One question that all routes of a namespace share, before the one of this route.
            let group: (FleetName, Arc<str>) = (parent.fleet.clone(), key.namespace().into());
            if !cx.any(any_refused, &group) {
                return None;
            }
            let key = AttachmentKey { fleet: parent.fleet.clone(), route: key.clone() };
            cx.get(refused, &key).cloned()
        };
        Digest::of(&status::route::status(outcome, refused))
    });
    let reached = g.map("policy_reach", inputs.backend_traffic_policies, move |cx, key, policy| {
        let targets = policy::targets(policy).into_iter();
        let reached = targets.map(|target| reached(cx, &sources, key, target)).collect();
        Arc::new(Reach { generation: policy.meta.generation, reached, warnings: policy::warnings(policy) })
    });
    Statuses {
        gateway_classes,
        gateways: gateway_statuses,
        routes: route_statuses,
        outcomes: RouteOutcomes { outcomes: routes.outcomes, refused },
        policies: policies(g, &base, reached),
        backends: backends(g, &sources),
        envoy_proxies: envoy_proxies(g, &sources),
        problems: problems(g, &sources, refused, reached),
    }
}

/// What statuses of routes are made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouteOutcomes {
    outcomes: Table<ObjectKey, Arc<RouteOutcome>>,
    refused: Table<AttachmentKey, Arc<str>>,
}

impl RouteOutcomes {
    pub(crate) fn status(&self, graph: &Graph, route: &ObjectKey) -> Option<RouteStatus> {
        let outcome = graph.get(self.outcomes, route)?;
        Some(status::route::status(outcome, |parent| {
            let key = AttachmentKey { fleet: parent.fleet.clone(), route: route.clone() };
            graph.get(self.refused, &key).cloned()
        }))
    }
}

fn policies(g: &mut Graph, base: &Base, reached: Table<ObjectKey, Arc<Reach>>) -> Table<ObjectKey, Arc<PolicyStatus>> {
    let settings = base.settings;
    let overriding = g.index("policy_by_overridden", reached, |_, reach| {
        reach.reached.iter().flat_map(Reached::overrides).collect::<Vec<_>>()
    });
    g.map("policy_status", reached, move |cx, key, reach| {
        let controller = settings.controller(cx);
        let overridden = |target: &PolicyTarget| {
            // Nothing is inside a rule.
            let by = target.section.is_none().then(|| cx.members(overriding, &target.object))?;
            let itself = reach.reached.iter().any(|one| one.overrides().contains(&target.object));
            let count = by.len().saturating_sub(usize::from(itself));
            status::policy::overridden(count, by.keys().filter(|by| *by != key))
        };
        Arc::new(status::policy::status(reach, &controller, overridden))
    })
}

fn backends(g: &mut Graph, sources: &Sources) -> Table<ObjectKey, Arc<BackendStatus>> {
    let inputs = sources.base.inputs;
    let [_, objects] = sources.backends.readings;
    g.derive("backend_status", objects, move |cx, key, reading| {
        let generation = cx.get(inputs.backends, &key.object)?.meta.generation;
        Some((key.object.clone(), Arc::new(status::backend::status(generation, reading))))
    })
}

/// An `EnvoyProxy` that nothing of ours names has no status: there is nobody for whom it could hold.
fn envoy_proxies(g: &mut Graph, sources: &Sources) -> Table<ObjectKey, Arc<EnvoyProxyStatus>> {
    let Base { inputs, classes, proxies, .. } = sources.base;
    let by_class = g.index("envoy_proxy_by_class", classes, |_, class| class.named());
    // A table of its own: an edit of a Gateway that leaves the name alone touches nothing behind.
    let named = g.derive("envoy_proxy_of_gateway", sources.gateways.plans, |_, key, plan| {
        plan.named.clone().map(|proxy| (key.clone(), proxy))
    });
    let by_gateway = g.index("envoy_proxy_by_gateway", named, |_, proxy| [proxy.clone()]);
    g.derive("envoy_proxy_status", proxies, move |cx, key, view| {
        let (classes, gateways) = (cx.members(by_class, key), cx.members(by_gateway, key));
        let named_by: Vec<&ObjectKey> = classes.keys().chain(gateways.keys()).collect();
        let generation = cx.get(inputs.envoy_proxies, key).filter(|_| !named_by.is_empty())?.meta.generation;
        let named_by = named_by.into_iter().map(status::ancestor);
        Some((key.clone(), Arc::new(status::envoy_proxy::status(generation, view, named_by))))
    })
}

fn reached(cx: &mut Cx<'_>, sources: &Sources, policy: &ObjectKey, target: Target) -> Reached {
    let target = match target {
        Target::Known(target) => target,
        Target::Refused(object, text) => {
            let target = PolicyTarget { object, section: None };
            return Reached { target, ancestors: Vec::new(), standing: Standing::Invalid(text) };
        }
    };
    let mut ancestors = Vec::new();
    let found = if target.object.kind() == Some(Kind::Gateway) {
        ancestors.push(target.object.clone());
        cx.contains(sources.gateways.plans, &target.object)
    } else {
        let outcome = cx.get(sources.routes.outcomes, &target.object);
        let parents = outcome.iter().flat_map(|outcome| outcome.parents());
        ancestors.extend(parents.map(|(parent, _)| {
            ObjectKey::of(Kind::Gateway, parent.namespace.as_deref().unwrap_or_default(), &parent.name)
        }));
        outcome.is_some()
    };
    let standing = match sources.policies.of(cx, &target) {
        _ if !found => Standing::NotFound,
        Some(winner) if winner != *policy => Standing::Conflicted(winner),
        _ => Standing::Accepted,
    };
    Reached { target, ancestors, standing }
}

fn problems(
    g: &mut Graph,
    sources: &Sources,
    refused: Table<AttachmentKey, Arc<str>>,
    reached: Table<ObjectKey, Arc<Reach>>,
) -> [Table<ProblemKey, Arc<Problem>>; PROBLEM_TABLES] {
    let Sources { base, gateways, backends, routes, secrets, .. } = *sources;
    let (clock, proxies) = (base.own.clock, base.inputs.proxies);
    let [services, objects] = backends.readings;
    let [secrets, config_maps] = secrets.parsed;
    let of_reading = |key: &BackendKey, reading: &Arc<Reading>| {
        // A Service has a row per port, so its problems are numbered by port.
        let offset = u32::from(key.port) << 8;
        numbered(&key.object, offset, reading.problems.clone())
    };
    let expiry = move |cx: &mut Cx<'_>, key: &SecretUse, parsed: &Parsed| {
        let now = cx.get(clock, &()).copied();
        let offset = key.part as u32;
        numbered(&key.object, offset, expired(key, parsed, now).into_iter().map(Arc::new))
    };
    [
        g.derive("gateway_problem", gateways.plans, |_, key, plan| numbered(key, 0, gateway_problems(key, plan))),
        g.derive("proxy_problem", gateways.plans, move |cx, key, plan| {
            let facts = cx.get(proxies, &plan.fleet.0);
            numbered(key, PROXY_NUMBER, facts.map(|facts| proxy_problems(key, plan, facts)).unwrap_or_default())
        }),
        g.derive("route_problem", routes.outcomes, |_, key, outcome| numbered(key, 0, outcome.problems.clone())),
        g.derive("refusal_problem", refused, |_, key: &AttachmentKey, words| {
            let text = format!("a proxy of {} refused a part of this route: {words}", key.fleet);
            let problem = Problem::of(&key.route, "spec", Severity::Error, text);
            // Kept apart from the route's own by a number that those never reach.
            numbered(&key.route, REFUSAL_NUMBER, vec![Arc::new(problem)])
        }),
        g.derive("resource_problem", base.inputs.route_refusals, |_, fact: &FactKey, words| {
            if blame::is_resource(fact) { resource_problem(fact, words) } else { Vec::new() }
        }),
        g.derive("dispute_problem", base.inputs.disputes, |_, fact: &FactKey, words| resource_problem(fact, words)),
        g.derive("service_problem", services, move |_, key, reading| of_reading(key, reading)),
        g.derive("backend_problem", objects, move |_, key, reading| of_reading(key, reading)),
        g.derive("envoy_proxy_problem", base.proxies, |_, key, view| {
            let found = view.warnings.iter().map(|(path, text)| warning(key, path, text));
            numbered(key, 0, found)
        }),
        g.derive("settings_problem", base.inputs.settings, |_, (), settings| {
            let object = &settings.meta.key;
            let view = settings.spec.envoy_proxy.as_deref().map(envoy_proxy::read).unwrap_or_default();
            let inside = |path: &str| format!("envoyProxy{}", path.trim_start_matches("spec"));
            let found = view.warnings.iter().map(|(path, text)| warning(object, &inside(path), text));
            numbered(object, 0, found)
        }),
        g.derive("policy_problem", reached, |_, key, reach| {
            let found = reach.reached.iter().filter_map(|reached| reached.refusal());
            let problem = |text: String| Arc::new(Problem::of(key, "spec.targetRefs", Severity::Error, text));
            // Whoever reads objects has told the fields that are ignored.
            let old = reach.warnings.iter().filter(|(reason, _)| *reason == status::DEPRECATED);
            let old = old.map(|(_, text)| warning(key, "spec.targetRef", text));
            numbered(key, 0, found.map(|(_, text)| problem(text)).chain(old))
        }),
        g.derive("secret_problem", secrets, move |cx, key, parsed| expiry(cx, key, parsed)),
        g.derive("config_map_problem", config_maps, move |cx, key, parsed| expiry(cx, key, parsed)),
    ]
}

/// The number of a problem that a proxy reports; a route has far fewer of its own (16 rules of 64 matches).
const REFUSAL_NUMBER: u32 = 1 << 24;

/// The number of the first problem of a Gateway's proxy; a Gateway has far fewer of its own.
const PROXY_NUMBER: u32 = 1 << 16;

/// What keeps the proxy of a Gateway from serving what was asked for.
fn proxy_problems(key: &ObjectKey, plan: &GatewayPlan, facts: &ProxyFacts) -> Vec<Arc<Problem>> {
    let error = |path: String, text: &str| Arc::new(Problem::of(key, path, Severity::Error, text));
    let mut found: Vec<_> = facts.problem.iter().map(|words| error("spec".to_owned(), words)).collect();
    let missing = facts.missing_addresses.iter();
    found.extend(missing.map(|address| {
        error("spec.addresses".to_owned(), &format!("no interface of this machine has the address {address}"))
    }));
    for (index, listener) in plan.listeners.iter().enumerate().filter(|(_, listener)| listener.refused.is_none()) {
        let refused = facts.refused_ports.iter().filter(|(port, _)| *port == listener.port);
        found.extend(refused.map(|(_, words)| error(format!("spec.listeners[{index}].port"), words)));
    }
    found
}

/// A refusal that fits no route in particular belongs to the Gateway.
fn resource_problem(fact: &FactKey, words: &Arc<str>) -> Vec<(ProblemKey, Arc<Problem>)> {
    let (namespace, name) = fact.fleet.split_once('/').unwrap_or(("", &fact.fleet));
    let gateway = ObjectKey::of(Kind::Gateway, namespace, name);
    let problem = Problem::of(&gateway, "", Severity::Error, format!("a proxy refused {}: {words}", fact.name));
    // Several resources of one Gateway can be refused: their names tell them apart.
    let number = u32::from_str_radix(&short_hash(&[&fact.name]), 16).unwrap_or_default() | REFUSAL_NUMBER;
    numbered(&gateway, number, vec![Arc::new(problem)])
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
    let error = |path: &str, text: &str| Arc::new(Problem::of(key, FieldPath::from(path), Severity::Error, text));
    let mut found: Vec<_> = plan.warnings.iter().map(|(path, text)| warning(key, path, text)).collect();
    if let Some(class) = &plan.missing_class {
        let text = format!("GatewayClass {class:?} is not there, the Gateway is taken as ours");
        found.push(Arc::new(Problem::of(key, "spec.gatewayClassName", Severity::Note, text)));
    }
    found.extend(plan.refused.iter().map(|refusal| error("spec", &refusal.text)));
    let unresolved = plan.unresolved.iter();
    found.extend(unresolved.map(|refusal| error("spec.tls.backend.clientCertificateRef", &refusal.text)));
    found.extend(plan.unusable_address.iter().map(|text| error("spec.addresses", text)));
    for (index, listener) in plan.listeners.iter().enumerate() {
        let path = format!("spec.listeners[{index}]");
        let refusals = [&listener.refused, &listener.unresolved];
        found.extend(refusals.into_iter().flatten().map(|refusal| error(&path, &refusal.text)));
    }
    found
}

/// A certificate that is no longer valid is served all the same: clients that do not look still get an answer.
fn expired(key: &SecretUse, parsed: &Parsed, now: Option<api::Timestamp>) -> Option<Problem> {
    parsed.content.as_ref().ok()?;
    let (ends, now) = (parsed.not_after?, now?);
    let text = format!("a certificate in it has expired on {ends}");
    (ends <= now).then(|| Problem::of(&key.object, "", Severity::Warning, text))
}
