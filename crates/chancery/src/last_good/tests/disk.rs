//! A disk that is full in truth: a small one of the test's own, and, for machines that allow none, files that may not grow. The test runs
//! once more, in a process that has it. A client acknowledges what is published, so that changes are saved as they are in earnest.

use std::process::Command;
use std::time::Instant;

use rustix::process::{Resource as Bound, Rlimit, getrlimit, setrlimit};
use xds::client::connect::{self, Plain, User};
use xds::client::{Cache, Client, ClientNode, Config, Event, Offer};

use super::*;

/// Set in the process that has such a disk: its folder.
const INSIDE: &str = "CHANCERY_TEST_DISK";

const DEADLINE: Duration = Duration::from_secs(60);

/// A body that no free rest of a block takes in.
const LARGE: usize = 64 << 10;

#[test]
fn a_full_disk_costs_nothing_is_told_and_is_written_to_once_there_is_room() {
    let mount = r#"mount -t tmpfs -o size=1m,mode=700 none "$0" && exec "$@""#;
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "--", "sh", "-c", mount]);
    let test = "a_full_disk_costs_nothing_is_told_and_is_written_to_once_there_is_room";
    run(test, command, &Disk::Small);
}

#[test]
fn files_that_may_not_grow_cost_nothing_are_told_and_grow_once_they_may() {
    let mut command = Command::new("sh");
    command.args(["-c", r#"trap "" XFSZ; exec "$@""#]);
    run("files_that_may_not_grow_cost_nothing_are_told_and_grow_once_they_may", command, &Disk::Limited);
}

/// How a disk becomes full.
enum Disk {
    /// By a file beside.
    Small,
    /// By a bound on the length of every file (setrlimit(2)).
    Limited,
}

impl Disk {
    fn fill(&self, state: &Path, journal: &Path) {
        match self {
            Self::Small => {
                let mut ballast = std::fs::File::create(state.join("ballast")).expect("a file");
                while std::io::Write::write_all(&mut ballast, &[0; 4096]).is_ok() {}
            }
            Self::Limited => limit(Some(journal.metadata().expect("a file").len() + 100)),
        }
    }

    fn free(&self, state: &Path) {
        match self {
            Self::Small => std::fs::remove_file(state.join("ballast")).expect("removed"),
            Self::Limited => limit(getrlimit(Bound::Fsize).maximum),
        }
    }
}

fn limit(current: Option<u64>) {
    setrlimit(Bound::Fsize, Rlimit { current, ..getrlimit(Bound::Fsize) }).expect("a limit");
}

/// Runs a test of this file once more in a process that `command` starts, after the name of a folder.
fn run(test: &str, mut command: Command, disk: &Disk) {
    if let Some(state) = std::env::var_os(INSIDE) {
        return costs_nothing(disk, Path::new(&state));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let name = format!("{}::{test}", module_path!().split_once("::").expect("a module").1);
    command.arg(folder.path()).arg(std::env::current_exe().expect("a program"));
    let ran = command.args([&*name, "--exact", "--nocapture"]).env(INSIDE, folder.path()).output();
    let ran = ran.expect("sh, and unshare of util-linux");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    if said.contains("unshare failed") || said.starts_with("mount: ") {
        std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{test}: not run: {said}")).expect("said");
        return;
    }
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}

/// Takes everything.
struct Fine;

impl User for Fine {
    fn judge(&mut self, _: &Offer<'_>) -> Result<(), String> {
        Ok(())
    }

    fn told(&mut self, _: &Cache, _: Event) {}
}

fn costs_nothing(disk: &Disk, state: &Path) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let (events, mut seen) = mpsc::channel(64);
    let server = Server::start(runtime.handle(), events);
    runtime.spawn(async move { while seen.recv().await.is_some() {} });
    let (files, found) = LastGood::open(state, false);
    let journal = files.folder.join(file::file_name(FLEET));
    restore(&server, found, false);
    let (inputs, mut told) = mpsc::channel(64);
    let (stop, (end, ended)) = (CancellationToken::new(), oneshot::channel());
    runtime.spawn(keep((server.clone(), files), inputs, stop.clone(), end));
    let socket = state.join("xds.sock");
    server.listen_unix(&socket, FLEET.into(), None).expect("a socket");
    let (commands, taken) = mpsc::channel(4);
    let client = Client::new(Config::new(ClientNode::default(), vec![format!("unix:{}", socket.display()).into()], 1));
    runtime.spawn(async move { connect::run(client, &Plain, &mut Fine, taken).await });
    let names = vec!["a".into(), "b".into()];
    commands.blocking_send(connect::Command::Subscribe(TypeUrl::Runtime, names)).expect("a client");

    let put = |name: &str, version: u8| {
        let body = format!("{name} {version}{}", "x".repeat(LARGE));
        Resources::Put(Resource::new(TypeUrl::Runtime, name, Version(version.into()), [body.into()]).into())
    };
    let publish = |changes| server.publish(vec![FleetUpdate { fleet: FLEET.into(), changes }]);
    publish(vec![put("a", 1), put("b", 1)]);
    until("both to be saved", || holds(&journal, &["a 1", "b 1"]) == Some(2));

    disk.fill(state, &journal);
    publish(vec![put("a", 2)]);
    let problem = problem_of(&mut told).expect("a problem");
    assert!(problem.contains("cannot be saved: ") && problem.contains("make room there"), "{problem}");
    publish(vec![put("a", 3), Resources::Remove { type_url: TypeUrl::Runtime, name: "b".into() }]);
    assert_eq!(holds(&journal, &["a 1", "b 1"]), Some(2), "what was saved is as it was");

    disk.free(state);
    assert_eq!(problem_of(&mut told), None, "it is over");
    until("the last state to be saved", || holds(&journal, &["a 3"]) == Some(1));
    stop.cancel();
    assert!(ended.blocking_recv().is_err(), "it ends");
    let (_, found) = LastGood::open(state, false);
    assert_eq!((found.problems.len(), found.fleets.len()), (0, 1));
}

/// How many resources a file holds that is whole, with these words in it.
fn holds(journal: &Path, words: &[&str]) -> Option<usize> {
    let bytes = std::fs::read(journal).ok()?;
    let has = |word: &&str| bytes.windows(word.len()).any(|part| part == word.as_bytes());
    let all = words.iter().all(has);
    let length = bytes.len();
    let saved = SavedFleet::read(&bytes.into()).expect("no damage");
    (all && saved.intact() == length).then(|| saved.len())
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < DEADLINE, "waited for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The next word of the core: the problem, or that there is none.
fn problem_of(told: &mut mpsc::Receiver<Input>) -> Option<String> {
    let Some(Input::Batch(batch)) = told.blocking_recv() else { panic!("a batch") };
    let [Change::Problems { problems, .. }] = &batch.changes[..] else { panic!("problems") };
    problems.first().map(ToString::to_string)
}
