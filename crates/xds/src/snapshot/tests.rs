//! What is kept for whom, and at what cost.

use super::*;
use crate::resource::Version;

fn resource(kind: TypeUrl, name: &str, version: u128, needs: Vec<Arc<[Need]>>) -> Arc<Resource> {
    Arc::new(Resource { needs: needs.into(), ..Resource::new(kind, name, Version(version), []) })
}

fn put(kind: TypeUrl, name: &str, version: u128, needs: &[(TypeUrl, &str)]) -> Change {
    let needs: Vec<Need> = needs.iter().map(|(kind, name)| Need::new(kind.clone(), *name)).collect();
    Change::Put(resource(kind, name, version, vec![needs.into()]))
}

fn remove(kind: TypeUrl, name: &str) -> Change {
    Change::Remove { type_url: kind, name: name.into() }
}

fn target(snapshot: &Snapshot, kind: &TypeUrl, name: &str) -> Option<u128> {
    snapshot.target(kind, name).map(|item| item.version().0)
}

fn accept(snapshot: &mut Snapshot, kind: &TypeUrl, name: &str) {
    let item = Arc::clone(snapshot.target(kind, name).unwrap());
    snapshot.accept(&item);
}

#[test]
fn of_several_changes_of_a_name_in_one_update_the_last_counts() {
    let mut snapshot = Snapshot::default();
    snapshot.apply(vec![
        put(TypeUrl::Cluster, "a", 1, &[]),
        remove(TypeUrl::Cluster, "a"),
        put(TypeUrl::Cluster, "a", 2, &[]),
    ]);
    assert_eq!(target(&snapshot, &TypeUrl::Cluster, "a"), Some(2));
    snapshot.apply(vec![put(TypeUrl::Cluster, "a", 3, &[]), remove(TypeUrl::Cluster, "a")]);
    assert_eq!(target(&snapshot, &TypeUrl::Cluster, "a"), None);
}

#[test]
fn what_the_accepted_version_of_a_route_needs_stays_until_the_next_is_accepted() {
    let mut snapshot = Snapshot::default();
    snapshot.apply(vec![put(TypeUrl::Cluster, "a", 1, &[]), put(TypeUrl::Route, "r", 1, &[(TypeUrl::Cluster, "a")])]);
    accept(&mut snapshot, &TypeUrl::Route, "r");
    snapshot.apply(vec![put(TypeUrl::Route, "r", 2, &[]), remove(TypeUrl::Cluster, "a")]);
    assert_eq!(target(&snapshot, &TypeUrl::Cluster, "a"), Some(1));
    accept(&mut snapshot, &TypeUrl::Route, "r");
    assert_eq!(target(&snapshot, &TypeUrl::Cluster, "a"), None);
}

#[test]
fn a_refused_version_gives_way_to_the_accepted_one_until_a_newer_is_put() {
    let mut snapshot = Snapshot::default();
    snapshot.apply(vec![put(TypeUrl::Route, "r", 1, &[])]);
    accept(&mut snapshot, &TypeUrl::Route, "r");
    snapshot.apply(vec![put(TypeUrl::Route, "r", 2, &[])]);
    let bad = Arc::clone(snapshot.target(&TypeUrl::Route, "r").unwrap());
    assert!(snapshot.refuse(&bad));
    assert!(!snapshot.refuse(&bad));
    assert_eq!(target(&snapshot, &TypeUrl::Route, "r"), Some(1));
    snapshot.apply(vec![put(TypeUrl::Route, "r", 3, &[])]);
    assert_eq!(target(&snapshot, &TypeUrl::Route, "r"), Some(3));
    assert!(!snapshot.refuse(&bad), "there is a newer version already");
}

#[test]
fn needs_that_are_not_there_are_known() {
    let mut snapshot = Snapshot::default();
    snapshot.apply(vec![put(TypeUrl::Listener, "l", 1, &[(TypeUrl::Route, "r")])]);
    assert_eq!(snapshot.missing().len(), 1);
    snapshot.apply(vec![put(TypeUrl::Route, "r", 1, &[])]);
    assert!(snapshot.missing().is_empty());
    let refused = Arc::clone(snapshot.target(&TypeUrl::Route, "r").unwrap());
    snapshot.refuse(&refused);
    assert_eq!(snapshot.missing().len(), 1);
    snapshot.apply(vec![put(TypeUrl::Listener, "l", 2, &[])]);
    assert!(snapshot.missing().is_empty(), "{:?}", snapshot.missing());
}

#[test]
fn a_secret_that_is_taken_away_is_gone_at_once_unless_only_what_was_there_before_names_it() {
    let named = [(TypeUrl::Secret, "s")];
    let start = || {
        let mut snapshot = Snapshot::default();
        snapshot.apply(vec![put(TypeUrl::Secret, "s", 1, &[]), put(TypeUrl::Listener, "l", 1, &named)]);
        accept(&mut snapshot, &TypeUrl::Listener, "l");
        snapshot
    };
    let mut snapshot = start();
    snapshot.apply(vec![remove(TypeUrl::Secret, "s")]);
    assert_eq!(target(&snapshot, &TypeUrl::Secret, "s"), None);
    assert_eq!(snapshot.missing().len(), 1);
    snapshot.apply(vec![put(TypeUrl::Secret, "s", 2, &[])]);
    assert_eq!(target(&snapshot, &TypeUrl::Secret, "s"), Some(2));
    assert!(snapshot.missing().is_empty());

    let mut snapshot = start();
    snapshot.apply(vec![remove(TypeUrl::Secret, "s"), put(TypeUrl::Listener, "l", 2, &[])]);
    assert_eq!(target(&snapshot, &TypeUrl::Secret, "s"), Some(1));
    accept(&mut snapshot, &TypeUrl::Listener, "l");
    assert_eq!(target(&snapshot, &TypeUrl::Secret, "s"), None);
}

