//! `GatewayClass`: which classes are ours, and the settings that they name.

use std::sync::Arc;

use api::reference::ObjectRef;
use api::{GatewayClass, Kind, ObjectKey};
use store::GatewayApi;

use crate::envoy_proxy::Named;

/// A class of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClassView {
    /// The `EnvoyProxy` that it names, or why it can name none there.
    pub(crate) parameters: Result<Option<Named>, Arc<str>>,
    /// What the cluster has; none with files.
    pub(crate) installed: Option<Installed>,
}

/// What of the APIs a cluster has that a class tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Installed {
    /// Not known where definitions may not be read.
    pub(crate) gateway_api: Option<GatewayApi>,
    /// There can be objects of kind `ClusterTrustBundle`.
    pub(crate) trust_bundles: bool,
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
    installed: Option<Installed>,
    find: impl FnOnce(&ObjectKey) -> Named,
) -> Option<ClassView> {
    if &*class.spec.controller_name != controller {
        return None;
    }
    let parameters = class.spec.parameters_ref.as_deref().map(|reference| parameters(reference, find)).transpose();
    Some(ClassView { parameters, installed })
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

/// Features of the conformance suite that are really built (`GatewayClass.status.supportedFeatures`), sorted: those of the installed release and channel.
pub(crate) fn supported_features(installed: Option<&Installed>, file_mode: bool) -> Vec<&'static str> {
    let (is_experimental, is_earlier) = channel(installed, file_mode);
    let has_trust_bundles = is_experimental && installed.is_none_or(|installed| installed.trust_bundles);
    let claimed = |feature: &&str| match *feature {
        "GatewayInfrastructure" => !file_mode,
        "ClusterTrustBundle" => has_trust_bundles && !is_earlier,
        "GatewayAddressRoutabilityCluster" => is_experimental && !is_earlier && !file_mode,
        "GatewayAddressRoutability" | "GatewayListenerFilters" => is_experimental && !is_earlier,
        // Names of v1.6, where what tries again is of the experimental channel.
        "HTTPRouteRetry" | "HTTPRouteRetryBackendTimeout" => is_earlier && is_experimental,
        "HTTPRouteRetryConnectionError" => !is_earlier || is_experimental,
        // Names since v1.7.
        "GRPCRouteRequestHeaderModifier"
        | "GatewayRouteHostnameIntersectionPrecedence"
        | "HTTPRouteBackendURLRewrite"
        | "HTTPRouteRetryCodes" => !is_earlier,
        _ => true,
    };
    FEATURES.into_iter().filter(claimed).collect()
}

/// Whether objects have the fields of the experimental channel, and whether any is defined as of v1.6.
fn channel(installed: Option<&Installed>, file_mode: bool) -> (bool, bool) {
    let gateway_api = installed.and_then(|installed| installed.gateway_api.as_ref());
    let is_experimental = file_mode || gateway_api.is_some_and(|found| found.is_experimental);
    let is_earlier = gateway_api.is_some_and(|found| found.versions.iter().any(|version| is_of(version, "v1.6")));
    (is_experimental, is_earlier)
}

/// Whether addresses of Gateways have `routability` (GEP-5093).
pub(crate) fn knows_routability(class: Option<&ClassView>, file_mode: bool) -> bool {
    let (is_experimental, is_earlier) = channel(class.and_then(|class| class.installed.as_ref()), file_mode);
    is_experimental && !is_earlier
}

/// Releases of the Gateway API that objects are read as of; the last is what is built in.
const RELEASES: [&str; 2] = ["v1.6", "v1.7"];

/// Whether a version is one of a release, for example `v1.7.0` of `v1.7`.
fn is_of(version: &str, release: &str) -> bool {
    version.strip_prefix(release).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
}

/// Whether the installed definitions are of releases that we know, in words.
pub(crate) fn version(installed: Option<&Installed>) -> Result<String, String> {
    let Some(gateway_api) = installed.and_then(|installed| installed.gateway_api.as_ref()) else {
        // The definitions by which objects are read are built in.
        return Ok("objects are read as of Gateway API v1.7".to_owned());
    };
    let unknown = gateway_api.versions.iter().find(|version| !RELEASES.iter().any(|release| is_of(version, release)));
    let all = || gateway_api.versions.iter().map(|version| &**version).collect::<Vec<_>>().join(", ");
    match unknown.map(|version| &**version) {
        None => Ok(format!("the definitions of Gateway API are of {}, objects are read as of v1.7", all())),
        Some("") => Err("a definition of Gateway API does not say of which release it is".to_owned()),
        Some(version) => {
            Err(format!("definitions of Gateway API are of {version}, supported are {}", RELEASES.join(" and ")))
        }
    }
}

