//! [`Loads`]: who has reported what, and until when it counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::rows::Rows;
use super::stage::{Part, Stage};
use super::wire::Malformed;
use crate::event::{Event, Node};

/// A report counts until so many more are due.
const MISSED: u32 = 3;

/// What was reported is told after this part of the interval: more often would tell the same sums of many reporters again and again.
const GATHER: u32 = 10;

/// There is no room for another reporter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more reporters than one fleet may have")]
pub struct TooManyReporters;

/// A stream that reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReporterId(u64);

struct Reporter {
    node: Arc<Node>,
    /// The last report.
    parts: Vec<Part>,
    /// What that takes of `Bounds::parts`.
    size: usize,
    /// When that came, or the stream.
    last: Duration,
    /// It has reported on this stream.
    reported: bool,
    /// The stream has ended; its last report counts for a while.
    closed: bool,
    /// It was told once that its reports hold what cannot be.
    odd: bool,
}

/// What the clients of one fleet report. Times are since one arbitrary moment.
pub struct Loads {
    fleet: Arc<str>,
    interval: Duration,
    /// Since when that is the interval.
    since: Duration,
    pub(super) rows: Rows,
    reporters: BTreeMap<u64, Reporter>,
    /// Those whose stream has ended, by node id.
    closed: BTreeSet<(Arc<str>, u64)>,
    /// The size of all reports.
    size: usize,
    /// Who reported what cannot be.
    misreports: Vec<(Arc<Node>, &'static str)>,
    /// When what is new is to be told.
    due: Option<Duration>,
    /// The latest number of a reporter or a report.
    number: u64,
}

impl Loads {
    /// Nothing reported yet; clients are asked for a report each `interval`.
    #[must_use]
    pub fn new(fleet: Arc<str>, interval: Duration) -> Self {
        Self {
            fleet,
            interval,
            since: Duration::ZERO,
            rows: Rows::default(),
            reporters: BTreeMap::new(),
            closed: BTreeSet::new(),
            size: 0,
            misreports: Vec::new(),
            due: None,
            number: 0,
        }
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
    pub fn open(&mut self, node: Arc<Node>, now: Duration) -> Result<ReporterId, TooManyReporters> {
        if self.reporters.len() >= self.rows.bounds.reporters {
            return Err(TooManyReporters);
        }
        self.number += 1;
        let (parts, size) = (Vec::new(), 0);
        let reporter = Reporter { node, parts, size, last: now, reported: false, closed: false, odd: false };
        self.reporters.insert(self.number, reporter);
        Ok(ReporterId(self.number))
    }

    /// A client's report takes the place of its last. Clusters that are not `known` do not count. Gives the time of
    /// [`Self::next_deadline`] if it has become earlier.
    ///
    /// # Errors
    /// The message is none; nothing of it counts.
    pub fn receive(
        &mut self,
        ReporterId(number): ReporterId,
        message: &[u8],
        now: Duration,
        known: &dyn Fn(&str) -> bool,
    ) -> Result<Option<Duration>, Malformed> {
        let Some(reporter) = self.reporters.get(&number) else { return Ok(None) };
        let room = self.rows.bounds.parts.saturating_sub(self.size - reporter.size);
        self.number += 1;
        let mut stage = Stage::new(&mut self.rows, (self.number, self.interval), known, &reporter.parts, room);
        let read = stage.report(message);
        let Stage { new, parts, metrics, requests, odd, .. } = stage;
        if let Err(malformed) = read {
            self.rows.take_back(&new);
            return Err(malformed);
        }
        self.put(number, parts, metrics, &requests);
        self.note_report(number, odd, now);
        Ok(self.set_due(now + self.interval / GATHER))
    }

    /// A client's stream has ended: its last report still counts for a while.
    pub fn close(&mut self, ReporterId(number): ReporterId) {
        let Some(reporter) = self.reporters.get_mut(&number) else { return };
        reporter.closed = true;
        self.closed.insert((Arc::clone(&reporter.node.id), number));
        if reporter.parts.is_empty() {
            self.retire(number);
        }
    }

    /// Lets the time pass, and gives what there is to tell: of each cluster the latest.
    pub fn advance(&mut self, now: Duration) -> Vec<Event> {
        for number in self.stale(now) {
            self.retire(number);
            self.due = Some(now);
        }
        if self.due.take_if(|due| *due <= now).is_none() {
            return Vec::new();
        }
        let fleet = || Arc::clone(&self.fleet);
        let misreports = self.misreports.drain(..);
        let misreports = misreports.map(|(node, text)| Event::Misreported { fleet: fleet(), node, text });
        let loads = self.rows.take_marked().into_iter();
        misreports.chain(loads.map(|(cluster, load)| Event::Load { fleet: fleet(), cluster, load })).collect()
    }

    /// When [`Self::advance`] is to be called; none as long as nothing is reported.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        let counting = self.reporters.values().filter(|reporter| !reporter.parts.is_empty());
        counting.map(|reporter| due(reporter, self.interval, self.since)).chain(self.due).min()
    }

