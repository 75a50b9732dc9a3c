//! What one identity may take at a listener. Beyond it calls are refused with words, requests are only slowed down.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

use super::grpc::{Broken, Code};
use super::lately::Lately;
use super::locked;
use super::patience::{PARTS, Patience};
use super::refusals::{RefusalCounters, RefusalReason};

mod calls;
mod config;
mod naming;
#[cfg(test)]
mod tests;

pub(super) use calls::CallPlace;
pub use config::{Limits, Rate};
use naming::Naming;
pub(super) use naming::{NamesTurn, has_to_wait};

/// Tokens of one peer's calls that are being verified.
pub(super) const VERIFIED_AT_ONCE: usize = 32;

/// Work on the HTTP/2 frames of all connections of an identity, in microseconds (`calm::cost`): beyond it they are read more slowly. A tenth of
/// a core, and two seconds of one at once: 10,000 proxies that connect at the same time have 20 frames and 300 bytes of headers each, 100 µs
/// as they are counted.
const FRAMES: Rate = Rate { per_second: 100_000, burst: 2_000_000 };

/// Large answers to people that an identity's clients are given at a time: each has 4 MiB at most until its client has taken it.
const ANSWERS_AT_ONCE: usize = 8;

/// Connections beyond the limit that are answered and not just dropped, so that their clients learn why. Each is there for a second, with at
/// most the 512 KiB that a client may send before they are taken ([`Limits::buffer`]): 32 MiB.
const TOLD: usize = 64;

/// The same is logged once in this time, and so many reasons at most.
const QUIET: Duration = Duration::from_secs(60);
const MOST_REASONS: usize = 8;

/// A request is one more for each of so many bytes, in which there are 160 names of 100 bytes: those of 10,000 proxies that come back with
/// their nodes (61 KB) are 30,000 more, a seventh of what there is at once; the largest (16 MiB) is 1,025, a second of its stream.
const LONG_REQUEST: usize = 16 << 10;

/// Amounts that identities have taken of a listener.
pub(super) struct Accounts {
    pub(super) limits: Limits,
    all: Mutex<BTreeMap<Arc<str>, Arc<Account>>>,
    totals: OnceLock<Arc<Totals>>,
}

/// State that the accounts of all listeners of a server share.
pub(super) struct Totals {
    refusals: Arc<RefusalCounters>,
    calls: AtomicUsize,
    names: AtomicUsize,
    name_bytes: AtomicUsize,
    room: SharedRoom,
}

impl Totals {
    pub(super) fn new(limits: &Limits, refusals: Arc<RefusalCounters>) -> Self {
        let (names, name_bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { refusals, calls: AtomicUsize::new(0), names, name_bytes, room: SharedRoom::new(limits) }
    }
}

/// Room for requests of all identities, in KiB: twice [`Limits::bytes`]. None of the last quarter goes to an identity that has more than an eighth of all, so
/// that two with requests that they do not complete hold up no other.
struct SharedRoom {
    /// The first three quarters.
    most: Arc<Semaphore>,
    last: Arc<Semaphore>,
    /// An eighth.
    share: usize,
}

impl SharedRoom {
    fn new(limits: &Limits) -> Self {
        let all = (limits.bytes >> 10).saturating_mul(2).min(Semaphore::MAX_PERMITS);
        let last = all / 4;
        let [most, last] = [all - last, last].map(|room| Arc::new(Semaphore::new(room)));
        Self { most, last, share: all / 8 }
    }

