//! Objects from small name spaces that come, change and go: no panic, every resource keeps Envoy's rules, and any history ends where a
//! fresh start with the same objects begins.

use super::generate::{Step, step};
use super::world::{World, objects};
use arbitrary::Unstructured;

/// Steps of a history: enough for every object to come, change and go.
const STEPS: usize = 48;

/// One input.
pub fn run(data: &[u8]) {
    let mut source = Unstructured::new(data);
    let (mut world, mut facts) = (World::new(), false);
    for _ in 0..STEPS {
        if source.is_empty() {
            break;
        }
        match step(&mut source) {
            Ok(Step::Apply(json)) => world.apply(objects(&json)),
            Ok(Step::Delete(at)) => world.delete(at),
            Ok(Step::Publish) => world.publish(),
            Ok(Step::Live) => {
                facts = true;
                world.live();
            }
            Ok(Step::Cluster(at, state)) => {
                facts = true;
                world.cluster(at, state);
            }
            Err(_) => break,
        }
    }
    world.publish();
    world.check_rules();
    // What waits for a cluster is in its former shape: only without facts the past does not matter.
    if !facts {
        let fresh = world.afresh();
        assert_eq!(world.state(), fresh.state());
        assert_eq!(world.resources(), fresh.resources());
    }
}
