//! What is to be done about each name whose resource may differ from what the client has: whether something goes out, and what.

use std::sync::Arc;
use std::time::Duration;

use super::blockers::Passage;
use super::{Session, Turn};
use crate::empty::stand_in;
use crate::fleet::Fleet;
use crate::names::is_collection;
use crate::resource::{Need, TypeUrl, Version, route_configuration_of};
use crate::snapshot::{Item, Look};

/// What is to be done about a dirty name now.
pub(super) enum Verdict {
    /// Nothing: the client has it, or does not want it.
    Drop,
    /// Not yet.
    Wait,
    /// Not before something is published.
    Blocked,
    /// Send this.
    Send(Arc<Item>),
    /// Say at once that it does not exist.
    Deny,
    /// It is gone: for the removals at the end.
    Gone,
}

/// Dirty names of one kind, sorted out.
#[derive(Default)]
pub(super) struct Ready {
    pub(super) puts: Vec<Arc<Item>>,
    pub(super) denied: Vec<Arc<str>>,
}

impl Session {
    /// Looks at each dirty name of a kind.
    pub(super) fn sort_out(&mut self, turn: &mut Turn<'_>, type_url: &TypeUrl) -> Ready {
        let mut ready = Ready::default();
        let (mut waiting, mut blocked) = (0, 0);
        let overdue = self.is(type_url, |channel| channel.held_until().is_some_and(|until| turn.now >= until));
        let channel = self.channel(type_url);
        if channel.paused_until.is_some_and(|until| turn.now < until) {
            (channel.waiting, channel.blocked) = (channel.dirty.len(), 0);
            return ready;
        }
        for name in self.channel(type_url).dirty_in_order() {
            match self.judge(turn.fleet, type_url, &name, turn.now) {
                Verdict::Drop => self.settled(turn.fleet, type_url, name),
                Verdict::Send(item) => ready.puts.push(item),
                Verdict::Deny => ready.denied.push(name),
                Verdict::Wait => waiting += 1,
                Verdict::Blocked if overdue && self.wanted(turn.fleet, type_url, &name).is_some() => {
                    ready.puts.extend(self.wanted(turn.fleet, type_url, &name).cloned());
                }
                Verdict::Blocked => {
                    blocked += 1;
                    if !turn.fleet.is_last_good() {
                        self.stall(type_url, &name);
                    }
                }
                Verdict::Gone => {}
            }
        }
        let channel = self.channel(type_url);
        channel.shrink();
        (channel.waiting, channel.blocked) = (waiting, blocked);
        if channel.uncharted && waiting + blocked > 0 {
            // what is left out of the first response the client loses
            channel.held_since.get_or_insert(turn.now);
            if !overdue {
                (channel.waiting, channel.blocked) = (channel.dirty.len(), 0);
                return Ready::default();
            }
        }
        ready
    }

    /// Nothing is to be done about a name that was dirty.
    fn settled(&mut self, fleet: &mut Fleet, type_url: &TypeUrl, name: Arc<str>) {
        let channel = self.channel(type_url);
        channel.settle(&name);
        if channel.known.get(&name).is_some_and(|known| known.acked.is_some() && known.acked == known.sent) {
            // the version is an old acquaintance, published anew
            self.confirm_again(fleet, type_url, &name);
        }
        let gone = self.see(fleet).current(type_url, &name).is_none();
        let channel = self.channel(type_url);
        if gone && channel.known.get(&name).is_none_or(|known| known.sent.is_none() && known.flying.is_none()) {
            channel.known.remove(&name);
            channel.unsure.remove(&name);
        }
        if *type_url == TypeUrl::Cluster && !channel.has(&name) {
            self.clusters.sharers.forget(&name);
            self.clusters.without_secret.forget(&name);
            self.clusters.without_witness.remove(&name);
        }
        self.waits.remove(&Need::new(type_url.clone(), name));
    }

