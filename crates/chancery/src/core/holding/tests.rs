//! What waits for which clusters, and for how long.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xds::{Change, FleetUpdate, Resource, TypeUrl, Version};

use super::{Facts, Holding, LONGEST, name};

/// Clusters that are not ready.
struct Awaited {
    live: bool,
    clusters: BTreeSet<&'static str>,
}

impl Facts for Awaited {
    fn is_live(&self, _: &Arc<str>) -> bool {
        self.live
    }

    fn is_awaited(&self, _: &Arc<str>, cluster: &Arc<str>) -> bool {
        self.clusters.contains(&**cluster)
    }
}

fn awaited(clusters: &[&'static str]) -> Awaited {
    Awaited { live: true, clusters: clusters.iter().copied().collect() }
}

/// `+` and the name of what is put, `-` of what goes; a kind by its first letter: `+C a`.
fn change(text: &str) -> Change {
    let (sign, name) = text.split_once(' ').expect("a name");
    let type_url = match sign.chars().nth(1) {
        Some('C') => TypeUrl::Cluster,
        Some('E') => TypeUrl::Endpoints,
        Some('S') => TypeUrl::Secret,
        Some('L') => TypeUrl::Listener,
        _ => TypeUrl::Route,
    };
    if sign.starts_with('+') {
        Change::Put(Arc::new(Resource::new(type_url, name, Version(1), Vec::new())))
    } else {
        Change::Remove { type_url, name: name.into() }
    }
}

fn update(changes: &[&str]) -> FleetUpdate {
    FleetUpdate { fleet: "f".into(), changes: changes.iter().map(|text| change(text)).collect() }
}

fn texts(updates: Vec<FleetUpdate>) -> Vec<String> {
    let text = |change: &Change| {
        let sign = if matches!(change, Change::Put(_)) { '+' } else { '-' };
        let (type_url, name) = name(change);
        let kind = match type_url {
            TypeUrl::Cluster => 'C',
            TypeUrl::Endpoints => 'E',
            TypeUrl::Secret => 'S',
            TypeUrl::Listener => 'L',
            _ => 'R',
        };
        format!("{sign}{kind} {name}")
    };
    updates.iter().map(|update| update.changes.iter().map(text).collect::<Vec<_>>().join(", ")).collect()
}

#[test]
fn what_comes_with_a_new_cluster_waits_until_it_is_ready() {
    let (mut holding, now) = (Holding::default(), Instant::now());
    let edit = update(&["+C new", "+E new", "+S key", "+L l", "+R r", "-C old"]);
    assert_eq!(texts(holding.pass(vec![edit], &awaited(&["new"]), now)), ["+C new, +E new, +S key"]);
    // what else changes meanwhile stays behind it
    assert_eq!(texts(holding.pass(vec![update(&["-R s"])], &awaited(&["new"]), now)), [""; 0]);
    assert_eq!(holding.wakes(), Some(now + LONGEST));
    let ready = holding.pass(vec![update(&["+R r"])], &awaited(&[]), now);
    assert_eq!(texts(ready), ["+L l, +R r, -C old, -R s, +R r"]);
    assert_eq!(holding.wakes(), None);
    // clusters that are ready hold up nothing
    assert_eq!(texts(holding.pass(vec![update(&["+C new", "+R r"])], &awaited(&[]), now)), ["+C new, +R r"]);
}

#[test]
fn nobody_waits_for_longer_than_the_first_of_several_may_take() {
    let (mut holding, now) = (Holding::default(), Instant::now());
    assert_eq!(texts(holding.pass(vec![update(&["+C a", "+R r"])], &awaited(&["a"]), now)), ["+C a"]);
    let later = now + LONGEST - Duration::from_millis(1);
    let waiting = awaited(&["a", "b"]);
    assert_eq!(texts(holding.pass(vec![update(&["+C b", "+R s"])], &waiting, later)), ["+C b"]);
    assert_eq!(texts(holding.pass(Vec::new(), &waiting, now + LONGEST)), ["+R r, +R s"]);
}

#[test]
fn without_a_proxy_nothing_waits() {
    let (mut holding, now) = (Holding::default(), Instant::now());
    let nobody = Awaited { live: false, ..awaited(&["a"]) };
    assert_eq!(texts(holding.pass(vec![update(&["+C a", "+R r"])], &nobody, now)), ["+C a, +R r"]);
    assert_eq!(texts(holding.pass(vec![update(&["+C a", "+R r"])], &awaited(&["a"]), now)), ["+C a"]);
    assert_eq!(texts(holding.pass(Vec::new(), &nobody, now)), ["+R r"], "the last one has gone");
    holding.pass(vec![update(&["+C a", "+R r"])], &awaited(&["a"]), now);
    holding.forget(&"f".into());
    assert_eq!(texts(holding.pass(Vec::new(), &awaited(&[]), now)), [""; 0]);
}

#[test]
fn what_goes_and_comes_back_meanwhile_goes_first() {
    let (mut holding, now) = (Holding::default(), Instant::now());
    holding.pass(vec![update(&["+C new", "-C old", "-E old", "+R r"])], &awaited(&["new"]), now);
    let back = holding.pass(vec![update(&["+C old", "+E old"])], &awaited(&["new", "old"]), now);
    assert_eq!(texts(back), ["-C old, -E old", "+C old, +E old"], "so that it is awaited anew");
    assert_eq!(texts(holding.pass(Vec::new(), &awaited(&[]), now)), ["+R r"]);
}
