//! Tables of Gateways: plans, what routes may know of them, listeners, chains, infrastructure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use api::{Gateway, Kind, ObjectKey};
use engine::{Cx, Graph, Index, Table};
use ir::infra::kubernetes::{CONFIG_PORT, KubernetesInfra, LOCAL_PORT, Place as ObjectPlace, Service, ServiceType};
use ir::infra::{ObjectName, ProxyOptions};
use ir::{FleetName, Infra, Listener, ListenerName, RouteConfigurationName, TcpProxyName};
use store::ProxyFacts;

use super::{Backends, Base, Closings, Routes, Secrets, Telemetry};
use crate::envoy_proxy::kubernetes::ObjectSettings;
use crate::envoy_proxy::{self, ProxyView};
use crate::gateway::{self, ClassOf, GatewayPlan, Marks};
use crate::gating::Effective;
use crate::hostname::Hostname;
use crate::http_route::ListenerPort;
use crate::key::{Age, AttachmentKey, InFleet, ListenerKey, Seniority, Transport};
use crate::listener::{
    self, Bound, Chain, ChainKey, DatagramPlace, Place, PortShares, RouteScope, ShareKey, Socket, StreamPlace, Writing,
};
use crate::listener_set::{self, SetDraft, SetPlan};
use crate::lookup::{self, GatewayTables, Reader};
use crate::{Options, virtual_host};

/// What is known of Gateways.
#[derive(Clone, Copy)]
pub(crate) struct Gateways {
    pub(crate) plans: Table<ObjectKey, Arc<GatewayPlan>>,
    /// What became of `ListenerSet`s of Gateways of ours.
    pub(crate) sets: Table<ObjectKey, Arc<SetPlan>>,
    /// By parent: a Gateway or a `ListenerSet`.
    pub(crate) scopes: Table<ObjectKey, Arc<RouteScope>>,
    pub(crate) ports: Table<ObjectKey, Arc<[ListenerPort]>>,
    /// Those that take routes which name none.
    pub(crate) defaults: Index<(), ObjectKey, ()>,
    pub(crate) places: Table<ListenerKey, Arc<Place>>,
    pub(crate) stream_places: Table<ListenerKey, Arc<StreamPlace>>,
    /// Listeners that take datagrams, with their clusters.
    pub(crate) datagram_places: Table<ListenerKey, DatagramPlace>,
    pub(crate) chains: Table<ChainKey, Arc<Chain>>,
    /// Ports that are bound as others, sorted.
    pub(crate) mapped: Table<ObjectKey, Arc<[(u16, u16)]>>,
    /// Ports of this machine that Gateways want, with the one that wants them; none where several do.
    claimed: Index<(), u16, Option<FleetName>>,
    pub(crate) infra: Table<FleetName, Arc<Infra>>,
    /// Proxies that stay as they are.
    pub(crate) held: [Table<FleetName, Arc<Infra>>; 2],
}

impl Gateways {
    /// Returns the ports of this machine that Gateways other than this one want.
    pub(super) fn claimed_by_others(&self, cx: &mut Cx<'_>, fleet: &FleetName) -> BTreeSet<u16> {
        let claimed = cx.members(self.claimed, &());
        claimed.iter().filter(|(_, owner)| owner.as_ref() != Some(fleet)).map(|(port, _)| *port).collect()
    }
}

/// Ports that Gateways want, each with the only one that does.
fn claimed_ports(g: &mut Graph, tables: GatewayTables) -> Index<(), u16, Option<FleetName>> {
    let by_socket = g.group("claimed_socket", tables.claims, |_, _, claims| {
        let mut owners = claims.keys().map(|(_, seniority)| &seniority.object);
        let first = owners.next();
        first.filter(|first| owners.all(|other| other == *first)).map(gateway::fleet)
    });
    let by_port = g.index("claimed_socket_by_port", by_socket, |(port, _): &Socket, _| [*port]);
    let ports = g.group("claimed_port", by_port, |_, _: &u16, owners| {
        let mut owners = owners.values();
        let first = owners.next().cloned().flatten();
        first.filter(|first| owners.all(|other| other.as_ref() == Some(first)))
    });
    g.index("claimed_ports", ports, |_: &u16, _| [()])
}

