//! Tables of what people are told: statuses and problems.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::status::{
    BackendStatus, EnvoyProxyStatus, GatewayClassStatus, GatewayStatus, ListenerSetStatus, PolicyStatus, RawStatus,
    RouteStatus,
};
use api::{Kind, ObjectKey, Problem};
use engine::{Cx, Graph, Table};
use ir::FleetName;
use store::Tables;

use super::backend::ClaimsOnBackends;
use super::closing;
use super::delivery::Delivery;
use super::problem::{self, PROBLEM_TABLES};
use super::{
    BackendPolicies, Backends, Base, Closings, Gateways, Patches, Policies, Raws, RefusedSecrets, Routes, Secrets,
    Telemetry, TlsPolicies,
};
use crate::backend::{Encryption, Reading};
use crate::backend_traffic_policy::{self as policy, PolicyTarget, Target};
use crate::digest::Digest;
use crate::gateway::{self, NamedSettings};
use crate::http_route::RouteOutcome;
use crate::key::{AttachmentKey, ClusterKey, ProblemKey};
use crate::listener::RouteScope;
use crate::lookup::{BackendTables, Reader, RejectedTables, StatusTables};
use crate::reference::{Reference, permit};
use crate::status;
use crate::status::policy::{Reach, Reached, Standing};
use crate::status::rejected::Rejection;

/// What this stage reads.
#[derive(Clone, Copy)]
pub(super) struct Sources {
    pub(super) base: Base,
    pub(super) gateways: Gateways,
    pub(super) backends: Backends,
    pub(super) policies: Policies,
    pub(super) tls_policies: TlsPolicies,
    pub(super) backend_policies: BackendPolicies,
    pub(super) telemetry: Telemetry,
    pub(super) routes: Routes,
    pub(super) secrets: Secrets,
    pub(super) delivery: Delivery,
    pub(super) raws: Raws,
    pub(super) patches: Patches,
    pub(super) closings: Closings,
}

/// What people are told.
#[derive(Clone, Copy)]
pub(super) struct Statuses {
    pub(super) gateway_classes: Table<ObjectKey, Arc<GatewayClassStatus>>,
    pub(super) gateways: Table<ObjectKey, Arc<GatewayStatus>>,
    pub(super) listener_sets: Table<ObjectKey, Arc<ListenerSetStatus>>,
    pub(super) routes: Table<ObjectKey, Digest>,
    pub(super) outcomes: RouteOutcomes,
    pub(super) policies: Table<ObjectKey, Arc<PolicyStatus>>,
    pub(super) tls_policies: Table<ObjectKey, Arc<PolicyStatus>>,
    pub(super) backend_policies: Table<ObjectKey, Arc<PolicyStatus>>,
    pub(super) telemetry_policies: Table<ObjectKey, Arc<PolicyStatus>>,
    pub(super) backends: Table<ObjectKey, Arc<BackendStatus>>,
    pub(super) x_backends: Table<ObjectKey, Arc<PolicyStatus>>,
    pub(super) envoy_proxies: Table<ObjectKey, Arc<EnvoyProxyStatus>>,
    pub(super) patches: Table<ObjectKey, Arc<PolicyStatus>>,
    pub(super) unbuilt_policies: Table<ObjectKey, Arc<PolicyStatus>>,
    pub(super) raw: Table<ObjectKey, Arc<RawStatus>>,
    pub(super) rejected: Table<ObjectKey, Arc<Rejection>>,
    pub(super) problems: [Table<ProblemKey, Arc<Problem>>; PROBLEM_TABLES],
}

