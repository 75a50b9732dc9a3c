//! The one table of kinds that we read, and `Object`, the enum over them.

use std::sync::Arc;

use crate::key::ObjectKey;
use crate::meta::ObjectMeta;
use crate::resource::Spec;

/// API groups.
pub mod group {
    /// The group of Service, Secret, ConfigMap and Namespace.
    pub const CORE: &str = "";
    /// The group of EndpointSlice.
    pub const DISCOVERY: &str = "discovery.k8s.io";
    /// The group of Gateway API.
    pub const GATEWAY: &str = "gateway.networking.k8s.io";
    /// Envoy Gateway's group, which we keep so that its users' objects work unchanged.
    pub const ENVOY_GATEWAY: &str = "gateway.envoyproxy.io";
    /// The group of Bootes, which we keep so that its users' objects work unchanged.
    pub const BOOTES: &str = "bootes.io";
    /// The group of Gateway API's kinds that are still tried out.
    pub const EXPERIMENTAL: &str = "gateway.networking.x-k8s.io";
    /// The group of the Multi-Cluster Services API.
    pub const MULTICLUSTER: &str = "multicluster.x-k8s.io";
    /// The group of `ClusterTrustBundle`.
    pub const CERTIFICATES: &str = "certificates.k8s.io";
    /// Our own group.
    pub const CHANCERY: &str = "chancery.io";
}

/// Whether the objects of a kind live in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The key has no namespace.
    Cluster,
    /// The key has a namespace.
    Namespaced,
}

