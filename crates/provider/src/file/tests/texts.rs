//! Starts next to broken files of which it is known what they gave: these keep that, and hold up nobody.

use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;
use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;

use super::*;

const BROKEN: &str = "apiVersion: v1\nkind: [Namespace\n";
const SECRET: &str =
    "apiVersion: v1\nkind: Secret\nmetadata:\n  name: key\ntype: Opaque\nstringData:\n  word: c0nf1dent1al\n";
const USER: &str = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata:\n  name: edge\nspec:\n  gatewayClassName: any\n  listeners:\n  - name: https\n    port: 443\n    protocol: HTTPS\n    tls:\n      certificateRefs:\n      - name: key\n";

/// A folder, and what is kept of the processes that follow it one after the other.
struct Lives {
    folder: TempDir,
    state: TempDir,
    secrets: bool,
}

impl Lives {
    fn new() -> Self {
        let (folder, state) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        Self { folder, state, secrets: false }
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        write(&self.folder, name, text);
    }

    fn record(&self) -> PathBuf {
        self.state.path().join("texts")
    }

    /// The next one begins, after one that served.
    fn begin(&self) -> Watched {
        let texts = Some(TextFile { path: self.record(), secrets: self.secrets });
        let past = Past { served: true, record: Some(self.state.path().join("broken")), texts, ..Past::default() };
        Watched::after(past, &self.folder, &[self.folder.path().to_owned()])
    }

    #[track_caller]
    fn serve(&self) -> Watched {
        let mut watched = self.begin();
        watched.until_all_counts();
        watched
    }
}

impl Watched {
    #[track_caller]
    fn until_all_counts(&mut self) {
        let end = Instant::now() + DEADLINE;
        while !self.listed {
            let left = end.saturating_duration_since(Instant::now());
            assert!(self.next(left).is_some(), "held up: {:?}", self.state);
        }
    }

    #[track_caller]
    fn until_named_held(&mut self, place: &str) {
        self.until(|state| {
            let problems = state.problems.get(place).cloned().unwrap_or_default().join("\n");
            problems.contains("nothing else that changed counts")
        });
        assert!(!self.listed, "{:?}", self.state);
    }

    fn names(&self) -> Vec<&str> {
        self.state.objects.keys().map(String::as_str).collect()
    }
}

#[test]
fn file_that_breaks_before_a_restart_keeps_what_it_gave() {
    let lives = Lives::new();
    lives.write("a.yaml", namespace("a", 1));
    lives.write("evil/x.yaml", join(&[namespace("x", 1), namespace("y", 1)]));
    drop(lives.serve());
    for broken in [BROKEN.as_bytes(), b"kind: Na\xff", join(&[namespace("x", 2), BROKEN.to_owned()]).as_bytes()] {
        lives.write("evil/x.yaml", broken);
        lives.write("a.yaml", namespace("a", 2));
        let mut watched = lives.serve();
        assert_eq!(watched.names().into_iter().filter(|name| *name != "b").collect::<Vec<_>>(), ["a", "x", "y"]);
        assert_eq!(watched.state.version("a"), Some("2"));
        assert!(watched.state.all_problems().contains("stays in force"), "{:?}", watched.state);
        lives.write("b.yaml", namespace("b", 1));
        watched.until_version("b", "1");
    }
    // Also what it gave next to its broken document is kept.
    lives.write("evil/x.yaml", BROKEN);
    assert_eq!(lives.serve().state.version("x"), Some("2"));
    fs::remove_file(lives.folder.path().join("evil/x.yaml")).unwrap();
    assert_eq!(lives.serve().names(), ["a", "b"]);
    lives.write("evil/x.yaml", BROKEN);
    assert_eq!(lives.serve().names(), ["a", "b"]);
}

#[test]
fn new_file_that_is_broken_holds_up_no_start() {
    let lives = Lives::new();
    lives.write("a.yaml", namespace("a", 1));
    drop(lives.serve());
    lives.write("values.yaml", "image: a\nreplicas: 2\n");
    lives.write("broken.yaml", BROKEN);
    lives.write("named.yaml", "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  labels: {version: 2}\n");
    let mut watched = lives.serve();
    assert_eq!(watched.state.version("a"), Some("1"));
    lives.write("a.yaml", namespace("a", 2));
    watched.until_version("a", "2");
}

