//! `XBackend` of Gateway API: Pods by their labels or a name elsewhere, with how they are spoken to (GEP-4894).

use std::net::IpAddr;
use std::sync::Arc;

use api::http_route::SessionPersistence;
use api::x_backend::{XBackend, XBackendProtocol, XBackendTls, XBackendTlsMode, XBackendType};
use api::{FieldPath, Labels, ObjectKey, Pod, Problem, Severity};
use ir::cluster::{DnsEndpoint, Health, Locality, Protocol};
use ir::route::Session;
use ir::{Address, Endpoint, EndpointSource};

use super::object::{Allowed, Lookup, Unusable, check_host, usable};
use super::own::{OwnPlaces, Refused};
use super::{BackendView, Encryption, RESOLVED, Reading, SecretPart, SecretUse};
use crate::backend_tls_policy::{self, Verified};
use crate::key::BackendKey;
use crate::reference::{RefFault, RefReason, Reference, permit};
use crate::secret;
use crate::session::Persistence;

/// An `XBackend` as something to send to.
pub(crate) fn read(lookup: &mut impl Lookup, key: &BackendKey, backend: &XBackend, allowed: Allowed<'_>) -> Reading {
    let object = &key.object;
    match view(lookup, key, backend, allowed) {
        Ok((view, problems)) => Reading { problems, ..Reading::good(view) },
        Err(Unusable { fault, reason }) => {
            // Whoever reads objects has told what is wrong with fields.
            let told = backend.spec.fault.is_some();
            let problem =
                (!told).then(|| Arc::new(Problem::of(object, "spec", Severity::Error, &*fault.text).refusing(reason)));
            Reading { problems: problem.into_iter().collect(), ..Reading::bad(fault) }
        }
    }
}

/// Something with what is worth saying although it works.
type Told<T> = (T, Box<[Arc<Problem>]>);

fn view(
    lookup: &mut impl Lookup,
    key: &BackendKey,
    backend: &XBackend,
    allowed: Allowed<'_>,
) -> Result<Told<BackendView>, Unusable> {
    let object = &key.object;
    let because = |reason, text: String| Unusable {
        fault: RefFault { reason: RefReason::NotFound, text: format!("{object}: {text}").into() },
        reason,
    };
    let fault = |text: String| because(None, text);
    let spec = &backend.spec;
    if let Some(found) = &spec.fault {
        return Err(fault(found.to_string()));
    }
    if spec.port.number == 0 {
        return Err(fault("spec.port.number is needed".to_owned()));
    }
    let endpoints = match (&spec.backend_type, &spec.external_hostname, &spec.endpoint_selector) {
        (XBackendType::ExternalHostname, Some(external), None) => {
            let host = external.hostname.trim_end_matches('.');
            check_host(host, spec.port.number, allowed).map_err(|Refused { reason, words }| because(reason, words))?;
            EndpointSource::Dns(vec![DnsEndpoint { host: host.into(), port: spec.port.number, zone: None }])
        }
        (XBackendType::EndpointSelector, None, Some(_)) => EndpointSource::Discovered(key.endpoint_set()),
        (XBackendType::Unknown(word), ..) => return Err(fault(format!("type {word:?} is not supported"))),
        _ => return Err(fault("exactly the field of its type is needed".to_owned())),
    };
    let (encryption, unresolved) = upstream(lookup, object, spec.tls.as_deref())?;
    let (protocol, needs_tls) = speaks(spec.protocol.as_ref()).map_err(fault)?;
    if needs_tls.is_some_and(|needed| needed != encryption.is_tls()) {
        let word = spec.protocol.as_ref().map(ToString::to_string).unwrap_or_default();
        let wanted = if encryption.is_tls() { "excludes" } else { "needs" };
        return Err(fault(format!("protocol {word} {wanted} TLS")));
    }
    let whys = [
        (endpoints.set().is_none(), RESOLVED),
        (encryption.is_tls(), "is spoken to over TLS"),
        (spec.protocol.is_some(), "has a protocol"),
    ];
    let no_datagrams = whys.into_iter().find(|(is_so, _)| *is_so).map(|(_, why)| why);
    let in_clear = (endpoints.set().is_none() && spec.tls.is_none())
        .then_some("what is sent to a name elsewhere is not encrypted: spec.tls would say how");
    let (session, of_session) = session(object, spec.session_persistence.as_deref());
    let warnings = in_clear.map(|text| Problem::of(object, "spec", Severity::Warning, text));
    let problems = warnings.into_iter().chain(of_session).chain(unresolved).map(Arc::new).collect();
    let view = BackendView { endpoints, port_name: Box::default(), protocol, encryption, no_datagrams, session };
    Ok((view, problems))
}

/// How clients stay with an endpoint. What cannot be done leaves them with any.
fn session(object: &ObjectKey, persistence: Option<&SessionPersistence>) -> (Option<Arc<Session>>, Option<Problem>) {
    let warning = |field: &str, text: &str| {
        Problem::of(object, FieldPath::from(format!("spec.sessionPersistence.{field}")), Severity::Warning, text)
    };
    match persistence.map(Persistence::read) {
        None => (None, None),
        Some(Ok(read)) => (Some(read.of_backend(object)), read.warning.map(|(field, text)| warning(field, text))),
        Some(Err((field, text))) => (None, Some(warning(field, &format!("{text}; there are no sessions")))),
    }
}

