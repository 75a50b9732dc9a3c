//! The steps that take something away: last, and only when nothing that may still use it is on its way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::blockers::PATIENCE;
use super::channel::{Channel, Flight};
use super::judge::Verdict;
use super::{Session, Turn};
use crate::fleet::Fleet;
use crate::resource::{Need, TypeUrl, route_configuration_of};
use crate::snapshot::Look;

/// Kinds that name others: while one of them is changing, what it named before may be in use.
const USERS: [TypeUrl; 4] = [TypeUrl::Listener, TypeUrl::ScopedRoute, TypeUrl::Route, TypeUrl::VirtualHost];

/// Those of them that name route configurations.
const USERS_OF_ROUTES: [TypeUrl; 2] = [TypeUrl::Listener, TypeUrl::ScopedRoute];

/// Envoy has done with the connections of a listener that changed after 600 s (`--drain-time-s`) and then lets go of its route
/// configuration, with its hosts: until then a connection that was idle finds them. It keeps a route configuration that is removed
/// all the same, and shows it with the next listener that names it: it is to be known for as long.
const LONGEST_DRAIN: Duration = Duration::from_secs(900);

/// A client other than Envoy, which asks for each cluster by name, acknowledges routes before it has the clusters that they name, uses
/// the routes before until then, and asks for what they named no more (gRPC, measured). It may wait for a cluster for 15 s. It drains no
/// listeners: nothing stays with it for longer.
const LONGEST_CHANGE: Duration = Duration::from_secs(20);

/// Envoy ends what its filters ask of a cluster, such as whether a request may pass, with the cluster, and not when the answer is there
/// (measured): requests that were let into a route before it changed may ask for so long.
const LONGEST_ASKING: Duration = Duration::from_secs(10);

/// What Envoy needs to ask.
const ASKED: [TypeUrl; 3] = [TypeUrl::Cluster, TypeUrl::Endpoints, TypeUrl::Secret];

/// Kinds that the connections of a listener that changed go on using. Virtual hosts are such only where their whole route
/// configuration goes: a route that is deleted ends at once.
const DRAINED: [TypeUrl; 5] =
    [TypeUrl::Route, TypeUrl::VirtualHost, TypeUrl::Cluster, TypeUrl::Endpoints, TypeUrl::Secret];

/// Kinds that the client has asked for and that can name others, on any of its streams so far.
#[derive(Clone, Copy, Default)]
pub(super) struct Namers {
    /// Listeners or scopes of routes: name route configurations, clusters and secrets.
    listeners: bool,
    /// What names clusters and secrets besides: route configurations, virtual hosts, configurations of filters, and kinds that are not known.
    routes: bool,
    /// Clusters: name endpoints, secrets and other clusters.
    clusters: bool,
}

impl Session {
    /// Removals of one kind.
    pub(super) fn remove(&mut self, turn: &mut Turn<'_>, type_url: &TypeUrl) {
        let nothing = turn.fleet.is_last_good() || self.is(type_url, |channel| channel.dirty.is_empty());
        if nothing || !self.is_quiet(turn, type_url) {
            return;
        }
        let used = match type_url {
            TypeUrl::Cluster | TypeUrl::Endpoints | TypeUrl::Secret => self.stays_behind(turn.fleet, &USERS),
            TypeUrl::Route | TypeUrl::VirtualHost => self.stays_behind(turn.fleet, &USERS_OF_ROUTES),
            _ => false,
        };
        let dirty = self.channel(type_url).dirty_in_order();
        let mut groups: BTreeMap<&str, Vec<Arc<str>>> = BTreeMap::new();
        for name in &dirty {
            let flying =
                self.is(type_url, |channel| channel.known.get(name).is_some_and(|known| known.flying.is_some()));
            if !flying && matches!(self.judge(turn.fleet, type_url, name, turn.now), Verdict::Gone) {
                let group = match type_url {
                    TypeUrl::VirtualHost => route_configuration_of(name).unwrap_or(""),
                    _ => "",
                };
                let whole = || self.see(turn.fleet).current(&TypeUrl::Route, group).is_none();
                let drained = DRAINED.contains(type_url) && (*type_url != TypeUrl::VirtualHost || whole());
                if drained && used {
                    continue;
                }
                let until = self.stays_until(type_url, (group, name), turn.now);
                let channel = self.channel(type_url);
                if drained && !channel.unsure.contains(name) && channel.keep_until(name, until, turn.now) {
                    continue;
                }
                groups.entry(group).or_default().push(Arc::clone(name));
            }
        }
        for names in groups.into_values() {
            if *type_url == TypeUrl::Route {
                self.forget_hosts_of(&names.iter().map(|name| &**name).collect());
            }
            for name in &names {
                self.forget_activity(type_url, name);
            }
            self.send(turn, type_url, Vec::new(), names);
        }
    }

    /// Until when what is gone stays for what may use it; none if nothing can.
    fn stays_until(&self, type_url: &TypeUrl, (group, name): (&str, &str), now: Duration) -> Option<Duration> {
        if !self.can_be_named(type_url) {
            return None;
        }
        let named = self.is(type_url, |channel| channel.names.contains(name));
        let drain_ends = self.drain_ends(now);
        if !self.envoy {
            let latest = now + LONGEST_CHANGE;
            return if named { Some(latest) } else { drain_ends.map(|end| end.min(latest)) };
        }
        let kept = match type_url {
            TypeUrl::Route => named,
            TypeUrl::VirtualHost => self.is(&TypeUrl::Route, |routes| routes.names.contains(group)),
            _ => false,
        };
        match kept {
            true => Some(now + LONGEST_DRAIN),
            false if ASKED.contains(type_url) => drain_ends.max(Some(now + LONGEST_ASKING)),
            false => drain_ends,
        }
    }

