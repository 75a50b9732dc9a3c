//! What is carried from one life of the process to the next.

use bytes::Bytes;

use super::rig::{Rig, config, judge};
use crate::client::{Config, Saved, SavedError, Variant};

/// A client that holds something, and what it saves.
fn saved(variant: Variant, secrets: bool) -> Bytes {
    let mut rig = Rig::new(Config { variant, ttl: true, ..config(&["s"]) });
    rig.subscribe("CDS *").subscribe("RDS r").subscribe("SDS key").open(1);
    let version = if variant == Variant::Sotw { "v5 " } else { "" };
    rig.tell(1, &format!("CDS {version}1 a@1 b@1 lives@1~5"));
    rig.tell(1, &format!("RDS {version}2 r@1"));
    rig.tell(1, &format!("SDS {version}3 key@1"));
    rig.client.save(secrets)
}

fn restored(variant: Variant, bytes: &Bytes) -> Rig {
    let mut rig = Rig::of(variant);
    rig.client.restore(Saved::decode(bytes).expect("what was saved"), &mut judge);
    rig
}

#[test]
fn what_was_held_is_in_force_before_any_server_answers_and_the_stream_goes_on_from_there() {
    let mut rig = restored(Variant::Delta, &saved(Variant::Delta, false));
    assert_eq!(rig.has("CDS a"), "nothing", "it is not asked for");
    rig.subscribe("CDS *").subscribe("RDS r").subscribe("SDS key");
    assert_eq!(rig.events(), "CDS a, CDS b, RDS r");
    assert_eq!(rig.open(1), "node CDS +* =a@1 =b@1 | SDS +key | RDS +r =r@1");
}

#[test]
fn secrets_are_saved_only_if_that_is_wanted() {
    let without = saved(Variant::Delta, false);
    assert!(!without.windows(3).any(|part| part == b"key"));
    let mut rig = restored(Variant::Delta, &saved(Variant::Delta, true));
    rig.subscribe("SDS key");
    assert_eq!(rig.has("SDS key"), "1 key@1");
}

#[test]
fn the_version_of_a_state_of_the_world_is_resumed_if_all_of_it_was_saved() {
    let mut rig = restored(Variant::Sotw, &saved(Variant::Sotw, false));
    rig.subscribe("CDS *").subscribe("RDS r").subscribe("SDS key");
    // one of the clusters has a time to live, and a secret is not saved
    assert_eq!(rig.open(1), "node CDS v n [*] | SDS v n [key] | RDS v5 n [r]");
}

#[test]
fn a_saved_wildcard_is_resumed_with_its_version() {
    let mut first = Rig::of(Variant::Sotw);
    first.subscribe("CDS *").open(1);
    first.tell(1, "CDS v5 1 a@1");
    let mut rig = restored(Variant::Sotw, &first.client.save(false));
    assert_eq!(rig.subscribe("CDS *").open(1), "node CDS v5 n [*]");
}

#[test]
fn what_is_not_good_any_more_is_not_restored() {
    let mut rig = Rig::of(Variant::Sotw);
    let saved = Saved::decode(&saved(Variant::Sotw, false)).expect("what was saved");
    rig.client.restore(saved, &mut |offer| if offer.name == "r" { Err("no".into()) } else { Ok(()) });
    rig.subscribe("CDS *").subscribe("RDS r");
    assert_eq!((rig.has("RDS r"), rig.events()), ("unknown".into(), "CDS a, CDS b".into()));
    assert_eq!(rig.open(1), "node CDS v n [*] | RDS v n [r]");
}

#[test]
fn the_same_content_is_the_same_bytes_and_survives_another_life() {
    let bytes = saved(Variant::Delta, true);
    assert_eq!(bytes, saved(Variant::Delta, true));
    let mut rig = restored(Variant::Delta, &bytes);
    rig.subscribe("CDS *").subscribe("RDS r").subscribe("SDS key");
    assert_eq!(Saved::decode(&rig.client.save(true)), Saved::decode(&bytes));
}

#[test]
fn any_damage_is_an_error() {
    let bytes = saved(Variant::Delta, false);
    for length in 0..bytes.len() {
        assert!(Saved::decode(&bytes.slice(..length)).is_err(), "the first {length} bytes");
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 1;
        let expect = match at {
            0..4 => SavedError::Foreign,
            4..7 => SavedError::Format(1 ^ (1 << (8 * (7 - at)))),
            7 => SavedError::Format(0),
            _ => SavedError::Damaged,
        };
        assert_eq!(Saved::decode(&damaged.into()), Err(expect), "byte {at}");
    }
}

#[test]
fn saved_bodies_are_not_shown() {
    let saved = Saved::decode(&saved(Variant::Delta, true)).expect("what was saved");
    assert_eq!(format!("{saved:?}"), "Saved(4 resources)");
}
