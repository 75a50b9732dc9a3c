//! `Backend` of `gateway.envoyproxy.io`: endpoints that are listed by the user.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use api::backend::{Backend, BackendAppProtocol, BackendEndpoint, BackendTls, BackendType};
use api::reference::LocalObjectRef;
use api::{FieldPath, ObjectKey, Problem, RefusalKind, Severity};
use ir::address::{ALLOW_LINK_LOCAL, is_loopback};
use ir::cluster::{DnsEndpoint, Locality, Protocol, Trust, UpstreamTls};
use ir::{Address, Endpoint, EndpointSource};
use store::SocketTarget;

use super::own::{OwnPlaces, Refused};
use super::{BackendView, Encryption, RESOLVED, Reading, SecretPart, SecretUse, holds_bundles, no_bundle};
use crate::key::BackendKey;
use crate::reference::{Grants, Permit, RefFault, RefReason, Reference, permit};
use crate::secret;

/// What a `Backend` asks of the tables.
pub(crate) trait Lookup: Grants {
    /// Whether a certificate or bundle is there and good; none if it is not there.
    fn secret(&mut self, permit: &Permit, part: SecretPart) -> Option<secret::Verdict>;
    /// Whether there can be objects of this kind at all.
    fn is_served(&mut self, object: &ObjectKey) -> bool;
    /// Returns the Service behind an address of a cluster, if an endpoint of it is at a place to which no backend leads.
    fn closed_service(&mut self, address: IpAddr, own: &OwnPlaces) -> Option<ObjectKey>;
    /// Returns the target of a socket's path after links.
    fn socket(&mut self, path: &str) -> SocketTarget;
}

/// What is allowed where we run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowed<'a> {
    /// `Backend` objects may be used at all (`extensionApis.enableBackend`; on in file mode).
    pub(crate) backends: bool,
    /// Proxies run on this machine: endpoints may be loopback addresses and Unix sockets.
    pub(crate) loopback: bool,
    /// Fields that guard and are not built may be left out.
    pub(crate) unguarded: bool,
    /// Places that are not for users.
    pub(crate) own: &'a OwnPlaces,
}

/// The reason why a backend cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unusable {
    pub(super) fault: RefFault,
    /// None: it is only written wrong.
    pub(super) reason: Option<RefusalKind>,
}

impl From<RefFault> for Unusable {
    fn from(fault: RefFault) -> Self {
        Self { fault, reason: None }
    }
}

/// A `Backend` as something to send to.
pub(crate) fn read(lookup: &mut impl Lookup, key: &BackendKey, backend: &Backend, allowed: Allowed<'_>) -> Reading {
    let object = &key.object;
    match view(lookup, key, backend, allowed) {
        Ok(view) => Reading { problems: warnings(object, backend).into(), ..Reading::good(view) },
        Err(Unusable { fault, reason }) => {
            let problem = Problem::of(object, "spec", Severity::Error, &*fault.text).refusing(reason);
            Reading { problems: [Arc::new(problem)].into(), ..Reading::bad(fault) }
        }
    }
}

fn view(
    lookup: &mut impl Lookup,
    key: &BackendKey,
    backend: &Backend,
    allowed: Allowed<'_>,
) -> Result<BackendView, Unusable> {
    let because =
        |reason, text: String| Unusable { fault: RefFault { reason: RefReason::NotFound, text: text.into() }, reason };
    let fault = |text: String| because(None, text);
    let object = &key.object;
    if !allowed.backends {
        let text = format!("{object} cannot be used, set extensionApis.enableBackend in the configuration").into();
        return Err(RefFault { reason: RefReason::NotPermitted, text }.into());
    }
    if let Some(found) = &backend.spec.fault {
        return Err(fault(format!("{object}: {found}")));
    }
    if let Some(field) = backend.spec.guards.first().filter(|_| !allowed.unguarded) {
        let hint =
            "nothing is sent there; take the field away, or allow it to have no effect (--unsupported-policies=allow)";
        let text = format!("{object}: {field} guards and is not supported by this version: {hint}");
        return Err(because(Some(RefusalKind::Policy), text));
    }
    if backend.spec.backend_type != BackendType::Endpoints {
        return Err(fault(format!("type {} of {object} is not supported", backend.spec.backend_type)));
    }
    let endpoints = &backend.spec.endpoints;
    if endpoints.is_empty() {
        return Err(fault(format!("{object} lists no endpoint that can be used")));
    }
    let names = endpoints.iter().filter(|endpoint| endpoint.fqdn.is_some()).count();
    if names != 0 && names != endpoints.len() {
        return Err(fault(format!("{object} mixes names with addresses")));
    }
    let at = |index| format!("spec.endpoints[{}]", backend.meta.written_index("spec.endpoints", index));
    for (index, endpoint) in endpoints.iter().enumerate() {
        check_endpoint(lookup, endpoint, allowed)
            .map_err(|Refused { reason, words }| because(reason, format!("{object}: {}: {words}", at(index))))?;
    }
    let (protocol, wants_tls) = speaks(backend);
    let encryption = match backend.spec.tls.as_deref() {
        Some(tls) => upstream(lookup, object, tls)?,
        None if wants_tls => Encryption::unverified(),
        None => Encryption::Cleartext,
    };
    let source =
        if names > 0 { EndpointSource::Dns(dns(endpoints)) } else { EndpointSource::Discovered(key.endpoint_set()) };
    // Envoy ends itself at the first datagram for a socket of the file system.
    let has_path = endpoints.iter().any(|endpoint| endpoint.unix.is_some());
    let whys = [
        (names > 0, RESOLVED),
        (has_path, "has a socket of the file system"),
        (encryption.is_tls(), "is spoken to over TLS"),
    ];
    let no_datagrams = whys.into_iter().find(|(is_so, _)| *is_so).map(|(_, why)| why);
    let (port_name, session) = (Box::default(), None);
    Ok(BackendView { endpoints: source, port_name, protocol, encryption, no_datagrams, session })
}

