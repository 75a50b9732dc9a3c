//! Journals of random histories, whole, cut off and damaged.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{SavedError, SavedFleet, Unsaved};
use crate::resource::{Change, Need, Resource, TypeUrl, Version};
use crate::snapshot::{Look, Snapshot};

const KINDS: [TypeUrl; 3] = [TypeUrl::Cluster, TypeUrl::Secret, TypeUrl::Route];
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A fleet and the file that is kept of it.
struct Kept {
    snapshot: Snapshot,
    file: Vec<u8>,
    /// Pieces that versions of the resources share.
    pieces: Vec<Bytes>,
    slices: Vec<Arc<[Need]>>,
    versions: u128,
    /// Where each record ends, and what is in force by then.
    ends: Vec<(usize, BTreeMap<Need, String>)>,
}

impl Kept {
    fn new(secrets: bool) -> Self {
        let mut snapshot = Snapshot::default();
        snapshot.keep(secrets);
        let pieces = (0..8).map(|number| Bytes::from(format!("piece {number}").repeat(number))).collect();
        let slices = NAMES.iter().map(|name| [Need::new(TypeUrl::Cluster, *name)].into()).collect();
        Self { snapshot, file: Vec::new(), pieces, slices, versions: 0, ends: Vec::new() }
    }

    /// One step: a resource comes, is acknowledged, goes, or all that changed is written.
    fn step(&mut self, (what, kind, name, pieces): (u8, u8, u8, u8)) {
        let (type_url, name) = (KINDS[usize::from(kind) % 3].clone(), NAMES[usize::from(name) % 4]);
        match what % 8 {
            0..3 => {
                self.versions += 1;
                let chosen = (0..8).filter(|bit| pieces >> bit & 1 == 1);
                let body: Vec<Bytes> = chosen.clone().map(|bit| self.pieces[bit].clone()).collect();
                let mut resource = Resource::new(type_url, name, Version(self.versions), body);
                resource.needs = chosen.map(|bit| Arc::clone(&self.slices[bit % 4])).collect();
                resource.replaces = (pieces == 7).then(|| Box::new("old".into()));
                (resource.apart, resource.vhds) = (pieces % 2 == 0, pieces % 3 == 0);
                self.snapshot.apply(vec![Change::Put(resource.into())]);
            }
            3..6 => {
                if let Some(item) = self.snapshot.current(&type_url, name).cloned() {
                    self.snapshot.accept(&item);
                }
            }
            6 => self.snapshot.apply(vec![Change::Remove { type_url, name: name.into() }]),
            _ => self.write(),
        }
    }

    fn write(&mut self) {
        if !self.snapshot.has_unsaved() {
            return;
        }
        let (whole, edits) = self.snapshot.take_unsaved();
        let unsaved = Unsaved { fleet: "ns/gw".into(), whole, edits, doubts: Vec::new(), gone: false };
        if whole {
            self.file.clear();
            self.ends.clear();
        }
        for part in unsaved.parts() {
            self.file.extend(part);
        }
        self.ends.push((self.file.len(), self.accepted()));
    }

    fn accepted(&self) -> BTreeMap<Need, String> {
        let keys = KINDS.iter().flat_map(|kind| NAMES.map(|name| Need::new(kind.clone(), name)));
        let accepted = keys.filter_map(|key| {
            let item = self.snapshot.accepted(&key.type_url, &key.name)?;
            Some((key, shown(&item.resource)))
        });
        accepted.collect()
    }

    fn file(&self) -> Bytes {
        self.file.clone().into()
    }
}

/// All of a resource.
fn shown(resource: &Resource) -> String {
    let Resource { version, body, needs, replaces, ttl_millis, apart, vhds, .. } = resource;
    format!("{version:?} {body:?} {needs:?} {replaces:?} {ttl_millis:?} {apart} {vhds}")
}

fn restored(bytes: &Bytes) -> Result<BTreeMap<Need, String>, SavedError> {
    let saved = SavedFleet::read(bytes)?;
    Ok(saved.resources.iter().map(|(need, resource)| (need.clone(), shown(resource))).collect())
}

/// A journal of several records.
fn sample() -> Kept {
    let mut kept = Kept::new(true);
    for round in 0..6 {
        for (kind, name) in [(0, 0), (1, 1), (2, 2), (2, 0)] {
            kept.step((0, kind, name, 31 << (round % 3) | 1 << round));
            kept.step((3, kind, name, 0));
        }
        kept.step((6, round, round, 0));
        kept.write();
    }
    kept
}

#[test]
fn what_is_read_is_what_was_acknowledged_whatever_the_history() {
    let steps = prop::collection::vec(any::<(u8, u8, u8, u8)>(), 1..120);
    let mut runner = TestRunner::new(Config { cases: 400, failure_persistence: None, ..Config::default() });
    let check = |steps: Vec<(u8, u8, u8, u8)>| {
        let mut kept = Kept::new(true);
        steps.into_iter().for_each(|step| kept.step(step));
        kept.write();
        if !kept.file.is_empty() {
            prop_assert_eq!(restored(&kept.file()), Ok(kept.accepted()));
        }
        // all anew is the same
        kept.snapshot.save_again();
        kept.write();
        prop_assert_eq!(restored(&kept.file()), Ok(kept.accepted()));
        Ok(())
    };
    runner.run(&steps, check).expect("equal");
}