pub(super) fn gateways(
    g: &mut Graph,
    base: &Base,
    secrets: Secrets,
    (backends, closings): (Backends, Closings),
) -> Gateways {
    let Base { settings, inputs, options: Options { file_mode, .. }, .. } = *base;
    let tables = tables(g, base, secrets, backends);
    let plans = g.derive("gateway_plan", inputs.gateways, move |cx, key, gateway| {
        let plan = gateway::plan(&mut Reader { cx, tables }, key, gateway)?;
        Some((key.clone(), Arc::new(plan)))
    });
    let scopes = g.derive("route_scope", plans, |_, key, plan| plan.scopes(key));
    let ports = g.derive("scope_ports", plans, |_, key, plan| plan.ports(key));
    let defaults = g.derive("default_gateway", plans, |_, key, plan| plan.is_default.then(|| (key.clone(), ())));
    let defaults = g.index("default_gateways", defaults, |_, ()| [()]);
    let sets = g.derive("listener_set_plan", plans, |_, _, plan| plan.set_plans());
    let places = g.derive("listener_place", plans, move |cx, key, plan| {
        listener::places(&plan.fleet, plan.live_listeners(), &closings.listeners(cx, key, plan))
    });
    let stream_places = g.derive("stream_place", plans, move |cx, key, plan| {
        listener::stream_places(&plan.fleet, plan.live_listeners(), &closings.listeners(cx, key, plan))
    });
    let datagram_places = g.derive("datagram_place", plans, move |cx, key, plan| {
        listener::datagram_places(&plan.fleet, plan.live_listeners(), &closings.listeners(cx, key, plan))
    });
    let chains = g.derive("chain", plans, |_, _, plan| listener::chains(&plan.fleet, plan.live_listeners()));
    let views = g.map("proxy_settings", plans, move |cx, _, plan| {
        // A Gateway whose settings cannot be combined is refused.
        let spec = lookup::combined(cx, inputs, settings, &plan.parameters).ok().flatten();
        Arc::new(spec.map(|spec| envoy_proxy::read(&spec, file_mode, &settings.rules(cx))).unwrap_or_default())
    });
    let mapped = g.map("mapped_ports", views, move |cx, key, view| {
        let ports = cx.get(plans, key).map(|plan| numbers_of_ports(plan)).unwrap_or_default();
        let lowest = if view.objects.own_ports { 0 } else { LOWEST_FREE };
        if file_mode { Arc::default() } else { mapped_ports(&ports, lowest) }
    });
    let infra = g.derive("infra", plans, move |cx, key, plan| {
        let view = cx.get(views, key).cloned().unwrap_or_default();
        let infra = infra(key, plan, &view);
        // In a cluster whatever is there stays until its Gateway can be served again: an address that goes does not come back.
        if file_mode && !infra.is_served() {
            return None;
        }
        let mapped = cx.get(mapped, key).cloned().unwrap_or_default();
        let place = settings.place(cx);
        let kubernetes = (!file_mode).then(|| Box::new(kubernetes(plan, &view, &mapped, place)));
        Some((plan.fleet.clone(), Arc::new(Infra { kubernetes, ..infra })))
    });
    let held = held(g, base, plans);
    let claimed = claimed_ports(g, tables);
    Gateways {
        claimed,
        plans,
        sets,
        scopes,
        ports,
        defaults,
        places,
        stream_places,
        datagram_places,
        chains,
        mapped,
        infra,
        held,
    }
}

/// Returns the ports that a Gateway binds, whatever is spoken there.
fn numbers_of_ports(plan: &GatewayPlan) -> Vec<u16> {
    let numbers = [Transport::Tcp, Transport::Udp].map(|transport| plan.bound_ports(transport));
    numbers.into_iter().flatten().collect::<BTreeSet<u16>>().into_iter().collect()
}

/// What Gateways read. Ports are claimed on one machine; where each Gateway has an address of its own there is nothing to claim.
fn tables(g: &mut Graph, base: &Base, secrets: Secrets, backends: Backends) -> GatewayTables {
    let Base {
        inputs,
        grants,
        refused_secrets,
        settings,
        installed,
        proxy_verdicts,
        merge_types,
        classes,
        options,
        ..
    } = *base;
    let no_claims = g.input("port_claim_none");
    let claims = g.index("port_claim_none_by_port", no_claims, |(socket, _): &PortClaim, _| [*socket]);
    let (shares, late_ports) = (g.input("port_shares_none"), g.input("late_port_none"));
    let no_sets = g.input("listener_set_none");
    let sets = g.index("listener_set_none_by_gateway", no_sets, |(gateway, _): &SetKey, _| [gateway.clone()]);
    let file_mode = options.file_mode;
    let asking = GatewayTables {
        inputs,
        grants,
        settings,
        installed,
        secrets,
        backends,
        proxy_verdicts,
        merge_types,
        classes,
        claims,
        shares,
        late_ports,
        sets,
        refused_secrets,
        file_mode,
    };
    let asking = GatewayTables { sets: listener_sets(g, base, asking), ..asking };
    if file_mode { with_ports(g, base, asking) } else { asking }
}

