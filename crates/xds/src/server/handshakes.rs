//! TLS handshakes under way. A connection takes a turn when its client has begun to speak, not before; and a turn that is free goes to the
//! source that has the fewest: so neither silence nor half a handshake keeps another machine out.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use super::locked;
use super::places::SourceNetwork;

#[cfg(test)]
mod tests;

/// The turns of one listener. Clones are the same.
#[derive(Clone)]
pub(super) struct Handshakes(Arc<Mutex<Turns>>);

struct Turns {
    most: usize,
    free: usize,
    sources: BTreeMap<SourceNetwork, OfSource>,
}

/// The turns of one source.
#[derive(Default)]
struct OfSource {
    has: usize,
    waiting: VecDeque<oneshot::Sender<()>>,
}

impl Turns {
    /// Gives what is free to those that wait, first to the source that has the fewest. Of the last quarter none goes to one that has an
    /// eighth.
    fn hand_out(&mut self) {
        while self.free > 0 {
            let waiting = self.sources.values_mut().filter(|source| !source.waiting.is_empty());
            let Some(source) = waiting.min_by_key(|source| source.has) else { break };
            if self.free <= self.most / 4 && source.has >= (self.most / 8).max(1) {
                break;
            }
            // one that has given up meanwhile takes none
            if source.waiting.pop_front().is_some_and(|turn| turn.send(()).is_ok()) {
                source.has += 1;
                self.free -= 1;
            }
        }
        self.sources.retain(|_, source| source.has > 0 || !source.waiting.is_empty());
    }
}

impl Handshakes {
    /// So many at a time.
    pub(super) fn new(most: usize) -> Self {
        Self(Arc::new(Mutex::new(Turns { most, free: most.max(1), sources: BTreeMap::new() })))
    }

    /// Waits for a turn.
    pub(super) async fn turn(&self, source: SourceNetwork) -> HandshakeTurn {
        let (give, given) = oneshot::channel();
        let mut wait = Waiting { turns: self.clone(), source, given: Some(given) };
        {
            let mut turns = locked(&self.0);
            turns.sources.entry(source).or_default().waiting.push_back(give);
            turns.hand_out();
        }
        if let Some(given) = &mut wait.given {
            // its other end is dropped only with a turn that was given
            let _given = given.await;
        }
        wait.given = None;
        HandshakeTurn { turns: self.clone(), source }
    }

    fn give_back(&self, source: SourceNetwork) {
        let mut turns = locked(&self.0);
        turns.free += 1;
        if let Some(source) = turns.sources.get_mut(&source) {
            source.has = source.has.saturating_sub(1);
        }
        turns.hand_out();
    }
}

/// Gives a turn back that came when nothing waited for it any more.
struct Waiting {
    turns: Handshakes,
    source: SourceNetwork,
    given: Option<oneshot::Receiver<()>>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(mut given) = self.given.take() else { return };
        given.close();
        if given.try_recv().is_ok() {
            self.turns.give_back(self.source);
        }
    }
}

/// A handshake, until this is dropped.
pub(super) struct HandshakeTurn {
    turns: Handshakes,
    source: SourceNetwork,
}

impl Drop for HandshakeTurn {
    fn drop(&mut self) {
        self.turns.give_back(self.source);
    }
}
