//! Patches one after the other: what is left out, and what that leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ir::RawName;
use ir::patch::{Action, Patch, PatchSet, PolicyPatches};
use serde_json::{Value, json};

use super::{Base, PatchOutcome, patched};

const ID: &str = "envoy.config.cluster.v3.Cluster";

fn policy(name: &str, patches: &[(&str, Value)]) -> PolicyPatches {
    let patch = |(number, (pointer, value)): (u32, &(&str, Value))| Patch {
        number,
        action: Action::Add(Arc::new(value.clone())),
        query: None,
        pointer: (*pointer).into(),
    };
    PolicyPatches { policy: name.into(), patches: (0..).zip(patches).map(patch).collect() }
}

/// What a cluster is with these policies, without its name, and what became of each.
fn check(base: Option<Value>, set: &PatchSet, expect: Option<Value>, outcomes: &[PatchOutcome]) -> u64 {
    let bytes = base.map(|base| protojson::from_json(ID, &base).unwrap());
    let base = bytes.as_deref().map(|bytes| Base { bytes, needs: &|_| false, vhds: false });
    let id = RawName { message: ID, name: "web".into() };
    let patched = patched(&id, base.as_ref(), set, &mut |_| false);
    let json = patched.resource.map(|resource| protojson::to_proto_json(ID, &resource.body.concat()).unwrap());
    assert_eq!(json, expect);
    assert_eq!(patched.outcomes, outcomes);
    patched.mark
}

fn web(timeout: &str) -> Value {
    json!({"name": "web", "connect_timeout": timeout})
}

fn set(policies: Vec<PolicyPatches>) -> PatchSet {
    PatchSet { policies, refused: BTreeMap::new(), accepted: BTreeSet::new(), rules: ir::raw::RawRules::default() }
}

#[test]
fn a_policy_counts_whole_or_not_at_all_and_the_others_go_on() {
    let timeout = |name, timeout: &str| policy(name, &[("/connect_timeout", json!(timeout))]);
    let half = policy("half", &[("/connect_timeout", json!("7s")), ("/type", json!("STATTIC"))]);
    let words = "type: envoy.config.cluster.v3.Cluster.DiscoveryType has no value STATTIC, did you mean STATIC";
    let left_out = PatchOutcome::LeftOut(None, words.to_owned(), None);
    let applied = || PatchOutcome::Applied(Vec::new());
    let all = set(vec![timeout("one", "2s"), half, timeout("two", "3s")]);
    check(Some(web("1s")), &all, Some(web("3s")), &[applied(), left_out, applied()]);
}

#[test]
fn what_a_proxy_has_refused_is_left_out_until_it_is_another() {
    let timeout = |name, timeout: &str| policy(name, &[("/connect_timeout", json!(timeout))]);
    let applied = || PatchOutcome::Applied(Vec::new());
    let mut both = set(vec![timeout("one", "2s"), timeout("two", "3s")]);
    let mark = check(Some(web("1s")), &both, Some(web("3s")), &[applied(), applied()]);
    both.refused.insert(mark, "no".into());
    let refused = || PatchOutcome::Refused("no".into());
    let first = check(Some(web("1s")), &both, Some(web("2s")), &[applied(), refused()]);
    // What is beneath them may change; another first, or another second, is tried.
    check(Some(web("9s")), &both, Some(web("2s")), &[applied(), refused()]);
    both.refused.insert(first, "no".into());
    check(Some(web("1s")), &both, Some(web("3s")), &[refused(), applied()]);
    both.policies = vec![timeout("one", "4s"), timeout("two", "3s")];
    let waits = PatchOutcome::LeftOut(None, super::WAITS.to_owned(), None);
    let one = check(Some(web("1s")), &both, Some(web("4s")), &[applied(), waits]);
    both.accepted.insert(one);
    check(Some(web("1s")), &both, Some(web("3s")), &[applied(), applied()]);
}

