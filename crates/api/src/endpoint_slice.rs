//! `EndpointSlice`.

use serde::Deserialize;
use smol_str::SmolStr;

use crate::kind::Kind;
use crate::open::open_enum;
use crate::resource::{Resource, Spec};
use crate::service::TransportProtocol;

/// Endpoints of a Service; the label `kubernetes.io/service-name` says of which.
pub type EndpointSlice = Resource<EndpointSliceSpec>;

/// The label that names the Service of a slice.
pub const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";

impl EndpointSlice {
    /// The Service of this slice, in the slice's namespace.
    #[must_use]
    pub fn service_name(&self) -> Option<&str> {
        self.meta.labels.get(SERVICE_NAME_LABEL)
    }
}

/// The fields of an `EndpointSlice`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSliceSpec {
    /// Kind of addresses.
    pub address_type: SliceAddressType,
    /// Endpoints; may be null.
    pub endpoints: Box<[Endpoint]>,
    /// Ports, the same for every endpoint; may be null.
    pub ports: Box<[EndpointPort]>,
}

impl Spec for EndpointSliceSpec {
    const KIND: Kind = Kind::EndpointSlice;
    const FIELD: &'static str = "";
}

open_enum! {
    /// `EndpointSlice.addressType`.
    SliceAddressType {
        /// IPv4
        Ipv4 = "IPv4",
        /// IPv6
        Ipv6 = "IPv6",
        /// DNS names.
        Fqdn = "FQDN",
    }
}

/// `EndpointSlice.endpoints[]`: what we read of it.
///
/// There are more of these than of anything else, so the usual ones hold all of their text inside (56 bytes).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// Addresses of one and the same endpoint; the first is used.
    pub addresses: Addresses,
    /// Zone that it is in.
    pub zone: Option<SmolStr>,
    /// State.
    pub conditions: EndpointConditions,
}

/// Addresses of an endpoint: a slice of texts, without an allocation where there is one short address, as nearly always.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "Vec<SmolStr>")]
pub struct Addresses(OneOrMore);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum OneOrMore {
    One(SmolStr),
    More(Box<[SmolStr]>),
}

impl Default for Addresses {
    fn default() -> Self {
        Self(OneOrMore::More(Box::default()))
    }
}

impl From<Vec<SmolStr>> for Addresses {
    fn from(addresses: Vec<SmolStr>) -> Self {
        Self(match <[SmolStr; 1]>::try_from(addresses) {
            Ok([one]) => OneOrMore::One(one),
            Err(more) => OneOrMore::More(more.into()),
        })
    }
}

impl std::ops::Deref for Addresses {
    type Target = [SmolStr];

    fn deref(&self) -> &[SmolStr] {
        match &self.0 {
            OneOrMore::One(one) => std::slice::from_ref(one),
            OneOrMore::More(more) => more,
        }
    }
}

/// `EndpointSlice.endpoints[].conditions`. Absent is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointConditions {
    /// Takes traffic; unknown counts as true.
    pub ready: Option<bool>,
    /// Answers, whether it is terminating or not; unknown is as `ready`.
    pub serving: Option<bool>,
    /// About to go; unknown counts as false.
    pub terminating: Option<bool>,
}

/// `EndpointSlice.ports[]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointPort {
    /// Name, that of the Service's port; absent is the empty name.
    pub name: Option<Box<str>>,
    /// Port; none means every port.
    pub port: Option<u16>,
    /// Transport.
    pub protocol: TransportProtocol,
    /// As in the Service.
    pub app_protocol: Option<Box<str>>,
}
