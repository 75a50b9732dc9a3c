//! Resources that live for a limited time: half of it after they were sent, the client is told that they live on.

use std::sync::Arc;
use std::time::Duration;

use super::{Session, Turn};
use crate::resource::TypeUrl;
use crate::snapshot::{Item, Look};
use crate::wire::{Manner, Variant};

impl Session {
    /// Whether the client is told of times to live.
    pub(super) fn understands_ttl(&self) -> bool {
        self.node.features.ttl && (self.variant == Variant::Delta || self.node.features.wrapped_in_sotw)
    }

    /// Notes when a resource that is being sent needs its next heartbeat.
    pub(super) fn note_ttl(&mut self, item: &Item, now: Duration) {
        let type_url = &item.resource.type_url;
        if let Some(ttl) = item.resource.ttl().filter(|_| !type_url.is_complete() && self.understands_ttl()) {
            self.channel(type_url).beats.set(now + ttl / 2, item.name());
        }
    }

    /// Heartbeats that are due.
    pub(super) fn beat(&mut self, turn: &mut Turn<'_>) {
        let due = self.channels.iter().filter(|(_, channel)| channel.beats.due(turn.now).next().is_some());
        let kinds: Vec<TypeUrl> = due.map(|(type_url, _)| type_url.clone()).collect();
        for type_url in kinds {
            let see = self.see(turn.fleet);
            let channel = self.channel(&type_url);
            let names: Vec<Arc<str>> = channel.beats.due(turn.now).cloned().collect();
            let mut alive = Vec::new();
            for name in names {
                channel.beats.release(&name);
                let item = see.target(&type_url, &name);
                let has = |item: &&Arc<Item>| {
                    channel.known.get(&name).is_some_and(|known| known.sent == Some(item.version().mark()))
                };
                alive.extend(item.filter(has).cloned());
            }
            if !alive.is_empty() {
                self.send_as(Manner::Heartbeat, turn, &type_url, alive, Vec::new());
            }
        }
    }
}
