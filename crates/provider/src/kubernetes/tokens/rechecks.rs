//! [`TokenRechecks`]: reviews accepted tokens again, as one can be withdrawn before its end: by deleting its `ServiceAccount` or its Pod.

use std::cmp::Reverse;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use api::Timestamp;
use futures::StreamExt as _;
use hashbrown::HashMap;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{ReviewError, TokenReviewer};
use crate::kubernetes::presence::{PodId, Presence};

#[cfg(test)]
mod tests;

/// Pods (and accounts with tokens that are bound to no Pod) that are reviewed again at most: twice as many as Pods are tracked
/// ([`crate::kubernetes::presence`]). Each keeps one token of some 1,200 bytes, so 40 MB. The tokens of a further one are not accepted.
const MOST: usize = 32_768;

/// Of the last quarter of [`MOST`] none goes to a namespace that has this many: an eighth of all.
const SHARE: usize = MOST / 8;

/// Reviews in one round: with a round each second 50 in a second, 3,000 Pods in [`RecheckTiming::known`]. With more, those of the namespaces
/// that have the most wait longer: 10,000 of one for 200 s.
const IN_A_ROUND: usize = 50;

/// Reviews at the same time.
const AT_ONCE: usize = 8;

/// Longest wait for a review.
const ANSWER: Duration = Duration::from_secs(5);

/// Times to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecheckTiming {
    /// Between two rounds.
    pub round: Duration,
    /// Between two reviews of a token.
    pub known: Duration,
    /// The same where the end of its Pod is not noticed otherwise.
    pub uncertain: Duration,
}

impl Default for RecheckTiming {
    fn default() -> Self {
        Self {
            round: Duration::from_secs(1),
            known: Duration::from_secs(60),
            // What the API server remembers of a review.
            uncertain: Duration::from_secs(10),
        }
    }
}

/// Becomes `true` once the tokens of a Pod are withdrawn. One of them is reviewed until this is dropped.
type Withdrawn = Arc<watch::Sender<bool>>;

/// See the module. A clone is the same.
#[derive(Clone, Default)]
pub struct TokenRechecks(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    /// By the uids of the Pod and of the account, or by that of the account where a token is bound to no Pod.
    bearers: HashMap<Arc<str>, Reviewed>,
    /// Their number in each namespace.
    counts: HashMap<Arc<str>, usize>,
    /// It was said that there is no room.
    is_full: bool,
}

/// The tokens of one Pod. They are withdrawn together, with the Pod or its account, so the review of one is enough: a Pod for which thousands are made costs
/// no more than another.
struct Reviewed {
    /// The token that is reviewed: of those that were accepted the one that expires last.
    token: Arc<str>,
    namespace: Arc<str>,
    pod: Option<PodId>,
    withdrawn: Weak<watch::Sender<bool>>,
    reviewed: Instant,
    /// It expires then.
    expires: Option<Instant>,
}

impl Reviewed {
    fn is_over(&self, now: Instant) -> bool {
        self.withdrawn.strong_count() == 0 || self.expires.is_some_and(|expires| expires <= now)
    }

    /// Takes a further token that was accepted now.
    fn renew(&mut self, token: &str, expires: Option<Instant>, now: Instant) {
        self.reviewed = now;
        let is_later = match (expires, self.expires) {
            (Some(expires), Some(before)) => expires >= before,
            (expires, _) => expires.is_none(),
        };
        if is_later {
            (self.token, self.expires) = (token.into(), expires);
        }
    }
}

impl TokenRechecks {
    /// Reviews a token again and again that was good a moment ago, or another of its Pod and account (the uid of `account`: a Pod outlives an account that
    /// is made again under the same name); none where there is no room for it.
    #[must_use]
    pub fn keep(
        &self,
        token: &str,
        account: &str,
        pod: Option<&PodId>,
        (expires, time): (Option<Timestamp>, Timestamp),
    ) -> Option<Withdrawn> {
        let now = Instant::now();
        let left = |expires: Timestamp| Duration::from_secs(u64::try_from(expires.0 - time.0).unwrap_or_default());
        let expires = expires.and_then(|expires| now.checked_add(left(expires)));
        let bearer = &*pod.map_or_else(|| account.to_owned(), |pod| format!("{}/{account}", pod.uid));
        let namespace = pod.map_or(account, |pod| &pod.namespace);
        let mut kept = self.kept();
        if let Some(known) = kept.bearers.get_mut(bearer)
            && let Some(withdrawn) = known.withdrawn.upgrade()
        {
            known.renew(token, expires, now);
            return Some(withdrawn);
        }
        if !kept.has_room(namespace, now) {
            return None;
        }
        let withdrawn: Withdrawn = Arc::new(watch::Sender::new(false));
        let namespace: Arc<str> = namespace.into();
        *kept.counts.entry(Arc::clone(&namespace)).or_default() += 1;
        let reviewed = Reviewed {
            token: token.into(),
            namespace,
            pod: pod.cloned(),
            withdrawn: Arc::downgrade(&withdrawn),
            reviewed: now,
            expires,
        };
        let before = kept.bearers.insert(bearer.into(), reviewed);
        before.iter().for_each(|before| kept.uncount(&before.namespace));
        Some(withdrawn)
    }

