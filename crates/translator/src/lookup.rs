//! How the domain's questions are answered by the tables of the graph: every answer is a recorded read.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use api::envoy_proxy::{EnvoyProxySpec, MergeType};
use api::service::ServicePort;
use api::{EndpointSlice, Fault, Kind, LabelSelector, Labels, ObjectKey, ReferenceGrant, Secret, Service};
use engine::{Cx, Index, Table};
use ir::{ClusterName, FleetName, ListenerName, Route, RoutePiece};
use store::{ClusterState, FactKey, ListenerState, ProxyFacts, SecretRefusal, SocketTarget, Tables};

use crate::backend::own::OwnPlaces;
use crate::backend::{BackendFault, Encryption, SecretPart, SecretUse, Sendable, Verdict, has_ports, slice};
use crate::backend_traffic_policy::PolicyTarget;
use crate::closing::Closing;
use crate::envoy_proxy::{self, Named, ProxyRules};
use crate::gateway::{self, ClassOf, Parameters};
use crate::gateway_class::ClassView;
use crate::gating::{self, Lapse};
use crate::graph::{Backends, Closings, Gateways, Installed, Own, Policies, RefusedSecrets, Secrets, SetKey, Settings};
use crate::http_route::{self, AttachedRoute, ListenerPort};
use crate::key::{
    AttachmentKey, BackendKey, Bucket, ClusterTarget, EntryKey, ListenerKey, Seniority, Transport, route_name,
};
use crate::listener::{ListenerPlan, PortBound, PortShares, RouteScope, Socket};
use crate::listener_set::SetDraft;
use crate::reference::{GrantUse, Grants, Permit, RefFault, RefReason, Reference, permit};
use crate::secret;
use crate::status;
use crate::{PieceKey, stream, virtual_host};

/// Grants by each use that they allow.
pub(crate) type GrantIndex = Index<GrantUse, ObjectKey, Arc<ReferenceGrant>>;

/// Answers out of the tables of one stage.
pub(crate) struct Reader<'a, 'g, T> {
    pub(crate) cx: &'a mut Cx<'g>,
    pub(crate) tables: T,
}

/// A stage that follows references.
pub(crate) trait HasGrants {
    fn grants(&self) -> GrantIndex;
}

impl<T: HasGrants> Grants for Reader<'_, '_, T> {
    fn granted(&mut self, wanted: &GrantUse) -> bool {
        let grants = self.tables.grants();
        self.cx.any(grants, wanted)
    }
}

/// The Services behind addresses of a cluster, and the slices of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServiceAddresses {
    pub(crate) services: Index<IpAddr, ObjectKey, Arc<Service>>,
    /// By Service and `ServiceImport`; one that names none stands under no name.
    pub(crate) slices: Index<ObjectKey, ObjectKey, Arc<EndpointSlice>>,
}

/// What backends read.
#[derive(Clone, Copy)]
pub(crate) struct BackendTables {
    pub(crate) addresses: ServiceAddresses,
    pub(crate) grants: GrantIndex,
    pub(crate) secrets: Secrets,
    pub(crate) installed: Installed,
    /// The targets of paths of sockets.
    pub(crate) sockets: Table<Arc<str>, SocketTarget>,
}

impl HasGrants for BackendTables {
    fn grants(&self) -> GrantIndex {
        self.grants
    }
}

impl crate::backend::object::Lookup for Reader<'_, '_, BackendTables> {
    fn secret(&mut self, permit: &Permit, part: SecretPart) -> Option<secret::Verdict> {
        secret_verdict(self.cx, self.tables.secrets, permit, part)
    }

    fn is_served(&mut self, object: &ObjectKey) -> bool {
        self.tables.installed.serves(self.cx, object)
    }

