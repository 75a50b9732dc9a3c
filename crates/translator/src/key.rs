//! Keys of the graph's tables. The order of a group is the order of its keys, so sort orders are in here.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use api::gateway::Protocol;
use api::meta::{FirstSeen, ObjectMeta};
use api::service::TransportProtocol;
use api::{Kind, ObjectKey};
use engine::{Stable, StableHasher};
use ir::{ClusterName, EndpointSetName, FleetName, RouteConfigurationName, TcpProxyName, VirtualHostName};

use crate::backend::Encryption;
use crate::hostname::Hostname;

/// Something of one fleet, by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InFleet<N> {
    /// Whose.
    pub fleet: FleetName,
    /// Which.
    pub name: N,
}

/// A virtual host of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualHostKey {
    /// Whose.
    pub fleet: FleetName,
    /// The route configuration that it belongs to.
    pub configuration: RouteConfigurationName,
    /// Which.
    pub name: VirtualHostName,
}

/// What carries it: a port of the one is none of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    /// Of a protocol as a listener writes it.
    pub(crate) fn of(protocol: &Protocol) -> Self {
        if *protocol == Protocol::Udp { Self::Udp } else { Self::Tcp }
    }

    /// What a kind of route is about.
    pub(crate) fn of_route(route: &ObjectKey) -> Self {
        if route.kind() == Some(Kind::UdpRoute) { Self::Udp } else { Self::Tcp }
    }

    /// As a Service and its slices write it.
    pub(crate) fn word(self) -> TransportProtocol {
        match self {
            Self::Tcp => TransportProtocol::Tcp,
            Self::Udp => TransportProtocol::Udp,
        }
    }
}

/// What can be sent to: one port of a Service or `ServiceImport`, or a `Backend` or `XBackend` (port 0).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BackendKey {
    /// Which object.
    pub object: ObjectKey,
    /// The Service's port, 1 to 65535; 0 where ports are not told apart.
    pub port: u16,
    /// Of that port; TCP where ports are not told apart, whose endpoints are for both.
    pub transport: Transport,
}

impl BackendKey {
    /// `<namespace>/<service>/<port>`, that behind `ServiceImport/`, `UDP/` or both, or `Backend/<namespace>/<name>` and `XBackend/..`: no namespace has a
    /// capital letter, so that nobody can take the name of another's backend.
    pub(crate) fn text(&self) -> String {
        let (namespace, name) = (self.object.namespace(), self.object.name());
        let transport = if self.transport == Transport::Udp { "UDP/" } else { "" };
        match self.object.kind() {
            Some(kind @ (Kind::Backend | Kind::XBackend)) => format!("{kind}/{namespace}/{name}"),
            Some(Kind::ServiceImport) => format!("{transport}ServiceImport/{namespace}/{name}/{}", self.port),
            _ => format!("{transport}{namespace}/{name}/{}", self.port),
        }
    }

    /// The name of its set of endpoints, the same for every cluster that reads it.
    pub(crate) fn endpoint_set(&self) -> EndpointSetName {
        self.text().into()
    }
}

/// A backend as one fleet uses it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClusterKey {
    /// Whose.
    pub fleet: FleetName,
    /// Which backend, and with whose settings.
    pub target: ClusterTarget,
}

/// A backend with the identity of the settings that are not the fleet's own. One `Arc`, which all routes to a backend share.
#[derive(Clone, Debug)]
pub(crate) struct ClusterTarget(Arc<Target>);

#[derive(Debug)]
struct Target {
    backend: BackendKey,
    policy: Option<ObjectKey>,
    over: Over,
    /// As it was when the target was made: one of other encryption is another cluster, so that a route and what it needs change as one.
    encryption: Encryption,
    /// Follows from the others.
    name: ClusterName,
}

/// What is sent to a backend where that is not decided by the backend itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Over {
    Own,
    /// gRPC, over HTTP/2 whatever the backend says of itself.
    Grpc,
    /// TLS of the client's own, as it comes.
    Passthrough,
    /// What the proxy tells of itself, by gRPC. Clusters of routes are told apart from it: they come and go with these.
    Telemetry,
}

impl ClusterTarget {
    /// A backend with the fleet's own settings. In cleartext the cluster has the name of the backend's set of endpoints, and shares it where
    /// there is one.
    pub(crate) fn of(backend: BackendKey, set: Option<&EndpointSetName>, encryption: Encryption) -> Self {
        match set {
            Some(set) if encryption == Encryption::Cleartext => {
                let name = ClusterName(set.0.clone());
                Self(Arc::new(Target { backend, policy: None, over: Over::Own, encryption, name }))
            }
            _ => Self::new(backend, None, Over::Own, encryption),
        }
    }