/// The ports that Gateways want on this machine, those of them that are too many for a namespace, and who has the others.
fn with_ports(g: &mut Graph, base: &Base, asking: GatewayTables) -> GatewayTables {
    let Base { inputs, .. } = *base;
    let shares = g.map("port_shares", inputs.gateways, move |cx, key, gateway| {
        let mut reader = Reader { cx, tables: asking };
        if !gateway::can_serve(&mut reader, key, gateway) {
            return Arc::default();
        }
        Arc::new(port_shares(key, gateway, &gateway::Lookup::sets(&mut reader, key)))
    });
    let wanted = g.derive("port_share", inputs.gateways, move |cx, key, gateway| {
        let seniority = seniority(key, gateway);
        let shares = cx.get(shares, key).map(|shares| shares.by_namespace.iter()).into_iter().flatten();
        let row = |(namespace, sockets): (&Arc<str>, &Vec<Socket>)| {
            ((Arc::clone(namespace), seniority.clone()), Arc::<[Socket]>::from(sockets.as_slice()))
        };
        shares.map(row).collect::<Vec<_>>()
    });
    let wanted = g.index("port_share_by_namespace", wanted, |(namespace, _): &ShareKey, _| [Arc::clone(namespace)]);
    let late_ports = g.derive_group("late_port", wanted, |_, _, members| {
        let rows = listener::late_ports(members.iter()).into_iter();
        rows.map(|((namespace, gateway), late)| ((namespace, gateway.object), late)).collect::<Vec<_>>()
    });
    let claims = g.derive("port_claim", inputs.gateways, move |cx, key, gateway| {
        let Some(shares) = cx.get(shares, key).cloned() else { return Vec::new() };
        let addresses: Arc<[IpAddr]> = gateway::bind_addresses(gateway).into();
        let mut ports: BTreeSet<Socket> = BTreeSet::new();
        for (namespace, sockets) in &shares.by_namespace {
            let late = cx.get(late_ports, &(Arc::clone(namespace), key.clone()));
            ports.extend(sockets.iter().filter(|socket| late.is_none_or(|late| !late.contains(socket))));
        }
        let seniority = seniority(key, gateway);
        ports.into_iter().map(|port| ((port, seniority.clone()), addresses.clone())).collect()
    });
    let claims = g.index("port_claim_by_port", claims, |(socket, _): &PortClaim, _| [*socket]);
    GatewayTables { claims, shares, late_ports, ..asking }
}

fn seniority(key: &ObjectKey, gateway: &Gateway) -> Seniority {
    Seniority { age: Age::from(&gateway.meta), object: key.clone() }
}

/// Gateways of ours in a cluster of which nothing is known but that they are there, as they or their class cannot be read and no earlier form is known:
/// what there is of their proxies stays.
fn held(g: &mut Graph, base: &Base, plans: Table<ObjectKey, Arc<GatewayPlan>>) -> [Table<FleetName, Arc<Infra>>; 2] {
    let Base { inputs, settings, classes, options, .. } = *base;
    let is_ours = move |cx: &mut Cx<'_>, class: &str| {
        let class = ObjectKey::of(Kind::GatewayClass, "", class);
        let rejected = cx.get(inputs.rejected, &class);
        cx.contains(classes, &class) || rejected.is_some_and(|class| *class.belongs_to == *settings.controller(cx))
    };
    let stays = move |cx: &mut Cx<'_>, key: &ObjectKey, class: &str| {
        let is_held = !options.file_mode && !cx.contains(plans, key) && is_ours(cx, class);
        is_held.then(|| unread(key, class, settings.place(cx))).map(|infra| (infra.fleet.clone(), Arc::new(infra)))
    };
    let by_itself = g.derive("held_gateway", inputs.rejected, move |cx, key, rejected| {
        let unknown = key.kind() == Some(Kind::Gateway) && !cx.contains(inputs.gateways, key);
        unknown.then(|| stays(cx, key, &rejected.belongs_to)).flatten()
    });
    let by_class = g.derive("held_by_class", inputs.gateways, move |cx, key, gateway| {
        stays(cx, key, &gateway.spec.gateway_class_name)
    });
    [by_itself, by_class]
}

