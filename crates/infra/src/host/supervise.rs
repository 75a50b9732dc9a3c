//! One Gateway's proxy from its first start to its end.

pub(crate) mod replace;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ir::{FleetName, Infra};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::address::{client_addresses, missing_addresses};
use super::backoff::{Backoff, Pace};
use super::handover::{self, Lineage};
use super::launch::Launch;
use super::layout::write_whole;
use super::process::Process;
use super::retired::Retired;
use super::run::{Ending, Order};
use super::{Envoy, EnvoyState, Error, HostFact, HostOptions, ProxyPaths, admin, drain, log, port};

/// How often a starting Envoy is asked whether it is ready: at first, and at most. A ready one is not asked again; it says
/// no only when it drains.
const READY_FIRST: Duration = Duration::from_millis(5);
const READY_SLOWEST: Duration = Duration::from_millis(250);

/// How often the machine's addresses are looked at: a laptop changes them with its networks.
const ADDRESSES: Duration = Duration::from_secs(5);

/// How often ports that cannot be served and addresses that are not there are looked at again: at first, as a port may be
/// another Gateway's that is giving it up, and at most, as whoever has it may go and an address may come.
const LOOK_FIRST: Duration = Duration::from_millis(50);
const LOOK_SLOWEST: Duration = Duration::from_secs(2);

/// Envoys of a Gateway that drain at a time, in addition to the one that serves: its author replaces them with each edit of a bootstrap, and says for
/// how long they drain. The default of `--max-proxies` has room for it: 128 MiB for each Gateway are twice the 60 MB of an Envoy.
const MOST_DRAINING: usize = 1;

/// What all Gateways' tasks have in common.
pub(crate) struct Shared {
    pub(crate) options: HostOptions,
    pub(crate) facts: mpsc::Sender<HostFact>,
    /// A permit for each proxy that there may be.
    pub(crate) places: Arc<Semaphore>,
}

/// Keeps the proxy of a fleet as ordered, until it shall go or Chancery ends.
pub(crate) async fn supervise(fleet: FleetName, shared: Arc<Shared>, orders: watch::Receiver<Order>) -> FleetName {
    let layout = &shared.options.layout;
    let (paths, earlier) = (layout.paths(&fleet), layout.earlier_paths(&fleet));
    let has_run = shared.options.served.contains(&fleet);
    let mut supervisor = Supervisor {
        fleet: fleet.clone(),
        paths,
        earlier,
        shared,
        orders,
        state: EnvoyState::default(),
        told: None,
        backoff: Backoff::default(),
        drains: JoinSet::new(),
        leaving: BTreeSet::new(),
        rooms: VecDeque::new(),
        closing: Vec::new(),
        successor: None,
        place: None,
        has_run,
        crowding: None,
    };
    if !supervisor.prepare().await {
        supervisor.tell_gone().await;
        return fleet;
    }
    let paths = supervisor.paths.clone();
    // The log first: it begins at the end of the files, which must be before Envoy's first line.
    tokio::select! {
        biased;
        () = log::carry(&fleet, &paths) => {}
        () = supervisor.keep() => {}
    }
    fleet
}

struct Supervisor {
    fleet: FleetName,
    paths: ProxyPaths,
    /// The files of an Envoy that an earlier version of Chancery started, until it is known that there is none (any more).
    earlier: Option<ProxyPaths>,
    shared: Arc<Shared>,
    orders: watch::Receiver<Order>,
    /// What is known.
    state: EnvoyState,
    /// What was said last.
    told: Option<EnvoyState>,
    backoff: Backoff,
    /// The ends of earlier Envoys of this proxy; each gives the process's number.
    drains: JoinSet<u32>,
    /// Those numbers.
    leaving: BTreeSet<u32>,
    /// What ends those that drain to make room, the oldest first; closed where one is ending anyway.
    rooms: VecDeque<oneshot::Sender<()>>,
    /// Told, or closed, when such an Envoy listens no more.
    closing: Vec<oneshot::Receiver<()>>,
    /// An Envoy that has taken over from the one before it, until it is watched.
    successor: Option<Process>,
    /// Its place among the proxies of the machine, which it keeps over restarts of Envoy.
    place: Option<OwnedSemaphorePermit>,
    /// It has served before: it goes on without a place.
    has_run: bool,
    /// The last warning of ports that outgoing connections lack.
    crowding: Option<String>,
}

