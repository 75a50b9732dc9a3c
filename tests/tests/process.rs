//! How the process lives among others: pipes that nobody reads, people who wait for an answer, files of an earlier run.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

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
    let mut child = command(place.path()).stderr(Stdio::piped()).spawn().unwrap();
    // They are said in one go: nobody reads beyond the first.
    let mut log = child.stderr.take().unwrap();
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"Unread") && log.read(&mut byte).unwrap() > 0 {
        seen.extend(byte);
    }
    assert!(ends(&mut child), "{}", String::from_utf8_lossy(&seen));
}

#[test]
fn nobody_who_waits_for_an_answer_holds_up_the_end() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("conf")).unwrap();
    let mut child = command(place.path()).stderr(Stdio::null()).spawn().unwrap();
    let socket = place.path().join("state/admin.sock");
    let mut admin = wait::until("the admin socket", || UnixStream::connect(&socket).ok()).unwrap();
    // It waits for a change that does not come; the answer of the other is never read to its end.
    write!(admin, "GET /status?after=1000000 HTTP/1.1\r\nhost: chancery\r\n\r\n").unwrap();
    let mut other = UnixStream::connect(&socket).unwrap();
    write!(other, "GET /status HTTP/1.1\r\nhost: chancery\r\n\r\n").unwrap();
    let mut line = String::new();
    BufReader::new(&other).read_line(&mut line).unwrap();
    assert!(line.contains("200"), "{line}");
    assert!(ends(&mut child));
}

#[test]
fn the_ready_file_of_an_earlier_run_is_gone_until_this_one_is_ready() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("conf")).unwrap();
    let (ready, status) = (place.path().join("ready"), place.path().join("status.json"));
    std::fs::write(&ready, "of an earlier run").unwrap();
    let mut command = command(place.path());
    command.arg("--ready-file").arg(&ready).arg("--status-file").arg(&status).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let said = |file: &Path, word: &str| std::fs::read_to_string(file).is_ok_and(|text| text == word);
    let was_ready = wait::until("the ready file", || said(&ready, "ready\n").then_some(()));
    let had_status = wait::until("the status file", || said(&status, "[]\n").then_some(()));
    // A second process that cannot start must not take the word of the first away.
    let second = command.output().unwrap();
    let still = said(&ready, "ready\n");
    assert!(ends(&mut child));
    was_ready.and(had_status).unwrap();
    assert!(!second.status.success() && still);
}

/// `chancery run` without Envoys on the folders `conf` and `state` of a place.
fn command(place: &Path) -> Command {
    let mut command = Command::new(binary::chancery().unwrap());
    command.args(["run", "--no-envoy", "--dir"]).arg(place.join("conf")).arg("--state-dir").arg(place.join("state"));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Whether it ends well when it is asked to.
fn ends(child: &mut Child) -> bool {
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    let ended = wait::until("chancery to end", || child.try_wait().unwrap());
    if ended.is_err() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    ended.is_ok_and(|status| status.success())
}
