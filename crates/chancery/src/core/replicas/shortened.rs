//! What a replica says of a fleet, within the bytes that the fleet may have: proxies choose most of it, and the object is that of all fleets.

use std::sync::Arc;

use super::{FleetSaid, Named, RefusalsSaid, Verdict};

/// Bytes that a fleet has in an object at most: some 500 listeners, or the words of 64 refusals and the names of 200 further ones. An object has 900 KB, so 13 fleets
/// have so much, and with more such ones each has less.
pub(super) const SHARE: usize = 64 << 10;

/// Characters of a refusal that are sent: 800 bytes at most.
const MOST_WORDS: usize = 200;

/// Refusals of a fleet that are sent with their words: 51 KB at most.
const MOST_REFUSALS: usize = 64;

/// The words of a further refusal.
const OMITTED: &str = "too many refusals, so that the words of this one are omitted";

/// Bytes of an entry besides its name and words: a version, quotes, commas and the names of fields.
const ENTRY: usize = 64;

/// Returns the text of a fleet in this many bytes. What has no room is counted; who reads it knows that there is more.
pub(super) fn shortened(own: &FleetSaid, room: usize) -> Option<String> {
    let whole = FleetSaid { connected: own.connected, answered: own.answered, ..FleetSaid::default() };
    let mut short = Shortened { said: whole, room: room.saturating_sub(2 * ENTRY), words: MOST_REFUSALS };
    short.fill(own);
    serde_json::to_string(&short.said).ok()
}

/// Returns words of a bounded length.
pub(super) fn short(words: &Arc<str>) -> Arc<str> {
    match words.char_indices().nth(MOST_WORDS) {
        Some((end, _)) => format!("{}…", words.get(..end).unwrap_or_default()).into(),
        None => Arc::clone(words),
    }
}

struct Shortened {
    said: FleetSaid,
    /// Bytes that are left.
    room: usize,
    /// Refusals that may still have words.
    words: usize,
}

impl Shortened {
    fn fill(&mut self, own: &FleetSaid) {
        for (name, verdict) in &own.listeners {
            let refused = verdict.refused.as_ref().map(|words| self.worded(words));
            if self.has_room(name, refused.iter()) {
                let verdict = Verdict { version: Arc::clone(&verdict.version), refused };
                self.said.listeners.insert(Arc::clone(name), verdict);
            }
        }
        for (named, words) in &own.refused {
            let words = self.worded(words);
            if self.has_room(named, [&words]) {
                self.said.refused.insert(Arc::clone(named), words);
                if own.lacking.contains(named) {
                    self.said.lacking.insert(Arc::clone(named));
                }
            }
        }
        for (named, words) in &own.disputed {
            let words = self.worded(words);
            if self.has_room(named, [&words]) {
                self.said.disputed.insert(Arc::clone(named), words);
            }
        }
        for (named, refusals) in &own.patched {
            self.add_patched(named, refusals);
        }
        for named in &own.awaited {
            if self.has_room(named, []) {
                self.said.awaited.insert(Arc::clone(named));
            }
        }
    }

    fn add_patched(&mut self, named: &Named, refusals: &RefusalsSaid) {
        let refused = refusals.refused.iter().map(|(mark, words)| (*mark, self.worded(words))).collect();
        let short = RefusalsSaid { refused, accepted: refusals.accepted.clone() };
        // A mark has 20 digits; those that are accepted have no words.
        let marks = short.accepted.len().saturating_mul(24);
        if marks <= self.room && self.has_room(named, short.refused.values()) {
            self.room = self.room.saturating_sub(marks);
            self.said.patched.insert(Arc::clone(named), short);
        }
    }

    /// Returns the words of a refusal, as long as there are few of them.
    fn worded(&mut self, words: &Arc<str>) -> Arc<str> {
        match self.words.checked_sub(1) {
            Some(left) => {
                self.words = left;
                Arc::clone(words)
            }
            None => OMITTED.into(),
        }
    }

    /// Takes the room of an entry with these texts; false: there is none, and it is counted. A secret's name can come twice.
    fn has_room<'a>(&mut self, name: &str, words: impl IntoIterator<Item = &'a Arc<str>>) -> bool {
        let words: usize = words.into_iter().map(|words| ENTRY + encoded(words)).sum();
        let size = ENTRY + 2 * encoded(name) + words;
        match self.room.checked_sub(size) {
            Some(left) => {
                self.room = left;
                true
            }
            None => {
                self.said.omitted += 1;
                false
            }
        }
    }
}

/// Returns the bytes of a text in JSON.
fn encoded(text: &str) -> usize {
    let escapes = |byte: u8| if byte < 0x20 { 5 } else { usize::from(matches!(byte, b'"' | b'\\')) };
    text.len() + text.bytes().map(escapes).sum::<usize>()
}
