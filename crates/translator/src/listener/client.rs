//! Certificates of clients (`spec.tls.frontend`): which bundle holds for which port.

use api::gateway::{FrontendTls, FrontendTlsValidation, FrontendValidationMode};
use api::reference::ObjectRef;
use api::{Kind, ObjectKey};

use super::{ClientPlan, ListenerPlan, Refusal, Speaks};
use crate::backend::{SecretPart, SecretUse};
use crate::gateway::Lookup;
use crate::reference::{RefReason, Reference, permit};

/// Writes to every HTTPS listener how certificates of clients are judged there. A listener whose references all lead nowhere
/// serves nobody; one good bundle among several would be too little to verify with, and so is refused as well.
pub(super) fn validate(
    lookup: &mut impl Lookup,
    gateway: &ObjectKey,
    frontend: &FrontendTls,
    listeners: &mut [ListenerPlan],
) {
    for listener in listeners.iter_mut().filter(|listener| listener.speaks == Some(Speaks::Https)) {
        let own = frontend.per_port.iter().enumerate().find(|(_, entry)| entry.port == listener.port);
        let (config, path) = match own {
            Some((index, entry)) => (&entry.tls, format!("spec.tls.frontend.perPort[{index}].tls.validation")),
            None => (&frontend.default_tls, "spec.tls.frontend.default.validation".to_owned()),
        };
        let Some(validation) = config.validation.as_ref() else { continue };
        match plan(lookup, gateway, validation) {
            Ok(client) => listener.client = Some(client),
            Err((unresolved, refused)) if listener.is_of_set() => {
                let text = "certificates of clients cannot be judged as the Gateway wants it (spec.tls.frontend of the Gateway)";
                listener.unresolved.get_or_insert(Refusal::new(unresolved.reason, text));
                listener.refused.get_or_insert(Refusal::new(refused.reason, text));
            }
            Err((unresolved, refused)) => {
                listener.unresolved.get_or_insert(unresolved.at(path.clone()));
                listener.refused.get_or_insert(refused.at(path));
            }
        }
    }
}

/// Whether some port lets clients through whose certificate cannot be verified.
pub(super) fn is_insecure(frontend: &FrontendTls) -> bool {
    let configs = std::iter::once(&frontend.default_tls).chain(frontend.per_port.iter().map(|entry| &entry.tls));
    let mut validations = configs.filter_map(|config| config.validation.as_ref());
    validations.any(|validation| validation.mode == FrontendValidationMode::AllowInsecureFallback)
}

/// The plan, or why `ResolvedRefs` and why `Accepted` do not hold.
fn plan(
    lookup: &mut impl Lookup,
    gateway: &ObjectKey,
    validation: &FrontendTlsValidation,
) -> Result<ClientPlan, (Refusal, Refusal)> {
    let no_valid = |text: &str| Refusal::new("NoValidCACertificate", text);
    let [reference] = &*validation.ca_certificate_refs else {
        let text = "exactly one reference in caCertificateRefs is supported";
        return Err((Refusal::new("InvalidCACertificateRef", text), no_valid(text)));
    };
    let required = match &validation.mode {
        FrontendValidationMode::AllowValidOnly => true,
        FrontendValidationMode::AllowInsecureFallback => false,
        FrontendValidationMode::Unknown(word) => {
            let text = format!("validation mode {word:?} is not supported");
            return Err((Refusal::new("InvalidCACertificateRef", &*text), Refusal::new("UnsupportedValue", text)));
        }
    };
    match bundle(lookup, gateway, reference) {
        Ok(bundle) => Ok(ClientPlan { bundle, required }),
        Err(refusal) => {
            let accepted = no_valid(&refusal.text);
            Err((refusal, accepted))
        }
    }
}

fn bundle(lookup: &mut impl Lookup, gateway: &ObjectKey, reference: &ObjectRef) -> Result<SecretUse, Refusal> {
    let permit = permit(lookup, gateway, Reference::from(reference)).map_err(|fault| match fault.reason {
        RefReason::NotPermitted => Refusal::new("RefNotPermitted", fault.text),
        RefReason::InvalidKind | RefReason::NotFound | RefReason::NoPort | RefReason::UnsupportedProtocol => {
            Refusal::new("InvalidCACertificateRef", fault.text)
        }
    })?;
    let target = permit.target();
    if !matches!(target.kind(), Some(Kind::ConfigMap | Kind::Secret)) {
        let text = format!("{} cannot hold CA certificates, a ConfigMap can", target.kind_name());
        return Err(Refusal::new("InvalidCACertificateKind", text));
    }
    match lookup.secret(&permit, SecretPart::Bundle) {
        Some(Ok(())) => Ok(SecretUse { object: target.clone(), part: SecretPart::Bundle }),
        Some(Err(text)) => Err(Refusal::new("InvalidCACertificateRef", format!("{target}: {text}"))),
        None => {
            let text = format!("{target} does not exist");
            Err(Refusal::new("InvalidCACertificateRef", text).naming(target.clone()))
        }
    }
}
