//! Authors of files in a folder that is read: links to files of others, pipes and devices, files that are costly to read.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use tempfile::TempDir;
use tests::backend::Backend;
use tests::objects::{documents, gateway, route, service};
use tests::ports::free_ports;
use tests::running::Running;
use tests::{binary, client, wait};

/// A word that no output may have.
const HIDDEN: &str = "c0nf1dent1al";

fn namespace(name: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n")
}

/// Files of another user: none of them is an object, but the last one is next to one.
fn files_of_others() -> TempDir {
    let folder = TempDir::new().unwrap();
    let texts = [
        ("shadow", format!("root:$6${HIDDEN}:19000:0:99999:7:::\n")),
        ("ca.key", format!("-----BEGIN PRIVATE KEY-----\n{HIDDEN}\n-----END PRIVATE KEY-----\n")),
        ("env", format!("TOKEN={HIDDEN}\n")),
        ("list.yaml", format!("- {HIDDEN}\n")),
        ("twice.yaml", format!("{HIDDEN}: 1\n{HIDDEN}: 2\n")),
        ("objects.yaml", format!("{}---\n{HIDDEN}: [\n", namespace("foreign"))),
    ];
    for (name, text) in texts {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn running(options: &[&str]) -> (Running, u16) {
    let [port] = free_ports().unwrap();
    let address = format!("127.0.0.1:{port}");
    let mut running = Running::prepare().unwrap().with(&["--no-envoy", "--admin-listen", &address]).with(options);
    running.write("own.yaml", &namespace("own")).unwrap();
    running.start().unwrap();
    (running, port)
}

/// Everything that Chancery shows.
fn shown(running: &Running, port: u16) -> String {
    let asked = [running.status(&["problems"]).unwrap(), running.status(&["-o", "json"]).unwrap()];
    let admin = ["/status", "/metrics"].map(|path| client::get(port, "localhost", path).unwrap().body);
    asked.into_iter().chain(admin).chain([running.log()]).collect()
}

fn offline(verb: &str, conf: &Path, options: &[&str]) -> String {
    let conf = conf.display().to_string();
    let output = binary::run([verb, &conf].iter().chain(options), "").unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_link_out_of_the_folder_shows_nothing_of_what_it_leads_to() {
    let (running, port) = running(&[]);
    let others = files_of_others();
    let links = ["shadow", "ca.key", "env", "list.yaml", "twice.yaml", "objects.yaml"];
    for (at, link) in links.iter().enumerate() {
        symlink(others.path().join(link), running.conf().join(format!("{at}.yaml"))).unwrap();
    }
    symlink(others.path(), running.conf().join("folder")).unwrap();
    symlink("/proc/self/environ", running.conf().join("environ.yaml")).unwrap();
    symlink("/proc/self/cmdline", running.conf().join("cmdline.yaml")).unwrap();
    for name in ["0.yaml", "5.yaml", "folder", "environ.yaml"] {
        running.until_problem(&format!("{name}:1:1")).unwrap();
    }
    let all = shown(&running, port)
        + &offline("validate", &running.conf(), &["--notes"])
        + &offline("translate", &running.conf(), &[]);
    assert!(!all.contains(HIDDEN), "{all}");
    assert!(all.contains("run with --follow-links") && all.contains("nothing below /proc"), "{all}");
    assert!(!all.contains("CHANCERY_ENVOY") && !all.contains("--state-dir\0"), "{all}");
}

#[test]
fn with_links_followed_the_text_of_what_is_no_object_is_not_shown() {
    let (running, port) = running(&["--follow-links"]);
    let others = files_of_others();
    for (at, link) in ["shadow", "ca.key", "env", "list.yaml", "twice.yaml"].iter().enumerate() {
        symlink(others.path().join(link), running.conf().join(format!("{at}.yaml"))).unwrap();
    }
    symlink("/proc/self/environ", running.conf().join("environ.yaml")).unwrap();
    for name in ["0.yaml", "4.yaml", "environ.yaml"] {
        running.until_problem(name).unwrap();
    }
    let all = shown(&running, port) + &offline("validate", &running.conf(), &["--notes", "--follow-links"]);
    assert!(!all.contains(HIDDEN), "{all}");
    assert!(all.contains("its text is not shown") && all.contains("nothing below /proc"), "{all}");
}

/// Ends an attacker's thread when it is dropped, also by a test that fails: else its scope would wait for ever.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Files of a folder that is swapped.
const SWAPPED: usize = 100;

#[test]
fn a_file_that_is_swapped_for_a_link_all_the_time_shows_nothing_of_its_target() {
    let (running, port) = running(&[]);
    let others = files_of_others();
    let stop = AtomicBool::new(false);
    let conf = running.conf();
    let broken = format!("{}x: [\n", namespace("swapped"));
    // A folder that is exchanged for one of others gives each file of it a moment between a look and a read.
    let (own, foreign) = (conf.join("folder"), conf.join(".foreign"));
    fs::create_dir(&own).unwrap();
    for number in 0..SWAPPED {
        fs::write(own.join(format!("{number}.yaml")), &broken).unwrap();
        symlink("objects.yaml", others.path().join(format!("{number}.yaml"))).unwrap();
    }
    symlink(others.path(), &foreign).unwrap();
    thread::scope(|scope| {
        let stopping = Stop(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                renameat2(AT_FDCWD, &own, AT_FDCWD, &foreign, RenameFlags::RENAME_EXCHANGE).unwrap();
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for target in ["shadow", "objects.yaml"] {
                    symlink(others.path().join(target), conf.join(".link")).unwrap();
                    fs::rename(conf.join(".link"), conf.join("swapped.yaml")).unwrap();
                    fs::write(conf.join(".own"), &broken).unwrap();
                    fs::rename(conf.join(".own"), conf.join("swapped.yaml")).unwrap();
                }
            }
        });
        let validated = || offline("validate", &conf, &[]) + &offline("validate", &conf, &[]);
        let rounds = (0..20).map(|_| shown(&running, port) + &validated()).collect::<Vec<_>>();
        drop(stopping);
        for all in rounds {
            assert!(!all.contains(HIDDEN), "{all}");
        }
    });
}

#[test]
fn pipes_sockets_and_devices_hold_up_no_other_file() {
    let (running, port) = running(&[]);
    let conf = running.conf();
    nix::unistd::mkfifo(&conf.join("pipe.yaml"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(conf.join("socket.yaml")).unwrap();
    symlink("/dev/zero", conf.join("zero.yaml")).unwrap();
    symlink("/dev/stdin", conf.join("stdin.yaml")).unwrap();
    for words in ["a pipe", "a socket", "zero.yaml", "stdin.yaml"] {
        running.until_problem(words).unwrap();
    }
    running.write("later.yaml", "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: LATER\n").unwrap();
    running.until_problem("later.yaml").unwrap();
    let shown_offline = offline("validate", &conf, &[]);
    assert!(shown_offline.contains("a pipe") && shown_offline.contains("a socket"), "{shown_offline}");
    for path in ["/proc/self", "/proc/self/environ", "/dev/zero", "/sys"] {
        let refusal = offline("validate", Path::new(path), &[]);
        assert!(refusal.contains("nothing below /proc, /sys and /dev"), "{path}: {refusal}");
    }
    let piped = conf.join("pipe.yaml");
    assert!(offline("validate", &piped, &[]).contains("a pipe"), "a pipe that is named is not waited for");
    assert!(!shown(&running, port).contains(HIDDEN));
}

#[test]
fn mounted_config_maps_are_read_without_following_links_elsewhere() {
    let mounted = TempDir::new().unwrap();
    let swap = |version: u32| {
        let own = format!("..{version}");
        fs::create_dir(mounted.path().join(&own)).unwrap();
        fs::write(mounted.path().join(&own).join("a.yaml"), namespace(&format!("V{version}"))).unwrap();
        symlink(&own, mounted.path().join("..data_tmp")).unwrap();
        fs::rename(mounted.path().join("..data_tmp"), mounted.path().join("..data")).unwrap();
    };
    swap(1);
    symlink("..data/a.yaml", mounted.path().join("a.yaml")).unwrap();
    let root = mounted.path().display().to_string();
    let (running, _) = running(&["--dir", &root]);
    for version in 1..5 {
        // A wrong name is a problem: that is how its version is seen.
        running.until_problem(&format!("V{version}")).unwrap();
        swap(version + 1);
    }
    assert!(!running.status(&["problems"]).unwrap().contains("--follow-links"));
}

/// Files that are costly to read: so many that they are not all read when an edit of another author is taken in.
const COSTLY: usize = 16;

/// The most memory that a process has had, in bytes.
fn peak(running: &Running) -> usize {
    usize::try_from(running.memory("VmHWM").unwrap()).unwrap()
}

#[test]
fn costly_files_neither_hold_up_others_nor_take_much_memory() {
    let (running, _) = running(&[]);
    let before = peak(&running);
    let mut text = namespace("costly");
    for number in 0..300_000 {
        let _ = writeln!(text, "k{number:06}: 1");
    }
    for version in 0..5 {
        running.write("costly.yaml", &format!("{text}# {version}\n")).unwrap();
        running.write("other.yaml", &namespace(&format!("OTHER{version}"))).unwrap();
        running.until_problem(&format!("OTHER{version}")).unwrap();
    }
    running.until_problem("more than 1000 fields of this object are not in the API").unwrap();
    let took = peak(&running) - before;
    assert!(took <= (32 << 20) + 8 * text.len(), "{took} bytes for a file of {}", text.len());
    // An edit in a folder of another author that was written behind many of these is taken in before they are all read.
    let write = |folder: &str, name: &str, text: &str| {
        let folder = running.conf().join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(".new"), text).unwrap();
        fs::rename(folder.join(".new"), folder.join(name)).unwrap();
    };
    for number in 0..COSTLY {
        write("costly", &format!("costly{number}.yaml"), &text);
    }
    write("other", "other.yaml", &namespace("LAST"));
    let problems = || running.status(&["problems"]).ok().filter(|problems| problems.contains("LAST"));
    let problems = wait::until("the last edit", problems).unwrap();
    let read = (0..COSTLY).filter(|number| problems.contains(&format!("costly{number}.yaml"))).count();
    assert!(read < COSTLY, "the edit of another author waited for {read} costly files");
}

/// Writes a file of a folder below the one that is read.
fn write_in(running: &Running, folder: &str, name: &str, text: &str) {
    let folder = running.conf().join(folder);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!(".{name}")), text).unwrap();
    fs::rename(folder.join(format!(".{name}")), folder.join(name)).unwrap();
}

