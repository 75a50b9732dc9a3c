//! Backends: what stands behind a reference, how it is spoken to, and the cluster that comes of it in a fleet.

pub(crate) mod cluster;
pub(crate) mod object;
pub(crate) mod own;
pub(crate) mod service;
pub(crate) mod slice;
pub(crate) mod x_backend;

use std::sync::Arc;

use api::{Kind, ObjectKey, Problem};
use ir::EndpointSource;
use ir::cluster::{Protocol, UpstreamTls};
use ir::route::Session;

use crate::key::ClusterTarget;
use crate::reference::{RefFault, unfit};

/// Why a backend cannot be used; the share of the requests that goes there is answered with 500.
pub(crate) type BackendFault = RefFault;

/// A backend that can be sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackendView {
    pub(crate) endpoints: EndpointSource,
    /// Name of the Service's port, by which its slices name theirs; empty where it has none.
    pub(crate) port_name: Box<str>,
    pub(crate) protocol: Protocol,
    /// As it says itself; a policy says it in its place.
    pub(crate) encryption: Encryption,
    /// Why no datagrams can be sent there; none if they can.
    pub(crate) no_datagrams: Option<&'static str>,
    /// What clients bring back to come to the same endpoint.
    pub(crate) session: Option<Arc<Session>>,
}

/// What a backend is spoken to over.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Encryption {
    #[default]
    Cleartext,
    Tls(Arc<Tls>),
    /// Whom to believe cannot be had, and nothing is sent.
    Closed,
}

/// TLS, with all that it needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tls {
    pub(crate) upstream: UpstreamTls,
    /// Secrets that it names.
    pub(crate) secrets: Box<[SecretUse]>,
}

impl Encryption {
    /// Without a certificate of its own, and whoever answers is believed.
    pub(crate) fn unverified() -> Self {
        Self::tls(UpstreamTls::unverified(), Vec::new())
    }

    pub(crate) fn tls(upstream: UpstreamTls, secrets: Vec<SecretUse>) -> Self {
        Self::Tls(Arc::new(Tls { upstream, secrets: secrets.into() }))
    }

    /// Whether it is TLS.
    pub(crate) fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Secrets that it names.
    pub(crate) fn secrets(&self) -> &[SecretUse] {
        if let Self::Tls(tls) = self { &tls.secrets } else { &[] }
    }
}

/// Proxies resolve a name to find it: there is no set of endpoints that could be shared.
pub(crate) const RESOLVED: &str = "has a name that is resolved";

/// A Secret, `ConfigMap` or `ClusterTrustBundle` that a proxy gets, and as what; or several of them as one bundle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SecretUse {
    /// Which object.
    pub(crate) object: ObjectKey,
    /// As a certificate with its key, or as a bundle of certificates to believe.
    pub(crate) part: SecretPart,
    /// More objects whose bundles belong to the same.
    pub(crate) with: Box<[ObjectKey]>,
}

impl SecretUse {
    /// One object.
    pub(crate) fn of(object: ObjectKey, part: SecretPart) -> Self {
        Self { object, part, with: Box::default() }
    }

    /// Bundles that are believed together; none where there is no bundle.
    pub(crate) fn bundles(objects: impl IntoIterator<Item = ObjectKey>) -> Option<Self> {
        let mut objects = objects.into_iter();
        let object = objects.next()?;
        let mut with: Vec<ObjectKey> = Vec::new();
        for other in objects.filter(|other| *other != object) {
            if !with.contains(&other) {
                with.push(other);
            }
        }
        Some(Self { object, part: SecretPart::Bundle, with: with.into() })
    }

    /// The single objects of it.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Self> {
        let part = self.part;
        std::iter::once(&self.object).chain(&self.with).map(move |object| Self::of(object.clone(), part))
    }
}

/// Kinds of objects that can hold certificates to believe.
const BUNDLES: [Kind; 3] = [Kind::ConfigMap, Kind::Secret, Kind::ClusterTrustBundle];

/// Whether objects of a kind can hold certificates to believe.
pub(crate) fn holds_bundles(kind: Option<Kind>) -> bool {
    kind.is_some_and(|kind| BUNDLES.contains(&kind))
}

/// Why objects of a kind hold none: the kind is another one, or the API server does not have it.
pub(crate) fn no_bundle(group: &str, kind: &str) -> String {
    if holds_bundles(Kind::find(group, kind)) {
        format!("the API server has no {kind}")
    } else {
        unfit(group, kind, "a bundle of CA certificates", &BUNDLES)
    }
}

/// Kinds of objects that can be sent to, in the order of [`of_kind`].
pub(crate) const KINDS: [Kind; 4] = [Kind::Service, Kind::ServiceImport, Kind::Backend, Kind::XBackend];

/// What there is once for each of [`KINDS`], of the kind of an object.
pub(crate) fn of_kind<T>([services, imports, objects, x_backends]: [T; 4], object: &ObjectKey) -> T {
    match object.kind() {
        Some(Kind::ServiceImport) => imports,
        Some(Kind::Backend) => objects,
        Some(Kind::XBackend) => x_backends,
        _ => services,
    }
}

/// Whether objects of a kind can be sent to.
pub(crate) fn is_backend(kind: Option<Kind>) -> bool {
    kind.is_some_and(|kind| KINDS.contains(&kind))
}

/// Whether ports of objects of a kind are told apart.
pub(crate) fn has_ports(kind: Option<Kind>) -> bool {
    matches!(kind, Some(Kind::Service | Kind::ServiceImport))
}

/// What of an object is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SecretPart {
    /// `tls.crt` and `tls.key`.
    Certificate,
    /// `ca.crt`.
    Bundle,
}

/// What reading a Service or `Backend` gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Usable, or why not.
    pub(crate) view: Result<BackendView, BackendFault>,
    /// Worth saying although it works.
    pub(crate) problems: Box<[Arc<Problem>]>,
    /// The Service asks for a choice among endpoints that proxies do not make.
    pub(crate) is_choosy: bool,
}

/// All that routes read of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// What everything behind shares, in place of one more copy per reference.
    pub(crate) target: ClusterTarget,
    /// None: it can be sent to.
    pub(crate) fault: Option<Box<BackendFault>>,
    /// Why no datagrams can be sent there; none if they can.
    pub(crate) no_datagrams: Option<&'static str>,
    /// How it wants what is sent to it to be treated.
    pub(crate) treatment: Option<Arc<Treatment>>,
}

/// How a backend wants what is sent to it to be treated; none is as any other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Treatment {
    pub(crate) session: Option<Arc<Session>>,
    /// Its clusters have a retry budget.
    pub(crate) retry_budget: bool,
}

impl Treatment {
    pub(crate) fn shared(self) -> Option<Arc<Self>> {
        (self != Self::default()).then(|| Arc::new(self))
    }
}

/// What a reference to a backend leads to.
pub(crate) struct Sendable {
    pub(crate) target: ClusterTarget,
    pub(crate) treatment: Option<Arc<Treatment>>,
}

impl Reading {
    pub(crate) fn good(view: BackendView) -> Self {
        Self { view: Ok(view), problems: Box::default(), is_choosy: false }
    }

    pub(crate) fn bad(fault: BackendFault) -> Self {
        Self { view: Err(fault), problems: Box::default(), is_choosy: false }
    }
}