/// The endpoints of a `Backend` with addresses.
pub(crate) fn localities(backend: &Backend) -> Vec<Locality> {
    let mut zones: BTreeMap<Option<&str>, Vec<Endpoint>> = BTreeMap::new();
    for endpoint in &backend.spec.endpoints {
        if let Some(address) = address(endpoint) {
            let endpoint_zone = zones.entry(endpoint.zone.as_deref()).or_default();
            endpoint_zone.push(Endpoint::new(address));
        }
    }
    let localities = zones.into_iter().map(|(zone, mut endpoints)| {
        endpoints.sort_unstable();
        endpoints.dedup();
        Locality { zone: zone.map(Arc::from), priority: 0, endpoints }
    });
    localities.collect()
}

/// Secrets that a `Backend` may use: only these are parsed.
pub(crate) fn secret_uses(backend: &Backend) -> Vec<ObjectKey> {
    let Some(tls) = backend.spec.tls.as_deref() else { return Vec::new() };
    let namespace = backend.meta.namespace();
    let bundles = tls.ca_certificate_refs.iter().map(Reference::from);
    let certificate = tls.client_certificate_ref.iter().map(Reference::from);
    bundles.chain(certificate).map(|reference| reference.object(namespace)).collect()
}

fn dns(endpoints: &[BackendEndpoint]) -> Vec<DnsEndpoint> {
    let one = |endpoint: &BackendEndpoint| {
        let name = endpoint.fqdn.as_ref()?;
        let zone = endpoint.zone.as_deref().map(Arc::from);
        Some(DnsEndpoint { host: name.hostname.trim_end_matches('.').into(), port: name.port, zone })
    };
    endpoints.iter().filter_map(one).collect()
}

fn address(endpoint: &BackendEndpoint) -> Option<Address> {
    if let Some(unix) = &endpoint.unix {
        return Some(Address::Unix((&*unix.path).into()));
    }
    let ip = endpoint.ip.as_ref()?;
    Some(Address::Ip(ip.address.parse().ok()?, ip.port))
}

fn check_endpoint(lookup: &mut impl Lookup, endpoint: &BackendEndpoint, allowed: Allowed<'_>) -> Result<(), Refused> {
    let own = |words| Err(Refused::because(RefusalKind::OwnAddress, words));
    match (&endpoint.fqdn, &endpoint.ip, &endpoint.unix) {
        (Some(name), None, None) => check_host(name.hostname.trim_end_matches('.'), name.port, allowed),
        (None, Some(ip), None) => match ip.address.parse::<IpAddr>().map(|address| address.to_canonical()) {
            _ if ip.port == 0 => Err(Refused::wrong("port 0 is not a port")),
            Ok(address) if is_loopback(address) && !allowed.loopback => {
                own(format!("{address} is a loopback address"))
            }
            Ok(address) if address.is_unspecified() || address.is_multicast() => {
                Err(Refused::wrong(format!("{address} cannot be connected to")))
            }
            Ok(address) if allowed.own.is_own(address, ip.port) => {
                own(format!("Chancery listens at {address} port {}", ip.port))
            }
            Ok(address) => match allowed.own.refuses_address(address) {
                Some(words) => {
                    Err(Refused::because(RefusalKind::LinkLocal, format!("{address} {words}; {ALLOW_LINK_LOCAL}")))
                }
                None => lookup.closed_service(address, allowed.own).map_or(Ok(()), |service| {
                    own(format!(
                        "{address} is an address of {service}, which has an endpoint to which no backend leads: Chancery's own, or a link-local one"
                    ))
                }),
            },
            Err(_) => Err(Refused::wrong(format!("{:?} is not an IP address", ip.address))),
        },
        (None, None, Some(unix)) => {
            let resolved = lookup.socket(&unix.path);
            let resolved = resolved.as_deref().map_err(|words| &**words);
            let refusal = allowed.own.refuses_socket(&unix.path, allowed.loopback, resolved);
            refusal.map_or(Ok(()), |words| Err(Refused::because(RefusalKind::Socket, words)))
        }
        _ => Err(Refused::wrong("exactly one of fqdn, ip and unix is needed")),
    }
}

