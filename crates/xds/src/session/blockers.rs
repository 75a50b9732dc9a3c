//! What may not go out yet: resources whose parts the fleet lacks, and routes to clusters that are not ready on this client.

use std::sync::Arc;
use std::time::Duration;

use super::Session;
use crate::fleet::Fleet;
use crate::resource::{Need, TypeUrl, route_configuration_of};
use crate::snapshot::{Item, Look};

/// How long a resource is held back for a cluster. The fleet learns within [`super::time::STALLED`] that a cluster does not
/// get ready and publishes what does without it; whoever does not, gets its other changes through all the same. A listener and
/// then its route configuration can wait this long each: together well below the 15 s after which Envoy makes do without.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How long it is held back for a cluster that the fleet does not have at all, because it was refused or never published: time
/// for a publication without it, which the refusal brings about within milliseconds.
const PATIENCE_IN_VAIN: Duration = Duration::from_secs(1);

/// Since when a name waits, and for what.
pub(super) struct Wait {
    since: Duration,
    /// When it goes all the same.
    pub(super) until: Duration,
    /// Number of the item that waits.
    seq: u64,
    on: Need,
}

/// Whether a resource may go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Passage {
    Open,
    /// Not yet: something is on its way to this client.
    Wait,
    /// Not before something is published: sending it would break what works (R5, R6).
    Blocked,
}

impl Session {
    /// Whether this resource may go to the client now.
    pub(super) fn passage(&mut self, fleet: &Fleet, item: &Item, now: Duration) -> Passage {
        if lacks_parts(fleet, item) {
            return Passage::Blocked;
        }
        if self.waits.is_empty() && self.blocker(fleet, item).is_none() {
            return Passage::Open;
        }
        let key = Need::new(item.resource.type_url.clone(), Arc::clone(item.name()));
        let same = self.waits.get(&key).filter(|wait| wait.seq == item.seq);
        let still = same.filter(|wait| self.blocks(fleet, item, &wait.on)).map(|wait| wait.on.clone());
        let Some(on) = still.or_else(|| self.blocker(fleet, item)) else { return Passage::Open };
        let wait =
            self.waits.entry(key).or_insert_with(|| Wait { since: now, until: now, seq: item.seq, on: on.clone() });
        let in_vain = fleet.snapshot().missing().contains(&on);
        wait.until = wait.since + if in_vain { PATIENCE_IN_VAIN } else { PATIENCE };
        (wait.on, wait.seq) = (on, item.seq);
        if now < wait.until { Passage::Wait } else { Passage::Open }
    }

    /// The first thing that this resource has to wait for.
    fn blocker(&self, fleet: &Fleet, item: &Item) -> Option<Need> {
        let nothing =
            self.clusters.cold.is_empty() && fleet.snapshot().missing().is_empty() && !self.is_before_clusters();
        match item.resource.type_url {
            TypeUrl::Listener if nothing => self.stale_routes(fleet, item),
            _ if nothing => None,
            TypeUrl::Listener => self
                .own_blocker(fleet, item)
                .or_else(|| self.blocker_of_routes(fleet, item))
                .or_else(|| self.stale_routes(fleet, item)),
            TypeUrl::Route => self.route_blocker(fleet, item),
            TypeUrl::VirtualHost => self.own_blocker(fleet, item),
            _ => None,
        }
    }

    fn own_blocker(&self, fleet: &Fleet, item: &Item) -> Option<Need> {
        item.resource.needs().find(|need| self.blocks(fleet, item, need)).cloned()
    }

    /// What the client has names a cluster that does not get ready: with one that names it too it is no worse off. Nor is one that starts: it
    /// serves nothing at all before it has its listeners with their routes.
    fn blocks(&self, fleet: &Fleet, item: &Item, need: &Need) -> bool {
        let is_late = || self.clusters.cold.get(&need.name).is_some_and(|cold| cold.stalled);
        self.is_blocking(fleet, need) && !(is_late() && (self.starts() || self.names_already(fleet, item, need)))
    }

    fn names_already(&self, fleet: &Fleet, item: &Item, need: &Need) -> bool {
        let (type_url, name) = (&item.resource.type_url, item.name());
        let known = self.channels.get(type_url).and_then(|channel| channel.known.get(name));
        let acked = known.filter(|known| known.sent == known.acked).and_then(|known| known.acked);
        let accepted = fleet.snapshot().accepted(type_url, name);
        accepted.is_some_and(|accepted| {
            Some(accepted.version().mark()) == acked && accepted.resource.needs().any(|other| other == need)
        })
    }