    /// Whether the client has asked, on this stream or on one before, for a kind that can name resources of this kind. An Envoy that comes again
    /// may ask only later for what it uses (R13), and so may a client that has streams for each kind: each waits longer and longer between attempts.
    fn can_be_named(&self, type_url: &TypeUrl) -> bool {
        let Namers { listeners, routes, clusters } = self.namers;
        let comes_again = self.resumed && (self.envoy || !self.aggregated);
        comes_again
            || match type_url {
                TypeUrl::Route | TypeUrl::VirtualHost => listeners,
                TypeUrl::Cluster => listeners || routes,
                _ => listeners || routes || clusters,
            }
    }

    /// Notes that the client asks for this kind.
    pub(super) fn note_namer(&mut self, type_url: &TypeUrl) {
        match type_url {
            TypeUrl::Listener | TypeUrl::ScopedRoute => self.namers.listeners = true,
            TypeUrl::Route | TypeUrl::VirtualHost | TypeUrl::ExtensionConfig | TypeUrl::Other(_) => {
                self.namers.routes = true;
            }
            TypeUrl::Cluster => self.namers.clusters = true,
            TypeUrl::Endpoints | TypeUrl::LocalityEndpoint | TypeUrl::Runtime | TypeUrl::Secret => {}
        }
    }

    /// Whether the client has a version of one of these kinds that is none of the fleet's, because it refuses what others take. Nobody knows what
    /// that needs, so that nothing it may need goes until it takes another.
    fn stays_behind(&self, fleet: &Fleet, users: &[TypeUrl]) -> bool {
        let has_old = |(Need { type_url, name }, refused): (&Need, &BTreeSet<u64>)| {
            let refuses = self.see(fleet).target(type_url, name).is_some_and(|target| refused.contains(&target.seq));
            refuses && self.is(type_url, |channel| channel.holds(name)) && self.wanted(fleet, type_url, name).is_none()
        };
        self.refused.iter().filter(|(need, _)| users.contains(&need.type_url)).any(has_old)
    }

    /// Whether nothing is on its way that could use resources of this kind.
    fn is_quiet(&self, turn: &Turn<'_>, type_url: &TypeUrl) -> bool {
        let busy = |kind: &TypeUrl| self.is(kind, |channel| channel.waiting > 0 || channel.is_flying());
        let clusters = match type_url {
            TypeUrl::Endpoints | TypeUrl::Secret => self.is(&TypeUrl::Cluster, |clusters| clusters.is_flying()),
            _ => false,
        };
        // one cluster may name others: where nothing else can, nothing else gives them time
        let changes = |flight: &Flight, clusters: &Channel| !flight.puts.is_empty() && clusters.is_awaited(flight);
        let changing = |clusters: &Channel| clusters.flights.iter().any(|flight| changes(flight, clusters));
        let clusters = clusters
            || *type_url == TypeUrl::Cluster && !self.can_be_named(type_url) && self.is(&TypeUrl::Cluster, changing);
        let introduced = self.is_introduced(turn.fleet) || self.introduction_ends().is_none_or(|end| turn.now >= end);
        let parting = self.parted_until.is_some_and(|end| turn.now < end);
        introduced && !parting && !clusters && !USERS.iter().any(busy)
    }

    /// Whether it is known what the client has from an earlier stream. It says so kind by kind, all within about 1 ms; before it
    /// has spoken of its routes nothing that they may name can go.
    pub(super) fn is_introduced(&self, fleet: &Fleet) -> bool {
        let opened = |type_url| self.is(type_url, |channel| channel.opened);
        let listens = self.is(&TypeUrl::Listener, |listeners| !listeners.known.is_empty());
        let hosts = |routes: &Channel| routes.names.iter().any(|name| self.see(fleet).hosts_of(name).next().is_some());
        let routes = !listens
            || (opened(&TypeUrl::Route) && (opened(&TypeUrl::VirtualHost) || !self.is(&TypeUrl::Route, hosts)));
        !self.resumed || (opened(&TypeUrl::Listener) && routes)
    }

    /// A stream has ended. If it was for what names others, the client may have broken with it, or only the stream: then it asks again,
    /// and uses what it has until then.
    pub(super) fn part(&mut self, type_url: &TypeUrl, now: Duration) {
        if USERS.contains(type_url) {
            self.parted_until = Some(now + PATIENCE);
        }
    }

    /// When a client that is not introduced is taken as it is: some use fewer kinds.
    pub(super) fn introduction_ends(&self) -> Option<Duration> {
        self.began.map(|began| began + PATIENCE)
    }

    /// The client has nothing of this name any more, or is about to. Of route configurations there is [`Self::forget_hosts_of`].
    pub(super) fn forget_activity(&mut self, type_url: &TypeUrl, name: &str) {
        match type_url {
            TypeUrl::Cluster => self.clusters.forget(name),
            TypeUrl::Listener => {
                self.activations.remove(name);
            }
            _ => {}
        }
    }
}
