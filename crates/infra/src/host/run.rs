//! All proxies of this machine: one task per Gateway, told what is wanted.

use std::collections::BTreeMap;
use std::sync::Arc;

use ir::{FleetName, Infra};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use super::port::{Claim, Datagrams};
use super::supervise::{Shared, supervise};
use super::{Error, HostFact, HostOptions};

/// Which proxies there shall be.
pub type Wanted = Arc<BTreeMap<FleetName, Arc<Infra>>>;

/// Whether Chancery ends, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// It does not.
    #[default]
    No,
    /// Proxies get their drain time for what runs.
    Drain,
    /// Proxies end now.
    AtOnce,
}

/// What a Gateway's task is told.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// The proxy that shall be; `None`: it shall go, with its files.
    pub(crate) infra: Option<Arc<Infra>>,
    /// It is known that it shall; else it was when it was last known, and one that runs is kept as it is.
    pub(crate) certain: bool,
    /// Where all proxies take datagrams.
    pub(crate) datagrams: Arc<Datagrams>,
    pub(crate) ending: Ending,
}

/// Runs proxies until `ending` asks for their end and all are gone. Until the first *change* of `wanted` nothing is known: a proxy
/// that runs is left alone, and of those that are [`HostOptions::served`] a dead one is started as it was last. After it, proxies of
/// an earlier process whose Gateways are gone are drained. Dropping this future, or the sender of `ending`, leaves all proxies running.
///
/// `facts` gets each proxy's first state and every change. A full channel holds the proxy's task back, not the proxy; a
/// closed one is ignored.
///
/// # Errors
/// [`Error::Task`] if a task broke, which is a fault of ours.
pub async fn run(
    options: HostOptions,
    mut wanted: watch::Receiver<Wanted>,
    facts: mpsc::Sender<HostFact>,
    mut ending: watch::Receiver<Ending>,
) -> Result<(), Error> {
    let places = Arc::new(Semaphore::new(options.most.min(Semaphore::MAX_PERMITS)));
    let shared = Arc::new(Shared { options, facts, places });
    let mut fleets = Fleets {
        shared,
        wanted: None,
        datagrams: Arc::default(),
        ending: *ending.borrow_and_update(),
        orders: BTreeMap::new(),
        tasks: JoinSet::new(),
    };
    for (fleet, infra) in fleets.served().iter() {
        fleets.order(fleet, Some(Arc::clone(infra)), false);
    }
    let mut more = true;
    loop {
        if fleets.ending != Ending::No {
            fleets.end();
            if fleets.tasks.is_empty() {
                return Ok(());
            }
        }
        tokio::select! {
            changed = wanted.changed(), if more && fleets.ending == Ending::No => match changed {
                Ok(()) => { let now = Arc::clone(&wanted.borrow_and_update()); fleets.want(now) }
                Err(_) => more = false,
            },
            changed = ending.changed() => match changed {
                Ok(()) => fleets.ending = *ending.borrow_and_update(),
                Err(_) => return Ok(()),
            },
            Some(ended) = fleets.tasks.join_next() => fleets.forget(&ended.map_err(|error| Error::Task(error.to_string()))?),
        }
    }
}

struct Fleets {
    shared: Arc<Shared>,
    /// `None` until it is known.
    wanted: Option<Wanted>,
    datagrams: Arc<Datagrams>,
    ending: Ending,
    orders: BTreeMap<FleetName, watch::Sender<Order>>,
    tasks: JoinSet<FleetName>,
}

impl Fleets {
    /// The proxies that are served before it is known which there shall be, as they were.
    fn served(&self) -> Wanted {
        let options = &self.shared.options;
        let last = |fleet: &FleetName| Some((fleet.clone(), Arc::new(options.layout.last_wanted(fleet)?)));
        Arc::new(options.served.iter().filter_map(last).collect())
    }

    fn want(&mut self, wanted: Wanted) {
        let going: Vec<FleetName> = match self.wanted {
            None => self.shared.options.layout.known(),
            Some(_) => self.orders.keys().cloned().collect(),
        };
        let datagrams = wanted.iter().filter(|(_, infra)| !infra.udp_ports.is_empty());
        let datagrams: Datagrams = datagrams.map(|(fleet, infra)| (fleet.clone(), Claim::of(infra))).collect();
        if *self.datagrams != datagrams {
            self.datagrams = Arc::new(datagrams);
        }
        for fleet in going.into_iter().filter(|fleet| !wanted.contains_key(fleet)) {
            self.order(&fleet, None, true);
        }
        for (fleet, infra) in wanted.iter() {
            self.order(fleet, Some(Arc::clone(infra)), true);
        }
        self.wanted = Some(wanted);
    }

    /// Passes the ending on. Proxies of an earlier process end too, even if it is not known yet who is wanted.
    fn end(&mut self) {
        if self.wanted.is_none() {
            self.want(self.served());
        }
        for orders in self.orders.values() {
            orders.send_if_modified(|order| std::mem::replace(&mut order.ending, self.ending) != self.ending);
        }
    }

    fn order(&mut self, fleet: &FleetName, infra: Option<Arc<Infra>>, certain: bool) {
        if let Some(orders) = self.orders.get(fleet) {
            orders.send_if_modified(|order| {
                let datagrams = Arc::clone(&self.datagrams);
                let changed = order.infra != infra || order.certain != certain || order.datagrams != datagrams;
                (order.infra, order.certain, order.datagrams) = (infra, certain, datagrams);
                changed
            });
            return;
        }
        let (orders, received) =
            watch::channel(Order { infra, certain, datagrams: Arc::clone(&self.datagrams), ending: self.ending });
        self.orders.insert(fleet.clone(), orders);
        self.tasks.spawn(supervise(fleet.clone(), Arc::clone(&self.shared), received));
    }

    /// A task is over. Its Gateway may have come back after the task last looked.
    fn forget(&mut self, fleet: &FleetName) {
        self.orders.remove(fleet);
        let back = self.wanted.as_ref().and_then(|wanted| wanted.get(fleet)).cloned();
        if let Some(infra) = back.filter(|_| self.ending == Ending::No) {
            self.order(fleet, Some(infra), true);
        }
    }
}
