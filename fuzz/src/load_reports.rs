//! Any bytes as load reports of several clients: reading them never panics, nothing of them stays when they are gone, and what is told
//! is no more than can be.

use std::sync::Arc;
use std::time::Duration;

use xds::load::Loads;
use xds::{Event, Node};

const INTERVAL: Duration = Duration::from_secs(10);

/// One input.
pub fn run(data: &[u8]) {
    let mut loads = Loads::new("fleet".into(), INTERVAL);
    let mut now = Duration::ZERO;
    let reporters: Vec<_> = (0..3)
        .map(|n: u32| {
            let node = Node { id: n.to_string().into(), ..Node::default() };
            loads.open(Arc::new(node), now).expect("there is room")
        })
        .collect();
    let mut clusters = std::collections::BTreeSet::new();
    let mut take = |loads: &mut Loads, now| {
        for event in loads.advance(now) {
            let Event::Load { cluster, load, .. } = event else { continue };
            let Some(load) = load else {
                clusters.remove(&cluster);
                continue;
            };
            assert!((1..=3).contains(&load.reporters), "{load:?}");
            for locality in load.localities.values() {
                for load in locality.endpoints.values().chain([&locality.load]) {
                    // of three reporters, and of each once for every way to write a place down
                    assert!(
                        load.issued.per_second() <= 3e8 * 16_384.0 && load.metrics.len() <= 3 * 16 * 256,
                        "{load:?}"
                    );
                }
            }
            clusters.insert(cluster);
        }
        clusters.len()
    };
    // a byte says who reports, or that time passes; the report is what follows up to the next 0xff
    for (turn, message) in data.split(|byte| *byte == 0xff).enumerate() {
        let Some((&who, message)) = message.split_first() else { continue };
        let Some(reporter) = reporters.get(usize::from(who % 4)) else {
            now += INTERVAL / 3 * u32::from(who / 4 % 16);
            take(&mut loads, now);
            continue;
        };
        let _malformed = loads.receive(*reporter, message, now, &|name| turn % 8 != 7 || name.len() < 4);
    }
    for reporter in reporters {
        loads.close(reporter);
    }
    assert_eq!(take(&mut loads, now + 4 * INTERVAL), 0, "no data, not zero");
    assert_eq!(loads.next_deadline(), None, "nothing is left");
}
