//! Each Envoy has exactly what is for it, by the labels of the Pod that its token names.

use serde_json::Value;

use crate::town::{APPLICATIONS, Town, has};

const TRIAL: &str = "
apiVersion: chancery.io/v1alpha1
kind: EnvoyCluster
metadata: {name: trial}
spec:
  workloadSelector:
    matchExpressions: [{key: tier, operator: In, values: [trial]}]
  config: {name: trial, connect_timeout: 1s}
";

#[test]
fn each_has_exactly_what_is_for_it_and_a_label_that_flips_takes_it_elsewhere() {
    let town = Town::open();
    for (namespace, name, count) in APPLICATIONS {
        let pods = town.pods(namespace, &format!("app={name}"));
        assert_eq!(pods.len(), count);
        pods.iter().for_each(|pod| town.until_has(namespace, pod, &has(name, &[])));
        let said = format!("{count} of {count} proxies have acknowledged it");
        town.until_said(namespace, &format!("routes.bootes.io/{name}"), ("Programmed", "Programmed"), &said);
    }
    town.until_said("shop", "listeners.bootes.io/web", ("Programmed", "Programmed"), "7 of 7 proxies");
    town.until_said("blog", "listeners.bootes.io/web", ("Programmed", "Programmed"), "3 of 3 proxies");

    town.shop.apply(TRIAL);
    town.until_said("shop", "envoyclusters.chancery.io/trial", ("Programmed", "NoWorkload"), "no workload");
    let pods = town.pods("shop", "app=cart");
    town.shop.run(&["label", "pod", &pods[0], "tier=trial"]);
    town.until_has("shop", &pods[0], &has("cart", &["trial"]));
    town.until_said("shop", "envoyclusters.chancery.io/trial", ("Programmed", "Programmed"), "1 of 1 proxies");
    town.shop.run(&["label", "pod", &pods[0], "tier-"]);
    town.until_has("shop", &pods[0], &has("cart", &[]));
    town.until_has("shop", &pods[1], &has("cart", &[]));
    town.shop.run(&["delete", "envoycluster", "trial"]);
}

const FAR: &str = "
apiVersion: chancery.io/v1alpha1
kind: EnvoyCluster
metadata: {name: far}
spec:
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: blog}}
  config: {name: far, type: EDS, eds_cluster_config: {eds_config: {ads: {}, resource_api_version: V3}}}
---
apiVersion: chancery.io/v1alpha1
kind: EnvoyEndpoint
metadata: {name: far}
spec:
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: blog}}
  service: {name: cart, port: 80}
  config: {cluster_name: far}
---
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {password: one}
---
apiVersion: chancery.io/v1alpha1
kind: EnvoySecret
metadata: {name: password}
spec: {secretRef: {name: password}, config: {name: password}}
";

const GRANT: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {name: shop}
spec:
  from:
  - {group: chancery.io, kind: EnvoyCluster, namespace: shop}
  - {group: chancery.io, kind: EnvoyEndpoint, namespace: shop}
  to: [{group: '', kind: Pod}]
";

#[test]
fn what_is_for_another_namespace_comes_with_its_leave_and_endpoints_of_a_service_come_along() {
    let town = Town::open();
    town.shop.apply(FAR);
    town.until_said(
        "shop",
        "envoyclusters.chancery.io/far",
        ("Programmed", "NoWorkload"),
        "allow it by a ReferenceGrant",
    );
    town.blog.apply(GRANT);
    for pod in town.pods("blog", "app=wiki") {
        town.until_has("blog", &pod, &has("wiki", &["far"]));
    }
    town.until_said("shop", "envoyendpoints.chancery.io/far", ("ResolvedRefs", "ResolvedRefs"), "");
    town.until_said("shop", "envoyclusters.chancery.io/far", ("Programmed", "Programmed"), "3 of 3 proxies");
    // Nobody asks for the secret, and a proxy that asks for nothing acknowledges nothing.
    town.until_said("shop", "envoysecrets.chancery.io/password", ("ResolvedRefs", "ResolvedRefs"), "");
    let wiki = &town.pods("blog", "app=wiki")[0];
    let dump = ["curl", "--silent", "http://127.0.0.1:19000/config_dump?include_eds&resource=dynamic_endpoint_configs"];
    tests::wait::until("four endpoints", || {
        let all: Value = serde_json::from_str(&town.blog.enter(wiki, &dump)?).ok()?;
        let sets = all["configs"].as_array()?.iter().map(|set| &set["endpoint_config"]);
        let far = sets.filter(|set| set["cluster_name"] == "far").flat_map(|set| set["endpoints"].as_array()).flatten();
        let count = far.filter_map(|locality| Some(locality["lb_endpoints"].as_array()?.len())).sum::<usize>();
        (count == 4).then_some(())
    })
    .unwrap();
    town.blog.run(&["delete", "referencegrant", "shop"]);
    town.until_has("blog", wiki, &has("wiki", &[]));
    town.shop.run(&["delete", "envoycluster/far", "envoyendpoint/far", "envoysecret/password", "secret/password"]);
}
