//! Authors' fields and patches that would make an object reach beyond the Pods of its Gateway.

use super::*;

/// Returns the object of a kind with a patch on top, or the words that refuse it.
fn patched(kind: ObjectKind, patch_type: PatchType, value: &Value) -> Result<Value, String> {
    let patch = Some(Patch { patch_type, value: Arc::new(value.clone()) });
    let mut kubernetes = plain();
    kubernetes.workload.on_every_node = kind == ObjectKind::DaemonSet;
    kubernetes.autoscaler = Some(Extra::default());
    kubernetes.disruption_budget = Some(Extra::default());
    match kind {
        ObjectKind::Service => kubernetes.service.patch = patch,
        ObjectKind::HorizontalPodAutoscaler => kubernetes.autoscaler = Some(Extra { patch, ..Extra::default() }),
        ObjectKind::PodDisruptionBudget => kubernetes.disruption_budget = Some(Extra { patch, ..Extra::default() }),
        _ => kubernetes.workload.patch = patch,
    }
    object_of(kubernetes, kind)
}

fn object_of(kubernetes: KubernetesInfra, kind: ObjectKind) -> Result<Value, String> {
    let found = made(&infra("gw", kubernetes)).into_iter().find(|wanted| wanted.kind == kind);
    found.expect("there is one of this kind").object.map_err(|fault| format!("{}: {}", fault.path, fault.text))
}

#[test]
fn patch_cannot_take_the_account_of_pods_away() {
    let of_pod = |spec: Value| json!({ "spec": { "template": { "spec": spec } } });
    let containers = json!([{ "name": "envoy", "image": "x" }]);
    let taken = [
        of_pod(json!({ "serviceAccountName": null, "automountServiceAccountToken": true })),
        of_pod(json!({ "serviceAccountName": "default" })),
        of_pod(json!({ "serviceAccount": "default" })),
        of_pod(json!({ "serviceAccountName": ["default"] })),
        of_pod(json!({ "$patch": "replace", "containers": containers })),
        of_pod(json!({ "$retainKeys": ["containers"], "containers": containers })),
        of_pod(json!({ "$patch": "delete" })),
        json!({ "spec": { "$patch": "replace", "template": { "spec": { "containers": containers } } } }),
        json!({ "spec": null }),
        json!({ "$patch": "delete" }),
    ];
    for kind in [ObjectKind::Deployment, ObjectKind::DaemonSet] {
        for value in &taken {
            for patch_type in [PatchType::StrategicMerge, PatchType::JsonMerge] {
                let outcome = patched(kind, patch_type, value);
                // A merge of RFC 7396 has no directives: it adds them as fields, and the account stays.
                let stays = |object: &Value| object.pointer("/spec/template/spec/serviceAccountName").is_some();
                let is_directive = value.to_string().contains('$') && patch_type == PatchType::JsonMerge;
                assert!(
                    outcome.is_err() || is_directive && outcome.as_ref().is_ok_and(stays),
                    "{value} gives {outcome:?}"
                );
            }
        }
        let kept = patched(kind, PatchType::StrategicMerge, &of_pod(json!({ "hostNetwork": true }))).unwrap();
        assert_eq!(kept["spec"]["template"]["spec"]["hostNetwork"], true);
    }
    for field in ["serviceAccountName", "serviceAccount"] {
        let mut kubernetes = plain();
        kubernetes.workload.pod = [(Arc::from(field), Arc::new(json!("default")))].into();
        let words = object_of(kubernetes, ObjectKind::Deployment).unwrap_err();
        assert!(
            words.starts_with("spec.provider.kubernetes.envoyDeployment: changes spec.template.spec.service"),
            "{words}"
        );
    }
}

