//! Tests of the line in which costly files wait.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use super::*;

/// Longest time for a fact to come true; reached only by a test that fails.
const DEADLINE: Duration = Duration::from_secs(20);

fn until_done(background: &mut Background) -> Option<Done> {
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
    let done = until_done(&mut background).unwrap();
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
    std::iter::from_fn(|| line.next()).map(|(spot, _)| spot.display.replace("root/", "")).collect()
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
    background.add(two, "/nowhere/two".into(), (true, false));
    assert!(!background.guards_until(u64::MAX));
    background.add(one.clone(), "/nowhere/one".into(), (false, true));
    let until = background.last_number();
    background.begin(&catalog, &access).unwrap();
    // It is written all the time: the version that is being read counts all the same.
    for _ in 0..100 {
        background.add(one.clone(), "/nowhere/one".into(), (false, true));
    }
    assert!(background.guards_until(until));
    let done = until_done(&mut background).unwrap();
    assert!(done.spot == one && done.guards && !background.guards_until(until));
    assert!(background.guards_until(u64::MAX), "the next version is waited for by what comes now");
    background.cancel(&one);
    assert!(!background.guards_until(u64::MAX));
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
    line.add(at("new.yaml"), "new".into(), (false, false));
    assert!(line.guards_until(1) && line.guards_until(2));
    assert_eq!(order(&mut line), ["guard.yaml", "new.yaml", "both.yaml"]);
}
