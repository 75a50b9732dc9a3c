//! `Gateway`: listeners, addresses and what belongs to them.

use serde::Deserialize;

use crate::http_route::ExternalAuthFilter;
use crate::kind::Kind;
use crate::meta::Labels;
use crate::open::open_enum;
use crate::problem::{Fault, UnitFaults};
use crate::reference::{GatewayScope, LocalObjectRef, ObjectRef, RouteGroupKind, SecretRef};
use crate::resource::{Resource, Spec};
use crate::selector::LabelSelector;

/// Listeners on addresses, of one class.
pub type Gateway = Resource<GatewaySpec>;

/// `Gateway.spec`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewaySpec {
    /// The class.
    pub gateway_class_name: Box<str>,
    /// 1 to 64 listeners.
    pub listeners: Box<[Listener]>,
    /// Addresses that the user asks for.
    pub addresses: Box<[GatewaySpecAddress]>,
    /// What generated objects carry, and settings.
    pub infrastructure: Option<Box<GatewayInfrastructure>>,
    /// Which `ListenerSet`s may attach.
    pub allowed_listeners: Option<Box<AllowedListeners>>,
    /// Client certificates in front, the Gateway's certificate towards backends.
    pub tls: Option<Box<GatewayTls>>,
    /// Whether routes may use this Gateway by default (experimental).
    pub default_scope: Option<GatewayScope>,
}

impl Spec for GatewaySpec {
    const KIND: Kind = Kind::Gateway;

    fn mark(&mut self, faults: UnitFaults) {
        mark(&mut self.listeners, faults);
    }
}

/// Notes which listeners cannot be used.
pub(crate) fn mark(listeners: &mut [Listener], faults: UnitFaults) {
    for (unit, fault) in faults.faults {
        if let Some(listener) = listeners.get_mut(unit.item) {
            listener.fault.get_or_insert_with(|| Box::new(fault));
        }
    }
}

/// `Gateway.spec.listeners[]` and `ListenerSet.spec.listeners[]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Listener {
    /// Name, unique in the object.
    pub name: Box<str>,
    /// Host that it is for, in small letters as written; none means all. May start with `*.`.
    pub hostname: Option<Box<str>>,
    /// Port, 1 to 65535.
    pub port: u16,
    /// Protocol.
    pub protocol: Protocol,
    /// TLS settings, for HTTPS and TLS.
    pub tls: Option<Box<ListenerTls>>,
    /// Which routes may attach; none is "of the same namespace, every kind of the protocol".
    pub allowed_routes: Option<Box<AllowedRoutes>>,
    /// Filters that run before route matching (GEP-5224, experimental).
    pub filters: Option<Box<ListenerFilters>>,
    /// Why this listener cannot be used; the other listeners can.
    #[serde(skip)]
    pub fault: Option<Box<Fault>>,
}

open_enum! {
    /// `Listener.protocol`. Other words may be domain-prefixed.
    Protocol {
        /// HTTP/1.1 and HTTP/2 in clear text.
        Http = "HTTP",
        /// HTTP over TLS.
        Https = "HTTPS",
        /// TLS, routed by SNI.
        Tls = "TLS",
        /// TCP.
        Tcp = "TCP",
        /// UDP.
        Udp = "UDP",
    }
}

/// `Listener.tls`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerTls {
    /// Who ends TLS.
    pub mode: TlsMode,
    /// Certificates, all presented by SNI and key type.
    pub certificate_refs: Box<[SecretRef]>,
    /// Implementation-specific settings.
    pub options: Labels,
}

open_enum! {
    /// `Listener.tls.mode`.
    TlsMode {
        /// The Gateway ends TLS.
        Terminate = "Terminate",
        /// The backend ends TLS.
        Passthrough = "Passthrough",
    }
}

/// `Listener.allowedRoutes`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllowedRoutes {
    /// From which namespaces.
    pub namespaces: RouteNamespaces,
    /// Which kinds; empty means every kind of the protocol.
    pub kinds: Box<[RouteGroupKind]>,
}

/// `Listener.allowedRoutes.namespaces`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteNamespaces {
    /// How namespaces are chosen.
    pub from: RouteNamespacesFrom,
    /// For `Selector`: labels of the Namespace. Absent selects none, empty selects all.
    pub selector: Option<Box<LabelSelector>>,
}