    /// Waits for room for an identity that has so much of it, this included.
    fn acquire(&self, needed: u32, has: usize) -> impl Future<Output = Option<OwnedSemaphorePermit>> + Send + use<> {
        let most = Arc::clone(&self.most).acquire_many_owned(needed);
        // Who has more waits in no line of the last quarter, where others would wait behind it.
        let last = (has <= self.share).then(|| Arc::clone(&self.last).acquire_many_owned(needed));
        async move {
            let Some(last) = last else { return most.await.ok() };
            tokio::select! {
                biased;
                room = most => room.ok(),
                room = last => room.ok(),
            }
        }
    }
}

/// What an identity has taken. It is forgotten after its last connection, and after what was said of it is long ago.
pub(super) struct Account {
    identity: Arc<str>,
    limits: Limits,
    connections: AtomicUsize,
    calls: AtomicUsize,
    names: AtomicUsize,
    name_bytes: AtomicUsize,
    /// [`VERIFIED_AT_ONCE`].
    pub(super) verifying: Semaphore,
    requests: Mutex<Bucket>,
    /// What [`Limits::answers`] bounds.
    answers: Mutex<Bucket>,
    /// [`ANSWERS_AT_ONCE`].
    answering: Arc<Semaphore>,
    /// [`Limits::bytes`] in KiB.
    room: Arc<Semaphore>,
    logged: Mutex<Lately>,
    totals: Arc<Totals>,
    /// Connections beyond a limit that are there to be refused with words.
    refused: AtomicUsize,
    /// Work that [`FRAMES`] bounds.
    frames: Mutex<Bucket>,
    /// Work on names.
    naming: Naming,
}

impl Accounts {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, all: Mutex::default(), totals: OnceLock::new() }
    }

    /// Counts amounts here from now on: before the first account.
    pub(super) fn count_in(&self, totals: &Arc<Totals>) {
        self.totals.get_or_init(|| Arc::clone(totals));
    }

    /// The account of an identity.
    pub(super) fn of(&self, identity: &Arc<str>) -> Arc<Account> {
        let mut all = locked(&self.all);
        if let Some(account) = all.get(identity) {
            return Arc::clone(account);
        }
        all.retain(|_, account| Arc::strong_count(account) > 1 || locked(&account.logged).has_said());
        let alone = || Arc::new(Totals::new(&self.limits, Arc::default()));
        let totals = Arc::clone(self.totals.get_or_init(alone));
        let account = Arc::new(Account {
            identity: Arc::clone(identity),
            limits: self.limits,
            connections: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            names: AtomicUsize::new(0),
            name_bytes: AtomicUsize::new(0),
            verifying: Semaphore::new(VERIFIED_AT_ONCE),
            requests: Mutex::new(Bucket::full(Instant::now())),
            answers: Mutex::new(Bucket::full(Instant::now())),
            answering: Arc::new(Semaphore::new(ANSWERS_AT_ONCE)),
            room: Arc::new(Semaphore::new(self.limits.bytes >> 10)),
            logged: Mutex::new(Lately::new(MOST_REASONS, QUIET)),
            totals,
            refused: AtomicUsize::new(0),
            frames: Mutex::new(Bucket::full(Instant::now())),
            naming: Naming::new(Instant::now()),
        });
        all.insert(Arc::clone(identity), Arc::clone(&account));
        account
    }
}

/// One of a number of things that an identity may have, until this is dropped.
pub(super) struct Place {
    account: Arc<Account>,
    counter: fn(&Account) -> &AtomicUsize,
}

impl Drop for Place {
    fn drop(&mut self) {
        (self.counter)(&self.account).fetch_sub(1, Ordering::Relaxed);
    }
}

/// A new connection.
pub(super) enum Admission {
    Welcome(Place),
    /// Its calls are refused.
    Refused(Place),
    /// It is to be dropped.
    Dropped,
}

impl Account {
    /// The name of its identity.
    pub(super) fn identity(&self) -> &Arc<str> {
        &self.identity
    }

    /// A new connection.
    pub(super) fn connect(self: &Arc<Self>) -> Admission {
        let (place, before) = self.take(|account| &account.connections);
        if before < self.limits.connections {
            return Admission::Welcome(place);
        }
        self.tell(RefusalReason::Connections, "more connections than one identity may have");
        self.turn_away()
    }

    /// Counts a connection that was taken as another's.
    pub(super) fn count_connection(self: &Arc<Self>) -> Place {
        self.take(|account| &account.connections).0
    }

    /// A connection that is one too many: some are there for a moment, so that their clients learn why.
    pub(super) fn turn_away(self: &Arc<Self>) -> Admission {
        let (place, before) = self.take(|account| &account.refused);
        if before < TOLD { Admission::Refused(place) } else { Admission::Dropped }
    }

    /// Takes room for so much work on frames.
    pub(super) fn charge_frames(&self, work: u32, now: Instant) {
        locked(&self.frames).charge(FRAMES, work, now);
    }

    /// Returns how long until the work on frames is made good, as far as it has to be; none if it is.
    pub(super) fn owes_frames(&self, now: Instant) -> Option<Duration> {
        locked(&self.frames).owed(FRAMES, now)
    }

    /// The words of a refusal, which is logged.
    pub(super) fn refuse(&self, reason: RefusalReason, words: &'static str) -> Broken {
        self.tell(reason, words);
        Broken(Code::ResourceExhausted, words)
    }

    /// Takes the room of so many requests for something costly, so that the next ones wait.
    pub(super) fn charge(&self, requests: usize) {
        let requests = u32::try_from(requests).unwrap_or(u32::MAX);
        locked(&self.requests).charge(self.limits.all, requests, Instant::now());
    }

    /// A turn to make a costly answer, to be kept until its client has taken it. Waits until there are fewer than [`ANSWERS_AT_ONCE`], and
    /// until what the earlier ones cost is made good.
    pub(super) async fn turn_to_answer(self: Arc<Self>) -> Option<OwnedSemaphorePermit> {
        if self.answering.available_permits() == 0 {
            self.tell(
                RefusalReason::Rate,
                "more large answers at a time than one identity may have; they wait for each other",
            );
        }
        let turn = Arc::clone(&self.answering).acquire_owned().await.ok()?;
        let wait = |now| locked(&self.answers).owed(self.limits.answers, now);
        while let Some(wait) = wait(Instant::now()) {
            self.tell(RefusalReason::Rate, "more questions than one identity may ask; they are answered more slowly");
            sleep(wait).await;
        }
        Some(turn)
    }

