//! After any history what is told is the sum of the last reports that count, whatever came in which order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use proto::envoy::config::endpoint::v3::{ClusterStats, UpstreamLocalityStats};

use super::rig::{INTERVAL, Rig, cluster, endpoint, metric, zone};
use crate::load::{ClusterLoad, ReporterId};

#[derive(Clone, Debug)]
enum Step {
    Report(u8, Vec<Part>),
    /// The stream of a reporter ends, and another of its node begins.
    Again(u8),
    /// Tenths of an interval.
    Pass(u8),
}

/// Cluster, zone, requests, in progress, metric.
type Part = (u8, u8, u32, u32, u16);

const CLUSTERS: [&str; 3] = ["a", "b", "c"];
const ZONES: [&str; 3] = ["", "x", "y"];

/// Reports of odd intervals: rates are rounded.
fn stats(reporter: u8, parts: &[Part]) -> Vec<ClusterStats> {
    let mut clusters: BTreeMap<u8, Vec<UpstreamLocalityStats>> = BTreeMap::new();
    for (name, place, requests, in_progress, value) in parts {
        let port = u32::from(*value % 3);
        let locality = UpstreamLocalityStats {
            total_requests_in_progress: (*in_progress).into(),
            load_metric_stats: vec![metric(["m", "n"][usize::from(*value % 2)], 3, f64::from(*value) / 7.0)],
            upstream_endpoint_stats: vec![endpoint("10.0.0.1", port, (*requests).into())],
            ..zone(ZONES[usize::from(*place % 3)], (*requests).into())
        };
        clusters.entry(*name % 3).or_default().push(locality);
    }
    let seconds = 9.0 + f64::from(reporter) / 7.0;
    clusters.into_iter().map(|(name, zones)| cluster(CLUSTERS[usize::from(name)], seconds, zones)).collect()
}

/// What a new observer is told of these reports, each on a stream of its own.
fn from_scratch<'a>(reports: impl Iterator<Item = (u8, &'a [Part])>) -> BTreeMap<Arc<str>, ClusterLoad> {
    let mut rig = Rig::new();
    for (reporter, parts) in reports {
        let id = rig.open("");
        rig.report(&id, &stats(reporter, parts));
    }
    rig.gather();
    comparable(&rig)
}

/// All but the requests since the beginning, which have a history.
fn comparable(rig: &Rig) -> BTreeMap<Arc<str>, ClusterLoad> {
    let each = |load: &ClusterLoad| ClusterLoad { requests: 0, ..load.clone() };
    rig.told.iter().map(|(name, load)| (Arc::clone(name), each(load))).collect()
}

struct Stream {
    id: ReporterId,
    last: Option<(Duration, Vec<Part>)>,
    closed: bool,
    reporter: u8,
}

fn check(steps: &[Step]) -> Result<(), TestCaseError> {
    let mut rig = Rig::new();
    let mut streams: Vec<Stream> = Vec::new();
    let open = |rig: &mut Rig, reporter: u8| {
        let id = rig.open(&reporter.to_string());
        Stream { id, last: None, closed: false, reporter }
    };
    for reporter in 0..4 {
        streams.push(open(&mut rig, reporter));
    }
    for step in steps {
        match step {
            Step::Report(reporter, parts) => {
                let reporter = reporter % 4;
                streams.retain(|stream| stream.reporter != reporter || !stream.closed);
                for stream in streams.iter_mut().filter(|stream| stream.reporter == reporter) {
                    rig.report(&stream.id, &stats(reporter, parts));
                    stream.last = Some((rig.now, parts.clone()));
                }
            }
            Step::Again(reporter) => {
                let reporter = reporter % 4;
                for stream in streams.iter_mut().filter(|stream| stream.reporter == reporter && !stream.closed) {
                    rig.loads.close(stream.id);
                    stream.closed = true;
                }
                streams.push(open(&mut rig, reporter));
            }
            Step::Pass(tenths) => {
                rig.pass(INTERVAL / 10 * u32::from(*tenths));
                for stream in &mut streams {
                    stream.last.take_if(|(at, _)| *at + 3 * INTERVAL <= rig.now);
                }
            }
        }
    }
    rig.gather();
    for stream in &mut streams {
        stream.last.take_if(|(at, _)| *at + 3 * INTERVAL <= rig.now);
    }
    let counting = || streams.iter().filter_map(|stream| Some((stream.reporter, &*stream.last.as_ref()?.1)));
    let reports: Vec<(u8, &[Part])> = counting().collect();
    prop_assert_eq!(comparable(&rig), from_scratch(reports.iter().copied()));
    prop_assert_eq!(comparable(&rig), from_scratch(reports.iter().rev().copied()), "in another order");
    rig.pass(4 * INTERVAL);
    prop_assert!(rig.told.is_empty());
    for stream in &streams {
        rig.loads.close(stream.id);
    }
    prop_assert_eq!(rig.loads.next_deadline(), None);
    Ok(())
}

fn step() -> impl Strategy<Value = Step> {
    let part = (0..3u8, 0..3u8, 0..10_000u32, 0..50u32, any::<u16>());
    prop_oneof![
        6 => (0..4u8, prop::collection::vec(part, 0..6)).prop_map(|(reporter, parts)| Step::Report(reporter, parts)),
        1 => (0..4u8).prop_map(Step::Again),
        2 => (0..25u8).prop_map(Step::Pass),
    ]
}

#[test]
fn what_is_told_is_the_sum_of_the_last_reports_that_count() {
    let config = ProptestConfig {
        cases: 256,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(4),
        ..ProptestConfig::default()
    };
    proptest!(config, |(steps in prop::collection::vec(step(), 1..40))| {
        check(&steps)?;
    });
}
