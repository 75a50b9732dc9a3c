//! Endpoints that datagrams went to, for a moment after they are gone. Envoy ends what clients have with an endpoint at once when it is
//! taken away, and an answer under way is lost; with one that only drains it waits for answers, while new clients go elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use ir::cluster::{Health, Locality};
use ir::{Address, Endpoint, EndpointSetName, Endpoints};
use translator::DISCARD;

/// So long an endpoint drains: longer than people wait for an answer to a datagram.
pub(super) const LINGER: Duration = Duration::from_secs(10);

/// What goes of the sets that are watched.
#[derive(Default)]
pub(super) struct Parting {
    sets: BTreeMap<EndpointSetName, Watched>,
    /// Nothing is over before this.
    next: Option<Instant>,
}

/// A set, as it is and what has gone from it.
#[derive(Default)]
struct Watched {
    now: BTreeSet<Address>,
    gone: Vec<Gone>,
}

/// An endpoint that is gone, and until when it drains.
#[derive(Clone)]
struct Gone {
    address: Address,
    until: Instant,
}

impl Parting {
    /// A set has changed, or is gone.
    pub(super) fn note(&mut self, name: &EndpointSetName, set: Option<Endpoints>, now: Instant) {
        let Some(set) = set else {
            self.sets.remove(name);
            return;
        };
        let watched = self.sets.entry(name.clone()).or_default();
        let there: BTreeSet<Address> = all(&set).map(|endpoint| endpoint.address.clone()).collect();
        let before = std::mem::replace(&mut watched.now, there);
        watched.gone.extend(before.into_iter().map(|address| Gone { address, until: now + LINGER }));
        let Watched { now: there, gone } = watched;
        gone.retain(|gone| gone.address != DISCARD && !there.contains(&gone.address));
        if !gone.is_empty() {
            self.next.get_or_insert(now + LINGER);
        }
    }

    /// Sets from which something has drained long enough, each once: they are other than published.
    pub(super) fn over(&mut self, now: Instant) -> Vec<EndpointSetName> {
        if self.next.is_none_or(|next| next > now) {
            return Vec::new();
        }
        let mut over = Vec::new();
        for (name, watched) in &mut self.sets {
            let before = watched.gone.len();
            watched.gone.retain(|gone| gone.until > now);
            if watched.gone.len() < before {
                over.push(name.clone());
            }
        }
        self.next = self.sets.values().flat_map(|watched| &watched.gone).map(|gone| gone.until).min();
        over
    }

    /// When to ask again what is over, at the latest.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Adds what drains.
    pub(super) fn add_to(&self, set: &mut Endpoints) {
        let Some(watched) = self.sets.get(&set.name).filter(|watched| !watched.gone.is_empty()) else { return };
        // Nobody else is there, and datagrams go to nobody.
        let nobody = all(set).next().is_none().then(|| Endpoint::new(DISCARD));
        let gone = watched
            .gone
            .iter()
            .map(|gone| Endpoint { health: Health::Draining, ..Endpoint::new(gone.address.clone()) });
        let more = nobody.into_iter().chain(gone);
        match set.localities.first_mut() {
            Some(locality) => locality.endpoints.extend(more),
            None => set.localities.push(Locality { zone: None, priority: 0, endpoints: more.collect() }),
        }
    }
}

fn all(set: &Endpoints) -> impl Iterator<Item = &Endpoint> {
    set.localities.iter().flat_map(|locality| &locality.endpoints)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const NAME: &str = "default/edge/53/udp";

    fn set(ports: &[u16]) -> Endpoints {
        let endpoint = |port: &u16| Endpoint::new(Address::Ip(Ipv4Addr::LOCALHOST.into(), *port));
        let locality = Locality { zone: None, priority: 0, endpoints: ports.iter().map(endpoint).collect() };
        Endpoints { name: NAME.into(), localities: if ports.is_empty() { Vec::new() } else { vec![locality] } }
    }

    fn shown(parting: &Parting, mut set: Endpoints) -> String {
        parting.add_to(&mut set);
        let show = |endpoint: &Endpoint| {
            let drains = if endpoint.health == Health::Draining { " drains" } else { "" };
            format!("{:?}{drains}", endpoint.address).replace("Ip(127.0.0.1, ", "").replace(')', "")
        };
        all(&set).map(show).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn what_goes_drains_for_a_while() {
        let (mut parting, start) = (Parting::default(), Instant::now());
        let (name, later) = (EndpointSetName::from(NAME), start + LINGER / 2);
        parting.note(&name, Some(set(&[1, 2])), start);
        assert_eq!((parting.next(), &*shown(&parting, set(&[1, 2]))), (None, "1, 2"));
        parting.note(&name, Some(set(&[2, 3])), start);
        assert_eq!(shown(&parting, set(&[2, 3])), "2, 3, 1 drains");
        // one that comes back
        parting.note(&name, Some(set(&[1])), later);
        assert_eq!(shown(&parting, set(&[1])), "1, 2 drains, 3 drains");
        assert_eq!(parting.over(start + LINGER), [] as [EndpointSetName; 0]);
        assert_eq!(parting.next(), Some(later + LINGER));
        assert_eq!(parting.over(later + LINGER), [name]);
        assert_eq!((parting.next(), &*shown(&parting, set(&[1]))), (None, "1"));
    }

    #[test]
    fn who_is_left_alone_gets_nothing_new() {
        let (mut parting, start) = (Parting::default(), Instant::now());
        let name = EndpointSetName::from(NAME);
        parting.note(&name, Some(set(&[1])), start);
        parting.note(&name, Some(set(&[])), start);
        assert_eq!(shown(&parting, set(&[])), "9, 1 drains", "the healthy one gets what comes");
        // what was never sent to anybody does not drain, and with its cluster all goes
        parting.note(&name, Some(set(&[9])), start);
        parting.note(&name, Some(set(&[1])), start);
        assert_eq!(shown(&parting, set(&[1])), "1");
        parting.note(&name, Some(set(&[])), start);
        parting.note(&name, None, start);
        assert_eq!(parting.over(start + LINGER * 2), [] as [EndpointSetName; 0]);
        assert_eq!(parting.next(), None);
    }
}
