//! What one identity may take at a listener. Beyond it calls are refused with words, requests are only slowed down.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

use super::grpc::{Broken, Code};
use super::lately::Lately;
use super::locked;
use super::patience::{PARTS, Patience};

#[cfg(test)]
mod tests;

/// So many per second in the long run, and so many at once.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// In a second.
    pub per_second: u32,
    /// At once, after a time of silence.
    pub burst: u32,
}

/// What one identity may take at a listener. All proxies of a Gateway may have the same identity.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections. The default is 12,000 and some: 10,000 proxies of one Gateway and a fifth of them reconnecting, so that a
    /// quarter of what a listener takes (16,384) is left for others.
    pub connections: usize,
    /// Calls under way. The default is four for each connection: a discovery stream, a stream of load reports, and two for people.
    pub calls: usize,
    /// Streams of one connection at a time. The default is 16,384: a client that asks for each kind apart opens one for each endpoint set
    /// and route configuration, and for a moment two while a cluster changes. What they cost together is bounded by [`Self::calls`],
    /// [`Self::names`] and [`Self::bytes`]; what is not read of them by 96 KiB for each connection.
    pub streams: u32,
    /// Requests of one stream; one of more than 16 KiB counts as several. The default is 1,000 in a second: Envoy acknowledges one response
    /// in 1 ms; and 4,000 at once: a first start that asks for 1,000 clusters one by one, four kinds of resources.
    pub stream: Rate,
    /// Requests of all streams, and new calls. The default is 20,000 in a second, which at 10 µs each is a fifth of a core; and
    /// 200,000 at once: 10,000 proxies that come back after a restart, 20 messages each.
    pub all: Rate,
    /// What answers to people cost (client status; reflection waits for it and costs nothing), in requests: those of proxies do not wait
    /// for it. The default is 10,000 in a second, a
    /// tenth of a core, and 20,000 at once: what 400,000 names cost.
    pub answers: Rate,
    /// Bytes of requests that are not complete yet, of all streams; further ones wait, each with what its first frame brought (16 KiB, which
    /// is 800 MB for all of [`Self::calls`]). The default is 256 MiB: 4,000 proxies at a time that begin with their node (61 KB), 700 that
    /// come back with the names of 10,000 clusters each (370 KB), or 16 of the largest requests that are read.
    pub bytes: usize,
    /// Names that its clients ask for, or say that they have, together. The default is 16 Mi: 10,000 proxies with 1,000 clusters and two
    /// thirds as many other names each. At 100 bytes each that is 1.7 GB.
    pub names: usize,
    /// Bytes of all those names, as if none were shared with the fleet. The default is 1 GiB: 64 for each of [`Self::names`].
    pub name_bytes: usize,
    /// How long such a request may take to be complete, in time in which the server listens. The default is a minute: 16 MiB at 2 Mbit/s.
    /// Half of it is given at the beginning, the rest with the bytes that come: an Envoy that takes 50,000 routes says nothing for some
    /// 15 s, and who announces much and sends nothing keeps the room from others for 30 s.
    pub complete: Duration,
    /// How long a connection lasts, give or take a tenth, so that connections that began together do not end together; none: as
    /// long as its client likes. The default is half an hour: clients then spread over the servers that there are, and one whose
    /// authority was taken from the trust bundle is out by then even if its certificate is good for a year. To an Envoy it is a
    /// reconnect without any effect on requests.
    pub age: Option<Duration>,
    /// TLS handshakes under way at the listener. The default is 512: a core does 1,000 in a second, and each keeps at most 64 KiB of
    /// what its client sent.
    pub handshakes: usize,
    /// How long a handshake may take; one that begins while half of [`Self::handshakes`] are under way, a fifth of that. The default
    /// is 5 s, some round trips across the world: who opens connections and says nothing would need 512 in each second to
    /// keep others out.
    pub handshake: Duration,
}

impl Limits {
    /// Those for clients on this machine: their connections have no age.
    pub(super) fn local() -> Self {
        Self { age: None, ..Self::default() }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 12_288,
            calls: 4 * 12_288,
            streams: 16_384,
            stream: Rate { per_second: 1_000, burst: 4_000 },
            all: Rate { per_second: 20_000, burst: 200_000 },
            answers: Rate { per_second: 10_000, burst: 20_000 },
            bytes: 256 << 20,
            names: 16 << 20,
            name_bytes: 1 << 30,
            complete: Duration::from_secs(60),
            age: Some(Duration::from_secs(30 * 60)),
            handshakes: 512,
            handshake: Duration::from_secs(5),
        }
    }
}

/// Tokens of one peer's calls that are being verified.
pub(super) const VERIFIED_AT_ONCE: usize = 32;

/// Large answers to people that an identity's clients are given at a time: each has 4 MiB at most until its client has taken it.
const ANSWERS_AT_ONCE: usize = 8;

/// Connections beyond the limit that are answered and not just dropped, so that their clients learn why. Each is there for a second, with at
/// most the 512 KiB that a client may send before they are taken: 32 MiB.
const TOLD: usize = 64;

/// The same is logged once in this time, and so many reasons at most.
const QUIET: Duration = Duration::from_secs(60);
const MOST_REASONS: usize = 8;

