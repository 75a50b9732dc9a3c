//! An API server that is killed and comes back is nothing to the pods.

use std::sync::Arc;

use crate::harness::{Lab, Namespace, main_status};
use tests::wait;

#[test]
fn pods_outlive_an_api_server_that_is_killed() {
    let lab = Arc::new(Lab::own());
    let namespace = Namespace::make_in(Arc::clone(&lab), "outage");
    namespace.shell("web", "exec sleep 1000", "", "");
    namespace.until_ready("web");
    let before = namespace.get("pod/web").unwrap();
    let ip = before["status"]["podIP"].as_str().unwrap();
    let ping = || lab.exec(&["ip", "route", "get", ip]).is_some_and(|route| route.contains("dev pod"));
    assert!(ping());

    lab.verb(&["stop", "kube-apiserver"]);
    assert!(lab.verb(&["status"]).contains("kube-apiserver           stopped"));
    assert_eq!(namespace.try_run(&["get", "pods"]), None);
    assert!(ping());
    lab.verb(&["start", "kube-apiserver"]);

    let after = namespace.until("the pod", "pod/web", |pod| Some(pod.clone()));
    for part in ["/metadata/uid", "/status/containerStatuses"] {
        assert_eq!(after.pointer(part), before.pointer(part), "{part}");
    }
    // what changes now arrives
    namespace.shell("next", "true", "restartPolicy: Never", "");
    namespace.until_phase("next", "Succeeded");
    namespace.run(&["delete", "pod", "web", "--timeout=180s"]);

    // one that dies by itself comes back by itself
    let pid = || {
        let status = lab.verb(&["status"]);
        let line = status.lines().find(|line| line.starts_with("kube-proxy"))?;
        line.contains("running").then(|| line.split_whitespace().last().map(str::to_owned))?
    };
    let first = pid().unwrap();
    lab.exec(&["kill", "-9", &first]).unwrap();
    wait::until("another kube-proxy", || (pid()? != first).then_some(())).unwrap();
    assert!(main_status(&before).is_some());
}