#[test]
fn who_is_to_blame_is_found_in_as_many_steps_as_there_are_policies() {
    const POLICIES: usize = 20;
    for guilty in [0, 7, POLICIES - 1] {
        let names: Vec<String> = (0..POLICIES).map(|number| format!("policy{number}")).collect();
        let mut all = set(names.iter().map(|name| policy(name, &[("/alt_stat_name", json!(name))])).collect());
        let bytes = protojson::from_json(ID, &web("1s")).unwrap();
        let base = Base { bytes: &bytes, needs: &|_| false, vhds: false };
        let id = RawName { message: ID, name: "web".into() };
        let is_applied = |outcome: &PatchOutcome| matches!(outcome, PatchOutcome::Applied(_));
        let mut steps = 0;
        let left = loop {
            let now = patched(&id, Some(&base), &all, &mut |_| false);
            let applied: Vec<bool> = now.outcomes.iter().map(is_applied).collect();
            steps += 1;
            if applied[guilty] {
                all.refused.insert(now.mark, "no".into());
            } else if applied.iter().filter(|applied| **applied).count() == POLICIES - 1 {
                break now.outcomes[guilty].clone();
            } else {
                all.accepted.insert(now.mark);
            }
            assert!(steps <= 2 * POLICIES, "{applied:?}");
        };
        assert_eq!(left, PatchOutcome::Refused("no".into()));
    }
}

#[test]
fn a_resource_that_is_not_there_is_added_whole_or_not_found() {
    let whole = policy("whole", &[("", web("5s")), ("/alt_stat_name", json!("w"))]);
    let part = policy("part", &[("/connect_timeout", json!("2s"))]);
    let added = json!({"name": "web", "connect_timeout": "2s", "alt_stat_name": "w"});
    let applied = || PatchOutcome::Applied(Vec::new());
    check(None, &set(vec![part.clone()]), None, &[PatchOutcome::NotFound]);
    check(None, &set(vec![whole.clone(), part.clone()]), Some(added), &[applied(), applied()]);
    check(
        None,
        &set(vec![part, whole]),
        Some(json!({"name": "web", "connect_timeout": "5s", "alt_stat_name": "w"})),
        &[PatchOutcome::NotFound, applied()],
    );
}

#[test]
fn patches_of_all_policies_share_one_budget() {
    let mut wide = web("1s");
    let keys: serde_json::Map<String, Value> = (0..1_000).map(|key| (format!("k{key}"), json!("v"))).collect();
    wide["metadata"] = json!({"filter_metadata": {"a": keys}});
    let bytes = protojson::from_json(ID, &wide).unwrap();
    let base = Base { bytes: &bytes, needs: &|_| false, vhds: false };
    let id = RawName { message: ID, name: "web".into() };
    let outcomes = |policies: usize, query: Option<&str>, pointer: &str| {
        let patch = Patch {
            number: 7,
            action: Action::Test(Arc::new(json!("v"))),
            query: query.map(Into::into),
            pointer: pointer.into(),
        };
        let one =
            |number| PolicyPatches { policy: format!("a/{number:04}").into(), patches: Arc::new([patch.clone()]) };
        patched(&id, Some(&base), &set((0..policies).map(one).collect()), &mut |_| false).outcomes
    };
    let query = Some("$.metadata.filter_metadata.a[?match(@, 'v')]");
    assert_eq!(outcomes(1, query, ""), [PatchOutcome::Applied(Vec::new())]);
    // Queries that find, tests that fail, and many that do nothing but have the resource printed and read.
    for (policies, query, pointer) in
        [(100, query, ""), (1_000, None, "/name"), (1_000, None, "/metadata/filter_metadata/a/k1")]
    {
        let outcomes = outcomes(policies, query, pointer);
        let is_spent = |outcome: &PatchOutcome| matches!(outcome, PatchOutcome::LeftOut(_, words, _) if words.contains("together cost too much"));
        let first = outcomes.iter().position(is_spent).expect("a policy for which nothing is left");
        assert!((2..policies / 2).contains(&first), "{first} of {policies}");
        assert!(outcomes.iter().skip(first).all(is_spent), "{outcomes:?}");
    }
}