/// A user whom permissions bind, of this thread and those that it starts.
struct OtherUser(Uid);

impl OtherUser {
    fn become_one() -> Self {
        let before = geteuid();
        if before.is_root() {
            set_thread_res_uid(None, Uid::from_raw(65534), None).unwrap();
        }
        Self(before)
    }
}

impl Drop for OtherUser {
    fn drop(&mut self) {
        set_thread_res_uid(None, self.0, None).unwrap();
    }
}

#[test]
fn folder_without_permission_keeps_what_its_files_gave() {
    let other = OtherUser::become_one();
    let lives = Lives::new();
    lives.write("d/e/a.yaml", namespace("a", 1));
    lives.write("b.yaml", namespace("b", 1));
    drop(lives.serve());
    let chmod = |mode| fs::set_permissions(lives.folder.path().join("d"), fs::Permissions::from_mode(mode)).unwrap();
    chmod(0);
    drop(lives.serve());
    let mut watched = lives.serve();
    assert_eq!(watched.names(), ["a", "b"]);
    chmod(0o755);
    lives.write("d/e/a.yaml", namespace("a", 2));
    watched.until_version("a", "2");
    drop((lives, watched));
    drop(other);
}

#[test]
fn secret_that_is_not_kept_holds_up_the_start_where_it_is_used() {
    let mut lives = Lives::new();
    lives.write("a.yaml", namespace("a", 1));
    lives.write("key.yaml", join(&[SECRET.to_owned(), namespace("b", 1)]));
    drop(lives.serve());
    assert!(!fs::read_to_string(lives.record()).unwrap().contains("c0nf1dent1al"));
    lives.write("key.yaml", BROKEN);
    // Nothing refers to it.
    let mut watched = lives.serve();
    assert_eq!(watched.names(), ["a", "b"]);
    lives.write("key.yaml", SECRET);
    watched.until(|state| state.objects.contains_key("Secret key"));
    lives.write("user.yaml", USER);
    watched.until(|state| state.objects.contains_key("Gateway edge"));
    drop(watched);
    for broken in [BROKEN.as_bytes(), b"kind: Na\xff"] {
        lives.write("key.yaml", broken);
        lives.begin().until_named_held("key.yaml");
        // It is not forgotten meanwhile.
        let mut watched = lives.begin();
        watched.until_named_held("key.yaml");
        lives.write("key.yaml", SECRET);
        watched.until_all_counts();
    }
    lives.secrets = true;
    drop(lives.serve());
    lives.write("key.yaml", BROKEN);
    assert_eq!(lives.serve().names(), ["Gateway edge", "Secret key", "a"]);
    assert!(fs::read_to_string(lives.record()).unwrap().contains("c0nf1dent1al"));
    lives.secrets = false;
    lives.begin().until_named_held("key.yaml");
    assert!(!lives.record().exists());
    lives.write("key.yaml", SECRET);
    drop(lives.serve());
    assert!(!fs::read_to_string(lives.record()).unwrap().contains("c0nf1dent1al"));
}

#[test]
fn record_that_is_damaged_or_gone_holds_up_the_start() {
    let lives = Lives::new();
    lives.write("a.yaml", namespace("a", 1));
    lives.write("b.yaml", namespace("b", 1));
    drop(lives.serve());
    let whole = fs::read(lives.record()).unwrap();
    for at in (0..whole.len()).step_by(7) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(lives.record(), damaged).unwrap();
        lives.write("a.yaml", BROKEN);
        let mut watched = lives.begin();
        // Held up, or whole where the damage is in a text of another file.
        watched.until(|state| state.problems.contains_key("a.yaml") && state.version("b").is_some());
        assert!(!watched.listed || watched.state.version("a") == Some("1"), "{at}: {:?}", watched.state);
        drop(watched);
    }
    for torn in [0, 1, 30] {
        fs::write(lives.record(), &whole[..torn]).unwrap();
        lives.begin().until_named_held("a.yaml");
    }
    fs::remove_file(lives.record()).unwrap();
    lives.begin().until_named_held("a.yaml");
    lives.begin().until_named_held("a.yaml");
    assert!(!lives.record().exists(), "a start that waits leaves no whole record");
}

