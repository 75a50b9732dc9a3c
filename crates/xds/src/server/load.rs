//! Load reports: their streams, and the task that lets time pass for what they said.

use std::collections::BTreeMap;
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, TryLockError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::call::Call;
use super::gate::Caller;
use super::grpc::{Broken, Code};
use super::{Cell, Shared, locked, stopped};
use crate::event::{Event, Node};
use crate::load::{LoadReports, Loads, Malformed, ReporterId, Talk, frame, node_of};
use crate::resource::TypeUrl;
use crate::snapshot::Look;
use crate::timed::Timed;
use crate::wire::read;

/// Messages taken in before others have their turn.
const BURST: usize = 64;

/// Until clients are asked for reports.
const NO_INTERVAL: Duration = Duration::from_secs(10);

/// A fleet of which a report is being read is looked at again after this time: the largest report takes longer, an ordinary one a tenth.
const BUSY: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests;

/// What clients report, and what they are asked to.
pub(super) struct Desk {
    asked: watch::Sender<Option<Arc<LoadReports>>>,
    /// By fleet: nobody waits while a report of another fleet is read. One is dropped while all are locked and nobody else has it.
    fleets: Mutex<BTreeMap<Arc<str>, Arc<Mutex<Loads>>>>,
    /// When to look at which fleet.
    due: Mutex<Timed>,
    /// One of them is due earlier than all were.
    news: Notify,
}

impl Default for Desk {
    fn default() -> Self {
        Self { asked: watch::Sender::new(None), fleets: Mutex::default(), due: Mutex::default(), news: Notify::new() }
    }
}

impl Desk {
    /// What the clients of a fleet report.
    fn of(&self, fleet: &Arc<str>) -> Arc<Mutex<Loads>> {
        let interval = || self.asked.borrow().as_ref().map_or(NO_INTERVAL, |reports| reports.interval());
        let new = || Arc::new(Mutex::new(Loads::new(Arc::clone(fleet), interval())));
        Arc::clone(locked(&self.fleets).entry(Arc::clone(fleet)).or_insert_with(new))
    }

    /// The fleet is looked at at this time or before.
    fn look_at(&self, fleet: &Arc<str>, time: Duration) {
        let mut due = locked(&self.due);
        if due.of(fleet).is_none_or(|before| time < before) {
            due.set(time, fleet);
            self.news.notify_one();
        }
    }

    /// When to look at the next fleet.
    fn next(&self) -> Option<Duration> {
        locked(&self.due).next(Duration::ZERO)
    }

    /// The fleets to be looked at by now.
    fn take_due(&self, now: Duration) -> Vec<Arc<str>> {
        let mut due = locked(&self.due);
        let fleets: Vec<Arc<str>> = due.due(now).cloned().collect();
        fleets.iter().for_each(|fleet| due.release(fleet));
        fleets
    }

    /// What there is to tell of a fleet by now, and when to look again. Waits for nobody. One of which nobody reports any more is forgotten.
    fn look(&self, fleet: &Arc<str>, now: Duration) -> Vec<Event> {
        let Some(loads) = locked(&self.fleets).get(fleet).cloned() else { return Vec::new() };
        let mut open = match loads.try_lock() {
            Ok(open) => open,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.look_at(fleet, now + BUSY);
                return Vec::new();
            }
        };
        let events = open.advance(now);
        let (next, idle) = (open.next_deadline(), open.is_idle());
        drop(open);
        // a stream that begins or ends just now has it too
        let next = if idle && !self.forget(fleet, &loads) { Some(now + BUSY) } else { next };
        if let Some(time) = next {
            self.look_at(fleet, time);
        }
        events
    }

    /// Drops what clients of a fleet reported, unless somebody else has it, or it is of use.
    fn forget(&self, fleet: &str, loads: &Arc<Mutex<Loads>>) -> bool {
        let mut fleets = locked(&self.fleets);
        // the entry and the caller
        let unused = Arc::strong_count(loads) == 2 && locked(loads).is_idle();
        unused && fleets.remove(fleet).is_some()
    }
}