    /// The same under a policy of the route or rule that sends there. The cluster's name gets a hash of the policy's identity
    /// behind (an edit of the policy changes the cluster and not its name).
    pub(crate) fn under(&self, policy: &ObjectKey) -> Self {
        self.with(Some(policy.clone()), self.0.over)
    }

    /// The same for gRPC, which is spoken over HTTP/2 whatever the backend says of itself.
    pub(crate) fn over_grpc(&self) -> Self {
        self.with(self.0.policy.clone(), Over::Grpc)
    }

    /// The same for what the proxy tells of itself.
    pub(crate) fn for_telemetry(&self) -> Self {
        self.with(self.0.policy.clone(), Over::Telemetry)
    }

    /// The same for TLS that is passed through, to which nothing is added.
    pub(crate) fn passed_through(&self) -> Self {
        Self::new(self.0.backend.clone(), self.0.policy.clone(), Over::Passthrough, Encryption::Cleartext)
    }

    fn with(&self, policy: Option<ObjectKey>, over: Over) -> Self {
        Self::new(self.0.backend.clone(), policy, over, self.0.encryption.clone())
    }

    fn new(backend: BackendKey, policy: Option<ObjectKey>, over: Over, encryption: Encryption) -> Self {
        let mut name = backend.text();
        if let Some(policy) = &policy {
            let hash = short_hash(&[policy.kind_name(), policy.namespace(), policy.name()]);
            name = format!("{name}~{hash}");
        }
        match &encryption {
            // Whoever names it has a listener made anew for another name.
            _ if over == Over::Telemetry => {}
            Encryption::Cleartext => {}
            Encryption::Tls(tls) => {
                let hash = short_hash(&[&format!("{:?}", tls.upstream)]);
                name = format!("{name}{TLS}{hash}");
            }
            Encryption::Closed => name = format!("{name}{TLS}closed"),
        }
        let name = match over {
            Over::Own => name.into(),
            Over::Grpc => format!("{name}~grpc").into(),
            Over::Passthrough => format!("{name}~passthrough").into(),
            Over::Telemetry => format!("{name}~telemetry").into(),
        };
        Self(Arc::new(Target { backend, policy, over, encryption, name }))
    }

    /// Over what it is spoken to.
    pub(crate) fn encryption(&self) -> &Encryption {
        &self.0.encryption
    }

    /// Whether it is for gRPC.
    pub(crate) fn is_grpc(&self) -> bool {
        matches!(self.0.over, Over::Grpc | Over::Telemetry)
    }

    /// Whether it is for TLS that is passed through.
    pub(crate) fn is_passthrough(&self) -> bool {
        self.0.over == Over::Passthrough
    }

    /// Which.
    pub(crate) fn backend(&self) -> &BackendKey {
        &self.0.backend
    }

    /// The policy of the route or rule that sends there, if there is one.
    pub(crate) fn policy(&self) -> Option<&ObjectKey> {
        self.0.policy.as_ref()
    }

    /// The name of its set of endpoints, should it have one.
    pub(crate) fn set(&self) -> EndpointSetName {
        match self.parts() {
            (_, None, Over::Own, Encryption::Cleartext) => self.0.name.0.clone().into(),
            _ => self.backend().endpoint_set(),
        }
    }

    /// The cluster's name.
    pub(crate) fn name(&self) -> &ClusterName {
        &self.0.name
    }

    fn parts(&self) -> (&BackendKey, Option<&ObjectKey>, Over, &Encryption) {
        (self.backend(), self.policy(), self.0.over, self.encryption())
    }
}

impl PartialEq for ClusterTarget {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.parts() == other.parts()
    }
}

impl Eq for ClusterTarget {}

impl Ord for ClusterTarget {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.parts().cmp(&other.parts()) }
    }
}