/// The proxies of a Gateway of which nothing else is known.
fn unread(key: &ObjectKey, class: &str, place: ObjectPlace) -> Infra {
    let settings = ObjectSettings::default();
    let kubernetes = KubernetesInfra {
        class: class.into(),
        uid: None,
        place,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        mapped_ports: Vec::new(),
        cluster_addresses: Vec::new(),
        dual_stack: false,
        workload: settings.workload,
        service: settings.service,
        autoscaler: None,
        disruption_budget: None,
        service_account: None,
    };
    Infra {
        fleet: gateway::fleet(key),
        gateway: ObjectName { namespace: key.namespace().into(), name: key.name().into() },
        addresses: Vec::new(),
        ports: Vec::new(),
        udp_ports: Vec::new(),
        options: ProxyOptions::default(),
        kubernetes: Some(Box::new(kubernetes)),
    }
}

/// Listeners with the names of their route configurations.
pub(super) fn listeners(
    g: &mut Graph,
    gateways: Gateways,
    routes: Routes,
    telemetry: Telemetry,
    proxies: Table<Arc<str>, Arc<ProxyFacts>>,
) -> Table<InFleet<ListenerName>, Arc<Listener>> {
    let budgeted =
        g.index("route_with_retry_budget", routes.effective, |key: &AttachmentKey, effective: &Effective| {
            effective.has_retry_budget().then(|| key.fleet.clone())
        });
    let missing_addresses = g.derive("missing_address", proxies, |_, fleet, facts| {
        let missing: Arc<[IpAddr]> = facts.missing_addresses.iter().map(|(address, _)| *address).collect();
        (!missing.is_empty()).then(|| (FleetName(Arc::clone(fleet)), missing))
    });
    g.derive("listener", gateways.plans, move |cx, key, plan| {
        // A proxy would refuse what is at a missing one.
        let missing = cx.get(missing_addresses, &plan.fleet).cloned().unwrap_or_default();
        let places = plan.addresses.places(|address| missing.contains(address));
        if places.is_empty() {
            return Vec::new();
        }
        let mapped = cx.get(gateways.mapped, key).cloned().unwrap_or_default();
        // The names only: where connections go is told apart from the listener.
        let mut streams: BTreeMap<ListenerKey, Vec<(Hostname, TcpProxyName)>> = BTreeMap::new();
        for listener in plan.live_listeners().iter().filter(|listener| listener.serves() && listener.is_stream()) {
            let listener = ListenerKey { fleet: plan.fleet.clone(), listener: listener.id.clone() };
            let keys = routes.streams.by_listener.into_iter().flat_map(|index| cx.keys(index, &listener));
            let names = keys.map(|key| (key.hostname.clone(), key.name.clone())).collect();
            streams.insert(listener, names);
        }
        let tracing = cx.get(telemetry.tracers, key).map(|tracer| Arc::clone(&tracer.tracing));
        let retry_budgets = cx.any(budgeted, &plan.fleet);
        // Asked for by the one name only: the configuration of the other is another one with each edit of a route.
        let configuration = |chain: RouteConfigurationName| {
            let separate = ChainKey { fleet: plan.fleet.clone(), name: virtual_host::separate_name(&chain) };
            if cx.get(routes.configurations, &separate).is_some() { separate.name } else { chain }
        };
        let bound = Bound { places: &places, mapped: &mapped, tracing: tracing.as_ref(), retry_budgets };
        let streams = |listener: &ListenerKey| streams.remove(listener).unwrap_or_default();
        listener::ir_listeners(&plan.fleet, bound, plan.live_listeners(), Writing { configuration, streams })
    })
}

/// A port and who wants it, in order of precedence.
type PortClaim = (Socket, Seniority);

/// A `ListenerSet` of a Gateway, in order of precedence.
pub(crate) type SetKey = (ObjectKey, Seniority);

/// The sets of each Gateway of ours.
fn listener_sets(g: &mut Graph, base: &Base, asking: GatewayTables) -> Index<ObjectKey, SetKey, Arc<SetDraft>> {
    let Base { inputs, namespaces, .. } = *base;
    let allowed = g.derive("allowed_listeners", inputs.gateways, move |cx, key, gateway| {
        let is_ours = asking.class(cx, &gateway.spec.gateway_class_name) != ClassOf::Foreign;
        is_ours.then(|| (key.clone(), listener_set::allowed(gateway)))
    });
    let drafts = g.derive("listener_set_draft", inputs.listener_sets, move |cx, key, set| {
        let gateway = listener_set::gateway(set)?;
        let allowed = cx.get(allowed, &gateway)?.clone();
        let namespace = key.namespace();
        let is_admitted = allowed.admit(gateway.namespace(), namespace, |selector| {
            lookup::selects_namespace(cx, namespaces, selector, namespace)
        });
        let mut reader = Reader { cx, tables: asking };
        let draft = listener_set::draft(&mut reader, (key, set), gateway.clone(), is_admitted);
        let seniority = Seniority { age: Age::from(&set.meta), object: key.clone() };
        Some(((gateway, seniority), Arc::new(draft)))
    });
    g.index("listener_set_by_gateway", drafts, |(gateway, _): &SetKey, _| [gateway.clone()])
}

