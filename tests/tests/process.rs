//! How the process lives among others: pipes that nobody reads.

use std::io::Read as _;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tests::{binary, wait};

#[test]
fn a_log_that_nobody_reads_holds_up_nobody() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("conf");
    std::fs::create_dir(&folder).unwrap();
    // A pipe takes 64 KiB. Each of these is a line of the log.
    let notes: Vec<String> = (0..2_000).map(|number| format!("apiVersion: v1\nkind: Unread{number}\n")).collect();
    for (number, notes) in notes.chunks(50).enumerate() {
        std::fs::write(folder.join(format!("{number}.yaml")), notes.join("---\n")).unwrap();
    }
    let mut child = Command::new(binary::chancery().unwrap())
        .args(["run", "--no-envoy", "--dir"])
        .arg(&folder)
        .arg("--state-dir")
        .arg(place.path().join("state"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // They are said in one go: nobody reads beyond the first.
    let mut log = child.stderr.take().unwrap();
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"Unread") && log.read(&mut byte).unwrap() > 0 {
        seen.extend(byte);
    }
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    let ended = wait::until("chancery to end", || child.try_wait().unwrap());
    if ended.is_err() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(ended.unwrap().success(), "{}", String::from_utf8_lossy(&seen));
}
