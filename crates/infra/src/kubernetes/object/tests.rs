//! Objects of Gateways, as the API server gets them.

use std::sync::Arc;
use std::time::Duration;

use ir::Infra;
use ir::infra::kubernetes::{Extra, KubernetesInfra, Patch, PatchType, Place, ServiceType};
use ir::infra::{ObjectName, ProxyOptions};
use serde_json::{Value, json};

use super::{ClusterOptions, ObjectKind, Wanted, objects};

mod fixed;

pub(in crate::kubernetes) fn options() -> ClusterOptions {
    ClusterOptions {
        controller: "gateway.envoyproxy.io/gatewayclass-controller".into(),
        namespace: "chancery-system".into(),
        xds_host: "chancery.chancery-system.svc".into(),
        xds_port: 18_000,
        audience: "chancery".into(),
        envoy_repository: "docker.io/envoyproxy/envoy".into(),
        envoy_tag: "distroless-v1.40.0".into(),
        own_image: "ghcr.io/chancery/chancery:v1".into(),
        authorities: "PEM".into(),
    }
}

pub(in crate::kubernetes) fn infra(name: &str, kubernetes: KubernetesInfra) -> Infra {
    Infra {
        fleet: format!("shop/{name}").as_str().into(),
        gateway: ObjectName { namespace: "shop".into(), name: name.into() },
        addresses: Vec::new(),
        ports: vec![80, 8080],
        udp_ports: Vec::new(),
        options: ProxyOptions::default(),
        kubernetes: Some(Box::new(kubernetes)),
    }
}

pub(in crate::kubernetes) fn plain() -> KubernetesInfra {
    KubernetesInfra {
        class: "edge".into(),
        uid: Some("u-1".into()),
        place: Place::Gateway,
        labels: [("team".into(), "a".into())].into(),
        annotations: [("note".into(), "b".into())].into(),
        mapped_ports: vec![(80, 10_080)],
        cluster_addresses: Vec::new(),
        dual_stack: false,
        workload: Default::default(),
        service: Default::default(),
        autoscaler: None,
        disruption_budget: None,
        service_account: None,
    }
}

fn made(infra: &Infra) -> Vec<Wanted> {
    objects(infra, &options())
}

fn one(infra: &Infra, kind: ObjectKind) -> Value {
    let found = made(infra).into_iter().find(|wanted| wanted.kind == kind);
    found.expect("there is one of this kind").object.expect("it can be made")
}

fn workload(kubernetes: KubernetesInfra) -> Value {
    one(&infra("gw", kubernetes), ObjectKind::Deployment)
}

#[test]
fn every_object_says_whose_it_is() {
    for wanted in made(&infra("gw", plain())) {
        let object = wanted.object.unwrap();
        let metadata = &object["metadata"];
        assert_eq!(metadata["namespace"], "shop", "{object}");
        assert_eq!(metadata["labels"]["gateway.networking.k8s.io/gateway-name"], "gw");
        assert_eq!(metadata["labels"]["gateway.networking.k8s.io/gateway-class-name"], "edge");
        assert_eq!(metadata["labels"]["app.kubernetes.io/managed-by"], "chancery");
        assert_eq!(metadata["labels"]["team"], "a");
        assert_eq!(metadata["annotations"]["note"], "b");
        assert_eq!(metadata["ownerReferences"][0]["uid"], "u-1");
    }
    let template = &workload(plain())["spec"]["template"];
    assert_eq!(template["metadata"]["labels"]["team"], "a");
    assert_eq!(template["metadata"]["annotations"]["note"], "b");
}

#[test]
fn names_are_short_and_different_whatever_the_gateways_are_called() {
    let long = "g".repeat(253);
    let longer_by_one = format!("{}h", "g".repeat(252));
    let names: Vec<Arc<str>> = ["a.b", "a-b", "gw", &long, &longer_by_one]
        .iter()
        .map(|name| made(&infra(name, plain()))[0].name.clone())
        .collect();
    for (at, name) in names.iter().enumerate() {
        let is_label =
            name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-');
        assert!(name.len() <= 46 && is_label && !name.ends_with('-'), "{name}");
        assert!(!names[..at].contains(name), "{name}");
    }
    let object = one(&infra(&long, plain()), ObjectKind::Service);
    let label = object["metadata"]["labels"]["gateway.networking.k8s.io/gateway-name"].as_str().unwrap();
    assert!(label.len() <= 63);
    assert_eq!(object["metadata"]["annotations"]["gateway.networking.k8s.io/gateway-name"], long);
}

#[test]
fn two_gateways_of_the_same_name_differ_in_the_namespace_of_the_controller() {
    let at = |namespace: &str| {
        let mut infra = infra("gw", KubernetesInfra { place: Place::Controller, ..plain() });
        infra.gateway.namespace = namespace.into();
        made(&infra)[0].clone()
    };
    assert_eq!(&*at("one").namespace, "chancery-system");
    assert_ne!(at("one").name, at("two").name);
    assert!(at("one").object.unwrap()["metadata"].get("ownerReferences").is_none());
}

