//! Tables of Gateways: plans, what routes may know of them, listeners, chains, infrastructure.

use std::net::IpAddr;
use std::sync::Arc;

use api::{Gateway, ObjectKey};
use engine::{Graph, Table};
use ir::infra::ObjectName;
use ir::{FleetName, Infra, Listener, ListenerName, RouteConfiguration, RouteConfigurationName};

use super::{Base, Secrets};
use crate::envoy_proxy::ProxyView;
use crate::gateway::{self, GatewayPlan};
use crate::http_route::ListenerPort;
use crate::key::{Age, InFleet, ListenerKey, Seniority};
use crate::listener::{self, Chain, ChainKey, Place, RouteScope};
use crate::lookup::{GatewayTables, Reader};
use crate::virtual_host;

/// What is known of Gateways.
#[derive(Clone, Copy)]
pub(crate) struct Gateways {
    pub(crate) plans: Table<ObjectKey, Arc<GatewayPlan>>,
    pub(crate) scopes: Table<ObjectKey, Arc<RouteScope>>,
    pub(crate) ports: Table<ObjectKey, Arc<[ListenerPort]>>,
    pub(crate) places: Table<ListenerKey, Arc<Place>>,
    pub(crate) chains: Table<ChainKey, Arc<Chain>>,
    pub(crate) infra: Table<FleetName, Arc<Infra>>,
}

pub(super) fn gateways(g: &mut Graph, base: &Base, secrets: Secrets) -> Gateways {
    let Base { inputs, grants, settings, proxy_verdicts, classes, options, .. } = *base;
    // Ports are claimed on one machine; where each Gateway has an address of its own there is nothing to claim.
    let no_claims = g.input("port_claim_none");
    let no_claims = g.index("port_claim_none_by_port", no_claims, |(port, _): &PortClaim, _| [*port]);
    let file_mode = options.file_mode;
    let asking =
        GatewayTables { inputs, grants, settings, secrets, proxy_verdicts, classes, claims: no_claims, file_mode };
    let claims = g.derive("port_claim", inputs.gateways, move |cx, key, gateway| {
        let serves = file_mode && gateway::can_serve(&mut Reader { cx, tables: asking }, key, gateway);
        if serves { port_claims(key, gateway) } else { Vec::new() }
    });
    let claims = g.index("port_claim_by_port", claims, |(port, _): &PortClaim, _| [*port]);
    let tables = GatewayTables { claims, ..asking };
    let plans = g.derive("gateway_plan", inputs.gateways, move |cx, key, gateway| {
        let plan = gateway::plan(&mut Reader { cx, tables }, key, gateway)?;
        Some((key.clone(), Arc::new(plan)))
    });
    let scopes = g.map("gateway_scope", plans, |_, _, plan| Arc::new(plan.scope()));
    let ports = g.map("gateway_ports", plans, |_, _, plan| plan.ports());
    let places = g.derive("listener_place", plans, |_, _, plan| listener::places(&plan.fleet, plan.live_listeners()));
    let chains = g.derive("chain", plans, |_, _, plan| listener::chains(&plan.fleet, plan.live_listeners()));
    let (proxies, settings) = (base.proxies, base.settings);
    let infra = g.derive("infra", plans, move |cx, key, plan| {
        let view = match &plan.parameters {
            Some(own) => cx.get(proxies, own).cloned(),
            None => settings.proxy(cx),
        };
        infra(key, plan, view.as_deref()).map(|infra| (plan.fleet.clone(), Arc::new(infra)))
    });
    Gateways { plans, scopes, ports, places, chains, infra }
}

/// Listeners with the names of their route configurations.
pub(super) fn listeners(
    g: &mut Graph,
    gateways: Gateways,
    configurations: Table<ChainKey, Arc<RouteConfiguration>>,
) -> Table<InFleet<ListenerName>, Arc<Listener>> {
    g.derive("listener", gateways.plans, move |cx, _, plan| {
        // Asked for by the one name only: the configuration of the other is another one with each edit of a route.
        let configuration = |chain: RouteConfigurationName| {
            let separate = ChainKey { fleet: plan.fleet.clone(), name: virtual_host::separate_name(&chain) };
            if cx.get(configurations, &separate).is_some() { separate.name } else { chain }
        };
        listener::ir_listeners(&plan.fleet, &plan.addresses, plan.live_listeners(), configuration)
    })
}

/// A port and who wants it, in order of precedence.
type PortClaim = (u16, Seniority);

/// The ports of a Gateway with the addresses on which it wants them.
fn port_claims(key: &ObjectKey, gateway: &Gateway) -> Vec<(PortClaim, Arc<[IpAddr]>)> {
    let seniority = Seniority { age: Age::from(gateway.meta.creation_timestamp()), object: key.clone() };
    let addresses: Arc<[IpAddr]> = gateway::bind_addresses(gateway).into();
    let claims = gateway.spec.listeners.iter().filter(|listener| gateway::is_served(&listener.protocol));
    claims.map(|listener| ((listener.port, seniority.clone()), addresses.clone())).collect()
}

/// The proxies of a Gateway; none while it has no port to serve.
fn infra(key: &ObjectKey, plan: &GatewayPlan, view: Option<&ProxyView>) -> Option<Infra> {
    let ports = plan.bound_ports();
    (!ports.is_empty()).then(|| Infra {
        fleet: plan.fleet.clone(),
        gateway: ObjectName { namespace: key.namespace().into(), name: key.name().into() },
        addresses: plan.addresses.clone(),
        ports,
        options: view.map(|view| view.options.clone()).unwrap_or_default(),
    })
}
