//! [`Tables`]: the handles of every input of the graph.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Kind, Object, ObjectKey, PolicyAttachment, Resource, RouteObject};
use engine::{Graph, Table, Value};

use crate::batch::SocketTarget;
use crate::fact::{
    ClusterState, Definitions, FactKey, ListenerState, LoadFacts, PatchState, ProxyFacts, RawState, Refusals, Rejected,
    SecretRefusal,
};

/// Inputs that hold objects: one row per kind, `field: variant`. The name of the table is the name of the field.
macro_rules! object_tables {
    ($($(#[$meta:meta])* $field:ident: $Kind:ident,)+) => {
        /// Handles of the engine's input tables. Facts are written through these handles directly.
        #[derive(Debug, Clone, Copy)]
        pub struct Tables {
            $($(#[$meta])* pub $field: Table<ObjectKey, Arc<api::$Kind>>,)+
            /// The static configuration: at most one row.
            pub settings: Table<(), Arc<api::EnvoyGateway>>,
            /// Routes of all kinds.
            pub routes: Table<ObjectKey, RouteObject>,
            /// The attachments of Envoy Gateway's policies, of all kinds that have an [`Object::attachment`].
            pub attachments: Table<ObjectKey, Arc<Resource<PolicyAttachment>>>,
            /// Resources of Envoy's, of all kinds that have a [`Kind::message`].
            pub raw: Table<ObjectKey, Arc<api::Raw>>,
            /// ([`FactKey::of_kind`]) what the proxies of a workload made of such a resource. No row: they have not answered yet.
            pub raw_state: Table<FactKey, RawState>,
            /// Fleets of workloads with a proxy that is connected.
            pub connected: Table<Arc<str>, ()>,
            /// Fleets that have a proxy with its complete first configuration.
            pub fleet_live: Table<Arc<str>, ()>,
            /// Fleets that have one at another replica. Nothing is gated by it.
            pub live_elsewhere: Table<Arc<str>, ()>,
            /// (fleet, cluster) that a proxy has answered about.
            pub cluster_state: Table<FactKey, ClusterState>,
            /// (fleet, listener) that a proxy has answered about.
            pub listener_state: Table<FactKey, ListenerState>,
            /// (fleet, listener) of which another version waits to be published: the answer is not about that.
            pub outdated_listeners: Table<FactKey, ()>,
            /// (fleet, secret) whose current content a proxy refused.
            pub secret_refusals: Table<FactKey, SecretRefusal>,
            /// (fleet, form of a route) that a proxy refused, with its words.
            pub route_refusals: Table<FactKey, Arc<str>>,
            /// ([`FactKey::of_kind`]) what one proxy refused while others of the fleet take it, with its words.
            pub disputes: Table<FactKey, Arc<str>>,
            /// ([`FactKey::of_kind`]) what became of the patches of a generated resource, by policy (`<namespace>/<name>`).
            pub patch_states: Table<FactKey, Arc<BTreeMap<Arc<str>, PatchState>>>,
            /// ([`FactKey::of_kind`]) what proxies refused of a resource that several policies or objects make.
            pub refusals: Table<FactKey, Arc<Refusals>>,
            /// (fleet, cluster or service) that proxies report on: what they send to it. No row: no data.
            pub loads: Table<FactKey, Arc<LoadFacts>>,
            /// Fleet: what is known of its proxies.
            pub proxies: Table<Arc<str>, Arc<ProxyFacts>>,
            /// Which kinds of objects there can be: at most one row.
            pub definitions: Table<(), Arc<Definitions>>,
            /// The targets, after links, of the paths of Unix sockets that `Backend`s name.
            pub socket_paths: Table<Arc<str>, SocketTarget>,
            /// Objects that cannot be used at all.
            pub rejected: Table<ObjectKey, Arc<Rejected>>,
        }

        impl Tables {
            /// Declares every input.
            pub(crate) fn declare(graph: &mut Graph) -> Self {
                Self {
                    $($field: graph.input(stringify!($field)),)+
                    settings: graph.input("settings"),
                    routes: graph.input("routes"),
                    attachments: graph.input("attachments"),
                    raw: graph.input("raw"),
                    raw_state: graph.input("raw_state"),
                    connected: graph.input("connected"),
                    fleet_live: graph.input("fleet_live"),
                    live_elsewhere: graph.input("live_elsewhere"),
                    cluster_state: graph.input("cluster_state"),
                    listener_state: graph.input("listener_state"),
                    outdated_listeners: graph.input("outdated_listeners"),
                    secret_refusals: graph.input("secret_refusals"),
                    route_refusals: graph.input("route_refusals"),
                    disputes: graph.input("disputes"),
                    patch_states: graph.input("patch_states"),
                    refusals: graph.input("refusals"),
                    loads: graph.input("loads"),
                    proxies: graph.input("proxies"),
                    definitions: graph.input("definitions"),
                    rejected: graph.input("rejected"),
                    socket_paths: graph.input("socket_paths"),
                }
            }

            /// Writes an object to the table of its kind.
            pub(crate) fn set(&self, graph: &mut Graph, key: ObjectKey, object: Object) {
                if let Some(spec) = object.attachment() {
                    let attached = Arc::new(Resource { meta: object.meta().clone(), spec });
                    graph.set(self.attachments, key.clone(), attached);
                }
                match object {
                    $(Object::$Kind(object) => graph.set(self.$field, key, object),)+
                    Object::EnvoyGateway(object) => graph.set(self.settings, (), object),
                    Object::Raw(_, object) => graph.set(self.raw, key, object),
                    route => drop(RouteObject::try_from(route).map(|route| graph.set(self.routes, key, route))),
                }
            }

            /// Makes room for the first objects of a kind.
            pub(crate) fn make_room(&self, graph: &mut Graph, kind: Kind, objects: usize) {
                match kind {
                    $(Kind::$Kind => graph.make_room(self.$field, objects),)+
                    Kind::EnvoyGateway => {}
                    kind if kind.is_route() => graph.make_room(self.routes, objects),
                    _ => graph.make_room(self.raw, objects),
                }
            }

            /// Takes an object out of the table of its kind.
            pub(crate) fn remove(&self, graph: &mut Graph, key: &ObjectKey) -> Option<Object> {
                let object = self.get(graph, key)?;
                if key.kind()?.is_attached() {
                    graph.remove(self.attachments, key);
                }
                match key.kind()? {
                    $(Kind::$Kind => graph.remove(self.$field, key),)+
                    Kind::EnvoyGateway => graph.remove(self.settings, &()),
                    kind if kind.is_route() => graph.remove(self.routes, key),
                    _ => graph.remove(self.raw, key),
                };
                Some(object)
            }

            /// The names of all objects of a kind, in no order. Looks at all of them: for words to people.
            pub fn keys<'g>(&self, graph: &'g Graph, kind: Kind) -> Box<dyn Iterator<Item = &'g ObjectKey> + 'g> {
                match kind {
                    $(Kind::$Kind => Box::new(graph.iter(self.$field).map(|(key, _)| key)),)+
                    Kind::EnvoyGateway => Box::new(std::iter::empty()),
                    kind if kind.is_route() => Box::new(of_kind(graph, self.routes, kind)),
                    raw => Box::new(of_kind(graph, self.raw, raw)),
                }
            }

            /// How many objects of a kind are in force.
            #[must_use]
            pub fn len(&self, graph: &Graph, kind: Kind) -> usize {
                match kind {
                    $(Kind::$Kind => graph.len(self.$field),)+
                    Kind::EnvoyGateway => 0,
                    kind if kind.is_route() => of_kind(graph, self.routes, kind).count(),
                    raw => of_kind(graph, self.raw, raw).count(),
                }
            }

            /// The object that is in force.
            #[must_use]
            pub fn get(&self, graph: &Graph, key: &ObjectKey) -> Option<Object> {
                match key.kind()? {
                    $(Kind::$Kind => graph.get(self.$field, key).cloned().map(Object::$Kind),)+
                    Kind::EnvoyGateway => graph.get(self.settings, &()).cloned().map(Object::EnvoyGateway),
                    kind if kind.is_route() => graph.get(self.routes, key).cloned().map(Object::from),
                    raw => graph.get(self.raw, key).cloned().map(|object| Object::Raw(raw, object)),
                }
            }
        }
    };
}

/// The keys of one kind in a table of several.
fn of_kind<V: Value>(graph: &Graph, table: Table<ObjectKey, V>, kind: Kind) -> impl Iterator<Item = &ObjectKey> {
    graph.iter(table).map(|(key, _)| key).filter(move |key| key.kind() == Some(kind))
}

object_tables! {
    /// GatewayClass.
    gateway_classes: GatewayClass,
    /// Gateway.
    gateways: Gateway,
    /// ReferenceGrant.
    reference_grants: ReferenceGrant,
    /// Backend of `gateway.envoyproxy.io`.
    backends: Backend,
    /// EnvoyProxy of `gateway.envoyproxy.io`.
    envoy_proxies: EnvoyProxy,
    /// ListenerSet.
    listener_sets: ListenerSet,
    /// BackendTLSPolicy.
    backend_tls_policies: BackendTlsPolicy,
    /// BackendTrafficPolicy of `gateway.envoyproxy.io`.
    backend_traffic_policies: BackendTrafficPolicy,
    /// EnvoyPatchPolicy of `gateway.envoyproxy.io`.
    envoy_patch_policies: EnvoyPatchPolicy,
    /// SecurityPolicy of `gateway.envoyproxy.io`.
    security_policies: SecurityPolicy,
    /// EnvoyExtensionPolicy of `gateway.envoyproxy.io`.
    envoy_extension_policies: EnvoyExtensionPolicy,
    /// ClientTrafficPolicy of `gateway.envoyproxy.io`.
    client_traffic_policies: ClientTrafficPolicy,
    /// XBackend.
    x_backends: XBackend,
    /// XBackendTrafficPolicy.
    x_backend_traffic_policies: XBackendTrafficPolicy,
    /// XTelemetryPolicy.
    x_telemetry_policies: XTelemetryPolicy,
    /// ServiceImport.
    service_imports: ServiceImport,
    /// ClusterTrustBundle.
    cluster_trust_bundles: ClusterTrustBundle,
    /// Service.
    services: Service,
    /// EndpointSlice.
    endpoint_slices: EndpointSlice,
    /// Secret.
    secrets: Secret,
    /// ConfigMap.
    config_maps: ConfigMap,
    /// Namespace.
    namespaces: Namespace,
    /// Pod.
    pods: Pod,
}
