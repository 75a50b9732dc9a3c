//! `EndpointSlice`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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

/// The label that names the `ServiceImport` of a slice.
pub const IMPORT_NAME_LABEL: &str = "multicluster.kubernetes.io/service-name";

impl EndpointSlice {
    /// The `ServiceImport` of this slice, in the slice's namespace.
    #[must_use]
    pub fn import_name(&self) -> Option<&str> {
        self.meta.labels.get(IMPORT_NAME_LABEL)
    }

    /// The Service of this slice, in the slice's namespace.
    #[must_use]
    pub fn service_name(&self) -> Option<&str> {
        self.meta.labels.get(SERVICE_NAME_LABEL)
    }
}

/// The fields of an `EndpointSlice`.
///
/// There are more endpoints than of anything else, so they are kept apart from their zones, in 12 bytes each.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(from = "Written")]
pub struct EndpointSliceSpec {
    /// Kind of addresses.
    pub address_type: SliceAddressType,
    /// Ports, the same for every endpoint; may be null.
    pub ports: Box<[EndpointPort]>,
    packed: Box<[Packed]>,
    /// What only some slices have: zones, and addresses that are not IPv4, both looked up by number.
    rest: Option<Box<Rest>>,
}

impl EndpointSliceSpec {
    /// Endpoints whose first address (of one and the same endpoint) is an IP address.
    pub fn endpoints(&self) -> impl ExactSizeIterator<Item = Endpoint<'_>> {
        self.packed.iter().map(|packed| {
            let rest = self.rest.as_deref();
            let address = match packed.address {
                PackedAddress::V4(address) => address.into(),
                PackedAddress::V6(at) => {
                    rest.and_then(|rest| rest.v6.get(usize::from(at))).copied().unwrap_or(Ipv6Addr::UNSPECIFIED).into()
                }
            };
            let zone = rest.and_then(|rest| rest.zones.get(usize::from(packed.zone))).map(|zone| &**zone);
            Endpoint { address, zone, conditions: packed.conditions }
        })
    }
}

/// `EndpointSlice.endpoints[]`: what we read of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint<'a> {
    /// The first of its addresses.
    pub address: IpAddr,
    /// Zone that it is in.
    pub zone: Option<&'a str>,
    /// State.
    pub conditions: EndpointConditions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Packed {
    address: PackedAddress,
    /// [`NO_ZONE`] for none.
    zone: u16,
    conditions: EndpointConditions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum PackedAddress {
    V4(Ipv4Addr),
    V6(u16),
}

const NO_ZONE: u16 = u16::MAX;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Rest {
    zones: Vec<Box<str>>,
    v6: Vec<Ipv6Addr>,
}

/// As written.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Written {
    address_type: SliceAddressType,
    endpoints: Vec<WrittenEndpoint>,
    ports: Box<[EndpointPort]>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenEndpoint {
    addresses: First,
    zone: Option<SmolStr>,
    conditions: EndpointConditions,
}

impl From<Written> for EndpointSliceSpec {
    fn from(Written { address_type, endpoints, ports }: Written) -> Self {
        let mut rest = Rest::default();
        let pack = |endpoint: WrittenEndpoint| {
            let address = match endpoint.addresses.0? {
                IpAddr::V4(address) => PackedAddress::V4(address),
                // A slice has at most 1,000 endpoints.
                IpAddr::V6(address) => {
                    rest.v6.push(address);
                    PackedAddress::V6(u16::try_from(rest.v6.len() - 1).ok()?)
                }
            };
            let zone = endpoint.zone.map_or(NO_ZONE, |zone| number_of(&zone, &mut rest.zones));
            Some(Packed { address, zone, conditions: endpoint.conditions })
        };
        let packed = endpoints.into_iter().filter_map(pack).collect();
        rest.zones.shrink_to_fit();
        rest.v6.shrink_to_fit();
        let rest = (rest != Rest::default()).then(|| Box::new(rest));
        Self { address_type, ports, packed, rest }
    }
}

/// The number of a zone, a new one if it is the first endpoint there.
fn number_of(zone: &str, zones: &mut Vec<Box<str>>) -> u16 {
    let at = zones.iter().position(|known| **known == *zone).unwrap_or_else(|| {
        zones.push(zone.into());
        zones.len() - 1
    });
    u16::try_from(at).unwrap_or(NO_ZONE)
}

/// The first of a list of texts, if it is an IP address.
#[derive(Default)]
struct First(Option<IpAddr>);

impl<'de> Deserialize<'de> for First {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;
        impl<'de> serde::de::Visitor<'de> for Texts {
            type Value = First;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of texts")
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut texts: A) -> Result<First, A::Error> {
                let first = texts.next_element::<SmolStr>()?;
                while texts.next_element::<serde::de::IgnoredAny>()?.is_some() {}
                Ok(First(first.and_then(|text| text.parse().ok())))
            }
        }
        deserializer.deserialize_seq(Texts)
    }
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