impl Supervisor {
    /// Makes the folders; tries again as long as that fails and the proxy is wanted. False: it failed, touch nothing there.
    async fn prepare(&mut self) -> bool {
        while let Err(error) = self.shared.options.layout.prepare(&self.fleet) {
            self.fail(error.to_string(), Duration::ZERO).await;
            let order = self.orders.borrow();
            if order.infra.is_none() || order.ending != Ending::No {
                return false;
            }
        }
        true
    }

    async fn keep(&mut self) {
        let wanted = self.orders.borrow().infra.clone();
        for paths in self.earlier.iter().chain([&self.paths]).cloned().collect::<Vec<_>>() {
            for draining in Retired::earlier(&paths) {
                tracing::info!(
                    gateway = self.fleet.as_str(),
                    pid = draining.process.pid,
                    "an envoy was draining already"
                );
                self.let_end((draining, paths.clone()), wanted.as_deref());
            }
        }
        replace::end_unfinished(&self.paths, &self.leaving);
        loop {
            let order = self.orders.borrow_and_update().clone();
            match order.infra {
                Some(infra) if order.ending == Ending::No => {
                    if let Err(error) = self.serve(infra, order.certain).await {
                        self.fail(error.to_string(), Duration::ZERO).await;
                    }
                }
                wanted => {
                    if self.finish(wanted).await {
                        return;
                    }
                }
            }
        }
    }

    /// Adopts or starts the proxy and stays with it until it is gone. One that runs otherwise than it would be started is replaced,
    /// as soon as it is certain that it shall be.
    async fn serve(&mut self, infra: Arc<Infra>, certain: bool) -> Result<(), Error> {
        let envoy = self.shared.options.envoy.find().await?;
        let mut launch = self.launch(&infra, &envoy);
        self.take_place();
        let process = match self.running()? {
            Some(found) if !certain => {
                tracing::info!(gateway = self.fleet.as_str(), pid = found.pid, "watches the envoy that was running");
                launch.identity = found.identity.clone().unwrap_or_default();
                found
            }
            Some(mut found) if self.is_same(&found, &launch) => {
                tracing::info!(gateway = self.fleet.as_str(), pid = found.pid, "adopted the envoy that was running");
                found.identity = Some(launch.identity.clone());
                self.set_log_levels(&launch).await;
                found
            }
            found => {
                if let Some(found) = found {
                    self.has_run = true;
                    self.replace(found, &infra, &launch).await;
                    // The order may have become another meanwhile.
                    return Ok(());
                }
                match self.start(&launch).await? {
                    Some(started) => started,
                    None => return Ok(()),
                }
            }
        };
        self.has_run = true;
        self.state.pid = Some(process.pid);
        self.state.problem = None;
        self.remember(&infra);
        self.look(&infra, &envoy).await;
        self.stay(process, infra, launch, &envoy).await;
        Ok(())
    }

    /// Takes a place if there is one. A proxy that an earlier Chancery ran goes on without, also with another Envoy: the bound ends none.
    fn take_place(&mut self) {
        if self.place.is_none() {
            self.place = Arc::clone(&self.shared.places).try_acquire_owned().ok();
        }
    }

    /// Says that there is no place, and waits for one in turn. False: the order has become another.
    async fn wait_for_place(&mut self) -> bool {
        let problem = Error::Crowded { most: self.shared.options.most }.to_string();
        tracing::warn!(gateway = self.fleet.as_str(), problem, "the proxy waits");
        self.state = EnvoyState { problem: Some(problem.into()), ..EnvoyState::default() };
        self.tell().await;
        tokio::select! {
            place = Arc::clone(&self.shared.places).acquire_owned() => self.place = place.ok(),
            changed = self.orders.changed() => if changed.is_err() {
                std::future::pending::<()>().await;
            }
        }
        self.place.is_some()
    }

    /// Returns true if an Envoy that runs can be kept: it is the one that would be started.
    fn is_same(&self, found: &Process, launch: &Launch) -> bool {
        match &found.identity {
            Some(identity) => *identity == launch.identity,
            None => found.is_started_as(launch, self.home()),
        }
    }

