//! Lists are shared while they serve, and go with the last client that has one.

use super::*;
use crate::resource::{Resource, Version};

fn item(n: usize, seq: u64) -> Arc<Item> {
    Item::new(Resource::new(TypeUrl::Cluster, format!("{n:03}"), Version(u128::from(seq)), []).into(), seq)
}

/// Names of a response.
const NAMES: usize = 64;

#[test]
fn clients_that_are_sent_nearly_the_same_share_one_list() {
    let (mut listings, kind) = (Listings::default(), TypeUrl::Cluster);
    let mut items: Vec<Arc<Item>> = (0..NAMES).map(|n| item(n, 1)).collect();
    let (first, list) = listings.share(&kind, items.clone());
    let (same, again) = listings.share(&kind, items.clone());
    assert!(Arc::ptr_eq(&first, &same) && Arc::ptr_eq(list.as_ref().unwrap(), again.as_ref().unwrap()));
    items[5] = item(5, 2);
    let (other, again) = listings.share(&kind, items.clone());
    assert!(!Arc::ptr_eq(&first, &other) && other[5].seq == 2);
    assert!(Arc::ptr_eq(list.as_ref().unwrap(), again.as_ref().unwrap()), "one of many is another");
    let place = again.unwrap().place("005").unwrap();
    assert_eq!(list.unwrap().entry(place).unwrap().seq, 1);

    let changed: Vec<Arc<Item>> = (0..NAMES).map(|n| item(n, 3)).collect();
    let (_, list) = listings.share(&kind, changed.clone());
    assert_eq!(list.as_ref().unwrap().entry(place).unwrap().seq, 3);
    let weak = Arc::downgrade(&list.unwrap());
    assert!(weak.upgrade().is_none(), "nobody has it any more");
    assert!(listings.share(&kind, changed[..FEWEST - 1].to_vec()).1.is_none(), "too few");
}
