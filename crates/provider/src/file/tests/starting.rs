//! The first reading: nothing is `listed` before all that was found has been read, whatever happens to it meanwhile.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};

use super::following::Somebody;
use super::*;

/// So many files that the first ones are handed on before the last ones are read.
fn many(folder: &TempDir) {
    for number in 0..200 {
        write(folder, &format!("a{number}.yaml"), namespace(&format!("a{number}"), 1));
    }
    write(folder, "z.yaml", namespace("z", 1));
}

/// Follows a folder; when the first files are handed on, and later ones not read yet, something happens to it.
fn follow(folder: &TempDir, mut happens: impl FnMut() + Send + 'static) -> Watched {
    let (sender, batches) = sync_channel(4);
    let mut is_first = true;
    let sink = move |batch: Batch| {
        if std::mem::take(&mut is_first) {
            assert!(!batch.listed, "there are too few files for two batches");
            happens();
        }
        match sender.send(batch) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    };
    let watcher = watch((&[folder.path().to_owned()], Links::WithinRoots), Past::default(), sink).unwrap();
    Watched { folder: folder.path().to_owned(), state: State::default(), batches, watcher, listed: false }
}

impl Watched {
    #[track_caller]
    fn until_listed(&mut self) {
        let end = Instant::now() + DEADLINE;
        while !self.listed {
            let left = end.saturating_duration_since(Instant::now());
            assert!(self.next(left).is_some(), "never listed");
        }
    }
}

#[test]
fn a_file_that_is_replaced_during_the_first_reading_is_waited_for() {
    let folder = TempDir::new().unwrap();
    many(&folder);
    let path = folder.path().to_owned();
    let replace = move || {
        fs::write(path.join(".new"), namespace("z", 2)).unwrap();
        fs::rename(path.join(".new"), path.join("z.yaml")).unwrap();
    };
    let mut watched = follow(&folder, replace);
    watched.until_listed();
    assert_eq!((watched.state.version("z"), watched.state.objects.len()), (Some("2"), 201));
}

#[test]
fn a_file_that_is_written_in_place_during_the_first_reading_is_waited_for() {
    use std::io::Write;
    let folder = TempDir::new().unwrap();
    many(&folder);
    let (sender, opened) = sync_channel(1);
    let path = folder.path().join("z.yaml");
    let mut watched = follow(&folder, move || sender.send(fs::File::create(&path).unwrap()).unwrap());
    let mut file = opened.recv_timeout(DEADLINE).unwrap();
    // All else that there is has been read by then.
    watched.until(|state| state.objects.len() == 200);
    assert!(!watched.listed, "what the file gives is not known");
    file.write_all(namespace("z", 2).as_bytes()).unwrap();
    drop(file);
    watched.until_listed();
    assert_eq!(watched.state.version("z"), Some("2"));
}

#[test]
fn a_file_that_goes_during_the_first_reading_is_not_waited_for_but_one_that_comes_back_at_once_is() {
    let folder = TempDir::new().unwrap();
    many(&folder);
    let path = folder.path().to_owned();
    let remove = move || {
        fs::remove_file(path.join("z.yaml")).unwrap();
        // As git does it.
        fs::remove_file(path.join("a99.yaml")).unwrap();
        fs::write(path.join("a99.yaml"), namespace("a99", 2)).unwrap();
    };
    let mut watched = follow(&folder, remove);
    watched.until_listed();
    assert_eq!((watched.state.version("z"), watched.state.version("a99")), (None, Some("2")));
}

#[test]
fn a_file_that_nobody_stops_writing_does_not_hold_up_the_start_for_ever_and_counts_as_it_is() {
    use std::io::Write;
    let folder = TempDir::new().unwrap();
    many(&folder);
    let (sender, opened) = sync_channel(1);
    let path = folder.path().join("z.yaml");
    let append = move || {
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"# more to come\n").unwrap();
        sender.send(file).unwrap();
    };
    let mut watched = follow(&folder, append);
    let file = opened.recv_timeout(DEADLINE).unwrap();
    watched.until_listed();
    assert_eq!(watched.state.version("z"), Some("1"));
    drop(file);
}

#[test]
fn no_start_misses_a_file_that_is_replaced_all_the_time() {
    let folder = TempDir::new().unwrap();
    many(&folder);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                replace(&folder, "z.yaml", namespace("z", 1));
            }
        });
        let _at_the_end = Over(&over);
        for _ in 0..10 {
            let mut watched = Watched::begin(&folder, &[folder.path().to_owned()]);
            watched.until_listed();
            assert_eq!(watched.state.objects.len(), 201);
        }
    });
}

/// Ends a loop also when the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_file_that_could_not_be_read_is_read_when_it_can_be_though_no_event_says_so() {
    let somebody = Somebody::become_one();
    let (folder, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    write(&folder, "a.yaml", namespace("a", 1));
    let mut watched = Watched::folder(&folder);
    // By another name of the same file its permissions change without an event in the folder.
    let other = elsewhere.path().join("other");
    let chmod = |mode| fs::set_permissions(&other, fs::Permissions::from_mode(mode)).unwrap();
    fs::write(&other, namespace("a", 2)).unwrap();
    chmod(0);
    fs::hard_link(&other, folder.path().join(".new")).unwrap();
    fs::rename(folder.path().join(".new"), folder.path().join("a.yaml")).unwrap();
    watched.until_while(|state| !state.problems.is_empty(), |state| state.version("a") == Some("1"));
    chmod(0o644);
    watched.until_version("a", "2");
    watched.until(|state| state.problems.is_empty());
    drop(somebody);
}
