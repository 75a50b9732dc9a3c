//! Containers start, fail, start again and end as they do in a real cluster.

use std::io::{BufRead as _, BufReader, Read as _};

use crate::harness::{Namespace, condition, main_status};
use tests::wait;

#[test]
fn an_unknown_image_is_an_error_and_never_a_success() {
    let namespace = Namespace::make("images");
    namespace.apply(
        "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: main, image: 'nginx:1'}]}}",
    );
    namespace.until("an error", "pod/web", |pod| {
        let reason = main_status(pod)?.pointer("/state/waiting/reason")?.as_str()?;
        ["ErrImagePull", "ImagePullBackOff"].contains(&reason).then_some(())
    });
    namespace.until_event("web", "Failed", "nginx:1");
    let pod = namespace.get("pod/web").unwrap();
    assert_eq!(
        (pod["status"]["phase"].as_str(), condition(&pod, "Ready").as_deref()),
        (Some("Pending"), Some("False"))
    );
}

#[test]
fn chancerys_image_is_the_program_that_was_built() {
    let namespace = Namespace::make("chancery");
    let container = "{name: main, image: 'ghcr.io/chancery/chancery:v1', args: [--user]}";
    let spec = format!("{{restartPolicy: Never, containers: [{container}]}}");
    namespace.apply(&format!("{{apiVersion: v1, kind: Pod, metadata: {{name: it}}, spec: {spec}}}"));
    namespace.until_phase("it", "Succeeded");
    assert_eq!(namespace.logs("it", &[]), "65532\n");
}

#[test]
fn init_containers_run_one_after_the_other_and_sidecars_beside_the_rest() {
    let namespace = Namespace::make("order");
    namespace.apply(ORDER);
    namespace.until_phase("order", "Succeeded");
    let said = namespace.logs("order", &["--container=main"]);
    assert_eq!(said, "first\nsecond\nsidecar\n");
}

/// Each adds a line to a file; the last one reads it, when the sidecar has written too.
const ORDER: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: order}
spec:
  restartPolicy: Never
  volumes: [{name: shared, emptyDir: {}}]
  initContainers:
  - {name: first, image: lab/machine, command: [sh, -c, "sleep 0.3; echo first >> /shared/said"], volumeMounts: [{name: shared, mountPath: /shared}]}
  - {name: second, image: lab/machine, command: [sh, -c, "echo second >> /shared/said"], volumeMounts: [{name: shared, mountPath: /shared}]}
  - name: sidecar
    image: lab/machine
    restartPolicy: Always
    command: [sh, -c, "sleep 0.3; echo sidecar >> /shared/said; touch /shared/started; exec sleep 1000"]
    startupProbe: {periodSeconds: 1, exec: {command: [test, -e, /shared/started]}}
    volumeMounts: [{name: shared, mountPath: /shared}]
  containers:
  - {name: main, image: lab/machine, command: [cat, /shared/said], volumeMounts: [{name: shared, mountPath: /shared}]}
"#;

#[test]
fn what_crashes_starts_again_and_then_has_to_wait() {
    let namespace = Namespace::make("crash");
    namespace.shell("crash", "echo run; exit 3", "", "");
    namespace.until("the wait", "pod/crash", |pod| {
        let status = main_status(pod)?;
        let waits = status.pointer("/state/waiting/reason")? == "CrashLoopBackOff";
        let ended = status.pointer("/lastState/terminated/exitCode")? == 3;
        (waits && ended && status["restartCount"].as_i64()? >= 1).then_some(())
    });
    namespace.until_event("crash", "BackOff", "restarting failed container main");
    assert_eq!(namespace.get("pod/crash").unwrap()["status"]["phase"], "Running");
    assert_eq!(namespace.logs("crash", &["--previous"]), "run\n");
}

