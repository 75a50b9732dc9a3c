//! Which objects an object names, of the kinds that are too many or too private to be read unasked.

use crate::backend::BackendSpec;
use crate::backend_tls_policy::BackendTlsPolicySpec;
use crate::gateway::{GatewaySpec, Listener};
use crate::key::ObjectKey;
use crate::kind::{Kind, Object};
use crate::raw::RawSpec;
use crate::reference_grant::ReferenceGrantSpec;
use crate::x_backend::XBackendSpec;

impl Object {
    /// The Secrets, `ConfigMap`s and `ClusterTrustBundle`s that it names, the class of a Gateway, and, of what is for workloads or selects Pods, all Pods of a namespace ([`pods_of`]): a source
    /// that does not read all objects of these kinds reads those. Whether the object may name them, and whether it is of use itself, is not asked. Sorted, each once.
    #[must_use]
    pub fn references(&self) -> Vec<ObjectKey> {
        let mut found = References { namespace: self.key().namespace(), keys: Vec::new() };
        match self {
            Self::Gateway(gateway) => found.of_gateway(&gateway.spec),
            Self::ListenerSet(set) => found.of_listeners(&set.spec.listeners),
            Self::Backend(backend) => found.of_backend(&backend.spec),
            Self::BackendTlsPolicy(policy) => found.of_backend_tls_policy(&policy.spec),
            Self::XBackend(backend) => found.of_x_backend(&backend.spec),
            Self::Raw(_, object) => found.of_raw(&object.spec),
            Self::ReferenceGrant(grant) => found.of_grant(&grant.spec),
            // These name none in the fields that are read.
            Self::GatewayClass(_)
            | Self::HttpRoute(_)
            | Self::GrpcRoute(_)
            | Self::TlsRoute(_)
            | Self::TcpRoute(_)
            | Self::UdpRoute(_)
            | Self::Service(_)
            | Self::EndpointSlice(_)
            | Self::Secret(_)
            | Self::ConfigMap(_)
            | Self::ClusterTrustBundle(_)
            | Self::ServiceImport(_)
            | Self::Namespace(_)
            | Self::EnvoyProxy(_)
            | Self::BackendTrafficPolicy(_)
            | Self::XBackendTrafficPolicy(_)
            | Self::XTelemetryPolicy(_)
            | Self::EnvoyPatchPolicy(_)
            | Self::SecurityPolicy(_)
            | Self::EnvoyExtensionPolicy(_)
            | Self::ClientTrafficPolicy(_)
            | Self::EnvoyGateway(_)
            | Self::Pod(_) => {}
        }
        found.keys.sort();
        found.keys.dedup();
        found.keys
    }
}

/// What stands for all Pods of a namespace: no object has an empty name.
#[must_use]
pub fn pods_of(namespace: &str) -> ObjectKey {
    ObjectKey::of(Kind::Pod, namespace, "")
}

struct References<'a> {
    /// Where a reference without a namespace leads.
    namespace: &'a str,
    keys: Vec<ObjectKey>,
}

impl References<'_> {
    fn of_gateway(&mut self, spec: &GatewaySpec) {
        self.keys.push(ObjectKey::of(Kind::GatewayClass, "", &spec.gateway_class_name));
        self.of_listeners(&spec.listeners);
        let Some(tls) = spec.tls.as_deref() else { return };
        if let Some(to) = tls.backend.as_ref().and_then(|backend| backend.client_certificate_ref.as_ref()) {
            self.add(&to.group, &to.kind, to.namespace.as_deref(), &to.name);
        }
        let frontend = tls.frontend.iter();
        let configs = frontend.flat_map(|all| all.per_port.iter().map(|port| &port.tls).chain([&all.default_tls]));
        for to in configs.filter_map(|tls| tls.validation.as_ref()).flat_map(|one| &one.ca_certificate_refs) {
            self.add(&to.group, &to.kind, to.namespace.as_deref(), &to.name);
        }
    }

    fn of_listeners(&mut self, listeners: &[Listener]) {
        for tls in listeners.iter().filter_map(|listener| listener.tls.as_deref()) {
            tls.certificate_refs.iter().for_each(|to| self.add(&to.group, &to.kind, to.namespace.as_deref(), &to.name));
        }
    }

    fn of_backend(&mut self, spec: &BackendSpec) {
        let Some(tls) = spec.tls.as_deref() else { return };
        tls.ca_certificate_refs.iter().for_each(|to| self.add(&to.group, &to.kind, None, &to.name));
        if let Some(to) = &tls.client_certificate_ref {
            self.add(&to.group, &to.kind, to.namespace.as_deref(), &to.name);
        }
    }

    fn of_x_backend(&mut self, spec: &XBackendSpec) {
        if spec.endpoint_selector.is_some() {
            self.keys.push(pods_of(self.namespace));
        }
        let Some(tls) = spec.tls.as_deref() else { return };
        let bundles = tls.validation.iter().flat_map(|validation| &validation.ca_certificate_refs);
        bundles.for_each(|to| self.add(&to.group, &to.kind, None, &to.name));
        if let Some(to) = &tls.client_certificate_ref {
            self.add(&to.group, &to.kind, to.namespace.as_deref(), &to.name);
        }
    }

    fn of_backend_tls_policy(&mut self, spec: &BackendTlsPolicySpec) {
        spec.validation.ca_certificate_refs.iter().for_each(|to| self.add(&to.group, &to.kind, None, &to.name));
    }

    /// Whatever its selector says: which Pods it selects, only their labels say.
    fn of_raw(&mut self, spec: &RawSpec) {
        self.keys.push(pods_of(self.namespace));
        if let Some(to) = &spec.secret_ref {
            self.add(Kind::Secret.group(), Kind::Secret.name(), to.namespace.as_deref(), &to.name);
        }
    }

    /// Where Pods may be referred to, objects of other namespaces may be for them.
    fn of_grant(&mut self, spec: &ReferenceGrantSpec) {
        if spec.to.iter().any(|to| Kind::find(&to.group, &to.kind) == Some(Kind::Pod)) {
            self.keys.push(pods_of(self.namespace));
        }
    }

    fn add(&mut self, group: &str, kind: &str, namespace: Option<&str>, name: &str) {
        match Kind::find(group, kind) {
            Some(kind @ (Kind::Secret | Kind::ConfigMap)) => {
                self.keys.push(ObjectKey::of(kind, namespace.unwrap_or(self.namespace), name));
            }
            Some(Kind::ClusterTrustBundle) => self.keys.push(ObjectKey::of(Kind::ClusterTrustBundle, "", name)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
