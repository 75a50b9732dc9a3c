//! Events by name, and how often they are spread.

use std::ffi::OsString;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};

use super::*;

fn watches() -> (WatchDescriptor, WatchDescriptor) {
    let (inotify, folders) =
        (Inotify::init(InitFlags::IN_CLOEXEC).unwrap(), [(); 2].map(|()| tempfile::tempdir().unwrap()));
    let [a, b] = folders.each_ref().map(|folder| inotify.add_watch(folder.path(), AddWatchFlags::IN_CREATE).unwrap());
    (a, b)
}

fn event(wd: WatchDescriptor, mask: AddWatchFlags, name: &str) -> InotifyEvent {
    InotifyEvent { wd, mask, cookie: 0, name: Some(OsString::from(name)) }
}

#[test]
fn many_events_of_a_name_are_kept_once() {
    let (a, b) = watches();
    let mut pending = Pending::default();
    for _ in 0..10_000 {
        pending.note(event(a, AddWatchFlags::IN_MOVED_TO, "..data"));
        pending.note(event(a, AddWatchFlags::IN_CREATE, "..data_tmp"));
        pending.note(event(a, AddWatchFlags::IN_MOVED_FROM, "..data_tmp"));
    }
    pending.note(event(b, AddWatchFlags::IN_MODIFY, "..data"));
    assert_eq!(pending.names.len(), 3);
    let swapped = pending.names[&(a, "..data".into())];
    assert_eq!((swapped.came, swapped.last(), swapped.modified), (29_998, 29_998, 0));
    let written = pending.names[&(b, "..data".into())];
    assert_eq!((written.modified, written.ended()), (30_001, 0));
    // What is kept for the next time is older than what comes then.
    let (lookup, happened) = pending.names.pop_first().unwrap();
    let mut next = Pending::default();
    next.keep(lookup.clone(), happened);
    next.note(event(lookup.0, AddWatchFlags::IN_CLOSE_WRITE, "..data"));
    let both = next.names[&lookup];
    assert!(both.came == 29_998 && both.closed == 29_999, "{both:?}");
}

#[test]
fn lost_events_end_what_was_noted_before() {
    let (a, _) = watches();
    let mut pending = Pending::default();
    pending.note(event(a, AddWatchFlags::IN_MODIFY, "a.yaml"));
    pending.note(InotifyEvent { wd: a, mask: AddWatchFlags::IN_Q_OVERFLOW, cookie: 0, name: None });
    assert!(pending.overflowed && pending.names.is_empty());
    pending.note(event(a, AddWatchFlags::IN_MODIFY, "b.yaml"));
    assert_eq!(pending.names.len(), 1);
}

#[test]
fn folder_whose_events_concern_many_places_waits_for_its_turn() {
    let (start, root) = (Instant::now(), Spot::root(0, "."));
    let place = |folder: &str| root.join(OsStr::new(folder)).join(OsStr::new("f.yaml"));
    let (evil, bank) = (place("evil"), place("bank"));
    let (mut spreads, mut now, mut spread) = (Spreads::default(), start, 0);
    while now < start + Duration::from_secs(60) {
        spreads.begin(now);
        if spreads.take(&evil, 2_000) {
            spread += 2_000;
        }
        assert!(spreads.take(&bank, 1) && !spreads.is_spent(&bank), "others do not wait");
        now += Duration::from_millis(100);
    }
    assert!((60_000..=76_000).contains(&spread), "{spread} places in a minute");
    now += Duration::from_secs(60);
    spreads.begin(now);
    assert!(spreads.take(&evil, 100_000), "it waits no longer, however many they are");
    assert!(!spreads.take(&evil, 2) && spreads.is_spent(&evil) && spreads.take(&evil, 1));
}