    /// A route configuration waits for its virtual hosts too as long as the client has none of them: with the change to VHDS
    /// the client forgets those that were inside.
    fn route_blocker(&self, fleet: &Fleet, item: &Item) -> Option<Need> {
        self.own_blocker(fleet, item).or_else(|| {
            let mut hosts = self.see(fleet).hosts_of(item.name());
            if self.has_hosts_of(fleet, item.name()) && !self.lost_hosts.contains(item.name()) {
                return None;
            }
            hosts.find_map(|host| self.own_blocker(fleet, host))
        })
    }

    /// A listener waits for the route configurations that it is the first to bring.
    fn blocker_of_routes(&self, fleet: &Fleet, listener: &Item) -> Option<Need> {
        let routes = listener.resource.needs().filter(|need| need.type_url == TypeUrl::Route);
        let mut new = routes.filter(|need| !self.is(&TypeUrl::Route, |routes| routes.has(&need.name)));
        new.find_map(|need| self.route_blocker(fleet, self.see(fleet).target(&TypeUrl::Route, &need.name)?))
    }

    /// A route configuration of the listener that the client has from another one and that is not yet what it should be. Envoy keeps
    /// those while connections drain, and would serve them with this listener from its first moment.
    fn stale_routes(&self, fleet: &Fleet, listener: &Item) -> Option<Need> {
        let before = self.see(fleet).accepted(&TypeUrl::Listener, listener.name());
        let uses = |need: &Need| before.is_some_and(|before| before.resource.needs().any(|other| other == need));
        let mut routes = listener.resource.needs().filter(|need| need.type_url == TypeUrl::Route);
        routes.find(|need| self.has_stale(fleet, &need.name) && !uses(need)).cloned()
    }

    fn has_stale(&self, fleet: &Fleet, name: &Arc<str>) -> bool {
        let known = self.channels.get(&TypeUrl::Route).and_then(|routes| routes.known.get(name));
        let Some((acked, flying)) = known.and_then(|known| Some((known.acked?, known.flying))) else { return false };
        let inside = |host: &str| route_configuration_of(host) == Some(name);
        // what it was sent since it may have or not
        flying.is_some()
            || self.wanted(fleet, &TypeUrl::Route, name).is_some_and(|item| item.version().mark() != acked)
            || self.is(&TypeUrl::VirtualHost, |hosts| hosts.has_unsettled(inside))
    }

    /// Whether the client has some virtual host of this route configuration.
    pub(super) fn has_hosts_of(&self, fleet: &Fleet, route_configuration: &str) -> bool {
        let has = |host: &Arc<Item>| self.is(&TypeUrl::VirtualHost, |hosts| hosts.has(host.name()));
        self.see(fleet).hosts_of(route_configuration).any(has)
    }

    fn is_blocking(&self, fleet: &Fleet, need: &Need) -> bool {
        let cold = || self.clusters.cold.contains(&need.name) || fleet.snapshot().missing().contains(need);
        need.type_url == TypeUrl::Cluster && (self.is_before_clusters() || cold())
    }

    /// A stream that broke while a cluster warmed goes on with EDS, and asks for clusters only afterwards (R13); where each kind has
    /// streams of its own they come in any order. What the client has is not known before.
    fn is_before_clusters(&self) -> bool {
        let opened = |type_url| self.is(type_url, |channel| channel.opened);
        self.envoy && (opened(&TypeUrl::Endpoints) || !self.aggregated) && !opened(&TypeUrl::Cluster)
    }
}

/// Whether the fleet lacks something that the client would ask for and wait for in vain.
fn lacks_parts(fleet: &Fleet, item: &Item) -> bool {
    let missing = fleet.snapshot().missing();
    if missing.is_empty()
        || !matches!(item.resource.type_url, TypeUrl::Listener | TypeUrl::Cluster | TypeUrl::ScopedRoute)
    {
        return false;
    }
    let part = |need: &Need| {
        matches!(need.type_url, TypeUrl::Secret | TypeUrl::Route | TypeUrl::ScopedRoute | TypeUrl::ExtensionConfig)
    };
    item.resource.needs().any(|need| part(need) && missing.contains(need))
}