    /// Starts the proxy when its forerunners listen no more; `None` if the order has become another until then.
    async fn start(&mut self, launch: &Launch) -> Result<Option<Process>, Error> {
        if self.place.is_none() && !self.has_run && !self.wait_for_place().await {
            return Ok(None);
        }
        while let Some(closed) = self.closing.last_mut() {
            tokio::select! {
                biased;
                changed = self.orders.changed() => match changed {
                    Ok(()) => return Ok(None),
                    Err(_) => std::future::pending::<()>().await,
                },
                _gone_already = closed => drop(self.closing.pop()),
            }
        }
        if self.orders.has_changed().unwrap_or(false) {
            return Ok(None);
        }
        if !self.wait_for_drains().await {
            return Ok(None);
        }
        // Somebody may have removed the folder since.
        self.shared.options.layout.prepare(&self.fleet)?;
        write_whole(&self.paths.bootstrap, launch.bootstrap.as_bytes())?;
        self.paths.remove_admin_socket();
        if self.drains.is_empty() {
            handover::remove_sockets(&self.paths.sockets);
        }
        let process = Process::start(launch, Lineage::first(&self.paths), &self.paths).await?;
        tracing::info!(gateway = self.fleet.as_str(), pid = process.pid, "started envoy");
        Ok(Some(process))
    }

    /// Waits until no more than [`MOST_DRAINING`] earlier Envoys are there: those beyond have got their signal. False: the order has become another.
    async fn wait_for_drains(&mut self) -> bool {
        while self.drains.len() > MOST_DRAINING {
            tokio::select! {
                biased;
                changed = self.orders.changed() => match changed {
                    Ok(()) => return false,
                    Err(_) => std::future::pending::<()>().await,
                },
                Some(ended) = self.drains.join_next() => self.ended(ended),
            }
        }
        true
    }

    /// Returns when the proxy is gone: by itself (after the pause before its next start), or ended by us because the order
    /// is another.
    async fn stay(&mut self, mut process: Process, mut infra: Arc<Infra>, mut launch: Launch, envoy: &Envoy) {
        let began = Instant::now();
        let mut ask = Pace::new(READY_FIRST, READY_SLOWEST);
        let mut look = Pace::new(LOOK_FIRST, LOOK_SLOWEST);
        // What an edit makes a listener of, and the next one takes away, may be bound between the two looks.
        let (mut ordered, mut again) = (true, false);
        loop {
            if std::mem::take(&mut ordered) && self.is_deaf(&process).await {
                return self.retire(process, Some(&infra)).await;
            }
            tokio::select! {
                how = process.ended() => {
                    let words = log::last_words(&self.paths.log).map(|words| format!("; its last words: {words}")).unwrap_or_default();
                    return self.fail(format!("envoy ended ({how}){words}"), began.elapsed()).await;
                }
                changed = self.orders.changed() => {
                    // Without a sender there will be no order any more: whoever started us is about to drop us.
                    if changed.is_err() {
                        return std::future::pending().await;
                    }
                    let order = self.orders.borrow().clone();
                    let next = order.infra.filter(|_| order.ending == Ending::No).map(|next| (self.launch(&next, envoy), next));
                    match next {
                        Some((fresh, next)) if fresh.identity == launch.identity => {
                            if (&fresh.log_level, &fresh.component_log_levels) != (&launch.log_level, &launch.component_log_levels) {
                                self.set_log_levels(&fresh).await;
                            }
                            (infra, launch) = (next, fresh);
                            self.remember(&infra);
                            self.look(&infra, envoy).await;
                            look = Pace::new(LOOK_FIRST, LOOK_SLOWEST);
                            (ordered, again) = (true, true);
                        }
                        Some((fresh, next)) => return self.replace(process, &next, &fresh).await,
                        None => return self.retire(process, Some(&infra)).await,
                    }
                }
                () = sleep_until(ask.at), if !self.state.ready => {
                    self.home().hide_admin_socket();
                    self.state.ready = admin::ready(&self.home().admin_socket).await.unwrap_or(false);
                    self.tell().await;
                    ask.again();
                }
                () = sleep_until(look.at), if self.state.lacks_something() => {
                    self.look(&infra, envoy).await;
                    look.again();
                }
                () = sleep(ADDRESSES) => {
                    // there may have been no room for it
                    let _again = process.record().write(&self.home().record);
                    self.see_addresses(&infra);
                    self.tell().await;
                    ordered = std::mem::take(&mut again);
                }
            }
        }
    }