impl PartialOrd for ClusterTarget {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for ClusterTarget {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

/// What in the name of a cluster is in front of a hash of its TLS settings.
const TLS: &str = "~tls-";

/// The name of a cluster without what depends on its TLS settings; none where it has none.
pub(crate) fn without_tls(cluster: &str) -> Option<Arc<str>> {
    let (before, behind) = cluster.split_once(TLS)?;
    let behind = behind.find('~').and_then(|at| behind.get(at..)).unwrap_or_default();
    Some(format!("{before}{behind}").into())
}

/// The set of endpoints of a cluster, should it have one: what is behind the backend's name are settings.
pub(crate) fn set_of(cluster: &ClusterName) -> EndpointSetName {
    cluster.0.split('~').next().unwrap_or_default().into()
}

/// A route in names: `<namespace>/<name>`, with the kind in front where it is not an `HTTPRoute`.
pub(crate) fn route_name(route: &ObjectKey) -> String {
    let name = format!("{}/{}", route.namespace(), route.name());
    if route.kind() == Some(Kind::HttpRoute) { name } else { format!("{}/{name}", route.kind_name()) }
}

/// The [`route_name`] at the beginning of a name of one of its entries. No namespace begins with a capital letter.
pub(crate) fn route_named(entry: &str) -> String {
    let parts = if entry.starts_with(|first: char| first.is_ascii_uppercase()) { 3 } else { 2 };
    entry.split('/').take(parts).collect::<Vec<_>>().join("/")
}

/// Eight hexadecimal digits, the same on every replica.
pub(crate) fn short_hash(parts: &[&str]) -> String {
    let mut hasher = StableHasher::default();
    parts.iter().for_each(|part| hasher.bytes(part.as_bytes()));
    format!("{:08x}", hasher.finish() >> 32)
}

/// A route in a fleet: the unit that waits for its clusters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttachmentKey {
    /// Whose.
    pub fleet: FleetName,
    /// Which route.
    pub route: ObjectKey,
}

/// A listener by its id ([`crate::listener::ListenerPlan`]).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ListenerKey {
    pub(crate) fleet: FleetName,
    pub(crate) listener: Arc<str>,
}

/// The routes that one listener has under one host name as written in the route: what a virtual host is put together from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Bucket {
    pub(crate) listener: ListenerKey,
    pub(crate) hostname: Hostname,
}

/// One route entry; the order is that of precedence inside a bucket (Gateway API `HTTPRouteRule.matches`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EntryKey {
    pub(crate) bucket: Arc<Bucket>,
    pub(crate) rank: Rank,
    pub(crate) age: Age,
    pub(crate) route: ObjectKey,
    pub(crate) place: Place,
}

impl Stable for EntryKey {
    fn stable(&self, hasher: &mut StableHasher) {
        hasher.number(u64::from(self.rank.0));
        hasher.bytes(self.route.namespace().as_bytes());
        hasher.bytes(self.route.name().as_bytes());
        hasher.number(u64::from(self.place.rule) << 16 | u64::from(self.place.matched));
    }
}

/// How specific a match is: smaller is tried first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Rank(pub(crate) u32);

/// The age of an object, the oldest first: in files the change that brought it, then the time when it was made. Objects that do not say are the youngest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Age {
    /// 0 where no files are followed: only the time decides then.
    change: u32,
    /// In seconds since 1970.
    created: u32,
}

impl From<&ObjectMeta> for Age {
    fn from(meta: &ObjectMeta) -> Self {
        match meta.first_seen {
            Some(FirstSeen { change, created }) => Self { change: change.get(), created },
            None => Self { change: 0, created: meta.created() },
        }
    }
}

impl Stable for Age {
    fn stable(&self, hasher: &mut StableHasher) {
        hasher.number(u64::from(self.change) << 32 | u64::from(self.created));
    }
}

/// Where in its route an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) rule: u16,
    pub(crate) matched: u16,
}

/// Precedence among objects that claim one thing: older first, then namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Seniority {
    pub(crate) age: Age,
    pub(crate) object: ObjectKey,
}

impl Stable for Seniority {
    fn stable(&self, hasher: &mut StableHasher) {
        self.age.stable(hasher);
        hasher.bytes(self.object.kind_name().as_bytes());
        hasher.bytes(self.object.namespace().as_bytes());
        hasher.bytes(self.object.name().as_bytes());
    }
}

/// The connections of a listener under one server name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey {
    pub(crate) listener: ListenerKey,
    pub(crate) hostname: Hostname,
    /// Follows from the others and the listener's port.
    pub(crate) name: TcpProxyName,
}

impl StreamKey {
    /// Whose.
    #[must_use]
    pub fn fleet(&self) -> &FleetName {
        &self.listener.fleet
    }

    /// Which.
    #[must_use]
    pub fn name(&self) -> &TcpProxyName {
        &self.name
    }
}

/// A problem of an object, by number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProblemKey {
    /// What it is about.
    pub object: ObjectKey,
    /// Which of its problems, from 0.
    pub number: u32,
}

impl ProblemKey {
    /// Above the numbers of problems that are counted.
    pub(crate) const UNCOUNTED: u32 = 1 << 24;

    /// One of several that are told apart by these words.
    pub(crate) fn hashed(object: &ObjectKey, words: &[&str]) -> Self {
        let hash = u32::from_str_radix(&short_hash(words), 16).unwrap_or_default();
        Self { object: object.clone(), number: hash | Self::UNCOUNTED }
    }
}
