//! Room for directories by the folder that they are in.

use std::ffi::OsStr;

use super::*;

fn fill(shares: &mut Shares, folder: &Arc<Spot>, first: u64, count: u64) -> u64 {
    (first..first + count)
        .filter(|inode| {
            let spot = folder.join(OsStr::new(&inode.to_string()));
            shares.fits(&spot.share()) && shares.take(&spot, 1, *inode).is_ok()
        })
        .count() as u64
}

#[test]
fn a_large_folder_leaves_the_last_quarter_to_others() {
    let root = Spot::root(0, "root");
    let (large, small) = (root.join(OsStr::new("aaa")), root.join(OsStr::new("bank")));
    let mut shares = Shares::of(64);
    assert_eq!(fill(&mut shares, &large, 0, 1000), 48);
    assert_eq!(fill(&mut shares, &small, 2000, 5), 5, "which are less than an eighth");
    assert!(!shares.fits(&large.share()) && shares.fits(&root.share()));
    assert_eq!(fill(&mut shares, &small, 3000, 1000), 3, "up to an eighth");
    assert_eq!(fill(&mut shares, &root.join(OsStr::new("shop")), 5000, 1000), 8);
    assert_eq!(fill(&mut shares, &root.join(OsStr::new("late")), 6000, 1000), 0, "all are taken");
}

#[test]
fn room_that_comes_is_for_those_that_wait() {
    let root = Spot::root(0, "root");
    let (large, small) = (root.join(OsStr::new("aaa")), root.join(OsStr::new("bank")));
    let mut shares = Shares::of(8);
    let taken: Vec<Real> = (0..8)
        .map(|inode| {
            let spot = root.join(OsStr::new(&format!("full{inode}")));
            shares.take(&spot, 1, inode).unwrap()
        })
        .collect();
    assert!(!shares.fits(&small.share()));
    assert_eq!(shares.wait(&small), small);
    let beyond: BTreeSet<Arc<Spot>> =
        (0..100).map(|name| shares.wait(&large.join(OsStr::new(&name.to_string())))).collect();
    assert_eq!(beyond.len(), MOST_WAITING + 1, "each of the first ones, and the folder");
    assert!(beyond.contains(&large));
    assert!(shares.take_fitting().is_empty());
    shares.release(&taken[0]);
    let again = shares.take_fitting();
    assert!(again.contains(&small) && !again.is_empty());
    assert!(shares.take_fitting().is_empty(), "nothing was given up since");
    shares.forget(&small);
    shares.release(&taken[1]);
    assert!(!shares.take_fitting().contains(&small));
}

#[test]
fn a_directory_is_read_by_the_first_way_of_each_folder() {
    let root = Spot::root(0, "root");
    let at = |names: &str| names.split('/').fold(root.clone(), |spot, name| spot.join(OsStr::new(name)));
    let mut shares = Shares::of(8);
    let real = shares.take(&at("a/x"), 1, 7).unwrap();
    assert_eq!(shares.take(&at("a/y"), 1, 7), Err(at("a/x")));
    assert!(shares.take(&at("b/x"), 1, 7).is_ok(), "the folder of another author");
    assert!(shares.take(&at("a/z"), 2, 7).is_ok(), "another device");
    assert_eq!((shares.way(&real), shares.taken_for(&at("a/y"))), (Some(&at("a/x")), Some(&at("a/x"))));
    shares.release(&real);
    assert_eq!((shares.way(&real), shares.taken_for(&at("a/y"))), (None, None));
    assert_eq!(shares.others(&real).collect::<Vec<_>>(), [&at("a/y")]);
    assert!(shares.take(&at("a/y"), 1, 7).is_ok());
    assert_eq!((shares.way(&real), shares.others(&real).count()), (Some(&at("a/y")), 0));
}
