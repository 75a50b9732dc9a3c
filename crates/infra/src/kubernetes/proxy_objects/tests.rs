//! Pods that are a Gateway's, and those that only look like it.

use super::*;

fn gateway(name: &str) -> Owner {
    Owner::of(&ObjectName { namespace: "shop".into(), name: name.into() })
}

fn account(name: &str) -> ObjectName {
    ObjectName { namespace: "shop".into(), name: name.into() }
}

#[test]
fn pod_is_a_proxy_by_account_and_workload_of_one_gateway() {
    let (a, b) = (gateway("a"), gateway("b"));
    let made = ProxyObjects::of(&[
        (ObjectKind::ServiceAccount, "shop", "a-1", &a),
        (ObjectKind::Deployment, "shop", "a-1", &a),
        (ObjectKind::DaemonSet, "shop", "a-every", &a),
        (ObjectKind::ServiceAccount, "shop", "b-2", &b),
        (ObjectKind::Deployment, "shop", "b-2", &b),
        (ObjectKind::Deployment, "shop", "a-1-5f", &b),
    ]);
    let check = |owner, name, kind: &str, controller: &str| {
        made.check(owner, &account(name), Some(&(kind.into(), controller.into())))
    };
    assert_eq!(check(&a, "a-1", "ReplicaSet", "a-1-6fc4f874b"), Ok(()));
    assert_eq!(check(&a, "a-1", "DaemonSet", "a-every"), Ok(()));
    for (name, kind, controller, expected) in [
        ("default", "ReplicaSet", "a-1-6fc4f874b", NotAProxy::Account),
        ("b-2", "ReplicaSet", "a-1-6fc4f874b", NotAProxy::Account),
        ("a-1", "ReplicaSet", "b-2-6fc4f874b", NotAProxy::Workload),
        ("a-1", "ReplicaSet", "a-1-5f-6fc4f874b", NotAProxy::Workload),
        ("a-1", "ReplicaSet", "web-6fc4f874b", NotAProxy::Workload),
        ("a-1", "DaemonSet", "a-1", NotAProxy::Workload),
        ("a-1", "StatefulSet", "a-1", NotAProxy::Workload),
    ] {
        assert_eq!(check(&a, name, kind, controller), Err(expected), "{name} {kind} {controller}");
    }
    assert_eq!(made.check(&a, &account("a-1"), None), Err(NotAProxy::Workload));
    let elsewhere = ObjectName { namespace: "bank".into(), name: "a-1".into() };
    assert_eq!(
        made.check(&a, &elsewhere, Some(&("DaemonSet".into(), "a-every".into()))),
        Err(NotAProxy::Account),
        "an account of another namespace is another account"
    );
    assert!(made.has_account(&account("b-2")) && !made.has_account(&account("default")));
}
