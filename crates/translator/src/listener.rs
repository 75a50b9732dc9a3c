//! Listeners of a Gateway: what each wants, whether it can have it, and what routes may know of it.

mod check;
mod client;
mod conflict;
mod filter;
mod host;
mod port;
mod shadow;
mod shares;

use std::net::IpAddr;
use std::sync::Arc;

use api::gateway::FrontendTls;
use api::{Gateway, Kind, LabelSelector, ObjectKey};
use ir::{FleetName, RouteConfigurationName};

pub(crate) use self::check::{UNSELECTED, certificate, certificate_refs, check, warnings};
pub(crate) use self::conflict::mark_conflicts;
pub(crate) use self::filter::Gate;
pub(crate) use self::port::{
    Bound, Chain, DatagramPlace, Place, StreamPlace, Writing, chains, datagram_places, ir_listeners, listener_name,
    places, stream_places,
};
pub(crate) use self::shadow::{SetListener, Shadows, shadows};
pub(crate) use self::shares::{PortBound, PortShares, ShareKey, late as late_ports};
use crate::backend::SecretUse;
use crate::gateway::{self, Lookup};
use crate::hostname::Hostname;
use crate::key::{ClusterTarget, InFleet, Transport};

/// A listener, judged from objects alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenerPlan {
    /// Unique among the listeners of the fleet: the name, in a `ListenerSet` behind `<namespace>/<set>/`.
    pub(crate) id: Arc<str>,
    /// Unique in the object that it is in.
    pub(crate) name: Arc<str>,
    pub(crate) port: u16,
    /// None that we serve where there is none.
    pub(crate) speaks: Option<Speaks>,
    /// [`Hostname::ANY`] where none is given.
    pub(crate) hostname: Hostname,
    /// A host name is written that is none.
    pub(crate) odd_hostname: bool,
    /// Which routes it takes.
    pub(crate) namespaces: Namespaces,
    /// Kinds of routes that it takes, of those that we know.
    pub(crate) kinds: Box<[Kind]>,
    /// `Accepted`: none if it holds.
    pub(crate) refused: Option<Refusal>,
    /// `Accepted` does not hold, as its filters cannot be what they say. It keeps its host names, which a wider listener would serve unasked,
    /// and answers 500.
    pub(crate) misgated: Option<Refusal>,
    /// `ResolvedRefs`: none if it holds.
    pub(crate) unresolved: Option<Refusal>,
    /// Some of several bundles for certificates of clients cannot be used, or a certificate of its own, which is served as it was before:
    /// `ResolvedRefs` is false, and it serves with the others.
    pub(crate) untrusted: Option<Refusal>,
    /// `Conflicted`: the reason and the words.
    pub(crate) conflict: Option<Refusal>,
    /// `OverlappingTLSConfig`.
    pub(crate) overlaps: bool,
    /// Certificates to show.
    pub(crate) certificates: Vec<SecretUse>,
    /// Proxies refused one of its secrets, and have nothing in its place: it is left out until that secret changes.
    pub(crate) lacks_secret: bool,
    /// How certificates of clients are judged.
    pub(crate) client: Option<ClientPlan>,
    /// What stands between it and its routes.
    pub(crate) gate: Gate,
}

/// Judges the listeners of a Gateway and of its `ListenerSet`s against each other: clients' certificates, conflicts, ports of other Gateways,
/// overlaps. `owned`: how many of them each object has, the Gateway first.
pub(crate) fn judge_together(
    lookup: &mut impl Lookup,
    (key, gateway): (&ObjectKey, &Gateway),
    addresses: &[IpAddr],
    listeners: &mut [ListenerPlan],
    owned: impl Iterator<Item = usize>,
) {
    if let Some(frontend) = frontend(gateway) {
        client::validate(lookup, key, frontend, listeners);
    }
    leave_out_refused(lookup, &gateway::fleet(key), listeners);
    let file_mode = lookup.is_file_mode();
    if file_mode {
        // First: those that may not have their port stand in no other's way.
        shares::mark_late(listeners, |namespace, socket| {
            lookup.port_bound(key, namespace.unwrap_or(key.namespace()), socket)
        });
    }
    conflict::mark_conflicts(listeners, owned);
    conflict::mark_surplus(listeners, key.namespace());
    if !file_mode {
        conflict::mark_crowded(listeners);
    }
    conflict::mark_taken(listeners, |socket| lookup.rival(key, socket, addresses));
    conflict::mark_overlaps(listeners);
}