    fn closed_service(&mut self, address: IpAddr, own: &OwnPlaces) -> Option<ObjectKey> {
        let ServiceAddresses { services, slices } = self.tables.addresses;
        let behind: Vec<ObjectKey> = self.cx.keys(services, &address).cloned().collect();
        let leads_there = |service: &ObjectKey| {
            let mut members = self.cx.members(slices, service).values();
            members.any(|slice| slice::is_closed(own, slice))
        };
        behind.into_iter().find(leads_there)
    }

    fn socket(&mut self, path: &str) -> SocketTarget {
        let known = self.cx.get(self.tables.sockets, &Arc::from(path));
        known.cloned().unwrap_or_else(|| Err("has not been looked up".into()))
    }
}

fn secret_verdict(cx: &mut Cx<'_>, secrets: Secrets, permit: &Permit, part: SecretPart) -> Option<secret::Verdict> {
    let wanted = SecretUse::of(permit.target().clone(), part);
    cx.get(secrets.verdicts_of(&wanted.object), &wanted).cloned()
}

/// What Gateways read.
#[derive(Clone, Copy)]
pub(crate) struct GatewayTables {
    pub(crate) inputs: Tables,
    pub(crate) grants: GrantIndex,
    pub(crate) settings: Settings,
    pub(crate) installed: Installed,
    pub(crate) secrets: Secrets,
    pub(crate) backends: Backends,
    pub(crate) proxy_verdicts: Table<ObjectKey, Result<(), Arc<str>>>,
    pub(crate) classes: Table<ObjectKey, Arc<ClassView>>,
    pub(crate) claims: Index<Socket, (Socket, Seniority), Arc<[IpAddr]>>,
    /// The ports that Gateways want on this machine, and those of a namespace that are too many.
    pub(crate) shares: Table<ObjectKey, Arc<PortShares>>,
    pub(crate) late_ports: Table<(Arc<str>, ObjectKey), Arc<BTreeSet<Socket>>>,
    pub(crate) sets: Index<ObjectKey, SetKey, Arc<SetDraft>>,
    pub(crate) merge_types: Table<ObjectKey, MergeType>,
    /// Secrets that proxies refused and have nothing in place of, by fleet.
    pub(crate) refused_secrets: RefusedSecrets,
    pub(crate) file_mode: bool,
}

impl HasGrants for GatewayTables {
    fn grants(&self) -> GrantIndex {
        self.grants
    }
}

impl GatewayTables {
    pub(crate) fn class(&self, cx: &mut Cx<'_>, name: &str) -> ClassOf {
        let key = ObjectKey::of(Kind::GatewayClass, "", name);
        match cx.get(self.classes, &key) {
            Some(class) => ClassOf::Ours(class.clone()),
            None if self.file_mode && !cx.contains(self.inputs.gateway_classes, &key) => ClassOf::Missing,
            None => ClassOf::Foreign,
        }
    }
}

impl gateway::Lookup for Reader<'_, '_, GatewayTables> {
    fn class(&mut self, name: &str) -> ClassOf {
        self.tables.class(self.cx, name)
    }

    fn secret(&mut self, permit: &Permit, part: SecretPart) -> Option<secret::Verdict> {
        secret_verdict(self.cx, self.tables.secrets, permit, part)
    }

    fn is_served(&mut self, object: &ObjectKey) -> bool {
        self.tables.installed.serves(self.cx, object)
    }

    fn lacks_secret(&mut self, fleet: &FleetName, wanted: &SecretUse) -> bool {
        self.tables.refused_secrets.find(self.cx, fleet, std::slice::from_ref(wanted)).is_some()
    }

    fn backend(&mut self, permit: &Permit, port: Option<u16>) -> Result<ClusterTarget, BackendFault> {
        let tables = (self.tables.inputs, self.tables.backends);
        backend(self.cx, tables, permit, (port, Transport::Tcp)).map(|found| found.target)
    }

    fn envoy_proxy(&mut self, permit: &Permit) -> Named {
        Named::new(permit.target(), self.cx.get(self.tables.proxy_verdicts, permit.target()))
    }