pub(super) fn statuses(g: &mut Graph, sources: Sources) -> Statuses {
    let Sources { base, gateways, routes, closings, .. } = sources;
    let (inputs, options) = (base.inputs, base.options);
    let gateway_classes = g.derive("gateway_class_status", base.classes, move |cx, key, class| {
        let generation = cx.get(inputs.gateway_classes, key)?.meta.generation;
        Some((key.clone(), Arc::new(status::gateway_class::status(generation, class, options.file_mode))))
    });
    let gateway_statuses = g.map("gateway_status", gateways.plans, move |cx, key, plan| {
        let tables = StatusTables { inputs, closings, attached: routes.attached, fleet: &plan.fleet };
        Arc::new(status::gateway::status(&mut Reader { cx, tables }, key, plan, options.offline))
    });
    let (refused, route_statuses) = route_statuses(g, &routes, closings);
    let attached = closing::reached(g, &sources);
    let reached = g.map("policy_reach", inputs.backend_traffic_policies, move |cx, key, policy| {
        let targets = policy::targets(policy);
        let own = targets.iter().map(|target| reached(cx, &sources, key, target)).collect();
        let reached = closing::with_closed(cx, &sources, attached, key, own);
        let is_idle = policy.spec.circuit_breaker.is_none() && !policy.spec.ignored.is_empty();
        Arc::new(Reach { generation: policy.meta.generation, reached, warnings: policy::warnings(policy), is_idle })
    });
    let (tls_reached, tls_policies) = tls_policies(g, &sources);
    let (backends_reached, backend_policies) = backend_policies(g, &sources);
    let (told, telemetry_policies) = telemetry_policies(g, &sources);
    Statuses {
        telemetry_policies,
        tls_policies,
        backend_policies,
        gateway_classes,
        gateways: gateway_statuses,
        listener_sets: g.map("listener_set_status", gateways.sets, move |cx, key, plan| {
            let tables = StatusTables { inputs, closings, attached: routes.attached, fleet: &plan.fleet };
            Arc::new(status::listener_set::status(&mut Reader { cx, tables }, key, plan, options.offline))
        }),
        routes: route_statuses,
        outcomes: RouteOutcomes { outcomes: routes.outcomes, refused, closings },
        unbuilt_policies: closing::statuses(g, &sources, attached),
        policies: policies(g, &base, reached),
        backends: backends(g, &sources),
        x_backends: x_backends(g, &sources),
        envoy_proxies: envoy_proxies(g, &sources),
        patches: g.map("patch_status", sources.patches.outcomes, move |cx, _, outcome| {
            Arc::new(status::patch::status(outcome, &base.settings.controller(cx), options.offline))
        }),
        raw: g.map("raw_status", sources.raws.outcomes, move |_, _, outcome| {
            Arc::new(status::raw::status(outcome, options.offline))
        }),
        rejected: rejected(g, &base, gateways.scopes),
        problems: problem::problems(
            g,
            &sources,
            problem::Found { refused, reached, attached, tls_reached, backends_reached, told },
        ),
    }
}

/// By policy, what it reaches, and its status.
type Told<R> = (Table<ObjectKey, Arc<R>>, Table<ObjectKey, Arc<PolicyStatus>>);

fn tls_policies(g: &mut Graph, sources: &Sources) -> Told<Vec<Reached>> {
    let (sources, settings) = (*sources, sources.base.settings);
    let (policies, refused_secrets) = (sources.tls_policies.policies, sources.base.refused_secrets);
    let reached = g.map("tls_policy_reach", policies, move |cx, key, policy| {
        let claims = sources.tls_policies.claims;
        let reached = |target| reached_backend(cx, &sources, claims, key, target).spoilt_by(target.fault());
        Arc::new(policy.targets.iter().map(reached).collect::<Vec<Reached>>())
    });
    let statuses = g.map("tls_policy_status", policies, move |cx, key, policy| {
        let reached = cx.get(reached, key).cloned().unwrap_or_default();
        let secrets = policy.tls.as_ref().map(Encryption::secrets).unwrap_or_default();
        let lacking = refused_secrets.words(cx, secrets);
        Arc::new(status::backend_tls_policy::status(policy, &reached, &settings.controller(cx), lacking.as_deref()))
    });
    (reached, statuses)
}

