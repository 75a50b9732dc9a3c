//! One listener by itself: protocol, host name, kinds, namespaces, certificates.

use std::sync::Arc;

use api::gateway::{Listener, ListenerTls, Protocol, RouteNamespacesFrom, TlsMode};
use api::reference::{RouteGroupKind, SecretRef};
use api::{Kind, ObjectKey};

use super::filter::gate;
use super::{DISCARD_PORT, ListenerPlan, Namespaces, Refusal, Speaks};
use crate::backend::{SecretPart, SecretUse};
use crate::gateway::Lookup;
use crate::hostname::Hostname;
use crate::reference::{RefReason, Reference, did_you_mean, permit};

/// The reason of values that are not supported.
pub(super) const UNSUPPORTED_VALUE: &str = "UnsupportedValue";

/// Judges a listener without looking at the others.
pub(crate) fn check(lookup: &mut impl Lookup, owner: &ObjectKey, listener: &Listener) -> ListenerPlan {
    let speaks = speaks(listener);
    let (hostname, odd_hostname) = match speaks {
        // Host names mean nothing there.
        Some(speaks) if !speaks.has_hosts() => (Hostname::ANY, None),
        _ => hostname(listener),
    };
    let (namespaces, odd_namespaces) = namespaces(listener);
    let is_odd = odd_hostname.is_some();
    let (mut gate, odd_filter, bad_filter) = gate(lookup, owner, listener);
    let asks = matches!(speaks, Some(Speaks::Http | Speaks::Https));
    let fault = listener.fault.as_ref().filter(|fault| asks && fault.path.to_string().contains("].filters"));
    let misgated = match fault {
        Some(fault) => Some(Refusal::new(UNSUPPORTED_VALUE, format!("{}: {}", fault.path, fault.text))),
        None => odd_filter,
    };
    if let Some(refusal) = &misgated {
        gate.close(refusal.text.clone());
    }
    let refused = refused(listener, speaks, fault.is_some()).or(odd_hostname).or(odd_namespaces);
    let (kinds, odd_kinds) = match speaks {
        Some(speaks) => kinds(listener, speaks.kinds()),
        None => (Box::default(), None),
    };
    let (certificates, [bad_certificate, outdated]) = match speaks {
        Some(Speaks::Https | Speaks::TlsTerminate) => certificates(lookup, owner, listener),
        _ => (Vec::new(), [None, None]),
    };
    let name: Arc<str> = (&*listener.name).into();
    let id = match owner.kind() {
        Some(Kind::ListenerSet) => format!("{}/{}/{name}", owner.namespace(), owner.name()).into(),
        _ => name.clone(),
    };
    ListenerPlan {
        id,
        name,
        port: listener.port,
        speaks,
        hostname,
        odd_hostname: is_odd,
        namespaces,
        kinds,
        refused,
        misgated,
        unresolved: bad_certificate.or(bad_filter).or(odd_kinds),
        untrusted: outdated,
        conflict: None,
        overlaps: false,
        certificates,
        lacks_secret: false,
        client: None,
        gate,
    }
}

/// What is spoken on a listener; none if we cannot.
fn speaks(listener: &Listener) -> Option<Speaks> {
    let passes = listener.tls.as_deref().is_some_and(|tls| tls.mode == TlsMode::Passthrough);
    match listener.protocol {
        Protocol::Http => Some(Speaks::Http),
        Protocol::Https => Some(Speaks::Https),
        Protocol::Tls if passes => Some(Speaks::TlsPassthrough),
        Protocol::Tls => Some(Speaks::TlsTerminate),
        Protocol::Tcp => Some(Speaks::Tcp),
        Protocol::Udp => Some(Speaks::Udp),
        Protocol::Unknown(_) => None,
    }
}

