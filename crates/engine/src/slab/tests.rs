//! Keys and their numbers.

use super::Slab;

#[test]
fn keys_are_found_after_the_table_has_grown() {
    let mut slab: Slab<u32, Option<()>> = Slab::default();
    let rows: Vec<u32> = (0..5_000).map(|key| slab.intern(key).unwrap()).collect();
    for (key, row) in (0..5_000).zip(&rows) {
        assert_eq!((slab.find(&key), slab.intern(key), slab.key(*row)), (Some(*row), Some(*row), Some(&key)));
    }
    assert_eq!((slab.len(), slab.find(&5_000)), (5_000, None));
}

#[test]
fn a_released_number_is_issued_again() {
    let mut slab: Slab<&str, Option<()>> = Slab::default();
    let (one, two) = (slab.intern("one").unwrap(), slab.intern("two").unwrap());
    slab.release(one);
    slab.release(one);
    assert_eq!((slab.find(&"one"), slab.key(one), slab.len()), (None, None, 1));
    assert_eq!(slab.intern("three"), Some(one));
    assert_ne!(slab.intern("four"), Some(one));
    assert_eq!(slab.find(&"two"), Some(two));
}

#[test]
fn a_full_slab_refuses_new_keys_only() {
    let mut slab: Slab<u32, Option<()>> = Slab::default();
    slab.set_limit(2);
    assert_eq!((slab.intern(1), slab.intern(2), slab.intern(3)), (Some(0), Some(1), None));
    assert_eq!((slab.intern(2), slab.find(&3)), (Some(1), None));
    slab.release(0);
    assert_eq!(slab.intern(3), Some(0));
}

#[test]
fn room_made_beforehand_changes_nothing() {
    let mut slab: Slab<u32, Option<()>> = Slab::default();
    slab.make_room(100);
    let rows: Vec<_> = (0..300).map(|key| slab.intern(key).unwrap()).collect();
    slab.make_room(1_000);
    assert!((0..300).zip(rows).all(|(key, row)| slab.find(&key) == Some(row)));
}