    fn rival(&mut self, gateway: &ObjectKey, socket: Socket, addresses: &[IpAddr]) -> Option<ObjectKey> {
        let claims = self.cx.members(self.tables.claims, &socket);
        let earlier = claims.iter().take_while(|((_, seniority), _)| seniority.object != *gateway);
        let mut clashing = earlier.filter(|(_, theirs)| {
            addresses.is_empty() || theirs.is_empty() || theirs.iter().any(|address| addresses.contains(address))
        });
        clashing.next().map(|((_, seniority), _)| seniority.object.clone())
    }

    fn port_bound(&mut self, gateway: &ObjectKey, namespace: &str, socket: Socket) -> Option<PortBound> {
        let shares = Arc::clone(self.cx.get(self.tables.shares, gateway)?);
        shares.bound((gateway.namespace(), namespace), socket, |payer| {
            let late = self.cx.get(self.tables.late_ports, &(payer.into(), gateway.clone()));
            late.is_some_and(|late| late.contains(&socket))
        })
    }

    fn sets(&mut self, gateway: &ObjectKey) -> Vec<Arc<SetDraft>> {
        self.cx.members(self.tables.sets, gateway).values().cloned().collect()
    }

    fn rules(&mut self) -> Arc<ProxyRules> {
        self.tables.settings.rules(self.cx)
    }

    fn controller(&mut self) -> Arc<str> {
        self.tables.settings.controller(self.cx)
    }

    fn is_file_mode(&self) -> bool {
        self.tables.file_mode
    }

    fn stands_alone(&mut self, proxy: &ObjectKey) -> bool {
        !matches!(self.cx.get(self.tables.merge_types, proxy), Some(MergeType::StrategicMerge | MergeType::JsonMerge))
    }

    fn combine(&mut self, parameters: &Parameters) -> Result<(), Arc<str>> {
        // Nothing can go wrong with those that stand alone, and whoever has not read them is not asked again when they change.
        let Parameters { own, class } = parameters;
        if own.iter().chain(class).all(|proxy| gateway::Lookup::stands_alone(self, proxy)) {
            return Ok(());
        }
        let combined = combined(self.cx, self.tables.inputs, self.tables.settings, parameters);
        combined.map(drop).map_err(|fault| fault.to_string().into())
    }
}

/// The settings that hold for a Gateway.
pub(crate) fn combined(
    cx: &mut Cx<'_>,
    inputs: Tables,
    settings: Settings,
    Parameters { own, class }: &Parameters,
) -> Result<Option<EnvoyProxySpec>, Fault> {
    let mut spec = |key: &Option<ObjectKey>| cx.get(inputs.envoy_proxies, key.as_ref()?).cloned();
    let (own, class) = (spec(own), spec(class));
    let default = settings.proxy(cx);
    envoy_proxy::combined(
        own.as_deref().map(|proxy| &proxy.spec),
        class.as_deref().map(|proxy| &proxy.spec),
        default.as_deref(),
    )
}

/// What routes read.
#[derive(Clone, Copy)]
pub(crate) struct RouteTables {
    pub(crate) inputs: Tables,
    pub(crate) grants: GrantIndex,
    pub(crate) namespaces: Table<ObjectKey, Arc<Labels>>,
    pub(crate) gateways: Gateways,
    pub(crate) backends: Backends,
    pub(crate) policies: Policies,
}

impl HasGrants for RouteTables {
    fn grants(&self) -> GrantIndex {
        self.grants
    }
}

impl http_route::Lookup for Reader<'_, '_, RouteTables> {
    fn scope(&mut self, parent: &ObjectKey) -> Option<Arc<RouteScope>> {
        self.cx.get(self.tables.gateways.scopes, parent).cloned()
    }

    fn default_gateways(&mut self) -> Vec<ObjectKey> {
        self.cx.keys(self.tables.gateways.defaults, &()).cloned().collect()
    }