    /// Whether datagrams that are meant for others, or for another of its listeners, get lost in this process, telling so.
    async fn is_deaf(&self, process: &Process) -> bool {
        let (pid, fleet, datagrams) = (process.pid, self.fleet.clone(), Arc::clone(&self.orders.borrow().datagrams));
        let look = move || port::deaf_socket(pid, &fleet, &datagrams);
        let deaf = tokio::task::spawn_blocking(look).await.ok().flatten();
        if let Some(socket) = deaf {
            let why = "a UDP listener of it is gone, and its socket would get what is meant for another";
            tracing::info!(gateway = self.fleet.as_str(), pid, %socket, why, "replaces envoy");
        }
        deaf.is_some()
    }

    /// The proxy shall go, or Chancery ends. False: it shall be again.
    async fn finish(&mut self, wanted: Option<Arc<Infra>>) -> bool {
        match self.running() {
            Ok(Some(found)) => self.retire(found, wanted.as_deref()).await,
            Ok(None) => {}
            Err(error) => tracing::warn!(gateway = self.fleet.as_str(), %error, "cannot end envoy"),
        }
        while !self.drains.is_empty() {
            tokio::select! {
                Some(ended) = self.drains.join_next() => self.ended(ended),
                changed = self.orders.changed() => if changed.is_err() {
                    std::future::pending::<()>().await;
                }
            }
            let order = self.orders.borrow();
            if order.infra.is_some() && order.ending == Ending::No {
                return false;
            }
        }
        // The order may have become another meanwhile; then the files are needed.
        if self.orders.borrow().infra.is_none() {
            self.paths.remove();
        }
        handover::forget(&self.paths);
        self.tell_gone().await;
        true
    }

    /// The proxy's process, if it runs: none of those that are being ended.
    fn running(&mut self) -> Result<Option<Process>, Error> {
        if let Some(successor) = self.successor.take() {
            return Ok(Some(successor));
        }
        while let Some(ended) = self.drains.try_join_next() {
            self.ended(ended);
        }
        if let Some(earlier) = &self.earlier
            && Process::adopt(earlier, &self.leaving)?.is_none()
        {
            // What drains there removes them at its end.
            if self.leaving.is_empty() {
                earlier.remove();
            }
            self.earlier = None;
        }
        Process::adopt(self.home(), &self.leaving)
    }

    /// The files of the Envoy that runs, or that is started next.
    fn home(&self) -> &ProxyPaths {
        self.earlier.as_ref().unwrap_or(&self.paths)
    }

    /// Begins to drain and end a process, telling so.
    async fn retire(&mut self, process: Process, infra: Option<&Infra>) {
        let pid = process.pid;
        let home = self.home().clone();
        self.let_end((Retired::new(process, &home), home), infra);
        // Its successor has files of its own.
        self.earlier = None;
        self.state = EnvoyState { pid: Some(pid), ..EnvoyState::default() };
        self.tell().await;
        self.state = EnvoyState::default();
    }

    /// Drains and ends a process that has these files, in the background. The oldest that drains ends at once if there are too many.
    fn let_end(&mut self, (mut retired, home): (Retired, ProxyPaths), infra: Option<&Infra>) {
        let is_own = home == self.paths;
        let bound = infra.and_then(|infra| infra.options.drain_timeout).unwrap_or(self.shared.options.drain);
        let ((closed, is_closed), (make_room, room)) = (oneshot::channel(), oneshot::channel());
        self.rooms.retain(|room| !room.is_closed());
        while self.rooms.len() >= MOST_DRAINING {
            let _ends_anyway = self.rooms.pop_front().map(|oldest| oldest.send(()));
        }
        self.rooms.push_back(make_room);
        let (fleet, orders, pid) = (self.fleet.clone(), self.orders.clone(), retired.process.pid);
        self.closing.retain_mut(|closed| matches!(closed.try_recv(), Err(oneshot::error::TryRecvError::Empty)));
        self.closing.push(is_closed);
        self.leaving.insert(pid);
        self.drains.spawn(async move {
            drain::end(&mut retired, bound, (closed, room), orders).await;
            tracing::info!(gateway = fleet.as_str(), pid, "ended envoy");
            retired.forget();
            if !is_own {
                home.remove();
            }
            pid
        });
    }

