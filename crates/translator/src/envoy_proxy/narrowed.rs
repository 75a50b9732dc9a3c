//! The fields of `EnvoyProxy.spec.provider.kubernetes` that have an effect, and the ServiceAccounts that Pods may have, where the operator says so.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{EnvoyGateway, RefusalKind};
use ir::infra::kubernetes::Workload;
use serde_json::Value;

use super::kubernetes::ObjectSettings;

#[cfg(test)]
mod tests;

/// Rights of an `EnvoyProxy`, from the static configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProxyRules {
    /// Options that may be given to Envoy.
    pub(super) arguments: Box<[Box<str>]>,
    /// Fields that may be written, each with what is in it; none: all of them.
    pub(super) fields: Option<Box<[Box<str>]>>,
    /// Names of ServiceAccounts that may be written; none: all of them.
    pub(super) accounts: Option<Box<[Box<str>]>>,
    /// Labels that a Gateway may give what is made for it, by name or by a prefix that ends in `/`; none: all of them.
    pub(crate) labels: Option<Box<[Box<str>]>>,
    /// Its annotations.
    pub(crate) annotations: Option<Box<[Box<str>]>>,
}

impl ProxyRules {
    pub(crate) fn of(settings: &EnvoyGateway) -> Self {
        let kubernetes = settings.spec.kubernetes().unwrap_or_default();
        Self {
            arguments: settings.spec.extension_apis.arguments().into(),
            fields: kubernetes.deploy.allowed_fields,
            accounts: kubernetes.deploy.allowed_service_accounts,
            labels: kubernetes.deploy.allowed_labels,
            annotations: kubernetes.deploy.allowed_annotations,
        }
    }

    fn permits(&self, path: &str) -> bool {
        let is_in =
            |allowed: &str| path.strip_prefix(allowed).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        self.fields.as_ref().is_none_or(|allowed| allowed.iter().any(|allowed| is_in(allowed)))
    }

    /// Returns true if the operator names this field itself, not one that has it.
    fn names(&self, path: &str) -> bool {
        self.fields.as_ref().is_some_and(|allowed| allowed.iter().any(|allowed| **allowed == *path))
    }

    fn permits_account(&self, name: &str) -> bool {
        self.accounts.as_ref().is_none_or(|allowed| allowed.iter().any(|allowed| **allowed == *name))
    }
}

/// A field that is left out and why.
type Warning = (String, String);

/// Returns the settings without what is not allowed, and what that is.
pub(super) fn narrowed(
    mut settings: ObjectSettings,
    rules: &ProxyRules,
) -> (ObjectSettings, Vec<(RefusalKind, Warning)>) {
    let mut narrowing = Narrowing { rules, warnings: Vec::new() };
    let kind = if settings.workload.on_every_node { "envoyDaemonSet" } else { "envoyDeployment" };
    narrowing.workload(kind, &mut settings.workload);
    let service = &mut settings.service;
    narrowing.keep("envoyService.name", &mut service.name);
    narrowing.keep("envoyService.type", &mut service.service_type);
    narrowing.keep("envoyService.labels", &mut service.labels);
    narrowing.keep("envoyService.annotations", &mut service.annotations);
    narrowing.keep_each("envoyService", &mut service.spec);
    service.external_ips = rules.names(EXTERNAL_IPS);
    if !service.external_ips && service.spec.remove("externalIPs").is_some() {
        narrowing.refuse(EXTERNAL_IPS, RefusalKind::PodField, NOT_NAMED);
    }
    narrowing.keep("envoyService.patch", &mut service.patch);
    narrowing.keep("envoyHpa", &mut settings.autoscaler);
    narrowing.keep("envoyPDB", &mut settings.disruption_budget);
    narrowing.keep("envoyServiceAccount", &mut settings.service_account);
    narrowing.keep("useListenerPortAsContainerPort", &mut settings.own_ports);
    if let Some(name) = settings.service_account.take_if(|name| !rules.permits_account(name)) {
        narrowing.refuse("envoyServiceAccount.name", RefusalKind::ServiceAccount, &account_text(&name));
    }
    (settings, narrowing.warnings)
}

struct Narrowing<'r> {
    rules: &'r ProxyRules,
    warnings: Vec<(RefusalKind, Warning)>,
}

