//! Places for tokens, and groups that would take them all.

use std::time::Duration;

use super::super::hash;
use super::*;

fn identity(name: &str, now: Instant) -> Identity {
    Identity { name: name.into(), expires: Some(now + Duration::from_secs(3600)), revoked: None }
}

fn fill(accepted: &mut Accepted, group: &str, count: usize, now: Instant) {
    for at in 0..count {
        drop(accepted.insert(hash(&format!("{group}{at}")), identity("pod", now), group, now));
    }
}

#[test]
fn tokens_of_one_group_leave_those_of_others() {
    let (mut accepted, now) = (Accepted::default(), Instant::now());
    drop(accepted.insert(hash("proxy"), identity("proxy", now), "infra", now));
    fill(&mut accepted, "tenant", 2 * REMEMBERED, now + 2 * ASKED_AGAIN);
    assert!(accepted.get(&hash("proxy")).is_some(), "the token of another namespace is forgotten");
    assert_eq!(accepted.tokens.len(), REMEMBERED - REMEMBERED / 4);
    drop(accepted.insert(hash("next"), identity("next", now), "infra", now));
    assert!(accepted.get(&hash("next")).is_some(), "there is room for a further one");
}

#[test]
fn large_groups_give_way_and_all_is_bounded() {
    let (mut accepted, now) = (Accepted::default(), Instant::now());
    for group in 0..20 {
        fill(&mut accepted, &group.to_string(), 2 * SHARE, now);
    }
    assert_eq!(accepted.tokens.len(), REMEMBERED);
    assert_eq!(accepted.groups.values().map(BTreeSet::len).sum::<usize>(), REMEMBERED);
    drop(accepted.insert(hash("proxy"), identity("proxy", now), "infra", now));
    assert!(accepted.get(&hash("proxy")).is_some());
    assert_eq!(accepted.tokens.len(), REMEMBERED);
}

#[test]
fn token_of_a_call_is_never_forgotten() {
    let (mut accepted, now) = (Accepted::default(), Instant::now());
    let first = accepted.insert(hash("first"), identity("first", now), "tenant", now);
    // verified again since: the earlier call still has it
    drop(accepted.insert(hash("first"), identity("first", now), "tenant", now));
    drop(accepted.insert(hash("idle"), identity("idle", now), "tenant", now));
    fill(&mut accepted, "tenant", 2 * REMEMBERED, now + ASKED_AGAIN);
    assert!(accepted.get(&hash("first")).is_some() && accepted.get(&hash("idle")).is_none());
    drop(first);
    fill(&mut accepted, "tenant", 2 * REMEMBERED, now + 2 * ASKED_AGAIN);
    assert!(accepted.get(&hash("first")).is_none());
}
