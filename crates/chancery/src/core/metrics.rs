//! Metrics of the control plane: a small fixed number of series, whatever the number of routes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use engine::TickStats;

use super::{Core, micros};
use crate::report::refused;

/// Counters and gauges since the start.
#[derive(Default)]
pub(super) struct Metrics {
    /// Batches of sources.
    pub(super) batches: u64,
    /// Resources that a proxy refused.
    pub(super) refused: u64,
    /// Streams of load reports that held what cannot be.
    pub(super) misreports: u64,
    ticks: u64,
    runs: u64,
    tick_micros: u64,
    connected: BTreeMap<Arc<str>, usize>,
    /// The process that each fleet's Envoy was last.
    envoys: BTreeMap<Arc<str>, u32>,
    envoy_restarts: u64,
}

impl Metrics {
    /// Notes one commit: from the first event taken to everything handed on.
    pub(super) fn tick(&mut self, stats: &TickStats, took: Duration) {
        self.ticks += 1;
        self.runs += stats.runs;
        self.tick_micros += micros(took);
    }

    /// A fleet has so many proxies. That one came or went is not told of each: facts about one client take each other's place.
    pub(super) fn connected(&mut self, fleet: Arc<str>, count: usize) {
        match count {
            0 => self.connected.remove(&fleet),
            count => self.connected.insert(fleet, count),
        };
    }

    /// Whether a proxy of a fleet is connected.
    pub(super) fn has(&self, fleet: &str) -> bool {
        self.connected.get(fleet).is_some_and(|count| *count > 0)
    }

    /// Fleets with a proxy that is connected.
    pub(super) fn fleets(&self) -> impl Iterator<Item = &Arc<str>> {
        self.connected.keys()
    }

    /// A fleet's Envoy is this process. Another one than before: it died, or was to be started otherwise.
    pub(super) fn envoy(&mut self, fleet: &Arc<str>, pid: u32) {
        let before = self.envoys.insert(Arc::clone(fleet), pid);
        self.envoy_restarts += u64::from(before.is_some_and(|before| before != pid));
    }

    /// A fleet has no Envoy any more, and shall have none.
    pub(super) fn envoy_gone(&mut self, fleet: &Arc<str>) {
        self.envoys.remove(fleet);
    }

    /// OpenMetrics text.
    pub(super) fn text(&self, core: &Core, dropped_lines: usize) -> String {
        let graph = core.translator.graph();
        let mut text = String::new();
        let mut series = |name: &str, kind: &str, help: &str, value: String| {
            let suffix = if kind == "counter" { "_total" } else { "" };
            let _ = write!(
                text,
                "# HELP chancery_{name} {help}.\n# TYPE chancery_{name} {kind}\nchancery_{name}{suffix} {value}\n"
            );
        };
        series("source_batches", "counter", "Batches that sources sent", self.batches.to_string());
        series("ticks", "counter", "Commits of the graph", self.ticks.to_string());
        series("runs", "counter", "Units that ran again in all commits", self.runs.to_string());
        let seconds = format!("{}.{:06}", self.tick_micros / 1_000_000, self.tick_micros % 1_000_000);
        series("tick_seconds", "counter", "Time from taking events to handing changes on", seconds);
        series("refused_resources", "counter", "Resources that a proxy refused", self.refused.to_string());
        let misreports = self.misreports.to_string();
        series("misreports", "counter", "Streams of load reports that held what cannot be", misreports);
        series("envoy_restarts", "counter", "Starts of an Envoy in place of another", self.envoy_restarts.to_string());
        series(
            "dropped_log_lines",
            "counter",
            "Lines that nobody read from standard error or output",
            dropped_lines.to_string(),
        );
        series("objects", "gauge", "Objects in force", core.translator.stored().len().to_string());
        series("routes", "gauge", "Routes with a status", graph.len(core.outputs.route_statuses).to_string());
        series("gateways", "gauge", "Gateways with a status", graph.len(core.outputs.gateway_statuses).to_string());
        series("clusters", "gauge", "Clusters of all fleets", core.outputs.cluster_count(graph).to_string());
        let problems = core.problems();
        let count = problems.len().to_string();
        series("problems", "gauge", "Problems that `chancery status problems` shows", count);
        series(
            "connected_proxies",
            "gauge",
            "Proxies with an open stream",
            self.connected.values().sum::<usize>().to_string(),
        );
        refused::write(&problems, &mut text);
        text.push_str("# EOF\n");
        text
    }
}
