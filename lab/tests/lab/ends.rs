//! Nothing is left of a lab: no process, no mount, no interface, and no file but logs that say why it ended.

use std::path::{Path, PathBuf};

use crate::harness::{Lab, Namespace, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::sync::Arc;
use tests::wait;

/// The two processes that a lab writes down: the keeper, and the first one inside.
fn processes(state: &Path) -> Option<[i32; 2]> {
    let text = std::fs::read_to_string(state.join("processes")).ok()?;
    let mut pids = text.lines().filter_map(|line| line.split(' ').next()?.parse().ok());
    Some([pids.next()?, pids.next()?])
}

/// Processes of a lab: those of the session that its keeper began.
fn alive(keeper: i32) -> Vec<i32> {
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let belongs = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        fields.get(3) == Some(&keeper.to_string().as_str()) && fields.first() != Some(&"Z")
    };
    pids.filter(belongs).collect()
}

/// That nothing of it is there any more.
fn assert_gone(keeper: i32, state: &Path) {
    wait::until("the end of all processes", || alive(keeper).is_empty().then_some(())).unwrap();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(state.to_str().unwrap()), "{mounts}");
    let interfaces: Vec<PathBuf> =
        std::fs::read_dir("/sys/class/net").unwrap().map(|entry| entry.unwrap().path()).collect();
    let ours = |path: &&PathBuf| {
        path.file_name().is_some_and(|name| name == "kbr0" || name.to_string_lossy().starts_with("pod0a"))
    };
    assert_eq!(interfaces.iter().find(ours), None);
}

#[test]
fn nothing_is_left_after_down() {
    let lab = Arc::new(Lab::own());
    let namespace = Namespace::make_in(Arc::clone(&lab), "leaves");
    namespace.shell("web", "exec sleep 1000", "", "");
    namespace.until_ready("web");
    let state = lab.state();
    let [keeper, _] = processes(&state).unwrap();
    assert!(alive(keeper).len() > 8, "{:?}", alive(keeper));
    lab.verb(&["down"]);
    assert_gone(keeper, &state);
    assert!(!state.exists());
    assert!(text(&lab.command("status").output().unwrap()).contains("does not run"));
    // the same folder does for the next one
    lab.verb(&["up"]);
    assert!(lab.verb(&["status"]).contains("kube-apiserver           running"));
}

/// Kills a process of a lab, and looks at what is left.
fn killed(find: impl Fn(&Path) -> Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("lab");
    let up = Lab::at(&state, "up").output().unwrap();
    assert!(up.status.success(), "{}", text(&up));
    let [keeper, _] = processes(&state).unwrap();
    let pid = find(&state).unwrap();
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    assert_gone(keeper, &state);
    assert!(state.join("log").is_dir() && std::fs::read_dir(state.join("run")).unwrap().next().is_none());
    assert!(!Lab::at(&state, "status").output().unwrap().status.success());
    let down = Lab::at(&state, "down").output().unwrap();
    assert!(down.status.success() && !state.exists(), "{}", text(&down));
}

#[test]
fn nothing_is_left_after_the_keeper_was_killed() {
    killed(|state| Some(processes(state)?[0]));
}

#[test]
fn nothing_is_left_after_the_first_process_was_killed() {
    killed(|state| Some(processes(state)?[1]));
}

#[test]
fn nothing_is_left_after_the_kubelet_was_killed() {
    killed(|state| {
        let [keeper, init] = processes(state)?;
        let is_run = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|word| word == b"run") && ![keeper, init].contains(pid)
        };
        alive(keeper).into_iter().find(is_run)
    });
}

#[test]
fn nothing_is_left_when_the_start_is_interrupted() {
    // a shell may have its programs ignore SIGINT
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("lab");
        let mut up = Lab::at(&state, "up").stderr(std::process::Stdio::null()).spawn().unwrap();
        let started = || {
            let programs = std::fs::read_to_string(state.join("programs")).ok()?;
            programs.contains("etcd").then(|| processes(&state))?
        };
        let [keeper, _] = wait::until("a program", started).unwrap();
        kill(Pid::from_raw(up.id().try_into().unwrap()), signal).unwrap();
        assert!(!up.wait().unwrap().success());
        assert_gone(keeper, &state);
        wait::until("the end of its files", || (!state.exists()).then_some(())).unwrap();
    }
}