    /// Reviews tokens until `stop`.
    pub async fn follow(
        self,
        reviewer: TokenReviewer,
        presence: Presence,
        timing: RecheckTiming,
        stop: CancellationToken,
    ) {
        let mut rounds = interval(timing.round);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let round = async {
                rounds.tick().await;
                let due = self.due(&presence, timing);
                futures::stream::iter(due)
                    .for_each_concurrent(AT_ONCE, async |due| self.review(&reviewer, &due).await)
                    .await;
            };
            tokio::select! {
                () = round => {}
                () = stop.cancelled() => return,
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets tokens that are over. Returns those of the others that are to be reviewed, with their bearers: of each namespace in turn the latest.
    fn due(&self, presence: &Presence, timing: RecheckTiming) -> Vec<(Arc<str>, Arc<str>)> {
        let now = Instant::now();
        let mut kept = self.kept();
        kept.forget(now);
        kept.is_full &= kept.bearers.len() >= MOST - MOST / 4;
        let mut due: Vec<(Duration, &Arc<str>, &Reviewed)> = Vec::new();
        for (bearer, reviewed) in &kept.bearers {
            let since = now.duration_since(reviewed.reviewed);
            if since < timing.uncertain {
                continue;
            }
            let is_uncertain = reviewed.pod.as_ref().is_none_or(|pod| presence.is_uncertain(pod));
            let pause = if is_uncertain { timing.uncertain } else { timing.known };
            if let Some(late) = since.checked_sub(pause) {
                due.push((late, bearer, reviewed));
            }
        }
        due.sort_unstable_by_key(|(late, ..)| Reverse(*late));
        // However many tokens one namespace has, those of others do not wait for all of them.
        let mut turns: HashMap<&str, usize> = HashMap::new();
        let mut in_turn: Vec<_> = due.into_iter().map(|due| (next(&mut turns, &due.2.namespace), due)).collect();
        in_turn.sort_by_key(|(turn, _)| *turn);
        in_turn.truncate(IN_A_ROUND);
        let due = in_turn.into_iter().map(|(_, (_, bearer, reviewed))| (bearer, &reviewed.token));
        due.map(|(bearer, token)| (Arc::clone(bearer), Arc::clone(token))).collect()
    }

    async fn review(&self, reviewer: &TokenReviewer, (bearer, token): &(Arc<str>, Arc<str>)) {
        let silent = || Err(ReviewError::Unavailable("no answer in time".to_owned()));
        let found = timeout(ANSWER, reviewer.review(token)).await.unwrap_or_else(|_| silent());
        let mut kept = self.kept();
        let Some(reviewed) = kept.bearers.get_mut(bearer) else { return };
        match found {
            // Another token of the Pod that was accepted since is no longer what was reviewed.
            Err(ReviewError::Refused(_)) if reviewed.token != *token => {}
            Err(ReviewError::Refused(why)) => {
                let pod =
                    reviewed.pod.as_ref().map(|pod| format!("{}/{}", pod.namespace, pod.name)).unwrap_or_default();
                warn!(%pod, "a token that was accepted is withdrawn, and the streams of its Pod end: {why}");
                if let Some(withdrawn) = reviewed.withdrawn.upgrade() {
                    withdrawn.send_replace(true);
                }
                let removed = kept.bearers.remove(bearer);
                removed.iter().for_each(|removed| kept.uncount(&removed.namespace));
            }
            Err(ReviewError::Unavailable(why)) => {
                debug!("a token cannot be reviewed again; it is good until it can: {why}");
                reviewed.reviewed = Instant::now();
            }
            Ok(_) => reviewed.reviewed = Instant::now(),
        }
    }
}

impl Kept {
    /// Returns true if there is room for a further Pod of a namespace, after those that are over are forgotten if need be.
    fn has_room(&mut self, namespace: &str, now: Instant) -> bool {
        if self.is_below_share(namespace) {
            return true;
        }
        self.forget(now);
        if self.is_below_share(namespace) {
            return true;
        }
        if !std::mem::replace(&mut self.is_full, true) {
            warn!(
                "tokens of {} Pods are accepted, of {MOST} at most: those of further Pods are refused until some end, here one of {namespace}",
                self.bearers.len()
            );
        }
        false
    }

    fn is_below_share(&self, namespace: &str) -> bool {
        let (all, own) = (self.bearers.len(), self.counts.get(namespace).copied().unwrap_or_default());
        all < MOST - MOST / 4 || (all < MOST && own < SHARE)
    }

    /// Forgets those that are over.
    fn forget(&mut self, now: Instant) {
        let Self { bearers, counts, .. } = self;
        bearers.retain(|_, reviewed| {
            let is_over = reviewed.is_over(now);
            if is_over {
                uncount(counts, &reviewed.namespace);
            }
            !is_over
        });
    }

    fn uncount(&mut self, namespace: &str) {
        uncount(&mut self.counts, namespace);
    }
}

/// Counts the turns of a namespace: returns the number of those before.
fn next<'a>(turns: &mut HashMap<&'a str, usize>, namespace: &'a str) -> usize {
    let turn = turns.entry(namespace).or_default();
    *turn += 1;
    *turn - 1
}

/// Takes one away; a namespace without any is forgotten.
fn uncount(counts: &mut HashMap<Arc<str>, usize>, namespace: &str) {
    if let Some(count) = counts.get_mut(namespace) {
        *count -= 1;
        if *count == 0 {
            counts.remove(namespace);
        }
    }
}