/// Costly files of one author that name policies: edits of others wait for a few of them at most.
#[test]
fn costly_policies_of_one_folder_do_not_stall_edits_of_others() {
    const COUNT: usize = 5_000;
    let (running, _) = running(&[]);
    // The reader takes some 10 ms for each of these where it is optimised, and more elsewhere: 50 s for all.
    let text = format!("{}---\n# SecurityPolicy\n{}", namespace("EVIL"), "# costly\n".repeat(1 << 20));
    write_in(&running, "evil", "0.yaml", &text);
    let at = |number: usize| running.conf().join(format!("evil/{number}.yaml"));
    (1..COUNT).for_each(|number| fs::hard_link(at(0), at(number)).unwrap());
    running.until_problem("evil/0.yaml").unwrap();
    write_in(&running, "other", "route.yaml", &route("other", &[("/", "nowhere")]));
    running.until_problem("the route is not attached to it").unwrap();
    let problems = running.status(&["problems"]).unwrap();
    let read = (0..COUNT).filter(|number| problems.contains(&format!("evil/{number}.yaml:"))).count();
    assert!(read < COUNT, "the edit waited for all files");
}

/// A guard in a file that takes long to read, among a flood of files like it of another author: a route that was written after it is never served without.
#[test]
fn no_route_is_served_before_the_policy_that_was_written_before_it() {
    guarded_route(["", "", ""]);
}

