//! [`Loads`]: who has reported what, and until when it counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::rows::Rows;
use super::stage::{Part, Stage};
use super::wire::Malformed;
use crate::event::{Event, Node};

/// Reporters at a time, those included whose stream has ended and whose last report still counts: of 16,384 connections and their
/// predecessors. Each has 48 bytes for every place that it reports on.
pub(super) const MOST_REPORTERS: usize = 32_768;

/// A report counts until so many more are due.
const MISSED: u32 = 3;

/// What was reported is told after this part of the interval: more often would tell the same sums of many reporters again and again.
const GATHER: u32 = 10;

/// There is no room for another reporter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {MOST_REPORTERS} reporters")]
pub struct TooManyReporters;

/// A stream that reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReporterId {
    fleet: Arc<str>,
    number: u64,
}

struct Reporter {
    node: Arc<Node>,
    /// The last report.
    parts: Vec<Part>,
    /// When that came, or the stream.
    last: Duration,
    /// It has reported on this stream.
    reported: bool,
    /// The stream has ended; its last report counts for a while.
    closed: bool,
    /// It was told once that its reports hold what cannot be.
    odd: bool,
}

#[derive(Default)]
struct FleetLoads {
    rows: Rows,
    reporters: BTreeMap<u64, Reporter>,
    /// Those whose stream has ended, by node id.
    closed: BTreeSet<(Arc<str>, u64)>,
    /// Who reported what cannot be.
    misreports: Vec<(Arc<Node>, &'static str)>,
    /// When what is new is to be told.
    due: Option<Duration>,
}

/// What all clients report, by fleet. Times are since one arbitrary moment.
pub struct Loads {
    interval: Duration,
    /// Since when that is the interval.
    since: Duration,
    fleets: BTreeMap<Arc<str>, FleetLoads>,
    reporters: usize,
    /// The latest number of a reporter or a report.
    number: u64,
}

impl Loads {
    /// Nothing reported yet; clients are asked for a report each `interval`.
    #[must_use]
    pub fn new(interval: Duration) -> Self {
        Self { interval, since: Duration::ZERO, fleets: BTreeMap::new(), reporters: 0, number: 0 }
    }

    /// From now on clients are asked for a report each `interval`.
    pub fn set_interval(&mut self, interval: Duration, now: Duration) {
        if interval != self.interval {
            (self.interval, self.since) = (interval, now);
        }
    }

    /// A client's stream begins.
    ///
    /// # Errors
    /// There are too many.
    pub fn open(&mut self, fleet: &Arc<str>, node: Arc<Node>, now: Duration) -> Result<ReporterId, TooManyReporters> {
        if self.reporters >= MOST_REPORTERS {
            return Err(TooManyReporters);
        }
        self.reporters += 1;
        self.number += 1;
        let reporter = Reporter { node, parts: Vec::new(), last: now, reported: false, closed: false, odd: false };
        let reporters = &mut self.fleets.entry(Arc::clone(fleet)).or_default().reporters;
        reporters.insert(self.number, reporter);
        Ok(ReporterId { fleet: Arc::clone(fleet), number: self.number })
    }

    /// A client's report takes the place of its last. Clusters that are not `known` do not count. True if [`Self::next_deadline`] has
    /// become earlier.
    ///
    /// # Errors
    /// The message is none; nothing of it counts.
    pub fn receive(
        &mut self,
        id: &ReporterId,
        message: &[u8],
        now: Duration,
        known: &dyn Fn(&str) -> bool,
    ) -> Result<bool, Malformed> {
        self.number += 1;
        let Some(fleet) = self.fleets.get_mut(&id.fleet) else { return Ok(false) };
        let size = fleet.reporters.get(&id.number).map_or(0, |reporter| reporter.parts.len());
        let mut stage = Stage::new(&mut fleet.rows, (self.number, self.interval), known, size);
        let read = stage.report(message);
        let Stage { parts, requests, odd, .. } = stage;
        if let Err(malformed) = read {
            fleet.rows.sweep();
            return Err(malformed);
        }
        fleet.put(id.number, parts, &requests);
        self.reporters -= fleet.note_report(id.number, odd, now);
        Ok(fleet.is_due(now + self.interval / GATHER))
    }

    /// A client's stream has ended: its last report still counts for a while.
    pub fn close(&mut self, id: &ReporterId) {
        let Some(fleet) = self.fleets.get_mut(&id.fleet) else { return };
        let Some(reporter) = fleet.reporters.get_mut(&id.number) else { return };
        reporter.closed = true;
        fleet.closed.insert((Arc::clone(&reporter.node.id), id.number));
        if reporter.parts.is_empty() {
            self.reporters -= fleet.retire(id.number);
        }
        if fleet.is_idle() {
            self.fleets.remove(&id.fleet);
        }
    }