#[test]
fn a_pod_that_never_restarts_fails_or_succeeds() {
    let namespace = Namespace::make("once");
    namespace.shell("bad", "exit 4", "restartPolicy: Never", "");
    namespace.shell("missing", "true", "restartPolicy: Never", "workingDir: /etc/passwd");
    namespace.apply(
        "{apiVersion: batch/v1, kind: Job, metadata: {name: job}, spec: {template: {spec: {restartPolicy: OnFailure, containers: \
         [{name: main, image: lab/machine, command: ['true']}]}}}}",
    );
    namespace.until_phase("bad", "Failed");
    assert_eq!(main_status(&namespace.get("pod/bad").unwrap()).unwrap()["state"]["terminated"]["exitCode"], 4);
    namespace.until_phase("missing", "Failed");
    assert_eq!(
        main_status(&namespace.get("pod/missing").unwrap()).unwrap()["state"]["terminated"]["reason"],
        "StartError"
    );
    namespace.until("the job's end", "job/job", |job| (job.pointer("/status/succeeded")? == 1).then_some(()));
}

#[test]
fn a_liveness_probe_that_fails_starts_the_container_again() {
    let namespace = Namespace::make("liveness");
    let probe = "livenessProbe: {periodSeconds: 1, failureThreshold: 2, tcpSocket: {port: 81}}, startupProbe: {periodSeconds: 1, \
                 exec: {command: ['true']}}";
    namespace.shell("web", "exec sleep 1000", "terminationGracePeriodSeconds: 0", probe);
    namespace.until("a restart", "pod/web", |pod| (main_status(pod)?["restartCount"].as_i64()? >= 1).then_some(()));
    namespace.until_event("web", "Unhealthy", "Liveness probe failed");
    namespace.until_event("web", "Killing", "failed liveness probe");
}

#[test]
fn the_end_is_a_hook_then_sigterm_then_sigkill() {
    let namespace = Namespace::make("graceful");
    let hook = "lifecycle: {preStop: {exec: {command: [sh, -c, 'echo hook > /proc/1/fd/1']}}}";
    namespace.shell("graceful", "trap 'echo term; exit 0' TERM; echo up; while true; do sleep 0.1; done", "", hook);
    let deaf = "trap '' TERM; echo up; while true; do sleep 0.1; done";
    namespace.shell("deaf", deaf, "terminationGracePeriodSeconds: 1", "");
    for pod in ["graceful", "deaf"] {
        wait::until("its first word", || (namespace.logs(pod, &[]) == "up\n").then_some(())).unwrap();
    }
    let mut follows = namespace.start(&["logs", "--follow", "graceful"]);
    let mut lines = BufReader::new(follows.stdout.take().unwrap());
    let mut said = String::new();
    lines.read_line(&mut said).unwrap();
    // a pod that ends slowly is still there for a while
    namespace.run(&["delete", "pod", "graceful", "deaf", "--wait=false"]);
    wait::until("its end", || namespace.get("pod/graceful").is_none().then_some(())).unwrap();
    wait::until("the other's end", || namespace.get("pod/deaf").is_none().then_some(())).unwrap();
    lines.read_to_string(&mut said).unwrap();
    assert!(follows.wait().unwrap().success());
    assert_eq!(said, "up\nhook\nterm\n");
}

#[test]
fn a_pod_is_told_what_it_asks_for() {
    let namespace = Namespace::make("told");
    namespace.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: conf}, data: {color: red}}");
    let environment = "env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: COLOR, valueFrom: {configMapKeyRef: \
                       {name: conf, key: color}}}, {name: BOTH, value: $(POD)-$(COLOR)}]";
    namespace.shell(
        "told",
        "echo $BOTH $KUBERNETES_SERVICE_HOST; hostname; cat /etc/hostname",
        "restartPolicy: Never",
        environment,
    );
    namespace.until_phase("told", "Succeeded");
    assert_eq!(namespace.logs("told", &[]), "told-red 10.96.0.1\ntold\ntold\n");
    // what is missing is said, and waited for
    let missing = "env: [{name: X, valueFrom: {secretKeyRef: {name: later, key: word}}}]";
    namespace.shell("waits", "echo $X", "restartPolicy: Never", missing);
    namespace.until("the error", "pod/waits", |pod| {
        (main_status(pod)?.pointer("/state/waiting/reason")? == "CreateContainerConfigError").then_some(())
    });
    namespace.apply("{apiVersion: v1, kind: Secret, metadata: {name: later}, stringData: {word: here}}");
    namespace.until_phase("waits", "Succeeded");
    assert_eq!(namespace.logs("waits", &[]), "here\n");
}

