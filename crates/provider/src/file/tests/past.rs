//! Starts after an earlier process: what is broken holds them up if something may be lost with it, and only then.

use std::os::unix::fs::PermissionsExt;

use super::following::Somebody;
use super::*;

const BROKEN: &str = "apiVersion: v1\nkind: [Namespace\n";

/// A folder, and the record of the processes that follow it one after the other.
struct Lives {
    folder: TempDir,
    state: TempDir,
}

impl Lives {
    fn new() -> Self {
        let (folder, state) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        write(&folder, "z.yaml", namespace("z", 1));
        Self { folder, state }
    }

    /// The next one begins.
    fn begin(&self, served: bool) -> Watched {
        let past = Past { served, record: Some(self.record()), ..Past::default() };
        Watched::after(past, &self.folder, &[self.folder.path().to_owned()])
    }

    fn record(&self) -> PathBuf {
        self.state.path().join("broken")
    }
}

impl Watched {
    /// It is held up, and says so at the place.
    #[track_caller]
    fn until_held(&mut self, place: &str) {
        let says = |problem: &str| {
            problem.starts_with(place)
                && problem.contains("what was served before the restart stays in force")
                && problem.contains("until this is mended or removed")
        };
        self.until(|state| state.all_problems().lines().any(says) && state.version("z").is_some());
        assert!(!self.listed, "{:?}", self.state);
    }

    #[track_caller]
    fn until_served(&mut self) {
        let end = Instant::now() + DEADLINE;
        while !self.listed {
            let left = end.saturating_duration_since(Instant::now());
            assert!(self.next(left).is_some(), "held up: {:?}", self.state);
        }
        assert!(!self.state.all_problems().contains("until this is mended"), "{:?}", self.state);
    }
}

#[test]
fn a_document_that_broke_while_nobody_looked_holds_up_the_start_until_it_is_mended() {
    let lives = Lives::new();
    write(&lives.folder, "a.yaml", join(&[namespace("a", 1), BROKEN.to_owned()]));
    let mut watched = lives.begin(true);
    watched.until_held("a.yaml:9:");
    // What else happens does not end it.
    write(&lives.folder, "z.yaml", namespace("z", 2));
    watched.until_version("z", "2");
    write(&lives.folder, "a.yaml", "kind: Namespace\nkind: Twice\n");
    watched.until_held("a.yaml:2:");
    assert!(!watched.listed);
    write(&lives.folder, "a.yaml", join(&[namespace("a", 1), namespace("b", 1)]));
    watched.until_served();
    assert_eq!(watched.state.version("b"), Some("1"));
}

#[test]
fn an_object_that_cannot_be_used_any_more_holds_up_the_start_and_is_named() {
    let lives = Lives::new();
    write(&lives.folder, "a.yaml", "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  labels: {version: 2}\n");
    let mut watched = lives.begin(true);
    watched.until_held("a.yaml:5:");
    assert!(watched.state.all_problems().contains("Namespace a"), "{:?}", watched.state);
    fs::remove_file(lives.folder.path().join("a.yaml")).unwrap();
    watched.until_served();
}

#[test]
fn a_first_start_is_held_up_by_nothing_and_neither_is_a_later_one_by_what_was_broken_then() {
    let lives = Lives::new();
    write(&lives.folder, "a.yaml", join(&[namespace("a", 1), BROKEN.to_owned()]));
    write(&lives.folder, "b.yaml", b"kind: Na\xff");
    lives.begin(false).until_served();
    let mut watched = lives.begin(true);
    watched.until_served();
    assert_eq!(watched.state.version("a"), Some("1"));
    drop(watched);
    // Another breakage of the same file is another matter, as far as the file gave anything.
    write(&lives.folder, "b.yaml", BROKEN);
    lives.begin(true).until_held("b.yaml:2:");
    write(&lives.folder, "b.yaml", b"kind: Na\xfe");
    lives.begin(true).until_served();
    write(&lives.folder, "a.yaml", b"kind: Na\xff");
    lives.begin(true).until_held("a.yaml:1:");
}

#[test]
fn what_gave_nothing_is_forgotten_once_it_gives_something() {
    let lives = Lives::new();
    write(&lives.folder, "a.yaml", BROKEN);
    let mut watched = lives.begin(false);
    watched.until_served();
    assert!(fs::read_to_string(lives.record()).unwrap().contains("/a.yaml"));
    write(&lives.folder, "a.yaml", namespace("a", 1));
    watched.until_version("a", "1");
    assert!(!lives.record().exists());
    // From here on it keeps what it gave, and the next process does not know what that is.
    write(&lives.folder, "a.yaml", BROKEN);
    watched.until(|state| state.all_problems().contains("stays in force"));
    write(&lives.folder, "c.yaml", BROKEN);
    watched.until(|state| state.problems.contains_key("c.yaml"));
    let recorded = fs::read_to_string(lives.record()).unwrap();
    assert!(!recorded.contains("/a.yaml") && recorded.contains("/c.yaml"), "{recorded}");
    drop(watched);
    let mut watched = lives.begin(true);
    watched.until_held("a.yaml:2:");
    assert!(fs::read_to_string(lives.record()).unwrap() == recorded, "a start that waits records nothing");
    fs::remove_file(lives.folder.path().join("a.yaml")).unwrap();
    watched.until_served();
}

#[test]
fn a_folder_or_file_without_permission_holds_up_the_start_until_it_may_be_read() {
    let somebody = Somebody::become_one();
    for closed in ["d", "d/a.yaml"] {
        let lives = Lives::new();
        write(&lives.folder, "d/a.yaml", namespace("a", 1));
        let chmod = |mode| {
            let path = lives.folder.path().join(closed);
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        chmod(0);
        let mut watched = lives.begin(true);
        watched.until_held(&format!("{closed}:1:"));
        chmod(0o755);
        watched.until_served();
        assert_eq!(watched.state.version("a"), Some("1"));
        drop(watched);
        chmod(0);
        lives.begin(true).until_held(&format!("{closed}:1:"));
        // As somebody finds it who starts for the first time.
        lives.begin(false).until_served();
        lives.begin(true).until_served();
        chmod(0o755);
    }
    drop(somebody);
}

#[test]
fn a_file_that_breaks_otherwise_while_it_holds_up_the_start_goes_on_doing_so() {
    let lives = Lives::new();
    write(&lives.folder, "a.yaml", join(&[namespace("a", 1), BROKEN.to_owned()]));
    let mut watched = lives.begin(true);
    watched.until_held("a.yaml:9:");
    write(&lives.folder, "a.yaml", b"kind: Na\xff");
    watched.until(|state| state.all_problems().contains("not UTF-8"));
    write(&lives.folder, "z.yaml", namespace("z", 2));
    watched.until_version("z", "2");
    assert!(!watched.listed);
    // Nothing is wrong with it any more.
    fs::remove_file(lives.folder.path().join("a.yaml")).unwrap();
    write(&lives.folder, "a.yaml", namespace("b", 1));
    watched.until_served();
    assert_eq!(watched.state.version("b"), Some("1"));
}