fn refused(listener: &Listener, speaks: Option<Speaks>, is_misgated: bool) -> Option<Refusal> {
    if speaks.is_none() {
        let protocol = listener.protocol.to_string();
        let meant = did_you_mean(&protocol, ["HTTP", "HTTPS", "TLS", "TCP", "UDP"]);
        let text = format!("protocol {protocol} is not supported, HTTP, HTTPS, TLS, TCP and UDP are{meant}");
        return Some(Refusal::new("UnsupportedProtocol", text).at("protocol"));
    }
    if let Some(fault) = listener.fault.as_ref().filter(|_| !is_misgated) {
        return Some(Refusal::new(UNSUPPORTED_VALUE, format!("{}: {}", fault.path, fault.text)));
    }
    if listener.port == 0 {
        return Some(Refusal::new(UNSUPPORTED_VALUE, "port 0 is not a port").at("port"));
    }
    if listener.port == DISCARD_PORT && speaks == Some(Speaks::Udp) {
        let text = format!("port {DISCARD_PORT} is where datagrams are sent that are to be dropped");
        return Some(Refusal::new("PortUnavailable", text).at("port"));
    }
    let mode = listener.tls.as_deref().map(|tls| &tls.mode);
    match (speaks, mode) {
        (Some(Speaks::Https), Some(mode)) if *mode != TlsMode::Terminate => {
            let text = format!("TLS mode {mode} is not supported with HTTPS, Terminate is");
            Some(Refusal::new(UNSUPPORTED_VALUE, text).at("tls.mode"))
        }
        (Some(Speaks::TlsTerminate), Some(TlsMode::Unknown(mode))) => {
            let text = format!("TLS mode {mode} is not supported, Terminate and Passthrough are");
            Some(Refusal::new(UNSUPPORTED_VALUE, text).at("tls.mode"))
        }
        _ => None,
    }
}

fn hostname(listener: &Listener) -> (Hostname, Option<Refusal>) {
    match listener.hostname.as_deref().filter(|text| !text.is_empty()) {
        None => (Hostname::ANY, None),
        Some(text) => match Hostname::parse(text) {
            Some(hostname) => (hostname, None),
            None => {
                let refusal = Refusal::new(UNSUPPORTED_VALUE, format!("hostname {text:?} is not a host name"));
                let refusal = refusal.at("hostname");
                // Such a listener takes nothing, so it does not matter which name it has.
                (Hostname::ANY, Some(refusal))
            }
        },
    }
}

/// Why a selector chooses nothing.
pub(crate) const UNSELECTED: &str = "only with from: Selector are namespaces chosen by it, it is ignored";

/// What to say of fields of listeners that have no effect, or not the one that they seem to have.
pub(crate) fn warnings(listeners: &[Listener]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (index, listener) in listeners.iter().enumerate() {
        let namespaces = listener.allowed_routes.as_deref().map(|allowed| &allowed.namespaces);
        if namespaces.is_some_and(|chosen| chosen.from == RouteNamespacesFrom::Selector && chosen.selector.is_none()) {
            let path = format!("spec.listeners[{index}].allowedRoutes.namespaces.selector");
            found.push((path, "from is Selector and there is no selector: no namespace is chosen".to_owned()));
        }
        if namespaces.is_some_and(|chosen| chosen.from != RouteNamespacesFrom::Selector && chosen.selector.is_some()) {
            let path = format!("spec.listeners[{index}].allowedRoutes.namespaces.selector");
            found.push((path, UNSELECTED.to_owned()));
        }
        if listener.tls.as_deref().is_some_and(|tls| !tls.options.is_empty()) {
            let path = format!("spec.listeners[{index}].tls.options");
            found.push((path, "no option is known, they are ignored".to_owned()));
        }
        let passes = |tls: &&ListenerTls| tls.mode == TlsMode::Passthrough && !tls.certificate_refs.is_empty();
        if listener.protocol == Protocol::Tls && listener.tls.as_deref().filter(passes).is_some() {
            let path = format!("spec.listeners[{index}].tls.certificateRefs");
            found.push((
                path,
                "TLS is passed through to the backend, no certificate is shown here: mode Terminate ends it".to_owned(),
            ));
        }
    }
    found
}

/// Certificates that listeners name.
pub(crate) fn certificate_refs(listeners: &[Listener]) -> impl Iterator<Item = &SecretRef> {
    let tls = listeners.iter().filter_map(|listener| listener.tls.as_deref());
    tls.flat_map(|tls| tls.certificate_refs.iter())
}

fn namespaces(listener: &Listener) -> (Namespaces, Option<Refusal>) {
    let Some(allowed) = listener.allowed_routes.as_deref() else { return (Namespaces::Same, None) };
    let namespaces = &allowed.namespaces;
    match (&namespaces.from, &namespaces.selector) {
        (RouteNamespacesFrom::Same, _) => (Namespaces::Same, None),
        (RouteNamespacesFrom::All, _) => (Namespaces::All, None),
        (RouteNamespacesFrom::Selector, None) => (Namespaces::None, None),
        (RouteNamespacesFrom::Selector, Some(selector)) => match selector.defect() {
            None => (Namespaces::Selector(Arc::new((**selector).clone())), None),
            Some(text) => {
                let refusal = Refusal::new(UNSUPPORTED_VALUE, text).at("allowedRoutes.namespaces.selector");
                (Namespaces::None, Some(refusal))
            }
        },
        (RouteNamespacesFrom::Unknown(word), _) => {
            let text = format!("allowedRoutes.namespaces.from {word:?} is not supported");
            (Namespaces::None, Some(Refusal::new(UNSUPPORTED_VALUE, text).at("allowedRoutes.namespaces.from")))
        }
    }
}