#[test]
fn the_same_version_again_is_no_change() {
    let mut snapshot = Snapshot::default();
    snapshot.apply(vec![put(TypeUrl::Cluster, "a", 1, &[])]);
    let seq = snapshot.seq();
    snapshot.apply(vec![put(TypeUrl::Cluster, "a", 1, &[])]);
    assert_eq!(snapshot.seq(), seq);
}

#[test]
fn changes_are_told_from_any_point_that_is_not_too_long_ago() {
    let mut snapshot = Snapshot::default();
    for name in 0..LOG_AT_LEAST + 10 {
        snapshot.apply(vec![put(TypeUrl::Cluster, "a", name as u128 + 1, &[])]);
    }
    let names = |cursor| snapshot.changes_since(cursor).map(Iterator::count);
    assert_eq!(names(snapshot.seq()), Some(0));
    assert_eq!(names(snapshot.seq() - 3), Some(3));
    assert_eq!(names(10), Some(LOG_AT_LEAST));
    assert_eq!(names(9), None);
}

#[test]
fn shared_slices_of_needs_are_counted_once_and_let_go_with_the_last_version() {
    let mut snapshot = Snapshot::default();
    let slice = |name: &str| -> Arc<[Need]> { vec![Need::new(TypeUrl::Cluster, name)].into() };
    let (a, b, c) = (slice("a"), slice("b"), slice("c"));
    let put = |version, needs: &[&Arc<[Need]>]| {
        Change::Put(resource(TypeUrl::Route, "r", version, needs.iter().map(|slice| Arc::clone(slice)).collect()))
    };
    snapshot.apply(vec![put(1, &[&a, &b])]);
    accept(&mut snapshot, &TypeUrl::Route, "r");
    snapshot.apply(vec![put(2, &[&a, &c])]);
    assert_eq!(snapshot.missing().len(), 3);
    accept(&mut snapshot, &TypeUrl::Route, "r");
    snapshot.apply(vec![remove(TypeUrl::Route, "r")]);
    assert!(snapshot.missing().is_empty(), "{:?}", snapshot.missing());
}

#[test]
fn hosts_belong_to_the_configuration_before_their_last_slash() {
    let mut snapshot = Snapshot::default();
    let hosts = ["r/a", "r/b", "r/x/c", "rr/a", "r"].map(|name| put(TypeUrl::VirtualHost, name, 1, &[]));
    snapshot.apply(hosts.into());
    let names: Vec<&str> = snapshot.hosts_of("r").map(|item| &**item.name()).collect();
    assert_eq!(names, ["r/a", "r/b"]);
}

#[test]
fn structured_names_are_the_same_whatever_the_order_of_their_context_parameters() {
    let mut snapshot = Snapshot::default();
    snapshot.apply(vec![put(TypeUrl::Runtime, "xdstp://a/t/x?b=2&a=1", 1, &[])]);
    snapshot.apply(vec![put(TypeUrl::Runtime, "xdstp://a/t/x?a=1&b=2", 2, &[])]);
    assert_eq!(target(&snapshot, &TypeUrl::Runtime, "xdstp://a/t/x?a=1&b=2"), Some(2));
    snapshot.apply(vec![remove(TypeUrl::Runtime, "xdstp://a/t/x?b=2&a=1")]);
    assert!(snapshot.is_empty());
}

#[test]
fn a_collection_has_the_members_that_are_there_in_order() {
    let mut snapshot = Snapshot::default();
    let members = |snapshot: &Snapshot, collection: &str| -> Vec<String> {
        snapshot.members_of(&TypeUrl::Runtime, collection).map(|item| item.name().to_string()).collect()
    };
    let names = ["xdstp://a/t/y?k=1", "xdstp://a/t/x?k=1", "xdstp://a/t/x?k=2", "xdstp://a/t/z", "xdstp://a/t/u/x?k=1"];
    snapshot.apply(names.map(|name| put(TypeUrl::Runtime, name, 1, &[])).into());
    assert_eq!(members(&snapshot, "xdstp://a/t/*?k=1"), ["xdstp://a/t/x?k=1", "xdstp://a/t/y?k=1"]);
    assert_eq!(members(&snapshot, "xdstp://a/t/*"), ["xdstp://a/t/z"]);
    snapshot.apply(vec![remove(TypeUrl::Runtime, "xdstp://a/t/x?k=1"), remove(TypeUrl::Runtime, "xdstp://a/t/z")]);
    assert_eq!(members(&snapshot, "xdstp://a/t/*?k=1"), ["xdstp://a/t/y?k=1"]);
    assert_eq!(members(&snapshot, "xdstp://a/t/*"), [""; 0]);
}

#[test]
fn the_endpoints_of_a_cluster_that_went_are_found_until_it_comes_again() {
    let mut snapshot = Snapshot::default();
    snapshot.apply(vec![put(TypeUrl::Cluster, "a", 1, &[]), put(TypeUrl::Endpoints, "a", 7, &[])]);
    snapshot.apply(vec![remove(TypeUrl::Cluster, "a"), remove(TypeUrl::Endpoints, "a")]);
    let endpoints = |snapshot: &Snapshot| snapshot.departed_endpoints("a").map(|item| item.version().0);
    assert_eq!(endpoints(&snapshot), Some(7));
    snapshot.apply(vec![put(TypeUrl::Cluster, "a", 2, &[])]);
    assert_eq!(endpoints(&snapshot), None);
}
