//! A twin of each test of the Gateway API's conformance suite, in our own words, with objects from files and without a cluster.
//!
//! | file | holds |
//! |---|---|
//! | `tests/twins/*.yaml` | the twins: objects, what becomes of them, steps |
//! | `suite` | the names of the suite's tests |
//! | `twin` | how a twin is written down, and its objects in full |
//! | `expectation` | lines about requests, calls, connections and datagrams |
//! | `told` | lines about conditions |
//! | `world` | what all twins share, and how one is played |
//! | `ask`, `echo`, `certificates` | the client, the backends, what both show |
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod ask;
mod certificates;
mod echo;
mod expectation;
mod suite;
mod told;
mod twin;
mod world;

use std::sync::Arc;

use tests::binary::root;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use twin::{SHARED, Twin};
use world::World;

/// Twins that are played at a time: enough that waiting costs nothing, few enough that none waits for the machine.
const AT_A_TIME: usize = 32;

fn twins() -> Vec<Twin> {
    let mut files: Vec<_> = std::fs::read_dir(root().join("tests/twins")).unwrap().flatten().collect();
    files.sort_by_key(std::fs::DirEntry::path);
    files.iter().flat_map(|file| Twin::read(&std::fs::read_to_string(file.path()).unwrap())).collect()
}

#[test]
fn every_test_of_the_suite_has_a_twin() {
    let mut names: Vec<_> = twins().into_iter().map(|twin| twin.name).filter(|name| name != SHARED).collect();
    names.sort_unstable();
    let missing: Vec<_> = suite::NAMES.iter().filter(|name| !names.iter().any(|twin| twin == *name)).collect();
    assert!(missing.is_empty(), "without a twin: {missing:?}");
    assert_eq!(names, suite::NAMES, "a twin of no test, or two of one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_twins_expect_holds() {
    let (world, twins) = World::start(twins()).await;
    let (world, places) = (Arc::new(world), Arc::new(Semaphore::new(AT_A_TIME)));
    let mut playing = JoinSet::new();
    for twin in twins {
        let (world, places) = (Arc::clone(&world), Arc::clone(&places));
        playing.spawn(async move {
            let _place = places.acquire().await.unwrap();
            world.play(&twin).await.map_err(|wrong| format!("{}: {wrong}", twin.name))
        });
    }
    let wrong: Vec<String> = playing.join_all().await.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{} twins:\n{}", wrong.len(), wrong.join("\n"));
}
