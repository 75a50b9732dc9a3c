//! `GatewayClass`: which classes are ours, and the settings that they name.

use std::sync::Arc;

use api::reference::ObjectRef;
use api::{GatewayClass, Kind, ObjectKey};

use crate::envoy_proxy::Named;

/// A class of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClassView {
    /// The `EnvoyProxy` that it names, or why it can name none there.
    pub(crate) parameters: Result<Option<Named>, Arc<str>>,
}

impl ClassView {
    /// The `EnvoyProxy` that it names, usable or not.
    pub(crate) fn named(&self) -> Option<ObjectKey> {
        let named = self.parameters.as_ref().ok()?.as_ref()?;
        Some(named.object.clone())
    }

    /// The `EnvoyProxy` that holds for Gateways without their own, or why the class has none that can be used.
    pub(crate) fn settings(&self) -> Result<Option<ObjectKey>, Arc<str>> {
        let Some(named) = self.parameters.clone()? else { return Ok(None) };
        named.usable.map(|()| Some(named.object))
    }
}

/// Reads a class, if it names our controller; `find` looks an `EnvoyProxy` up.
pub(crate) fn read(
    class: &GatewayClass,
    controller: &str,
    find: impl FnOnce(&ObjectKey) -> Named,
) -> Option<ClassView> {
    if &*class.spec.controller_name != controller {
        return None;
    }
    let parameters = class.spec.parameters_ref.as_deref().map(|reference| parameters(reference, find)).transpose();
    Some(ClassView { parameters })
}

fn parameters(reference: &ObjectRef, find: impl FnOnce(&ObjectKey) -> Named) -> Result<Named, Arc<str>> {
    let ObjectRef { group, kind, namespace, name } = reference;
    let Some(namespace) = namespace.as_deref() else {
        return Err(format!("parametersRef needs the namespace of {kind} {name}").into());
    };
    let key = ObjectKey::new(group, kind, namespace, name);
    if key.kind() != Some(Kind::EnvoyProxy) {
        return Err(format!("parametersRef names {kind} of group {group:?}, only EnvoyProxy can be used").into());
    }
    Ok(find(&key))
}

/// Features of the conformance suite that are really built (`GatewayClass.status.supportedFeatures`).
pub(crate) fn supported_features(file_mode: bool) -> impl Iterator<Item = &'static str> {
    FEATURES.into_iter().filter(move |feature| !file_mode || !IN_CLUSTERS.contains(feature))
}

/// Those that only a cluster has: objects are made for a Gateway.
const IN_CLUSTERS: [&str; 1] = ["GatewayInfrastructure"];

/// All of them, sorted.
const FEATURES: [&str; 50] = [
    "BackendTLSPolicy",
    "BackendTLSPolicySANValidation",
    "GRPCRoute",
    "GRPCRouteNamedRouteRule",
    "GRPCRouteRequestHeaderModifier",
    "Gateway",
    "GatewayAddressEmpty",
    "GatewayBackendClientCertificate",
    "GatewayFrontendClientCertificateValidation",
    "GatewayFrontendClientCertificateValidationInsecureFallback",
    "GatewayHTTPListenerIsolation",
    "GatewayHTTPSListenerDetectMisdirectedRequests",
    "GatewayInfrastructure",
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
    "ListenerSet",
    "ReferenceGrant",
    "TCPRoute",
    "TLSRoute",
    "TLSRouteModeMixed",
    "TLSRouteModeTerminate",
    "UDPRoute",
];

#[cfg(test)]
mod tests {
    use super::{FEATURES, IN_CLUSTERS, supported_features};

    #[test]
    fn features_are_sorted_and_no_more_than_the_api_allows() {
        assert!(FEATURES.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(FEATURES.len() <= 64);
    }

    #[test]
    fn with_files_there_are_those_that_need_no_cluster() {
        assert_eq!(supported_features(false).count(), FEATURES.len());
        assert!(!supported_features(true).any(|feature| IN_CLUSTERS.contains(&feature)));
    }
}