    fn ended(&mut self, ended: Result<u32, JoinError>) {
        if let Ok(pid) = ended {
            self.leaving.remove(&pid);
        }
    }

    /// Says why the proxy does not run, and waits before the next try; a new order ends the wait.
    async fn fail(&mut self, problem: String, up: Duration) {
        let pause = self.backoff.died(up);
        tracing::warn!(gateway = self.fleet.as_str(), problem, again_in = ?pause, "the proxy does not run");
        self.state = EnvoyState { problem: Some(problem.into()), ..EnvoyState::default() };
        self.tell().await;
        self.pause(pause).await;
    }

    /// Waits; a new order ends the wait.
    async fn pause(&mut self, pause: Duration) {
        if matches!(timeout(pause, self.orders.changed()).await, Ok(Err(_))) {
            sleep(pause).await;
        }
    }

    /// For a process after this one. Says what other programs lack because of it.
    fn remember(&mut self, infra: &Infra) {
        let crowding = port::outgoing_ports(infra.ports.iter());
        if crowding != self.crowding
            && let Some(words) = &crowding
        {
            tracing::warn!(gateway = self.fleet.as_str(), "{words}");
        }
        self.crowding = crowding;
        if let Err(error) = self.paths.remember(infra) {
            tracing::warn!(gateway = self.fleet.as_str(), %error, "a later chancery cannot start the proxy before it knows its Gateway");
        }
    }

    async fn tell_gone(&self) {
        let _closed = self.shared.facts.send(HostFact { fleet: self.fleet.clone(), state: None }).await;
    }

    async fn tell(&mut self) {
        if self.told.as_ref() != Some(&self.state) {
            self.told = Some(self.state.clone());
            let fact = HostFact { fleet: self.fleet.clone(), state: Some(self.state.clone()) };
            let _closed = self.shared.facts.send(fact).await;
        }
    }

    fn launch(&self, infra: &Infra, envoy: &Envoy) -> Launch {
        let bootstrap = (self.shared.options.bootstrap)(infra, &self.paths);
        Launch::new(infra, envoy, bootstrap, &self.shared.options)
    }

    async fn set_log_levels(&self, launch: &Launch) {
        let components = launch.component_levels();
        if let Err(error) = admin::set_log_levels(&self.paths.admin_socket, &launch.log_level, &components).await {
            tracing::warn!(gateway = self.fleet.as_str(), %error, "cannot set envoy's log levels");
        }
    }

    fn see_addresses(&mut self, infra: &Infra) {
        self.state.addresses = client_addresses(&infra.addresses, &infra.port_numbers());
        self.state.missing_addresses = missing_addresses(&infra.addresses);
    }

    /// Looks at the addresses and ports that it shall have, and tells. Looking who has a port may read the files of all
    /// processes: not a thing for a thread that serves others.
    async fn look(&mut self, infra: &Arc<Infra>, envoy: &Envoy) {
        self.see_addresses(infra);
        let (infra, program, pid) = (Arc::clone(infra), envoy.path.clone(), self.state.pid);
        let look = move || {
            let refused = |table, numbers: &[u16]| {
                // No port: nothing to read.
                let listeners = numbers.first().map(|_| port::Listeners::read(table, pid));
                let refused = numbers.iter().filter_map(|number| {
                    let free = port::port_permission(*number, Some(&program))
                        .and_then(|()| listeners.as_ref().map_or(Ok(()), |it| it.is_free(&infra.addresses, *number)));
                    free.err().map(|why| (*number, why.into()))
                });
                refused.collect()
            };
            (refused(port::Table::Tcp, &infra.ports), refused(port::Table::Udp, &infra.udp_ports))
        };
        (self.state.refused_ports, self.state.refused_udp_ports) =
            tokio::task::spawn_blocking(look).await.unwrap_or_default();
        self.tell().await;
    }
}