fn backend_policies(g: &mut Graph, sources: &Sources) -> Told<Reach> {
    let (sources, settings) = (*sources, sources.base.settings);
    let reached = g.map("backend_policy_reach", sources.backend_policies.policies, move |cx, key, policy| {
        let claims = sources.backend_policies.claims;
        let reached = |target| reached_backend(cx, &sources, claims, key, target).spoilt_by(policy.fault.as_ref());
        let reached = policy.targets.iter().map(reached).collect();
        Arc::new(Reach { generation: policy.generation, reached, warnings: policy.warnings.clone(), is_idle: false })
    });
    let statuses = g.map("backend_policy_status", reached, move |cx, _, reach| {
        Arc::new(status::policy::status(reach, &settings.controller(cx), |_| None))
    });
    (reached, statuses)
}

fn telemetry_policies(g: &mut Graph, sources: &Sources) -> Told<Vec<Reached>> {
    let Sources { base, gateways, telemetry, .. } = *sources;
    let reached = g.map("telemetry_policy_reach", telemetry.policies, move |cx, key, policy| {
        Arc::new(telemetry.reached(cx, &base, gateways, (key, policy)))
    });
    let statuses = g.map("telemetry_policy_status", telemetry.policies, move |cx, key, policy| {
        let reached = cx.get(reached, key).cloned().unwrap_or_default();
        Arc::new(status::x_telemetry_policy::status(policy, &reached, &base.settings.controller(cx)))
    });
    (reached, statuses)
}

/// Refusals of routes' forms, and statuses of routes.
fn route_statuses(
    g: &mut Graph,
    routes: &Routes,
    closings: Closings,
) -> (Table<AttachmentKey, Arc<str>>, Table<ObjectKey, Digest>) {
    // Refusals are rare: a table of their own keeps statuses from looking again whenever a form changes.
    let refused = g.derive("route_refused", routes.effective, |_, key, effective| {
        effective.refusal.clone().map(|words| (key.clone(), words))
    });
    let any_refused = g.index("refused_by_namespace", refused, |key: &AttachmentKey, _| {
        [(key.fleet.clone(), Arc::from(key.route.namespace()))]
    });
    let statuses = g.map("route_status", routes.outcomes, move |cx, key: &ObjectKey, outcome| {
        let closing = closings.of(cx, key);
        let refused = |parent: &crate::http_route::ParentOutcome| {
            // One question that all routes of a namespace share, before the one of this route.
            let group: (FleetName, Arc<str>) = (parent.owner.fleet.clone(), key.namespace().into());
            if !cx.any(any_refused, &group) {
                return None;
            }
            let key = AttachmentKey { fleet: parent.owner.fleet.clone(), route: key.clone() };
            cx.get(refused, &key).cloned()
        };
        Digest::of(&status::route::status(outcome, closing.map(|closing| &**closing), refused))
    });
    (refused, statuses)
}

/// What statuses of routes are made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouteOutcomes {
    outcomes: Table<ObjectKey, Arc<RouteOutcome>>,
    refused: Table<AttachmentKey, Arc<str>>,
    closings: Closings,
}

impl RouteOutcomes {
    pub(crate) fn status(&self, graph: &Graph, route: &ObjectKey) -> Option<RouteStatus> {
        let outcome = graph.get(self.outcomes, route)?;
        let closing = self.closings.of_route(graph, route).map(|closing| &**closing);
        Some(status::route::status(outcome, closing, |parent| {
            let key = AttachmentKey { fleet: parent.owner.fleet.clone(), route: route.clone() };
            graph.get(self.refused, &key).cloned()
        }))
    }
}