    fn has_parent(&mut self, parent: &ObjectKey) -> bool {
        match parent.kind() {
            Some(Kind::ListenerSet) => self.cx.contains(self.tables.inputs.listener_sets, parent),
            _ => self.cx.contains(self.tables.inputs.gateways, parent),
        }
    }

    fn ports(&mut self, parent: &ObjectKey) -> Option<Arc<[ListenerPort]>> {
        self.cx.get(self.tables.gateways.ports, parent).cloned()
    }

    fn selects(&mut self, selector: &LabelSelector, namespace: &str) -> bool {
        selects_namespace(self.cx, self.tables.namespaces, selector, namespace)
    }

    fn backend(&mut self, permit: &Permit, port: Option<u16>, transport: Transport) -> Result<Sendable, BackendFault> {
        backend(self.cx, (self.tables.inputs, self.tables.backends), permit, (port, transport))
    }

    fn is_empty(&mut self, backend: &BackendKey) -> bool {
        self.tables.backends.is_empty(self.cx, backend)
    }

    fn has_policies(&mut self, namespace: &str) -> bool {
        self.tables.policies.any(self.cx, namespace)
    }

    fn policy(&mut self, target: &PolicyTarget) -> Option<ObjectKey> {
        self.tables.policies.of(self.cx, target)
    }
}

/// What is behind a reference to a backend.
pub(crate) fn backend(
    cx: &mut Cx<'_>,
    (inputs, backends): (Tables, Backends),
    permit: &Permit,
    (port, transport): (Option<u16>, Transport),
) -> Result<Sendable, BackendFault> {
    let object = permit.target();
    let no_port = |text: String| RefFault { reason: RefReason::NoPort, text: text.into() };
    let has_ports = has_ports(object.kind());
    let (port, of_port) = match (has_ports, port) {
        (true, None) => return Err(no_port(format!("port is needed with {object}"))),
        (true, Some(port)) => (port, transport),
        (false, _) => (0, Transport::Tcp),
    };
    let key = BackendKey { object: object.clone(), port, transport: of_port };
    match cx.get(backends.verdicts_of(object), &key) {
        Some(Verdict { fault: None, no_datagrams: Some(why), .. }) if transport == Transport::Udp => {
            let text = format!("{object} {why}, which is for TCP only");
            Err(RefFault { reason: RefReason::UnsupportedProtocol, text: text.into() })
        }
        Some(Verdict { target, fault: None, treatment, .. }) => {
            Ok(Sendable { target: target.clone(), treatment: treatment.clone() })
        }
        Some(Verdict { fault: Some(fault), .. }) => Err((**fault).clone()),
        // Only who asks for a port that is not there looks at the Service itself.
        None => Err(match its_ports(cx, inputs, object) {
            Some(ports) => no_port(lacks_port(object, &ports, (port, transport))),
            None => RefFault { reason: RefReason::NotFound, text: format!("{object} does not exist").into() },
        }),
    }
}

/// What proxies said of a listener as it is to be.
pub(crate) fn listener_state(cx: &mut Cx<'_>, inputs: Tables, fact: &FactKey) -> Option<ListenerState> {
    let state = cx.get(inputs.listener_state, fact).cloned()?;
    (!cx.contains(inputs.outdated_listeners, fact)).then_some(state)
}

/// Whether a selector selects a namespace.
pub(crate) fn selects_namespace(
    cx: &mut Cx<'_>,
    namespaces: Table<ObjectKey, Arc<Labels>>,
    selector: &LabelSelector,
    namespace: &str,
) -> bool {
    match cx.get(namespaces, &ObjectKey::of(Kind::Namespace, "", namespace)) {
        Some(labels) => selector.matches(labels),
        // A namespace without an object of its own has the label that Kubernetes gives to each.
        None => selector.matches(&[(NAMESPACE_LABEL, namespace)].into_iter().collect()),
    }
}

