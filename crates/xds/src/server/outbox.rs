//! Facts on their way out: a slow reader gets the latest about each thing, so that what waits is bounded by what exists.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use hashbrown::HashMap;
use tokio::sync::{Notify, mpsc};

use super::locked;
use crate::event::Event;
use crate::resource::TypeUrl;

/// What a fact is about.
#[derive(PartialEq, Eq, Hash)]
enum About {
    /// A resource of a fleet.
    Resource(Arc<str>, TypeUrl, Arc<str>),
    /// On which clients of a fleet a cluster does not get ready.
    Stall(Arc<str>, Arc<str>),
    /// What clients disagree on about a resource of a fleet.
    Dispute(Arc<str>, TypeUrl, Arc<str>),
    /// A client of a fleet, by its id.
    Client(Arc<str>, Arc<str>),
    /// That several clients of a fleet have this id.
    Namesakes(Arc<str>, Arc<str>),
    /// What goes to a cluster of a fleet.
    Load(Arc<str>, Arc<str>),
    /// What a client of a fleet reports, by its id.
    Report(Arc<str>, Arc<str>),
    /// A fleet.
    Fleet(Arc<str>),
}

#[cfg(test)]
mod tests;

/// What waits. All of it is under one lock, and fleets put their facts there while they are locked themselves: nothing here costs more for
/// there being much that waits.
#[derive(Default)]
struct Waiting {
    /// In the order in which they are told.
    events: BTreeMap<u64, Event>,
    /// Where each is.
    places: HashMap<About, u64>,
    latest: u64,
}

impl Waiting {
    /// A fact takes the place of an earlier one about the same, or is told last.
    fn put(&mut self, mut event: Event) {
        let about = about(&event);
        let is_cluster = matches!(&about, About::Resource(_, TypeUrl::Cluster, _));
        // coming, going and being live are told in order, and of a cluster whether it is ready
        let in_order = is_cluster || matches!(about, About::Client(..) | About::Fleet(..) | About::Stall(..));
        self.latest += 1;
        let place = self.places.entry(about).or_insert(self.latest);
        let before = self.events.remove(place);
        if in_order {
            *place = self.latest;
        } else if let Event::Accepted { was_refused, .. } = &mut event {
            *was_refused |= before.as_ref().is_some_and(ends_with_refusal);
        }
        self.events.insert(*place, event);
    }
}

#[derive(Default)]
pub(super) struct Outbox {
    waiting: Mutex<Waiting>,
    news: Notify,
}

impl Outbox {
    /// Adds facts.
    pub(super) fn put(&self, events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        let mut waiting = locked(&self.waiting);
        events.into_iter().for_each(|event| waiting.put(event));
        drop(waiting);
        self.news.notify_one();
    }

    fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *locked(&self.waiting)).events.into_values().collect()
    }

    /// Sends facts on until nobody takes them any more.
    pub(super) async fn deliver(&self, events: &mpsc::Sender<Vec<Event>>) {
        loop {
            self.news.notified().await;
            let Ok(permit) = events.reserve().await else { return };
            let batch: Vec<Event> = self.take();
            if !batch.is_empty() {
                permit.send(batch);
            }
        }
    }
}

/// Whether acceptance after this, which is not told any more, is one after a refusal.
fn ends_with_refusal(event: &Event) -> bool {
    matches!(event, Event::Refused { .. } | Event::Accepted { was_refused: true, .. })
}

fn about(event: &Event) -> About {
    match event {
        Event::Connected { fleet, node, .. } | Event::Gone { fleet, node, .. } => {
            About::Client(Arc::clone(fleet), Arc::clone(&node.id))
        }
        Event::Namesakes { fleet, node } => About::Namesakes(Arc::clone(fleet), Arc::clone(&node.id)),
        Event::Load { fleet, cluster, .. } => About::Load(Arc::clone(fleet), Arc::clone(cluster)),
        Event::Misreported { fleet, node, .. } => About::Report(Arc::clone(fleet), Arc::clone(&node.id)),
        Event::Live { fleet } => About::Fleet(Arc::clone(fleet)),
        Event::ClusterWarm { fleet, name } => About::Resource(Arc::clone(fleet), TypeUrl::Cluster, Arc::clone(name)),
        Event::Stalled { fleet, name, .. } => About::Stall(Arc::clone(fleet), Arc::clone(name)),
        Event::Disputed { fleet, type_url, name, .. } => {
            About::Dispute(Arc::clone(fleet), type_url.clone(), Arc::clone(name))
        }
        Event::Accepted { fleet, type_url, name, .. } | Event::Refused { fleet, type_url, name, .. } => {
            About::Resource(Arc::clone(fleet), type_url.clone(), Arc::clone(name))
        }
    }
}