open_enum! {
    /// `allowedRoutes.namespaces.from`.
    RouteNamespacesFrom {
        /// The namespace of the object that the listener is in.
        Same = "Same",
        /// Every namespace.
        All = "All",
        /// Namespaces with these labels.
        Selector = "Selector",
    }
}

/// `Listener.filters` (GEP-5224, experimental).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerFilters {
    /// Filters for requests, in strict order.
    pub requests: Box<[ListenerFilter]>,
}

/// `Listener.filters.requests[]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerFilter {
    /// Which filter.
    #[serde(rename = "type")]
    pub filter_type: ListenerFilterType,
    /// For `ExternalAuth`.
    pub external_auth: Option<Box<ExternalAuthFilter>>,
    /// For `ExtensionRef`.
    pub extension_ref: Option<Box<LocalObjectRef>>,
}

open_enum! {
    /// `Listener.filters.requests[].type`.
    ListenerFilterType {
        /// Ask a server.
        ExternalAuth = "ExternalAuth",
        /// A filter of an implementation.
        ExtensionRef = "ExtensionRef",
    }
}

/// `Gateway.spec.addresses[]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewaySpecAddress {
    /// Kind of address.
    #[serde(rename = "type")]
    pub address_type: AddressType,
    /// The address; none asks for any one of the type.
    pub value: Option<Box<str>>,
    /// From where it is reachable (GEP-5093, experimental).
    pub routability: Option<Box<str>>,
}

open_enum! {
    /// Kinds of addresses. Other words are domain-prefixed.
    AddressType {
        /// IPv4 or IPv6.
        IpAddress = "IPAddress",
        /// A DNS name.
        Hostname = "Hostname",
        /// Deprecated.
        NamedAddress = "NamedAddress",
    }
}

/// `Gateway.spec.infrastructure`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayInfrastructure {
    /// Labels for everything that is generated.
    pub labels: Labels,
    /// Annotations for everything that is generated.
    pub annotations: Labels,
    /// Settings of this Gateway, for example an `EnvoyProxy` of the same namespace.
    pub parameters_ref: Option<LocalObjectRef>,
}

/// `Gateway.spec.allowedListeners`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllowedListeners {
    /// From which namespaces.
    pub namespaces: ListenerNamespaces,
}

/// `Gateway.spec.allowedListeners.namespaces`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerNamespaces {
    /// How namespaces are chosen.
    pub from: ListenerNamespacesFrom,
    /// For `Selector`.
    pub selector: Option<Box<LabelSelector>>,
}

open_enum! {
    /// `allowedListeners.namespaces.from`.
    ListenerNamespacesFrom {
        /// No `ListenerSet` may attach.
        None = "None",
        /// Those of the Gateway's namespace.
        Same = "Same",
        /// Every namespace.
        All = "All",
        /// Namespaces with these labels.
        Selector = "Selector",
    }
}

/// `Gateway.spec.tls`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayTls {
    /// Towards backends.
    pub backend: Option<GatewayBackendTls>,
    /// Towards clients.
    pub frontend: Option<FrontendTls>,
}

/// `Gateway.spec.tls.backend`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayBackendTls {
    /// The certificate that the Gateway presents to backends.
    pub client_certificate_ref: Option<SecretRef>,
}

/// `Gateway.spec.tls.frontend`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FrontendTls {
    /// For every HTTPS listener whose port has no entry of its own.
    #[serde(rename = "default")]
    pub default_tls: FrontendTlsConfig,
    /// For single ports; replaces the default completely.
    pub per_port: Box<[FrontendTlsPort]>,
}

/// `Gateway.spec.tls.frontend.perPort[]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FrontendTlsPort {
    /// Port, 1 to 65535.
    pub port: u16,
    /// Its settings.
    pub tls: FrontendTlsConfig,
}

/// `Gateway.spec.tls.frontend.default`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FrontendTlsConfig {
    /// How client certificates are checked; none: not asked for.
    pub validation: Option<FrontendTlsValidation>,
}

/// `Gateway.spec.tls.frontend.default.validation`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FrontendTlsValidation {
    /// Where the CA certificates are.
    pub ca_certificate_refs: Box<[ObjectRef]>,
    /// How strict.
    pub mode: FrontendValidationMode,
}

open_enum! {
    /// `validation.mode`.
    FrontendValidationMode {
        /// A valid certificate is required.
        AllowValidOnly = "AllowValidOnly",
        /// Missing and unverifiable certificates are let through.
        AllowInsecureFallback = "AllowInsecureFallback",
    }
}
