//! Restarts, stops and replacements on a host, with requests without pause: none fails.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use tests::backend::Backend;
use tests::client::get;
use tests::objects::{gateway, route, service};
use tests::ports::free_ports;
use tests::prober::Prober;
use tests::running::Running;
use tests::{binary, wait};

/// A Gateway on a free port with a backend behind it.
fn shop(running: &Running, backend: &Backend) -> u16 {
    let [port] = free_ports().unwrap();
    let text = [gateway(port), route("shop", &[("/", "web")]), service("web", backend.port)].join("---\n");
    running.write("shop.yaml", &text).unwrap();
    port
}

/// `chancery stop` on its state folder: the exit code, and what it prints.
fn stop(running: &Running, words: &[&str]) -> (Option<i32>, String) {
    let state = running.state().display().to_string();
    let words = ["stop", "--state-dir", &state].into_iter().chain(words.iter().copied());
    let output = binary::run(words, "").unwrap();
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// A Chancery that leaves its Envoys at SIGTERM, once its route answers.
fn leaving() -> (Backend, Running, u16) {
    let backend = Backend::start("web").unwrap();
    let mut running = Running::prepare().unwrap().with(&["--on-exit", "leave"]);
    let port = shop(&running, &backend);
    running.start().unwrap();
    wait::until("the route", || get(port, "x.example", "/").ok().filter(|answer| answer.status == 200)).unwrap();
    (backend, running, port)
}

#[test]
fn restart_that_leaves_envoys_refuses_no_request() {
    let (_backend, mut running, port) = leaving();
    let before = running.envoys();
    let prober = Prober::default();
    std::thread::scope(|scope| {
        let _over = prober.until_dropped();
        scope.spawn(|| prober.run(|path| get(port, "x.example", path), &[("/", &["web"])]));
        prober.more(20).unwrap();
        running.end_with(Signal::SIGTERM).unwrap();
        prober.more(20).unwrap();
        running.start().unwrap();
        prober.more(20).unwrap();
    });
    let (_, wrong) = prober.told();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!(running.envoys(), before);
    let log = running.log();
    let pid = before.first().unwrap();
    assert!(log.contains("leaves an envoy that serves on") && log.contains(&format!("pid={pid}")), "{log}");
    assert!(log.contains("chancery stop --state-dir"), "{log}");
}

#[test]
fn interrupt_drains_also_where_sigterm_leaves() {
    let backend = Backend::start("web").unwrap();
    let mut running = Running::prepare().unwrap().with(&["--on-exit", "leave"]);
    shop(&running, &backend);
    running.start().unwrap();
    wait::until("an Envoy", || running.envoys().first().copied()).unwrap();
    running.end_with(Signal::SIGINT).unwrap();
    assert!(running.envoys().is_empty());
}

#[test]
fn stop_drains_what_a_chancery_left_and_says_so() {
    let (_backend, mut running, _) = leaving();
    let envoy = running.envoys().first().copied().unwrap();
    running.end_with(Signal::SIGTERM).unwrap();
    let (code, words) = stop(&running, &[]);
    assert_eq!(code, Some(0), "{words}");
    for part in ["draining the Envoy of default/edge", &format!("(process {envoy})"), "is gone"] {
        assert!(words.contains(part), "{words}");
    }
    assert!(running.envoys().is_empty());
    let (code, words) = stop(&running, &[]);
    assert_eq!(code, Some(0), "{words}");
    assert!(words.contains("no Envoy runs from"), "{words}");
}

#[test]
fn stop_ends_a_running_chancery_and_keeps_proxies_if_asked() {
    let backend = Backend::start("web").unwrap();
    let mut running = Running::prepare().unwrap();
    let port = shop(&running, &backend);
    running.start().unwrap();
    wait::until("the route", || get(port, "x.example", "/").ok().filter(|answer| answer.status == 200)).unwrap();
    let (envoys, chancery) = (running.envoys(), running.pid().unwrap());
    let (code, words) = stop(&running, &["--keep-proxies"]);
    assert_eq!(code, Some(0), "{words}");
    assert!(words.contains(&format!("stopping Chancery (process {chancery})")), "{words}");
    assert!(words.contains("default/edge") && words.contains("goes on serving"), "{words}");
    running.until_ended().unwrap();
    assert_eq!(running.envoys(), envoys);
    assert_eq!(get(port, "x.example", "/").unwrap().body, "web");
    running.start().unwrap();
    let (code, words) = stop(&running, &[]);
    assert_eq!(code, Some(0), "{words}");
    assert!(words.contains("Chancery (process") && words.contains("draining the Envoy of default/edge"), "{words}");
    running.until_ended().unwrap();
    assert!(running.envoys().is_empty());
}

#[test]
fn stop_signals_no_process_that_does_not_hold_the_lock() {
    let running = Running::prepare().unwrap();
    std::fs::create_dir(running.state()).unwrap();
    let mut other = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    // A lock that another process holds, under the number of one that does not.
    let file = std::fs::File::create(running.state().join("lock")).unwrap();
    file.lock().unwrap();
    std::fs::write(running.state().join("lock"), format!("{}\n", other.id())).unwrap();
    let (code, words) = stop(&running, &[]);
    let lives = other.try_wait().unwrap().is_none();
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(lives && code == Some(1), "{words}");
    assert!(words.contains("another chancery"), "{words}");
}

/// A user other than the one that runs the tests.
const OTHER_USER: u32 = 65534;

#[test]
fn root_stops_another_users_chancery_as_that_user() {
    assert!(nix::unistd::geteuid().is_root(), "run it as root: only root can become others");
    let place = tempfile::tempdir().unwrap();
    let (conf, state, [port]) = (place.path().join("conf"), place.path().join("state"), free_ports().unwrap());
    chown(place.path(), Some(OTHER_USER), Some(OTHER_USER)).unwrap();
    std::fs::create_dir(&conf).unwrap();
    std::fs::set_permissions(&conf, Permissions::from_mode(0o755)).unwrap();
    std::fs::write(conf.join("gateway.yaml"), gateway(port)).unwrap();
    std::fs::set_permissions(conf.join("gateway.yaml"), Permissions::from_mode(0o644)).unwrap();
    let mut command = Command::new(binary::chancery().unwrap());
    command
        .args(["run", "--dir"])
        .arg(&conf)
        .arg("--state-dir")
        .arg(&state)
        .arg("--envoy")
        .arg(binary::envoy().unwrap());
    let mut chancery = command.uid(OTHER_USER).gid(OTHER_USER).stderr(Stdio::null()).spawn().unwrap();
    let served = wait::until("the Gateway", || get(port, "x.example", "/").ok());
    let output = binary::run(["stop", "--state-dir", &state.display().to_string()], "").unwrap();
    let _if_it_failed = chancery.kill();
    let ended = chancery.wait().unwrap();
    let words = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    served.unwrap();
    assert!(output.status.success() && ended.success(), "{ended} {words}");
    assert!(words.contains("draining the Envoy of default/edge") && words.contains("is gone"), "{words}");
    assert!(get(port, "x.example", "/").is_err());
}
