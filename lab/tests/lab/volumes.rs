//! Volumes hold what the API server has, and follow it.

use crate::harness::{Namespace, main_status};
use tests::wait;

#[test]
fn a_secrets_files_change_with_it_and_a_sub_path_does_not() {
    let namespace = Namespace::make("secret");
    let secret = |word: &str| {
        format!("{{apiVersion: v1, kind: Secret, metadata: {{name: secret}}, stringData: {{word: {word}, other: x}}}}")
    };
    namespace.apply(&secret("one"));
    let volumes =
        "volumes: [{name: s, secret: {secretName: secret, defaultMode: 0400, items: [{key: word, path: a/word}]}}]";
    let mounts = "volumeMounts: [{name: s, mountPath: /s}, {name: s, mountPath: /fixed, subPath: a/word}]";
    namespace.shell("reader", "exec sleep 1000", volumes, mounts);
    namespace.until_ready("reader");
    let read = |file: &str| namespace.enter("reader", &["cat", file]);
    assert_eq!(
        (read("/s/a/word").as_deref(), read("/fixed").as_deref(), read("/s/other")),
        (Some("one"), Some("one"), None)
    );
    let mode = namespace.enter("reader", &["stat", "-L", "-c", "%a", "/s/a/word"]);
    assert_eq!(mode.as_deref(), Some("400\n"));
    assert_eq!(namespace.enter("reader", &["touch", "/s/new"]), None);
    namespace.apply(&secret("two"));
    wait::until("the new word", || (read("/s/a/word")? == "two").then_some(())).unwrap();
    assert_eq!(read("/fixed").as_deref(), Some("one"));
}

#[test]
fn tokens_are_for_their_audience_and_the_api_server_knows_the_automatic_one() {
    let namespace = Namespace::make("token");
    let volumes = "volumes: [{name: t, projected: {sources: [{serviceAccountToken: {audience: chancery, expirationSeconds: 600, path: token}}, \
                   {downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}]}}], securityContext: {runAsUser: 1000, fsGroup: 2000}";
    namespace.shell("bearer", "exec sleep 1000", volumes, "volumeMounts: [{name: t, mountPath: /t}]");
    namespace.until_ready("bearer");
    let claims = "cut -d. -f2 /t/token | tr '_-' '/+' | { cat; echo ==; } | base64 -d 2>/dev/null; echo; cat /t/name";
    let said = namespace.enter("bearer", &["sh", "-c", claims]).unwrap();
    assert!(said.contains(r#""aud":["chancery"]"#) && said.contains("bearer"), "{said}");
    let call = "cd /var/run/secrets/kubernetes.io/serviceaccount && curl -sS -o /dev/null -w '%{http_code}' --cacert ca.crt \
                -H \"Authorization: Bearer $(cat token)\" https://kubernetes.default.svc/api; cat namespace";
    assert_eq!(namespace.enter("bearer", &["sh", "-c", call]).as_deref(), Some("200token"));
    let mode = namespace.enter("bearer", &["stat", "-L", "-c", "%a %u %g", "/t/token"]);
    assert_eq!(mode.as_deref(), Some("640 1000 2000\n"));
}

#[test]
fn a_volume_that_cannot_be_made_is_said_and_waited_for() {
    let namespace = Namespace::make("missing");
    let mount = "volumeMounts: [{name: v, mountPath: /v}]";
    namespace.shell("host", "true", "volumes: [{name: v, hostPath: {path: /tmp}}]", mount);
    namespace.shell("later", "exec sleep 1000", "volumes: [{name: v, configMap: {name: later}}]", mount);
    namespace.until_event("host", "FailedMount", "hostPath");
    namespace.until_event("later", "FailedMount", r#"configmap \"later\" not found"#);
    let reason = |pod: &str| {
        let pod = namespace.get(&format!("pod/{pod}"))?;
        Some(main_status(&pod)?.pointer("/state/waiting/reason")?.as_str()?.to_owned())
    };
    wait::until("the wait", || (reason("host")? == "ContainerCreating").then_some(())).unwrap();
    namespace.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: later}, data: {a: b}}");
    namespace.until_ready("later");
    // a pod that never began can go
    namespace.run(&["delete", "pod", "host", "--timeout=180s"]);
}