    /// Lets the time pass, and gives what there is to tell: of each cluster the latest.
    pub fn advance(&mut self, now: Duration) -> Vec<Event> {
        let mut events = Vec::new();
        for (name, fleet) in &mut self.fleets {
            for number in fleet.stale(|reporter| due(reporter, self.interval, self.since) <= now) {
                self.reporters -= fleet.retire(number);
                fleet.due = Some(now);
            }
            if fleet.due.take_if(|due| *due <= now).is_some() {
                let misreports = fleet.misreports.drain(..);
                events.extend(misreports.map(|(node, text)| Event::Misreported {
                    fleet: Arc::clone(name),
                    node,
                    text,
                }));
                let told = fleet.rows.take_marked().into_iter();
                events.extend(told.map(|(cluster, load)| Event::Load { fleet: Arc::clone(name), cluster, load }));
            }
        }
        self.fleets.retain(|_, fleet| !fleet.is_idle());
        events
    }

    /// When [`Self::advance`] is to be called; none as long as nothing is reported.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        let counting = |reporter: &&Reporter| !reporter.parts.is_empty();
        let fleets = self.fleets.values();
        let reporters = fleets.clone().flat_map(|fleet| fleet.reporters.values().filter(counting));
        let stale = reporters.map(|reporter| due(reporter, self.interval, self.since));
        fleets.filter_map(|fleet| fleet.due).chain(stale).min()
    }
}

/// Until when a reporter's last report counts.
fn due(reporter: &Reporter, interval: Duration, since: Duration) -> Duration {
    reporter.last.max(since) + MISSED * interval
}

impl FleetLoads {
    fn is_idle(&self) -> bool {
        self.reporters.is_empty() && self.due.is_none() && self.rows.is_empty()
    }

    /// The reporters with a report of which this holds.
    fn stale(&self, test: impl Fn(&Reporter) -> bool) -> Vec<u64> {
        let stale = self.reporters.iter().filter(|(_, reporter)| !reporter.parts.is_empty() && test(reporter));
        stale.map(|(number, _)| *number).collect()
    }

    /// A reporter says this from now on, and of clusters that so many requests were issued since it spoke last.
    fn put(&mut self, number: u64, parts: Vec<Part>, requests: &[(u32, u64)]) {
        let Some(reporter) = self.reporters.get_mut(&number) else { return };
        let before = std::mem::replace(&mut reporter.parts, parts);
        // as a rule a report is about what the last one was about, in the same order
        let pairs = before.iter().zip(&reporter.parts);
        let same = pairs.clone().take_while(|(old, new)| old.row == new.row).count();
        for (old, new) in pairs.take(same) {
            self.rows.replace(new.row, &old.numbers, &new.numbers);
        }
        let (old, new) = (before.iter().skip(same), reporter.parts.iter().skip(same));
        for part in new.clone() {
            self.rows.add(part.row, &part.numbers);
        }
        for part in old.clone() {
            self.rows.subtract(part.row, &part.numbers);
        }
        for part in old.chain(new) {
            self.rows.settle(part.row);
        }
        for (cluster, requests) in requests {
            self.rows.count(*cluster, *requests);
        }
    }

    /// A reporter has reported. Gives how many others it has replaced: streams of its node that have ended.
    fn note_report(&mut self, number: u64, odd: Option<&'static str>, now: Duration) -> usize {
        let Some(reporter) = self.reporters.get_mut(&number) else { return 0 };
        reporter.last = now;
        let node = Arc::clone(&reporter.node);
        if let Some(text) = odd.filter(|_| !std::mem::replace(&mut reporter.odd, true)) {
            self.misreports.push((Arc::clone(&node), text));
        }
        if std::mem::replace(&mut reporter.reported, true) || node.id.is_empty() {
            return 0;
        }
        let first = (Arc::clone(&node.id), 0);
        let replaced = self.closed.range(first..).take_while(|(id, _)| *id == node.id);
        let replaced: Vec<u64> = replaced.map(|(_, number)| *number).collect();
        replaced.into_iter().map(|number| self.retire(number)).sum()
    }

    /// A reporter's last report does not count any more. Gives 1 if that was all that was left of it, else 0.
    fn retire(&mut self, number: u64) -> usize {
        self.put(number, Vec::new(), &[]);
        let Some(reporter) = self.reporters.get(&number).filter(|reporter| reporter.closed) else { return 0 };
        self.closed.remove(&(Arc::clone(&reporter.node.id), number));
        self.reporters.remove(&number);
        1
    }

    /// Tells at this time, if there is something to tell and no time is set; true if that was so.
    fn is_due(&mut self, at: Duration) -> bool {
        let news = self.due.is_none() && (self.rows.is_marked() || !self.misreports.is_empty());
        if news {
            self.due = Some(at);
        }
        news
    }
}
