//! Proxies end and come, for good reasons and without.

use crate::shop::{Shop, proxies};

#[test]
fn a_proxy_is_deleted() {
    let shop = Shop::open();
    let pods = shop.proxy_pods();
    shop.under_load(|| {
        shop.namespace.run(&["delete", "pod", &pods[0], "--timeout=300s"]);
    });
}

#[test]
fn all_proxies_are_replaced_by_others() {
    let shop = Shop::open();
    let before = shop.proxy_pods();
    shop.under_load(|| {
        shop.namespace.apply(&proxies("2", 2));
        shop.until_proxies("2", 2);
        shop.namespace.run(&["rollout", "status", &shop.proxies(), "--timeout=300s"]);
    });
    assert!(shop.proxy_pods().iter().all(|pod| !before.contains(pod)));
}

#[test]
fn proxies_are_fewer_and_more() {
    let shop = Shop::open();
    shop.under_load(|| {
        for replicas in [1, 3] {
            shop.namespace.apply(&proxies("1", replicas));
            shop.namespace.until("the number", &shop.proxies(), |deployment| {
                let status = &deployment["status"];
                let all = status["readyReplicas"] == replicas && status["replicas"] == replicas;
                (all && shop.proxy_pods().len() == usize::try_from(replicas).unwrap()).then_some(())
            });
        }
    });
}
