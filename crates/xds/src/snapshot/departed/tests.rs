//! Who is found, and for how long.

use std::collections::BTreeSet;

use super::*;
use crate::resource::{Resource, TypeUrl, Version};

fn item(kind: TypeUrl, name: &str) -> Arc<Item> {
    Item::new(Arc::new(Resource::new(kind, name, Version(1), [])), 1)
}

fn add(departures: &mut Departures, cluster: &str, set: &str) {
    departures.add(item(TypeUrl::Cluster, cluster), Some(item(TypeUrl::Endpoints, set)));
}

fn of_set(departures: &Departures, set: &str) -> Vec<String> {
    departures.of_set(set).map(|departed| departed.cluster.name().to_string()).collect()
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_cluster_is_found_by_its_endpoint_set_also_after_others_were_forgotten() {
    let mut departures = Departures::default();
    add(&mut departures, "a", "s");
    add(&mut departures, "b", "s");
    departures.add(item(TypeUrl::Cluster, "none"), None);
    departures.forget(SECOND);
    add(&mut departures, "c", "s");
    add(&mut departures, "d", "t");
    assert_eq!(of_set(&departures, "s"), ["a", "b", "c"]);
    departures.forget(SECOND * 2);
    departures.forget(SECOND + DEPARTED_FOR);
    assert_eq!((of_set(&departures, "s"), of_set(&departures, "t")), (vec!["c".to_owned()], vec!["d".to_owned()]));
    assert_eq!(of_set(&departures, "none"), [""; 0]);
}

#[test]
fn each_stays_for_its_time_since_somebody_has_looked() {
    let mut departures = Departures::default();
    add(&mut departures, "a", "a");
    departures.forget(SECOND);
    add(&mut departures, "b", "b");
    departures.forget(SECOND * 10);
    departures.forget(DEPARTED_FOR);
    assert_eq!(departures.iter().count(), 2);
    departures.forget(DEPARTED_FOR + SECOND);
    assert_eq!(departures.iter().map(|departed| &**departed.cluster.name()).collect::<Vec<_>>(), ["b"]);
    departures.forget(DEPARTED_FOR + SECOND * 10);
    assert!(departures.iter().next().is_none() && departures.by_set.is_empty());
}

#[test]
fn so_many_are_kept_and_no_more_in_the_index() {
    let mut departures = Departures::default();
    for number in 0..MOST_DEPARTED + 100 {
        add(&mut departures, &format!("c{number}"), &format!("s{}", number / 2));
    }
    assert_eq!(departures.iter().count(), MOST_DEPARTED);
    assert_eq!(departures.by_set.len(), MOST_DEPARTED / 2);
    let indexed: BTreeSet<u64> = departures.by_set.values().flatten().copied().collect();
    assert_eq!(indexed.len(), MOST_DEPARTED);
    assert_eq!(of_set(&departures, "s49"), [""; 0]);
    assert_eq!(of_set(&departures, "s50"), ["c100", "c101"]);
}