/// What is spoken, and whether TLS has to be (true) or must not be (false) around it.
fn speaks(protocol: Option<&XBackendProtocol>) -> Result<(Protocol, Option<bool>), String> {
    Ok(match protocol {
        None | Some(XBackendProtocol::Tcp | XBackendProtocol::Http | XBackendProtocol::Http11) => {
            (Protocol::Http1, None)
        }
        // Its messages are requests and responses of HTTP like others.
        Some(XBackendProtocol::Mcp) => (Protocol::Http1, None),
        Some(XBackendProtocol::Grpc) => (Protocol::Http2, None),
        Some(XBackendProtocol::Http2) => (Protocol::Http2, Some(true)),
        Some(XBackendProtocol::H2c) => (Protocol::Http2, Some(false)),
        Some(XBackendProtocol::Wss) => (Protocol::Http1, Some(true)),
        Some(XBackendProtocol::Unknown(word)) => return Err(format!("protocol {word:?} is not supported")),
    })
}

fn upstream(
    lookup: &mut impl Lookup,
    object: &ObjectKey,
    tls: Option<&XBackendTls>,
) -> Result<(Encryption, Option<Problem>), RefFault> {
    let fault = |text: String| RefFault { reason: RefReason::NotFound, text: format!("{object}: {text}").into() };
    let Some(tls) = tls.filter(|tls| tls.mode != XBackendTlsMode::None) else {
        return Ok((Encryption::Cleartext, None));
    };
    if let XBackendTlsMode::Unknown(word) = &tls.mode {
        return Err(fault(format!("tls.mode {word:?} is not supported")));
    }
    let Some(validation) = tls.validation.as_deref() else { return Err(fault("tls.validation is needed".to_owned())) };
    let Verified { tls: mut upstream, bundle, unresolved, .. } =
        backend_tls_policy::upstream(lookup, object, validation)
            .map_err(|found| fault(found.accepted.text.to_string()))?;
    let mut secrets: Vec<SecretUse> = bundle.into_iter().collect();
    if tls.mode == XBackendTlsMode::ClientAndServer {
        let Some(reference) = &tls.client_certificate_ref else {
            return Err(fault("tls.clientCertificateRef is needed".to_owned()));
        };
        let permit = permit(lookup, object, Reference::from(reference))?;
        usable(lookup, object, &permit, SecretPart::Certificate)?;
        upstream.certificate = Some(secret::certificate_name(permit.target()));
        secrets.push(SecretUse::of(permit.target().clone(), SecretPart::Certificate));
    }
    let unresolved = unresolved.map(|refusal| {
        let text = format!("{}; it is checked with the others", refusal.text);
        Problem::of(object, "spec.tls.validation.caCertificateRefs", Severity::Error, text)
    });
    Ok((Encryption::tls(upstream, secrets), unresolved))
}

/// Secrets and bundles that an `XBackend` may use: only these are parsed.
pub(crate) fn secret_uses(backend: &XBackend) -> Vec<ObjectKey> {
    let Some(tls) = backend.spec.tls.as_deref() else { return Vec::new() };
    let namespace = backend.meta.namespace();
    let bundles = tls.validation.iter().flat_map(|validation| &validation.ca_certificate_refs).map(Reference::from);
    let certificate = tls.client_certificate_ref.iter().map(Reference::from);
    bundles.chain(certificate).map(|reference| reference.object(namespace)).collect()
}

/// A label that Pods have, in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PodLabel {
    namespace: Arc<str>,
    label: Arc<str>,
    value: Arc<str>,
}

/// A Pod as an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodEndpoint {
    labels: Labels,
    address: IpAddr,
    health: Health,
}

impl PodEndpoint {
    /// None of a Pod that is not ready for requests. One that is about to go takes them where nothing else is left, as with the endpoints of a Service.
    pub(crate) fn of(pod: &Pod) -> Option<Self> {
        let health = if pod.spec.terminating { Health::Draining } else { Health::Healthy };
        let address = pod.spec.address.filter(|_| pod.spec.ready)?;
        Some(Self { labels: pod.meta.labels.clone(), address, health })
    }

    /// By which labels it can be found.
    pub(crate) fn by_label(&self, pod: &ObjectKey) -> Vec<PodLabel> {
        self.labels.iter().map(|(label, value)| PodLabel::new(pod.namespace(), label, value)).collect()
    }
}

impl PodLabel {
    fn new(namespace: &str, label: &str, value: &str) -> Self {
        Self { namespace: namespace.into(), label: label.into(), value: value.into() }
    }

    /// A label that every Pod of an `XBackend` has; none where it selects none.
    pub(crate) fn anchor(backend: &XBackend) -> Option<Self> {
        let selector = backend.spec.endpoint_selector.as_ref()?;
        let (label, value) = selector.match_labels.iter().next()?;
        Some(Self::new(backend.meta.namespace(), label, value))
    }
}

/// The endpoints of an `XBackend` among Pods that have its [`PodLabel::anchor`], sorted, each address once.
pub(crate) fn localities<'a>(
    backend: &XBackend,
    own: &OwnPlaces,
    pods: impl Iterator<Item = &'a Arc<PodEndpoint>>,
) -> Vec<Locality> {
    let Some(selector) = backend.spec.endpoint_selector.as_ref() else { return Vec::new() };
    let port = backend.spec.port.number;
    let wanted = |pod: &&Arc<PodEndpoint>| {
        selector.match_labels.iter().all(|(label, value)| pod.labels.get(label) == Some(value))
            && !own.is_closed(pod.address, port)
    };
    let endpoint =
        |pod: &Arc<PodEndpoint>| Endpoint { health: pod.health, ..Endpoint::new(Address::Ip(pod.address, port)) };
    let mut endpoints: Vec<Endpoint> = pods.filter(wanted).map(endpoint).collect();
    endpoints.sort_unstable();
    endpoints.dedup_by(|one, kept| one.address == kept.address);
    if endpoints.is_empty() {
        return Vec::new();
    }
    vec![Locality { zone: None, priority: 0, endpoints }]
}
