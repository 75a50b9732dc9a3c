//! The client's half of load reporting (LRS): told what the server wants to know and fed with counters, it gives the report that is
//! due. Sans-io.
//!
//! The life of a stream: [`Reporter::opened`] is the first message, which says who reports. [`Reporter::received`] takes what the
//! server asks for, which may change at any time. From then on [`Reporter::due`] gives a report each interval. Counters are what
//! happened since the report before, over the time that really passed; what runs at the moment is told as it is. A cluster that is
//! asked for begins at nothing, one that was asked for before goes on. What happens while nobody asks is told to nobody.
//!
//! Sources: `envoy/service/load_stats/v3/lrs.proto`, `envoy/config/endpoint/v3/load_report.proto`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;

use super::config::ClientNode;
use super::message;

mod wire;

#[cfg(test)]
mod tests;

/// Localities, and endpoints where these are asked for, that are counted at most: 1,000 clusters with 64 each. One costs about 300
/// bytes, so this many are 20 MB.
pub const MOST_PLACES: usize = 65_536;

/// Shortest interval between two reports: below it a report costs more than it says.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// A cluster as reports name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterKey {
    /// Its name.
    pub cluster: Arc<str>,
    /// The name of its endpoint set, if it has another; else empty.
    pub service: Arc<str>,
}

/// Where requests went.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Region; empty if not known, as the two below.
    pub region: Arc<str>,
    /// Zone.
    pub zone: Arc<str>,
    /// Sub-zone.
    pub sub_zone: Arc<str>,
    /// Priority of the endpoints, 0 the first.
    pub priority: u32,
}

/// What happened since it was told last; and what runs at the moment, which replaces what was told before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// Requests begun.
    pub issued: u64,
    /// Requests that ended well.
    pub succeeded: u64,
    /// Requests that ended badly.
    pub failed: u64,
    /// Requests that run now.
    pub in_progress: u64,
    /// Connections opened.
    pub opened: u64,
    /// Connections that could not be opened.
    pub unopened: u64,
    /// Connections that are open now.
    pub open: u64,
    /// By name, what the endpoints said of themselves with so many answers (ORCA), and the sum of it.
    pub metrics: BTreeMap<Arc<str>, (u64, f64)>,
}

impl Load {
    fn add(&mut self, more: &Self) {
        let counters = [
            (&mut self.issued, more.issued),
            (&mut self.succeeded, more.succeeded),
            (&mut self.failed, more.failed),
            (&mut self.opened, more.opened),
            (&mut self.unopened, more.unopened),
        ];
        counters.into_iter().for_each(|(counter, more)| *counter = counter.saturating_add(more));
        (self.in_progress, self.open) = (more.in_progress, more.open);
        for (name, (count, total)) in more.metrics.iter().filter(|(_, (_, total))| total.is_finite()) {
            let metric = self.metrics.entry(Arc::clone(name)).or_default();
            *metric = (metric.0.saturating_add(*count), metric.1 + total);
        }
    }

    /// Only what runs at the moment is left.
    fn reset(&mut self) {
        *self = Self { in_progress: self.in_progress, open: self.open, ..Self::default() };
    }

    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// What a server asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    all: bool,
    clusters: BTreeSet<String>,
    interval: Duration,
    endpoints: bool,
}

impl Wanted {
    fn has(&self, cluster: &str) -> bool {
        self.all || self.clusters.contains(cluster)
    }
}

/// One place of a cluster.
#[derive(Default)]
struct Spot {
    load: Load,
    /// Only while the server asks for them.
    endpoints: BTreeMap<SocketAddr, Load>,
}

/// One cluster since its last report.
#[derive(Default)]
struct Account {
    since: Duration,
    places: BTreeMap<Place, Spot>,
    dropped: BTreeMap<Arc<str>, u64>,
}

impl Account {
    /// Begins anew; what runs at the moment stays.
    fn reset(&mut self, now: Duration) {
        self.since = now;
        self.dropped.clear();
        self.places.retain(|_, spot| {
            spot.load.reset();
            spot.endpoints.retain(|_, load| {
                load.reset();
                !load.is_nothing()
            });
            !spot.load.is_nothing() || !spot.endpoints.is_empty()
        });
    }

    fn count(&self) -> usize {
        self.places.values().map(|spot| 1 + spot.endpoints.len()).sum()
    }
}

