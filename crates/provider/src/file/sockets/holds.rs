//! Paths that led where no `Backend` may lead: each is refused for a while after that, so that a link that is turned back and forth gains nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use store::SocketTarget;

/// The time for which a path is refused after it led to a refused place; each further time twice as long, up to a day.
pub(super) const FIRST_HOLD: Duration = Duration::from_secs(60);
const LONGEST_HOLD: Duration = Duration::from_secs(24 * 60 * 60);

/// Paths of which this is remembered, at most, also once no `Backend` names them: 1 MB. While there are that many every other path that leads over a link is
/// refused: which of these were turned could not be remembered.
pub(super) const MAX_HOLDS: usize = 1 << 12;

/// Time between two looks for holds that are over, once there are too many: each takes 0.1 ms.
const SWEEP: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Default)]
pub(super) struct Holds {
    all: BTreeMap<Arc<str>, Hold>,
    swept: Option<Instant>,
}

struct Hold {
    until: Instant,
    span: Duration,
    /// The place to which it led.
    led: Arc<str>,
    /// It led there when it was looked at last.
    leads: bool,
}

impl Holds {
    /// Returns what is to be said of a path that was looked at.
    pub(super) fn judge(
        &mut self,
        path: &Arc<str>,
        target: SocketTarget,
        is_refused: bool,
        now: Instant,
    ) -> SocketTarget {
        if self.all.len() >= MAX_HOLDS {
            self.sweep(now);
        }
        let is_full = self.all.len() >= MAX_HOLDS;
        match (self.all.get_mut(path), target) {
            (Some(hold), Ok(led)) if is_refused => {
                if !hold.leads {
                    hold.span = (hold.span * 2).min(LONGEST_HOLD);
                }
                (hold.until, hold.leads, hold.led) = (now + hold.span, true, led.clone());
                Ok(led)
            }
            (None, Ok(led)) if is_refused && *led != **path => {
                if is_full {
                    return Err(full());
                }
                let hold = Hold { until: now + FIRST_HOLD, span: FIRST_HOLD, led: led.clone(), leads: true };
                self.all.insert(path.clone(), hold);
                Ok(led)
            }
            (Some(hold), target) => {
                hold.leads = false;
                if now < hold.until {
                    return Err(hold.words());
                }
                // After as long again without a relapse all is as if nothing had been.
                if hold.is_forgotten(now) {
                    self.all.remove(path);
                }
                target
            }
            (None, Ok(led)) if is_full && *led != **path => Err(full()),
            (None, target) => target,
        }
    }

    /// Forgets holds that are over.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_none_or(|swept| now.saturating_duration_since(swept) >= SWEEP) {
            self.swept = Some(now);
            self.all.retain(|_, hold| !hold.is_forgotten(now));
        }
    }
}

/// The refusal of a path that leads over a link while there are too many holds.
fn full() -> Arc<str> {
    format!(
        "leads over a link, and {MAX_HOLDS} other paths led where no Backend may lead lately; name the socket itself"
    )
    .into()
}

impl Hold {
    /// Returns true once all is as if nothing had been.
    fn is_forgotten(&self, now: Instant) -> bool {
        now >= self.until + self.span
    }

    fn words(&self) -> Arc<str> {
        let (led, span) = (&self.led, self.span.as_secs());
        format!("led to {led:?} lately, where no Backend may lead; it is refused for {span} seconds after that").into()
    }
}