impl Narrowing<'_> {
    fn workload(&mut self, kind: &str, workload: &mut Workload) {
        let below = |field: &str| format!("{kind}.{field}");
        let is_daemon_set = |allowed: &str| allowed == "envoyDaemonSet" || allowed.starts_with("envoyDaemonSet.");
        let fields = self.rules.fields.as_ref();
        if workload.on_every_node && fields.is_some_and(|all| !all.iter().any(|allowed| is_daemon_set(allowed))) {
            *workload = Workload::default();
            return self.refuse(kind, RefusalKind::PodField, NOT_ALLOWED);
        }
        self.keep(&below("name"), &mut workload.name);
        self.keep(&below("replicas"), &mut workload.replicas);
        self.keep(&below("strategy"), &mut workload.strategy);
        self.keep(&below("pod.labels"), &mut workload.pod_labels);
        self.keep(&below("pod.annotations"), &mut workload.pod_annotations);
        self.keep_each(&below("pod"), &mut workload.pod);
        self.keep(&below("container.image"), &mut workload.image);
        self.keep(&below("container.imageRepository"), &mut workload.image_repository);
        self.keep_each(&below("container"), &mut workload.container);
        self.keep(&below("initContainers"), &mut workload.init_containers);
        self.keep(&below("patch"), &mut workload.patch);
        let rules = self.rules;
        let names = |value: &Value| account_of(value).find(|name| !rules.permits_account(name));
        if let Some(name) = workload.patch.as_ref().and_then(|patch| names(&patch.value)) {
            workload.patch = None;
            self.refuse(&below("patch"), RefusalKind::ServiceAccount, &account_text(&name));
        }
        let found: Vec<_> = workload
            .pod
            .iter()
            .filter_map(|(field, value)| {
                let name = value.as_str().filter(|_| is_account(field))?;
                (!rules.permits_account(name)).then(|| (Arc::clone(field), name.to_owned()))
            })
            .collect();
        for (field, name) in found {
            workload.pod.remove(&field);
            self.refuse(&below(&format!("pod.{field}")), RefusalKind::ServiceAccount, &account_text(&name));
        }
    }

    fn keep<T: Default + PartialEq>(&mut self, path: &str, value: &mut T) {
        if *value != T::default() && !self.rules.permits(path) {
            *value = T::default();
            self.refuse(path, RefusalKind::PodField, NOT_ALLOWED);
        }
    }

    fn keep_each<V>(&mut self, path: &str, fields: &mut BTreeMap<Arc<str>, V>) {
        let refused: Vec<Arc<str>> =
            fields.keys().filter(|field| !self.rules.permits(&format!("{path}.{field}"))).cloned().collect();
        for field in refused {
            fields.remove(&field);
            self.refuse(&format!("{path}.{field}"), RefusalKind::PodField, NOT_ALLOWED);
        }
    }

    fn refuse(&mut self, path: &str, refusal: RefusalKind, text: &str) {
        self.warnings.push((refusal, (format!("spec.provider.kubernetes.{path}"), text.to_owned())));
    }
}

/// Addresses of a Service whose traffic comes to it from the whole cluster, whatever owns them (CVE-2020-8554).
const EXTERNAL_IPS: &str = "envoyService.externalIPs";

const NOT_NAMED: &str = "no effect: it would take the traffic of these addresses in the whole cluster; the operator allows it where provider.kubernetes.deploy.allowedFields of the static configuration names envoyService.externalIPs itself";

const NOT_ALLOWED: &str = "no effect: it is not among provider.kubernetes.deploy.allowedFields of the static configuration, where the operator allows it";

fn account_text(name: &str) -> String {
    format!(
        "no effect: the ServiceAccount {name:?} is not among provider.kubernetes.deploy.allowedServiceAccounts of the static configuration"
    )
}

fn is_account(field: &str) -> bool {
    field == "serviceAccountName" || field == "serviceAccount"
}

/// The ServiceAccounts that a patch names, at any depth. One that is no text is shown as it stands.
fn account_of(value: &Value) -> Box<dyn Iterator<Item = String> + '_> {
    match value {
        Value::Object(fields) => Box::new(fields.iter().flat_map(|(field, inner)| {
            let own = (is_account(field) && !inner.is_null())
                .then(|| inner.as_str().map_or_else(|| inner.to_string(), str::to_owned));
            // A token can be mounted of the Pod's own account only.
            own.into_iter().chain(account_of(inner))
        })),
        Value::Array(items) => Box::new(items.iter().flat_map(account_of)),
        _ => Box::new(std::iter::empty()),
    }
}