/// The ports of a Gateway and its sets.
fn port_shares(key: &ObjectKey, gateway: &Gateway, sets: &[Arc<SetDraft>]) -> PortShares {
    let own = gateway.spec.listeners.iter().filter(|listener| gateway::is_served(&listener.protocol));
    let own = own.map(|listener| (listener.port, Transport::of(&listener.protocol)));
    let of_sets = sets.iter().filter(|set| set.is_admitted).map(|set| (set.key.namespace(), set.sockets()));
    PortShares::of(key.namespace(), own, of_sets)
}

/// Lower ports may only be bound with a right for it.
const LOWEST_FREE: u16 = 1024;

/// How much more the port is as which one is bound that cannot be bound itself.
const STEP: u16 = 10_000;

/// Where the last of a row of ports that all are bound as others begins to look for a free one: only a Gateway with a port above 55,535 comes here.
const REST: u16 = 1_024;

/// Ports that proxies bind as others: those below the lowest that may be bound, those of the proxies' own listeners, and all that such a port is bound
/// as, whether that one is there or not. So where a port is bound does not change when other listeners come and go, which would lead its
/// clients to these until everybody has followed.
fn mapped_ports(ports: &[u16], lowest: u16) -> Arc<[(u16, u16)]> {
    let own = [LOCAL_PORT, CONFIG_PORT];
    let is_barred = |port: u16| port > 0 && (port < lowest || own.contains(&port));
    // Some port below it, in whole steps, cannot be bound.
    let is_moved = |port: u16| (0..=port / STEP).any(|steps| is_barred(port - steps * STEP));
    let moved = || ports.iter().copied().filter(|port| is_moved(*port));
    let to = |port: u16| port.checked_add(STEP);
    let mut taken: BTreeSet<u16> = ports.iter().copied().chain(own).chain(moved().filter_map(to)).collect();
    let mapped = moved().filter_map(|port| {
        let bound = to(port).or_else(|| (REST..=u16::MAX).find(|free| !taken.contains(free)))?;
        taken.insert(bound);
        Some((port, bound))
    });
    mapped.collect()
}

/// What the objects of a Gateway's proxies shall be like.
fn kubernetes(plan: &GatewayPlan, view: &ProxyView, mapped: &[(u16, u16)], place: ObjectPlace) -> KubernetesInfra {
    let ObjectSettings { workload, service, autoscaler, disruption_budget, service_account, .. } = view.objects.clone();
    let service = if plan.addresses.is_inside_only() { inside_only(service) } else { service };
    let Marks { class, uid, labels, annotations } = (*plan.marks).clone();
    KubernetesInfra {
        class,
        uid,
        place,
        labels,
        annotations,
        mapped_ports: mapped.to_vec(),
        cluster_addresses: plan.addresses.asked_in_cluster(),
        dual_stack: plan.addresses.count_in_cluster() > 1,
        workload,
        service,
        autoscaler,
        disruption_budget,
        service_account,
    }
}

/// The same Service, reached in the cluster only, without what would lead others to it.
fn inside_only(service: Service) -> Service {
    let outward = |field: &str| {
        field.starts_with("loadBalancer")
            || ["allocateLoadBalancerNodePorts", "externalIPs", "externalTrafficPolicy"].contains(&field)
    };
    let spec = service.spec.into_iter().filter(|(field, _)| !outward(field)).collect();
    Service { service_type: ServiceType::ClusterIp, spec, ..service }
}

/// The proxies of a Gateway.
fn infra(key: &ObjectKey, plan: &GatewayPlan, view: &ProxyView) -> Infra {
    Infra {
        fleet: plan.fleet.clone(),
        gateway: ObjectName { namespace: key.namespace().into(), name: key.name().into() },
        addresses: plan.addresses.asked(),
        ports: if plan.stands_still { Vec::new() } else { plan.bound_ports(Transport::Tcp) },
        udp_ports: if plan.stands_still { Vec::new() } else { plan.bound_ports(Transport::Udp) },
        options: view.options.clone(),
        kubernetes: None,
    }
}

#[cfg(test)]
mod tests;
