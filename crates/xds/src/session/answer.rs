//! What a client's answers mean: acknowledgements, and refusals, which are isolated (R11, R11a).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashSet;

use super::Session;
use super::channel::Flight;
use super::clusters::Cure;
use super::known::Known;
use super::sotw::{named_in, names_culprits};
use crate::fleet::Fleet;
use crate::resource::{Need, TypeUrl, Version};
use crate::snapshot::{Item, Look};
use crate::wire::{Nonce, StreamId};

impl Session {
    /// Takes in the answer to response `nonce`, which came on this stream. Unknown nonces mean nothing.
    pub(super) fn answer(
        &mut self,
        fleet: &mut Fleet,
        type_url: &TypeUrl,
        (stream, nonce): (StreamId, Nonce),
        error: Option<&str>,
        now: Duration,
    ) {
        let repeats = self.repeats(type_url);
        let Some(channel) = self.channels.get_mut(type_url) else { return };
        channel.carriers.answered(stream, nonce, error.is_some());
        let Some(mut flight) = channel.answered(nonce, error.is_some()) else { return };
        if repeats {
            channel.answered_along(&mut flight, error.is_some());
        }
        if *type_url == TypeUrl::Listener && !flight.removed.is_empty() {
            self.begin_drain(now);
        }
        self.clusters.ghosts_told &= *type_url != TypeUrl::Cluster;
        // that it takes back what it refused, or lets go of it, ends no row of refusals
        if error.is_some() || !flight.cure && !flight.puts.is_empty() {
            self.channel(type_url).count_refusal(error.is_some(), now);
        }
        match error {
            None => self.acked(fleet, type_url, &flight, now),
            Some(text) => self.nacked(fleet, type_url, &flight, text, now),
        }
    }

    fn acked(&mut self, fleet: &mut Fleet, type_url: &TypeUrl, flight: &Flight, now: Duration) {
        self.land(type_url, flight, true);
        if *type_url == TypeUrl::Cluster {
            self.clusters.came_warming &= flight.puts.is_empty();
            flight.names().for_each(|name| {
                self.clusters.uncured.remove(name);
            });
            if self.repeats(type_url) && self.is(type_url, |clusters| clusters.flights.is_empty()) {
                // it has what it was sent, and nothing else
                let sent = self.sent_items.get(type_url);
                self.clusters.uncured.retain(|name| sent.is_some_and(|sent| sent.holds(name)));
            }
        }
        for item in &*flight.puts {
            match type_url {
                TypeUrl::Cluster => {
                    self.clusters.heard_of(item);
                    self.clusters.without_witness.remove(item.name());
                    fleet.accept(item);
                    let cold = self.clusters.cold.get(item.name());
                    if cold.as_ref().is_some_and(|cold| cold.asks && !self.aggregated) {
                        self.clusters.cold.edit(item.name(), |cold| cold.taken |= cold.is_sent_by(flight.last));
                        self.warm_if_witnessed(fleet, item.name());
                        continue;
                    }
                    if cold.is_some_and(|cold| cold.is_sent_by(flight.last)) {
                        self.clusters.cold.remove(item.name());
                    }
                    self.confirm(fleet, type_url, item.name());
                }
                TypeUrl::Listener => {
                    let sent = self.activations.get_mut(item.name());
                    let taken = sent.filter(|activation| activation.item.version() == item.version());
                    if taken.is_some_and(|activation| {
                        activation.acked = true;
                        activation.changes
                    }) {
                        self.begin_drain(now);
                    }
                }
                _ => {
                    fleet.accept(item);
                    self.confirm(fleet, type_url, item.name());
                }
            }
            if *type_url == TypeUrl::Endpoints {
                self.endpoints_acked(fleet, item.name(), flight);
                self.forget_unasked(fleet, type_url, item.name());
            }
        }
        if *type_url == TypeUrl::Secret {
            flight.puts.iter().for_each(|secret| self.secret_acked(fleet, secret.name()));
        }
    }

    /// The client has in use what it was sent last under this name, if that is what it should have. Told once per publication.
    pub(super) fn confirm(&mut self, fleet: &mut Fleet, type_url: &TypeUrl, name: &str) {
        let Some(item) = self.see(fleet).target(type_url, name).cloned() else { return };
        let mark = Some(item.version().mark());
        let confirm = |known: &mut Known| {
            let is_new = known.sent == mark && known.confirmed < item.seq;
            is_new.then(|| std::mem::replace(&mut known.confirmed, item.seq))
        };
        if let Some(before) = self.channel(type_url).known.edit(name, confirm).flatten() {
            fleet.confirm(self.client, &item, before);
        }
    }