#[test]
fn the_service_leads_to_the_ports_that_proxies_bind() {
    let spec = &one(&infra("gw", plain()), ObjectKind::Service)["spec"];
    assert_eq!(spec["type"], "LoadBalancer");
    assert_eq!(spec["externalTrafficPolicy"], "Local");
    let ports: Vec<_> =
        spec["ports"].as_array().unwrap().iter().map(|port| (&port["port"], &port["targetPort"])).collect();
    assert_eq!(ports, [(&json!(80), &json!(10_080)), (&json!(8080), &json!(8080))]);
}

#[test]
fn proxies_are_not_replaced_for_listeners() {
    let few = infra("gw", plain());
    let more = Infra { ports: vec![80, 443, 8080], ..few.clone() };
    for kind in [ObjectKind::Deployment, ObjectKind::ConfigMap] {
        assert_eq!(one(&few, kind), one(&more, kind));
    }
    assert_ne!(one(&few, ObjectKind::Service), one(&more, ObjectKind::Service));
}

#[test]
fn a_requested_address_goes_where_the_type_of_the_service_has_it() {
    let at = |service_type| {
        let mut kubernetes = plain();
        kubernetes.service.service_type = service_type;
        let mut infra = infra("gw", kubernetes);
        infra.addresses = vec!["198.18.0.7".parse().unwrap()];
        one(&infra, ObjectKind::Service)["spec"].clone()
    };
    assert_eq!(at(ServiceType::LoadBalancer)["loadBalancerIP"], "198.18.0.7");
    assert_eq!(at(ServiceType::ClusterIp)["clusterIP"], "198.18.0.7");
    assert_eq!(at(ServiceType::ClusterIp).get("externalTrafficPolicy"), None);
}

#[test]
fn addresses_in_the_cluster_are_asked_for_beside_those_outside_one_of_each_family() {
    let spec = |addresses: &[&str]| {
        let cluster_addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        let infra = infra("gw", KubernetesInfra { cluster_addresses, ..plain() });
        one(&infra, ObjectKind::Service)["spec"].clone()
    };
    assert_eq!(spec(&[]).get("clusterIP"), None);
    let single = spec(&["10.96.0.7"]);
    assert_eq!((&single["type"], &single["clusterIP"]), (&json!("LoadBalancer"), &json!("10.96.0.7")));
    assert_eq!(single.get("clusterIPs"), None);
    let dual = spec(&["10.96.0.7", "10.96.0.8", "fd00::7"]);
    assert_eq!((&dual["clusterIP"], &dual["clusterIPs"]), (&json!("10.96.0.7"), &json!(["10.96.0.7", "fd00::7"])));
    assert_eq!(dual["ipFamilyPolicy"], "PreferDualStack");
    let infra = infra("gw", KubernetesInfra { dual_stack: true, ..plain() });
    assert_eq!(one(&infra, ObjectKind::Service)["spec"]["ipFamilyPolicy"], "PreferDualStack");
}

