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
