//! Authors of an `EnvoyProxy` and of Backends who would reach what is not their Gateway's: objects, accounts, addresses, sockets of a Pod.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, Weak};

use serde_json::Value;

use crate::cluster::{SYSTEM, installed, run, served};
use crate::harness::{Lab, Namespace};

/// A Gateway with settings of its own.
pub(crate) fn gateway(name: &str, kubernetes: &str) -> String {
    format!(
        "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: EnvoyProxy\nmetadata: {{name: {name}}}\nspec: {{provider: {{type: Kubernetes, kubernetes: \
         {kubernetes}}}}}\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: {name}}}\nspec:\n  gatewayClassName: chancery\n  \
         infrastructure: {{parametersRef: {{group: gateway.envoyproxy.io, kind: EnvoyProxy, name: {name}}}}}\n  \
         listeners: [{{name: http, protocol: HTTP, port: 80}}]\n---\n"
    )
}

/// Messages of the condition of a type.
fn message(object: &Value, condition: &str) -> Option<String> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let found = conditions.iter().find(|one| one["type"] == condition)?;
    Some(format!("{}: {}", found["status"].as_str()?, found["message"].as_str()?))
}

#[test]
fn envoy_proxy_moves_no_object_to_pods_of_others() {
    let namespace = Namespace::make_in(served(), "deploy");
    let patch = |kind: &str, value: &str| format!("{{{kind}: {{patch: {{type: StrategicMerge, value: {value}}}}}}}");
    let refused = [
        (
            "account",
            patch(
                "envoyDeployment",
                "{spec: {template: {spec: {$retainKeys: [containers, volumes, initContainers]}}}}",
            ),
            "spec.template.spec.serviceAccountName",
        ),
        ("selects", patch("envoyService", "{spec: {selector: {app: echo}}}"), "spec.selector"),
        (
            "scales",
            "{envoyHpa: {maxReplicas: 7, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chancery}}}"
                .to_owned(),
            "spec.scaleTargetRef",
        ),
        ("evicts", "{envoyPDB: {minAvailable: 100%, selector: {}}}".to_owned(), "spec.selector"),
        ("takes", patch("envoyService", "{spec: {externalIPs: [10.244.1.77]}}"), "spec.externalIPs"),
    ];
    namespace.apply(&refused.iter().fold(String::new(), |mut all, (name, kubernetes, _)| {
        let _written = write!(all, "{}", gateway(name, kubernetes));
        all
    }));
    for (name, _, field) in &refused {
        namespace.until("the word on Programmed", &format!("gateway/{name}"), |gateway| {
            message(gateway, "Programmed").filter(|text| text.starts_with("False") && text.contains(field))
        });
    }
    let objects =
        |kind: &str| -> Value { serde_json::from_str(&namespace.run(&["get", kind, "--output=json"])).unwrap() };
    let of = |kind: &str, name: &str| {
        let found = objects(kind);
        let items = found["items"].as_array().unwrap().clone();
        items.into_iter().filter(|object| object["metadata"]["name"].as_str().unwrap().starts_with(name)).count()
    };
    let left = [
        ("deployments", "account-"),
        ("services", "selects-"),
        ("horizontalpodautoscalers", "scales-"),
        ("poddisruptionbudgets", "evicts-"),
        ("services", "takes-"),
    ];
    for (kind, name) in left {
        assert_eq!(of(kind, name), 0, "{kind} {name}");
    }
    // A field that is not allowed is left out, and the Gateway serves.
    namespace.apply(&gateway("plain", "{envoyService: {externalIPs: [10.244.1.77]}}"));
    namespace.until("a Gateway that serves", "gateway/plain", |gateway| {
        message(gateway, "Programmed").filter(|text| text.starts_with("True"))
    });
    assert!(!namespace.run(&["get", "services", "--output=yaml"]).contains("externalIPs"));
}