    /// Whether nobody reports, and there is nothing to tell.
    pub(crate) fn is_idle(&self) -> bool {
        self.reporters.is_empty() && self.due.is_none() && self.rows.is_empty()
    }

    /// The reporters whose last report does not count any more.
    fn stale(&self, now: Duration) -> Vec<u64> {
        let is_over = |reporter: &Reporter| due(reporter, self.interval, self.since) <= now;
        let stale = self.reporters.iter().filter(|(_, reporter)| !reporter.parts.is_empty() && is_over(reporter));
        stale.map(|(number, _)| *number).collect()
    }

    /// A reporter says this from now on, with so many metrics, and of clusters that so many requests were issued since it spoke last.
    fn put(&mut self, number: u64, parts: Vec<Part>, metrics: usize, requests: &[(u32, u64)]) {
        let Some(reporter) = self.reporters.get_mut(&number) else { return };
        let size = parts.len() + metrics;
        self.size = self.size - std::mem::replace(&mut reporter.size, size) + size;
        let before = std::mem::replace(&mut reporter.parts, parts);
        // as a rule those are all, see `Stage::row`
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

    /// A reporter has reported. It takes the place of others: streams of its node that have ended.
    fn note_report(&mut self, number: u64, odd: Option<&'static str>, now: Duration) {
        let Some(reporter) = self.reporters.get_mut(&number) else { return };
        reporter.last = now;
        let node = Arc::clone(&reporter.node);
        if let Some(text) = odd.filter(|_| !std::mem::replace(&mut reporter.odd, true)) {
            self.misreports.push((Arc::clone(&node), text));
        }
        if std::mem::replace(&mut reporter.reported, true) || node.id.is_empty() {
            return;
        }
        let first = (Arc::clone(&node.id), 0);
        let replaced = self.closed.range(first..).take_while(|(id, _)| *id == node.id);
        let replaced: Vec<u64> = replaced.map(|(_, number)| *number).collect();
        replaced.into_iter().for_each(|number| self.retire(number));
    }

    /// A reporter's last report does not count any more. If its stream has ended that was all that was left of it.
    fn retire(&mut self, number: u64) {
        self.put(number, Vec::new(), 0, &[]);
        let Some(reporter) = self.reporters.get(&number).filter(|reporter| reporter.closed) else { return };
        self.closed.remove(&(Arc::clone(&reporter.node.id), number));
        self.reporters.remove(&number);
    }

    /// Tells at this time, if there is something to tell and no time is set; none if that was not so.
    fn set_due(&mut self, at: Duration) -> Option<Duration> {
        let news = self.due.is_none() && (self.rows.is_marked() || !self.misreports.is_empty());
        if news {
            self.due = Some(at);
        }
        self.due.filter(|_| news)
    }
}

/// Until when a reporter's last report counts.
fn due(reporter: &Reporter, interval: Duration, since: Duration) -> Duration {
    reporter.last.max(since) + MISSED * interval
}