/// The ports of a Service or `ServiceImport` that is there.
fn its_ports(cx: &mut Cx<'_>, inputs: Tables, object: &ObjectKey) -> Option<Box<[ServicePort]>> {
    match object.kind() {
        Some(Kind::ServiceImport) => cx.get(inputs.service_imports, object).map(|import| import.spec.ports.clone()),
        Some(Kind::Service) => cx.get(inputs.services, object).map(|service| service.spec.ports.clone()),
        _ => None,
    }
}

/// A Service that somebody asked for a port that it does not have.
fn lacks_port(object: &ObjectKey, ports: &[ServicePort], (number, transport): (u16, Transport)) -> String {
    match ports.iter().find(|port| port.port == number) {
        Some(port) => format!("port {number} of {object} is for {}, not {}", port.protocol, transport.word()),
        None => format!("{object} has no port {number}{}", listed(ports)),
    }
}

/// The ports of a Service that somebody asked for another one: `; it has 80, 443`.
fn listed(ports: &[ServicePort]) -> String {
    let ports: Vec<String> = ports.iter().take(MAX_PORTS).map(|port| port.port.to_string()).collect();
    if ports.is_empty() { String::new() } else { format!("; it has {}", ports.join(", ")) }
}

/// So many ports of a Service are named; nearly all have no more.
const MAX_PORTS: usize = 5;

/// The label that Kubernetes gives to every namespace.
pub(crate) const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";

/// What resources of Envoy's read that users wrote.
#[derive(Clone, Copy)]
pub(crate) struct RawTables {
    pub(crate) inputs: Tables,
    pub(crate) grants: GrantIndex,
    pub(crate) secrets: Secrets,
    /// Each Secret as it was with its last good pair.
    pub(crate) pairs_served: Table<ObjectKey, Arc<Secret>>,
}

impl HasGrants for RawTables {
    fn grants(&self) -> GrantIndex {
        self.grants
    }
}

impl crate::raw::Lookup for Reader<'_, '_, RawTables> {
    fn secret(&mut self, permit: &Permit) -> Option<Arc<Secret>> {
        let Self { cx, tables: RawTables { inputs, secrets, pairs_served, .. } } = self;
        let current = cx.get(inputs.secrets, permit.target()).cloned()?;
        let pair = SecretUse::of(permit.target().clone(), SecretPart::Certificate);
        let is_outdated = cx.get(secrets.parsed_of_secrets(), &pair).is_some_and(|parsed| parsed.fault.is_some());
        let earlier = if is_outdated { cx.get(*pairs_served, permit.target()).cloned() } else { None };
        Some(earlier.map_or_else(|| current.clone(), |earlier| secret::with_pair_of(&current, &earlier).into()))
    }
}

/// What virtual hosts read.
#[derive(Clone, Copy)]
pub(crate) struct PieceTables {
    pub(crate) by_bucket: Index<Arc<Bucket>, PieceKey, Arc<RoutePiece>>,
    /// How many buckets of a listener stand for more than one host.
    pub(crate) wide: Table<ListenerKey, usize>,
    pub(crate) cluster_state: Table<FactKey, ClusterState>,
}

impl virtual_host::Lookup for Reader<'_, '_, PieceTables> {
    fn has_wide(&mut self, listener: &ListenerKey) -> bool {
        self.cx.contains(self.tables.wide, listener)
    }

    fn is_ready(&mut self, fleet: &FleetName, cluster: &ClusterName) -> bool {
        let state = self.cx.get(self.tables.cluster_state, &FactKey::new(fleet.0.clone(), cluster.as_str()));
        !matches!(state, Some(ClusterState::Stalled | ClusterState::Refused(_)))
    }

    fn extend(&mut self, bucket: &Arc<Bucket>, pieces: &mut Vec<Arc<RoutePiece>>) {
        pieces.extend(self.cx.members(self.tables.by_bucket, bucket).values().cloned());
    }
}

