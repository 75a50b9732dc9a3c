//! [`TokenRechecks`]: reviews accepted tokens again, as one can be withdrawn before its end: by deleting its `ServiceAccount` or its Pod.

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

/// Tokens that are reviewed again at most: twice as many as identities are remembered (`xds`), as each of these keeps its token here and open streams may
/// have others. Tokens have some 1,200 bytes, so 40 MB. A further one is not accepted.
const MOST: usize = 32_768;

/// Tokens that are reviewed again in one round: with a round each second 50 in a second, 3,000 in [`RecheckTiming::known`]. With more, each waits
/// longer: 10,000 for 200 s.
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

/// Becomes `true` once a token is withdrawn. It is reviewed until this is dropped.
type Withdrawn = Arc<watch::Sender<bool>>;

/// See the module. A clone is the same.
#[derive(Clone, Default)]
pub struct TokenRechecks(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    /// By the token.
    tokens: HashMap<Arc<str>, Token>,
    /// It was said that there is no room.
    is_full: bool,
}

struct Token {
    pod: Option<PodId>,
    withdrawn: Weak<watch::Sender<bool>>,
    reviewed: Instant,
    /// It expires then.
    ends: Option<Instant>,
}

impl Token {
    fn is_over(&self, now: Instant) -> bool {
        self.withdrawn.strong_count() == 0 || self.ends.is_some_and(|ends| ends <= now)
    }
}

impl TokenRechecks {
    /// Reviews a token again and again that was good a moment ago; none where there is no room for it.
    #[must_use]
    pub fn keep(
        &self,
        token: &str,
        pod: Option<&PodId>,
        (expires, time): (Option<Timestamp>, Timestamp),
    ) -> Option<Withdrawn> {
        let now = Instant::now();
        let mut kept = self.kept();
        if let Some(known) = kept.tokens.get_mut(token)
            && let Some(withdrawn) = known.withdrawn.upgrade()
        {
            known.reviewed = now;
            return Some(withdrawn);
        }
        if kept.tokens.len() >= MOST {
            kept.tokens.retain(|_, token| !token.is_over(now));
        }
        if kept.tokens.len() >= MOST {
            if !std::mem::replace(&mut kept.is_full, true) {
                warn!(
                    "{MOST} tokens of proxies are accepted, which is the bound: further ones are refused until some end"
                );
            }
            return None;
        }
        let withdrawn: Withdrawn = Arc::new(watch::Sender::new(false));
        let left = |expires: Timestamp| Duration::from_secs(u64::try_from(expires.0 - time.0).unwrap_or_default());
        let kept_token = Token {
            pod: pod.cloned(),
            withdrawn: Arc::downgrade(&withdrawn),
            reviewed: now,
            ends: expires.and_then(|expires| now.checked_add(left(expires))),
        };
        kept.tokens.insert(token.into(), kept_token);
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
                    .for_each_concurrent(AT_ONCE, async |token| self.review(&reviewer, &token).await)
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

    /// Forgets tokens that are over. Returns those of the others that are to be reviewed, the latest first.
    fn due(&self, presence: &Presence, timing: RecheckTiming) -> Vec<Arc<str>> {
        let now = Instant::now();
        let mut kept = self.kept();
        kept.tokens.retain(|_, token| !token.is_over(now));
        kept.is_full &= kept.tokens.len() >= MOST;
        let mut due: Vec<(Duration, Arc<str>)> = Vec::new();
        for (text, token) in &kept.tokens {
            let since = now.duration_since(token.reviewed);
            if since < timing.uncertain {
                continue;
            }
            let is_uncertain = token.pod.as_ref().is_none_or(|pod| presence.is_uncertain(pod));
            let pause = if is_uncertain { timing.uncertain } else { timing.known };
            if let Some(late) = since.checked_sub(pause) {
                due.push((late, Arc::clone(text)));
            }
        }
        due.sort_unstable_by_key(|(late, _)| std::cmp::Reverse(*late));
        due.truncate(IN_A_ROUND);
        due.into_iter().map(|(_, token)| token).collect()
    }

    async fn review(&self, reviewer: &TokenReviewer, token: &Arc<str>) {
        let silent = || Err(ReviewError::Unavailable("no answer in time".to_owned()));
        let found = timeout(ANSWER, reviewer.review(token)).await.unwrap_or_else(|_| silent());
        let mut kept = self.kept();
        match found {
            Err(ReviewError::Refused(why)) => {
                let Some(token) = kept.tokens.remove(token) else { return };
                let pod = token.pod.as_ref().map(|pod| format!("{}/{}", pod.namespace, pod.name)).unwrap_or_default();
                warn!(%pod, "a token that was accepted is withdrawn, and its streams end: {why}");
                if let Some(withdrawn) = token.withdrawn.upgrade() {
                    withdrawn.send_replace(true);
                }
            }
            Err(ReviewError::Unavailable(why)) => {
                debug!("a token cannot be reviewed again; it is good until it can: {why}");
                kept.tokens.get_mut(token).into_iter().for_each(|token| token.reviewed = Instant::now());
            }
            Ok(_) => kept.tokens.get_mut(token).into_iter().for_each(|token| token.reviewed = Instant::now()),
        }
    }
}
