//! `GatewayClass`: which classes are ours, and the settings that they name.

use std::sync::Arc;

use api::reference::ObjectRef;
use api::{GatewayClass, Kind, ObjectKey};

/// A class of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClassView {
    /// The `EnvoyProxy` that it names, or why the name leads nowhere.
    pub(crate) parameters: Result<Option<ObjectKey>, Arc<str>>,
}

/// Reads a class, if it names our controller; `exists` says whether an `EnvoyProxy` is there.
pub(crate) fn read(
    class: &GatewayClass,
    controller: &str,
    exists: impl FnOnce(&ObjectKey) -> bool,
) -> Option<ClassView> {
    if &*class.spec.controller_name != controller {
        return None;
    }
    let parameters = class.spec.parameters_ref.as_deref().map(|reference| parameters(reference, exists)).transpose();
    Some(ClassView { parameters })
}

fn parameters(reference: &ObjectRef, exists: impl FnOnce(&ObjectKey) -> bool) -> Result<ObjectKey, Arc<str>> {
    let ObjectRef { group, kind, namespace, name } = reference;
    let Some(namespace) = namespace.as_deref() else {
        return Err(format!("parametersRef needs the namespace of {kind} {name}").into());
    };
    let key = ObjectKey::new(group, kind, namespace, name);
    if key.kind() != Some(Kind::EnvoyProxy) {
        return Err(format!("parametersRef names {kind} of group {group:?}, only EnvoyProxy can be used").into());
    }
    if exists(&key) { Ok(key) } else { Err(format!("{key} does not exist").into()) }
}

/// Features of the conformance suite that are really built, sorted (`GatewayClass.status.supportedFeatures`).
pub(crate) const SUPPORTED_FEATURES: [&str; 37] = [
    "Gateway",
    "GatewayAddressEmpty",
    "GatewayFrontendClientCertificateValidation",
    "GatewayFrontendClientCertificateValidationInsecureFallback",
    "GatewayHTTPListenerIsolation",
    "GatewayHTTPSListenerDetectMisdirectedRequests",
    "GatewayPort8080",
    "GatewayRouteHostnameIntersectionPrecedence",
    "GatewayStaticAddresses",
    "HTTPRoute",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolH2C",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendRequestHeaderModification",
    "HTTPRouteBackendTimeout",
    "HTTPRouteBackendURLRewrite",
    "HTTPRouteCORS",
    "HTTPRouteDestinationPortMatching",
    "HTTPRouteHostRewrite",
    "HTTPRouteMethodMatching",
    "HTTPRouteNamedRouteRule",
    "HTTPRouteParentRefPort",
    "HTTPRoutePathRedirect",
    "HTTPRoutePathRewrite",
    "HTTPRoutePortRedirect",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteRequestMirror",
    "HTTPRouteRequestMultipleMirrors",
    "HTTPRouteRequestPercentageMirror",
    "HTTPRouteRequestTimeout",
    "HTTPRouteResponseHeaderModification",
    "HTTPRouteRetryCodes",
    "HTTPRouteRetryConnectionError",
    "HTTPRouteSchemeRedirect",
    "ReferenceGrant",
];

#[cfg(test)]
mod tests {
    use super::SUPPORTED_FEATURES;

    #[test]
    fn features_are_sorted_and_no_more_than_the_api_allows() {
        assert!(SUPPORTED_FEATURES.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(SUPPORTED_FEATURES.len() <= 64);
    }
}