/// See the module.
pub struct Reporter {
    node: Bytes,
    wanted: Option<Wanted>,
    next: Option<Duration>,
    accounts: BTreeMap<ClusterKey, Account>,
    /// Places and endpoints of all accounts.
    count: usize,
}

impl Reporter {
    /// A reporter that nobody has asked for anything yet.
    #[must_use]
    pub fn new(node: &ClientNode) -> Self {
        let features = vec!["envoy.lrs.supports_send_all_clusters".to_owned()];
        Self { node: message::node(node, features), wanted: None, next: None, accounts: BTreeMap::new(), count: 0 }
    }

    /// A stream is open: the first message. What an earlier stream was asked for counts no more.
    pub fn opened(&mut self) -> Bytes {
        (self.wanted, self.next) = (None, None);
        wire::LoadStatsRequest { node: self.node.clone(), clusters: Vec::new() }.encode_to_vec().into()
    }

    /// The server asks for something.
    ///
    /// # Errors
    /// It is no `LoadStatsResponse`: the stream is of no use.
    pub fn received(&mut self, message: Bytes, now: Duration) -> Result<(), prost::DecodeError> {
        let response = wire::LoadStatsResponse::decode(message)?;
        let interval = response.interval.unwrap_or_default();
        let wanted = Wanted {
            all: response.all,
            clusters: response.clusters.into_iter().collect(),
            interval: interval.span().max(SHORTEST_INTERVAL),
            endpoints: response.endpoints,
        };
        let before = self.wanted.replace(wanted);
        let wanted = self.wanted.clone().unwrap_or_default();
        for (key, account) in &mut self.accounts {
            if wanted.has(&key.cluster) && !before.as_ref().is_some_and(|before| before.has(&key.cluster)) {
                account.reset(now);
            }
            if !wanted.endpoints {
                account.places.values_mut().for_each(|spot| spot.endpoints.clear());
            }
        }
        self.recount();
        if before.is_none_or(|before| before.interval != wanted.interval) {
            self.next = Some(now + wanted.interval);
        }
        Ok(())
    }

    /// Something happened at a place, and, where it is known, at one of its endpoints. False if it is not counted because there are
    /// [`MOST_PLACES`] others.
    pub fn add(
        &mut self,
        cluster: &ClusterKey,
        place: &Place,
        endpoint: Option<SocketAddr>,
        load: &Load,
        now: Duration,
    ) -> bool {
        let endpoint = endpoint.filter(|_| self.wanted.as_ref().is_some_and(|wanted| wanted.endpoints));
        if self.count + 2 > MOST_PLACES {
            return false;
        }
        let mut new = 0;
        let spot = self.account(cluster, now).places.entry(place.clone()).or_insert_with(|| {
            new += 1;
            Spot::default()
        });
        spot.load.add(load);
        if let Some(endpoint) = endpoint {
            let load_there = spot.endpoints.entry(endpoint).or_insert_with(|| {
                new += 1;
                Load::default()
            });
            load_there.add(load);
        }
        self.count += new;
        true
    }

    /// Requests were dropped before they had a place to go to; the category is that of the cluster's `drop_overloads`, or empty.
    pub fn dropped(&mut self, cluster: &ClusterKey, category: &str, count: u64, now: Duration) {
        let total = self.account(cluster, now).dropped.entry(category.into()).or_default();
        *total = total.saturating_add(count);
    }

    /// The cluster is no more.
    pub fn forget(&mut self, cluster: &ClusterKey) {
        self.accounts.remove(cluster);
        self.recount();
    }

    /// When [`Self::due`] has a report.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        self.next
    }

    /// The report, if one is due.
    pub fn due(&mut self, now: Duration) -> Option<Bytes> {
        let wanted = self.wanted.as_ref()?;
        self.next.filter(|next| *next <= now)?;
        self.next = Some(now + wanted.interval);
        let asked = self.accounts.iter_mut().filter(|(key, _)| wanted.has(&key.cluster));
        let clusters = asked.map(|(key, account)| {
            let report = wire::cluster(key, account, now);
            account.reset(now);
            report
        });
        let clusters = clusters.collect();
        self.recount();
        Some(wire::LoadStatsRequest { node: Bytes::new(), clusters }.encode_to_vec().into())
    }

    fn recount(&mut self) {
        self.count = self.accounts.values().map(Account::count).sum();
    }

    fn account(&mut self, cluster: &ClusterKey, now: Duration) -> &mut Account {
        self.accounts.entry(cluster.clone()).or_insert_with(|| Account { since: now, ..Account::default() })
    }
}
