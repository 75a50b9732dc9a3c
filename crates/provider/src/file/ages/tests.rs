//! Ages over changes, restarts and damage of their file.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use api::Timestamp;
use proptest::prelude::*;
use store::Change;
use tempfile::TempDir;

use super::journal::{AgeFile, Journal};
use super::*;

/// Reached by a test that fails only.
const DEADLINE: Duration = Duration::from_secs(20);

/// No timestamp.
const NONE: u32 = u32::MAX;

fn route(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::of(Kind::HttpRoute, namespace, name)
}

fn fresh() -> Ages {
    Ages::new(Vec::new(), true)
}

/// A change that brings these.
fn bring(ages: &mut Ages, keys: &[(&ObjectKey, u32)]) -> Option<Unsaved> {
    for (key, created) in keys {
        ages.of(key, *created);
    }
    keys.iter().for_each(|(key, _)| ages.note(key, true));
    ages.close(true)
}

fn age(ages: &mut Ages, key: &ObjectKey) -> FirstSeen {
    ages.of(key, NONE).unwrap()
}

fn place(folder: &TempDir) -> AgeFile {
    AgeFile { path: folder.path().join("ages"), clock: || Timestamp(1_000_000) }
}

/// A process: the file, and what it says.
fn open(folder: &TempDir) -> (Journal, Ages) {
    let (journal, mut ages) = Journal::open(Some(place(folder))).unwrap();
    ages.set_time(journal.now());
    (journal, ages)
}

fn text(folder: &TempDir) -> String {
    fs::read_to_string(place(folder).path).unwrap()
}

