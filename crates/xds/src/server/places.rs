//! The places of all listeners of a server: which connections have one, and which of them goes when another comes and there is none.
//!
//! Nothing is kept back while there is enough. Of the last quarter of the places none goes to a source address or an identity that has more
//! than its share, so that none of them can take all; and when every place is taken, the oldest connection that has proven nothing makes
//! room: first those before the end of their handshake, and in cleartext before a call that was let in, which are in no share; then all
//! others without such a call. Where clients of this machine connect
//! too, an eighth of the places is theirs alone, so that no flood from the network keeps the machine's own proxies out. What they have
//! beyond that makes room as any other.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::AbortHandle;

use super::lately::Lately;
use super::limits::Limits;
use super::locked;
use super::refusals::{RefusalCounters, RefusalReason};

#[cfg(test)]
mod tests;

/// Time in which the same is logged once of a listener, and the lines in it at most: every client can cause them.
const QUIET: Duration = Duration::from_secs(60);
const MOST_LINES: usize = 8;

/// The source of a connection: an IPv4 address, or an IPv6 network of 64 bits, which is what one machine or one customer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SourceNetwork {
    V4([u8; 4]),
    V6([u16; 4]),
}

impl From<IpAddr> for SourceNetwork {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self::V6([a, b, c, d])
            }
        }
    }
}

impl fmt::Display for SourceNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::V4([a, b, c, d]) => write!(f, "{a}.{b}.{c}.{d}"),
            Self::V6([a, b, c, d]) => write!(f, "{}/64", Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0)),
        }
    }
}

/// The name that a place is counted under.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PlaceOwner {
    /// Before the handshake is done.
    Source(SourceNetwork),
    Identity(Arc<str>),
}

impl fmt::Display for PlaceOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(source) => source.fmt(f),
            Self::Identity(name) => f.write_str(name),
        }
    }
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlaceDenied {
    /// All are taken by connections that have proven who they are.
    Places,
    /// Few are left, and the owner has its share.
    Share,
}

/// The places of a server. Clones are the same.
#[derive(Clone)]
pub(super) struct Places(Arc<All>);

struct All {
    most: usize,
    /// Places that an owner may have of the last quarter.
    share: usize,
    refusals: Arc<RefusalCounters>,
    inner: Mutex<Inner>,
}

struct Inner {
    taken: usize,
    /// Those of connections from the network.
    networked: usize,
    /// Places that only clients of this machine get.
    kept: usize,
    next: u64,
    owners: BTreeMap<PlaceOwner, usize>,
    /// Connections whose handshake is not done, by number: the oldest first. Without a task: it is about to begin.
    shaking: BTreeMap<u64, Silent>,
    /// Those of them that come from this machine, of which nothing is known before a call.
    unclaimed: usize,
    /// Connections without a call that was let in.
    idle: BTreeMap<u64, Silent>,
    logged: Lately,
}

/// A connection that has proven nothing.
struct Silent {
    is_networked: bool,
    task: Option<AbortHandle>,
}

impl Inner {
    fn add(&mut self, owner: &PlaceOwner) {
        *self.owners.entry(owner.clone()).or_default() += 1;
    }

    fn remove(&mut self, owner: &PlaceOwner) {
        if let Some(count) = self.owners.get_mut(owner) {
            *count -= 1;
            if *count == 0 {
                self.owners.remove(owner);
            }
        }
    }

    /// Ends the connection that is to go first, if need be one from the network; false if each has proven who it is.
    fn evict(&mut self, spares_machine: bool) -> bool {
        let may_go = |one: &Silent| one.task.is_some() && (one.is_networked || !spares_machine);
        let oldest = [&self.shaking, &self.idle]
            .into_iter()
            .find_map(|silent| silent.iter().find(|(_, one)| may_go(one)).map(|(number, _)| *number));
        let silent = oldest.and_then(|number| self.shaken(number).or_else(|| self.idle.remove(&number)));
        silent.and_then(|silent| silent.task).inspect(AbortHandle::abort).is_some()
    }

    /// It is known whose a connection is, or it ends.
    fn shaken(&mut self, number: u64) -> Option<Silent> {
        let silent = self.shaking.remove(&number)?;
        self.unclaimed -= usize::from(!silent.is_networked);
        Some(silent)
    }
}

impl Places {
    pub(super) fn new(limits: &Limits, refusals: Arc<RefusalCounters>) -> Self {
        let inner = Inner {
            taken: 0,
            networked: 0,
            kept: 0,
            next: 0,
            owners: BTreeMap::new(),
            shaking: BTreeMap::new(),
            unclaimed: 0,
            idle: BTreeMap::new(),
            logged: Lately::new(MOST_LINES, QUIET),
        };
        Self(Arc::new(All { most: limits.places, share: limits.share, refusals, inner: Mutex::new(inner) }))
    }

    /// Keeps an eighth of the places for clients of this machine from now on.
    pub(super) fn keep_for_machine(&self) {
        locked(&self.0.inner).kept = self.0.most / 8;
    }