/// Checks whether a name and port may be resolved and sent to.
pub(super) fn check_host(host: &str, port: u16, allowed: Allowed<'_>) -> Result<(), Refused> {
    allowed.own.refuses_host(host, port, allowed.loopback).map_or(Ok(()), Err)
}

fn speaks(backend: &Backend) -> (Protocol, bool) {
    let has = |wanted: BackendAppProtocol| backend.spec.app_protocols.contains(&wanted);
    let protocol = if has(BackendAppProtocol::H2c) { Protocol::Http2 } else { Protocol::Http1 };
    (protocol, has(BackendAppProtocol::Wss))
}

fn upstream(lookup: &mut impl Lookup, object: &ObjectKey, tls: &BackendTls) -> Result<Encryption, RefFault> {
    let mut secrets = Vec::new();
    let fault = |text: String| RefFault { reason: RefReason::NotFound, text: text.into() };
    let trust = match (tls.insecure_skip_verify, &*tls.ca_certificate_refs, tls.well_known_ca_certificates.as_deref()) {
        (true, ..) => Trust::Anything,
        (false, references @ [_, ..], None) => {
            let bundles = references.iter().map(|reference| bundle(lookup, object, reference));
            let bundles = secret::join(bundles.collect::<Result<Vec<_>, _>>()?);
            let bundles = bundles.map_err(|text| fault(format!("{object}: {text}")))?;
            let (bundle, _) = bundles.ok_or_else(|| fault(format!("{object}: caCertificateRefs is empty")))?;
            let trust = Trust::Bundle(secret::name(&bundle));
            secrets.push(bundle);
            trust
        }
        (false, [], Some("System") | None) => Trust::System,
        (false, [], Some(word)) => {
            return Err(fault(format!("{object}: wellKnownCACertificates {word:?} is not supported")));
        }
        (false, [..], Some(_)) => {
            return Err(fault(format!("{object}: caCertificateRefs and wellKnownCACertificates exclude each other")));
        }
    };
    let mut certificate = None;
    if let Some(reference) = &tls.client_certificate_ref {
        let permit = permit(lookup, object, Reference::from(reference))?;
        usable(lookup, object, &permit, SecretPart::Certificate)?;
        secrets.push(SecretUse::of(permit.target().clone(), SecretPart::Certificate));
        certificate = Some(secret::certificate_name(permit.target()));
    }
    let server_name = tls.sni.as_deref().map(Arc::from);
    let upstream = UpstreamTls { server_name, subject_alt_names: Vec::new(), trust, certificate };
    Ok(Encryption::tls(upstream, secrets))
}

/// Certificates to believe; with one of several missing, what the user wants believed is not known.
fn bundle(
    lookup: &mut impl Lookup,
    object: &ObjectKey,
    reference: &LocalObjectRef,
) -> Result<(ObjectKey, secret::Size), RefFault> {
    let permit = permit(lookup, object, Reference::from(reference))?;
    if !holds_bundles(permit.target().kind()) || !lookup.is_served(permit.target()) {
        let text = format!("{object}: {}", no_bundle(&reference.group, &reference.kind));
        return Err(RefFault { reason: RefReason::InvalidKind, text: text.into() });
    }
    let size = usable(lookup, object, &permit, SecretPart::Bundle)?;
    Ok((permit.target().clone(), size))
}

pub(super) fn usable(
    lookup: &mut impl Lookup,
    object: &ObjectKey,
    permit: &Permit,
    part: SecretPart,
) -> Result<secret::Size, RefFault> {
    let text = match lookup.secret(permit, part) {
        Some(Ok(usable)) => return Ok(usable.size),
        Some(Err(text)) => format!("{object}: {}: {text}", permit.target()),
        None => format!("{object}: {} does not exist", permit.target()),
    };
    Err(RefFault { reason: RefReason::NotFound, text: text.into() })
}

/// What is written and has no effect yet.
fn warnings(object: &ObjectKey, backend: &Backend) -> Vec<Arc<Problem>> {
    let spec = &backend.spec;
    let tls = spec.tls.as_deref();
    let unknown = spec.app_protocols.iter().find(|word| matches!(word, BackendAppProtocol::Unknown(_)));
    let found = [
        (
            spec.fallback == Some(true),
            "spec.fallback",
            "fallback is not supported, the target takes its share of the requests",
        ),
        (
            tls.is_none() && spec.app_protocols.contains(&BackendAppProtocol::Wss),
            "spec.appProtocols",
            "TLS to the endpoints is not verified: spec.tls would say which certificate to believe",
        ),
        (unknown.is_some(), "spec.appProtocols", "an application protocol is not known and ignored"),
        (tls.is_some_and(|tls| !tls.alpn_protocols.is_empty()), "spec.tls.alpnProtocols", "not supported, ignored"),
    ];
    let written = found.into_iter().filter(|(there, ..)| *there).map(|(_, path, text)| (FieldPath::from(path), text));
    let unguarded = spec.guards.iter().map(|field| (field.clone(), "not supported, and allowed to have no effect"));
    let problem = |(path, text): (FieldPath, &str)| Arc::new(Problem::of(object, path, Severity::Warning, text));
    written.chain(unguarded).map(problem).collect()
}