#[test]
fn a_file_that_was_cut_off_anywhere_is_what_it_was_before_the_last_write() {
    let kept = sample();
    let first = kept.ends[0].0;
    for length in 0..=kept.file.len() {
        let cut = restored(&kept.file().slice(..length));
        let whole = kept.ends.iter().rev().find(|(end, _)| *end <= length);
        match whole {
            Some((end, expect)) => {
                assert_eq!(cut.as_ref(), Ok(expect), "{length} bytes");
                let saved = SavedFleet::read(&kept.file().slice(..length)).expect("it was read before");
                assert_eq!(saved.intact(), *end, "{length} bytes");
            }
            // a new file is renamed into place when it is whole
            None => assert_eq!(cut, Err(error_of(length)), "{length} of {first} bytes"),
        }
        // a place in the file that no write came to
        let mut zeros = kept.file[..length].to_vec();
        zeros.resize(length + 100, 0);
        if kept.ends.iter().any(|(end, _)| *end == length) {
            assert_eq!(restored(&zeros.into()).as_ref(), whole.map(|(_, expect)| expect).ok_or(&SavedError::Damaged));
        }
    }
}

/// Of so many bytes, which are not all that a file began with.
fn error_of(length: usize) -> SavedError {
    if length < 4 { SavedError::Foreign } else { SavedError::Damaged }
}

#[test]
fn any_change_of_a_file_to_which_nothing_was_added_is_damage() {
    let mut kept = sample();
    kept.snapshot.save_again();
    kept.write();
    for at in 8..kept.file.len() {
        let mut damaged = kept.file.clone();
        damaged[at] ^= 1 << (at % 8);
        assert_eq!(restored(&damaged.into()), Err(SavedError::Damaged), "byte {at}");
    }
}

#[test]
fn any_change_of_any_byte_is_an_error_or_the_state_before_the_last_write() {
    let kept = sample();
    let [.., (before, expect), _] = &kept.ends[..] else { panic!("several records") };
    for at in 0..kept.file.len() {
        let mut damaged = kept.file.clone();
        damaged[at] ^= 1 << (at % 8);
        match restored(&damaged.into()) {
            Err(SavedError::Foreign) => assert!(at < 4),
            Err(SavedError::Format(_)) => assert!((4..8).contains(&at)),
            Err(SavedError::Damaged) => assert!(at >= 8),
            Ok(state) => assert!(at >= *before && state == *expect, "byte {at}"),
        }
    }
}

#[test]
fn a_file_of_an_older_program_is_told_apart_from_a_damaged_one() {
    let kept = sample();
    let mut old = kept.file.clone();
    old[7] = 1;
    assert_eq!(restored(&old.into()), Err(SavedError::Format(1)));
}

#[test]
fn of_a_large_resource_only_what_changed_is_written() {
    let mut kept = Kept::new(true);
    kept.pieces = (0..8).map(|number| Bytes::from(vec![number; 10_000])).collect();
    for pieces in [0b1111_1110, 0b1111_1111] {
        kept.step((0, 2, 0, pieces));
        kept.step((3, 2, 0, 0));
        kept.write();
    }
    let [(first, _), (second, _)] = &kept.ends[..] else { panic!("two records") };
    assert!((70_000..71_000).contains(first) && (10_000..10_200).contains(&(second - first)), "{first} {second}");
    assert_eq!(restored(&kept.file()), Ok(kept.accepted()));
}

#[test]
fn secrets_are_not_written_unless_that_is_wanted() {
    let mut kept = Kept::new(false);
    for kind in 0..3 {
        kept.step((0, kind, 0, 255));
        kept.step((3, kind, 0, 0));
    }
    kept.write();
    kept.step((0, 1, 0, 1));
    kept.step((3, 1, 0, 0));
    kept.write();
    assert_eq!(kept.ends.len(), 1, "nothing but a secret changed");
    let saved = SavedFleet::read(&kept.file()).expect("what was saved");
    assert_eq!((saved.len(), &**saved.fleet()), (2, "ns/gw"));
    let mut with = Kept::new(true);
    with.step((0, 1, 0, 255));
    with.step((3, 1, 0, 0));
    with.write();
    let mut saved = SavedFleet::read(&with.file()).expect("what was saved");
    assert!(saved.len() == 1 && saved.drop_secrets() && saved.is_empty() && !saved.drop_secrets());
}

#[test]
fn a_file_that_promises_more_pieces_than_it_can_hold_is_damaged() {
    let mut kept = Kept::new(true);
    kept.step((0, 2, 0, 255));
    kept.step((3, 2, 0, 0));
    kept.write();
    // each round repeats the pieces of the round before sixteen times
    for _ in 0..6 {
        let item = kept.snapshot.current(&TypeUrl::Route, "a").cloned().expect("it was put");
        let body: Vec<Bytes> = (0..16).flat_map(|_| item.resource.body.iter().cloned()).collect();
        kept.versions += 1;
        let resource = Resource::new(TypeUrl::Route, "a", Version(kept.versions), body);
        kept.snapshot.apply(vec![Change::Put(resource.into())]);
        kept.step((3, 2, 0, 0));
        kept.write();
        if kept.file.len() < 16 * item.resource.body.len() {
            assert_eq!(restored(&kept.file()), Err(SavedError::Damaged));
            return;
        }
    }
    panic!("it never grew beyond what a file of its length can hold");
}

#[test]
fn saved_bodies_are_not_shown() {
    let mut kept = sample();
    let saved = SavedFleet::read(&kept.file()).expect("what was saved");
    kept.snapshot.save_again();
    let (whole, edits) = kept.snapshot.take_unsaved();
    let unsaved = Unsaved { fleet: "ns/gw".into(), whole, edits, doubts: Vec::new(), gone: false };
    for shown in [format!("{saved:?}"), format!("{unsaved:?}")] {
        assert!(shown.contains("ns/gw") && !shown.contains("piece"), "{shown}");
    }
}
