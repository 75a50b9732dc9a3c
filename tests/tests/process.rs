//! How the process lives among others: pipes that nobody reads, people who wait for an answer, files of an earlier run.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tests::ports::free_ports;
use tests::running::ask;
use tests::{binary, client, objects, wait};

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
    let state = place.path().join("state");
    // It waits for a change that does not come; the answer of the other is never read to its end.
    let _admin = wait::until("the admin socket", || ask(&state, "/status?after=1000000").ok()).unwrap();
    let other = ask(&state, "/status").unwrap();
    let mut line = String::new();
    BufReader::new(&other).read_line(&mut line).unwrap();
    assert!(line.contains("200"), "{line}");
    assert!(ends(&mut child));
}

#[test]
fn those_who_connect_and_say_nothing_do_not_shut_monitors_out() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("conf")).unwrap();
    let [port] = free_ports().unwrap();
    let address = format!("127.0.0.1:{port}");
    let mut command = command(place.path());
    let mut child = command.args(["--health-listen", &address]).stderr(Stdio::null()).spawn().unwrap();
    let connect = || TcpStream::connect(&address).ok();
    let mut silent = vec![wait::until("the address", connect).unwrap()];
    silent.extend((0..100).filter_map(|_| connect()));
    let mut monitor = connect().unwrap();
    write!(monitor, "GET /healthz HTTP/1.1\r\nhost: chancery\r\n\r\n").unwrap();
    let mut line = String::new();
    BufReader::new(&monitor).read_line(&mut line).unwrap();
    assert!(line.contains("200"), "{line}");
    drop(silent);
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