/// What streams read.
#[derive(Clone, Copy)]
pub(crate) struct StreamTables {
    pub(crate) by_bucket: Index<Arc<Bucket>, EntryKey, Arc<Route>>,
}

impl stream::Lookup for Reader<'_, '_, StreamTables> {
    fn first(&mut self, bucket: &Arc<Bucket>) -> Option<Arc<Route>> {
        self.cx.members(self.tables.by_bucket, bucket).values().next().cloned()
    }
}

/// What gating reads for one route in one fleet.
#[derive(Clone, Copy)]
pub(crate) struct GateTables<'k> {
    pub(crate) inputs: Tables,
    pub(crate) grants: GrantIndex,
    pub(crate) backends: Backends,
    pub(crate) own: Own,
    pub(crate) refusals: Index<FactKey, FactKey, Arc<str>>,
    /// Clusters that were refused, by fleet.
    pub(crate) refused_clusters: Index<Arc<str>, FactKey, ClusterState>,
    pub(crate) refused_secrets: RefusedSecrets,
    pub(crate) key: &'k AttachmentKey,
}

impl HasGrants for GateTables<'_> {
    fn grants(&self) -> GrantIndex {
        self.grants
    }
}

impl gating::Lookup for Reader<'_, '_, GateTables<'_>> {
    fn is_live(&mut self) -> bool {
        self.cx.contains(self.tables.inputs.fleet_live, &self.tables.key.fleet.0)
    }

    fn any_cluster_refused(&mut self) -> bool {
        let fleet = &self.tables.key.fleet;
        self.cx.any(self.tables.refused_clusters, &fleet.0) || self.tables.refused_secrets.any(self.cx, fleet)
    }

    fn lacks_secret(&mut self, target: &ClusterTarget) -> Option<Arc<str>> {
        let secrets = target.encryption().secrets();
        self.tables.refused_secrets.find(self.cx, &self.tables.key.fleet, secrets).map(secret::refused_by_proxies)
    }

    fn cluster(&mut self, name: &ClusterName) -> Option<ClusterState> {
        let fact = FactKey { fleet: self.tables.key.fleet.0.clone(), name: name.0.clone() };
        self.cx.get(self.tables.inputs.cluster_state, &fact).cloned()
    }

    fn served(&mut self) -> Option<Arc<AttachedRoute>> {
        self.cx.get(self.tables.own.served, self.tables.key).cloned()
    }

    fn fallback(&mut self) -> Option<Arc<AttachedRoute>> {
        self.cx.get(self.tables.own.fallback, self.tables.key).cloned()
    }

    fn refused(&mut self, form: &AttachedRoute) -> Option<Arc<str>> {
        let AttachmentKey { fleet, route } = self.tables.key;
        // One question that all routes of a namespace share, before those of this route.
        let mut any = |group: &str| self.cx.any(self.tables.refusals, &FactKey::new(fleet.0.clone(), group));
        if !any(route.namespace()) || !any(&route_name(route)) {
            return None;
        }
        let fact = FactKey::new(fleet.0.clone(), gating::form_name(route, form));
        self.cx.get(self.tables.inputs.route_refusals, &fact).cloned()
    }

    fn lapse(&mut self, target: &ClusterTarget, named: bool) -> Option<Lapse> {
        if gating::Lookup::lacks_secret(self, target).is_some() {
            return Some(Lapse::Refused);
        }
        let object = &target.backend().object;
        let verdict = self.cx.get(self.tables.backends.verdicts_of(object), target.backend());
        let Some(verdict) = verdict.filter(|verdict| verdict.fault.is_none()) else { return Some(Lapse::Gone) };
        let route = &self.tables.key.route;
        if named && permit(self, route, Reference::to(object)).is_err() {
            return Some(Lapse::Forbidden);
        }
        let encryption = verdict.target.encryption();
        let secured = *encryption != Encryption::Cleartext && encryption != target.encryption();
        (secured && !target.is_passthrough()).then_some(Lapse::Insecure)
    }
}

