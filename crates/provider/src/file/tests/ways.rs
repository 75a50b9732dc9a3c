//! Several ways to one directory: the first one is taken, in whatever order and in however many parts changes are noticed.

use std::os::unix::fs::symlink;
use std::sync::mpsc::channel;

use super::*;

/// A folder with a directory that links of the folder `d` lead to.
fn prepared() -> TempDir {
    let folder = TempDir::new().unwrap();
    for directory in ["d/e", "d/p", "x"] {
        fs::create_dir_all(folder.path().join(directory)).unwrap();
    }
    write(&folder, "x/a.yaml", namespace("a", 1));
    folder
}

/// A step at the folder.
type Step = fn(&Path);

fn link(folder: &Path, name: &str, to: &str) {
    symlink(folder.join(to), folder.join(name)).unwrap();
}

fn rename(folder: &Path, from: &str, to: &str) {
    fs::rename(folder.join(from), folder.join(to)).unwrap();
}

/// Takes steps, and compares with a fresh load after them.
fn ends_as_a_fresh_load(before: Step, steps: &[Step], at_once: bool) {
    let folder = prepared();
    before(folder.path());
    let (sender, batches) = sync_channel(4);
    let (open, gate) = channel::<()>();
    let sink = move |batch| {
        let flow = if sender.send(batch).is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
        // The watcher waits here, and notices together what happens meanwhile, until the other end is dropped.
        let _ = gate.recv();
        flow
    };
    let root = [folder.path().to_owned()];
    let watcher = watch((&root, Links::WithinRoots), Past::default(), sink).unwrap();
    let state = State::default();
    let mut watched = Watched { folder: folder.path().to_owned(), state, batches, watcher, listed: false };
    assert!(watched.next(DEADLINE).expect("the first listing"), "the first batch is the complete listing");
    let mut open = Some(open);
    for (at, step) in steps.iter().enumerate() {
        if !at_once {
            open = None;
            let name = format!("settled{at}");
            write(&folder, &format!("{name}.yaml"), namespace(&name, 1));
            watched.until(|state| state.version(&name).is_some());
        }
        step(folder.path());
    }
    drop(open);
    watched.until(|state| *state == State::of(folder.path(), &root));
    watched.settle(&folder);
    let fresh = State::of(folder.path(), &root);
    assert!(!fresh.problems.is_empty(), "{fresh:?}");
    watched.until(|state| *state == fresh);
}

fn ends_so_in_any_parts(before: Step, steps: &[Step]) {
    for at_once in [true, false] {
        ends_as_a_fresh_load(before, steps, at_once);
    }
}

#[test]
fn directory_precedes_the_link_in_its_former_place() {
    ends_so_in_any_parts(
        |folder| link(folder, "l", "d/l"),
        &[|folder| rename(folder, "d/e", "d/l"), |folder| rename(folder, "l", "d/e")],
    );
}

#[test]
fn link_that_comes_later_precedes_by_its_name() {
    ends_so_in_any_parts(|folder| link(folder, "d/l", "x"), &[|folder| link(folder, "d/k", "x")]);
}

#[test]
fn way_that_leads_over_a_link_by_now_comes_later() {
    ends_so_in_any_parts(
        |folder| {
            link(folder, "d/e/k", "x");
            fs::create_dir(folder.join("d/n")).unwrap();
            link(folder, "d/n/k", "x");
        },
        &[|folder| rename(folder, "d/e", "y"), |folder| link(folder, "d/e", "y")],
    );
}

#[test]
fn note_names_the_way_that_is_taken_now() {
    ends_so_in_any_parts(
        |folder| {
            link(folder, "d/p/b", "x");
            link(folder, "d/z", "x");
        },
        &[
            |folder| rename(folder, "d/p", "d/.p"),
            |folder| rename(folder, "d/.p/b", "d/.p/c"),
            |folder| rename(folder, "d/.p", "d/p"),
        ],
    );
}

#[test]
fn another_way_is_taken_at_once_without_any_further_event() {
    // The directories above it are watched too, and much is written in the usual place of such folders.
    let folder = TempDir::new_in("/var/tmp").or_else(|_| TempDir::new()).unwrap();
    for directory in ["d", "x"] {
        fs::create_dir(folder.path().join(directory)).unwrap();
    }
    for name in ["d/b", "d/l"] {
        link(folder.path(), name, "x");
    }
    let mut watched = Watched::folder(&folder);
    assert_eq!(watched.state.problems.keys().collect::<Vec<_>>(), ["d/l"]);
    // Nothing vanishes with it, so that nothing is waited for.
    fs::remove_file(folder.path().join("d/b")).unwrap();
    watched.until(|state| state.problems.is_empty());
}
