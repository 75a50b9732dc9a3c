//! Certificates of clients (`spec.tls.frontend`): which bundle holds for which port.

use std::collections::BTreeMap;

use api::ObjectKey;
use api::gateway::{FrontendTls, FrontendTlsValidation, FrontendValidationMode};
use api::reference::ObjectRef;

use super::conflict::namespace_of_set;
use super::{ClientPlan, ListenerPlan, Refusal, Speaks};
use crate::backend::{SecretPart, holds_bundles, no_bundle};
use crate::gateway::Lookup;
use crate::reference::{RefReason, Reference, permit};
use crate::secret::{self, Size};

/// Writes to every HTTPS listener how certificates of clients are judged there. A listener whose references all lead nowhere
/// serves nobody; one of which some do believes the others.
pub(super) fn validate(
    lookup: &mut impl Lookup,
    gateway: &ObjectKey,
    frontend: &FrontendTls,
    listeners: &mut [ListenerPlan],
) {
    // Nobody takes bytes from the listeners of another namespace.
    let mut left: BTreeMap<Box<str>, u32> = BTreeMap::new();
    for listener in listeners.iter_mut().filter(|listener| listener.speaks == Some(Speaks::Https)) {
        let own = frontend.per_port.iter().enumerate().find(|(_, entry)| entry.port == listener.port);
        let (config, path) = match own {
            Some((index, entry)) => (&entry.tls, format!("spec.tls.frontend.perPort[{index}].tls.validation")),
            None => (&frontend.default_tls, "spec.tls.frontend.default.validation".to_owned()),
        };
        let Some(validation) = config.validation.as_ref() else { continue };
        let namespace = namespace_of_set(listener).unwrap_or_else(|| gateway.namespace());
        let left = left.entry(namespace.into()).or_insert(secret::MOST_BUNDLES.0);
        let within = |(client, size, unresolved): (ClientPlan, Size, Option<Refusal>)| match left.checked_sub(size.0) {
            Some(rest) => {
                *left = rest;
                Ok((client, unresolved))
            }
            None => Err(too_large(beyond_budget(size), &path)),
        };
        match plan(lookup, gateway, (validation, &path)).and_then(within) {
            Ok((client, unresolved)) => {
                listener.client = Some(client);
                let untrusted = unresolved.map(|refusal| untrusted(refusal, listener.is_of_set()));
                listener.untrusted = listener.untrusted.take().or(untrusted);
            }
            Err((unresolved, refused)) if listener.is_of_set() => {
                listener.unresolved.get_or_insert(Refusal::new(unresolved.reason, OF_GATEWAY));
                listener.refused.get_or_insert(Refusal::new(refused.reason, OF_GATEWAY));
            }
            Err((unresolved, refused)) => {
                listener.unresolved.get_or_insert(unresolved);
                listener.refused.get_or_insert(refused);
            }
        }
    }
}

/// Refuses a listener whose bundle proxies refused: no client comes in without the certificate that it has to have.
pub(super) fn refuse(listener: &mut ListenerPlan) {
    let text = match &listener.client {
        Some(client) if !listener.is_of_set() => super::refused_by_proxies(&client.bundle),
        _ => OF_GATEWAY.to_owned(),
    };
    listener.unresolved = Some(Refusal::new(INVALID_BUNDLE, text));
}

/// What readers of a set are told, who may know less than those of the Gateway.
const OF_GATEWAY: &str =
    "certificates of clients cannot be judged as the Gateway wants it (spec.tls.frontend of the Gateway)";

fn untrusted(refusal: Refusal, of_set: bool) -> Refusal {
    if of_set { Refusal::new(refusal.reason, OF_GATEWAY) } else { refusal }
}

/// Where validation is written and holds nowhere: ports that no listener has on which certificates of clients are asked for, and what holds for all
/// others where there is no such listener at all.
pub(super) fn ports_without(
    frontend: &FrontendTls,
    listeners: &[ListenerPlan],
) -> impl Iterator<Item = (String, String)> {
    let asks = |port: u16| listeners.iter().any(|one| one.port == port && one.speaks == Some(Speaks::Https));
    let any = listeners.iter().any(|one| one.speaks == Some(Speaks::Https));
    let default = (!any && frontend.default_tls.validation.is_some()).then(|| {
        let text =
            "there is no HTTPS listener, so this holds nowhere; certificates of clients are asked for on those only";
        ("spec.tls.frontend.default.validation".to_owned(), text.to_owned())
    });
    let unmet = frontend.per_port.iter().enumerate().filter(move |(_, entry)| !asks(entry.port));
    let unmet = unmet.map(|(index, entry)| {
        let text = format!("no HTTPS listener has port {}, so this holds nowhere", entry.port);
        (format!("spec.tls.frontend.perPort[{index}].port"), text)
    });
    default.into_iter().chain(unmet)
}