#[test]
fn hooks_after_the_start_gates_and_deadlines_count() {
    let namespace = Namespace::make("lifecycle");
    let hook = |command: &str| format!("lifecycle: {{postStart: {{exec: {{command: [sh, -c, '{command}']}}}}}}");
    namespace.shell(
        "hooked",
        "while ! [ -e /tmp/hooked ]; do sleep 0.1; done; echo seen",
        "restartPolicy: Never",
        &hook("touch /tmp/hooked"),
    );
    namespace.shell("fails", "exec sleep 1000", "terminationGracePeriodSeconds: 1", &hook("exit 1"));
    namespace.shell("gated", "exec sleep 1000", "readinessGates: [{conditionType: example.com/open}]", "");
    namespace.shell("late", "exec sleep 1000", "activeDeadlineSeconds: 1, terminationGracePeriodSeconds: 1", "");
    namespace.until_phase("hooked", "Succeeded");
    namespace.until_event("fails", "FailedPostStartHook", "PostStartHook failed");
    namespace.until("the deadline", "pod/late", |pod| {
        (pod.pointer("/status/reason")? == "DeadlineExceeded" && pod.pointer("/status/phase")? == "Failed")
            .then_some(())
    });
    namespace.until("its containers", "pod/gated", |pod| (condition(pod, "ContainersReady")? == "True").then_some(()));
    assert_eq!(condition(&namespace.get("pod/gated").unwrap(), "Ready").as_deref(), Some("False"));
    let open = r#"{"status": {"conditions": [{"type": "example.com/open", "status": "True"}]}}"#;
    namespace.run(&["patch", "pod", "gated", "--subresource=status", "--patch", open]);
    namespace.until_ready("gated");
    // what others wrote is still there
    assert_eq!(condition(&namespace.get("pod/gated").unwrap(), "example.com/open").as_deref(), Some("True"));
}

#[test]
fn a_pod_whose_processes_are_killed_starts_again_or_fails() {
    let namespace = Namespace::make("killed");
    namespace.shell("killed", "exec sleep 1000", "", "");
    namespace.until_ready("killed");
    // processes of the lab for this pod, which others have too: by what they run, and by the name of the host
    let kill = |verb: &str, of: &str| {
        let script = format!("kill -9 $(pgrep -f '^/proc/self/exe {verb} .*{of}')");
        namespace.lab.exec(&["sh", "-c", &script]).unwrap();
    };
    kill("container", namespace.get("pod/killed").unwrap()["metadata"]["uid"].as_str().unwrap());
    namespace.until("a restart", "pod/killed", |pod| {
        let status = main_status(pod)?;
        (status.pointer("/lastState/terminated/exitCode")? == 137 && status["ready"] == true).then_some(())
    });
    kill("sandbox", "killed");
    namespace.until_phase("killed", "Failed");
    assert_eq!(condition(&namespace.get("pod/killed").unwrap(), "Ready").as_deref(), Some("False"));
    namespace.run(&["delete", "pod", "killed", "--timeout=180s"]);
}

#[test]
fn readiness_is_asked_until_the_end() {
    let namespace = Namespace::make("drains");
    let script = "trap 'exit 0' TERM; touch /tmp/ready; while true; do sleep 0.1; done";
    let probe = "readinessProbe: {periodSeconds: 1, exec: {command: [test, -e, /tmp/ready]}}";
    let hook = "lifecycle: {preStop: {exec: {command: [sh, -c, 'rm /tmp/ready; while ! [ -e /tmp/drained ]; do sleep 0.1; done']}}}";
    namespace.shell("drains", script, "", &format!("{probe}, {hook}"));
    namespace.until_ready("drains");
    namespace.run(&["delete", "pod", "drains", "--wait=false"]);
    namespace.until("the drain", "pod/drains", |pod| {
        pod.pointer("/metadata/deletionTimestamp")?;
        (condition(pod, "Ready")? == "False").then_some(())
    });
    namespace.enter("drains", &["touch", "/tmp/drained"]).unwrap();
    wait::until("its end", || namespace.get("pod/drains").is_none().then_some(())).unwrap();
}