/// What the status of a Gateway reads.
#[derive(Clone, Copy)]
pub(crate) struct StatusTables<'k> {
    pub(crate) inputs: Tables,
    pub(crate) closings: Closings,
    pub(crate) attached: Table<ListenerKey, usize>,
    pub(crate) fleet: &'k FleetName,
}

impl status::gateway::Lookup for Reader<'_, '_, StatusTables<'_>> {
    fn closing(&mut self, object: &ObjectKey) -> Option<Arc<Closing>> {
        self.tables.closings.of(self.cx, object).cloned()
    }

    fn attached(&mut self, listener: &ListenerPlan) -> u32 {
        let key = ListenerKey { fleet: self.tables.fleet.clone(), listener: listener.id.clone() };
        let count = self.cx.get(self.tables.attached, &key).copied().unwrap_or(0);
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn proxies(&mut self) -> Option<Arc<ProxyFacts>> {
        self.cx.get(self.tables.inputs.proxies, &self.tables.fleet.0).cloned()
    }

    fn listener(&mut self, name: &ListenerName) -> Option<ListenerState> {
        let fact = FactKey { fleet: self.tables.fleet.0.clone(), name: name.0.clone() };
        listener_state(self.cx, self.tables.inputs, &fact)
    }

    fn cluster(&mut self, name: &ClusterName) -> Option<ClusterState> {
        let fact = FactKey { fleet: self.tables.fleet.0.clone(), name: name.0.clone() };
        self.cx.get(self.tables.inputs.cluster_state, &fact).cloned()
    }

    fn disputed(&mut self, name: &ListenerName) -> Option<Arc<str>> {
        let fact = FactKey::of_kind(self.tables.fleet.0.clone(), "Listener", &name.0);
        self.cx.get(self.tables.inputs.disputes, &fact).cloned()
    }

    fn refused_secret(&mut self, listener: &ListenerPlan) -> Option<Arc<str>> {
        let uses = listener.certificates.iter().chain(listener.client.as_ref().map(|client| &client.bundle));
        for wanted in uses {
            let fact = FactKey { fleet: self.tables.fleet.0.clone(), name: secret::name(wanted).0 };
            // The words of a proxy about a secret can hold the secret, so they are not repeated here,
            // nor anywhere else.
            match self.cx.get(self.tables.inputs.secret_refusals, &fact) {
                None => {}
                Some(SecretRefusal { has_previous: true, .. }) => {
                    let text = format!(
                        "the proxies refuse the content of {} and serve with the one before; replace the certificate or the key",
                        wanted.object
                    );
                    return Some(text.into());
                }
                Some(SecretRefusal { has_previous: false, .. }) => {
                    return Some(format!("the proxies refuse the content of {}", wanted.object).into());
                }
            }
        }
        None
    }
}

/// What statuses of objects read that cannot be used.
#[derive(Clone, Copy)]
pub(crate) struct RejectedTables {
    pub(crate) settings: Settings,
    pub(crate) classes: Table<ObjectKey, Arc<ClassView>>,
    /// By parent: a Gateway or a `ListenerSet`.
    pub(crate) scopes: Table<ObjectKey, Arc<RouteScope>>,
}

impl status::rejected::Lookup for Reader<'_, '_, RejectedTables> {
    fn controller(&mut self) -> Arc<str> {
        self.tables.settings.controller(self.cx)
    }

    fn is_our_class(&mut self, name: &str) -> bool {
        self.cx.contains(self.tables.classes, &ObjectKey::of(Kind::GatewayClass, "", name))
    }

    fn is_our_parent(&mut self, parent: &ObjectKey) -> bool {
        self.cx.contains(self.tables.scopes, parent)
    }
}
