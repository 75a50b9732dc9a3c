//! Nothing is lost while objects, labels and Chancery itself change.

use tests::wait;

use crate::town::{APPLICATIONS, Town, has, route};

/// Refused before it ships; refused by Envoy, as the application has the port; not for anybody's eyes but its own.
const BAD: &str = r#"
apiVersion: bootes.io/v1
kind: Cluster
metadata: {name: broken}
spec: {config: {name: broken, type: NO_SUCH_TYPE}}
---
apiVersion: bootes.io/v1
kind: Listener
metadata: {name: taken}
spec:
  workloadSelector: {labels: {app: cart}}
  config:
    name: taken
    address: {socket_address: {address: 0.0.0.0, port_value: 3000}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.tcp_proxy
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
          stat_prefix: taken
          cluster: local
---
apiVersion: bootes.io/v1
kind: Cluster
metadata: {name: local-again}
spec: {config: {name: local, connect_timeout: 9s}}
"#;

#[test]
fn objects_labels_and_mistakes_come_and_go() {
    let town = Town::open();
    town.under_load(|| {
        for timeout in ["5s", "6s", "7s"] {
            for (namespace, name, count) in APPLICATIONS {
                town.namespace(namespace).apply(&route(name, timeout));
                let said = format!("{count} of {count} proxies have acknowledged it");
                town.until_said(namespace, &format!("routes.bootes.io/{name}"), ("Programmed", "Programmed"), &said);
            }
        }
        town.shop.apply(BAD);
        town.until_said("shop", "clusters.bootes.io/broken", ("Accepted", "Invalid"), "NO_SUCH_TYPE");
        town.until_said("shop", "clusters.bootes.io/local-again", ("Accepted", "Conflicted"), "shop/local");
        town.until_said("shop", "listeners.bootes.io/taken", ("Programmed", "Invalid"), "0 of 4 proxies use it");
        town.until_said("shop", "listeners.bootes.io/taken", ("Programmed", "Invalid"), "Address already in use");
        // A Pod that is nobody's for a while keeps what all have, and what it had of its own comes back.
        let pods = town.pods("shop", "app=catalog");
        town.shop.run(&["label", "pod", &pods[0], "tier=odd", "--overwrite"]);
        town.shop.apply(&route("catalog", "8s"));
        town.until_said("shop", "routes.bootes.io/catalog", ("Programmed", "Programmed"), "3 of 3 proxies");
        town.shop.run(&[
            "delete",
            "clusters.bootes.io/broken",
            "listeners.bootes.io/taken",
            "clusters.bootes.io/local-again",
        ]);
        for pod in town.pods("shop", "app=cart") {
            town.until_has("shop", &pod, &has("cart", &[]));
        }
        town.until_said("shop", "clusters.bootes.io/local", ("Programmed", "Programmed"), "7 of 7 proxies");
    });
}

#[test]
fn chancery_is_replaced_and_killed() {
    let town = Town::open();
    town.under_load(|| {
        town.system.run(&["rollout", "restart", "deployment/chancery"]);
        town.system.run(&["rollout", "status", "deployment/chancery", "--timeout=300s"]);
        town.shop.apply(&route("cart", "4s"));
        town.until_said("shop", "routes.bootes.io/cart", ("Programmed", "Programmed"), "4 of 4 proxies");
        let pods = || town.system.run(&["get", "pods", "--output=name"]).lines().map(str::to_owned).collect::<Vec<_>>();
        let before = pods();
        let all: Vec<&str> = before.iter().map(String::as_str).collect();
        town.system.run(&[&["delete", "--grace-period=0", "--force"], &all[..]].concat());
        wait::until("others", || pods().iter().all(|pod| !before.contains(pod)).then_some(())).unwrap();
        town.system.run(&["rollout", "status", "deployment/chancery", "--timeout=300s"]);
        town.blog.apply(&route("wiki", "4s"));
        town.until_said("blog", "routes.bootes.io/wiki", ("Programmed", "Programmed"), "3 of 3 proxies");
        for (namespace, name, _) in APPLICATIONS {
            for pod in town.pods(namespace, &format!("app={name}")) {
                town.until_has(namespace, &pod, &has(name, &[]));
            }
        }
    });
}
