//! What travels: resources, opaque but for their name, version and the names of what they need.

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64_with_seed;

#[cfg(test)]
mod tests;

/// A kind of resource. The declaration order is only that of maps; the order of delivery is in `order`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TypeUrl {
    /// `envoy.config.cluster.v3.Cluster`, CDS.
    Cluster,
    /// `envoy.config.endpoint.v3.ClusterLoadAssignment`, EDS.
    Endpoints,
    /// `envoy.config.endpoint.v3.LbEndpoint`, LEDS.
    LocalityEndpoint,
    /// `envoy.config.listener.v3.Listener`, LDS.
    Listener,
    /// `envoy.extensions.transport_sockets.tls.v3.Secret`, SDS.
    Secret,
    /// `envoy.config.route.v3.ScopedRouteConfiguration`, SRDS.
    ScopedRoute,
    /// `envoy.config.route.v3.RouteConfiguration`, RDS.
    Route,
    /// `envoy.config.route.v3.VirtualHost`, VHDS. The part of a name before its last `/` is the route configuration.
    VirtualHost,
    /// `envoy.service.runtime.v3.Runtime`, RTDS.
    Runtime,
    /// `envoy.config.core.v3.TypedExtensionConfig`, ECDS.
    ExtensionConfig,
    /// Any other type URL, in full.
    Other(Arc<str>),
}

/// Each known kind with its type URL.
const TYPE_URLS: [(TypeUrl, &str); 10] = [
    (TypeUrl::Cluster, "type.googleapis.com/envoy.config.cluster.v3.Cluster"),
    (TypeUrl::Endpoints, "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"),
    (TypeUrl::LocalityEndpoint, "type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint"),
    (TypeUrl::Listener, "type.googleapis.com/envoy.config.listener.v3.Listener"),
    (TypeUrl::Secret, "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"),
    (TypeUrl::ScopedRoute, "type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration"),
    (TypeUrl::Route, "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"),
    (TypeUrl::VirtualHost, "type.googleapis.com/envoy.config.route.v3.VirtualHost"),
    (TypeUrl::Runtime, "type.googleapis.com/envoy.service.runtime.v3.Runtime"),
    (TypeUrl::ExtensionConfig, "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"),
];

impl TypeUrl {
    /// Whether a client that names none of this kind means all, waits for the answer even if there is none, and takes what a `SotW` response
    /// lacks for removed (xDS protocol, LDS and CDS; Envoy asks for SRDS in the same way).
    #[must_use]
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Cluster | Self::Listener | Self::ScopedRoute)
    }

    /// The type URL in full.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Other(url) => url,
            known => TYPE_URLS.iter().find(|(kind, _)| kind == known).map_or("", |(_, url)| url),
        }
    }
}

impl From<&str> for TypeUrl {
    fn from(url: &str) -> Self {
        TYPE_URLS
            .iter()
            .find(|(_, known)| *known == url)
            .map_or_else(|| Self::Other(url.into()), |(kind, _)| kind.clone())
    }
}

impl fmt::Display for TypeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The hash of a resource's canonical bytes. On the wire it is 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u128);

impl Version {
    // No resource has one of the following: a hash is none of three values.

    /// Of what a client is given in place of a resource that does not exist (rule R6).
    pub(crate) const STAND_IN: Self = Self(0);

    /// Of what a client may have or not.
    pub(crate) const UNSURE: Self = Self(u128::MAX - 1);

    /// Of what a client has under a name and is none of ours.
    pub(crate) const FOREIGN: Self = Self(u128::MAX);

    /// Length of the text.
    pub(crate) const DIGITS: usize = 32;

    /// The text, as on the wire.
    pub(crate) fn digits(self) -> [u8; Self::DIGITS] {
        let digit = |at: usize| match (self.0 >> (4 * (Self::DIGITS - 1 - at)) & 15) as u8 {
            low @ ..10 => b'0' + low,
            high => b'a' + (high - 10),
        };
        std::array::from_fn(digit)
    }

    /// See [`Mark`].
    pub(crate) fn mark(self) -> Mark {
        Mark(NonZeroU64::MIN | (self.0 as u64) << 1)
    }

    /// The version of a text that a client sent; none if it is none of ours.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        digits.then(|| u128::from_str_radix(text, 16).ok().map(Self)).flatten()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// A version among those of one name: the lower 63 bits of it, in an eighth of the memory that an optional version takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark(NonZeroU64);

impl Mark {
    /// This version's part in what stands for many names together.
    pub(crate) fn digest(self, name: &str) -> u64 {
        xxh3_64_with_seed(name.as_bytes(), self.0.get())
    }
}

/// Another resource of the fleet, by kind and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Need {
    /// Its kind.
    pub type_url: TypeUrl,
    /// Its name.
    pub name: Arc<str>,
}