/// A lab whose operator lists what authors may do: sockets below /run, two fields of an `EnvoyProxy`, one account.
pub(crate) fn listed() -> Arc<Lab> {
    static LISTED: Mutex<Weak<Lab>> = Mutex::new(Weak::new());
    Lab::shared_at(&LISTED, || {
        let lab = installed();
        run(
            &lab,
            ".tools/helm/current/bin/helm template chancery charts/chancery --namespace chancery-system --set replicas=2 \
             --set config.extensionApis.enableBackend=true --set 'backendSockets={/run,/var/run}' \
             --set 'deploy.allowedFields={envoyDeployment.replicas,envoyServiceAccount}' --set 'deploy.allowedServiceAccounts={plain}' \
             | kubectl apply --server-side --force-conflicts -f - && \
             kubectl --namespace chancery-system rollout status deployment/chancery --timeout 2m",
        );
        lab
    })
}

/// A Backend of one endpoint.
fn backend(name: &str, endpoint: &str) -> String {
    format!(
        "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: Backend\nmetadata: {{name: {name}}}\nspec: {{endpoints: [{endpoint}]}}\n---\n"
    )
}

#[test]
fn backends_reach_no_replica_and_no_socket_of_a_proxy() {
    let lab = listed();
    let namespace = Namespace::make_in(Arc::clone(&lab), "reach");
    let system = Namespace { lab: Arc::clone(&lab), name: SYSTEM };
    // Those of before the change of the settings are on their way out.
    let replicas = system.until("two replicas", "endpointslices", |slices| {
        let slices = slices["items"].as_array()?.iter();
        let all: Vec<&Value> = slices.flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten()).collect();
        let is_ready = all.iter().all(|one| one["conditions"]["ready"] == true);
        let address = |one: &&Value| Some(one["addresses"][0].as_str()?.to_owned());
        (is_ready && all.len() == 2).then(|| all.iter().filter_map(address).collect::<Vec<String>>())
    });
    let service = system.run(&["get", "service", "chancery", "--output=jsonpath={.spec.clusterIP}"]);
    let ip = |address: &str, port: u16| format!("{{ip: {{address: {address}, port: {port}}}}}");
    let fqdn = |host: &str| format!("{{fqdn: {{hostname: {host}, port: 18000}}}}");
    let mut closed: Vec<String> = replicas.iter().map(|address| ip(address, 8081)).collect();
    closed.push(ip(service.trim(), 18_000));
    closed.extend(["chancery.chancery-system.svc.cluster.local", "chancery.chancery-system.svc"].map(fqdn));
    for path in ["/run/chancery/admin.sock", "/var/run/chancery/admin.sock", "/run//chancery/admin.sock"] {
        closed.push(format!("{{unix: {{path: {path}}}}}"));
    }
    let names: Vec<String> = (0..closed.len()).map(|number| format!("b{number}")).collect();
    let all: String = names.iter().zip(&closed).map(|(name, endpoint)| backend(name, endpoint)).collect();
    namespace.apply(&format!("{all}{}", backend("fine", "{unix: {path: /run/csi/agent.sock}}")));
    let accepted = |name: &str, word: &str| {
        namespace.until(word, &format!("backends.gateway.envoyproxy.io/{name}"), |backend| {
            message(backend, "Accepted").filter(|text| text.starts_with(word))
        });
    };
    names.iter().for_each(|name| accepted(name, "False"));
    accepted("fine", "True");
    // Another replica leads, and says the same; addresses of replicas are others now.
    system.run(&["delete", "pod", "--selector=app.kubernetes.io/name=chancery", "--wait=true"]);
    system.run(&["rollout", "status", "deployment/chancery", "--timeout=2m"]);
    let again: Vec<String> = names.iter().map(|name| format!("{name}-again")).collect();
    namespace.apply(
        &again
            .iter()
            .zip(&closed)
            .skip(replicas.len())
            .map(|(name, endpoint)| backend(name, endpoint))
            .collect::<String>(),
    );
    again.iter().skip(replicas.len()).for_each(|name| accepted(name, "False"));
}
