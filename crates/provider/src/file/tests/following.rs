//! Following changes: every way in which a file comes, changes and goes.

use std::os::unix::fs::{PermissionsExt, symlink};

use nix::unistd::{Uid, geteuid, setfsuid};

use super::*;

#[test]
fn a_file_written_in_place_counts_when_it_is_closed() {
    use std::io::Write;
    let folder = TempDir::new().unwrap();
    write(&folder, "a.yaml", namespace("a", 1));
    let mut watched = Watched::folder(&folder);
    let mut file = fs::File::create(folder.path().join("a.yaml")).unwrap();
    file.write_all(namespace("a", 2).as_bytes()).unwrap();
    file.flush().unwrap();
    // While the file is open, the old object stays, whatever else happens.
    watched.settle(&folder);
    assert_eq!(watched.state.version("a"), Some("1"));
    drop(file);
    watched.until_version("a", "2");
}

#[test]
fn a_file_renamed_into_place_counts_at_once() {
    let folder = TempDir::new().unwrap();
    write(&folder, "a.yaml", namespace("a", 1));
    let mut watched = Watched::folder(&folder);
    for version in 2..50 {
        replace(&folder, "a.yaml", namespace("a", version));
        let version = version.to_string();
        watched.until_while(|state| state.version("a") == Some(&version), |state| state.objects.len() == 1);
    }
}

#[test]
fn objects_stay_in_force_while_a_file_is_moved() {
    let folder = TempDir::new().unwrap();
    write(&folder, "a.yaml", namespace("a", 1));
    let mut watched = Watched::folder(&folder);
    for (from, to) in [("a.yaml", "b.yaml"), ("b.yaml", "A.yaml"), ("A.yaml", "d/c.yaml"), ("d", "e")] {
        fs::create_dir_all(folder.path().join("d")).unwrap();
        fs::rename(folder.path().join(from), folder.path().join(to)).unwrap();
        let place = if to == "e" { "1 e/c.yaml:1".to_owned() } else { format!("1 {to}:1") };
        watched.until_while(|state| state.objects["a"] == place, |state| state.objects.contains_key("a"));
        assert_eq!(watched.state.problems.len(), 0);
    }
}

#[test]
fn objects_stay_in_force_while_an_editor_writes_a_backup_first_or_git_removes_the_file_first() {
    let folder = TempDir::new().unwrap();
    write(&folder, "a.yaml", namespace("a", 0));
    let mut watched = Watched::folder(&folder);
    for version in 1..40 {
        if version % 2 == 0 {
            fs::rename(folder.path().join("a.yaml"), folder.path().join("a.yaml~")).unwrap();
        } else {
            fs::remove_file(folder.path().join("a.yaml")).unwrap();
        }
        write(&folder, "a.yaml", namespace("a", version));
        let version = version.to_string();
        watched.until_while(|state| state.version("a") == Some(&version), |state| state.objects.contains_key("a"));
    }
}

#[test]
fn a_deleted_file_takes_its_objects_along_and_one_renamed_to_a_backup_too() {
    let folder = TempDir::new().unwrap();
    write(&folder, "a.yaml", namespace("a", 1));
    write(&folder, "b.yaml", namespace("b", 1));
    write(&folder, "deep/er/c.yaml", namespace("c", 1));
    let mut watched = Watched::folder(&folder);
    fs::remove_file(folder.path().join("a.yaml")).unwrap();
    fs::rename(folder.path().join("b.yaml"), folder.path().join("b.yaml.bak")).unwrap();
    fs::remove_dir_all(folder.path().join("deep")).unwrap();
    watched.until(|state| state.objects.is_empty());
}

#[test]
fn an_empty_file_gives_nothing() {
    let folder = TempDir::new().unwrap();
    write(&folder, "a.yaml", namespace("a", 1));
    let mut watched = Watched::folder(&folder);
    write(&folder, "a.yaml", "");
    watched.until(|state| state.objects.is_empty());
}