    /// An answer costs as much as so many requests: later answers wait for it.
    pub(super) fn charge_answer(&self, requests: usize) {
        let requests = u32::try_from(requests).unwrap_or(u32::MAX);
        locked(&self.answers).charge(self.limits.answers, requests, Instant::now());
    }

    /// How long until what was taken, for requests and for answers, is made good.
    #[cfg(test)]
    pub(super) fn until_full(&self) -> [Duration; 2] {
        [&self.requests, &self.answers].map(|bucket| locked(bucket).full_at.saturating_duration_since(Instant::now()))
    }

    /// How long until the work on frames is made good.
    #[cfg(test)]
    pub(super) fn until_frames_are_paid(&self) -> Duration {
        locked(&self.frames).full_at.saturating_duration_since(Instant::now())
    }

    /// Costly answers that may still be made at the same time.
    #[cfg(test)]
    pub(super) fn turns(&self) -> usize {
        self.answering.available_permits()
    }

    fn take(self: &Arc<Self>, counter: fn(&Self) -> &AtomicUsize) -> (Place, usize) {
        let before = counter(self).fetch_add(1, Ordering::Relaxed);
        (Place { account: Arc::clone(self), counter }, before)
    }

    /// Counts what is refused and logs it, the same words once in a minute.
    pub(super) fn tell(&self, reason: RefusalReason, words: &str) {
        self.totals.refusals.count(reason);
        if locked(&self.logged).is_news(words) {
            tracing::warn!(identity = %self.identity, "an xDS client is held back: {words}");
        }
    }
}

/// The names of one client, counted with those of its identity until this is dropped.
pub(super) struct Names {
    account: Arc<Account>,
    count: usize,
    bytes: usize,
}

impl Names {
    pub(super) fn new(account: Arc<Account>) -> Self {
        Self { account, count: 0, bytes: 0 }
    }

    /// The client has so many now, so long together. True if that is more than before, and more than its identity may have.
    pub(super) fn set(&mut self, (count, bytes): (usize, usize)) -> bool {
        let grows = count > self.count || bytes > self.bytes;
        let totals = &self.account.totals;
        let all = change(&totals.names, &mut { self.count }, count);
        let all_bytes = change(&totals.name_bytes, &mut { self.bytes }, bytes);
        let names = change(&self.account.names, &mut self.count, count);
        let name_bytes = change(&self.account.name_bytes, &mut self.bytes, bytes);
        let Limits { names: most, all_names, name_bytes: longest, .. } = self.account.limits;
        let all_bytes_may = longest.saturating_mul(all_names) / most.max(1);
        let over = |all: usize, own: usize, may: usize| all > may || all > may - may / 4 && own > may / 8;
        let alone = names > most || name_bytes > longest;
        grows && (alone || over(all, names, all_names) || over(all_bytes, name_bytes, all_bytes_may))
    }

    /// Charges the first answer for the names that it has.
    pub(super) fn charge_first(&self, names: usize) {
        self.account.charge_first_names(names);
    }

    /// Logs what is refused.
    pub(super) fn tell(&self, words: &str) {
        self.account.tell(RefusalReason::Names, words);
    }

    /// The end of a stream that asks for more.
    pub(super) fn refusal(&self) -> Broken {
        self.account.refuse(RefusalReason::Names, "more names than the clients of one identity may ask for")
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.set((0, 0));
    }
}

/// Sets one part of a sum, which it gives.
fn change(sum: &AtomicUsize, part: &mut usize, to: usize) -> usize {
    let more = to.wrapping_sub(std::mem::replace(part, to));
    match more {
        0 => sum.load(Ordering::Relaxed),
        _ => sum.fetch_add(more, Ordering::Relaxed).wrapping_add(more),
    }
}

/// A token bucket, as the time at which it would be full.
#[derive(Clone, Copy)]
pub(super) struct Bucket {
    full_at: Instant,
}

impl Bucket {
    pub(super) fn full(now: Instant) -> Self {
        Self { full_at: now }
    }

    /// Takes one; or says how long until there is one.
    pub(super) fn take(&mut self, rate: Rate, now: Instant) -> Result<(), Duration> {
        let each = Duration::from_secs(1) / rate.per_second.max(1);
        let full_at = self.full_at.max(now) + each;
        let wait = full_at.saturating_duration_since(now).saturating_sub(each * rate.burst.max(1));
        if wait.is_zero() {
            self.full_at = full_at;
            return Ok(());
        }
        Err(wait)
    }