    /// The same of what was published again, which the client has acknowledged before: also if it was removed meanwhile, which it has not been sent. A
    /// listener that is not known to be active yet is not in use for that (R4).
    pub(super) fn confirm_again(&mut self, fleet: &mut Fleet, type_url: &TypeUrl, name: &str) {
        let target = self.see(fleet).target(type_url, name).cloned();
        let activation = self.activations.get_mut(name).filter(|_| *type_url == TypeUrl::Listener);
        match (activation, target) {
            (Some(activation), Some(item)) => activation.item = item,
            (_, target) => {
                let known = self.channel(type_url).known.get(name).unwrap_or_default();
                if let Some(item) = target.filter(|item| known.acked == Some(item.version().mark())) {
                    fleet.accept(&item);
                }
                self.confirm(fleet, type_url, name);
            }
        }
    }

    fn nacked(&mut self, fleet: &mut Fleet, type_url: &TypeUrl, flight: &Flight, text: &str, now: Duration) {
        // what the client had before each, while that is still to be seen
        let names = flight.puts.iter().map(|item| item.name());
        let had: BTreeSet<Arc<str>> =
            names.filter(|name| self.is(type_url, |channel| channel.holds(name))).cloned().collect();
        self.land(type_url, flight, false);
        let repeats = self.repeats(type_url);
        let channel = self.channel(type_url);
        for name in &flight.removed {
            channel.dirty.insert(Arc::clone(name));
            // who refuses even that something is gone has nothing to be told
            if !repeats && !flight.puts.is_empty() {
                // whether it has let go of it depends on the kind
                let unsure = Known { sent: Some(Version::UNSURE.mark()), ..Known::default() };
                channel.known.get_or_insert(name, unsure);
            }
        }
        if *type_url == TypeUrl::Route {
            flight.puts.iter().for_each(|item| self.hosts_are_lost(fleet, item.name()));
        }
        let blamed = self.blame(fleet, type_url, flight, text, now);
        if *type_url == TypeUrl::Listener {
            let versions: HashSet<_> = blamed.iter().map(|one| (one.name(), one.version().0)).collect();
            let is_blamed = |item: &Item| versions.contains(&(item.name(), item.version().0));
            self.activations.retain(|_, activation| !is_blamed(&activation.item));
        }
        if *type_url == TypeUrl::Cluster {
            self.clusters.uncured.extend(blamed.iter().map(|item| Arc::clone(item.name())));
            self.cure(fleet, &blamed, &had, now);
        }
    }

    /// Finds out who is to blame for a refusal, now or by trial. Gives those of whom it is not known that they were taken.
    fn blame(
        &mut self,
        fleet: &mut Fleet,
        type_url: &TypeUrl,
        flight: &Flight,
        text: &str,
        now: Duration,
    ) -> Vec<Arc<Item>> {
        if self.repeats(type_url) {
            return self.blame_repeated(fleet, type_url, flight, text, now);
        }
        match &*flight.puts {
            [] => {}
            [item] => self.refuse(fleet, item, text, now),
            items => self.suspect(type_url, items),
        }
        flight.puts.to_vec()
    }