/// Leaves out listeners with a secret that proxies refused: as with a Secret that does not exist, that costs no other listener of the port.
fn leave_out_refused(lookup: &mut impl Lookup, fleet: &FleetName, listeners: &mut [ListenerPlan]) {
    for listener in listeners.iter_mut().filter(|listener| listener.is_tls() && listener.serves()) {
        let mut certificates = listener.certificates.iter();
        if let Some(refused) = certificates.find(|wanted| lookup.lacks_secret(fleet, wanted)) {
            let refusal = Refusal::new("InvalidCertificateRef", refused_by_proxies(refused));
            listener.unresolved = Some(refusal.at("tls.certificateRefs").naming(refused.object.clone()));
            listener.lacks_secret = true;
        } else if listener.client.as_ref().is_some_and(|client| lookup.lacks_secret(fleet, &client.bundle)) {
            client::refuse(listener);
            listener.lacks_secret = true;
        }
    }
}

/// Returns the words for the author of a Secret: a proxy's own can hold the secret.
fn refused_by_proxies(SecretUse { object, .. }: &SecretUse) -> String {
    format!(
        "{object}: the proxies refuse its content, so this listener is left out; replace the certificate or the key"
    )
}

/// Whether some port lets clients through whose certificate cannot be verified.
pub(crate) fn is_insecure(gateway: &Gateway) -> bool {
    frontend(gateway).is_some_and(client::is_insecure)
}

/// What of `spec.tls.frontend` holds nowhere: paths and words.
pub(crate) fn ports_without_clients(
    gateway: &Gateway,
    listeners: &[ListenerPlan],
) -> impl Iterator<Item = (String, String)> {
    frontend(gateway).into_iter().flat_map(|frontend| client::ports_without(frontend, listeners))
}

fn frontend(gateway: &Gateway) -> Option<&FrontendTls> {
    gateway.spec.tls.as_deref().and_then(|tls| tls.frontend.as_ref())
}

/// What is spoken on a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Http,
    Https,
    /// TLS, which ends here, and whatever is inside.
    TlsTerminate,
    /// TLS, which ends at the backend.
    TlsPassthrough,
    Tcp,
    Udp,
}

/// Where datagrams are sent that are to be dropped, on the proxy's own machine (RFC 863): nobody listens there.
pub(crate) const DISCARD_PORT: u16 = 9;

/// A port of a transport.
pub(crate) type Socket = (u16, Transport);

impl Speaks {
    /// Kinds of routes that can be carried.
    pub(crate) fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Http | Self::Https => &[Kind::HttpRoute, Kind::GrpcRoute],
            Self::TlsTerminate | Self::TlsPassthrough => &[Kind::TlsRoute],
            Self::Tcp => &[Kind::TcpRoute],
            Self::Udp => &[Kind::UdpRoute],
        }
    }

    /// Listeners of a port are told apart by the server name that clients ask for.
    pub(crate) fn has_server_names(self) -> bool {
        matches!(self, Self::Https | Self::TlsTerminate | Self::TlsPassthrough)
    }

    /// Connections are passed on, whatever is spoken on them.
    pub(crate) fn is_stream(self) -> bool {
        matches!(self, Self::TlsTerminate | Self::TlsPassthrough | Self::Tcp)
    }

    /// Host names mean something: in requests or as server names.
    pub(crate) fn has_hosts(self) -> bool {
        !matches!(self, Self::Tcp | Self::Udp)
    }
}

/// How certificates of clients are judged (`spec.tls.frontend`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientPlan {
    pub(crate) bundle: SecretUse,
    pub(crate) required: bool,
}

/// Why a condition is False.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: &'static str,
    pub(crate) text: Arc<str>,
    /// The field at fault, below what is refused or from `spec` on; empty: what is refused, as a whole.
    pub(crate) at: Box<str>,
    /// What that field names.
    pub(crate) refers_to: Option<ObjectKey>,
}

impl Refusal {
    pub(crate) fn new(reason: &'static str, text: impl Into<Arc<str>>) -> Self {
        Self { reason, text: text.into(), at: Box::default(), refers_to: None }
    }

    pub(crate) fn at(self, field: impl Into<Box<str>>) -> Self {
        Self { at: field.into(), ..self }
    }

    pub(crate) fn naming(self, object: ObjectKey) -> Self {
        Self { refers_to: Some(object), ..self }
    }

    /// The path of the field at fault; `owner` is that of what is refused.
    pub(crate) fn path(&self, owner: &str) -> String {
        match (&*self.at, owner) {
            ("", owner) => owner.to_owned(),
            (at, _) if at.starts_with("spec.") => at.to_owned(),
            (at, owner) => format!("{owner}.{at}"),
        }
    }
}

impl ListenerPlan {
    /// Why `Accepted` does not hold.
    pub(crate) fn not_accepted(&self) -> Option<&Refusal> {
        self.refused.as_ref().or(self.misgated.as_ref())
    }