    /// Returns the time until nothing is owed; none if nothing is.
    pub(super) fn owed(&self, rate: Rate, now: Instant) -> Option<Duration> {
        let all = Duration::from_secs(1) / rate.per_second.max(1) * rate.burst.max(1);
        let owed = self.full_at.saturating_duration_since(now).saturating_sub(all);
        (!owed.is_zero()).then_some(owed)
    }

    /// Takes so many, though they may not be there yet.
    pub(super) fn charge(&mut self, rate: Rate, count: u32, now: Instant) {
        self.full_at = self.full_at.max(now) + Duration::from_secs(1) / rate.per_second.max(1) * count;
    }
}

/// The pace of one stream's requests.
pub(super) struct Pace {
    account: Arc<Account>,
    own: Bucket,
    timer: Option<Pin<Box<Sleep>>>,
    room: Option<WaitingForRoom>,
}

/// Room for one request that does not come in one piece, until this is dropped.
pub(super) struct Room {
    account: Arc<Account>,
    length: usize,
    patience: Patience,
    /// Parts of it that have come with the bytes.
    earned: u32,
    _permits: Option<Permits>,
}

/// Room among the requests of an identity, and among those of all.
type Permits = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// The part of [`Limits::complete`] in which nothing has to come.
const SILENT: u32 = PARTS / 2;

impl Room {
    /// So much of it is there by now.
    pub(super) fn have(&mut self, bytes: usize) {
        self.patience.hear();
        let earned = PARTS as usize * bytes / self.length.max(1);
        self.earned = u32::try_from(earned).unwrap_or(PARTS);
    }

    /// Ready when more should have come: nobody keeps room from others by sending nothing.
    pub(super) fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<Broken> {
        ready!(self.patience.poll_parts((SILENT + self.earned).min(PARTS), cx));
        Poll::Ready(self.account.refuse(RefusalReason::Request, "the request was not complete in time"))
    }
}

type WaitingForRoom = Pin<Box<dyn Future<Output = Option<Permits>> + Send>>;

impl Pace {
    pub(super) fn new(account: Arc<Account>) -> Self {
        Self { account, own: Bucket::full(Instant::now()), timer: None, room: None }
    }

    /// Ready when the next request may be taken in, which it then is.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(timer) = &mut self.timer {
                ready!(timer.as_mut().poll(cx));
                self.timer = None;
            }
            let (limits, now) = (self.account.limits, Instant::now());
            let mut own = self.own;
            let wait = match own.take(limits.stream, now) {
                Ok(()) => locked(&self.account.requests).take(limits.all, now),
                Err(wait) => Err(wait),
            };
            let Err(wait) = wait else {
                self.own = own;
                return Poll::Ready(());
            };
            self.account
                .tell(RefusalReason::Rate, "more requests in a second than a client may send; they are slowed down");
            self.timer = Some(Box::pin(sleep(wait)));
        }
    }

    /// Logs what is refused.
    pub(super) fn tell(&self, Broken(code, words): &Broken) {
        let reason = if *code == Code::ResourceExhausted { RefusalReason::Request } else { RefusalReason::Malformed };
        self.account.tell(reason, words);
    }

    /// A request of this length was taken in: a long one costs as much as several.
    pub(super) fn charge_for(&mut self, length: usize) {
        let Limits { stream, all, .. } = self.account.limits;
        let more = u32::try_from(length / LONG_REQUEST).unwrap_or(u32::MAX);
        if more > 0 {
            let now = Instant::now();
            self.own.charge(stream, more, now);
            locked(&self.account.requests).charge(all, more, now);
        }
    }

    /// Ready when a request of this length may be taken in.
    pub(super) fn poll_room(&mut self, length: usize, cx: &mut Context<'_>) -> Poll<Room> {
        let account = &self.account;
        let waiting = self.room.get_or_insert_with(|| {
            let account = Arc::clone(account);
            let needed = length.div_ceil(1 << 10).min(account.limits.bytes >> 10);
            let needed = u32::try_from(needed).unwrap_or(u32::MAX);
            Box::pin(async move {
                let own = Arc::clone(&account.room).acquire_many_owned(needed).await.ok()?;
                let has = (account.limits.bytes >> 10).saturating_sub(account.room.available_permits());
                Some((own, account.totals.room.acquire(needed, has).await?))
            })
        });
        let Poll::Ready(permits) = waiting.as_mut().poll(cx) else {
            let words =
                "more large requests at a time than one identity, or all together, may send; they wait for each other";
            account.tell(RefusalReason::Request, words);
            return Poll::Pending;
        };
        self.room = None;
        let (account, patience) = (Arc::clone(account), Patience::new(account.limits.complete));
        Poll::Ready(Room { account, length, patience, earned: 0, _permits: permits })
    }
}
