//! What proxies send to each cluster: from their reports into the store, and from there to people.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Timestamp;
use serde_json::{Map, Value, json};
use store::{FactKey, LoadFacts, LocalityLoad, Traffic};
use xds::load::{ClusterLoad, Load};

use super::Core;

impl Core {
    /// Notes what is reported of a cluster; without a report there is no row.
    pub(super) fn note_load(&mut self, key: FactKey, load: Option<&ClusterLoad>) {
        let since = (self.clock)();
        let (store, graph) = self.translator.store();
        let loads = store.tables().loads;
        match load {
            Some(load) => graph.set(loads, key, Arc::new(facts(load, since))),
            None => drop(graph.remove(loads, &key)),
        }
    }

    /// Every cluster that is reported on, by Gateway.
    pub(super) fn loads_report(&self) -> Value {
        let (tables, graph) = (self.translator.stored().tables(), self.translator.graph());
        let rows: BTreeMap<&FactKey, &Arc<LoadFacts>> = graph.iter(tables.loads).collect();
        rows.into_iter().map(|(key, facts)| report(key, facts)).collect()
    }
}

fn facts(load: &ClusterLoad, since: Timestamp) -> LoadFacts {
    let localities = load.localities.iter().map(|(place, load)| {
        let endpoints = load.endpoints.iter().map(|(address, load)| (Arc::clone(address), traffic(load)));
        let key = [&place.region, &place.zone, &place.sub_zone].map(Arc::clone);
        (key, LocalityLoad { traffic: traffic(&load.load), endpoints: endpoints.collect() })
    });
    LoadFacts {
        reporters: load.reporters,
        requests: load.requests,
        dropped: load.dropped.0,
        dropped_by: load.dropped_by.iter().map(|(category, rate)| (Arc::clone(category), rate.0)).collect(),
        localities: localities.collect(),
        since,
    }
}

fn traffic(load: &Load) -> Traffic {
    Traffic {
        issued: load.issued.0,
        succeeded: load.succeeded.0,
        failed: load.failed.0,
        in_progress: load.in_progress,
        metrics: load.metrics.iter().map(|(name, metric)| (Arc::clone(name), metric.mean)).collect(),
    }
}

fn report(key: &FactKey, facts: &LoadFacts) -> Value {
    let localities = facts.localities.iter().map(|([region, zone, sub_zone], locality)| {
        let mut report = json!({ "region": &**region, "zone": &**zone, "subZone": &**sub_zone });
        let endpoints = locality.endpoints.iter().map(|(address, traffic)| {
            let mut report = json!({ "address": &**address });
            add(&mut report, traffic);
            report
        });
        let endpoints: Vec<Value> = endpoints.collect();
        add(&mut report, &locality.traffic);
        if let (Value::Object(report), false) = (&mut report, endpoints.is_empty()) {
            report.insert("endpoints".to_owned(), endpoints.into());
        }
        report
    });
    json!({
        "gateway": &*key.fleet,
        "cluster": &*key.name,
        "reporters": facts.reporters,
        "requests": facts.requests,
        "droppedPerSecond": whole(facts.dropped),
        "droppedPerSecondBy": named(&facts.dropped_by),
        "localities": localities.collect::<Vec<Value>>(),
        "since": facts.since.to_string(),
    })
}

fn add(report: &mut Value, traffic: &Traffic) {
    let figures = json!({
        "issuedPerSecond": whole(traffic.issued),
        "succeededPerSecond": whole(traffic.succeeded),
        "failedPerSecond": whole(traffic.failed),
        "inProgress": traffic.in_progress,
        "metrics": named(&traffic.metrics),
    });
    if let (Value::Object(report), Value::Object(figures)) = (report, figures) {
        report.extend(figures);
    }
}

fn named(figures: &BTreeMap<Arc<str>, u64>) -> Map<String, Value> {
    figures.iter().map(|(name, millionths)| (name.to_string(), whole(*millionths))).collect()
}

/// Of millionths.
fn whole(millionths: u64) -> Value {
    json!(millionths as f64 / 1e6)
}