/// All of them, sorted.
const FEATURES: [&str; 56] = [
    "BackendTLSPolicy",
    "BackendTLSPolicySANValidation",
    "ClusterTrustBundle",
    "GRPCRoute",
    "GRPCRouteNamedRouteRule",
    "GRPCRouteRequestHeaderModifier",
    "Gateway",
    "GatewayAddressEmpty",
    "GatewayAddressRoutability",
    "GatewayAddressRoutabilityCluster",
    "GatewayBackendClientCertificate",
    "GatewayFrontendClientCertificateValidation",
    "GatewayFrontendClientCertificateValidationInsecureFallback",
    "GatewayHTTPListenerIsolation",
    "GatewayHTTPSListenerDetectMisdirectedRequests",
    "GatewayInfrastructure",
    "GatewayListenerFilters",
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
    "HTTPRouteRetry",
    "HTTPRouteRetryBackendTimeout",
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
    use std::sync::Arc;

    use store::GatewayApi;

    use super::{FEATURES, Installed, supported_features, version};

    fn installed(version: &str, is_experimental: bool, trust_bundles: bool) -> Installed {
        let versions = [Arc::from(version)].into();
        Installed { gateway_api: Some(GatewayApi { versions, is_experimental }), trust_bundles }
    }

    #[test]
    fn features_are_sorted_and_no_more_than_the_api_allows() {
        assert!(FEATURES.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(FEATURES.len() <= 64);
    }

    #[test]
    fn what_is_claimed_follows_the_installed_release_and_channel() {
        let claims = |installed: &Installed, feature| supported_features(Some(installed), false).contains(&feature);
        let (standard, experimental) = (installed("v1.7.0", false, true), installed("v1.7.0", true, true));
        let routability = ["GatewayAddressRoutability", "GatewayAddressRoutabilityCluster"];
        for feature in ["ClusterTrustBundle", "GatewayListenerFilters"].into_iter().chain(routability) {
            assert!(!claims(&standard, feature) && claims(&experimental, feature), "{feature}");
        }
        assert!(!claims(&installed("v1.7.0", true, false), "ClusterTrustBundle"), "the cluster has no such kind");
        for feature in ["HTTPRouteRetry", "HTTPRouteRetryBackendTimeout"] {
            assert!(claims(&installed("v1.6.3", true, false), feature), "{feature}");
            assert!(
                !claims(&installed("v1.6.3", false, false), feature) && !claims(&experimental, feature),
                "{feature}"
            );
        }
        for feature in
            routability.into_iter().chain(["ClusterTrustBundle", "GatewayListenerFilters", "HTTPRouteRetryCodes"])
        {
            assert!(!claims(&installed("v1.6.3", true, true), feature), "{feature}");
        }
        assert!(claims(&standard, "HTTPRouteRetryCodes"));
        for (version, is_experimental, claimed) in
            [("v1.6.3", false, false), ("v1.6.3", true, true), ("v1.7.0", false, true)]
        {
            let found = claims(&installed(version, is_experimental, false), "HTTPRouteRetryConnectionError");
            assert_eq!(found, claimed, "{version} {is_experimental}");
        }
        let files = supported_features(None, true);
        assert!(files.contains(&routability[0]) && !files.contains(&routability[1]), "files have no Service");
        assert!(files.contains(&"GatewayListenerFilters") && !files.contains(&"GatewayInfrastructure"));
    }

    #[test]
    fn a_release_that_is_not_known_is_told() {
        assert!(version(Some(&installed("v1.7.3", true, true))).is_ok());
        assert!(version(Some(&installed("v1.6.0-rc.1", true, true))).is_ok());
        assert!(version(Some(&installed("v1.5.1", true, true))).unwrap_err().contains("v1.5.1"));
        assert!(version(Some(&installed("", true, true))).is_err(), "a definition without a version");
        assert!(version(None).is_ok(), "files");
    }
}
