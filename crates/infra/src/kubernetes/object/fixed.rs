//! Fields that stay Chancery's in each finished object, after an author's fields and patches: the identity of the object, the objects and Pods that it
//! leads to, the account of its Pods.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Maker, ObjectKind, name};

/// Fields of an object's metadata that may be applied.
const METADATA: [&str; 6] = ["annotations", "finalizers", "labels", "name", "namespace", "ownerReferences"];

/// The account of Pods and its earlier name, of which the API server takes either.
const ACCOUNTS: [&str; 2] = ["/spec/template/spec/serviceAccountName", "/spec/template/spec/serviceAccount"];

impl Maker<'_> {
    /// Checks the object as it would be applied: fields and patches change what it is like, not its identity and not its reach.
    pub(super) fn still_ours(&self, object: &Value, kind: ObjectKind, name: &str) -> Result<(), String> {
        self.keeps_identity(object, kind, name)?;
        match kind {
            ObjectKind::Service => self.keeps_service(object),
            ObjectKind::Deployment | ObjectKind::DaemonSet => self.keeps_pods(object),
            ObjectKind::HorizontalPodAutoscaler => fixed(object, "/spec/scaleTargetRef", Some(&self.scale_target())),
            ObjectKind::PodDisruptionBudget => fixed(object, "/spec/selector", Some(&self.match_labels())),
            ObjectKind::ServiceAccount | ObjectKind::ConfigMap => Ok(()),
        }
    }

    fn keeps_identity(&self, object: &Value, kind: ObjectKind, name: &str) -> Result<(), String> {
        let (api_version, kind, _) = kind.names();
        let identity = [
            ("/apiVersion", api_version),
            ("/kind", kind),
            ("/metadata/name", name),
            ("/metadata/namespace", &*self.namespace),
        ];
        for (pointer, wanted) in identity {
            fixed(object, pointer, Some(&wanted.into()))?;
        }
        let fields = object.get("metadata").and_then(Value::as_object).into_iter().flat_map(Map::keys);
        if let Some(field) = fields.into_iter().find(|field| !METADATA.contains(&field.as_str())) {
            return Err(format!("sets metadata.{field}, which is the API server's"));
        }
        fixed(object, "/metadata/ownerReferences", self.owner().as_ref())?;
        let controller = (Arc::from(name::CONTROLLER), self.options.label().into());
        let labels = name::selector(&self.infra.gateway).into_iter().chain([controller]);
        has_labels(object.get("metadata"), labels, "the object is found")
    }

    /// Checks that a Service leads to the Gateway's Pods only, and takes no address of others (CVE-2020-8554) unless the operator allows it.
    fn keeps_service(&self, object: &Value) -> Result<(), String> {
        fixed(object, "/spec/selector", Some(&self.selector().into()))?;
        fixed(object, "/spec/externalName", None)?;
        if object.pointer("/spec/type").and_then(Value::as_str) == Some("ExternalName") {
            return Err("makes spec.type ExternalName, which leads away from the Gateway".to_owned());
        }
        let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        let external = object.pointer("/spec/externalIPs").is_some_and(|value| !is_empty(value));
        if external && !self.kubernetes.service.external_ips {
            return Err("sets spec.externalIPs, which takes the traffic of these addresses in the whole cluster; the operator allows it with \
                        envoyService.externalIPs in provider.kubernetes.deploy.allowedFields of the static configuration"
                .to_owned());
        }
        Ok(())
    }

    /// Checks that Pods run under the account that counts for the Gateway, and that Services and budgets of the Gateway find them.
    fn keeps_pods(&self, object: &Value) -> Result<(), String> {
        fixed(object, "/spec/selector", Some(&self.match_labels()))?;
        let labels = name::selector(&self.infra.gateway).into_iter();
        has_labels(object.pointer("/spec/template/metadata"), labels, "Pods are found")?;
        let [account, earlier] = ACCOUNTS;
        let own = Value::from(&**self.service_account_name());
        fixed(object, account, Some(&own))?;
        if object.pointer(earlier) == Some(&own) { Ok(()) } else { fixed(object, earlier, None) }
    }

    /// Returns the workload that an autoscaler scales.
    pub(super) fn scale_target(&self) -> Value {
        let (api_version, kind, _) = self.workload_kind().names();
        let name = self.kubernetes.workload.name.as_ref().unwrap_or(&self.name);
        json!({ "apiVersion": api_version, "kind": kind, "name": &**name })
    }

    /// Returns the selector of a workload and of a budget.
    pub(super) fn match_labels(&self) -> Value {
        json!({ "matchLabels": self.selector() })
    }
}

/// Checks that a field has the value that Chancery gave it. None: it is not there, or null.
fn fixed(object: &Value, pointer: &str, wanted: Option<&Value>) -> Result<(), String> {
    if object.pointer(pointer).filter(|found| !found.is_null()) == wanted {
        return Ok(());
    }
    Err(format!("changes {}, which is fixed", pointer.trim_start_matches('/').replace('/', ".")))
}

fn has_labels(
    metadata: Option<&Value>,
    wanted: impl Iterator<Item = (Arc<str>, Arc<str>)>,
    reason: &str,
) -> Result<(), String> {
    let labels = metadata.and_then(|metadata| metadata.get("labels"));
    for (label, value) in wanted {
        if labels.and_then(|labels| labels.get(&*label)?.as_str()) != Some(&*value) {
            return Err(format!("changes the label {label}, by which {reason}"));
        }
    }
    Ok(())
}
