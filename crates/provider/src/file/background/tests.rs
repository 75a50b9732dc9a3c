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
        background.add(one.clone(), format!("/nowhere/{version}").into(), true);
        background.add(two.clone(), "/nowhere/two".into(), true);
    }
    assert_eq!(background.waiting.len(), 2);
    background.begin(&catalog, &access).unwrap();
    background.begin(&catalog, &access).unwrap();
    assert_eq!((background.waiting.len(), &background.running.as_ref().unwrap().spot), (1, &one));
    // It changes while it is read: what is read of the earlier version does not count.
    background.add(one.clone(), "/nowhere/last".into(), true);
    assert!(until_done(&mut background).is_none());
    background.begin(&catalog, &access).unwrap();
    let done = until_done(&mut background).unwrap();
    assert!(done.spot == two && matches!(done.outcome, Outcome::Gone), "{done:?}");
    assert!(done.is_of(&[]) && !background.is_costly(&two), "what was read at once is not costly any more");
    // One that may be cheap comes before those that are not.
    background.add(two.clone(), "/nowhere/two".into(), false);
    background.begin(&catalog, &access).unwrap();
    assert_eq!(background.running.as_ref().unwrap().spot, two);
    assert!(until_done(&mut background).is_some());
    background.cancel_below(&root);
    assert!(background.waiting.is_empty());
    background.begin(&catalog, &access).unwrap();
    assert!(background.running.is_none());
}
