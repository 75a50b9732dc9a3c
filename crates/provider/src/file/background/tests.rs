//! Tests of the line in which costly files wait.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use super::*;

/// Longest time for a fact to come true; reached only by a test that fails.
const DEADLINE: Duration = Duration::from_secs(20);

fn until_done(background: &mut Background) -> Option<(Done, Running)> {
    let end = Instant::now() + DEADLINE;
    while background.running.is_some() {
        if let Some(done) = background.take_done() {
            return Some(done);
        }
        assert!(Instant::now() < end, "it is not read");
        thread::yield_now();
    }
    None
}

#[test]
fn a_file_that_changes_often_waits_once_and_keeps_its_turn() {
    let (catalog, access) = (Catalog::default(), Access::default());
    let mut background = Background::new().unwrap();
    let root = Spot::root(0, "root");
    let [one, two] = ["one.yaml", "two.yaml"].map(|name| root.join(OsStr::new(name)));
    for version in 0..1_000 {
        background.add(one.clone(), format!("/nowhere/{version}").into(), (true, false));
        background.add(two.clone(), "/nowhere/two".into(), (true, false));
    }
    assert_eq!(background.line.len(), 2);
    background.begin(&catalog, &access).unwrap();
    background.begin(&catalog, &access).unwrap();
    assert_eq!((background.line.len(), &background.running.as_ref().unwrap().spot), (1, &one));
    // It changes while it is read: what is read of the earlier version does not count.
    background.add(one.clone(), "/nowhere/last".into(), (true, false));
    assert!(until_done(&mut background).is_none());
    background.begin(&catalog, &access).unwrap();
    let (done, _) = until_done(&mut background).unwrap();
    assert!(done.spot == two && matches!(done.outcome, Outcome::Gone), "{done:?}");
    assert!(done.is_of(&[]) && !background.is_costly(&two), "what was read at once is not costly any more");
    // One that may be cheap comes before those that are not.
    background.add(two.clone(), "/nowhere/two".into(), (false, false));
    background.begin(&catalog, &access).unwrap();
    assert_eq!(background.running.as_ref().unwrap().spot, two);
    assert!(until_done(&mut background).is_some());
    background.add(two.clone(), "/nowhere/two".into(), (false, false));
    background.cancel_below(&root, |spot| *spot == *two);
    assert_eq!(background.line.len(), 1);
    background.cancel_below(&root, |_| false);
    assert_eq!(background.line.len(), 0);
    background.begin(&catalog, &access).unwrap();
    assert!(background.running.is_none());
}

/// Takes the names of all files that wait, in the order in which they would be read.
fn order(line: &mut Line) -> Vec<String> {
    let next = |line: &mut Line| {
        let (spot, waiting) = line.next()?;
        line.finish(waiting.number, &spot);
        Some(spot)
    };
    std::iter::from_fn(|| next(line)).map(|spot| spot.display.replace("root/", "")).collect()
}

#[test]
fn costly_file_has_its_turn_next_to_a_flood_of_new_ones() {
    let root = Spot::root(0, "root");
    let at = |name: &str| root.join(OsStr::new(name));
    let mut line = Line::default();
    line.add(at("a.yaml"), "a".into(), (true, true));
    line.add(at("b.yaml"), "b".into(), (true, false));
    for number in 0..4 {
        line.add(at(&format!("new{number}.yaml")), "new".into(), (false, false));
    }
    // A file that goes keeps no place.
    line.remove(&at("new1.yaml"));
    assert_eq!(order(&mut line), ["new0.yaml", "a.yaml", "new2.yaml", "b.yaml", "new3.yaml"]);
}

#[test]
fn folders_take_turns_however_many_files_are_in_them() {
    let root = Spot::root(0, "root");
    let [evil, good] = ["evil", "good"].map(|name| root.join(OsStr::new(name)));
    let mut line = Line::default();
    for number in 0..3 {
        // Folders below count as the one that they are in.
        let place = evil.join(OsStr::new(&format!("{number}")));
        line.add(place.join(OsStr::new("x.yaml")), "x".into(), (false, false));
    }
    line.add(good.join(OsStr::new("a.yaml")), "a".into(), (true, false));
    line.add(good.join(OsStr::new("b.yaml")), "b".into(), (true, false));
    assert_eq!(order(&mut line), ["evil/0/x.yaml", "good/a.yaml", "evil/1/x.yaml", "good/b.yaml", "evil/2/x.yaml"]);
}

