//! The figures of one row: of one reporter, or summed over all.

use std::sync::Arc;

use super::{Connections, Load, Metric, Rate};

/// Rates and values are kept in millionths.
pub(super) const MILLION: f64 = 1e6;

/// Requests each second that one client can have sent to one place: a hundred times what a proxy on a large machine does. What
/// [`super::rows::MOST_REPORTERS`] clients say adds up to less than 2^62, in millionths.
const MOST_PER_SECOND: f64 = 1e8;

/// Requests that one client can have under way to one place: each costs it some KB.
const MOST_IN_PROGRESS: u64 = 100_000_000;

/// Largest value of a metric: bytes, for a machine with 1 TB. In millionths, times the requests that one client can have sent, times
/// [`super::rows::MOST_REPORTERS`]: below 2^102, and a million times that fits into 128 bits.
const MOST_VALUE: f64 = 1e12;

/// Metrics of one place, or categories of drops of one cluster: the three utilisations and those that an application names, which
/// are few, as they travel with each of its answers.
pub(super) const MOST_METRICS: usize = 16;

/// The same of all reports together, about: the names of 16 applications. Each is looked at with each change of the place's sum.
pub(super) const MOST_NAMES: usize = 256;

/// Of a locality or an endpoint; of a cluster the first rate is that of drops and the tallies are by category. All rates in millionths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    /// Issued, succeeded, failed.
    pub(super) rates: [u64; 3],
    pub(super) in_progress: u64,
    pub(super) more: Option<Box<More>>,
}

/// What few clients report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct More {
    /// Opened, not opened (rates), open.
    pub(super) connections: [u64; 3],
    /// Sorted by name.
    pub(super) tallies: Vec<Tally>,
}

/// A metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) name: Arc<str>,
    /// Requests that ended with it.
    pub(super) requests: u64,
    /// The sum of its values, each second.
    pub(super) value: u128,
}

/// Turns what happened in a period into rates, and notes what cannot be.
pub(super) struct Scale {
    /// Millionths of a second's part in the period.
    factor: f64,
    /// A figure was beyond what is possible.
    pub(super) odd: bool,
}

impl Scale {
    pub(super) fn new(seconds: f64) -> Self {
        Self { factor: MILLION / seconds, odd: false }
    }

    /// A counter's rate.
    pub(super) fn rate(&mut self, count: u64) -> u64 {
        let rate = count as f64 * self.factor;
        let most = MOST_PER_SECOND * MILLION;
        self.odd |= rate > most;
        (rate.min(most) + 0.5) as u64
    }

    /// A counter as it can be.
    pub(super) fn count(&self, count: u64) -> u64 {
        count.min((MOST_PER_SECOND * MILLION / self.factor) as u64)
    }

    pub(super) fn gauge(&mut self, value: u64) -> u64 {
        self.odd |= value > MOST_IN_PROGRESS;
        value.min(MOST_IN_PROGRESS)
    }

    /// A metric; none if it says nothing. Of one that cannot be the possible part counts.
    pub(super) fn tally(&mut self, name: Arc<str>, count: u64, total: f64) -> Option<Tally> {
        if count == 0 || !total.is_finite() {
            self.odd |= total != 0.0;
            return None;
        }
        let requests = self.rate(count);
        let possible = total.clamp(0.0, MOST_VALUE * self.count(count) as f64);
        self.odd |= total != possible;
        Some(Tally { name, requests, value: (possible * self.factor).round() as u128 })
    }
}

impl Numbers {
    pub(super) fn is_zero(&self) -> bool {
        self.in_progress == 0 && self.rates == [0; 3] && self.more.is_none()
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.combine(other, u64::saturating_add, u128::saturating_add);
    }

    /// Takes away what was added before.
    pub(super) fn subtract(&mut self, other: &Self) {
        self.combine(other, u64::saturating_sub, u128::saturating_sub);
        if let Some(more) = &mut self.more {
            more.tallies.retain(|tally| tally.requests != 0 || tally.value != 0);
        }
        self.more.take_if(|more| **more == More::default());
    }

    fn combine(&mut self, other: &Self, small: fn(u64, u64) -> u64, large: fn(u128, u128) -> u128) {
        for (mine, theirs) in self.rates.iter_mut().zip(other.rates) {
            *mine = small(*mine, theirs);
        }
        self.in_progress = small(self.in_progress, other.in_progress);
        let Some(theirs) = &other.more else { return };
        let more = self.more.get_or_insert_default();
        for (mine, theirs) in more.connections.iter_mut().zip(theirs.connections) {
            *mine = small(*mine, theirs);
        }
        for Tally { name, requests, value } in &theirs.tallies {
            let tally = more.tally(name);
            (tally.requests, tally.value) = (small(tally.requests, *requests), large(tally.value, *value));
        }
    }

    /// The rate of each tally.
    pub(super) fn tallied(&self) -> impl Iterator<Item = (Arc<str>, Rate)> {
        let tallies = self.more.iter().flat_map(|more| &more.tallies);
        tallies.map(|tally| (Arc::clone(&tally.name), Rate(tally.requests)))
    }

    pub(super) fn tallies(&self) -> &[Tally] {
        self.more.as_ref().map_or(&[], |more| &more.tallies)
    }

    /// As it is told.
    pub(super) fn load(&self) -> Load {
        let [issued, succeeded, failed] = self.rates.map(Rate);
        let [opened, refused, active] = self.more.as_ref().map_or([0; 3], |more| more.connections);
        let connections = Connections { opened: Rate(opened), failed: Rate(refused), active };
        let metrics = self.tallies().iter().map(|tally| (Arc::clone(&tally.name), tally.metric())).collect();
        Load { issued, succeeded, failed, in_progress: self.in_progress, connections, metrics }
    }
}

impl More {
    /// The tally of this name, a new one if need be.
    pub(super) fn tally(&mut self, name: &Arc<str>) -> &mut Tally {
        let at = match self.tallies.binary_search_by(|tally| tally.name.cmp(name)) {
            Ok(at) => at,
            Err(at) => {
                self.tallies.insert(at, Tally { name: Arc::clone(name), requests: 0, value: 0 });
                at
            }
        };
        #[expect(clippy::indexing_slicing, reason = "found or inserted just now")]
        &mut self.tallies[at]
    }
}

impl Tally {
    fn metric(&self) -> Metric {
        let mean = (self.value * MILLION as u128).checked_div(u128::from(self.requests)).unwrap_or(0);
        Metric { requests: Rate(self.requests), mean: u64::try_from(mean).unwrap_or(u64::MAX) }
    }
}