/// Names of namespaces; 0 is a broken document, 9 a file that is no text.
type Content = Vec<u8>;

#[derive(Debug, Clone)]
enum Step {
    Write(usize, Content),
    Remove(usize),
    /// With what happened while no process looked.
    Restart(Vec<(usize, Content)>),
}

const FILES: [&str; 3] = ["a/a.yaml", "b/b.yaml", "c.yaml"];

fn step() -> impl Strategy<Value = Step> {
    let content = || prop::collection::vec(0..10u8, 1..4);
    let write = || (0..FILES.len(), content());
    prop_oneof![
        5 => write().prop_map(|(at, content)| Step::Write(at, content)),
        1 => (0..FILES.len()).prop_map(Step::Remove),
        3 => prop::collection::vec(write(), 0..3).prop_map(Step::Restart),
    ]
}

/// Each file has names of its own: which of two that are written twice counts is another matter.
fn text(at: usize, content: &Content, version: usize) -> Vec<u8> {
    if content.contains(&9) {
        return b"kind: \xff".to_vec();
    }
    let document = |name: &u8| match name {
        0 => "broken: [\n".to_owned(),
        name => namespace(&format!("n{at}{name}"), version),
    };
    join(&content.iter().map(document).collect::<Vec<_>>()).into_bytes()
}

fn is_broken(content: &Content) -> bool {
    content.contains(&0) || content.contains(&9)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// One process that goes on, and one that is started again at each restart, see the same files: the second one lacks nothing that the first has.
    #[test]
    fn restarts_change_nothing_of_what_counts(steps in prop::collection::vec(step(), 1..20)) {
        let lives = Lives::new();
        for folder in ["a", "b"] {
            fs::create_dir(lives.folder.path().join(folder)).unwrap();
        }
        let mut restarted = lives.serve();
        let mut version = 0;
        for step in &steps {
            version += 1;
            match step {
                Step::Write(at, content) => replace(&lives.folder, FILES[*at], text(*at, content, version)),
                Step::Remove(at) => drop(fs::remove_file(lives.folder.path().join(FILES[*at]))),
                Step::Restart(writes) => {
                    let is_there = |place: &String| lives.folder.path().join(place.split([' ', ':']).nth(1).unwrap()).exists();
                    settle(&lives, &mut restarted, version);
                    // A removed file is believed a moment later.
                    restarted.until(|state| state.objects.values().all(is_there));
                    let before = restarted.state.clone();
                    drop(restarted);
                    for (at, content) in writes {
                        replace(&lives.folder, FILES[*at], text(*at, content, version));
                    }
                    restarted = lives.serve();
                    // What a file gave that is broken now is there, whatever was written elsewhere.
                    let last: BTreeMap<usize, &Content> = writes.iter().map(|(at, content)| (*at, content)).collect();
                    for (name, place) in &before.objects {
                        let file = FILES.iter().position(|file| place.contains(file));
                        let is_there = |at: usize| lives.folder.path().join(FILES[at]).exists();
                        let keeps = |at: usize| is_there(at) && last.get(&at).is_none_or(|content| is_broken(content));
                        let stays = file.is_none_or(keeps);
                        prop_assert!(!stays || restarted.state.objects.contains_key(name), "{name} of {before:#?} in {:#?}", restarted.state);
                    }
                    if writes.is_empty() {
                        let versions = |state: &State| state.objects.keys().map(|name| (name.clone(), state.version(name).map(str::to_owned))).collect::<Vec<_>>();
                        prop_assert_eq!(versions(&before), versions(&restarted.state));
                    }
                }
            }
        }
        settle(&lives, &mut restarted, usize::MAX);
    }
}

/// Edits of another file count.
fn settle(lives: &Lives, watched: &mut Watched, version: usize) -> State {
    replace(&lives.folder, "settle.yaml", namespace("settle", version));
    let version = version.to_string();
    watched.until(|state| state.version("settle") == Some(&version));
    watched.state.clone()
}