impl Shared {
    /// From now on every client is asked for these reports.
    pub(super) fn ask_for_loads(&self, reports: Option<LoadReports>) {
        let interval = reports.as_ref().map(LoadReports::interval);
        self.desk.asked.send_replace(reports.map(Arc::new));
        if let Some(interval) = interval {
            let now = self.now();
            let all: Vec<_> = locked(&self.desk.fleets).clone().into_iter().collect();
            for (fleet, loads) in all {
                locked(&loads).set_interval(interval, now);
                self.desk.look_at(&fleet, now);
            }
        }
    }

    /// Hands on what there is to tell, when it is time.
    pub(super) async fn tell_loads(&self) {
        loop {
            tokio::select! {
                () = at(self.desk.next().map(|time| Instant::from_std(self.epoch + time))) => {}
                () = self.desk.news.notified() => {}
            }
            for fleet in self.desk.take_due(self.now()) {
                self.outbox.put(self.desk.look(&fleet, self.now()));
            }
        }
    }

    /// What there is to tell a client of these reports about a fleet.
    fn basis(&self, fleet: &str, reports: Option<Arc<LoadReports>>) -> Basis {
        let cell = locked(&self.fleets).get(fleet).cloned();
        let seq = cell.as_ref().map_or(0, |cell| locked(&cell.fleet).seq());
        Basis { reports, cell: cell.as_ref().map(Arc::downgrade).unwrap_or_default(), seq }
    }

    /// The names of a fleet's clusters.
    fn clusters(&self, fleet: &str) -> Vec<Arc<str>> {
        let names = |fleet: &crate::fleet::Fleet| {
            fleet.snapshot().targets(&TypeUrl::Cluster).map(|item| Arc::clone(item.name())).collect()
        };
        self.look(fleet, names).unwrap_or_default()
    }
}

/// Waits until then; for ever if that is never.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

/// A stream of load reports as a response body.
pub(super) struct LoadStream {
    work: Option<Pin<Box<dyn Future<Output = Broken> + Send>>>,
    responses: mpsc::Receiver<Bytes>,
    end: Option<Broken>,
}

impl LoadStream {
    pub(super) fn new(call: Call) -> Self {
        let (sender, responses) = mpsc::channel(1);
        let work = async move {
            match converse(call, sender).await {
                Ok(()) => Broken(Code::Ok, ""),
                Err(broken) => broken,
            }
        };
        Self { work: Some(Box::pin(work)), responses, end: None }
    }

    /// The next part of the body.
    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame<Bytes>>> {
        if let Some(work) = &mut self.work
            && let Poll::Ready(broken) = work.as_mut().poll(cx)
        {
            (self.work, self.end) = (None, Some(broken));
        }
        match self.responses.poll_recv(cx) {
            Poll::Ready(Some(response)) => Poll::Ready(Some(Frame::data(response))),
            _ if self.work.is_some() => Poll::Pending,
            _ => Poll::Ready(self.end.take().map(|Broken(code, message)| Frame::trailers(code.headers(message)))),
        }
    }
}

/// What a client was told after: as long as it is the same there is nothing to tell, and the names of the fleet's clusters are not gone over.
struct Basis {
    reports: Option<Arc<LoadReports>>,
    /// Of the fleet; nothing if there is none.
    cell: Weak<Cell>,
    seq: u64,
}

impl PartialEq for Basis {
    fn eq(&self, other: &Self) -> bool {
        let reports = |basis: &Self| basis.reports.as_ref().map(Arc::as_ptr);
        reports(self) == reports(other) && self.cell.ptr_eq(&other.cell) && self.seq == other.seq
    }
}

/// A reporter whose stream ends with this value.
struct Reporter {
    shared: Arc<Shared>,
    fleet: Arc<str>,
    node: Node,
    loads: Arc<Mutex<Loads>>,
    id: ReporterId,
}

impl Drop for Reporter {
    fn drop(&mut self) {
        locked(&self.loads).close(self.id);
        self.shared.desk.look_at(&self.fleet, self.shared.now());
    }
}