fn words(change: Option<Change>) -> String {
    match change {
        Some(Change::Problems { problems, .. }) => problems.iter().map(|problem| problem.to_string()).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn newcomer_is_younger_whatever_it_says() {
    let mut ages = fresh();
    let (victim, thief) = (route("ta", "r"), route("aa", "a"));
    bring(&mut ages, &[(&victim, NONE)]);
    bring(&mut ages, &[(&thief, 0)]);
    assert!(age(&mut ages, &victim) < age(&mut ages, &thief));
}

#[test]
fn objects_of_one_change_are_as_old_as_they_say() {
    let mut ages = fresh();
    let [one, two, three] = ["a", "b", "c"].map(|name| route("shop", name));
    bring(&mut ages, &[(&one, NONE), (&two, 7), (&three, 5)]);
    let mut by_age = [(&one, "one"), (&two, "two"), (&three, "three")];
    by_age.sort_by_key(|(key, _)| age(&mut ages, key));
    assert_eq!(by_age.map(|(_, name)| name), ["three", "two", "one"]);
}

#[test]
fn a_timestamp_that_is_written_later_makes_nothing_older() {
    let mut ages = fresh();
    let (victim, thief) = (route("ta", "r"), route("zz", "r"));
    bring(&mut ages, &[(&victim, NONE), (&thief, NONE)]);
    let before = age(&mut ages, &thief);
    bring(&mut ages, &[(&thief, 1)]);
    assert_eq!(age(&mut ages, &thief), before);
}

#[test]
fn only_kinds_with_a_precedence_have_an_age() {
    let mut ages = fresh();
    let service = ObjectKey::of(Kind::Service, "shop", "cart");
    assert_eq!(bring(&mut ages, &[(&service, 1)]), None);
    assert_eq!(ages.of(&service, 1), None);
    let policy = ObjectKey::of(Kind::BackendTlsPolicy, "shop", "tls");
    assert!(ages.of(&policy, 1).is_some());
    let endless = route("shop", &"a".repeat(MAX_IDENTITY));
    assert_eq!(ages.of(&endless, 1), Some(FirstSeen { change: NonZeroU32::MAX, created: NONE }));
    assert!(ages.records().len() < 2, "it is not kept");
}

#[test]
fn an_identity_that_is_gone_keeps_its_age_for_a_day() {
    for (gone, keeps) in [(1, true), (KEPT - 1, true), (KEPT, false)] {
        let mut ages = fresh();
        let (first, second) = (route("ta", "r"), route("tb", "r"));
        bring(&mut ages, &[(&first, NONE)]);
        bring(&mut ages, &[(&second, NONE)]);
        ages.note(&first, false);
        ages.close(true);
        ages.set_time(gone);
        bring(&mut ages, &[(&first, NONE)]);
        assert_eq!(age(&mut ages, &first) < age(&mut ages, &second), keeps, "{gone} s");
    }
}

#[test]
fn a_flood_that_goes_takes_no_age_of_another_namespace() {
    let mut ages = fresh();
    let victim = route("ta", "r");
    bring(&mut ages, &[(&victim, NONE)]);
    let before = age(&mut ages, &victim);
    ages.note(&victim, false);
    ages.close(true);
    for number in 0..MAX_GONE + 100 {
        let flood = route("flood", &number.to_string());
        ages.of(&flood, NONE);
        ages.note(&flood, true);
        ages.note(&flood, false);
    }
    ages.close(true);
    assert_eq!((ages.gone.len, ages.known.len()), (MAX_GONE, MAX_GONE));
    assert_eq!(age(&mut ages, &victim), before);
    assert!(!ages.known.contains_key(&route("flood", "0")), "its own oldest went");
}

#[test]
fn ages_outlive_the_process_that_has_just_handed_them_on() {
    let folder = TempDir::new().unwrap();
    let (victim, thief) = (route("ta", "r"), route("aa", "a"));
    let (mut journal, mut ages) = open(&folder);
    ages.of(&victim, NONE);
    ages.note(&victim, true);
    assert_eq!(journal.save(&mut ages, false), None);
    assert!(!place(&folder).path.exists(), "the start is one change");
    assert_eq!(journal.save(&mut ages, true), None);
    let later = route("ta", "later");
    ages.of(&later, NONE);
    ages.note(&later, true);
    assert_eq!(journal.save(&mut ages, true), None);
    assert_eq!(fs::metadata(place(&folder).path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(text(&folder).lines().count(), 3);
    // Killed here: nothing else is written. The thief comes while nothing runs.
    let (_, mut ages) = open(&folder);
    bring(&mut ages, &[(&thief, 0), (&later, NONE), (&victim, NONE)]);
    let [victim, later, thief] = [&victim, &later, &thief].map(|key| age(&mut ages, key));
    assert!(victim < later && later < thief, "{victim:?} {later:?} {thief:?}");
    drop(journal);
}

#[test]
fn what_is_not_there_at_a_start_keeps_its_age() {
    let folder = TempDir::new().unwrap();
    let (victim, thief) = (route("ta", "r"), route("aa", "a"));
    let (mut journal, mut ages) = open(&folder);
    bring(&mut ages, &[(&victim, NONE)]);
    journal.save(&mut ages, true);
    fs::write(place(&folder).path, saved(&ages)).unwrap();
    // Its file cannot be read in this life.
    let (mut journal, mut ages) = open(&folder);
    ages.of(&thief, 0);
    ages.note(&thief, true);
    journal.save(&mut ages, true);
    let (_, mut ages) = open(&folder);
    bring(&mut ages, &[(&victim, NONE), (&thief, 0)]);
    assert!(age(&mut ages, &victim) < age(&mut ages, &thief));
}

/// The file as it is written whole.
fn saved(ages: &Ages) -> String {
    let folder = TempDir::new().unwrap();
    let (mut journal, _) = open(&folder);
    let mut copy = Ages::new(ages.records(), true);
    ages.records().iter().for_each(|record| copy.note(&record.key, true));
    journal.save(&mut copy, true);
    text(&folder)
}

#[test]
fn a_line_that_was_cut_off_costs_nothing_else() {
    let folder = TempDir::new().unwrap();
    let mut ages = fresh();
    let [one, two] = ["one", "two"].map(|name| route("ta", name));
    bring(&mut ages, &[(&one, NONE)]);
    bring(&mut ages, &[(&two, NONE)]);
    let whole = saved(&ages);
    for end in whole.len() - 20..whole.len() {
        fs::write(place(&folder).path, &whole[..end]).unwrap();
        let (mut journal, mut ages) = open(&folder);
        assert!(ages.known.contains_key(&one) && !ages.known.contains_key(&two));
        assert_eq!(journal.save(&mut ages, true), None, "a process that was killed is no damage");
    }
}

#[test]
fn damaged_lines_are_reported_and_what_they_were_about_is_the_youngest() {
    let folder = TempDir::new().unwrap();
    let mut ages = fresh();
    let [one, two] = ["one", "two"].map(|name| route("ta", name));
    bring(&mut ages, &[(&one, NONE)]);
    bring(&mut ages, &[(&two, NONE)]);
    let whole = saved(&ages);
    fs::write(place(&folder).path, whole.replace("\"one\"", "\"ona\"")).unwrap();
    let (mut journal, mut ages) = open(&folder);
    ages.of(&one, 1);
    ages.of(&two, NONE);
    ages.note(&one, true);
    ages.note(&two, true);
    let shown = words(journal.save(&mut ages, true));
    assert!(shown.contains("1 of its lines were damaged") && shown.contains("younger than all others"), "{shown}");
    assert!(age(&mut ages, &two) < age(&mut ages, &one));
    assert_eq!(age(&mut ages, &one).created, NONE, "a time that an author may have written does not count");
    // All is well after the next start.
    let (mut journal, mut ages) = open(&folder);
    assert_eq!(journal.save(&mut ages, true), None);
}

#[test]
fn a_file_of_which_nothing_can_be_used_ends_the_start() {
    let folder = TempDir::new().unwrap();
    let path = place(&folder).path;
    let refused = |why: &str| {
        let error = Journal::open(Some(place(&folder))).unwrap_err();
        assert!(error.contains(why) && error.contains("Restore it; or remove it"), "{error}");
    };
    fs::write(&path, "").unwrap();
    refused("none of its 0 lines is intact");
    fs::write(&path, [b'\xff', b'\0', b'\n']).unwrap();
    refused("none of its 1 lines is intact");
    fs::write(&path, saved(&fresh_with("r"))).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    refused("others than the user of this process can write it");
    let elsewhere = folder.path().join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    symlink(elsewhere, &path).unwrap();
    refused("cannot be read");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    refused("not a file");
}

fn fresh_with(name: &str) -> Ages {
    let mut ages = fresh();
    bring(&mut ages, &[(&route("ta", name), NONE)]);
    ages
}

#[test]
fn a_folder_that_is_lost_is_reported_and_tried_again() {
    let folder = TempDir::new().unwrap();
    let inner = folder.path().join("state");
    fs::create_dir(&inner).unwrap();
    let file = AgeFile { path: inner.join("ages"), clock: || Timestamp(1) };
    let (mut journal, mut ages) = Journal::open(Some(file.clone())).unwrap();
    fs::remove_dir(&inner).unwrap();
    ages.of(&route("ta", "r"), NONE);
    ages.note(&route("ta", "r"), true);
    let shown = words(journal.save(&mut ages, true));
    assert!(shown.contains("cannot be written") && shown.contains("tried again"), "{shown}");
    assert!(journal.retry_at().is_some());
    fs::create_dir(&inner).unwrap();
    let end = Instant::now() + DEADLINE;
    let shown = loop {
        assert!(Instant::now() < end, "it is not tried again");
        std::thread::sleep(Duration::from_millis(10));
        if let Some(change) = journal.save(&mut ages, true) {
            break words(Some(change));
        }
    };
    assert_eq!((shown.as_str(), journal.retry_at()), ("", None));
    assert_eq!(fs::read_to_string(file.path).unwrap().lines().count(), 2);
}

#[test]
fn a_file_that_another_program_changed_is_written_whole() {
    let folder = TempDir::new().unwrap();
    let (mut journal, mut ages) = open(&folder);
    bring_and_save(&mut journal, &mut ages, "one");
    fs::write(place(&folder).path, "").unwrap();
    bring_and_save(&mut journal, &mut ages, "two");
    fs::remove_file(place(&folder).path).unwrap();
    bring_and_save(&mut journal, &mut ages, "three");
    assert_eq!(text(&folder).lines().count(), 4, "{}", text(&folder));
}

fn bring_and_save(journal: &mut Journal, ages: &mut Ages, name: &str) {
    ages.of(&route("ta", name), NONE);
    ages.note(&route("ta", name), true);
    assert_eq!(journal.save(ages, true), None);
}

#[test]
fn an_object_that_comes_and_goes_makes_the_file_no_larger_than_its_bound() {
    let folder = TempDir::new().unwrap();
    let (mut journal, mut ages) = open(&folder);
    bring_and_save(&mut journal, &mut ages, "r");
    let mut largest = 0;
    for _ in 0..20_000 {
        ages.note(&route("ta", "r"), false);
        assert_eq!(journal.save(&mut ages, true), None);
        bring_and_save(&mut journal, &mut ages, "r");
        largest = largest.max(length(&place(&folder).path));
    }
    // The bound, and the line that goes beyond it.
    assert!((1 << 20..(1 << 20) + (1 << 10)).contains(&largest), "{largest}");
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

#[derive(Debug, Clone)]
enum Step {
    /// An object is there from now on, and says when it was made.
    Bring(u8, u8, u32),
    Remove(u8, u8),
    /// What happened since the last one is one change.
    Close,
    /// The process ends, and another one begins; everything that was not closed is new there.
    Restart,
    Wait(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3u8, 0..4u8, 0..3u32).prop_map(|(namespace, name, made)| Step::Bring(namespace, name, if made == 0 { NONE } else { made })),
        3 => (0..3u8, 0..4u8).prop_map(|(namespace, name)| Step::Remove(namespace, name)),
        5 => Just(Step::Close),
        1 => Just(Step::Restart),
        1 => prop_oneof![Just(1), Just(KEPT / 2), Just(KEPT)].prop_map(Step::Wait),
    ]
}

/// The same in a few words: an age for each identity, which outlives everything but a day without it.
#[derive(Default)]
struct Model {
    there: BTreeMap<(u8, u8), u32>,
    ages: BTreeMap<(u8, u8), (usize, u32)>,
    gone: BTreeMap<(u8, u8), i64>,
}

impl Model {
    fn close(&mut self, change: usize, now: i64) {
        for (id, made) in &self.there {
            if self.gone.remove(id).is_some_and(|since| now - since >= KEPT) {
                self.ages.remove(id);
            }
            self.ages.entry(*id).or_insert((change, *made));
        }
        for id in self.ages.keys().filter(|id| !self.there.contains_key(id)) {
            self.gone.entry(*id).or_insert(now);
        }
    }
}

fn key((namespace, name): (u8, u8)) -> ObjectKey {
    route(&namespace.to_string(), &name.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_no_newcomer_is_older(steps in prop::collection::vec(step(), 1..60)) {
        let folder = TempDir::new().unwrap();
        let (mut journal, mut ages) = open(&folder);
        let (mut model, mut now) = (Model::default(), 1_000_000);
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Wait(seconds) => {
                    prop_assert_eq!(journal.save(&mut ages, true), None);
                    model.close(number, now);
                    now += seconds;
                    ages.set_time(now);
                }
                Step::Bring(namespace, name, made) => {
                    let id = (namespace, name);
                    // An edit of an object says again when it was made; what it said first counts.
                    model.there.entry(id).or_insert(made);
                    ages.of(&key(id), made);
                    ages.note(&key(id), true);
                }
                // Both count a change when it is complete.
                Step::Remove(namespace, name) if model.ages.contains_key(&(namespace, name)) && !model.gone.contains_key(&(namespace, name)) => {
                    model.there.remove(&(namespace, name));
                    ages.note(&key((namespace, name)), false);
                }
                Step::Remove(..) => {}
                Step::Close | Step::Restart => {
                    prop_assert_eq!(journal.save(&mut ages, true), None);
                    model.close(number, now);
                    if matches!(step, Step::Restart) {
                        (journal, ages) = open(&folder);
                        ages.set_time(now);
                        for (id, made) in &model.there {
                            ages.of(&key(*id), *made);
                            ages.note(&key(*id), true);
                        }
                        prop_assert_eq!(journal.save(&mut ages, true), None);
                    }
                    let mut by_model: Vec<_> = model.there.keys().map(|id| (model.ages[id], *id)).collect();
                    let mut by_age: Vec<_> = model.there.keys().map(|id| (age(&mut ages, &key(*id)), *id)).collect();
                    by_model.sort();
                    by_age.sort();
                    let by_age: Vec<_> = by_age.into_iter().map(|(_, id)| id).collect();
                    prop_assert_eq!(by_age, by_model.into_iter().map(|(_, id)| id).collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0..200usize) {
        let folder = TempDir::new().unwrap();
        let mut whole = saved(&fresh_with("r")).into_bytes();
        let at = at.min(whole.len());
        whole.splice(at..at, bytes);
        fs::write(place(&folder).path, whole).unwrap();
        if let Ok((mut journal, mut ages)) = Journal::open(Some(place(&folder))) {
            journal.save(&mut ages, true);
        }
    }
}
