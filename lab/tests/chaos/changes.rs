//! What people and other controllers change every day.

use crate::harness::condition;
use crate::scale;
use crate::shop::{Shop, gateway};

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
