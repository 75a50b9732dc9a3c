//! Chancery and the API server fail, and are replaced.

use serde_json::Value;
use tests::{binary, wait};

use crate::harness::{Namespace, condition};
use crate::scale;
use crate::shop::{Shop, pods};

const OURS: &str = "app.kubernetes.io/component=control-plane";

/// The name of the Pod that leads.
fn leader(system: &Namespace) -> String {
    system.until("a leader", "lease/chancery", |lease| {
        let holder = lease["spec"]["holderIdentity"].as_str()?.rsplit_once('_')?.0;
        pods(system, OURS).into_iter().find(|pod| pod == holder)
    })
}

#[test]
fn the_leader_is_killed() {
    let shop = Shop::open();
    let leader = leader(&shop.system);
    let object = format!("pod/{leader}");
    let pod = shop.system.get(&object).unwrap();
    let uid = pod["metadata"]["uid"].as_str().unwrap().to_owned();
    shop.under_load(|| {
        shop.system.lab.exec(&["pkill", "-KILL", "-f", &format!("^/proc/self/exe container .*{uid}")]).unwrap();
        shop.system.until("a restart", &object, |pod| {
            (pod.pointer("/status/containerStatuses/0/lastState/terminated/exitCode")? == 137).then_some(())
        });
    });
}

#[test]
fn the_leaders_pod_is_deleted() {
    let shop = Shop::open();
    let leader = leader(&shop.system);
    shop.under_load(|| {
        shop.system.run(&["delete", "pod", &leader, "--timeout=180s"]);
    });
}

#[test]
fn the_api_server_is_away() {
    let shop = Shop::open();
    shop.under_load(|| {
        shop.system.lab.verb(&["stop", "kube-apiserver"]);
        std::thread::sleep(scale::outage());
        shop.system.lab.verb(&["start", "kube-apiserver"]);
    });
    shop.until_followed();
}

#[test]
fn all_replicas_are_replaced() {
    let shop = Shop::open();
    shop.under_load(|| {
        shop.system.run(&["rollout", "restart", "deployment/chancery"]);
        shop.system.run(&["rollout", "status", "deployment/chancery", "--timeout=300s"]);
    });
}

#[test]
fn a_proxy_comes_while_there_is_no_control_plane() {
    let shop = Shop::open();
    shop.under_load(|| {
        shop.system.run(&["scale", "deployment/chancery", "--replicas=0"]);
        shop.system.run(&["wait", "pod", "--for=delete", "--selector", OURS, "--timeout=180s"]);
        let pods = shop.proxy_pods();
        shop.namespace.run(&["delete", "pod", &pods[0], "--timeout=300s"]);
        let next = shop.proxy_pods().into_iter().find(|pod| !pods.contains(pod)).unwrap();
        shop.namespace
            .until("its start", &format!("pod/{next}"), |pod| (pod["status"]["phase"] == "Running").then_some(()));
        let pod = shop.namespace.get(&format!("pod/{next}")).unwrap();
        let url = format!("http://{}:19003/ready", pod["status"]["podIP"].as_str().unwrap());
        let ask = || shop.system.lab.exec(&["curl", "--silent", "--fail", "--max-time", "5", &url]);
        assert_eq!(ask(), None, "nobody has told it yet what to serve");
        shop.system.run(&["scale", "deployment/chancery", scale::CONTROL_PLANES]);
        wait::until("it is ready", ask).unwrap();
    });
}

/// A Gateway that goes, and a set of listeners that stays.
const LEFT: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: short}
spec:
  gatewayClassName: chancery
  allowedListeners: {namespaces: {from: Same}}
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: left}
spec: {parentRef: {name: short}, listeners: [{name: more, port: 81, protocol: HTTP}]}
";

#[test]
fn a_gateway_goes_while_there_is_no_control_plane() {
    let shop = Shop::open();
    shop.namespace.apply(LEFT);
    let until = |what: &str, words: [&str; 2]| {
        shop.namespace.until(what, "listenerset/left", |set| {
            let said = [condition(set, "Accepted")?, condition(set, "Programmed")?];
            (said == words).then_some(())
        });
    };
    until("that it is served", ["True", "True"]);
    shop.system.run(&["scale", "deployment/chancery", "--replicas=0"]);
    shop.system.run(&["wait", "pod", "--for=delete", "--selector", OURS, "--timeout=180s"]);
    shop.namespace.run(&["delete", "gateway", "short"]);
    until("what was said last", ["True", "True"]);
    // Who comes now follows for the time of a lease before it leads: it has seen everything when it begins.
    let held = r#"{"spec": {"holderIdentity": "somebody_else"}}"#;
    shop.system.run(&["patch", "lease", "chancery", "--type=merge", "--patch", held]);
    shop.system.run(&["scale", "deployment/chancery", scale::CONTROL_PLANES]);
    until("that nobody has it", ["Unknown", "Unknown"]);
}

#[test]
fn another_authority_signs() {
    let shop = Shop::open();
    let program = binary::chancery().unwrap();
    let certs = |verb: &[&str]| {
        let words = [&[program.to_str().unwrap(), "certs", "--output=json"], verb].concat();
        serde_json::from_str::<Value>(&shop.system.lab.exec(&words)?).ok()
    };
    let signs = |all: &Value| {
        let mut listed = all["authorities"].as_array().unwrap().iter();
        listed.find(|one| one["role"] == "signs").unwrap()["subject"].clone()
    };
    shop.overlap("5s");
    shop.under_load(|| {
        let before = signs(&certs(&[]).unwrap());
        assert_eq!(signs(&certs(&["rotate"]).unwrap()), before);
        wait::until("another authority", || (signs(&certs(&[])?) != before).then_some(())).unwrap();
        // so that all proxies connect again, to a server with a certificate of the new one
        shop.system.run(&["rollout", "restart", "deployment/chancery"]);
        shop.system.run(&["rollout", "status", "deployment/chancery", "--timeout=300s"]);
    });
}