#[test]
fn the_users_fields_stand_over_ours_and_lists_are_added() {
    let mut kubernetes = plain();
    let field = |name: &str, value: Value| (Arc::from(name), Arc::new(value));
    kubernetes.workload.replicas = Some(3);
    kubernetes.workload.pod = [
        field("nodeSelector", json!({ "disk": "fast" })),
        field("volumes", json!([{ "name": "more", "emptyDir": {} }])),
    ]
    .into();
    kubernetes.workload.container = [
        field("resources", json!({ "limits": { "memory": "1Gi" } })),
        field("env", json!([{ "name": "POD_NAME", "value": "mine" }, { "name": "A", "value": "1" }])),
    ]
    .into();
    kubernetes.workload.image_repository = Some("example.org/envoy".into());
    let spec = workload(kubernetes)["spec"].clone();
    let pod = &spec["template"]["spec"];
    assert_eq!(spec["replicas"], 3);
    assert_eq!(pod["nodeSelector"], json!({ "disk": "fast" }));
    let names: Vec<_> =
        pod["volumes"].as_array().unwrap().iter().map(|volume| volume["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["config", "token", "run", "tools", "more"]);
    let container = &pod["containers"][0];
    assert_eq!(container["image"], "example.org/envoy:distroless-v1.40.0");
    assert_eq!(container["resources"], json!({ "limits": { "memory": "1Gi" } }));
    let env: Vec<_> = container["env"].as_array().unwrap().iter().map(|env| env["name"].as_str().unwrap()).collect();
    assert_eq!(env, ["POD_NAME", "POD_NAMESPACE", "A"]);
}

#[test]
fn an_autoscaler_has_the_number_of_pods_for_itself() {
    let mut kubernetes = plain();
    kubernetes.workload.replicas = Some(3);
    kubernetes.autoscaler =
        Some(Extra { spec: [("maxReplicas".into(), Arc::new(json!(9)))].into(), ..Extra::default() });
    let infra = infra("gw", kubernetes);
    let deployment = one(&infra, ObjectKind::Deployment);
    assert_eq!(deployment["spec"].get("replicas"), None);
    let spec = &one(&infra, ObjectKind::HorizontalPodAutoscaler)["spec"];
    assert_eq!(spec["maxReplicas"], 9);
    assert_eq!(spec["scaleTargetRef"]["name"], deployment["metadata"]["name"]);
}

#[test]
fn a_patch_changes_an_object_and_cannot_make_another_of_it() {
    let patched = |value: Value| {
        let mut kubernetes = plain();
        kubernetes.workload.patch = Some(Patch { patch_type: PatchType::StrategicMerge, value: Arc::new(value) });
        made(&infra("gw", kubernetes)).into_iter().find(|wanted| wanted.kind == ObjectKind::Deployment).unwrap().object
    };
    let host = patched(json!({ "spec": { "template": { "spec": { "hostNetwork": true } } } })).unwrap();
    assert_eq!(host["spec"]["template"]["spec"]["hostNetwork"], true);
    let words = |value| {
        let fault = patched(value).unwrap_err();
        assert_eq!(&*fault.path, "spec.provider.kubernetes.envoyDeployment.patch.value");
        fault.text.to_string()
    };
    assert_eq!(words(json!({ "metadata": { "name": "other" } })), "changes metadata.name, which is fixed");
    let label = json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": "me" } } });
    assert!(words(label).starts_with("changes the label app.kubernetes.io/managed-by"));
    let no_name = json!({ "spec": { "template": { "spec": { "containers": [{ "image": "x" }] } } } });
    assert!(words(no_name).contains("spec.template.spec.containers"));
}

#[test]
fn pods_change_when_the_bootstrap_does_and_not_with_the_authorities() {
    let annotation = |options: &ClusterOptions| {
        let deployment =
            objects(&infra("gw", plain()), options).into_iter().find(|wanted| wanted.kind == ObjectKind::Deployment);
        deployment.unwrap().object.unwrap()["spec"]["template"]["metadata"]["annotations"]["chancery.io/bootstrap"]
            .clone()
    };
    assert_eq!(annotation(&options()), annotation(&ClusterOptions { authorities: "OTHER".into(), ..options() }));
    assert_ne!(annotation(&options()), annotation(&ClusterOptions { xds_port: 1, ..options() }));
}

#[test]
fn a_proxy_is_drained_for_as_long_as_is_asked_for() {
    let hook = |options: ProxyOptions| {
        let pod =
            one(&Infra { options, ..infra("gw", plain()) }, ObjectKind::Deployment)["spec"]["template"]["spec"].clone();
        let stop = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"].as_array().unwrap().clone();
        let words: Vec<String> = stop[3..].iter().map(|word| word.as_str().unwrap().to_owned()).collect();
        (words, pod["terminationGracePeriodSeconds"].as_u64().unwrap())
    };
    assert_eq!(hook(ProxyOptions::default()), (vec!["--drain-timeout=60s".to_owned()], 90));
    let options = ProxyOptions {
        drain_timeout: Some(Duration::from_secs(600)),
        min_drain: Some(Duration::from_millis(1_500)),
        ..ProxyOptions::default()
    };
    assert_eq!(hook(options), (vec!["--drain-timeout=600s".to_owned(), "--min-drain=1s500ms".to_owned()], 630));
}

#[test]
fn an_installation_is_told_by_its_controller_and_its_namespace() {
    let label = |options: &ClusterOptions| {
        let made = objects(&infra("gw", plain()), options);
        made[0].object.clone().unwrap()["metadata"]["labels"]["chancery.io/controller"].as_str().unwrap().to_owned()
    };
    let own = label(&options());
    assert!(own.starts_with("chancery-system-"), "{own}");
    assert_ne!(label(&ClusterOptions { controller: "example.org/other".into(), ..options() }), own);
    assert_ne!(label(&ClusterOptions { namespace: "elsewhere".into(), ..options() }), own);
    let long = label(&ClusterOptions { namespace: "n".repeat(63).into(), ..options() });
    assert!(long.len() <= 63, "{long}");
    // Pods do not change with it
    assert!(workload(plain())["spec"]["template"]["metadata"]["labels"].get("chancery.io/controller").is_none());
}

#[test]
fn all_that_chancery_mounts_is_in_the_table_of_own_folders() {
    let pod = &workload(plain())["spec"]["template"]["spec"];
    let containers = ["containers", "initContainers"].into_iter().flat_map(|field| pod[field].as_array().unwrap());
    let mounts: Vec<&str> = containers
        .flat_map(|container| container["volumeMounts"].as_array().unwrap())
        .map(|mount| mount["mountPath"].as_str().unwrap())
        .collect();
    assert_eq!(mounts.len(), 5, "{mounts:?}");
    let is_own = |path: &str| crate::kubernetes::pod_folders().any(|own| std::path::Path::new(path).starts_with(own));
    for mount in mounts {
        // `/var/run` is a link to `/run` in most images.
        let below = mount.strip_prefix("/var/run/").or_else(|| mount.strip_prefix("/run/"));
        let names =
            below.map_or(vec![mount.to_owned()], |rest| vec![format!("/run/{rest}"), format!("/var/run/{rest}")]);
        assert!(names.iter().all(|name| is_own(name)), "{names:?}");
    }
}