    /// A place for a connection that has just come, if need be that of one which has proven nothing. Without a source no share is kept before it
    /// is known whose it is: all come from this machine then.
    pub(super) fn arrive(&self, source: Option<IpAddr>) -> Result<ListenerPlace, PlaceDenied> {
        let owner = source.map(|address| PlaceOwner::Source(address.into()));
        let mut inner = locked(&self.0.inner);
        if let Some(owner) = &owner
            && self.0.is_short(inner.taken)
            && self.0.has_share(&inner, owner)
        {
            self.0.tell(&mut inner, PlaceDenied::Share, Some(owner));
            return Err(PlaceDenied::Share);
        }
        let is_networked = owner.is_some();
        let no_more = is_networked && inner.networked >= self.0.most - inner.kept;
        if no_more || inner.taken >= self.0.most {
            // where the network has not all that it may have, this machine has more than what is kept for it
            if !inner.evict(no_more) {
                self.0.tell(&mut inner, PlaceDenied::Places, owner.as_ref());
                return Err(PlaceDenied::Places);
            }
            self.0.refusals.count(RefusalReason::Silent);
            if inner.logged.is_news("silent") {
                tracing::warn!(
                    places = self.0.most,
                    "all places for xDS connections are taken; the oldest silent connections are ended"
                );
            }
        }
        inner.taken += 1;
        inner.networked += usize::from(is_networked);
        inner.next += 1;
        let number = inner.next;
        inner.shaking.insert(number, Silent { is_networked, task: None });
        inner.unclaimed += usize::from(!is_networked);
        owner.iter().for_each(|owner| inner.add(owner));
        drop(inner);
        Ok(ListenerPlace { all: Arc::clone(&self.0), number, is_networked, owner: Mutex::new(owner) })
    }

    /// The task of a connection, which may be ended while it has proven nothing.
    pub(super) fn begin(&self, number: u64, task: AbortHandle) {
        let mut inner = locked(&self.0.inner);
        let Inner { shaking, idle, .. } = &mut *inner;
        if let Some(place) = shaking.get_mut(&number).or_else(|| idle.get_mut(&number)) {
            place.task = Some(task);
        }
    }

    /// Returns how many are taken.
    #[cfg(test)]
    pub(super) fn taken(&self) -> usize {
        locked(&self.0.inner).taken
    }
}

impl All {
    /// Only the last quarter of the places is left when so many are taken.
    fn is_short(&self, taken: usize) -> bool {
        taken >= self.most - self.most / 4
    }

    fn has_share(&self, inner: &Inner, owner: &PlaceOwner) -> bool {
        inner.owners.get(owner).is_some_and(|count| *count >= self.share)
    }

    /// Counts a refusal, and logs it now and then.
    fn tell(&self, inner: &mut Inner, full: PlaceDenied, owner: Option<&PlaceOwner>) {
        let (reason, words) = match full {
            PlaceDenied::Places => {
                (RefusalReason::Places, "all places for xDS connections are taken; a connection is refused".to_owned())
            }
            PlaceDenied::Share => {
                let owner = owner.map(PlaceOwner::to_string).unwrap_or_default();
                let words = format!(
                    "few places for xDS connections are left and {owner} has its share; a connection is refused"
                );
                (RefusalReason::Share, words)
            }
        };
        self.refusals.count(reason);
        if inner.logged.is_news(&words) {
            tracing::warn!(places = self.most, share = self.share, "{words}");
        }
    }
}

/// The place of one connection, until this is dropped.
pub(super) struct ListenerPlace {
    all: Arc<All>,
    number: u64,
    is_networked: bool,
    owner: Mutex<Option<PlaceOwner>>,
}

impl ListenerPlace {
    /// For [`Places::begin`].
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The connection is this identity's from now on. One of which nothing is known yet is in no share: it makes room before all others.
    ///
    /// # Errors
    /// Places are short, and the identity has its share already: the connection is to be refused.
    pub(super) fn identify(&self, identity: &Arc<str>) -> Result<(), PlaceDenied> {
        let mut inner = locked(&self.all.inner);
        let owner = PlaceOwner::Identity(Arc::clone(identity));
        let silent = inner.shaken(self.number);
        // its own place is among those that are taken; those of whom nothing is known make room
        let others = inner.taken.saturating_sub(1 + inner.unclaimed);
        if let Some(silent) = silent {
            inner.idle.insert(self.number, silent);
        }
        if self.all.is_short(others) && self.all.has_share(&inner, &owner) {
            self.all.tell(&mut inner, PlaceDenied::Share, Some(&owner));
            return Err(PlaceDenied::Share);
        }
        inner.add(&owner);
        if let Some(before) = locked(&self.owner).replace(owner) {
            inner.remove(&before);
        }
        Ok(())
    }

    /// A call was let in: the connection makes room for no other.
    pub(super) fn prove(&self) {
        let mut inner = locked(&self.all.inner);
        inner.shaken(self.number);
        inner.idle.remove(&self.number);
    }
}

impl Drop for ListenerPlace {
    fn drop(&mut self) {
        let mut inner = locked(&self.all.inner);
        inner.taken -= 1;
        inner.networked -= usize::from(self.is_networked);
        inner.shaken(self.number);
        inner.idle.remove(&self.number);
        locked(&self.owner).iter().for_each(|owner| inner.remove(owner));
    }
}