#[test]
fn file_that_guards_is_waited_for_as_it_was_when_the_wait_began() {
    let (catalog, access) = (Catalog::default(), Access::default());
    let mut background = Background::new().unwrap();
    let root = Spot::root(0, "root");
    let [one, two] = ["one.yaml", "two.yaml"].map(|name| root.join(OsStr::new(name)));
    background.add(two.clone(), "/nowhere/two".into(), (true, false));
    let waits = |background: &Background, until: u64| background.first_guard(&two, until).is_some();
    assert!(!waits(&background, u64::MAX));
    background.add(one.clone(), "/nowhere/one".into(), (false, true));
    let until = background.last_number();
    background.begin(&catalog, &access).unwrap();
    // It is written all the time: the version that is being read counts all the same.
    for _ in 0..100 {
        background.add(one.clone(), "/nowhere/one".into(), (false, true));
    }
    assert!(waits(&background, until));
    let (done, running) = until_done(&mut background).unwrap();
    assert!(done.spot == one && running.guards && !waits(&background, until));
    assert!(waits(&background, u64::MAX), "the next version is waited for by what comes now");
    background.cancel(&one);
    assert!(!waits(&background, u64::MAX));
}

#[test]
fn file_that_was_read_too_early_is_read_after_what_guards() {
    let root = Spot::root(0, "root");
    let at = |name: &str| root.join(OsStr::new(name));
    let mut line = Line::default();
    line.add(at("guard.yaml"), "guard".into(), (true, true));
    line.add(at("both.yaml"), "both".into(), (false, true));
    let (both, waiting) = line.next().unwrap();
    assert_eq!((&both, waiting.number), (&at("both.yaml"), 2));
    line.park(both, "both".into(), (2, true));
    let new = at("new.yaml");
    line.add(new.clone(), "new".into(), (false, false));
    assert_eq!([0, 1, 2].map(|until| line.guards.first(&new, until).is_some()), [false, true, true]);
    assert_eq!(order(&mut line), ["guard.yaml", "new.yaml", "both.yaml"]);
}

#[test]
fn many_waiting_files_cost_little_each() {
    const COUNT: u64 = 20_000;
    let root = Spot::root(0, "root");
    let folders: Vec<Arc<Spot>> = (0..100).map(|at| root.join(OsStr::new(&format!("f{at}")))).collect();
    let (mut line, mut waits) = (Line::default(), Waits::default());
    for number in 0..COUNT {
        let spot = folders[number as usize % 100].join(OsStr::new(&format!("{number}.yaml")));
        line.add(spot.clone(), "x".into(), (number % 3 == 0, true));
        waits.add(line.last_number(), &spot);
    }
    let (end, mut released) = (Instant::now() + DEADLINE, 0);
    while let Some((spot, waiting)) = line.next() {
        released += waits.release(&line.guards).len();
        line.finish(waiting.number, &spot);
        assert!(Instant::now() < end, "{} files are left", line.len());
    }
    assert_eq!(released + waits.release(&line.guards).len(), COUNT as usize);
}

/// A line with files of two folders that may hold what guards, `evil/0` to `evil/2` and `good/0`, and edits of three folders that wait for all of these.
fn guarded() -> (Line, Waits, [Arc<Spot>; 3]) {
    let root = Spot::root(0, "root");
    let [evil, good, other] = ["evil", "good", "other"].map(|name| root.join(OsStr::new(name)));
    let (mut line, mut waits) = (Line::default(), Waits::default());
    for number in 0..3 {
        line.add(evil.join(OsStr::new(&format!("{number}"))), "x".into(), (true, true));
    }
    line.add(good.join(OsStr::new("0")), "x".into(), (true, true));
    let edits = [evil, good, other].map(|folder| folder.join(OsStr::new("edit.yaml")));
    for edit in &edits {
        waits.add(line.last_number(), edit);
    }
    (line, waits, edits)
}

/// Takes the next file and reads it for a time. Returns its name.
fn read_next(line: &mut Line, time: Duration) -> String {
    let (spot, waiting) = line.next().unwrap();
    line.guards.charge(&spot, time);
    line.finish(waiting.number, &spot);
    spot.display.replace("root/", "")
}

