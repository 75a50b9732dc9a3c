//! A container may do what its securityContext lets it, and no more.

use crate::harness::{Namespace, main_status};

/// Takes a port below 1024.
const BIND: &str = "exec python3 -c 'import socket; socket.socket().bind((\"0.0.0.0\", 80)); print(\"bound\")'";

#[test]
fn ports_below_1024_need_their_capability() {
    let namespace = Namespace::make("ports");
    let never = "restartPolicy: Never";
    namespace.shell("root", BIND, never, "");
    namespace.shell("user", BIND, &format!("{never}, securityContext: {{runAsUser: 1000}}"), "");
    namespace.shell("dropped", BIND, never, "securityContext: {capabilities: {drop: [ALL]}}");
    namespace.shell("kept", BIND, never, "securityContext: {capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}}");
    let open = "securityContext: {runAsUser: 1000, sysctls: [{name: net.ipv4.ip_unprivileged_port_start, value: '0'}]}";
    namespace.shell("open", BIND, &format!("{never}, {open}"), "");
    for pod in ["root", "kept", "open"] {
        namespace.until_phase(pod, "Succeeded");
        assert_eq!(namespace.logs(pod, &[]), "bound\n", "{pod}");
    }
    for pod in ["user", "dropped"] {
        namespace.until_phase(pod, "Failed");
        assert!(namespace.logs(pod, &[]).contains("Permission denied"), "{pod}");
    }
}

#[test]
fn users_groups_and_folders_are_what_the_pod_says() {
    let namespace = Namespace::make("users");
    let script = "id -u; id -g; id -G; touch /file || echo no root; touch /tmp/file || echo no tmp; touch /shared/file && stat -c %g /shared/file; \
                  grep -E 'NoNewPrivs|CapEff|CapBnd' /proc/self/status | tr -s '\\t' ' '";
    let of_pod = "restartPolicy: Never, securityContext: {runAsUser: 1000, runAsGroup: 3000, fsGroup: 2000, supplementalGroups: [4000]}, \
                  volumes: [{name: w, emptyDir: {medium: Memory}}]";
    let of_container = "securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}, \
                        volumeMounts: [{name: w, mountPath: /shared}]";
    namespace.shell("user", script, of_pod, of_container);
    namespace.until_phase("user", "Succeeded");
    let said = namespace.logs("user", &[]);
    let words: Vec<&str> = said.lines().filter(|line| !line.starts_with("touch:")).collect();
    let zero = "0000000000000000";
    let expect = ["1000", "3000", "3000 2000 4000", "no root", "no tmp", "2000"];
    assert_eq!(words[..6], expect, "{said}");
    assert_eq!(
        words[6..],
        [format!("CapEff: {zero}"), format!("CapBnd: {zero}"), "NoNewPrivs: 1".to_owned()],
        "{said}"
    );
}

#[test]
fn root_is_refused_where_it_must_not_be() {
    let namespace = Namespace::make("nonroot");
    namespace.shell("root", "true", "securityContext: {runAsNonRoot: true}", "");
    let message = namespace.until("the refusal", "pod/root", |pod| {
        let waiting = main_status(pod)?.pointer("/state/waiting")?;
        (waiting["reason"] == "CreateContainerConfigError").then(|| waiting["message"].to_string())
    });
    assert!(message.contains("runAsNonRoot"), "{message}");
}
