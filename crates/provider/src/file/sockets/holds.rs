//! Paths that led where no `Backend` may lead: each is refused for a while after that, so that a link that is turned back and forth gains nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use store::SocketTarget;

/// The time for which a path is refused after it led to a refused place; each further time twice as long, up to a day.
pub(super) const FIRST_HOLD: Duration = Duration::from_secs(60);
const LONGEST_HOLD: Duration = Duration::from_secs(24 * 60 * 60);

/// Paths of which this is remembered, at most, also once no `Backend` names them: 1 MB. With one more that which ends first is forgotten.
const MAX_HOLDS: usize = 1 << 12;

/// See the module.
#[derive(Default)]
pub(super) struct Holds(BTreeMap<Arc<str>, Hold>);

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
        match (self.0.get_mut(path), target) {
            (Some(hold), Ok(led)) if is_refused => {
                if !hold.leads {
                    hold.span = (hold.span * 2).min(LONGEST_HOLD);
                }
                (hold.until, hold.leads, hold.led) = (now + hold.span, true, led.clone());
                Ok(led)
            }
            (None, Ok(led)) if is_refused && *led != **path => {
                if self.0.len() >= MAX_HOLDS {
                    let first = self.0.iter().min_by_key(|(_, hold)| hold.until).map(|(path, _)| path.clone());
                    first.map(|path| self.0.remove(&path));
                }
                let hold = Hold { until: now + FIRST_HOLD, span: FIRST_HOLD, led: led.clone(), leads: true };
                self.0.insert(path.clone(), hold);
                Ok(led)
            }
            (Some(hold), target) => {
                hold.leads = false;
                if now < hold.until {
                    return Err(hold.words());
                }
                // After as long again without a relapse all is as if nothing had been.
                if now >= hold.until + hold.span {
                    self.0.remove(path);
                }
                target
            }
            (None, target) => target,
        }
    }
}

impl Hold {
    fn words(&self) -> Arc<str> {
        let (led, span) = (&self.led, self.span.as_secs());
        format!("led to {led:?} lately, where no Backend may lead; it is refused for {span} seconds after that").into()
    }
}