/// The same where policies, the flood and routes are in folders of their own.
#[test]
fn no_route_is_served_before_the_policy_of_another_folder() {
    guarded_route(["policies", "flood", "routes"]);
}

fn guarded_route([policies, floods, routes]: [&str; 3]) {
    let backend = Backend::start("good").unwrap();
    let [port] = free_ports().unwrap();
    let mut running = Running::prepare().unwrap();
    running.write("gateway.yaml", &(gateway(port) + "---\n" + &service("good", backend.port))).unwrap();
    running.start().unwrap();
    let flood = config_maps("flood") + "# SecurityPolicy\n";
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stopping = Stop(&stop);
        scope.spawn(|| {
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let name = |number: usize| format!("flood{number}.yaml");
                write_in(&running, floods, &name(number), &flood.replace("flood", &format!("f{number}")));
                if number >= 10 {
                    fs::remove_file(running.conf().join(floods).join(name(number - 10))).unwrap();
                }
            }
        });
        let policy = "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: SecurityPolicy\nmetadata: {name: guard}\nspec:\n  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: admin}]\n  authorization: {}\n";
        write_in(&running, policies, "base.yaml", &(config_maps("base") + policy));
        write_in(&running, routes, "admin.yaml", &route("admin", &[("/admin", "good")]));
        let guarded = wait::until("the route with its guard", || {
            let status = client::get(port, "x.example", "/admin").ok()?.status;
            (status != 404).then_some(status)
        });
        drop(stopping);
        // A policy that this version does not build answers 500; 200 would be the backend.
        assert_eq!(guarded.unwrap(), 500);
    });
}

