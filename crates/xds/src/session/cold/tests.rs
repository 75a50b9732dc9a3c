//! What is known without a walk is what a walk finds.

use proptest::prelude::*;

use super::*;
use crate::resource::{Resource, TypeUrl, Version};

fn cluster(since: u64, stalled: bool) -> Cold {
    let item = Item::new(Resource::new(TypeUrl::Cluster, "c", Version(1), []).into(), 1);
    let since = Duration::from_secs(since);
    Cold { stalled, ..Cold::new(item, since, None, false) }
}

proptest! {
    #[test]
    fn after_any_history_what_is_known_is_what_is_there(
        steps in prop::collection::vec((0..5_u8, 0..6_u8, 0..9_u64, any::<bool>()), 1..60)
    ) {
        let mut cold = ColdClusters::default();
        for (what, name, time, stalled) in steps {
            let name: Arc<str> = name.to_string().into();
            let before = stalled_in(&cold);
            match what {
                0 | 1 => cold.insert(&name, cluster(time, stalled)),
                2 => cold.remove(&name),
                3 => {
                    cold.told = true;
                    cold.edit(&name, |cluster| (cluster.since, cluster.stalled) = (Duration::from_secs(time), stalled));
                    prop_assert!(!cold.told || before == stalled_in(&cold));
                }
                _ => cold.edit_waiting(Duration::from_secs(time), |cluster| cluster.stalled = true),
            }
            let waiting = || cold.iter().filter(|(_, cluster)| !cluster.stalled).map(|(_, cluster)| cluster.since);
            prop_assert_eq!(cold.oldest(), waiting().min());
            prop_assert_eq!(cold.is_settled(), waiting().next().is_none());
            prop_assert!(what < 4 || waiting().all(|since| since > Duration::from_secs(time)));
        }
    }
}

fn stalled_in(cold: &ColdClusters) -> Vec<Arc<str>> {
    cold.iter().filter(|(_, cluster)| cluster.stalled).map(|(name, _)| Arc::clone(name)).collect()
}

fn clusters(count: usize) -> Arc<[Arc<Item>]> {
    let item = |n: usize| Item::new(Resource::new(TypeUrl::Cluster, format!("{n:03}"), Version(1), []).into(), 1);
    (0..count).map(item).collect()
}

proptest! {
    #[test]
    fn what_is_kept_together_is_what_would_be_kept_apart(
        steps in prop::collection::vec((0..6_u8, 0..80_usize, 0..3_u64, any::<bool>()), 1..120)
    ) {
        let items = clusters(80);
        let (mut cold, mut plain) = (ColdClusters::default(), BTreeMap::<Arc<str>, (Duration, bool, bool, bool)>::new());
        for (what, n, time, flag) in steps {
            let (name, since, nonce) = (items[n].name(), Duration::from_secs(time), Nonce::new(1 + time));
            match what {
                0 => cold.sent_together(&items, nonce.unwrap(), since),
                1 | 2 => {
                    cold.insert(name, Cold::new(Arc::clone(&items[n]), since, nonce, flag));
                    plain.insert(Arc::clone(name), (since, flag, false, false));
                }
                3 => {
                    cold.remove(name);
                    plain.remove(name);
                }
                4 => {
                    cold.edit(name, |cold| (cold.acked, cold.since) = (flag, since));
                    plain.entry(Arc::clone(name)).and_modify(|plain| (plain.2, plain.0) = (flag, since));
                }
                _ => {
                    cold.edit_waiting(since, |cold| cold.stalled = true);
                    plain.values_mut().filter(|plain| plain.0 <= since).for_each(|plain| plain.3 = true);
                }
            }
            let seen = |cold: &Cold| (cold.since, cold.asks, cold.acked, cold.stalled);
            let held: BTreeMap<Arc<str>, _> = cold.iter().map(|(name, cold)| (Arc::clone(name), seen(&cold))).collect();
            prop_assert_eq!(&held, &plain);
            prop_assert!(plain.keys().all(|name| cold.contains(name) && cold.get(name).is_some()));
            prop_assert_eq!(cold.is_empty(), plain.is_empty());
            prop_assert_eq!(cold.is_settled(), plain.values().all(|plain| plain.3));
        }
    }
}

#[test]
fn clusters_of_one_response_have_no_state_of_their_own() {
    let (mut cold, items, nonce) = (ColdClusters::default(), clusters(FEWEST), Nonce::MIN);
    items.iter().for_each(|item| cold.insert(item.name(), Cold::new(Arc::clone(item), Duration::ZERO, None, true)));
    cold.sent_together(&items, nonce, Duration::ZERO);
    let sent = |item: &Arc<Item>| Cold::new(Arc::clone(item), Duration::ZERO, Some(nonce), true);
    items.iter().for_each(|item| cold.insert(item.name(), sent(item)));
    assert_eq!((cold.clusters.len(), cold.iter().count()), (0, FEWEST));
    items.iter().for_each(|item| cold.remove(item.name()));
    assert!(cold.is_empty() && cold.together.is_none() && cold.is_settled());
}