#[test]
fn when_the_first_of_two_equal_identities_goes_the_second_takes_over() {
    let folder = TempDir::new().unwrap();
    write(&folder, "a.yaml", namespace("same", "a"));
    write(&folder, "b.yaml", namespace("same", "b"));
    let mut watched = Watched::folder(&folder);
    assert_eq!(watched.state.version("same"), Some("a"));
    // The line of the winner moves, and the problem with it.
    write(&folder, "a.yaml", format!("# one\n# two\n---\n{}", namespace("same", "a")));
    watched.until(|state| state.all_problems().contains("a.yaml:4 comes first"));
    fs::remove_file(folder.path().join("a.yaml")).unwrap();
    watched.until_while(|state| state.version("same") == Some("b"), |state| state.objects.contains_key("same"));
    watched.until(|state| state.problems.is_empty());
    write(&folder, "a.yaml", namespace("same", "a2"));
    watched.until_version("same", "a2");
    assert_eq!(watched.state.problems.keys().collect::<Vec<_>>(), ["b.yaml"]);
}

#[test]
fn new_directories_are_followed_however_fast_they_fill() {
    let folder = TempDir::new().unwrap();
    let mut watched = Watched::folder(&folder);
    for number in 0..100 {
        write(&folder, &format!("d{number}/e/f/{number}.yaml"), namespace(&format!("n{number}"), 1));
    }
    watched.until(|state| state.objects.len() == 100);
    fs::rename(folder.path().join("d0"), folder.path().join("moved")).unwrap();
    write(&folder, "moved/e/f/0.yaml", namespace("n0", 2));
    watched.until(|state| state.objects["n0"] == "2 moved/e/f/0.yaml:1");
}

