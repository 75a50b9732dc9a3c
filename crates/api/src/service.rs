//! `Service`: what we read of it.

use std::net::IpAddr;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use crate::kind::Kind;
use crate::meta::Labels;
use crate::open::open_enum;
use crate::resource::{Resource, Spec};

/// A named set of ports; endpoints come from its slices.
pub type Service = Resource<ServiceSpec>;

/// `Service.spec`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// Type.
    #[serde(rename = "type")]
    pub service_type: ServiceType,
    /// `None` where the Service is headless.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Option<Box<str>>,
    /// Its addresses of each family.
    #[serde(rename = "clusterIPs")]
    pub cluster_ips: Box<[Box<str>]>,
    /// Further addresses at which nodes take its traffic.
    #[serde(rename = "externalIPs")]
    pub external_ips: Box<[Box<str>]>,
    /// For `ExternalName`: a DNS name.
    pub external_name: Option<Box<str>>,
    /// Ports.
    pub ports: Box<[ServicePort]>,
    /// Whether a cluster would find endpoints for it (`selector`).
    #[serde(rename = "selector", deserialize_with = "is_filled")]
    pub selects: bool,
    /// `sessionAffinity: ClientIP`, on which proxies do not act.
    #[serde(rename = "sessionAffinity", deserialize_with = "is_client_ip")]
    pub keeps_clients: bool,
    /// Any `trafficDistribution`, on which proxies do not act.
    #[serde(rename = "trafficDistribution", deserialize_with = "is_given")]
    pub prefers_endpoints: bool,
}

impl ServiceSpec {
    /// Returns whether a field asks for a choice among endpoints that proxies do not make.
    #[must_use]
    pub fn chooses(&self) -> bool {
        self.keeps_clients || self.prefers_endpoints
    }

    /// Returns the addresses that the nodes of a cluster translate to its endpoints. Those of load balancers stand in its status, which is not read.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let all = self.cluster_ip.iter().chain(&self.cluster_ips).chain(&self.external_ips);
        all.filter_map(|text| parse(text)).map(|address| address.to_canonical())
    }
}

/// Reads an address as API servers do: they take numbers with leading zeros, as decimal ones.
fn parse(text: &str) -> Option<IpAddr> {
    let number = |part: &str| part.trim_start_matches('0').parse().or_else(|_| part.parse::<u8>()).ok();
    text.parse().ok().or_else(|| {
        let parts = text.split('.').map(number).collect::<Option<Vec<u8>>>()?;
        Some(IpAddr::from(<[u8; 4]>::try_from(parts).ok()?))
    })
}

/// A field that is only warned of: whatever else is written in place of its word costs nothing.
#[derive(Deserialize)]
#[serde(untagged)]
enum Passed {
    Word(Box<str>),
    Other(IgnoredAny),
}

impl Passed {
    fn word(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Other(IgnoredAny) => "",
        }
    }
}

fn is_client_ip<'de, D: Deserializer<'de>>(word: D) -> Result<bool, D::Error> {
    Ok(Passed::deserialize(word)?.word() == "ClientIP")
}

fn is_given<'de, D: Deserializer<'de>>(word: D) -> Result<bool, D::Error> {
    Ok(!Passed::deserialize(word)?.word().is_empty())
}

fn is_filled<'de, D: Deserializer<'de>>(labels: D) -> Result<bool, D::Error> {
    Ok(!Labels::deserialize(labels)?.is_empty())
}

impl Spec for ServiceSpec {
    const KIND: Kind = Kind::Service;
}

open_enum! {
    /// `Service.spec.type`.
    ServiceType {
        /// Inside the cluster.
        ClusterIp = "ClusterIP",
        /// On every node.
        NodePort = "NodePort",
        /// Through a load balancer.
        LoadBalancer = "LoadBalancer",
        /// A DNS name elsewhere.
        ExternalName = "ExternalName",
    }
}

/// `Service.spec.ports[]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    /// Name; may be absent where there is one port only.
    pub name: Option<Box<str>>,
    /// Transport.
    pub protocol: TransportProtocol,
    /// `kubernetes.io/h2c`, `kubernetes.io/ws`, `kubernetes.io/wss`, `https`, or anything else.
    pub app_protocol: Option<Box<str>>,
    /// Port, 1 to 65535.
    pub port: u16,
    /// Port of the endpoints; none is the same as `port`.
    pub target_port: Option<IntOrString>,
}

open_enum! {
    /// Transport of a port.
    TransportProtocol {
        /// TCP
        Tcp = "TCP",
        /// UDP
        Udp = "UDP",
        /// SCTP
        Sctp = "SCTP",
    }
}

/// A number or a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IntOrString {
    /// A number.
    Int(i64),
    /// A name.
    String(Box<str>),
}

impl<'de> Deserialize<'de> for IntOrString {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl serde::de::Visitor<'_> for Either {
            type Value = IntOrString;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number or a name")
            }

            fn visit_i64<E>(self, number: i64) -> Result<IntOrString, E> {
                Ok(IntOrString::Int(number))
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<IntOrString, E> {
                i64::try_from(number).map(IntOrString::Int).map_err(E::custom)
            }

            fn visit_str<E>(self, name: &str) -> Result<IntOrString, E> {
                Ok(IntOrString::String(name.into()))
            }
        }
        deserializer.deserialize_any(Either)
    }
}
