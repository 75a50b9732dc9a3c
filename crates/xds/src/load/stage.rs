//! One report, read into the rows that it is about. Nothing is added up before all of it was read.

use std::sync::Arc;
use std::time::Duration;

use super::numbers::{MOST_METRICS, MOST_NAMES, More, Numbers, Scale};
use super::rows::{Place, RowId, Rows, TOP};
use super::wire::{self, CLUSTERS, ClusterStats, Fields, Malformed, Named, Stats, Value};
use super::{LONGEST_INTERVAL, Locality};
use crate::wire::read::LONGEST_NAME;

/// Clusters in a report: what an Envoy was measured with is 10,000.
const MOST_CLUSTERS: usize = 16_384;

/// Localities of a cluster: zones of the world's largest cloud regions are 6 each, and of 40 regions 240.
const MOST_LOCALITIES: usize = 256;

/// Endpoints of a locality in a report: some thousand are an EndpointSlice service of Kubernetes at its tested limit.
const MOST_ENDPOINTS: usize = 8_192;

/// Rows and metrics of a report together: 10,000 clusters with 3 localities and 10 endpoints in all, three times. Each costs the
/// reporter 48 bytes and, if it is alone with it, some 250 bytes more: 40 MB at worst, of which a report of 16 MiB pays the names.
const MOST_PARTS: usize = 131_072;

/// Bytes of a part: a metric's name counts as so many parts as it has room in.
const PART: usize = 48;

/// The shortest period that a report can be about: a cluster may be created just before it.
const SHORTEST_PERIOD: f64 = 1e-3;

/// What a reporter says of a row.
pub(super) struct Part {
    pub(super) row: RowId,
    pub(super) numbers: Numbers,
}

/// See the module.
pub(super) struct Stage<'a> {
    rows: &'a mut Rows,
    serial: u64,
    /// The interval that was asked for.
    asked: Duration,
    /// Whether the fleet has this cluster.
    known: &'a dyn Fn(&str) -> bool,
    /// The reporter's last report.
    before: &'a [Part],
    /// Parts that there may be.
    room: usize,
    /// Rows that were not there before, parents before their children.
    pub(super) new: Vec<RowId>,
    pub(super) metrics: usize,
    pub(super) parts: Vec<Part>,
    /// Requests issued, by the row of their cluster.
    pub(super) requests: Vec<(RowId, u64)>,
    /// What is wrong with the report, if anything.
    pub(super) odd: Option<&'static str>,
}

impl<'a> Stage<'a> {
    /// Begins with a report of this serial number and asked-for interval, as a rule on the same parts as the one `before`, and on
    /// no more than there is `room` for.
    pub(super) fn new(
        rows: &'a mut Rows,
        (serial, asked): (u64, Duration),
        known: &'a dyn Fn(&str) -> bool,
        before: &'a [Part],
        room: usize,
    ) -> Self {
        let (new, parts, requests) = (Vec::new(), Vec::with_capacity(before.len()), Vec::new());
        let room = room.min(MOST_PARTS);
        Self { rows, serial, asked, known, before, room, new, metrics: 0, parts, requests, odd: None }
    }

    /// Reads a report.
    pub(super) fn report(&mut self, report: &[u8]) -> Result<(), Malformed> {
        for (count, cluster) in Fields(report).each(CLUSTERS).enumerate() {
            let cluster = cluster?;
            if count == MOST_CLUSTERS {
                self.odd = Some("more than 16384 clusters in one report");
                break;
            }
            self.cluster(cluster)?;
        }
        Ok(())
    }

    fn cluster(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let stats = ClusterStats::read(message)?;
        let name = if stats.service.is_empty() { stats.name } else { stats.service };
        let known = self.known;
        let place = || {
            let known = str::from_utf8(stats.name).is_ok_and(|name| name.len() <= LONGEST_NAME && known(name));
            text(name).filter(|_| known).map(Place::Cluster)
        };
        let Some(row) = self.row(TOP, name, place) else { return Ok(()) };
        let mut scale = Scale::new(self.period(stats.interval));
        let mut numbers = Numbers { rates: [scale.rate(stats.dropped), 0, 0], ..Numbers::default() };
        if stats.has_categories {
            for category in Fields(message).each(ClusterStats::DROPPED) {
                let Named { name, count, .. } = Named::read(category?)?;
                self.tally(&mut numbers, row, name, |name| scale.tally(name, count, 0.0));
            }
        }
        self.put(row, numbers);
        let mut requests = 0u64;
        for (count, locality) in Fields(message).each(ClusterStats::LOCALITIES).enumerate() {
            let locality = locality?;
            if count == MOST_LOCALITIES {
                self.odd = Some("more than 256 localities of one cluster");
                break;
            }
            requests = requests.saturating_add(self.locality(row, locality, &mut scale)?);
        }
        self.requests.push((row, requests));
        if scale.odd {
            self.odd = Some("figures beyond what is possible");
        }
        Ok(())
    }

    /// Gives the requests that were issued.
    fn locality(&mut self, cluster: RowId, message: &[u8], scale: &mut Scale) -> Result<u64, Malformed> {
        let stats = Stats::read(message)?;
        let Some(row) = self.row(cluster, stats.place, || locality(stats.place).map(Place::Locality)) else {
            return Ok(0);
        };
        let numbers = self.numbers(row, message, &stats, scale)?;
        self.put(row, numbers);
        if stats.has_endpoints {
            self.endpoints(row, message, scale)?;
        }
        Ok(scale.count(stats.issued))
    }

