//! Figures: one JSON line each.

use std::io::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

/// Collects what was printed.
#[derive(Default)]
pub(crate) struct Report {
    /// A benchmark could not be run to its end.
    pub(crate) broken: bool,
}

/// One figure.
pub(crate) struct Figure<'a> {
    /// Which benchmark.
    pub(crate) bench: &'a str,
    /// What was measured, with percentile where there is one.
    pub(crate) figure: &'a str,
    /// The size that it was measured at.
    pub(crate) n: usize,
    /// The value, in `unit`.
    pub(crate) value: f64,
    /// `ms`, `us`, `s`, `MB`, `bytes`, `1/s`, `ratio`, or what is counted.
    pub(crate) unit: &'a str,
    /// The value should not be above this; below it for 1/s.
    pub(crate) limit: Option<f64>,
    /// The same of a peer, from the same run or with its date.
    pub(crate) peer: Value,
}

impl Report {
    /// Prints a figure.
    pub(crate) fn add(&mut self, figure: &Figure<'_>) {
        let Figure { bench, figure: name, n, value, unit, limit, peer } = figure;
        let ok = limit.map(|limit| if *unit == "1/s" { *value >= limit } else { *value <= limit });
        let line = json!({
            "bench": bench, "figure": name, "n": n, "value": rounded(*value), "unit": unit, "limit": limit, "ok": ok, "peer": peer
        });
        let _ = writeln!(std::io::stdout(), "{line}");
    }

    /// A figure without a peer.
    pub(crate) fn figure(&mut self, bench: &str, figure: &str, n: usize, value: (f64, &str), limit: Option<f64>) {
        self.add(&Figure { bench, figure, n, value: value.0, unit: value.1, limit, peer: Value::Null });
    }
}

/// Durations of many rounds.
#[derive(Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    /// Adds one.
    pub(crate) fn add(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    /// The largest.
    pub(crate) fn max(&mut self) -> Duration {
        self.percentile(100)
    }

    /// Their mean.
    pub(crate) fn mean(&self) -> Duration {
        let count = u32::try_from(self.0.len()).unwrap_or(u32::MAX).max(1);
        self.0.iter().sum::<Duration>() / count
    }

    /// The smallest sample that at least `percent` of all do not exceed.
    pub(crate) fn percentile(&mut self, percent: usize) -> Duration {
        self.0.sort_unstable();
        let index = (self.0.len() * percent).div_ceil(100).saturating_sub(1);
        self.0.get(index).copied().unwrap_or_default()
    }
}

/// Milliseconds.
pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Microseconds.
pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// Four significant digits are more than any figure here is worth.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// The machine's load average of the last minute.
pub(crate) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// A line for people.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