    /// The same where a response repeats what was sent before (SotW, clusters and listeners): to blame is whoever the words name, and if
    /// they name nobody whatever stood in it and is not known to be taken. It gives way to what the client took before; the
    /// rest goes again.
    fn blame_repeated(
        &mut self,
        fleet: &mut Fleet,
        type_url: &TypeUrl,
        flight: &Flight,
        text: &str,
        now: Duration,
    ) -> Vec<Arc<Item>> {
        let unproven = self.sent_items.get(type_url).map(|sent| sent.unproven(flight.last)).unwrap_or_default();
        let named = named_in(text, &unproven);
        // whom the words of a late answer name may be taken back already: then nobody is to blame
        let blamed = if names_culprits(text) { named } else { unproven };
        let resumed = self.resumed;
        for item in &blamed {
            fleet.disown(item);
            let left = self.sent_items.get_mut(type_url).is_some_and(|sent| sent.revert(item));
            let channel = self.channel(type_url);
            channel.release(item.name());
            if left {
                continue;
            }
            channel.known.remove(item.name());
            if resumed {
                // it may have come with another version of it, which it did not name
                let known = Known { sent: Some(Version::UNSURE.mark()), ..Known::default() };
                channel.known.insert(item.name(), known);
                channel.dirty.insert(Arc::clone(item.name()));
            }
        }
        let channel = self.channel(type_url);
        let guilty: HashSet<*const Item> = blamed.iter().map(Arc::as_ptr).collect();
        for item in flight.puts.iter().filter(|item| !guilty.contains(&Arc::as_ptr(item))) {
            channel.dirty.insert(Arc::clone(item.name()));
            channel.force.insert(Arc::clone(item.name()));
        }
        // of those that are named no other is to blame
        let crowded = flight.crowded && !names_culprits(text);
        // a trial is one suspect alone; a cure is none, as whatever else was unanswered then went with it
        let alone =
            |item: &Arc<Item>| !flight.cure && !crowded && matches!(&*flight.puts, [one] if Arc::ptr_eq(one, item));
        let is_trial = |item: &Arc<Item>| alone(item) && channel.suspects.contains_key(item.name());
        // what a client came with is not known until it has taken a first response: what is not in this one it may have
        let unknown = resumed && !channel.heard;
        let leaves_out = unknown || !flight.removed.is_empty() || flight.puts.is_empty() && !blamed.is_empty();
        match blamed.as_slice() {
            [item] if is_trial(item) => self.refuse(fleet, item, text, now),
            items => self.suspect(type_url, items),
        }
        self.channel(type_url).unheard |= leaves_out;
        blamed
    }

    /// Each of these is tried again by itself.
    fn suspect(&mut self, type_url: &TypeUrl, items: &[Arc<Item>]) {
        let mut groups = self.groups;
        self.channel(type_url).suspect(items, &mut groups);
        self.groups = groups;
    }

    /// Notes what an answer means for each name of its response.
    fn land(&mut self, type_url: &TypeUrl, flight: &Flight, acked: bool) {
        self.channel(type_url).land(flight, acked);
        let repeats = self.repeats(type_url);
        if let Some(sent) = self.sent_items.get_mut(type_url) {
            for item in &*flight.puts {
                match acked {
                    true => sent.prove(item),
                    false if repeats => {}
                    false => {
                        sent.revert(item);
                    }
                }
            }
        }
    }

    /// This resource alone was refused.
    pub(super) fn refuse(&mut self, fleet: &mut Fleet, item: &Arc<Item>, text: &str, now: Duration) {
        let key = Need::new(item.resource.type_url.clone(), Arc::clone(item.name()));
        if key.type_url == TypeUrl::Listener {
            self.activations.remove(&key.name);
        }
        let gone = self.see(fleet).current(&key.type_url, &key.name).is_none();
        // Envoy keeps the secret that it refused, and then refuses each listener that is made with it (measured): the last good one goes again
        let good = self.see(fleet).accepted(&key.type_url, &key.name).filter(|good| good.version() != item.version());
        let keeps = self.envoy && key.type_url == TypeUrl::Secret && good.is_some();
        let channel = self.channel(&key.type_url);
        channel.suspects.remove(&key.name);
        channel.dirty.insert(Arc::clone(&key.name));
        if keeps || gone && channel.names.contains(&key.name) {
            // it asked, and knows only that there was something that it could not take
            channel.force.insert(Arc::clone(&key.name));
        }
        let confirmed = self.confirmed(&key);
        // what stands for nothing is sent again whenever it is asked for, and what is gone is not sent again
        if item.version() != Version::STAND_IN && !gone {
            self.note_refused(fleet, item);
        }
        fleet.refuse((self.client, confirmed), item, text, now);
    }

