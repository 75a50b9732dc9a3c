//! [`Retries`]: statuses that could not be written, and when each is tried again.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::ObjectKey;
use api::status::Status;
use hashbrown::HashMap;
use tokio::time::Instant;

use crate::kubernetes::Pace;
use crate::kubernetes::pace::Backoff;

/// By object, and by time: there may be as many as objects.
pub(super) struct Retries {
    pace: Pace,
    objects: HashMap<ObjectKey, Failed>,
    times: BTreeSet<(Instant, ObjectKey)>,
}

struct Failed {
    status: Option<Status>,
    backoff: Backoff,
    since: Instant,
    at: Instant,
    words: Option<Arc<str>>,
}

impl Retries {
    pub(super) fn new(pace: Pace) -> Self {
        Self { pace, objects: HashMap::new(), times: BTreeSet::new() }
    }

    /// Tries it again, ever more slowly. True if people have to be told something else now.
    pub(super) fn again(&mut self, key: &ObjectKey, status: Option<Status>, words: Option<Arc<str>>) -> bool {
        let failed = self.failed(key);
        let at = Instant::now() + failed.backoff.wait();
        self.put_off(key, status, words, at)
    }

    /// Tries it again at this time. True if people have to be told something else now.
    pub(super) fn put_off(
        &mut self,
        key: &ObjectKey,
        status: Option<Status>,
        words: Option<Arc<str>>,
        at: Instant,
    ) -> bool {
        self.wait(key, at);
        let failed = self.failed(key);
        failed.status = status;
        std::mem::replace(&mut failed.words, words.clone()) != words
    }

    /// It is under way: what people were told stays until it is known how this ends, which is before this time.
    pub(super) fn started(&mut self, key: &ObjectKey, status: Option<&Status>, until: Instant) {
        if self.objects.contains_key(key) {
            self.wait(key, until);
            self.failed(key).status = status.cloned();
        }
    }

    /// It needs no other try. True if people have to be told that.
    pub(super) fn over(&mut self, key: &ObjectKey) -> bool {
        let Some(failed) = self.objects.remove(key) else { return false };
        self.times.remove(&(failed.at, key.clone()));
        failed.words.is_some()
    }

    /// What is due now, in the order of time, at most so many.
    pub(super) fn due(&self, now: Instant, most: usize) -> Vec<(ObjectKey, Option<Status>)> {
        let due = self.times.iter().take_while(|(at, _)| *at <= now).take(most);
        due.filter_map(|(_, key)| Some((key.clone(), self.objects.get(key)?.status.clone()))).collect()
    }

    /// The time of the first failure of an object whose status waits for another try.
    pub(super) fn since(&self, key: &ObjectKey) -> Option<Instant> {
        self.objects.get(key).map(|failed| failed.since)
    }

    /// When something is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.times.first().map(|(at, _)| *at)
    }

    /// What people are told, in no order.
    pub(super) fn words(&self) -> impl Iterator<Item = (ObjectKey, Arc<str>)> {
        self.objects.iter().filter_map(|(key, failed)| Some((key.clone(), failed.words.clone()?)))
    }

    fn failed(&mut self, key: &ObjectKey) -> &mut Failed {
        let Pace { retry_first, retry_last, .. } = self.pace;
        self.objects.entry(key.clone()).or_insert_with(|| {
            let backoff = Backoff::new(retry_first, retry_last);
            let now = Instant::now();
            Failed { status: None, backoff, since: now, at: now, words: None }
        })
    }

    fn wait(&mut self, key: &ObjectKey, at: Instant) {
        let before = std::mem::replace(&mut self.failed(key).at, at);
        self.times.remove(&(before, key.clone()));
        self.times.insert((at, key.clone()));
    }
}
