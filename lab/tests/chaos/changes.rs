//! What people and other controllers change every day.

use tests::binary;

use crate::harness::condition;
use crate::scale;
use crate::shop::{Shop, gateway, route};

#[test]
fn all_backends_are_replaced_by_others() {
    let shop = Shop::open();
    let replicas = format!("--replicas={}", scale::backends());
    shop.namespace.run(&["scale", "deployment/cart", &replicas]);
    shop.until_well();
    shop.under_load(|| {
        shop.namespace.run(&["rollout", "restart", "deployment/cart"]);
        shop.namespace.run(&["rollout", "status", "deployment/cart", "--timeout=600s"]);
    });
}

#[test]
fn listeners_are_added_and_removed() {
    let shop = Shop::open();
    let proxies = shop.proxy_pods();
    shop.under_load(|| {
        for count in [1, 3, 0, 2, 0] {
            let more: Vec<String> = (0..count)
                .map(|number| format!("{{name: more-{number}, protocol: HTTP, port: {}}}", 8080 + number))
                .collect();
            shop.namespace.apply(&gateway(&more));
            shop.namespace.until("the listeners", "gateway/edge", |gateway| {
                let listeners = gateway["status"]["listeners"].as_array()?;
                (listeners.len() == count + 1 && condition(gateway, "Programmed")? == "True").then_some(())
            });
        }
    });
    assert_eq!(shop.proxy_pods(), proxies, "no proxy is replaced for a listener");
}

/// The Pods of a service by their labels, without the Service, and a route that shows that they are known.
const BY_LABELS: &str = "
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackend
metadata: {name: cart}
spec: {type: EndpointSelector, port: {number: 3000}, endpointSelector: {matchLabels: {app: cart}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: labels}
spec:
  parentRefs: [{name: edge}]
  rules:
  - matches: [{path: {value: /labels}}]
    backendRefs: [{group: gateway.networking.x-k8s.io, kind: XBackend, name: cart}]
";

#[test]
fn pods_are_found_by_their_labels_while_they_are_replaced_and_scaled() {
    let shop = Shop::open();
    let definition =
        binary::root().join(".tools/gateway-api/current/experimental/gateway.networking.x-k8s.io_xbackends.yaml");
    shop.system.apply(&std::fs::read_to_string(definition).unwrap());
    let name = "customresourcedefinition/xbackends.gateway.networking.x-k8s.io";
    shop.system.run(&["wait", "--for=condition=Established", name, "--timeout=180s"]);
    shop.namespace.apply(BY_LABELS);
    shop.until_answered("/labels", "cart");
    shop.under_load(|| {
        let to_service = route("shop", &[("/cart", "cart"), ("/", "catalog")]);
        let by_labels = "{group: gateway.networking.x-k8s.io, kind: XBackend, name: cart}";
        let to_pods = to_service.replacen("{name: cart, port: 80}", by_labels, 1);
        assert_ne!(to_pods, to_service, "the route names the Service so");
        shop.namespace.apply(&to_pods);
        shop.namespace.run(&["rollout", "restart", "deployment/cart"]);
        shop.namespace.run(&["rollout", "status", "deployment/cart", "--timeout=600s"]);
        for replicas in ["4", "1", "2"] {
            shop.namespace.run(&["scale", "deployment/cart", &format!("--replicas={replicas}")]);
            shop.namespace.run(&["rollout", "status", "deployment/cart", "--timeout=600s"]);
        }
        let accepted = shop.namespace.get("xbackend/cart").unwrap();
        assert_eq!(accepted["status"]["ancestors"][0]["conditions"][0]["status"], "True", "{accepted:#}");
    });
    // What follows is not to meet what this leaves.
    shop.namespace.apply(&route("shop", &[("/cart", "cart"), ("/", "catalog")]));
    shop.namespace.run(&["delete", "httproute/labels", "xbackend/cart"]);
    shop.until_answered("/cart", "cart");
    shop.until_counted();
    shop.system.run(&["delete", name]);
}