/// Objects that cannot be used as they are.
fn rejected(g: &mut Graph, base: &Base, scopes: Table<ObjectKey, Arc<RouteScope>>) -> Table<ObjectKey, Arc<Rejection>> {
    let tables = RejectedTables { settings: base.settings, classes: base.classes, scopes };
    g.map("rejection", base.inputs.rejected, move |cx, key, rejected| {
        Arc::new(status::rejected::rejection(&mut Reader { cx, tables }, key, rejected))
    })
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

/// The words for a secret of a backend that proxies refuse.
fn reading_secrets(cx: &mut Cx<'_>, refused: RefusedSecrets, reading: &Reading) -> Option<Arc<str>> {
    refused.words(cx, reading.view.as_ref().ok()?.encryption.secrets())
}

fn backends(g: &mut Graph, sources: &Sources) -> Table<ObjectKey, Arc<BackendStatus>> {
    let inputs = sources.base.inputs;
    let [_, _, objects, _] = sources.backends.readings;
    let refused_secrets = sources.base.refused_secrets;
    g.derive("backend_status", objects, move |cx, key, reading| {
        let generation = cx.get(inputs.backends, &key.object)?.meta.generation;
        let lacking = reading_secrets(cx, refused_secrets, reading);
        Some((key.object.clone(), Arc::new(status::backend::status(generation, reading, lacking.as_deref()))))
    })
}

/// One that no route and no Gateway of ours sends to has no status: there is no Gateway for which it could hold.
fn x_backends(g: &mut Graph, sources: &Sources) -> Table<ObjectKey, Arc<PolicyStatus>> {
    let (inputs, settings, outcomes) = (sources.base.inputs, sources.base.settings, sources.routes.outcomes);
    let [.., readings] = sources.backends.readings;
    let Base { grants, addresses, installed, refused_secrets, .. } = sources.base;
    let tables = BackendTables { grants, addresses, secrets: sources.secrets, installed, sockets: inputs.socket_paths };
    let by_route = g.index("route_by_x_backend", inputs.routes, |key, route| {
        let named = route.backend_refs().filter(|to| Kind::find(&to.group, &to.kind) == Some(Kind::XBackend));
        named.map(|to| Reference::from(to).object(key.namespace())).collect::<BTreeSet<_>>()
    });
    let own_uses = g.index("own_use_by_backend", sources.delivery.own_uses, |key: &ClusterKey, (): &()| {
        [key.target.backend().object.clone()]
    });
    g.derive("x_backend_status", readings, move |cx, key, reading| {
        let generation = cx.get(inputs.x_backends, &key.object)?.meta.generation;
        let mut routes: Vec<ObjectKey> = cx.keys(by_route, &key.object).cloned().collect();
        // Who may not send there has no say in its status.
        let mut reader = Reader { cx, tables };
        let to = Reference::to(&key.object);
        routes.retain(|route| permit(&mut reader, route, to).is_ok());
        let outcomes: Vec<_> = routes.iter().filter_map(|route| cx.get(outcomes, route).cloned()).collect();
        let parents = outcomes.iter().flat_map(|outcome| outcome.parents.iter());
        let mut gateways: BTreeSet<ObjectKey> =
            parents.filter_map(|parent| gateway::of_fleet(&parent.owner.fleet)).collect();
        gateways.extend(cx.keys(own_uses, &key.object).filter_map(|own| gateway::of_fleet(&own.fleet)));
        let gateways: Vec<ObjectKey> = gateways.into_iter().collect();
        let controller = settings.controller(cx);
        let lacking = reading_secrets(cx, refused_secrets, reading);
        let status = status::backend::of_x_backend(generation, (reading, lacking.as_deref()), &gateways, &controller);
        (!gateways.is_empty()).then(|| (key.object.clone(), Arc::new(status)))
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
    // What the cluster refuses of what is made of the settings in force: rare, and a table of its own for the same reason.
    let refused = g.derive("envoy_proxy_refused", sources.gateways.plans, move |cx, key, plan| {
        let facts = cx.get(inputs.proxies, &plan.fleet.0)?;
        let (path, words) = facts.faults.first()?;
        let named = plan.settings_in_force(key)?;
        // Said of a class, it is said for whom.
        let of_class = if named.by == *key { String::new() } else { format!(" (for {key})") };
        Some((key.clone(), (named, Arc::<str>::from(format!("{path}: {words}{of_class}")))))
    });
    let by_naming = g.index("refused_by_naming", refused, |_, (named, _)| [named.clone()]);
    g.derive("envoy_proxy_status", proxies, move |cx, key, view| {
        let (classes, gateways) = (cx.members(by_class, key), cx.members(by_gateway, key));
        let named_by: Vec<&ObjectKey> = classes.keys().chain(gateways.keys()).collect();
        let generation = cx.get(inputs.envoy_proxies, key).filter(|_| !named_by.is_empty())?.meta.generation;
        let named_by = named_by.into_iter().map(|object| {
            let named = NamedSettings { settings: key.clone(), by: object.clone() };
            let words = cx.members(by_naming, &named).values().next().map(|(_, words)| Arc::clone(words));
            (status::ancestor(object), words)
        });
        let named_by: Vec<_> = named_by.collect();
        Some((key.clone(), Arc::new(status::envoy_proxy::status(generation, view, named_by.into_iter()))))
    })
}

fn reached(cx: &mut Cx<'_>, sources: &Sources, policy: &ObjectKey, target: &Target) -> Reached {
    let target = match Reached::known(target) {
        Ok(target) => target.clone(),
        Err(refused) => return refused,
    };
    let mut ancestors = Vec::new();
    let found = if target.object.kind() == Some(Kind::Gateway) {
        ancestors.push(target.object.clone());
        cx.contains(sources.gateways.plans, &target.object)
    } else {
        let outcome = cx.get(sources.routes.outcomes, &target.object);
        let parents = outcome.iter().flat_map(|outcome| outcome.parents.iter());
        for gateway in parents.filter_map(|parent| gateway::of_fleet(&parent.owner.fleet)) {
            if !ancestors.contains(&gateway) {
                ancestors.push(gateway);
            }
        }
        outcome.is_some()
    };
    let has_section = target.section.as_ref().is_none_or(|section| {
        let route = cx.get(sources.base.inputs.routes, &target.object);
        route.is_none_or(|route| route.rule_names().contains(&&**section))
    });
    let standing = match sources.policies.of(cx, &target) {
        _ if !found => Standing::NotFound,
        _ if !has_section => Standing::NoRule,
        Some(winner) if winner != *policy => Standing::Conflicted(winner),
        _ => Standing::Accepted,
    };
    Reached { target, ancestors, standing }
}

/// Through which Gateways a policy reaches a backend.
fn reached_backend(
    cx: &mut Cx<'_>,
    sources: &Sources,
    claims: ClaimsOnBackends,
    policy: &ObjectKey,
    target: &Target,
) -> Reached {
    let target = match Reached::known(target) {
        Ok(target) => target.clone(),
        Err(refused) => return refused,
    };
    let Sources { base, backends, delivery, .. } = *sources;
    let mut uses: Vec<ClusterKey> = Vec::new();
    for index in delivery.policy_uses {
        uses.extend(cx.keys(index, &target.object).cloned());
    }
    let mut ancestors: Vec<ObjectKey> = Vec::new();
    for key in uses {
        let backend = key.target.backend();
        let reading = cx.get(backends.readings_of(&backend.object), backend);
        let port_name = reading.and_then(|reading| reading.view.as_ref().ok()).map_or("", |view| &*view.port_name);
        if target.section.as_deref().is_none_or(|section| section == port_name) {
            ancestors.extend(gateway::of_fleet(&key.fleet));
        }
    }
    ancestors.sort_unstable();
    ancestors.dedup();
    let standing = match (missing(cx, base.inputs, &target), claims.of(cx, &target)) {
        (Some(missing), _) => missing,
        (None, Some(winner)) if winner != *policy => Standing::Conflicted(winner),
        (None, _) => Standing::Accepted,
    };
    Reached { target, ancestors, standing }
}

/// What of a backend is not there; none if all is.
fn missing(cx: &mut Cx<'_>, inputs: Tables, target: &PolicyTarget) -> Option<Standing> {
    let object = &target.object;
    let ports = match object.kind() {
        Some(Kind::Backend) => return (!cx.contains(inputs.backends, object)).then_some(Standing::NotFound),
        Some(Kind::XBackend) => return (!cx.contains(inputs.x_backends, object)).then_some(Standing::NotFound),
        Some(Kind::ServiceImport) => cx.get(inputs.service_imports, object).map(|import| &import.spec.ports),
        _ => cx.get(inputs.services, object).map(|service| &service.spec.ports),
    };
    let Some(ports) = ports else { return Some(Standing::NotFound) };
    let has = |name: &Arc<str>| ports.iter().any(|port| port.name.as_deref() == Some(&**name));
    (!target.section.as_ref().is_none_or(has)).then_some(Standing::NoPort)
}
