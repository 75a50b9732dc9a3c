//! What waits for which clusters, and for how long.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xds::{Change, FleetUpdate, Resource, STALLED, TypeUrl, Version};

use super::{AT_LEAST, Holding, Passed, Readiness, of};

/// Clusters that are not ready.
struct Awaited {
    live: bool,
    clusters: BTreeSet<&'static str>,
    /// All secrets are new but this one.
    known_secret: &'static str,
}

impl Readiness for Awaited {
    fn is_live(&self, _: &Arc<str>) -> bool {
        self.live
    }

    fn is_awaited(&self, _: &Arc<str>, cluster: &Arc<str>) -> bool {
        self.clusters.contains(&**cluster)
    }

    fn is_new_secret(&self, _: &Arc<str>, secret: &Arc<str>) -> bool {
        **secret != *self.known_secret
    }
}

fn awaited(clusters: &[&'static str]) -> Awaited {
    Awaited { live: true, clusters: clusters.iter().copied().collect(), known_secret: "known" }
}

/// `+` and the name of what is put, and its version behind `@` unless that is 1, `-` of what goes; a kind by its first letter: `+C a@2`.
fn change(text: &str) -> Change {
    let (sign, name) = text.split_once(' ').expect("a name");
    let (name, version) = name.split_once('@').unwrap_or((name, "1"));
    let type_url = match sign.chars().nth(1) {
        Some('C') => TypeUrl::Cluster,
        Some('E') => TypeUrl::Endpoints,
        Some('S') => TypeUrl::Secret,
        Some('L') => TypeUrl::Listener,
        _ => TypeUrl::Route,
    };
    if sign.starts_with('+') {
        let version = Version(version.parse().expect("a number"));
        Change::Put(Arc::new(Resource::new(type_url, name, version, Vec::new())))
    } else {
        Change::Remove { type_url, name: name.into() }
    }
}

fn update(changes: &[&str]) -> FleetUpdate {
    FleetUpdate { fleet: "f".into(), changes: changes.iter().map(|text| change(text)).collect() }
}

fn texts(passed: Passed) -> Vec<String> {
    let text = |change: &Change| {
        let (type_url, name) = of(change);
        let kind = match type_url {
            TypeUrl::Cluster => 'C',
            TypeUrl::Endpoints => 'E',
            TypeUrl::Secret => 'S',
            TypeUrl::Listener => 'L',
            _ => 'R',
        };
        match change {
            Change::Put(resource) if resource.version != Version(1) => format!("+{kind} {name}@{}", resource.version.0),
            Change::Put(_) => format!("+{kind} {name}"),
            Change::Remove { .. } => format!("-{kind} {name}"),
        }
    };
    passed.updates.iter().map(|update| update.changes.iter().map(text).collect::<Vec<_>>().join(", ")).collect()
}

#[test]
fn what_comes_with_a_new_cluster_waits_until_it_is_ready() {
    let (mut holding, now) = (Holding::default(), Instant::now());
    let edit = update(&["+C new", "+E new", "+S key", "+L l", "+R r", "-C old"]);
    assert_eq!(texts(holding.pass(vec![edit], &awaited(&["new"]), (false, now))), ["+C new, +E new, +S key"]);
    // what else changes meanwhile stays behind it, in the order of edits whatever it is
    let meanwhile = update(&["-R s", "+C served@2", "+E served@2", "+S known@2"]);
    assert_eq!(texts(holding.pass(vec![meanwhile], &awaited(&["new"]), (false, now))), [""; 0]);
    // but for the cluster that is awaited
    assert_eq!(texts(holding.pass(vec![update(&["+E new@2"])], &awaited(&["new"]), (false, now))), ["+E new@2"]);
    assert_eq!(holding.wakes(), Some(now + STALLED));
    let ready = holding.pass(vec![update(&["+R r@2"])], &awaited(&[]), (false, now));
    assert!(ready.late.is_empty());
    let all = "-C old, +C served@2, +E served@2, +L l, +S known@2, +R r@2, -R s";
    assert_eq!(texts(ready), [all], "each once, as it is now");
    assert_eq!(holding.wakes(), None);
    // clusters that are ready hold up nothing
    assert_eq!(texts(holding.pass(vec![update(&["+C new", "+R r"])], &awaited(&[]), (false, now))), ["+C new, +R r"]);
}

#[test]
fn nobody_waits_for_longer_than_the_first_of_several_may_take() {
    let (mut holding, now) = (Holding::default(), Instant::now());
    assert_eq!(texts(holding.pass(vec![update(&["+C a", "+R r"])], &awaited(&["a"]), (false, now))), ["+C a"]);
    let later = now + STALLED - Duration::from_millis(1);
    let waiting = awaited(&["a", "b"]);
    assert_eq!(texts(holding.pass(vec![update(&["+C b", "+R s"])], &waiting, (false, later))), ["+C b"]);
    // the last one has its time too
    assert_eq!(texts(holding.pass(Vec::new(), &waiting, (false, now + STALLED))), [""; 0]);
    let end = later + AT_LEAST;
    assert_eq!(holding.wakes(), Some(end));
    let over = holding.pass(Vec::new(), &waiting, (false, end));
    let late: Vec<_> = over.late.iter().map(|(fleet, cluster)| format!("{fleet} {cluster}")).collect();
    assert_eq!(late, ["f a", "f b"], "also what came last: with each edit there may be another one");
    assert_eq!(texts(over), ["+R r, +R s"]);
    // but not one after the other for ever
    let mut at = now;
    let mut passed = Vec::new();
    while passed.is_empty() {
        at += AT_LEAST / 2;
        passed = holding.pass(vec![update(&["+C a", "+R r"])], &waiting, (false, at)).late;
    }
    assert_eq!(at, now + AT_LEAST / 2 + STALLED * 3 / 2);
}

#[test]
fn without_a_proxy_nothing_waits() {
    let (mut holding, now) = (Holding::default(), Instant::now());
    let nobody = Awaited { live: false, ..awaited(&["a"]) };
    assert_eq!(texts(holding.pass(vec![update(&["+C a", "+R r"])], &nobody, (false, now))), ["+C a, +R r"]);
    assert_eq!(texts(holding.pass(vec![update(&["+C a", "+R r"])], &awaited(&["a"]), (false, now))), ["+C a"]);
    assert_eq!(
        texts(holding.pass(Vec::new(), &nobody, (false, now))),
        ["+R r"],
        "its last proxy has gone, and its supervisor said so"
    );
}

#[test]
fn what_goes_and_comes_back_meanwhile_is_awaited_anew_when_proxies_have_what_it_is_now() {
    let (mut holding, now) = (Holding::default(), Instant::now());
    holding.pass(vec![update(&["+C new", "-C old", "-E old", "-C gone", "+R r"])], &awaited(&["new"]), (false, now));
    let both = awaited(&["new", "old", "gone"]);
    // routes that proxies have may still lead there: its endpoints are other ones now
    let back = update(&["+C old", "+E old@2", "+C gone"]);
    assert_eq!(texts(holding.pass(vec![back], &both, (false, now))), [""; 0]);
    assert_eq!(texts(holding.pass(vec![update(&["+E old@3", "-C gone"])], &both, (false, now))), [""; 0]);
    let ready = holding.pass(Vec::new(), &awaited(&["old"]), (false, now));
    assert_eq!(texts(ready), ["-C old, -E old", "-C gone, +C old, +E old@3, +R r"]);
}

#[test]
fn what_is_undone_meanwhile_is_as_if_it_had_not_been() {
    let (mut holding, now) = (Holding::default(), Instant::now());
    let edit = update(&["+C new", "+L l@2", "-L gone", "-S key", "+R r@2"]);
    assert_eq!(texts(holding.pass(vec![edit], &awaited(&["new"]), (false, now))), ["+C new"]);
    let listeners: Vec<_> = holding.listeners().map(|(_, name, version)| (name.to_string(), version)).collect();
    assert_eq!(listeners, [("gone".to_owned(), None), ("l".to_owned(), Some(Version(2)))]);
    let back = update(&["-C new", "+L l", "+L gone", "+S key", "+R r"]);
    assert_eq!(texts(holding.pass(vec![back], &awaited(&[]), (false, now))), ["-C new, +L gone, +L l, +S key, +R r"]);
    assert_eq!(holding.listeners().count(), 0);
}

#[test]
fn where_backends_are_that_proxies_have_waits_for_nobody() {
    let (mut holding, now) = (Holding::default(), Instant::now());
    let waiting = awaited(&["new"]);
    let edit = update(&["+C new", "+E own@2", "+E other@2", "+C changed@2", "-C old", "+R r"]);
    assert_eq!(texts(holding.pass(vec![edit], &waiting, (false, now))), ["+C new"], "of one edit all waits");
    let moved = update(&["+E own@3", "+E changed@2", "+E old@2", "+E served@2", "-E gone"]);
    assert_eq!(texts(holding.pass(vec![moved], &waiting, (false, now))), ["+E own@3, +E served@2"]);
    let back = update(&["+E gone@2"]);
    assert_eq!(texts(holding.pass(vec![back], &waiting, (false, now))), [""; 0]);
    assert_eq!(texts(holding.pass(vec![update(&["+E gone@3"])], &waiting, (false, now))), [""; 0]);
    let ready = texts(holding.pass(Vec::new(), &awaited(&[]), (false, now)));
    assert_eq!(ready, ["-E gone", "+C changed@2, -C old, +E changed@2, +E gone@3, +E old@2, +E other@2, +R r"]);
}

#[test]
fn what_a_revoked_grant_forbids_waits_for_nobody() {
    let (mut holding, now) = (Holding::default(), Instant::now());
    let waiting = awaited(&["new"]);
    // of the edit that begins it is a part
    assert_eq!(texts(holding.pass(vec![update(&["+C new", "+R r@2"])], &waiting, (true, now))), ["+C new"]);
    let revoked = holding.pass(vec![update(&["+R s@2", "-C far"])], &waiting, (true, now));
    assert!(revoked.late.is_empty(), "it is waited for where it is used");
    assert_eq!(texts(revoked), ["-C far, +R r@2, +R s@2"]);
    assert_eq!(holding.wakes(), None);
}

#[test]
fn revoked_grant_of_others_ends_no_wait() {
    let (mut holding, now) = (Holding::default(), Instant::now());
    let waiting = awaited(&["new"]);
    assert_eq!(texts(holding.pass(vec![update(&["+C new", "+R r@2"])], &waiting, (false, now))), ["+C new"]);
    let other = || FleetUpdate { fleet: "g".into(), changes: vec![change("+R s@2")] };
    assert_eq!(texts(holding.pass(vec![other()], &waiting, (true, now))), ["+R s@2"]);
    assert_eq!(texts(holding.pass(Vec::new(), &waiting, (true, now))), [""; 0]);
    assert!(holding.wakes().is_some());
    assert_eq!(texts(holding.pass(vec![update(&["+R s@2"])], &waiting, (true, now))), ["+R r@2, +R s@2"]);
}