#[test]
fn a_folder_that_takes_too_long_holds_back_its_own_edits_only() {
    let (mut line, mut waits, [evil, good, other]) = guarded();
    assert_eq!(waits.release(&line.guards), [] as [Arc<Spot>; 0]);
    // It is being read, and is late before it ends.
    let (spot, waiting) = line.next().unwrap();
    assert!(!line.guards.charge(&spot, guards::MAX_WAITED), "as long as that it is waited for");
    assert!(line.guards.charge(&spot, Duration::from_millis(1)) && !line.guards.charge(&spot, guards::MAX_WAITED));
    let first = |line: &Line, edit: &Spot| line.guards.first(edit, 4).map(|spot| spot.display.replace("root/", ""));
    assert_eq!(first(&line, &other).as_deref(), Some("good/0"), "the policies of others are waited for all the same");
    assert_eq!(first(&line, &evil).as_deref(), Some("evil/0"));
    assert_eq!(waits.release(&line.guards), [] as [Arc<Spot>; 0]);
    line.finish(waiting.number, &spot);
    assert_eq!(read_next(&mut line, Duration::ZERO), "good/0");
    assert_eq!(waits.release(&line.guards), [good, other.clone()]);
    assert_eq!(read_next(&mut line, Duration::ZERO), "evil/1");
    assert_eq!(waits.release(&line.guards), [] as [Arc<Spot>; 0], "its author's own edits wait for all");
    assert_eq!(read_next(&mut line, Duration::ZERO), "evil/2");
    assert_eq!(waits.release(&line.guards), [evil]);
    // Once all is read it is waited for like any other.
    line.add(spot.clone(), "x".into(), (true, true));
    assert!(line.guards.first(&other, u64::MAX).is_some() && !line.guards.charge(&spot, guards::MAX_WAITED));
}

#[test]
fn file_that_others_wait_for_is_read_as_what_is_served() {
    let (catalog, access) = (Catalog::default(), Access::default());
    let mut background = Background::new().unwrap();
    let one = Spot::root(0, "root").join(OsStr::new("one.yaml"));
    let mut read = |guards: bool, used: Duration| {
        background.add(one.clone(), "/nowhere".into(), (true, guards));
        background.line.guards.charge(&one, used);
        background.begin(&catalog, &access).unwrap();
        assert!(until_done(&mut background).is_some());
        let id = Pid::from_raw(background.worker.as_ref().unwrap().id.load(Ordering::Relaxed)).unwrap();
        (id, rustix::process::getpriority_process(Some(id)).unwrap())
    };
    let before = rustix::process::getpriority_process(None).unwrap();
    let (urgent, niceness) = read(true, Duration::ZERO);
    assert_eq!((read(true, Duration::ZERO), niceness), ((urgent, before), before));
    assert_eq!(read(false, Duration::ZERO), (urgent, before.max(NICENESS)));
    let (next, niceness) = read(true, Duration::ZERO);
    assert!(next != urgent && niceness == before, "{niceness}");
    assert_eq!(
        read(true, 2 * guards::MAX_WAITED),
        (next, before.max(NICENESS)),
        "no other folder waits for it any more"
    );
}

#[test]
fn folder_is_late_while_its_file_is_read() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("one.yaml");
    let one = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: b}\n---\n";
    std::fs::write(&path, one.repeat(50_000)).unwrap();
    let (catalog, access) = (Catalog::default(), Access::new(crate::file::Links::Everywhere, []));
    let mut background = Background::new().unwrap();
    let one = Spot::root(0, "root").join(OsStr::new("one.yaml"));
    background.add(one.clone(), path, (true, true));
    // Up to its bound.
    assert!(!background.line.guards.charge(&one, guards::MAX_WAITED));
    background.begin(&catalog, &access).unwrap();
    let end = Instant::now() + DEADLINE;
    while !background.line.guards.is_late(&one) {
        assert!(Instant::now() < end, "no time is counted");
        background.charge();
        thread::yield_now();
    }
    assert!(background.running.as_ref().is_some_and(|running| running.charged > Duration::ZERO));
}

#[test]
fn clock_of_a_thread_is_its_cpu_time() {
    let background = Background::new().unwrap();
    let worker = Worker::start(background.results.clone(), background.wake.try_clone().unwrap()).unwrap();
    let end = Instant::now() + DEADLINE;
    while worker.id.load(Ordering::Relaxed) == 0 {
        assert!(Instant::now() < end, "the thread does not run");
        thread::yield_now();
    }
    assert!(cpu_time_of(worker.id.load(Ordering::Relaxed)).is_some());
    assert_eq!(cpu_time_of(0), None);
    let own = nix::unistd::gettid().as_raw();
    let (before, is_between) = (cpu_time(), |time| time <= cpu_time());
    assert!(cpu_time_of(own).is_some_and(|time| time >= before && is_between(time)));
}