/// The kinds that are taken: those given that the protocol can carry, else all that it can.
fn kinds(listener: &Listener, carried: &[Kind]) -> (Box<[Kind]>, Option<Refusal>) {
    let given = listener.allowed_routes.as_deref().map(|allowed| &*allowed.kinds).unwrap_or_default();
    if given.is_empty() {
        return (carried.into(), None);
    }
    let is_carried = |given: &&RouteGroupKind| carried.iter().any(|kind| **given == RouteGroupKind::of(*kind));
    let wrong: Vec<&str> = given.iter().filter(|given| !is_carried(given)).map(|kind| &*kind.kind).collect();
    let right = carried.iter().copied().filter(|kind| given.contains(&RouteGroupKind::of(*kind))).collect();
    let text = || format!("routes of kind {} are not supported here", wrong.join(", "));
    let refusal = (!wrong.is_empty()).then(|| Refusal::new("InvalidRouteKinds", text()).at("allowedRoutes.kinds"));
    (right, refusal)
}

/// Certificates that can be shown, the first that cannot, and the first that is shown as it was before.
fn certificates(
    lookup: &mut impl Lookup,
    gateway: &ObjectKey,
    listener: &Listener,
) -> (Vec<SecretUse>, [Option<Refusal>; 2]) {
    let references = listener.tls.as_deref().map(|tls| &*tls.certificate_refs).unwrap_or_default();
    if references.is_empty() {
        // Of a mode that nobody knows they may not be meant.
        if listener.fault.as_ref().is_some_and(|fault| fault.path.ends_with(".tls.mode")) {
            return (Vec::new(), [None, None]);
        }
        let text = "tls.certificateRefs names no certificate: the listener is not served; write tls: {certificateRefs: [{name: SECRET}]}";
        let refusal = Refusal::new("InvalidCertificateRef", text);
        return (Vec::new(), [Some(refusal.at("tls.certificateRefs")), None]);
    }
    let mut found = Vec::with_capacity(references.len());
    let [mut bad, mut outdated] = [None, None];
    for (index, reference) in references.iter().enumerate() {
        let at = |refusal: Refusal| refusal.at(format!("tls.certificateRefs[{index}].name"));
        match certificate(lookup, gateway, reference) {
            Ok((wanted, fault)) => {
                found.push(wanted);
                outdated = outdated.or(fault.map(at));
            }
            Err(refusal) => bad = bad.or(Some(at(refusal))),
        }
    }
    (found, [bad, outdated])
}

/// A Secret with a certificate and its key, that the Gateway may name, and why the pair before that of today is shown, where it is.
pub(crate) fn certificate(
    lookup: &mut impl Lookup,
    gateway: &ObjectKey,
    reference: &SecretRef,
) -> Result<(SecretUse, Option<Refusal>), Refusal> {
    let invalid = |text: String| Refusal::new("InvalidCertificateRef", text);
    let permit = permit(lookup, gateway, Reference::from(reference)).map_err(|fault| match fault.reason {
        RefReason::NotPermitted => Refusal::new("RefNotPermitted", fault.text),
        RefReason::InvalidKind | RefReason::NotFound | RefReason::NoPort | RefReason::UnsupportedProtocol => {
            Refusal::new("InvalidCertificateRef", fault.text)
        }
    })?;
    let target = permit.target();
    if target.kind() != Some(Kind::Secret) {
        return Err(invalid(format!("{} cannot hold a certificate, a Secret can", target.kind_name())));
    }
    match lookup.secret(&permit, SecretPart::Certificate) {
        Some(Ok(usable)) => {
            let fault = usable.fault.map(|text| invalid(format!("{target}: {text}")));
            Ok((SecretUse::of(target.clone(), SecretPart::Certificate), fault))
        }
        Some(Err(text)) => Err(invalid(format!("{target}: {text}"))),
        None => Err(invalid(format!("{target} does not exist")).naming(target.clone())),
    }
}