    fn endpoints(&mut self, locality: RowId, message: &[u8], scale: &mut Scale) -> Result<(), Malformed> {
        for (count, endpoint) in Fields(message).each(Stats::ENDPOINTS).enumerate() {
            let message = endpoint?;
            if count == MOST_ENDPOINTS {
                self.odd = Some("more than 8192 endpoints of one locality");
                break;
            }
            let stats = Stats::read(message)?;
            let place = || wire::address(stats.place).and_then(|address| text(address.as_bytes())).map(Place::Endpoint);
            let Some(row) = self.row(locality, stats.place, place) else { continue };
            let numbers = self.numbers(row, message, &stats, scale)?;
            self.put(row, numbers);
        }
        Ok(())
    }

    fn numbers(
        &mut self,
        row: RowId,
        message: &[u8],
        stats: &Stats<'_>,
        scale: &mut Scale,
    ) -> Result<Numbers, Malformed> {
        let rates = [stats.issued, stats.succeeded, stats.failed].map(|count| scale.rate(count));
        let mut numbers = Numbers { rates, in_progress: scale.gauge(stats.in_progress), more: None };
        if stats.connections != [0; 3] {
            let [opened, failed, active] = stats.connections;
            let connections = [scale.rate(opened), scale.rate(failed), scale.gauge(active)];
            numbers.more = Some(Box::new(More { connections, tallies: Vec::new() }));
        }
        if stats.has_metrics {
            for field in Fields(message) {
                let (number, Value::Bytes(metric)) = field? else { continue };
                let Named { name, count, total } = if number == Stats::METRICS {
                    Named::read(metric)?
                } else if let Some((_, name)) = Stats::NAMED.iter().find(|(field, _)| *field == number) {
                    Named::read_unnamed(metric, name)?
                } else {
                    continue;
                };
                self.tally(&mut numbers, row, name, |name| scale.tally(name, count, total));
            }
        }
        Ok(numbers)
    }

    /// Adds a metric to those of a row.
    fn tally(
        &mut self,
        numbers: &mut Numbers,
        row: RowId,
        name: &[u8],
        make: impl FnOnce(Arc<str>) -> Option<super::numbers::Tally>,
    ) {
        let tallies = self.rows.tallies(row);
        let known =
            tallies.binary_search_by(|tally| tally.name.as_bytes().cmp(name)).ok().and_then(|at| tallies.get(at));
        let (name, own) = match known {
            Some(known) => (Some(Arc::clone(&known.name)), 0),
            None if tallies.len() >= MOST_NAMES => {
                self.odd = Some("more than 256 names of metrics of one place in all reports");
                return;
            }
            None => (text(name), name.len()),
        };
        let Some(tally) = name.and_then(make) else { return };
        let more = numbers.more.get_or_insert_default();
        if more.tallies.len() >= MOST_METRICS {
            self.odd = Some("more than 16 metrics of one place");
            return;
        }
        if self.is_full() {
            return;
        }
        self.metrics += 1 + own / PART;
        let sum = more.tally(&tally.name);
        sum.requests = sum.requests.saturating_add(tally.requests);
        sum.value = sum.value.saturating_add(tally.value);
    }

    /// The row of this name, a new one if need be; none if it cannot be read, or there are too many.
    fn row(&mut self, parent: RowId, name: &[u8], place: impl FnOnce() -> Option<Place>) -> Option<RowId> {
        if self.is_full() {
            return None;
        }
        // as a rule a report is about what the last one was about, in the same order
        let usual = self.before.get(self.parts.len()).map(|part| part.row);
        let usual = usual.filter(|row| self.rows.is(*row, parent, name));
        if let Some(found) = usual.or_else(|| self.rows.find(parent, name)) {
            return Some(found);
        }
        let new = self.rows.insert(parent, name, place()?);
        match new {
            Some(row) => self.new.push(row),
            None => self.odd = Some("more places than the proxies of one Gateway may name"),
        }
        new
    }

    fn is_full(&mut self) -> bool {
        let full = self.parts.len() + self.metrics >= self.room;
        if full {
            self.odd = Some(match self.room {
                MOST_PARTS => "more than 131072 places and metrics in one report",
                _ => "more places and metrics than the reports of one Gateway may hold",
            });
        }
        full
    }

    /// Clusters can share a service, and localities occur once for each priority: in one report they are one.
    fn put(&mut self, id: RowId, numbers: Numbers) {
        let Some(row) = self.rows.get_mut(id) else { return };
        let (serial, at) = row.staged;
        if serial == self.serial {
            if let Some(part) = self.parts.get_mut(at) {
                part.numbers.add(&numbers);
            }
            return;
        }
        row.staged = (self.serial, self.parts.len());
        self.parts.push(Part { row: id, numbers });
    }

    /// The seconds that a report on a cluster is about. One that cannot be is taken for the interval that was asked for.
    fn period(&mut self, (seconds, nanos): (i64, i32)) -> f64 {
        let period = seconds as f64 + f64::from(nanos) / 1e9;
        if (SHORTEST_PERIOD..=2.0 * LONGEST_INTERVAL.as_secs_f64()).contains(&period) {
            return period;
        }
        self.odd = Some("a load_report_interval that cannot be");
        self.asked.as_secs_f64()
    }
}

/// A name, unless it is too long or not a text.
fn text(bytes: &[u8]) -> Option<Arc<str>> {
    str::from_utf8(bytes).ok().filter(|text| text.len() <= LONGEST_NAME).map(Into::into)
}

/// An `envoy.config.core.v3.Locality`.
fn locality(message: &[u8]) -> Option<Locality> {
    let [region, zone, sub_zone] = wire::texts(message).ok()?.map(text);
    Some(Locality { region: region?, zone: zone?, sub_zone: sub_zone? })
}