impl Need {
    /// The resource `name` of the kind `type_url`.
    pub fn new(type_url: TypeUrl, name: impl Into<Arc<str>>) -> Self {
        Self { type_url, name: name.into() }
    }
}

/// One resource of one fleet. Its message is never looked into.
#[derive(Clone)]
pub struct Resource {
    /// Its kind.
    pub type_url: TypeUrl,
    /// Unique in the fleet and kind. It must be the name inside the message too: Envoy goes by that one.
    pub name: Arc<str>,
    /// The hash of its content; any value but 0.
    pub version: Version,
    /// The message (not the `Any` around it) in pieces that are shared and never copied.
    pub body: Box<[Bytes]>,
    /// What must be there before this can serve: the clusters of a route, the route configurations and secrets of a listener,
    /// the secrets of a cluster, its endpoint set if that has another name than the cluster. In slices, so that the pieces of a
    /// large resource share theirs between its versions: what is equal by pointer is not compared again.
    pub needs: Box<[Arc<[Need]>]>,
    /// A resource of the same kind that this one takes the place of: it goes away in the very response that brings this one
    /// (a renamed listener on its address, a domain that moves to another virtual host).
    pub replaces: Option<Box<Arc<str>>>,
    /// How long a client may use it without hearing of it again, in milliseconds (`Resource.ttl`): told to those who understand it, and
    /// renewed by heartbeats at half of it. None for clusters and listeners, ever: a control plane that stops would take the proxies
    /// with it.
    pub ttl_millis: Option<NonZeroU32>,
    /// A cluster that may not warm soon (secrets, DNS that Envoy waits for, active health checks): it is sent alone, after the
    /// others. If it needs no secrets, only the acknowledgement of the cluster itself proves it warm.
    pub apart: bool,
    /// A route configuration whose hosts come by VHDS. The last piece of its body is the field that says so
    /// (`RouteConfiguration.vhds`) and nothing else: clients that know no VHDS get the hosts in its place.
    /// A configuration that had its hosts inside must not ask for them under the same name: Envoy forgets those that were inside when it
    /// takes it, before the others come.
    pub vhds: bool,
}

impl Resource {
    /// A resource that needs nothing and of which there is nothing special.
    #[must_use]
    pub fn new(type_url: TypeUrl, name: impl Into<Arc<str>>, version: Version, body: impl Into<Box<[Bytes]>>) -> Self {
        let (name, body, needs) = (name.into(), body.into(), Box::default());
        Self { type_url, name, version, body, needs, replaces: None, ttl_millis: None, apart: false, vhds: false }
    }

    /// All its needs in order.
    pub fn needs(&self) -> impl Iterator<Item = &Need> {
        self.needs.iter().flat_map(|slice| slice.iter())
    }

    /// [`Self::ttl_millis`].
    #[must_use]
    pub fn ttl(&self) -> Option<Duration> {
        self.ttl_millis.map(|millis| Duration::from_millis(millis.get().into()))
    }

    /// Length of the message in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.body.iter().map(Bytes::len).sum()
    }
}

/// Bodies can hold private keys: only the size is shown.
impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Resource({:?} {} {:?}, {} bytes)", self.type_url, self.name, self.version, self.size())
    }
}

/// One change of a fleet's resources.
#[derive(Clone, Debug)]
pub enum Change {
    /// The resource is new or has new content.
    Put(Arc<Resource>),
    /// There is no such resource any more.
    Remove {
        /// Its kind.
        type_url: TypeUrl,
        /// Its name.
        name: Arc<str>,
    },
}

/// What changed in one fleet, to be seen by its clients at once.
#[derive(Clone, Debug)]
pub struct FleetUpdate {
    /// Whose configuration it is.
    pub fleet: Arc<str>,
    /// The changes; of several for one name the last counts. Empty: the fleet exists and has nothing new.
    pub changes: Vec<Change>,
}

/// The route configuration that a virtual host of VHDS belongs to: its name up to the last `/`, as Envoy takes it.
#[must_use]
pub fn route_configuration_of(virtual_host: &str) -> Option<&str> {
    virtual_host.rsplit_once('/').map(|(route_configuration, _)| route_configuration)
}