/// Whether some port lets clients through whose certificate cannot be verified.
pub(super) fn is_insecure(frontend: &FrontendTls) -> bool {
    let configs = std::iter::once(&frontend.default_tls).chain(frontend.per_port.iter().map(|entry| &entry.tls));
    let mut validations = configs.filter_map(|config| config.validation.as_ref());
    validations.any(|validation| validation.mode == FrontendValidationMode::AllowInsecureFallback)
}

/// The plan, with why not all of its bundles can be used; or why `ResolvedRefs` and why `Accepted` do not hold.
fn plan(
    lookup: &mut impl Lookup,
    gateway: &ObjectKey,
    (validation, path): (&FrontendTlsValidation, &str),
) -> Result<(ClientPlan, Size, Option<Refusal>), (Refusal, Refusal)> {
    let required = match &validation.mode {
        FrontendValidationMode::AllowValidOnly => true,
        FrontendValidationMode::AllowInsecureFallback => false,
        FrontendValidationMode::Unknown(word) => {
            let text = format!("validation mode {word:?} is not supported");
            let unsupported = Refusal::new("UnsupportedValue", &*text).at(format!("{path}.mode"));
            return Err((Refusal::new(INVALID_BUNDLE, text).at(format!("{path}.mode")), unsupported));
        }
    };
    let (mut found, mut unresolved) = (Vec::with_capacity(validation.ca_certificate_refs.len()), None);
    for (index, reference) in validation.ca_certificate_refs.iter().enumerate() {
        match bundle(lookup, gateway, reference) {
            Ok(object) => found.push(object),
            Err(refusal) => {
                let refusal = refusal.at(format!("{path}.caCertificateRefs[{index}].name"));
                unresolved = unresolved.or(Some(refusal));
            }
        }
    }
    match (secret::join(found).map_err(|text| too_large(text, path))?, unresolved) {
        (Some((bundle, size)), unresolved) => Ok((ClientPlan { bundle, required }, size, unresolved)),
        (None, Some(refusal)) => {
            let accepted = Refusal { reason: NO_VALID, ..refusal.clone() };
            Err((refusal, accepted))
        }
        (None, None) => {
            let text = "a reference in caCertificateRefs is needed";
            Err((Refusal::new(INVALID_BUNDLE, text).at(path), Refusal::new(NO_VALID, text).at(path)))
        }
    }
}

const INVALID_BUNDLE: &str = "InvalidCACertificateRef";
const NO_VALID: &str = "NoValidCACertificate";

fn beyond_budget(size: Size) -> String {
    format!(
        "the bundle has {} KiB, and listeners before this one leave less of the {} KiB that those of one namespace may have together on a Gateway: leave out the \
         authorities that are not needed, or use fewer listeners",
        size.0,
        secret::MOST_BUNDLES.0
    )
}

fn too_large(text: String, path: &str) -> (Refusal, Refusal) {
    let refusal = |reason| Refusal::new(reason, &*text).at(format!("{path}.caCertificateRefs"));
    (refusal(INVALID_BUNDLE), refusal(NO_VALID))
}

fn bundle(lookup: &mut impl Lookup, gateway: &ObjectKey, reference: &ObjectRef) -> Result<(ObjectKey, Size), Refusal> {
    let permit = permit(lookup, gateway, Reference::from(reference)).map_err(|fault| match fault.reason {
        RefReason::NotPermitted => Refusal::new("RefNotPermitted", fault.text),
        RefReason::InvalidKind | RefReason::NotFound | RefReason::NoPort | RefReason::UnsupportedProtocol => {
            Refusal::new(INVALID_BUNDLE, fault.text)
        }
    })?;
    let target = permit.target();
    if !holds_bundles(target.kind()) || !lookup.is_served(target) {
        return Err(Refusal::new("InvalidCACertificateKind", no_bundle(&reference.group, &reference.kind)));
    }
    match lookup.secret(&permit, SecretPart::Bundle) {
        Some(Ok(usable)) => Ok((target.clone(), usable.size)),
        Some(Err(text)) => Err(Refusal::new(INVALID_BUNDLE, format!("{target}: {text}"))),
        None => {
            let text = format!("{target} does not exist");
            Err(Refusal::new(INVALID_BUNDLE, text).naming(target.clone()))
        }
    }
}