    /// R11a: whatever a refused CDS response held may be stuck among the warming clusters, and then no later one is ever answered.
    /// Those that were active go back to the last good bytes; those that were new go away.
    fn cure(&mut self, fleet: &Fleet, refused: &[Arc<Item>], had: &BTreeSet<Arc<str>>, now: Duration) {
        let mut cure = Cure::default();
        for item in refused {
            let had = had.contains(item.name());
            let accepted = self.see(fleet).accepted(&TypeUrl::Cluster, item.name());
            // a SotW client that came again did not say what it has
            let unsaid = self.resumed && self.repeats(&TypeUrl::Cluster);
            let previous = || self.see(fleet).previous(&TypeUrl::Cluster, item.name()).filter(|_| unsaid);
            // published again since, and what it had before
            let acked = self.channels.get(&TypeUrl::Cluster).and_then(|c| c.known.get(item.name())?.acked);
            let again = || self.wanted(fleet, &TypeUrl::Cluster, item.name());
            let again = || again().filter(|again| acked == Some(again.version().mark()));
            let (accepted, had) = (accepted.or_else(previous).or_else(again), had || unsaid);
            let mended = accepted.filter(|accepted| accepted.version() != item.version());
            match mended {
                Some(accepted) if had => cure.puts.push(Arc::clone(accepted)),
                _ if had => {}
                _ => cure.removed.push(Arc::clone(item.name())),
            }
        }
        for name in &cure.removed {
            self.clusters.cold.remove(name);
        }
        if !cure.puts.is_empty() || !cure.removed.is_empty() {
            self.clusters.cures.push(cure);
        }
        for item in refused {
            self.note_cold(fleet, item.name(), now);
        }
    }

    /// If the refused route configuration was the first that asks for hosts, Envoy drops the hosts that were sent behind it,
    /// although it acknowledges them: they all go again behind the next.
    fn hosts_are_lost(&mut self, fleet: &Fleet, route_configuration: &Arc<str>) {
        if self.see(fleet).hosts_of(route_configuration).next().is_some() {
            self.lost_hosts.insert(Arc::clone(route_configuration));
        }
    }

    /// R4: a listener is active when it is acknowledged and has its route configurations and secrets. One that will not get them
    /// is taken back before Envoy puts it in the place of one that works (R5).
    pub(super) fn activate_listeners(&mut self, fleet: &mut Fleet, now: Duration) {
        // what is not saved the client may have
        let may_lose = !fleet.is_last_good();
        let (mut active, mut lost) = (Vec::new(), Vec::new());
        for (name, activation) in &self.activations {
            let waits: Vec<Need> =
                activation.item.resource.needs().filter(|need| !self.has_part(fleet, need)).cloned().collect();
            if waits.is_empty() && activation.acked {
                active.push(Arc::clone(name));
            } else if activation.acked
                && may_lose
                && self.is_undone(fleet, &activation.item)
                && waits.iter().any(|need| self.is_hopeless(fleet, need))
            {
                lost.push((Arc::clone(name), waits));
            }
        }
        for name in active {
            if let Some(activation) = self.activations.remove(&name) {
                if activation.changes {
                    self.begin_drain(now);
                }
                fleet.accept(&activation.item);
                self.confirm(fleet, &TypeUrl::Listener, &name);
            }
        }
        for (name, waits) in lost {
            if let Some(activation) = self.activations.remove(&name) {
                let item = activation.item;
                if self.see(fleet).current(&TypeUrl::Listener, &name).is_some() {
                    self.note_refused(fleet, &item);
                }
                self.channel(&TypeUrl::Listener).dirty.insert(name);
                fleet.take_back(self.client, &item, waits, now);
            }
        }
    }

    /// Whether the client has what a listener waits for.
    fn has_part(&self, fleet: &Fleet, need: &Need) -> bool {
        let holds = || self.is(&need.type_url, |channel| channel.holds(&need.name));
        match need.type_url {
            TypeUrl::Secret | TypeUrl::ExtensionConfig => holds(),
            TypeUrl::Route => {
                let mut hosts = self.see(fleet).hosts_of(&need.name).peekable();
                let held = |host: &Arc<Item>| self.is(&TypeUrl::VirtualHost, |channel| channel.holds(host.name()));
                holds() && (self.lost_hosts.contains(&need.name) || hosts.peek().is_none() || hosts.any(held))
            }
            _ => true,
        }
    }

    /// Whether the client gets what it had before where a listener is taken back. Of a SotW client that came again with listeners that
    /// may not be known: it would lose the listener at once.
    fn is_undone(&self, fleet: &Fleet, listener: &Item) -> bool {
        let before = self.see(fleet).accepted(&TypeUrl::Listener, listener.name());
        let known = before.is_some_and(|before| before.version() != listener.version());
        known || !self.is(&TypeUrl::Listener, |listeners| listeners.had_others)
    }

    /// Whether nothing is left that could be sent under this name.
    fn is_hopeless(&self, fleet: &Fleet, need: &Need) -> bool {
        self.wanted(fleet, &need.type_url, &need.name).is_none()
    }
}