#[test]
fn only_the_documents_that_changed_are_reported_as_changed() {
    let folder = TempDir::new().unwrap();
    let mut documents: Vec<String> = (0..100).map(|number| namespace(&format!("n{number}"), 1)).collect();
    write(&folder, "a.yaml", join(&documents));
    let watched = Watched::folder(&folder);
    documents[50] = namespace("n50", 2);
    replace(&folder, "a.yaml", join(&documents));
    let batch = watched.batches.recv_timeout(DEADLINE).unwrap();
    let names: Vec<String> = batch
        .changes
        .iter()
        .map(|change| match change {
            Change::Apply(object, _) => object.key().name().to_owned(),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(names, ["n50"]);
}

#[test]
fn a_root_that_vanishes_keeps_its_objects_and_is_read_again_when_it_comes_back() {
    let folder = TempDir::new().unwrap();
    write(&folder, "up/root/d/a.yaml", namespace("a", 1));
    write(&folder, "up/root/d/b.yaml", namespace("b", 1));
    let mut watched = Watched::roots(&folder, &[folder.path().join("up/root")]);
    for gone in ["up/root", "up"] {
        fs::rename(folder.path().join(gone), folder.path().join("aside")).unwrap();
        watched.until_while(|state| !state.problems.is_empty(), |state| state.objects.len() == 2);
        let problems = watched.state.all_problems();
        assert!(problems.contains("up/root:1:1: error: no such file or directory; what was read there"), "{problems}");
        fs::remove_dir_all(folder.path().join("aside")).unwrap();
        write(&folder, "up/root/d/a.yaml", namespace("a", format!("after {gone}").replace(' ', "-")));
        watched.until(|state| state.version("a").is_some_and(|version| version.ends_with(gone)));
        watched.until(|state| state.problems.is_empty() && !state.objects.contains_key("b"));
        write(&folder, "up/root/d/b.yaml", namespace("b", 1));
        watched.until_version("b", "1");
    }
}

#[test]
fn a_root_that_is_not_there_at_first_is_read_when_it_comes_and_nothing_is_listed_before_that() {
    let folder = TempDir::new().unwrap();
    let roots = ["there", "later/on", "file.txt"].map(|name| folder.path().join(name));
    write(&folder, "there/c.yaml", namespace("c", 1));
    let mut watched = Watched::begin(&folder, &roots);
    watched.until(|state| state.problems.len() == 2 && state.version("c").is_some());
    assert!(watched.state.all_problems().contains("later/on:1:1: error: no such file or directory; waiting for it"));
    write(&folder, "there/c.yaml", namespace("c", 2));
    watched.until_version("c", "2");
    write(&folder, "later/on/a.yaml", namespace("a", 1));
    watched.until_version("a", "1");
    assert!(!watched.listed, "the file was not read yet");
    write(&folder, "file.txt", namespace("b", 1));
    watched.until_version("b", "1");
    watched.until(|state| state.problems.is_empty());
    assert!(watched.listed);
    replace(&folder, "file.txt", namespace("b", 2));
    watched.until_version("b", "2");
    assert!(watched.listed);
}

#[test]
fn an_empty_root_is_listed() {
    let folder = TempDir::new().unwrap();
    let watched = Watched::folder(&folder);
    assert!(watched.listed && watched.state == State::default());
}

#[test]
fn a_root_whose_links_lead_in_a_circle_waits_like_one_that_is_not_there() {
    let folder = TempDir::new().unwrap();
    write(&folder, "v1/a.yaml", namespace("a", 1));
    let root = folder.path().join("root");
    symlink("root", &root).unwrap();
    let mut watched = Watched::begin(&folder, &[root]);
    watched.until(|state| state.all_problems().contains("waiting for it"));
    assert!(!watched.listed);
    symlink("v1", folder.path().join("new")).unwrap();
    fs::rename(folder.path().join("new"), folder.path().join("root")).unwrap();
    watched.until_version("a", "1");
    assert!(watched.listed);
}

#[test]
fn a_root_that_is_a_link_to_another_one_may_lead_elsewhere_later() {
    for roots in [["current", "v1"], ["v1", "current"]] {
        let folder = TempDir::new().unwrap();
        write(&folder, "v1/a.yaml", namespace("a", 1));
        write(&folder, "v2/b.yaml", namespace("b", 1));
        symlink("v1", folder.path().join("current")).unwrap();
        let mut watched = Watched::begin(&folder, &roots.map(|root| folder.path().join(root)));
        watched.until_version("a", "1");
        symlink("v2", folder.path().join("next")).unwrap();
        fs::rename(folder.path().join("next"), folder.path().join("current")).unwrap();
        watched.until_version("b", "1");
        assert_eq!(watched.state.version("a"), Some("1"));
        write(&folder, "v1/a.yaml", namespace("a", 2));
        watched.until_version("a", "2");
    }
}

#[test]
fn a_root_that_is_no_text_holds_up_nothing_else() {
    let folder = TempDir::new().unwrap();
    write(&folder, "root/a.yaml", namespace("a", 1));
    write(&folder, "odd.yaml", [b'a', 0xff]);
    let mut watched = Watched::begin(&folder, &[folder.path().join("root"), folder.path().join("odd.yaml")]);
    watched.until(|state| state.all_problems().contains("UTF-8"));
    watched.until_version("a", "1");
    assert!(watched.listed);
}

#[test]
fn a_root_that_may_not_be_read_at_first_is_read_once_it_may() {
    let somebody = Somebody::become_one();
    for closed in ["up/root", "up"] {
        let folder = TempDir::new().unwrap();
        write(&folder, "up/root/a.yaml", namespace("a", 1));
        let chmod = |mode| fs::set_permissions(folder.path().join(closed), fs::Permissions::from_mode(mode)).unwrap();
        chmod(0);
        let mut watched = Watched::begin(&folder, &[folder.path().join("up/root")]);
        watched.until(|state| state.all_problems().contains("waiting for it"));
        assert!(!watched.listed);
        // May be entered, but not watched: what comes to be in it is no event.
        chmod(0o311);
        if closed == "up/root" {
            chmod(0o755);
        }
        watched.until_version("a", "1");
        assert!(watched.listed);
        chmod(0o755);
        write(&folder, "up/root/a.yaml", namespace("a", 2));
        watched.until_version("a", "2");
    }
    drop(somebody);
}

/// Files are those of a user whom permissions concern, for this thread and those that it starts.
pub(super) struct Somebody(Uid);

impl Somebody {
    pub(super) fn become_one() -> Self {
        let nobody = Uid::from_raw(65534);
        Self(if geteuid().is_root() { setfsuid(nobody) } else { geteuid() })
    }
}

impl Drop for Somebody {
    fn drop(&mut self) {
        setfsuid(self.0);
    }
}

#[test]
fn files_linked_into_place_count() {
    let folder = TempDir::new().unwrap();
    write(&folder, ".a", namespace("a", 1));
    let mut watched = Watched::folder(&folder);
    fs::hard_link(folder.path().join(".a"), folder.path().join("a.yaml")).unwrap();
    watched.until_version("a", "1");
}

#[test]
fn nothing_is_lost_when_the_receiver_is_slow_and_the_kernel_drops_events() {
    let folder = TempDir::new().unwrap();
    let limit: usize = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    let (sender, batches) = sync_channel(0);
    let sink = move |batch| if sender.send(batch).is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
    let watcher = watch((&[folder.path().to_owned()], Links::WithinRoots), Past::default(), sink).unwrap();
    let mut watched =
        Watched { folder: folder.path().to_owned(), state: State::default(), batches, watcher, listed: false };
    // Nobody takes the first batch, so that nobody takes events from the kernel's queue either.
    for number in 0..=limit / 2 {
        write(&folder, ["a.yaml", "b.yaml"][number % 2], namespace(["a", "b"][number % 2], number));
    }
    write(&folder, "late.yaml", namespace("late", 1));
    fs::create_dir(folder.path().join("d")).unwrap();
    watched.until_version("late", "1");
    watched.until(|state| *state == State::of(folder.path(), &[folder.path().to_owned()]));
    write(&folder, "d/c.yaml", namespace("c", 1));
    watched.until_version("c", "1");
}

#[test]
fn a_watcher_ends_when_it_is_stopped_and_when_nobody_listens() {
    let folder = TempDir::new().unwrap();
    let watched = Watched::folder(&folder);
    watched.watcher.stop().unwrap();
    let watched = Watched::folder(&folder);
    drop(watched.batches);
    write(&folder, "a.yaml", namespace("a", 1));
    watched.watcher.join().unwrap();
}

#[test]
fn dropping_a_watcher_does_not_wait_for_a_receiver_that_does_not_receive() {
    let folder = TempDir::new().unwrap();
    let (sender, batches) = sync_channel(0);
    let sink = move |batch| if sender.send(batch).is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
    drop(watch((&[folder.path().to_owned()], Links::WithinRoots), Past::default(), sink).unwrap());
    assert!(batches.recv_timeout(DEADLINE).is_ok());
    assert!(matches!(batches.recv_timeout(DEADLINE), Err(RecvTimeoutError::Disconnected)), "the thread ended");
}

#[test]
fn edits_in_place_one_upon_the_other_never_show_an_empty_or_half_file() {
    let folder = TempDir::new().unwrap();
    let documents = |version: u32| join(&["a", "b", "c"].map(|name| namespace(name, version)));
    write(&folder, "a.yaml", documents(0));
    let mut watched = Watched::folder(&folder);
    for version in 1..=1_000 {
        write(&folder, "a.yaml", documents(version));
    }
    watched.until_while(
        |state| ["a", "b", "c"].iter().all(|name| state.version(name) == Some("1000")),
        |state| state.objects.len() == 3 && state.problems.is_empty(),
    );
}
