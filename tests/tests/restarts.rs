//! Restarts, stops and replacements on a host, with requests without pause: none fails.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tests::backend::Backend;
use tests::client::get;
use tests::objects::{gateway, route, service};
use tests::ports::free_ports;
use tests::prober::{Prober, over_kept};
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

/// Starts it with a Gateway whose Envoy `threads` replaces, and returns the port once its route answers.
fn replaceable(running: &mut Running, backend: &Backend) -> u16 {
    let [port] = free_ports().unwrap();
    let parameters =
        "  infrastructure:\n    parametersRef: {group: gateway.envoyproxy.io, kind: EnvoyProxy, name: p}\n";
    let edge = gateway(port) + parameters;
    let text = [edge, route("shop", &[("/", "web")]), service("web", backend.port)].join("---\n");
    running.write("shop.yaml", &text).unwrap();
    threads(running, 1);
    running.start().unwrap();
    wait::until("the route", || get(port, "x.example", "/").ok().filter(|answer| answer.status == 200)).unwrap();
    port
}

/// The sockets of Chancery between two Envoys, below a folder: of a first Envoy's child, and of its successor's parent.
fn handovers(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) = entries.partition(|path| path.is_dir());
    let is_between = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("hot.a_child_") && name.ends_with('1')
            || name.starts_with("hot.b_parent_") && name.ends_with('0')
    };
    files.into_iter().filter(is_between).chain(folders.iter().flat_map(|folder| handovers(folder))).collect()
}

/// "Terminate" as a successor says it when it serves, an answer without a socket, and what is no message.
const MESSAGES: [&[u8]; 3] =
    [&[0, 0, 0, 0, 0, 0, 0, 4, 0x0a, 2, 0x2a, 0], &[0, 0, 0, 0, 0, 0, 0, 4, 0x12, 2, 0x0a, 0], &[0xff; 64]];

#[test]
fn handover_of_sockets_listens_to_its_two_envoys_only() {
    let backend = Backend::start("web").unwrap();
    let mut running = Running::prepare().unwrap().with_drain("10s");
    let port = replaceable(&mut running, &backend);
    let before = running.envoys();
    let folder = running.state();
    let (over, prober) = (AtomicBool::new(false), Prober::default());
    std::thread::scope(|scope| {
        let _over = prober.until_dropped();
        scope.spawn(|| prober.run(|path| get(port, "x.example", path), &[("/", &["web"])]));
        scope.spawn(|| {
            let socket = UnixDatagram::unbound().unwrap();
            socket.set_nonblocking(true).unwrap();
            while !over.load(Ordering::Acquire) {
                for path in handovers(&folder) {
                    for message in MESSAGES {
                        let _gone = socket.send_to(message, &path);
                    }
                }
            }
        });
        threads(&running, 2);
        let is_replaced = |now: Vec<Pid>| now.len() == 1 && now != before;
        let replaced = wait::until("another Envoy", || is_replaced(running.envoys()).then_some(()));
        over.store(true, Ordering::Release);
        replaced.unwrap_or_else(|error| panic!("{error}\n{}", running.log()));
        prober.more(20).unwrap();
    });
    let (_, wrong) = prober.told();
    assert!(wrong.is_empty(), "{wrong:?}\n{}", running.log());
    assert!(running.log().contains("drops a message of another process"), "{}", running.log());
}

/// Rounds of the test below: `CHAOS=full` has as many as are claimed.
fn rounds() -> usize {
    if std::env::var_os("CHAOS").is_some_and(|scale| scale == "full") { 50 } else { 6 }
}

/// A change on a host that ends a process.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    /// SIGTERM to Chancery, and the same one again.
    Restart,
    /// SIGKILL to Chancery, and the same one again.
    Crash,
    /// Another Chancery.
    Upgrade,
    /// Another Envoy.
    UpgradeEnvoy,
    /// The Gateway's Envoy with another number of threads, at the hands of a Chancery that goes on.
    Replace,
}

const CHANGES: [Change; 5] = [Change::Replace, Change::Restart, Change::UpgradeEnvoy, Change::Upgrade, Change::Crash];

impl Change {
    /// Makes the change: the second of two takes the place of the first.
    fn make(self, running: &mut Running, [chancery, envoy]: &mut [[PathBuf; 2]; 2], count: &mut [usize; 2]) {
        match self {
            Self::Restart => running.end_with(Signal::SIGTERM).unwrap(),
            Self::Crash => running.kill_chancery().unwrap(),
            Self::Upgrade => {
                running.end_with(Signal::SIGTERM).unwrap();
                chancery.reverse();
                running.use_chancery(chancery[0].clone());
            }
            Self::UpgradeEnvoy => {
                running.end_with(Signal::SIGTERM).unwrap();
                envoy.reverse();
                running.use_envoy(envoy[0].clone());
            }
            Self::Replace => {
                count.reverse();
                return threads(running, count[0]);
            }
        }
        running.start().unwrap();
    }

    const fn replaces(self) -> bool {
        matches!(self, Self::UpgradeEnvoy | Self::Replace)
    }
}

/// The Gateway's Envoy with this many threads.
fn threads(running: &Running, count: usize) {
    let proxy =
        "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: EnvoyProxy\nmetadata:\n  name: p\nspec:\n  concurrency: ";
    running.write("proxy.yaml", &format!("{proxy}{count}\n")).unwrap();
}

/// A program, and another file of it: another version as far as the machine can see.
fn twice(program: PathBuf, folder: &Path) -> [PathBuf; 2] {
    let other = folder.join(program.file_name().unwrap());
    std::fs::hard_link(&program, &other).or_else(|_| std::fs::copy(&program, &other).map(drop)).unwrap();
    [program, other]
}

#[test]
fn restarts_upgrades_and_replacements_in_random_order_fail_no_request() {
    let backend = Backend::start("web").unwrap();
    // Connections that are kept get time to learn that they end.
    let mut running = Running::prepare().unwrap().with_drain("10s").with(&["--on-exit", "leave"]);
    let port = replaceable(&mut running, &backend);
    let folder = tempfile::tempdir_in(running.state()).unwrap();
    let mut programs = [binary::chancery(), binary::envoy()].map(|program| twice(program.unwrap(), folder.path()));
    let mut count = [1, 2];
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let prober = Prober::default();
    std::thread::scope(|scope| {
        let _over = prober.until_dropped();
        for _ in 0..2 {
            scope.spawn(|| prober.run(|path| get(port, "x.example", path), &[("/", &["web"])]));
            scope.spawn(|| prober.run(over_kept(port), &[("/", &["web"])]));
        }
        for round in 1..=rounds() {
            let change = CHANGES.get(round - 1).copied().unwrap_or_else(|| CHANGES[random.usize(..CHANGES.len())]);
            prober.more(20).unwrap();
            let before = running.envoys();
            change.make(&mut running, &mut programs, &mut count);
            let is_made = |now: Vec<Pid>| now.len() == 1 && change.replaces() == (now != before);
            wait::until("one Envoy", || is_made(running.envoys()).then_some(()))
                .unwrap_or_else(|error| panic!("seed {seed}, round {round}, {change:?}: {error}\n{}", running.log()));
            prober.more(20).unwrap();
        }
    });
    let (asked, wrong) = prober.told();
    assert!(wrong.is_empty(), "{asked} requests, seed {seed}: {wrong:?}\n{}", running.log());
}