    /// What is to be done about one dirty name.
    pub(super) fn judge(&mut self, fleet: &Fleet, type_url: &TypeUrl, name: &Arc<str>, now: Duration) -> Verdict {
        let channel = self.channel(type_url);
        let known = channel.known.get(name).unwrap_or_default();
        let forced = channel.force.contains(name);
        let subscribed = channel.subscribed(name);
        let wanted = subscribed || forced || (*type_url == TypeUrl::VirtualHost && self.wants_host(name));
        if !wanted {
            self.channel(type_url).suspects.remove(name);
            return if known.sent.is_some() { Verdict::Gone } else { Verdict::Drop };
        }
        let whatever = || if forced { self.see(fleet).target(type_url, name) } else { None };
        let last_good = fleet.is_last_good();
        let Some(item) = self.wanted(fleet, type_url, name).or_else(whatever) else {
            return if last_good { Verdict::Blocked } else { self.judge_absent(fleet, type_url, name, forced) };
        };
        if !forced && known.sent == Some(item.version().mark()) {
            return Verdict::Drop;
        }
        // what the client has may be newer
        let has = !forced && known.sent.is_some() || self.is(type_url, |channel| channel.muted.is_some());
        if last_good && has {
            return Verdict::Blocked;
        }
        if known.flying.is_some() || self.is_before_its_parent(fleet, item) {
            return Verdict::Wait;
        }
        match self.passage(fleet, item, now) {
            Passage::Open => Verdict::Send(Arc::clone(item)),
            Passage::Wait => Verdict::Wait,
            Passage::Blocked => self.judge_blocked(fleet, item),
        }
    }

    /// What the fleet lacks parts for waits for those. A listener that was refused with others the client may have taken all the same: it would
    /// take the place of one that works though its parts never come (R5).
    fn judge_blocked(&self, fleet: &Fleet, item: &Item) -> Verdict {
        let (type_url, name) = (&item.resource.type_url, item.name());
        let may_have = self.is(type_url, |channel| channel.unsure.contains(name));
        if *type_url != TypeUrl::Listener || !may_have || self.repeats(type_url) {
            return Verdict::Blocked;
        }
        let good = self.see(fleet).accepted(type_url, name).filter(|good| good.version() != item.version());
        good.map_or(Verdict::Deny, |good| Verdict::Send(Arc::clone(good)))
    }

    /// What a client gets for a name that does not exist (R6).
    fn judge_absent(&mut self, fleet: &Fleet, type_url: &TypeUrl, name: &Arc<str>, forced: bool) -> Verdict {
        let starts = self.starts();
        let channel = self.channel(type_url);
        channel.suspects.remove(name);
        let sent = channel.known.get(name).and_then(|known| known.sent);
        let named = channel.names.contains(name);
        let acked = channel.known.get(name).and_then(|known| known.acked);
        let refused = self.see(fleet).current(type_url, name).map(|item| item.version().mark());
        let mended =
            self.repeats(type_url) && sent.is_some() && sent != Some(Version::UNSURE.mark()) && sent != refused;
        if refused.is_some() && (mended || acked.is_some() && acked != refused) {
            // it has a good version of an earlier time that the fleet has not: better than none
            return Verdict::Drop;
        }
        match type_url {
            // the protocol's own rule: unknown names are answered at once
            _ if !self.envoy && forced => Verdict::Deny,
            _ if !self.envoy => {
                if sent.is_some() {
                    Verdict::Gone
                } else {
                    Verdict::Drop
                }
            }
            // there are no resources of this name to wait for
            _ if forced && is_collection(name) => Verdict::Deny,
            TypeUrl::Secret => Verdict::Drop,
            // a changed version of a cluster that is about to go: it need not get warm, the one before serves until then.
            // It may come again
            TypeUrl::Endpoints
                if !self.aggregated
                    && self.see(fleet).target(&TypeUrl::Cluster, name).is_none()
                    && self.is(&TypeUrl::Cluster, |clusters| clusters.known.contains_key(name)) =>
            {
                Verdict::Blocked
            }
            TypeUrl::Endpoints | TypeUrl::Route if sent == Some(Version::STAND_IN.mark()) && !forced => Verdict::Drop,
            TypeUrl::Endpoints if named && (sent.is_none() || forced) => {
                let has = acked.is_some_and(|acked| acked != Version::STAND_IN.mark());
                match fleet.snapshot().departed_endpoints(name) {
                    Some(departed) => Verdict::Send(Arc::clone(departed)),
                    // requests go there as long as its routes have not moved
                    None if has => Verdict::Gone,
                    None => Verdict::Send(stand_in(type_url.clone(), name)),
                }
            }
            TypeUrl::Route if named && starts && (sent.is_none() || forced) => {
                Verdict::Send(stand_in(type_url.clone(), name))
            }
            _ if forced => Verdict::Deny,
            _ if sent.is_some() => Verdict::Gone,
            _ => Verdict::Drop,
        }
    }

    /// A virtual host that comes before the route configuration that asks for hosts is dropped by Envoy without a word.
    fn is_before_its_parent(&self, fleet: &Fleet, item: &Item) -> bool {
        if item.resource.type_url != TypeUrl::VirtualHost {
            return false;
        }
        let Some(parent) = route_configuration_of(item.name()) else { return false };
        self.is(&TypeUrl::Route, |routes| routes.dirty.contains(parent)) && !self.has_hosts_of(fleet, parent)
    }
}
