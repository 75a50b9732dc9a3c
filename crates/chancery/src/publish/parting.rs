//! Endpoints that datagrams went to, for a moment after they are gone. Envoy ends what clients have with an endpoint at once when it is
//! taken away, and an answer under way is lost; with one that only drains it waits for answers, while new clients go elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;
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
    now: Vec<Locality>,
    gone: Vec<Gone>,
}

/// An endpoint that is gone, and until when it drains.
#[derive(Clone)]
struct Gone {
    zone: Option<Arc<str>>,
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
        let before = std::mem::replace(&mut watched.now, set.localities);
        let left = before.into_iter().flat_map(|locality| {
            let gone = move |endpoint: Endpoint| Gone {
                zone: locality.zone.clone(),
                address: endpoint.address,
                until: now + LINGER,
            };
            locality.endpoints.into_iter().map(gone)
        });
        watched.gone.extend(left);
        let Watched { now: there, gone } = watched;
        gone.retain(|gone| gone.address != DISCARD && all(there).all(|endpoint| endpoint.address != gone.address));
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

    /// Adds what drains, each where it was: Envoy takes an endpoint of another zone or priority for another one.
    pub(super) fn add_to(&self, set: &mut Endpoints) {
        let Some(watched) = self.sets.get(&set.name).filter(|watched| !watched.gone.is_empty()) else { return };
        if all(&set.localities).next().is_none() {
            // Nobody else is there, and datagrams go to nobody.
            set.localities.push(locality(None, vec![Endpoint { address: DISCARD, health: Health::Healthy }]));
        }
        for gone in &watched.gone {
            let endpoint = Endpoint { address: gone.address.clone(), health: Health::Draining };
            match set.localities.iter_mut().find(|locality| locality.zone == gone.zone) {
                Some(locality) => locality.endpoints.push(endpoint),
                None => set.localities.push(locality(gone.zone.clone(), vec![endpoint])),
            }
        }
    }
}

/// With a weight, as Envoy wants it of each where there are shares; where nothing is healthy it does not count.
fn locality(zone: Option<Arc<str>>, endpoints: Vec<Endpoint>) -> Locality {
    Locality { zone, priority: 0, weight: Some(1), endpoints }
}

fn all(localities: &[Locality]) -> impl Iterator<Item = &Endpoint> {
    localities.iter().flat_map(|locality| &locality.endpoints)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const NAME: &str = "default/edge/53/udp";

    fn endpoint(port: u16, health: Health) -> Endpoint {
        Endpoint { address: Address::Ip(Ipv4Addr::LOCALHOST.into(), port), health }
    }

    /// A set of one zone for each backend.
    fn set(zones: &[(&str, &[u16])]) -> Endpoints {
        let zone = |(zone, ports): &(&str, &[u16])| Locality {
            zone: Some((*zone).into()),
            priority: 0,
            weight: Some(3),
            endpoints: ports.iter().map(|port| endpoint(*port, Health::Healthy)).collect(),
        };
        Endpoints { name: NAME.into(), localities: zones.iter().map(zone).collect() }
    }

    fn shown(parting: &Parting, mut set: Endpoints) -> Vec<String> {
        parting.add_to(&mut set);
        let of = |locality: Locality| {
            let zone = locality.zone.unwrap_or_default();
            let show = move |endpoint: Endpoint| {
                let drains = if endpoint.health == Health::Draining { " drains" } else { "" };
                format!("{zone} {:?}{drains}", endpoint.address)
            };
            locality.endpoints.into_iter().map(show)
        };
        set.localities
            .into_iter()
            .flat_map(of)
            .map(|text| text.replace("Ip(127.0.0.1, ", "").replace(')', ""))
            .collect()
    }

    #[test]
    fn what_goes_drains_for_a_while_where_it_was() {
        let (mut parting, start) = (Parting::default(), Instant::now());
        let (name, later) = (EndpointSetName::from(NAME), start + LINGER / 2);
        let (first, second) = (set(&[("one", &[1, 2])]), set(&[("one", &[2]), ("two", &[3])]));
        parting.note(&name, Some(first.clone()), start);
        assert_eq!(
            (parting.next(), shown(&parting, first.clone())),
            (None, vec!["one 1".to_owned(), "one 2".to_owned()])
        );
        parting.note(&name, Some(second.clone()), start);
        assert_eq!(shown(&parting, second.clone()), ["one 2", "one 1 drains", "two 3"]);
        // a zone of which nothing is left, and one that comes back
        let third = set(&[("one", &[1])]);
        parting.note(&name, Some(third.clone()), later);
        assert_eq!(shown(&parting, third.clone()), ["one 1", "one 2 drains", "two 3 drains"]);
        assert_eq!(parting.over(start + LINGER), [] as [EndpointSetName; 0]);
        assert_eq!(parting.next(), Some(later + LINGER));
        assert_eq!(parting.over(later + LINGER), [name]);
        assert_eq!((parting.next(), shown(&parting, third)), (None, vec!["one 1".to_owned()]));
    }

    #[test]
    fn who_is_left_alone_gets_nothing_new() {
        let (mut parting, start) = (Parting::default(), Instant::now());
        let name = EndpointSetName::from(NAME);
        parting.note(&name, Some(set(&[("one", &[1])])), start);
        let nobody = set(&[]);
        parting.note(&name, Some(nobody.clone()), start);
        assert_eq!(shown(&parting, nobody), [" 9", "one 1 drains"], "the healthy one gets what comes");
        // what was never sent to anybody does not drain, and with its cluster all goes
        parting.note(&name, Some(set(&[("", &[9])])), start);
        parting.note(&name, Some(set(&[("one", &[1])])), start);
        assert_eq!(shown(&parting, set(&[("one", &[1])])), ["one 1"]);
        parting.note(&name, Some(set(&[])), start);
        parting.note(&name, None, start);
        assert_eq!(parting.over(start + LINGER * 2), [] as [EndpointSetName; 0]);
        assert_eq!(parting.next(), None);
    }
}
