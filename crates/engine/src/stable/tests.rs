//! The stable hash: fixed figures, and no two inputs glued together.

use std::sync::Arc;

use super::stable_hash;

#[test]
fn figures_are_the_same_for_ever() {
    // A change of these figures moves the borders of all pieces, and with them the versions of resources: replicas
    // of two releases would disagree.
    let figures = [stable_hash(&0u64), stable_hash("a"), stable_hash("chancery"), stable_hash(&("a", 1u16, Some("b")))];
    let expected = [15516985397566064495, 9802356480256625432, 14035115241307757910, 588783094236453130];
    assert_eq!(figures, expected);
}

#[test]
fn a_key_and_its_arc_hash_alike() {
    assert_eq!(stable_hash("route"), stable_hash(&Arc::<str>::from("route")));
    assert_eq!(stable_hash("route"), stable_hash(&String::from("route")));
}

#[test]
fn parts_are_not_glued_together() {
    assert_ne!(stable_hash(&("ab", "c")), stable_hash(&("a", "bc")));
    assert_ne!(stable_hash("a"), stable_hash("a\0"));
    assert_ne!(stable_hash(&None::<u8>), stable_hash(&Some(0u8)));
}

#[test]
fn low_bits_are_even() {
    let borders = (0..64_000u32).filter(|number| stable_hash(&format!("route-{number}")) % 64 == 0).count();
    assert!((900..1_100).contains(&borders), "{borders} of 64,000 names end in six zero bits, about 1,000 expected");
}
