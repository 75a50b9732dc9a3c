//! Authors with many directories, and with many ways to one: what others still get.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::file::shares::Shares;

/// A tree in which each directory is reached by two links from the one before: 2^n ways to the last.
fn ways(folder: &TempDir, count: usize) {
    for at in 0..count {
        let own = folder.path().join(format!("evil/d{at:02}"));
        fs::create_dir_all(&own).unwrap();
        for name in ["a", "b"] {
            symlink(format!("../d{:02}", at + 1), own.join(name)).unwrap();
        }
    }
    write(folder, &format!("evil/d{count:02}/x.yaml"), namespace("x", "1"));
}

fn within(most: usize, past: Past, folder: &TempDir) -> Watched {
    let (sender, batches) = sync_channel(4);
    let sink = move |batch| match sender.send(batch) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    };
    let roots = [folder.path().to_owned()];
    let watcher = follower::watch_within(Shares::of(most), (&roots, Links::WithinRoots), past, sink).unwrap();
    Watched { folder: folder.path().to_owned(), state: State::default(), batches, watcher, listed: false }
}

#[test]
fn a_directory_with_many_ways_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    ways(&folder, 24);
    write(&folder, "bank/y.yaml", namespace("y", "1"));
    let mut watched = Watched::folder(&folder);
    watched.until(|state| state.version("x") == Some("1") && state.version("y") == Some("1"));
    let notes = watched.state.all_problems();
    assert!(notes.contains("read as") && !notes.contains("twice"), "{notes}");
    write(&folder, "evil/d24/x.yaml", namespace("x", "2"));
    watched.until_version("x", "2");
    write(&folder, "bank/y.yaml", namespace("y", "2"));
    watched.until_version("y", "2");
}

#[test]
fn the_other_way_counts_when_the_first_one_goes() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    write(&elsewhere, "x.yaml", namespace("x", "1"));
    fs::create_dir(folder.path().join("own")).unwrap();
    for name in ["own/a", "own/b"] {
        symlink(elsewhere.path(), folder.path().join(name)).unwrap();
    }
    let mut watched = Watched::following_links(&folder, &[folder.path().to_owned()]);
    assert!(watched.state.objects["x"].contains("own/a"), "{:?}", watched.state);
    fs::remove_file(folder.path().join("own/a")).unwrap();
    watched.until_while(|state| state.objects["x"].contains("own/b"), |state| state.version("x").is_some());
    watched.until(|state| state.problems.is_empty());
    write(&elsewhere, "x.yaml", namespace("x", "2"));
    watched.until_version("x", "2");
}

#[test]
fn a_folder_of_many_directories_costs_others_none() {
    let folder = tempfile::tempdir().unwrap();
    for at in 0..100 {
        fs::create_dir_all(folder.path().join(format!("aaa/{at:03}"))).unwrap();
    }
    write(&folder, "aaa/099/x.yaml", namespace("x", "1"));
    write(&folder, "bank/y.yaml", namespace("y", "1"));
    let mut watched = within(64, Past::default(), &folder);
    watched.until(|state| state.version("y") == Some("1"));
    assert!(watched.state.all_problems().contains("64 directories"), "{:?}", watched.state);
    write(&folder, "bank/new/z.yaml", namespace("z", "1"));
    watched.until_version("z", "1");
    assert_eq!(watched.state.version("x"), None, "it is beyond");
    // Room comes.
    for at in 0..60 {
        fs::remove_dir(folder.path().join(format!("aaa/{at:03}"))).unwrap();
    }
    watched.until(|state| state.version("x") == Some("1") && state.problems.is_empty());
}

#[test]
fn what_is_beyond_keeps_what_it_gave_and_a_start_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder, "zoo/y.yaml", namespace("y", "1"));
    let mut watched = within(8, Past::default(), &folder);
    watched.until_version("y", "1");
    // Others take all places, and the folder comes back as another one.
    for at in 0..10 {
        fs::create_dir(folder.path().join(format!("a{at}"))).unwrap();
    }
    watched.until(|state| state.all_problems().contains("8 directories"));
    fs::rename(folder.path().join("zoo"), folder.path().join(".zoo")).unwrap();
    fs::create_dir(folder.path().join("azoo")).unwrap();
    watched.until(|state| state.version("y").is_none());
    fs::remove_dir(folder.path().join("azoo")).unwrap();
    fs::rename(folder.path().join(".zoo"), folder.path().join("zoo")).unwrap();
    watched.settle(&folder);
    drop(watched);
    // After a restart it is not read at first. Nothing is complete without it.
    let past = Past { served: true, ..Past::default() };
    let mut watched = within(8, past, &folder);
    while !watched.listed && watched.next(Duration::from_millis(300)).is_some() {}
    assert!(!watched.listed, "{:?}", watched.state);
    for at in 0..10 {
        fs::remove_dir(folder.path().join(format!("a{at}"))).unwrap();
    }
    watched.until_version("y", "1");
    while !watched.listed {
        watched.next(DEADLINE).unwrap();
    }
}