/// Everything that is said on a stream, until the client ends it.
async fn converse(call: Call, responses: mpsc::Sender<Bytes>) -> Result<(), Broken> {
    let Call { shared, caller, mut requests, mut stop, .. } = call;
    let mut asked = shared.desk.asked.subscribe();
    let mut stopping = std::pin::pin!(stopped(&mut stop));
    let mut open: Option<(Reporter, Talk)> = None;
    let (mut taken, mut again, mut told) = (0, None, None::<Basis>);
    loop {
        tokio::select! {
            biased;
            () = &mut stopping => return Err(Broken(Code::Unavailable, "the server is stopping")),
            changed = asked.changed() => if changed.is_err() { return Ok(()) },
            () = at(again) => {}
            message = poll_fn(|cx| requests.poll_next(cx)) => {
                let Some(message) = message else { return Ok(()) };
                let message = message?;
                if let Some((reporter, _)) = &mut open {
                    reporter.report(&message).inspect_err(|broken| caller.tell(broken))?;
                    taken += 1;
                    if taken % BURST == 0 {
                        tokio::task::yield_now().await;
                    }
                    // that it reports changes nothing of what it is asked for
                    continue;
                }
                open = Some(begin(&shared, &caller, &message).inspect_err(|broken| caller.tell(broken))?);
            }
        }
        if let Some((reporter, talk)) = &mut open {
            let reports = asked.borrow_and_update().clone();
            let basis = Some(shared.basis(&reporter.fleet, reports.clone()));
            if told == basis {
                again = talk.look_again().map(|after| Instant::now() + after);
                continue;
            }
            told = basis;
            let clusters = || shared.clusters(&reporter.fleet).into_iter();
            let response = talk.tell(reports.as_deref(), clusters).map(frame);
            again = talk.look_again().map(|after| Instant::now() + after);
            if let Some(response) = response
                && responses.send(response).await.is_err()
            {
                return Ok(());
            }
        }
    }
}

/// Whose stream this is. The first message has no reports: nothing was asked for yet.
fn begin(shared: &Arc<Shared>, caller: &Caller, message: &Bytes) -> Result<(Reporter, Talk), Broken> {
    let node = node_of(message).map_err(unreadable)?.unwrap_or_default();
    let talk = Talk::new(node).map_err(unreadable)?;
    let node = read::node(message.slice_ref(node)).ok_or(LONG_NAME)?;
    let fleet = caller.fleet(&node)?;
    let loads = shared.desk.of(&fleet);
    let opened = locked(&loads).open(Arc::new(node.clone()), shared.now());
    let id = opened.map_err(|_| Broken(Code::ResourceExhausted, "too many clients of this Gateway report"))?;
    Ok((Reporter { shared: Arc::clone(shared), fleet, node, loads, id }, talk))
}

impl Reporter {
    fn report(&self, message: &Bytes) -> Result<(), Broken> {
        let Self { shared, fleet, node, loads, id } = self;
        if let Some(again) = node_of(message).map_err(unreadable)?
            && read::node(message.slice_ref(again)).ok_or(LONG_NAME)? != *node
        {
            return Err(Broken(Code::InvalidArgument, "the node of a stream cannot change"));
        }
        if shared.desk.asked.borrow().is_none() {
            return Ok(());
        }
        let has = |name: &str| shared.look(fleet, |fleet| fleet.snapshot().target(&TypeUrl::Cluster, name).is_some());
        let known = |name: &str| has(name).unwrap_or(false);
        let earlier = locked(loads).receive(*id, message, shared.now(), &known).map_err(unreadable)?;
        if let Some(time) = earlier {
            shared.desk.look_at(fleet, time);
        }
        Ok(())
    }
}

const LONG_NAME: Broken = Broken(Code::InvalidArgument, "a name is longer than 4096 bytes");

fn unreadable(_: Malformed) -> Broken {
    Broken(Code::InvalidArgument, "not a LoadStatsRequest")
}