    /// It gets requests: accepted, certificates there, a kind of route to take. (With some kinds wrong it still has the others, and with nobody to
    /// ask it answers by itself.)
    pub(crate) fn serves(&self) -> bool {
        let spares = |refusal: &Refusal| refusal.reason == "InvalidRouteKinds" || refusal.closes();
        let unresolved = self.unresolved.as_ref().is_some_and(|refusal| !spares(refusal));
        self.refused.is_none() && !unresolved && !self.kinds.is_empty()
    }

    /// It is in a `ListenerSet`, whose readers may know less than those of the Gateway.
    pub(crate) fn is_of_set(&self) -> bool {
        self.id != self.name
    }

    /// TLS ends here.
    pub(crate) fn is_tls(&self) -> bool {
        matches!(self.speaks, Some(Speaks::Https | Speaks::TlsTerminate))
    }

    /// Connections are passed on, whatever is spoken on them.
    pub(crate) fn is_stream(&self) -> bool {
        self.speaks.is_some_and(Speaks::is_stream)
    }

    /// Requests are routed.
    pub(crate) fn is_http(&self) -> bool {
        matches!(self.speaks, Some(Speaks::Http | Speaks::Https))
    }

    /// Where it listens. One of a protocol that we do not know stands in nobody's way.
    pub(crate) fn socket(&self) -> Socket {
        (self.port, if self.speaks == Some(Speaks::Udp) { Transport::Udp } else { Transport::Tcp })
    }
}

/// From which namespaces a listener takes routes, or a Gateway `ListenerSet`s.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Namespaces {
    Same,
    All,
    Selector(Arc<LabelSelector>),
    None,
}

impl Namespaces {
    /// Whether an object of a namespace is taken by one of the namespace `own`; `selects` says whether a selector selects it.
    pub(crate) fn admit(&self, own: &str, namespace: &str, selects: impl FnOnce(&LabelSelector) -> bool) -> bool {
        match self {
            Self::Same => own == namespace,
            Self::All => true,
            Self::Selector(selector) => selects(selector),
            Self::None => false,
        }
    }
}

/// What routes may know of a parent, a Gateway or a `ListenerSet`: the less, the fewer of them look again when it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouteScope {
    pub(crate) owner: Arc<Owner>,
    pub(crate) listeners: Vec<ScopeListener>,
}

impl RouteScope {
    pub(crate) fn of(owner: &Arc<Owner>, listeners: &[ListenerPlan]) -> Self {
        Self { owner: owner.clone(), listeners: listeners.iter().map(ScopeListener::of).collect() }
    }

    /// None of the listeners takes anything.
    pub(crate) fn refuse(&mut self, why: &Arc<str>) {
        for listener in &mut self.listeners {
            listener.takes = Takes::Nothing(why.clone());
        }
    }
}

/// Whose a Gateway is: shared by all routes that are attached to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Whose configuration it is.
    pub(crate) fleet: FleetName,
    /// Who we are.
    pub(crate) controller: Arc<str>,
}

/// A listener as routes see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScopeListener {
    pub(crate) id: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) hostname: Hostname,
    /// TLS of clients goes to the backend as it comes.
    pub(crate) passes_tls: bool,
    pub(crate) takes: Takes,
    pub(crate) namespaces: Namespaces,
    /// Clusters without which none of its routes can be served.
    pub(crate) asked: Arc<[ClusterTarget]>,
}

impl ScopeListener {
    /// One whose protocol we do not serve takes no routes, whatever its `allowedRoutes` say.
    fn of(listener: &ListenerPlan) -> Self {
        let takes = match &listener.refused {
            Some(refusal) if listener.speaks.is_none() => Takes::Nothing(refusal.text.clone()),
            _ => Takes::Kinds(listener.kinds.clone()),
        };
        Self {
            id: listener.id.clone(),
            name: listener.name.clone(),
            hostname: listener.hostname.clone(),
            passes_tls: listener.speaks == Some(Speaks::TlsPassthrough),
            takes,
            namespaces: listener.namespaces.clone(),
            asked: listener.gate.clusters.clone(),
        }
    }
}

/// What a listener takes, as far as kinds of routes go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Routes of these kinds; none where all kinds that it allows are unknown.
    Kinds(Box<[Kind]>),
    /// Nothing at all: why it cannot be used.
    Nothing(Arc<str>),
}

impl Takes {
    /// Whether it takes routes of a kind.
    pub(crate) fn has(&self, kind: Option<Kind>) -> bool {
        matches!((self, kind), (Self::Kinds(kinds), Some(kind)) if kinds.contains(&kind))
    }
}

/// The key of a chain: the route configuration behind it.
pub(crate) type ChainKey = InFleet<RouteConfigurationName>;
