//! A map by name, whatever of it is kept together.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::resource::{Resource, TypeUrl};
use crate::snapshot::Item;

fn items(first: u64, version: u64) -> Vec<Arc<Item>> {
    let item = |n: u64| {
        let resource = Resource::new(TypeUrl::Cluster, format!("{n}"), Version(u128::from(version)), []);
        Item::new(resource.into(), 10 * version + n)
    };
    (first..first + 6).map(item).collect()
}

fn known(version: u64, state: u8, nonce: Nonce, seq: u64) -> Known {
    let mark = Some(Version(u128::from(version)).mark());
    match state {
        0 => Known { sent: mark, flying: Some(nonce), ..Known::default() },
        1 => Known { sent: mark, ..Known::default() },
        2 => Known { sent: mark, acked: mark, ..Known::default() },
        3 => Known { sent: mark, acked: mark, confirmed: seq, ..Known::default() },
        4 => Known { acked: mark, flying: Some(nonce), ..Known::default() },
        _ => Known::default(),
    }
}

proptest! {
    #[test]
    fn after_any_history_it_holds_what_a_plain_map_holds(
        steps in prop::collection::vec((0..6_u8, 0..9_u64, 1..4_u64, 0..6_u8), 1..80)
    ) {
        let (mut names, mut plain) = (KnownNames::default(), BTreeMap::<String, Known>::new());
        for (what, n, version, state) in steps {
            let name: Arc<str> = n.to_string().into();
            let nonce = Nonce::new(version).unwrap();
            let new = known(version, state, nonce, 10 * version + n);
            match what {
                0 => names.list(&Arc::new(Listing::new(&items(n / 2, version))), nonce),
                1 => {
                    names.insert(&name, new);
                    plain.insert(name.to_string(), new);
                }
                2 => {
                    names.remove(&name);
                    plain.remove(&*name);
                }
                3 => {
                    let edited = names.edit(&name, |known| std::mem::replace(known, new));
                    prop_assert_eq!(edited, plain.get_mut(&*name).map(|known| std::mem::replace(known, new)));
                }
                4 => {
                    let found = names.get_or_insert(&name, new);
                    prop_assert_eq!(found, *plain.entry(name.to_string()).or_insert(new));
                }
                _ => {
                    names.retain(|name| name != n.to_string());
                    plain.retain(|name, _| *name != n.to_string());
                }
            }
            let held: BTreeMap<String, Known> =
                names.keys().map(|name| (name.to_string(), names.get(name).unwrap())).collect();
            prop_assert_eq!(&held, &plain);
            prop_assert_eq!((names.len(), names.is_empty()), (plain.len(), plain.is_empty()));
            prop_assert_eq!(names.keys().count(), plain.len());
            let sent = plain.iter().filter_map(|(name, known)| Some(known.sent?.digest(name)));
            prop_assert_eq!(names.digest(), sent.fold(0, |all, digest| all ^ digest));
        }
    }
}

#[test]
fn what_was_sent_acknowledged_and_confirmed_together_has_no_state_of_its_own() {
    let (mut names, items, nonce) = (KnownNames::default(), items(0, 1), Nonce::MIN);
    names.list(&Arc::new(Listing::new(&items)), nonce);
    for state in 0..4 {
        for (n, item) in (0..).zip(&items) {
            names.insert(item.name(), known(1, state, nonce, 10 + n));
        }
        assert_eq!((names.others.len(), names.listed()), (0, items.len()));
    }
    names.insert(items[0].name(), known(2, 2, nonce, 20));
    assert_eq!((names.others.len(), names.listed(), names.len()), (1, items.len() - 1, items.len()));
}
