//! [`Contests`]: objects whose status somebody else replaces whenever it is written. Two that correct each other without end would keep
//! the API server busy and every watch of it; so each further writing waits longer.

use std::time::Duration;

use api::ObjectKey;
use indexmap::IndexMap;
use tokio::time::Instant;

/// How often the same may be written within [`SOON`] until that is no accident.
const ACCIDENTS: u32 = 3;

/// What is replaced later than this after its writing was no answer to it.
pub(super) const SOON: Duration = Duration::from_secs(10);

/// How long a contested status waits at most.
const LONGEST: Duration = Duration::from_secs(60);

/// So many writings are remembered, the latest.
const REMEMBERED: usize = 1_024;

/// What was written of late, by its object, in the order of time: some 100 bytes each.
#[derive(Default)]
pub(super) struct Contests(IndexMap<ObjectKey, Writing>);

struct Writing {
    hash: u64,
    at: Instant,
    /// How often the same was written, each time soon after the time before.
    times: u32,
}

impl Writing {
    /// How long the next writing waits.
    fn pause(&self) -> Duration {
        let doublings = self.times.checked_sub(ACCIDENTS);
        doublings.map_or(Duration::ZERO, |doublings| Duration::from_secs(1 << doublings.min(6)).min(LONGEST))
    }

    fn is_recent(&self, now: Instant) -> bool {
        now.duration_since(self.at) < self.pause() + SOON
    }
}

impl Contests {
    /// A status with this hash was written.
    pub(super) fn note(&mut self, key: &ObjectKey, hash: u64, now: Instant) {
        let before = self.0.shift_remove(key).filter(|before| before.hash == hash && before.is_recent(now));
        let times = before.map_or(1, |before| before.times.saturating_add(1));
        if self.0.len() >= REMEMBERED {
            self.0.shift_remove_index(0);
        }
        self.0.insert(key.clone(), Writing { hash, at: now, times });
    }

    /// The hash of what is not written again before then, if an object is contested.
    pub(super) fn get(&self, key: &ObjectKey, now: Instant) -> Option<(u64, Instant)> {
        let writing = self.0.get(key)?;
        let until = writing.at + writing.pause();
        (until > now).then_some((writing.hash, until))
    }
}

#[cfg(test)]
mod tests {
    use api::{Kind, ObjectKey};
    use tokio::time::Instant;

    use super::{ACCIDENTS, Contests, LONGEST, SOON};

    fn key() -> ObjectKey {
        ObjectKey::of(Kind::Gateway, "default", "edge")
    }

    #[test]
    fn the_same_again_and_again_waits_ever_longer() {
        let (mut contests, mut now) = (Contests::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..12 {
            contests.note(&key(), 1, now);
            let until = contests.get(&key(), now).map_or(now, |(_, until)| until);
            pauses.push((until - now).as_secs());
            now = until;
        }
        assert_eq!(pauses, [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, LONGEST.as_secs()]);
        // left alone for long enough it is as at first
        contests.note(&key(), 1, now + LONGEST + SOON);
        assert_eq!(contests.get(&key(), now + LONGEST + SOON), None);
    }

    #[test]
    fn what_changes_by_itself_never_waits() {
        let (mut contests, now) = (Contests::default(), Instant::now());
        for at in 0..u64::from(ACCIDENTS) * 4 {
            contests.note(&key(), at % 2, now);
            assert_eq!(contests.get(&key(), now), None);
        }
    }
}