#[test]
fn objects_lead_to_the_gateways_own_pods_and_workload_only() {
    let none = json!({ "$patch": "replace" });
    let refused = [
        (ObjectKind::Service, json!({ "spec": { "selector": { "app": "db" } } })),
        (ObjectKind::Service, json!({ "spec": { "selector": null } })),
        (ObjectKind::Service, json!({ "spec": { "$patch": "replace", "ports": [{ "port": 80 }] } })),
        (ObjectKind::Service, json!({ "spec": { "externalName": "db.example" } })),
        (ObjectKind::Service, json!({ "spec": { "type": "ExternalName" } })),
        (ObjectKind::Service, json!({ "spec": { "externalIPs": ["10.0.0.1"] } })),
        (ObjectKind::Service, json!({ "spec": { "externalIPs": "10.0.0.1" } })),
        (ObjectKind::HorizontalPodAutoscaler, json!({ "spec": { "scaleTargetRef": { "name": "chancery" } } })),
        (ObjectKind::HorizontalPodAutoscaler, json!({ "spec": { "scaleTargetRef": null } })),
        (ObjectKind::PodDisruptionBudget, json!({ "spec": { "selector": { "$patch": "replace" } } })),
        (ObjectKind::PodDisruptionBudget, json!({ "spec": { "selector": { "matchExpressions": [] } } })),
        (ObjectKind::PodDisruptionBudget, json!({ "spec": { "selector": null } })),
        (ObjectKind::Deployment, json!({ "spec": { "selector": none } })),
        (
            ObjectKind::DaemonSet,
            json!({ "spec": { "template": { "metadata": { "labels": { "$patch": "delete" } } } } }),
        ),
        (ObjectKind::Deployment, json!({ "spec": { "template": { "metadata": null } } })),
    ];
    for (kind, value) in refused {
        let outcome = patched(kind, PatchType::StrategicMerge, &value);
        assert!(outcome.is_err(), "{kind:?}: {value} gives {outcome:?}");
    }
    let kept = json!({ "spec": { "externalIPs": [], "sessionAffinity": "ClientIP" } });
    assert!(patched(ObjectKind::Service, PatchType::JsonMerge, &kept).is_ok());
}

#[test]
fn patch_changes_no_identity_and_no_field_of_the_api_server() {
    for (metadata, field) in [
        (json!({ "name": "other" }), "metadata.name"),
        (json!({ "namespace": "kube-system" }), "metadata.namespace"),
        (json!({ "ownerReferences": null }), "metadata.ownerReferences"),
        (json!({ "uid": "u-2" }), "metadata.uid"),
        (json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }), "metadata.deletionTimestamp"),
        (json!({ "labels": null }), "the label"),
    ] {
        for kind in [ObjectKind::Deployment, ObjectKind::Service] {
            let words = patched(kind, PatchType::JsonMerge, &json!({ "metadata": metadata })).unwrap_err();
            assert!(words.contains(field), "{metadata}: {words}");
        }
    }
    let kept = json!({ "metadata": { "annotations": { "a": "b" }, "labels": { "c": "d" } } });
    assert!(patched(ObjectKind::Deployment, PatchType::JsonMerge, &kept).is_ok());
}

#[test]
fn fields_change_no_selector_and_no_target() {
    let fields = |field: &str, value: Value| [(Arc::from(field), Arc::new(value))].into();
    let extra = |field: &str, value: Value| Some(Extra { spec: fields(field, value), ..Extra::default() });
    let mut kubernetes = plain();
    kubernetes.service.spec = fields("selector", json!({}));
    assert!(object_of(kubernetes, ObjectKind::Service).is_err());
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "chancery" });
    let kubernetes = KubernetesInfra { autoscaler: extra("scaleTargetRef", target), ..plain() };
    let words = object_of(kubernetes, ObjectKind::HorizontalPodAutoscaler).unwrap_err();
    assert_eq!(words, "spec.provider.kubernetes.envoyHpa: changes spec.scaleTargetRef, which is fixed");
    let kubernetes = KubernetesInfra { disruption_budget: extra("selector", json!({})), ..plain() };
    assert!(object_of(kubernetes, ObjectKind::PodDisruptionBudget).is_err());
    let kubernetes = KubernetesInfra { disruption_budget: extra("minAvailable", json!("100%")), ..plain() };
    assert!(object_of(kubernetes, ObjectKind::PodDisruptionBudget).is_ok());
}

#[test]
fn service_takes_external_addresses_where_the_operator_allows_it() {
    let with = |external_ips: bool| {
        let mut kubernetes = plain();
        kubernetes.service.external_ips = external_ips;
        kubernetes.service.spec = [("externalIPs".into(), Arc::new(json!(["192.0.2.9"])))].into();
        object_of(kubernetes, ObjectKind::Service)
    };
    assert_eq!(with(true).unwrap()["spec"]["externalIPs"], json!(["192.0.2.9"]));
    assert!(with(false).unwrap_err().contains("takes the traffic of these addresses"));
}