/// A request is one more for each of so many bytes, in which there are 160 names of 100 bytes: those of 10,000 proxies that come back with
/// their nodes (61 KB) are 30,000 more, a seventh of what there is at once; the largest (16 MiB) is 1,025, a second of its stream.
const LONG_REQUEST: usize = 16 << 10;

/// What identities have taken.
pub(super) struct Accounts {
    pub(super) limits: Limits,
    all: Mutex<BTreeMap<Arc<str>, Arc<Account>>>,
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
}

impl Accounts {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, all: Mutex::default() }
    }

    /// The account of an identity.
    pub(super) fn of(&self, identity: &Arc<str>) -> Arc<Account> {
        let mut all = locked(&self.all);
        if let Some(account) = all.get(identity) {
            return Arc::clone(account);
        }
        all.retain(|_, account| Arc::strong_count(account) > 1 || locked(&account.logged).has_said());
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
    /// A new connection.
    pub(super) fn connect(self: &Arc<Self>) -> Admission {
        let (place, before) = self.take(|account| &account.connections);
        if before < self.limits.connections {
            return Admission::Welcome(place);
        }
        self.tell("more connections than one identity may have");
        if before < self.limits.connections + TOLD { Admission::Refused(place) } else { Admission::Dropped }
    }

    /// A new call, as soon as it may begin.
    pub(super) async fn call(self: &Arc<Self>) -> Result<Place, Broken> {
        let (place, before) = self.take(|account| &account.calls);
        if before >= self.limits.calls {
            return Err(self.refuse("more calls than one identity may have"));
        }
        let wait = |now| locked(&self.requests).take(self.limits.all, now);
        while let Err(wait) = wait(Instant::now()) {
            self.tell("more calls in a second than one identity may make; they are slowed down");
            sleep(wait).await;
        }
        Ok(place)
    }

    /// The words of a refusal, which is logged.
    pub(super) fn refuse(&self, words: &'static str) -> Broken {
        self.tell(words);
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
            self.tell("more large answers at a time than one identity may have; they wait for each other");
        }
        let turn = Arc::clone(&self.answering).acquire_owned().await.ok()?;
        let wait = |now| locked(&self.answers).owed(self.limits.answers, now);
        while let Some(wait) = wait(Instant::now()) {
            self.tell("more questions than one identity may ask; they are answered more slowly");
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

    /// Costly answers that may still be made at the same time.
    #[cfg(test)]
    pub(super) fn turns(&self) -> usize {
        self.answering.available_permits()
    }

    fn take(self: &Arc<Self>, counter: fn(&Self) -> &AtomicUsize) -> (Place, usize) {
        let before = counter(self).fetch_add(1, Ordering::Relaxed);
        (Place { account: Arc::clone(self), counter }, before)
    }

    /// Logs what is refused, for each reason once in a minute.
    pub(super) fn tell(&self, words: &str) {
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
        let names = change(&self.account.names, &mut self.count, count);
        let name_bytes = change(&self.account.name_bytes, &mut self.bytes, bytes);
        let Limits { names: most, name_bytes: longest, .. } = self.account.limits;
        grows && (names > most || name_bytes > longest)
    }

    /// Logs what is refused.
    pub(super) fn tell(&self, words: &str) {
        self.account.tell(words);
    }

    /// The end of a stream that asks for more.
    pub(super) fn refusal(&self) -> Broken {
        self.account.refuse("more names than the clients of one identity may ask for")
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        change(&self.account.names, &mut self.count, 0);
        change(&self.account.name_bytes, &mut self.bytes, 0);
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

    /// How long until nothing is owed; none if nothing is.
    fn owed(&self, rate: Rate, now: Instant) -> Option<Duration> {
        let all = Duration::from_secs(1) / rate.per_second.max(1) * rate.burst.max(1);
        let owed = self.full_at.saturating_duration_since(now).saturating_sub(all);
        (!owed.is_zero()).then_some(owed)
    }

    /// Takes so many, though they may not be there yet.
    fn charge(&mut self, rate: Rate, count: u32, now: Instant) {
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
    _permit: Option<OwnedSemaphorePermit>,
}

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
        Poll::Ready(self.account.refuse("the request was not complete in time"))
    }
}

type WaitingForRoom = Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>;

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
            self.account.tell("more requests in a second than a client may send; they are slowed down");
            self.timer = Some(Box::pin(sleep(wait)));
        }
    }

    /// Logs what is refused.
    pub(super) fn tell(&self, words: &str) {
        self.account.tell(words);
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
            let (room, needed) = (Arc::clone(&account.room), length.div_ceil(1 << 10).min(account.limits.bytes >> 10));
            let needed = u32::try_from(needed).unwrap_or(u32::MAX);
            Box::pin(async move { room.acquire_many_owned(needed).await.ok() })
        });
        let Poll::Ready(permit) = waiting.as_mut().poll(cx) else {
            account.tell("more large requests at a time than one identity may send; they wait for each other");
            return Poll::Pending;
        };
        self.room = None;
        let (account, patience) = (Arc::clone(account), Patience::new(account.limits.complete));
        Poll::Ready(Room { account, length, patience, earned: 0, _permit: permit })
    }
}