#[test]
fn what_a_broken_file_keeps_is_shown_as_an_earlier_version_and_nothing_is_left_at_the_end() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("conf");
    std::fs::create_dir(&folder).unwrap();
    let shop =
        [objects::gateway(8080), objects::route("shop", &[("/", "web")]), objects::service("web", 9)].join("---\n");
    let write = |text: &str| std::fs::write(folder.join("shop.yaml"), text).unwrap();
    write(&shop);
    let log = std::fs::File::create(place.path().join("log")).unwrap();
    let mut child = command(place.path()).stderr(log).spawn().unwrap();
    let status = || {
        let state = place.path().join("state").display().to_string();
        let output = binary::run(["status", "httproute", "--state-dir", &state], "").unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let shows = |word: &str| wait::until(word, || Some(status()).filter(|text| text.contains(word)));
    // No proxy is there, so that its listener is not programmed.
    let whole = shows("  problem");
    write(&shop.replace("  rules:", "  rules: ["));
    let logs = |word: &str| {
        let log = || std::fs::read_to_string(place.path().join("log")).ok();
        wait::until(word, || log().filter(|text| text.contains(word)))
    };
    let (broken, _told) = (shows("earlier version: "), logs("stays in force"));
    write(&shop);
    let (again, log) = (shows("  problem"), logs("resolved: "));
    write(&shop.replace("name: shop\n", "name: Shop_\n"));
    let misnamed = shows("found \"Shop_\"");
    let state = place.path().join("state").display().to_string();
    let nobody = binary::run(["status", "gateway", "nobody", "--state-dir", &state], "").unwrap();
    write(&shop.replace("name: shop\n", "name: refused\n").replace("  rules:", "  rule:"));
    let noticed = logs("rule is not a field here");
    let refused = binary::run(["status", "httproute", "refused", "--state-dir", &state], "").unwrap();
    write("# emptied\n");
    let emptied = logs("removed, as no file has it any more");
    assert!(ends(&mut child));
    noticed.unwrap();
    let told = String::from_utf8(refused.stdout).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        told.starts_with("what is written of refused has no status") && told.contains("did you mean rules"),
        "{told}"
    );
    assert_eq!(String::from_utf8(nobody.stdout).unwrap(), "no gateway is called nobody; there are default/edge\n");
    assert!(!nobody.status.success() && emptied.unwrap().contains("default/shop"));
    assert!(!whole.unwrap().contains("earlier version") && again.is_ok());
    assert!(broken.unwrap().contains("default/shop") && misnamed.unwrap().contains("default/shop"));
    let log = log.unwrap();
    assert!(log.contains("ERROR") && !log.contains(" error: "), "{log}");
    let state = place.path().join("state");
    let left = walk(&state).into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "sock"));
    assert_eq!(left.collect::<Vec<_>>(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn what_is_wrong_with_an_earlier_version_is_told_as_of_that() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("conf");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("edge.yaml"), objects::gateway(8080)).unwrap();
    let write = |text: &str| std::fs::write(folder.join("shop.yaml"), text).unwrap();
    let shop = objects::route("shop", &[("/", "web")]);
    write(&shop);
    let mut child = command(place.path()).stderr(Stdio::null()).spawn().unwrap();
    let state = place.path().join("state").display().to_string();
    let problems = || {
        let output = binary::run(["status", "problems", "--state-dir", &state], "").unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let shows = |word: &str| wait::until(word, || Some(problems()).filter(|text| text.contains(word)));
    let whole = shows("Service default/web does not exist");
    write(&shop.replace("  rules:", "  rules: ["));
    let broken = shows("stays in force").and_then(|_| shows("(of the earlier version)"));
    write(&shop);
    let again = wait::until("the whole file", || Some(problems()).filter(|text| !text.contains("earlier version")));
    assert!(ends(&mut child));
    let (whole, broken) = (whole.unwrap(), broken.unwrap());
    assert!(!whole.contains("earlier version") && again.is_ok(), "{whole}");
    assert!(broken.contains("Service default/web does not exist") && !broken.contains("kind: HTTPRoute"), "{broken}");
}

#[test]
fn what_is_in_the_way_of_the_state_folder_is_named_with_its_remedy() {
    for (name, is_file) in [("state", true), ("state/gateways", true), ("state/lock", false)] {
        let place = tempfile::tempdir().unwrap();
        let way = place.path().join(name);
        std::fs::create_dir_all(way.parent().unwrap()).unwrap();
        if is_file {
            std::fs::write(&way, "in the way").unwrap();
        } else {
            std::fs::create_dir(&way).unwrap();
        }
        let output = command(place.path()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let remedy = "remove it, or choose another place with --state-dir\n";
        assert!(told.contains(&way.display().to_string()) && told.ends_with(remedy), "{told}");
        assert!(!output.status.success());
    }
}

#[test]
fn access_logs_go_to_standard_output_as_they_are_and_the_log_does_not() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("conf")).unwrap();
    let [port] = free_ports().unwrap();
    let shop = [objects::gateway(port), objects::route("shop", &[("/", "web")])].join("---\n");
    std::fs::write(place.path().join("conf/shop.yaml"), shop).unwrap();
    let [output, log] = ["output", "log"].map(|name| place.path().join(name));
    let mut command = Command::new(binary::chancery().unwrap());
    command.args(["run", "--access-log", "stdout", "--log-level", "error", "--drain-time", "0s", "--envoy"]);
    command.arg(binary::envoy().unwrap()).arg("--dir").arg(place.path().join("conf"));
    command.arg("--state-dir").arg(place.path().join("state")).stdin(Stdio::null());
    command.stdout(std::fs::File::create(&output).unwrap()).stderr(std::fs::File::create(&log).unwrap());
    let mut child = command.spawn().unwrap();
    let path = format!("/{}", "long".repeat(1_500));
    let answered = wait::until("an answer", || client::get(port, "a.example", &path).ok());
    let line = wait::until("a line", || std::fs::read_to_string(&output).ok().filter(|text| text.ends_with('\n')));
    assert!(ends(&mut child));
    assert!(answered.is_ok());
    for line in line.unwrap().lines() {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(entry.to_string().contains(&path), "{entry}");
    }
    assert!(!std::fs::read_to_string(&log).unwrap().contains(&path));
}

#[test]
fn the_limit_of_open_files_is_raised_and_a_change_that_met_it_counts_once_there_are_some_again() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("conf");
    std::fs::create_dir(&folder).unwrap();
    let write = |text: &str| std::fs::write(folder.join("web.yaml"), text).unwrap();
    write(&objects::service("web", 9));
    let plain = command(place.path());
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -Sn 50 && ulimit -Hn 80 && exec \"$0\" \"$@\""]).arg(plain.get_program());
    let log = place.path().join("log");
    limited.args(plain.get_args()).stdin(Stdio::null()).stderr(std::fs::File::create(&log).unwrap());
    let mut child = limited.spawn().unwrap();
    let logs = |word: &str| {
        wait::until(word, || std::fs::read_to_string(&log).ok().filter(|text| text.contains(word))).map(drop)
    };
    let ready = logs(" ready");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    let socket = place.path().join("state/admin.sock");
    let many: Vec<_> = (0..100).filter_map(|_| UnixStream::connect(&socket).ok()).collect();
    let open = format!("/proc/{}/fd", child.id());
    let all = wait::until("all to be taken", || (std::fs::read_dir(&open).ok()?.count() >= 80).then_some(()));
    write("# emptied\n");
    let met = logs("cannot be read");
    drop(many);
    let counts = logs("removed, as no file has it any more");
    assert!(ends(&mut child));
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["Max", "open", "files", "80", "80", "files"]);
    ready.and(all).and(met).and(counts).unwrap();
}

/// Everything below a folder.
fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| walk(&path).into_iter().chain([path])).collect()
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
