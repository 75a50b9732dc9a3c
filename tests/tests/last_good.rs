//! A Chancery that was killed and whose folder is away when it comes back: what proxies had acknowledged is served, and then moved on from.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tests::backend::Backend;
use tests::certificate::self_signed;
use tests::client::{Answer, get};
use tests::objects::{documents, gateway, listeners, route, service, tls_secret};
use tests::ports::free_ports;
use tests::running::{Running, admin_of};
use tests::wait;

/// The folder of a Gateway's proxy.
fn folder(running: &Running, gateway: &str) -> PathBuf {
    let folders = std::fs::read_dir(running.state().join("gateways")).unwrap();
    let mut folders = folders.map(|folder| folder.unwrap().path());
    folders.find(|folder| std::fs::read_to_string(folder.join("gateway")).is_ok_and(|name| name == gateway)).unwrap()
}

/// The lines of an Envoy's statistics that end with one of these words.
fn statistics(folder: &Path, words: &str) -> Option<String> {
    let mut admin = admin_of(folder).ok()?;
    let path = format!("/stats?filter=({words})$");
    write!(admin, "GET {path} HTTP/1.1\r\nhost: envoy\r\nconnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    admin.read_to_string(&mut answer).ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    Some(body.lines().filter(|line| line.contains(": ")).map(|line| format!("{line}\n")).collect())
}

/// How many responses of each kind an Envoy has taken, or refused.
fn told(folder: &Path) -> String {
    statistics(folder, "update_success|update_rejected").unwrap()
}

fn is_connected(folder: &Path) -> Option<()> {
    statistics(folder, "control_plane.connected_state").filter(|text| text.ends_with(": 1\n")).map(drop)
}

/// The journals of the state folder, once there are so many and each holds a cluster and a listener.
fn saved(running: &Running, count: usize) -> Vec<PathBuf> {
    wait::until("what was acknowledged to be saved", || {
        let entries = std::fs::read_dir(running.state().join("last-good")).ok()?;
        let files = entries.map(|entry| entry.unwrap().path());
        let files: Vec<PathBuf> = files.filter(|file| file.extension().is_some_and(|is| is == "journal")).collect();
        let holds = |file: &PathBuf| {
            let bytes = std::fs::read(file).unwrap_or_default();
            let has = |word: &str| bytes.windows(word.len()).any(|part| part == word.as_bytes());
            has("default/one") && has("http_connection_manager")
        };
        Some(files.clone()).filter(|files| files.len() == count && files.iter().all(holds))
    })
    .unwrap()
}

fn until_answers(port: u16, body: &str) {
    let wanted = Answer { status: 200, body: body.to_owned() };
    let asked = || get(port, "x.example", "/").ok().filter(|answer| *answer == wanted);
    wait::until(&format!("{body} at {port}"), asked).unwrap();
}

/// Over when it goes, also by a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Asks until it is over, and notes every answer that is not one of these.
fn ask(port: u16, allowed: &[&str], over: &AtomicBool, wrong: &Mutex<Vec<String>>) {
    while !over.load(Ordering::Acquire) {
        match get(port, "x.example", "/") {
            Ok(answer) if answer.status == 200 && allowed.contains(&&*answer.body) => {}
            other => wrong.lock().unwrap().push(format!("{other:?}")),
        }
    }
}

#[test]
fn the_last_good_is_served_while_the_folder_is_away_and_nothing_is_resent_or_lost() {
    let mut running = Running::prepare().unwrap();
    let [edge, side] = free_ports().unwrap();
    let (one, two) = (Backend::start("one").unwrap(), Backend::start("two").unwrap());
    let aside = |text: String| text.replace("name: edge", "name: side");
    running.write("gateways.yaml", &documents([&*gateway(edge), &aside(gateway(side))])).unwrap();
    running.write("services.yaml", &documents([&*service("one", one.port), &service("two", two.port)])).unwrap();
    let routes = |to: &str| documents([&*route("shop", &[("/", to)]), &aside(route("aside", &[("/", "one")]))]);
    running.write("routes.yaml", &routes("one")).unwrap();
    running.start().unwrap();
    until_answers(edge, "one");
    until_answers(side, "one");
    saved(&running, 2);
    let (stays, dies) = (folder(&running, "default/edge"), folder(&running, "default/side"));
    let before = told(&stays);
    let (over, wrong) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let asking = Over(&over);
        scope.spawn(|| ask(edge, &["one", "two"], &over, &wrong));
        running.kill_chancery().unwrap();
        let pid: i32 =
            std::fs::read_to_string(dies.join("envoy.pid")).unwrap().split(' ').next().unwrap().parse().unwrap();
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        let away = running.conf().with_file_name("away");
        std::fs::rename(running.conf(), &away).unwrap();
        running.begin().unwrap();
        // the one that died is started again, and given what it had
        until_answers(side, "one");
        let problems = running.status(&["problems"]).unwrap();
        wait::until("the other one's stream", || is_connected(&stays)).unwrap();
        let (meanwhile, ready) = (told(&stays), running.ready_file().exists());
        std::fs::rename(&away, running.conf()).unwrap();
        running.until_ready().unwrap();
        until_answers(side, "one");
        let after = told(&stays);
        let later = running.status(&["problems"]).unwrap();
        running.write("routes.yaml", &routes("two")).unwrap();
        until_answers(edge, "two");
        drop(asking);
        assert!(problems.contains("default/edge, default/side: served from the last good configuration"), "{problems}");
        assert!(!ready && !later.contains("last good"), "{later}");
        assert_eq!(meanwhile, before, "resent from what was saved");
        assert_eq!(after, before, "resent once the folder was there");
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
    drop((one, two));
}

#[test]
fn a_listener_whose_key_is_not_saved_is_named_with_the_option_that_saves_it() {
    let mut running = Running::prepare().unwrap();
    let [plain, tls] = free_ports().unwrap();
    let one = Backend::start("one").unwrap();
    let pair = self_signed(&["x.example"], false).unwrap();
    let both = format!(
        "  - name: http\n    protocol: HTTP\n    port: {plain}\n  - name: https\n    protocol: HTTPS\n    port: {tls}\n    \
         tls: {{certificateRefs: [{{name: pair}}]}}\n"
    );
    let secret = tls_secret("pair", &pair.certificate, &pair.key);
    let parts = [&*listeners(&both), &secret, &route("shop", &[("/", "one")]), &service("one", one.port)];
    running.write("all.yaml", &documents(parts)).unwrap();
    running.start().unwrap();
    until_answers(plain, "one");
    saved(&running, 1);
    running.kill_chancery().unwrap();
    for envoy in running.envoys() {
        kill(envoy, Signal::SIGKILL).unwrap();
    }
    std::fs::rename(running.conf(), running.conf().with_file_name("away")).unwrap();
    running.begin().unwrap();
    until_answers(plain, "one");
    let problems = running.status(&["problems"]).unwrap();
    let named = problems.lines().find(|line| line.contains("--save-secrets")).unwrap_or_default();
    assert!(named.contains("default/edge: listener ") && named.contains(&tls.to_string()), "{problems}");
    assert!(!named.contains(&plain.to_string()), "{problems}");
    let logged = running.log();
    assert!(logged.contains("--save-secrets"), "{logged}");
}

#[test]
fn a_gateway_that_went_while_chancery_was_away_is_not_served_any_more() {
    let mut running = Running::prepare().unwrap();
    let [edge, side] = free_ports().unwrap();
    let one = Backend::start("one").unwrap();
    let aside = |text: String| text.replace("name: edge", "name: side");
    running.write("edge.yaml", &documents([&*gateway(edge), &route("shop", &[("/", "one")])])).unwrap();
    running.write("side.yaml", &aside(documents([&*gateway(side), &route("aside", &[("/", "one")])]))).unwrap();
    running.write("services.yaml", &service("one", one.port)).unwrap();
    running.start().unwrap();
    until_answers(side, "one");
    until_answers(edge, "one");
    let files = saved(&running, 2);
    running.kill_chancery().unwrap();
    running.remove("side.yaml").unwrap();
    // what is damaged is told and costs nobody anything
    let damaged = files.iter().find(|file| file.to_string_lossy().contains("edge")).unwrap();
    std::fs::write(damaged, "nothing").unwrap();
    running.start().unwrap();
    until_answers(edge, "one");
    wait::until("its port to be closed", || get(side, "x.example", "/").err()).unwrap();
    let names = || {
        let entries = std::fs::read_dir(running.state().join("last-good")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect::<BTreeSet<_>>()
    };
    let left = |names: &BTreeSet<String>| names.len() == 2 && names.iter().all(|name| name.contains("edge"));
    wait::until("a new file, and none of what is gone", || Some(names()).filter(left)).unwrap();
    let problems = running.status(&["problems"]).unwrap();
    assert!(problems.contains("damaged-1") && !problems.contains("served from"), "{problems}");
}

#[test]
fn a_file_that_broke_while_chancery_was_away_takes_nothing_from_proxies_until_it_is_mended() {
    let mut running = Running::prepare().unwrap();
    let [edge] = free_ports().unwrap();
    let (one, two) = (Backend::start("one").unwrap(), Backend::start("two").unwrap());
    let services = documents([&*service("one", one.port), &service("two", two.port)]);
    let whole =
        [("gateway.yaml", gateway(edge)), ("routes.yaml", route("shop", &[("/", "one")])), ("services.yaml", services)];
    whole.iter().for_each(|(name, text)| running.write(name, text).unwrap());
    running.start().unwrap();
    until_answers(edge, "one");
    saved(&running, 1);
    let envoys = running.envoys();
    let (over, wrong) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let asking = Over(&over);
        scope.spawn(|| ask(edge, &["one", "two"], &over, &wrong));
        for (name, text) in &whole {
            // It keeps what it gave, and edits of others count.
            running.kill_chancery().unwrap();
            running.write(name, &text.replace("spec:", "spec: [")).unwrap();
            running.start().unwrap();
            running.until_problem("what was read there before stays in force").unwrap();
            // Where that is not known nothing counts.
            running.kill_chancery().unwrap();
            std::fs::remove_file(running.state().join("texts")).unwrap();
            running.begin().unwrap();
            let told =
                || Some(running.status(&["problems"]).unwrap()).filter(|told| told.contains("mended or removed"));
            let told = wait::until("the problem", told).unwrap();
            let folder = folder(&running, "default/edge");
            wait::until("the stream", || is_connected(&folder)).unwrap();
            assert!(told.contains(name) && told.contains("removed, it takes with it what it gave"), "{told}");
            for words in [&[][..], &["gateway", "edge"]] {
                let shown = running.status(words).unwrap();
                assert!(shown.contains("no statuses yet: not everything could be read"), "{shown}");
            }
            assert!(!running.ready_file().exists(), "{name}");
            running.write(name, text).unwrap();
            running.until_ready().unwrap();
        }
        running.write("routes.yaml", &route("shop", &[("/", "two")])).unwrap();
        until_answers(edge, "two");
        drop(asking);
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(running.envoys(), envoys);
    drop((one, two));
}

#[test]
fn what_was_broken_before_holds_up_no_later_start() {
    let mut running = Running::prepare().unwrap();
    let [edge] = free_ports().unwrap();
    let (one, two) = (Backend::start("one").unwrap(), Backend::start("two").unwrap());
    running.write("broken.yaml", "kind: [").unwrap();
    running
        .write("edge.yaml", &documents([&*gateway(edge), &service("one", one.port), &service("two", two.port)]))
        .unwrap();
    running.write("routes.yaml", &route("shop", &[("/", "one")])).unwrap();
    running.start().unwrap();
    until_answers(edge, "one");
    saved(&running, 1);
    running.kill_chancery().unwrap();
    running.write("routes.yaml", &route("shop", &[("/", "two")])).unwrap();
    running.start().unwrap();
    until_answers(edge, "two");
    drop((one, two));
}
