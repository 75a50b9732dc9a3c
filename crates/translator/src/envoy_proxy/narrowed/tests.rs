//! Settings that remain after narrowing.

use serde_json::json;

use super::*;
use crate::envoy_proxy::kubernetes;

fn left(provider: Value, fields: Option<&[&str]>, accounts: Option<&[&str]>) -> (ObjectSettings, Vec<String>) {
    let boxed = |all: &[&str]| all.iter().map(|one| Box::from(*one)).collect::<Box<[Box<str>]>>();
    let rules = ProxyRules { fields: fields.map(boxed), accounts: accounts.map(boxed), ..ProxyRules::default() };
    let provider: api::envoy_proxy::kubernetes::KubernetesProvider = serde_json::from_value(provider).unwrap();
    let (settings, refused) = narrowed(kubernetes::read(&provider), &rules);
    let paths = refused.into_iter().map(|(_, (path, _))| path.replace("spec.provider.kubernetes.", ""));
    (settings, paths.collect())
}

fn all() -> Value {
    let patch =
        json!({"type": "StrategicMerge", "value": {"spec": {"template": {"spec": {"serviceAccountName": "admin"}}}}});
    json!({
        "envoyDeployment": {"replicas": 2, "pod": {"nodeSelector": {"a": "b"}, "volumes": []}, "patch": patch},
        "envoyService": {"externalTrafficPolicy": "Cluster", "annotations": {"a": "b"}},
        "envoyServiceAccount": {"name": "admin"},
    })
}

#[test]
fn without_a_list_everything_counts() {
    let (settings, refused) = left(all(), None, None);
    assert!(refused.is_empty(), "{refused:?}");
    assert!(settings.workload.patch.is_some() && settings.service_account.is_some());
}

#[test]
fn what_is_not_listed_is_left_out_and_named() {
    let (settings, refused) = left(all(), Some(&["envoyDeployment.replicas", "envoyService"]), None);
    assert_eq!(settings.workload, Workload { replicas: Some(2), ..Workload::default() });
    assert_eq!(settings.service.spec.len() + settings.service.annotations.len(), 2);
    assert_eq!(
        refused,
        [
            "envoyDeployment.pod.nodeSelector",
            "envoyDeployment.pod.volumes",
            "envoyDeployment.patch",
            "envoyServiceAccount"
        ]
    );
    assert_eq!(left(all(), Some(&["envoyDeploymentx", "envoyDeployment.pod.volume"]), None).1.len(), 7);
    let daemons = json!({"envoyDaemonSet": {"patch": {"value": {}}}});
    assert_eq!(
        left(daemons, Some(&["envoyDeployment"]), None),
        (ObjectSettings::default(), vec!["envoyDaemonSet".to_owned()])
    );
}

#[test]
fn an_account_that_is_not_listed_is_left_out_wherever_it_is_named() {
    let (settings, refused) = left(all(), None, Some(&["edge"]));
    assert_eq!(refused, ["envoyDeployment.patch", "envoyServiceAccount.name"]);
    assert_eq!((settings.workload.patch, settings.service_account), (None, None));
    assert!(left(all(), None, Some(&["admin"])).1.is_empty());
    for field in ["serviceAccountName", "serviceAccount"] {
        let of_pod = || json!({"envoyDeployment": {"pod": {field: "admin"}}});
        let (settings, refused) = left(of_pod(), None, Some(&["edge"]));
        assert_eq!((settings.workload.pod.len(), refused), (0, vec![format!("envoyDeployment.pod.{field}")]));
        assert_eq!(left(of_pod(), None, Some(&["admin"])).0.workload.pod.len(), 1);
    }
}

#[test]
fn external_addresses_count_only_where_the_list_names_them() {
    let service = || json!({"envoyService": {"externalIPs": ["10.0.0.1"], "sessionAffinity": "ClientIP"}});
    let outcome = |fields: Option<&[&str]>| {
        let (settings, refused) = left(service(), fields, None);
        (settings.service.external_ips, settings.service.spec.contains_key("externalIPs"), refused.len())
    };
    assert_eq!(outcome(None), (false, false, 1));
    assert_eq!(outcome(Some(&["envoyService"])), (false, false, 1));
    assert_eq!(outcome(Some(&["envoyService", "envoyService.externalIPs"])), (true, true, 0));
    assert_eq!(outcome(Some(&[])), (false, false, 2));
}
