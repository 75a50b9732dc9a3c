//! Who is to blame for the refusal of a route configuration that has its hosts inside: one host, whose version before takes its place, or
//! nothing, and all the others go on.
//!
//! It is among what nobody has taken yet. If those are several, half of them stays back: what is refused then is in the other half, what is
//! taken is not to blame, and what stayed back last is tried next. So the one of 10,000 is found with some 30 responses.

use std::sync::Arc;

use super::Fleet;
use crate::snapshot::{Item, Key, Look};

impl Fleet {
    /// Nobody takes a route configuration that is made of parts: something smaller is refused, or tried. False if it is whole, or each part of
    /// it was taken before.
    pub(super) fn blame_part(&mut self, key: &Key, item: &Arc<Item>) -> bool {
        let is_new = |part: &&Arc<Item>| !self.is_accepted(&part.key(), part.version());
        let suspects: Vec<Arc<Item>> = item.parts.iter().filter(is_new).cloned().collect();
        if suspects.is_empty() {
            return false;
        }
        let Some(dispute) = self.close(key) else { return false };
        if let [part] = &suspects[..] {
            self.close(&part.key());
            self.disputes.open(&part.key(), part.version(), dispute);
            self.share(&part.key());
            self.let_in(item);
        } else {
            // the route configuration is the first, and stays inside
            let (_, back) = suspects.split_at(suspects.len().div_ceil(2));
            self.snapshot.keep_back(item.name(), back.iter().map(|host| Arc::clone(host.name())).collect());
            // who refused has still to take what is not to blame
            suspects.iter().for_each(|part| self.await_anew(&part.key()));
        }
        true
    }

    /// A client uses a route configuration: what was kept back of it is tried next.
    pub(super) fn let_in(&mut self, item: &Item) {
        for key in self.snapshot.let_in(item.name()) {
            self.await_anew(&key);
        }
    }

    fn await_anew(&mut self, key: &Key) {
        let (snapshot, need) = (&self.snapshot, key.need());
        self.facts.published(&need, snapshot.target(&need.type_url, &need.name), snapshot.seq());
    }
}
