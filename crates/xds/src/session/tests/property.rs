//! After any history each client has exactly what its fleet should have, and on the way never a route to a cluster that is not
//! ready. The clients are models of Envoy, in any variants of the protocol; publications, deliveries both ways, broken streams, new
//! servers and time are in any order.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::rig::{WAYS, Way};
use super::world::{Edit, Step, World};

fn way() -> impl Strategy<Value = Way> {
    prop::sample::select(WAYS.to_vec())
}

fn version(bad: bool) -> BoxedStrategy<u8> {
    if bad {
        let bad = [90u8, 95, 80, 72, 78].map(Just);
        prop_oneof![7 => 1u8..4, 3 => proptest::strategy::Union::new(bad)].boxed()
    } else {
        (1u8..4).boxed()
    }
}

fn edit(bad: bool) -> impl Strategy<Value = Edit> {
    prop_oneof![
        4 => (0u8..5, version(bad)).prop_map(|(name, version)| Edit::Cluster(name, version)),
        2 => (0u8..5).prop_map(Edit::NoCluster),
        2 => (0u8..5, 1u8..4).prop_map(|(name, version)| Edit::Endpoints(name, version)),
        6 => (0u8..5, version(bad), 0u8..32).prop_map(|(name, version, bits)| Edit::Route(name, version, bits)),
        1 => (0u8..2).prop_map(Edit::NoHost),
        3 => (0u8..2, version(bad), 0u8..8).prop_map(|(name, version, parts)| Edit::Listener(name, version, parts)),
        1 => (0u8..2).prop_map(Edit::NoListener),
        1 => (0u8..2, 1u8..4).prop_map(|(name, version)| Edit::Secret(name, version)),
    ]
}

fn step(bad: bool, restarts: bool) -> impl Strategy<Value = Step> {
    let rare = prop_oneof![
        1 => Just(Step::Warm),
        1 => Just(Step::Save),
        u32::from(restarts) => any::<bool>().prop_map(Step::Restart),
    ];
    prop_oneof![
        4 => prop::collection::vec(edit(bad), 1..4).prop_map(Step::Publish),
        8 => (1usize..5, 0usize..16).prop_map(|(count, which)| Step::ToClient(count, which)),
        8 => (1usize..5, 0usize..16).prop_map(|(count, which)| Step::ToServer(count, which)),
        1 => (0usize..16).prop_map(Step::Break),
        1 => (0usize..64).prop_map(Step::Cut),
        1 => (1u64..500).prop_map(Step::Pass),
        1 => (500u64..20_000).prop_map(Step::Pass),
        1 => (1u64..70_000).prop_map(Step::Calm),
        3 => rare,
    ]
}

/// The same histories each time; `HISTORIES=100000` tries as many others.
#[expect(clippy::disallowed_methods, reason = "how many histories is the business of whoever runs this")]
fn histories() -> ProptestConfig {
    let more = std::env::var("HISTORIES").ok().and_then(|number| number.parse().ok());
    let rng_seed = if more.is_some() { RngSeed::Random } else { RngSeed::Fixed(16) };
    ProptestConfig { cases: more.unwrap_or(600), failure_persistence: None, rng_seed, ..ProptestConfig::default() }
}

/// At most so many clients, some of which may refuse what the others take.
fn ways(most: usize, picky: bool) -> impl Strategy<Value = Vec<(Way, bool)>> {
    prop::collection::vec((way(), any::<bool>().prop_map(move |one| picky && one)), 1..=most)
}

fn steps(bad: bool, restarts: bool) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(bad, restarts), 1..60)
}

fn tell(ways: &[(Way, bool)], steps: &[Step], strict: bool) {
    let mut world = World::new(ways, strict);
    steps.iter().for_each(|step| world.step(step));
    world.finish();
    world.clear();
}

proptest! {
    #![proptest_config(histories())]

    #[test]
    fn any_history_of_good_resources_ends_with_exactly_them_and_breaks_no_route(
        ways in ways(3, false), steps in steps(false, false),
    ) {
        tell(&ways, &steps, true);
    }

    #[test]
    fn any_history_with_bad_resources_ends_with_the_last_accepted_ones(
        ways in ways(1, false), steps in steps(true, false),
    ) {
        tell(&ways, &steps, false);
    }

    #[test]
    fn any_history_of_several_clients_with_bad_resources_ends_with_the_last_accepted_ones(
        ways in ways(3, false), steps in steps(true, false),
    ) {
        tell(&ways, &steps, false);
    }

    #[test]
    fn any_history_of_good_resources_and_new_servers_ends_with_exactly_them_and_breaks_no_route(
        ways in ways(3, false), steps in steps(false, true),
    ) {
        tell(&ways, &steps, true);
    }

    #[test]
    fn any_history_of_clients_that_disagree_ends_with_the_last_accepted_ones(
        ways in ways(3, true), steps in steps(true, true),
    ) {
        tell(&ways, &steps, false);
    }
}