/// One row of the table per kind: group, versions (the first is the one that we write), name, plural, scope. Then, of those whose objects hold
/// one resource of Envoy's each, group, version, name, plural, and its message.
macro_rules! kinds {
    (
        $($(#[$meta:meta])* $variant:ident, $group:expr, [$($version:literal),+], $name:literal, $plural:literal, $scope:ident;)+
        ; raw
        $($(#[$raw_meta:meta])* $raw:ident, $raw_group:expr, $raw_version:literal, $raw_name:literal, $raw_plural:literal, $message:literal;)+
    ) => {
        /// The kinds that we read.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Kind {
            $($(#[$meta])* $variant,)+
            $($(#[$raw_meta])* $raw,)+
        }

        impl Kind {
            /// Every kind, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$variant,)+ $(Self::$raw),+];

            /// API group, empty for the core group.
            #[must_use]
            pub const fn group(self) -> &'static str {
                match self { $(Self::$variant => $group,)+ $(Self::$raw => $raw_group,)+ }
            }

            /// The versions that we read; the first is the one that we write.
            #[must_use]
            pub const fn versions(self) -> &'static [&'static str] {
                match self { $(Self::$variant => &[$($version),+],)+ $(Self::$raw => &[$raw_version],)+ }
            }

            /// Kind as written in YAML, for example `HTTPRoute`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ $(Self::$raw => $raw_name,)+ }
            }

            /// Plural as in URLs of the Kubernetes API, for example `httproutes`.
            #[must_use]
            pub const fn plural(self) -> &'static str {
                match self { $(Self::$variant => $plural,)+ $(Self::$raw => $raw_plural,)+ }
            }

            /// Cluster-scoped or namespaced.
            #[must_use]
            pub const fn scope(self) -> Scope {
                match self { $(Self::$variant => Scope::$scope,)+ $(Self::$raw => Scope::Namespaced,)+ }
            }

            /// The full name of the message of Envoy's that an object of this kind holds, if it holds one.
            #[must_use]
            pub const fn message(self) -> Option<&'static str> {
                match self { $(Self::$variant => None,)+ $(Self::$raw => Some($message),)+ }
            }
        }

        /// An object of any kind that we read.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Object {
            $($(#[$meta])* $variant(Arc<crate::$variant>),)+
            /// A resource of Envoy's: of a kind with a [`Kind::message`].
            Raw(Kind, Arc<crate::Raw>),
        }

        impl Object {
            /// The metadata.
            #[must_use]
            pub fn meta(&self) -> &ObjectMeta {
                match self { $(Self::$variant(object) => &object.meta,)+ Self::Raw(_, object) => &object.meta }
            }

            /// The metadata, of a copy of the object if others hold it too.
            pub fn meta_mut(&mut self) -> &mut ObjectMeta {
                match self {
                    $(Self::$variant(object) => &mut Arc::make_mut(object).meta,)+
                    Self::Raw(_, object) => &mut Arc::make_mut(object).meta,
                }
            }

            /// The kind.
            #[must_use]
            pub const fn kind(&self) -> Kind {
                match self { $(Self::$variant(_) => Kind::$variant,)+ Self::Raw(kind, _) => *kind }
            }
        }

        $(impl From<crate::$variant> for Object {
            fn from(object: crate::$variant) -> Self {
                Self::$variant(Arc::new(object))
            }
        })+

        // Each kind's spec names the row that it belongs to; a mistake does not compile.
        $(const _: () = assert!(<<crate::$variant as crate::resource::HasSpec>::Spec as Spec>::KIND as u8 == Kind::$variant as u8);)+

        /// The object of a kind from its metadata and the tree of the whole.
        pub(crate) fn build(
            kind: Kind,
            meta: ObjectMeta,
            root: crate::tree::Cursor<'_, '_>,
            marks: crate::decode::Marks,
        ) -> Result<Object, crate::tree::DecodeError> {
            match kind {
                $(Kind::$variant => crate::decode::resource(meta, root, marks).map(|object: crate::$variant| object.into()),)+
                $(Kind::$raw)|+ => crate::decode::resource(meta, root, marks).map(|object| Object::Raw(kind, Arc::new(object))),
            }
        }
    };
}

kinds! {
    /// Gateway API: a class of Gateways and who controls it.
    GatewayClass, group::GATEWAY, ["v1", "v1beta1"], "GatewayClass", "gatewayclasses", Cluster;
    /// Gateway API: listeners.
    Gateway, group::GATEWAY, ["v1", "v1beta1"], "Gateway", "gateways", Namespaced;
    /// Gateway API: more listeners for a Gateway.
    ListenerSet, group::GATEWAY, ["v1"], "ListenerSet", "listenersets", Namespaced;
    /// Gateway API: HTTP rules.
    HttpRoute, group::GATEWAY, ["v1", "v1beta1"], "HTTPRoute", "httproutes", Namespaced;
    /// Gateway API: rules for gRPC calls.
    GrpcRoute, group::GATEWAY, ["v1"], "GRPCRoute", "grpcroutes", Namespaced;
    /// Gateway API: rules for TLS connections.
    TlsRoute, group::GATEWAY, ["v1", "v1alpha3", "v1alpha2"], "TLSRoute", "tlsroutes", Namespaced;
    /// Gateway API: rules for TCP connections.
    TcpRoute, group::GATEWAY, ["v1", "v1alpha2"], "TCPRoute", "tcproutes", Namespaced;
    /// Gateway API: rules for UDP datagrams.
    UdpRoute, group::GATEWAY, ["v1", "v1alpha2"], "UDPRoute", "udproutes", Namespaced;
    /// Gateway API: TLS to the endpoints of Services.
    BackendTlsPolicy, group::GATEWAY, ["v1", "v1alpha3"], "BackendTLSPolicy", "backendtlspolicies", Namespaced;
    /// Gateway API: leave to refer across namespaces.
    ReferenceGrant, group::GATEWAY, ["v1", "v1beta1"], "ReferenceGrant", "referencegrants", Namespaced;
    /// Gateway API, experimental: a target with how it is spoken to.
    XBackend, group::EXPERIMENTAL, ["v1alpha1"], "XBackend", "xbackends", Namespaced;
    /// Gateway API, experimental: retry budgets and sessions of backends.
    XBackendTrafficPolicy, group::EXPERIMENTAL, ["v1alpha1"], "XBackendTrafficPolicy", "xbackendtrafficpolicies", Namespaced;
    /// Gateway API, experimental: traces of what Gateways do.
    XTelemetryPolicy, group::EXPERIMENTAL, ["v1alpha1"], "XTelemetryPolicy", "xtelemetrypolicies", Namespaced;
    /// Multi-Cluster Services: a Service that several clusters have.
    ServiceImport, group::MULTICLUSTER, ["v1alpha1"], "ServiceImport", "serviceimports", Namespaced;
    /// Core: a named set of ports and, through slices, endpoints.
    Service, group::CORE, ["v1"], "Service", "services", Namespaced;
    /// Core: endpoints of a Service.
    EndpointSlice, group::DISCOVERY, ["v1"], "EndpointSlice", "endpointslices", Namespaced;
    /// Core: certificates and keys.
    Secret, group::CORE, ["v1"], "Secret", "secrets", Namespaced;
    /// Core: CA certificates and other texts.
    ConfigMap, group::CORE, ["v1"], "ConfigMap", "configmaps", Namespaced;
    /// CA certificates for everybody in a cluster.
    ClusterTrustBundle, group::CERTIFICATES, ["v1", "v1beta1", "v1alpha1"], "ClusterTrustBundle", "clustertrustbundles", Cluster;
    /// Core: labels that listeners select by.
    Namespace, group::CORE, ["v1"], "Namespace", "namespaces", Cluster;
    /// Envoy Gateway: a target that is no Service.
    Backend, group::ENVOY_GATEWAY, ["v1alpha1"], "Backend", "backends", Namespaced;
    /// Envoy Gateway: settings of a fleet of proxies.
    EnvoyProxy, group::ENVOY_GATEWAY, ["v1alpha1"], "EnvoyProxy", "envoyproxies", Namespaced;
    /// Envoy Gateway: traffic settings of routes and Gateways.
    BackendTrafficPolicy, group::ENVOY_GATEWAY, ["v1alpha1"], "BackendTrafficPolicy", "backendtrafficpolicies", Namespaced;
    /// Envoy Gateway: who may send requests to routes and Gateways.
    SecurityPolicy, group::ENVOY_GATEWAY, ["v1alpha1"], "SecurityPolicy", "securitypolicies", Namespaced;
    /// Envoy Gateway: programs that see requests.
    EnvoyExtensionPolicy, group::ENVOY_GATEWAY, ["v1alpha1"], "EnvoyExtensionPolicy", "envoyextensionpolicies", Namespaced;
    /// Envoy Gateway: how clients of Gateways are treated.
    ClientTrafficPolicy, group::ENVOY_GATEWAY, ["v1alpha1"], "ClientTrafficPolicy", "clienttrafficpolicies", Namespaced;
    /// Envoy Gateway: changes of generated resources of Envoy's.
    EnvoyPatchPolicy, group::ENVOY_GATEWAY, ["v1alpha1"], "EnvoyPatchPolicy", "envoypatchpolicies", Namespaced;
    /// Envoy Gateway: the static configuration, a file and not a resource.
    EnvoyGateway, group::ENVOY_GATEWAY, ["v1alpha1"], "EnvoyGateway", "envoygateways", Cluster;
    /// Core: a workload, by its labels.
    Pod, group::CORE, ["v1"], "Pod", "pods", Namespaced;
    ; raw
    /// Bootes: a cluster.
    BootesCluster, group::BOOTES, "v1", "Cluster", "clusters", "envoy.config.cluster.v3.Cluster";
    /// Bootes: a listener.
    BootesListener, group::BOOTES, "v1", "Listener", "listeners", "envoy.config.listener.v3.Listener";
    /// Bootes: a route configuration.
    BootesRoute, group::BOOTES, "v1", "Route", "routes", "envoy.config.route.v3.RouteConfiguration";
    /// Bootes: endpoints of a cluster.
    BootesEndpoint, group::BOOTES, "v1", "Endpoint", "endpoints", "envoy.config.endpoint.v3.ClusterLoadAssignment";
    /// A cluster.
    EnvoyCluster, group::CHANCERY, "v1alpha1", "EnvoyCluster", "envoyclusters", "envoy.config.cluster.v3.Cluster";
    /// Endpoints of a cluster.
    EnvoyEndpoint, group::CHANCERY, "v1alpha1", "EnvoyEndpoint", "envoyendpoints", "envoy.config.endpoint.v3.ClusterLoadAssignment";
    /// A listener.
    EnvoyListener, group::CHANCERY, "v1alpha1", "EnvoyListener", "envoylisteners", "envoy.config.listener.v3.Listener";
    /// A route configuration, or virtual hosts of one.
    EnvoyRoute, group::CHANCERY, "v1alpha1", "EnvoyRoute", "envoyroutes", "envoy.config.route.v3.RouteConfiguration";
    /// A scope of route configurations.
    EnvoyScopedRoute, group::CHANCERY, "v1alpha1", "EnvoyScopedRoute", "envoyscopedroutes", "envoy.config.route.v3.ScopedRouteConfiguration";
    /// A virtual host that is delivered by itself.
    EnvoyVirtualHost, group::CHANCERY, "v1alpha1", "EnvoyVirtualHost", "envoyvirtualhosts", "envoy.config.route.v3.VirtualHost";
    /// A layer of runtime values.
    EnvoyRuntime, group::CHANCERY, "v1alpha1", "EnvoyRuntime", "envoyruntimes", "envoy.service.runtime.v3.Runtime";
    /// A secret, filled from one of Kubernetes.
    EnvoySecret, group::CHANCERY, "v1alpha1", "EnvoySecret", "envoysecrets", "envoy.extensions.transport_sockets.tls.v3.Secret";
    /// The configuration of an extension.
    EnvoyExtensionConfig, group::CHANCERY, "v1alpha1", "EnvoyExtensionConfig", "envoyextensionconfigs", "envoy.config.core.v3.TypedExtensionConfig";
}

impl Kind {
    /// The kind of a group and a kind's name as written, if we read it. The version does not matter here.
    #[must_use]
    pub fn find(group: &str, name: &str) -> Option<Self> {
        // What nearly every reference to a backend says.
        if name == "Service" && group.is_empty() {
            return Some(Self::Service);
        }
        Self::ALL.iter().copied().find(|kind| kind.name() == name && kind.group() == group)
    }

    /// Returns true if two objects of the kind can claim the same thing (a port, a host name, a match, a target), so that the older one has it. Kinds
    /// that are not listed here can: a new kind is on the safe side.
    #[must_use]
    pub const fn has_precedence(self) -> bool {
        !matches!(
            self,
            Self::GatewayClass
                | Self::ReferenceGrant
                | Self::XBackend
                | Self::ServiceImport
                | Self::Service
                | Self::EndpointSlice
                | Self::Secret
                | Self::ConfigMap
                | Self::ClusterTrustBundle
                | Self::Namespace
                | Self::Backend
                | Self::EnvoyProxy
                | Self::EnvoyGateway
                | Self::Pod
        )
    }

    /// `group/version` with the version that we write, or the version alone for the core group.
    #[must_use]
    pub fn api_version(self) -> String {
        let version = self.versions().first().copied().unwrap_or_default();
        if self.group().is_empty() { version.to_owned() } else { format!("{}/{version}", self.group()) }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Object {
    /// Group, kind, namespace and name.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.meta().key
    }
}
