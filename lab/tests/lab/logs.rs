//! `kubectl logs` works as people know it.

use crate::harness::Namespace;
use tests::wait;

#[test]
fn logs_can_be_cut_followed_and_have_times() {
    let namespace = Namespace::make("logs");
    let script = "echo one; echo two >&2; echo three; while ! [ -e /tmp/go ]; do sleep 0.1; done; echo four";
    namespace.shell("talks", script, "restartPolicy: Never", "");
    wait::until("three lines", || (namespace.logs("talks", &[]).lines().count() == 3).then_some(())).unwrap();
    let mut lines: Vec<String> = namespace.logs("talks", &[]).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["one", "three", "two"]);
    assert_eq!(namespace.logs("talks", &["--tail=1"]).lines().count(), 1);
    assert_eq!(namespace.logs("talks", &["--since=1h"]).lines().count(), 3);
    assert_eq!(namespace.logs("talks", &["--since-time=2100-01-01T00:00:00Z"]), "");
    assert_eq!(namespace.logs("talks", &["--limit-bytes=3"]).len(), 3);
    let times = namespace.logs("talks", &["--timestamps"]);
    assert!(times.lines().all(|line| line.starts_with("20") && line.contains("Z ")), "{times}");
    let follows = namespace.start(&["logs", "--follow", "--tail=0", "talks"]);
    // what it enters ends with it, perhaps before it has told how it went
    let _told = namespace.enter("talks", &["touch", "/tmp/go"]);
    namespace.until_phase("talks", "Succeeded");
    let said = String::from_utf8(follows.wait_with_output().unwrap().stdout).unwrap();
    // it may have been asked for after the last line was written
    assert!(["", "four\n"].contains(&said.as_str()), "{said}");
    assert!(namespace.logs("talks", &[]).contains("four"));
}

#[test]
fn commands_in_containers_are_refused_with_the_way_that_works() {
    let namespace = Namespace::make("refused");
    namespace.shell("web", "exec sleep 1000", "", "");
    namespace.until_ready("web");
    let output = namespace.start(&["exec", "web", "--", "true"]).wait_with_output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("lab enter"), "{output:?}");
    assert_eq!(namespace.enter("web", &["echo", "inside"]).as_deref(), Some("inside\n"));
}