/// The author of a folder breaks his files in each way while Chancery is away.
#[test]
fn files_broken_at_a_restart_hold_up_nothing_of_other_authors() {
    let mut running = Running::prepare().unwrap();
    let [port] = free_ports().unwrap();
    let backend = Backend::start("good").unwrap();
    let status = |path: &str| client::get(port, "x.example", path).ok().map(|answer| answer.status);
    let until = |path: &str, wanted: u16| {
        wait::until(&format!("{wanted} at {path}"), || status(path).filter(|status| *status == wanted)).unwrap();
    };
    let guard = "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: SecurityPolicy\nmetadata: {name: guard}\nspec:\n  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: admin}]\n  authorization: {defaultAction: Deny}\n";
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: unused}\nstringData: {a: b}\n";
    let files = [
        ("maps.yaml", config_maps("evil")),
        ("secret.yaml", secret.to_owned()),
        ("guard.yaml", guard.to_owned()),
        ("route.yaml", route("theirs", &[("/theirs", "good")])),
    ];
    let own = documents([&*gateway(port), &service("good", backend.port), &route("admin", &[("/admin", "good")])]);
    write_in(&running, "own", "base.yaml", &own);
    files.iter().for_each(|(name, text)| write_in(&running, "evil", name, text));
    running.start().unwrap();
    let guarded = wait::until("the guard", || status("/admin").filter(|status| *status != 404)).unwrap();
    assert_ne!(guarded, 200);
    until("/theirs", 200);
    for (number, broken) in ["a: [\n", "kind: \u{1}\n", "kind: Secret\napiVersion: v1\n"].iter().enumerate() {
        running.kill_chancery().unwrap();
        files.iter().for_each(|(name, _)| write_in(&running, "evil", name, broken));
        write_in(&running, "evil", "values.yaml", broken);
        running.start().unwrap();
        let path = format!("/edit{number}");
        write_in(&running, "own", "edit.yaml", &route("edit", &[(&path, "good")]));
        until(&path, 200);
        assert_eq!((status("/admin"), status("/theirs")), (Some(guarded), Some(200)), "{broken:?}");
    }
    drop(backend);
}

/// ConfigMaps that take long to read together.
fn config_maps(name: &str) -> String {
    let one = |at| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}-{at}}}\ndata: {{a: b}}\n---\n");
    (0..8_000).map(one).collect()
}
