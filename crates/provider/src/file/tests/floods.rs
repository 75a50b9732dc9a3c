//! Events of one author that never end, and what others see of that.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

/// Links that lead over one name.
const LINKS: usize = 1_000;

/// Swaps a link by renaming another one into its place.
fn swap(folder: &Path, version: u32) {
    let aside = folder.join("..data_tmp");
    symlink(format!("..{}", version % 2), &aside).unwrap();
    fs::rename(aside, folder.join("..data")).unwrap();
}

#[test]
fn link_that_is_swapped_all_the_time_delays_no_other_folder() {
    let folder = TempDir::new().unwrap();
    let evil = folder.path().join("evil");
    for version in 0..2 {
        fs::create_dir_all(evil.join(format!("..{version}"))).unwrap();
        for at in 0..LINKS {
            write(&folder, &format!("evil/..{version}/f{at}.yaml"), namespace(&format!("evil-{at}"), version));
        }
    }
    swap(&evil, 0);
    (0..LINKS).for_each(|at| symlink(format!("..data/f{at}.yaml"), evil.join(format!("f{at}.yaml"))).unwrap());
    write(&folder, "bank/a.yaml", namespace("bank", 0));
    let mut watched = Watched::begin(&folder, &[folder.path().to_owned()]);
    watched.until(|state| state.objects.len() == LINKS + 1);
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, path) = (Arc::clone(&stop), evil.clone());
    let flood = thread::spawn(move || {
        let mut version = 0;
        while !stopped.load(Ordering::Relaxed) {
            version += 1;
            swap(&path, version);
            thread::sleep(Duration::from_micros(200));
        }
        version
    });
    for version in 1..=3 {
        replace(&folder, "bank/a.yaml", namespace("bank", version));
        watched.until_version("bank", &version.to_string());
    }
    stop.store(true, Ordering::Relaxed);
    let last = flood.join().unwrap() + 1;
    swap(&evil, last);
    let last = (last % 2).to_string();
    let at_last = |state: &State| (0..LINKS).all(|at| state.version(&format!("evil-{at}")) == Some(&*last));
    watched.until(at_last);
    replace(&folder, "bank/a.yaml", namespace("bank", 4));
    watched.until_version("bank", "4");
    watched.until(at_last);
}
