//! Which form of a route a fleet serves: the desired one once its clusters are warm, the one that was served until then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::ObjectKey;
use ir::route::{Action, Backend, Destination, ExternalAuth, Filters, MaybeFilters};
use ir::{ClusterName, Route};
use store::ClusterState;

use crate::http_route::{AttachedListener, AttachedRoute, Entry, expressions, fail};
use crate::key::{ClusterTarget, Place, route_name, short_hash};

/// What gating asks of the tables.
pub(crate) trait Lookup {
    /// The fleet has a proxy with its complete first configuration; before that everything is delivered in Envoy's own order,
    /// but for what was refused.
    fn is_live(&mut self) -> bool;
    /// The fleet's proxies refused any cluster, or any secret.
    fn any_cluster_refused(&mut self) -> bool;
    /// The words for a secret that the fleet's proxies refused and that the cluster needs. Such a cluster is sent to no proxy: an Envoy that starts would wait
    /// for it.
    fn lacks_secret(&mut self, target: &ClusterTarget) -> Option<Arc<str>>;
    /// What the fleet's proxies made of a cluster; none while it warms.
    fn cluster(&mut self, name: &ClusterName) -> Option<ClusterState>;
    /// The form that was published last.
    fn served(&mut self) -> Option<Arc<AttachedRoute>>;
    /// The words with which a proxy refused this form.
    fn refused(&mut self, form: &AttachedRoute) -> Option<Arc<str>>;
    /// The form before the one that was refused.
    fn fallback(&mut self) -> Option<Arc<AttachedRoute>>;
    /// Why a cluster that was served may not be any more; `named`: entries of the route name it, and not only their listener.
    fn lapse(&mut self, target: &ClusterTarget, named: bool) -> Option<Lapse>;
}

/// Why nothing is sent any more to a cluster that was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lapse {
    /// Its backend is gone.
    Gone,
    /// No grant lets the route send there any more.
    Forbidden,
    /// Other TLS is spoken to its backend now: not gone on without for longer than that takes to be ready.
    Insecure,
    /// The proxies refuse the content of a secret that it needs.
    Refused,
}

impl Lapse {
    /// The reason in an answer 500.
    fn words(self) -> &'static str {
        match self {
            Self::Gone => "the backend is gone, and what comes in its place cannot be reached yet",
            Self::Forbidden => {
                "no ReferenceGrant allows this backend any more, and what comes in its place cannot be reached yet"
            }
            Self::Refused => "the proxies refuse the certificate or the bundle with which the backend is reached",
            Self::Insecure => "the backend cannot be reached yet with the TLS that is spoken to it now",
        }
    }
}

/// A route in a fleet as it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// As objects alone would have it.
    pub(crate) desired: Arc<AttachedRoute>,
    /// As it is served; the same one in all but the rare cases.
    pub(crate) form: Arc<AttachedRoute>,
    /// What a proxy refused, in its words: becomes a Problem and a condition.
    pub(crate) refusal: Option<Arc<str>>,
    /// The form with what may not go on at the moment, where that is something: it goes on when it may again.
    pub(crate) whole: Option<Arc<AttachedRoute>>,
}

impl Effective {
    /// Notes what would be served if all of the form from before could go on, where only a part may.
    fn lapsed(
        mut self,
        before: &Arc<AttachedRoute>,
        lasting: &Arc<AttachedRoute>,
        of: impl FnOnce(&Arc<AttachedRoute>) -> Arc<AttachedRoute>,
    ) -> Self {
        self.whole = (!Arc::ptr_eq(before, lasting)).then(|| of(before));
        self
    }

    /// Clusters that have to be there, in no order: of the form that is served and of the one that waits for them.
    pub(crate) fn clusters(&self) -> impl Iterator<Item = &ClusterTarget> {
        self.forms().flat_map(|form| form.clusters.iter())
    }

    /// What is remembered of it as served.
    pub(crate) fn remembered(&self) -> &Arc<AttachedRoute> {
        self.whole.as_ref().unwrap_or(&self.form)
    }

    /// Some of its requests are tried again within a budget.
    pub(crate) fn has_retry_budget(&self) -> bool {
        self.forms().any(|form| form.has_retry_budget())
    }

    /// The form that is served, and the one that waits, if another does.
    fn forms(&self) -> impl Iterator<Item = &AttachedRoute> {
        let waits = (!Arc::ptr_eq(&self.form, &self.desired)).then_some(&*self.desired);
        std::iter::once(&*self.form).chain(waits)
    }
}

/// Clusters that keep entries from being served, and how.
struct Held {
    /// They warm: wait for all of the route.
    warming: bool,
    /// They did not warm in time, or were refused: only the entries that need them are held.
    names: BTreeMap<ClusterName, Option<Arc<str>>>,
}

/// Decides the form. The unit is the route: all its entries change together, so that no request meets half an edit.
pub(crate) fn decide(lookup: &mut impl Lookup, desired: &Arc<AttachedRoute>) -> Effective {
    let serve = |form: &Arc<AttachedRoute>, refusal: Option<Arc<str>>| Effective {
        desired: desired.clone(),
        form: form.clone(),
        refusal,
        whole: None,
    };
    if let Some(words) = lookup.refused(desired) {
        let Some(before) = lookup.fallback() else { return serve(&failing(desired, &words), Some(words)) };
        let of = |form: &Arc<AttachedRoute>| guarded(spread(form, desired), desired);
        let lasting = lasting(lookup, &before);
        return serve(&of(&lasting), Some(words)).lapsed(&before, &lasting, of);
    }
    let held = held(lookup, desired);
    if !held.warming && held.names.is_empty() {
        return serve(desired, None);
    }
    // Before a fleet is live, what was published is not known to be accepted.
    let served = if lookup.is_live() { lookup.served() } else { None };
    let was_served = served.as_ref().is_some_and(|served| !served.clusters.is_empty());
    if held.warming {
        let served = served.and_then(|served| {
            let lapses = lapses(lookup, &served);
            let forbids = lapses.values().any(|lapse| matches!(lapse, Lapse::Forbidden | Lapse::Refused));
            let goes_on = lapses.values().all(|lapse| *lapse != Lapse::Gone);
            let lasting = || if forbids { without(&served, &lapses) } else { Arc::clone(&served) };
            goes_on.then(lasting).map(|lasting| (served, lasting))
        });
        let of = |form: &Arc<AttachedRoute>| spread(form, desired);
        return match served {
            Some((served, lasting)) => serve(&of(&lasting), None).lapsed(&served, &lasting, of),
            // The backends go with this very edit, or went before it. Proxies keep them until the new ones are warm: they take new routes
            // only then, and removals come last.
            None if was_served => serve(desired, None),
            None => serve(&nothing(desired), None),
        };
    }
    let words = held.names.values().flatten().next().cloned();
    let of = |form: &Arc<AttachedRoute>| Arc::new(patch(desired, Some(&spread(form, desired)), &held.names));
    let Some(served) = served else { return serve(&Arc::new(patch(desired, None, &held.names)), words) };
    let lasting = lasting(lookup, &served);
    serve(&of(&lasting), words).lapsed(&served, &lasting, of)
}

/// The name under which a refusal of a form is kept: the route, and a hash of what was refused.
pub(crate) fn form_name(route: &ObjectKey, form: &AttachedRoute) -> String {
    format!("{}~{}", route_name(route), short_hash(&[&format!("{:?}", form.listeners)]))
}

/// Before a fleet is live nothing waits: only what was refused is held.
fn held(lookup: &mut impl Lookup, desired: &AttachedRoute) -> Held {
    let mut held = Held { warming: false, names: BTreeMap::new() };
    let live = lookup.is_live();
    if !live && !lookup.any_cluster_refused() {
        return held;
    }
    for target in desired.clusters.iter() {
        let name = target.name();
        if let Some(words) = lookup.lacks_secret(target) {
            held.names.insert(name.clone(), Some(words));
            continue;
        }
        match lookup.cluster(name) {
            Some(ClusterState::Warm) => {}
            Some(ClusterState::Refused(words)) => drop(held.names.insert(name.clone(), Some(words))),
            _ if !live => {}
            None => held.warming = true,
            Some(ClusterState::Stalled) => drop(held.names.insert(name.clone(), None)),
        }
    }
    held
}

/// What of a form may not go on.
fn lapses(lookup: &mut impl Lookup, form: &AttachedRoute) -> BTreeMap<ClusterName, Lapse> {
    let entries = form.listeners.iter().flat_map(|listener| listener.entries.iter());
    let named: BTreeSet<&ClusterName> = entries.flat_map(|entry| clusters(&entry.route)).collect();
    let lapse = |target: &ClusterTarget| {
        let name = target.name();
        Some((name.clone(), lookup.lapse(target, named.contains(name))?))
    };
    form.clusters.iter().filter_map(lapse).collect()
}

/// A form without what may not go on of it: that answers 500.
fn lasting(lookup: &mut impl Lookup, form: &Arc<AttachedRoute>) -> Arc<AttachedRoute> {
    let lapses = lapses(lookup, form);
    if lapses.is_empty() { Arc::clone(form) } else { without(form, &lapses) }
}

fn without(form: &Arc<AttachedRoute>, lapses: &BTreeMap<ClusterName, Lapse>) -> Arc<AttachedRoute> {
    let listeners = form.listeners.iter().map(|listener| {
        let entries = listener
            .entries
            .iter()
            .map(|entry| without_clusters(entry, |name| lapses.get(name).map(|lapse| lapse.words().into())));
        AttachedListener { entries: entries.collect(), ..listener.clone() }
    });
    let clusters = form.clusters.iter().filter(|target| !lapses.contains_key(target.name()));
    Arc::new(AttachedRoute {
        listeners: listeners.collect(),
        clusters: clusters.cloned().collect(),
        ..(**form).clone()
    })
}

/// The form that was served, on the listeners that the route has now: on a new one as on another that is to get the same of it, or
/// what of it needs nothing but what is served. A new listener would answer 404 without.
fn spread(served: &Arc<AttachedRoute>, desired: &AttachedRoute) -> Arc<AttachedRoute> {
    let on = |name: &Arc<str>| served.listeners.iter().find(|other| other.listener == *name);
    let new: Vec<&AttachedListener> =
        desired.listeners.iter().filter(|listener| on(&listener.listener).is_none()).collect();
    let has = |name: &Arc<str>| desired.listeners.iter().any(|listener| listener.listener == *name);
    if new.is_empty() && served.listeners.iter().all(|listener| has(&listener.listener)) {
        return Arc::clone(served);
    }
    let is_served = |name: &ClusterName| served.clusters.iter().any(|target| target.name() == name);
    let entries = |listener: &AttachedListener| {
        let mut alike = desired.listeners.iter().filter(|other| other.entries == listener.entries);
        alike.find_map(|other| Some(Arc::clone(&on(&other.listener)?.entries))).unwrap_or_else(|| {
            let is_served = |entry: &Entry| clusters(&entry.route).all(is_served);
            let entries = listener.entries.iter().filter(|entry| is_served(entry) || asks(&entry.route));
            entries
                .map(|entry| if is_served(entry) { entry.clone() } else { refused_entry(entry, UNASKED.into()) })
                .collect()
        })
    };
    let new = new.into_iter().map(|listener| {
        let form = AttachedListener { entries: entries(listener), ..listener.clone() };
        guarded_listener(&form, &listener.entries)
    });
    let kept = served.listeners.iter().filter(|listener| has(&listener.listener)).cloned();
    Arc::new(AttachedRoute { listeners: kept.chain(new).collect(), ..(**served).clone() })
}

/// A route that is not served yet: attached, without entries, but for those that ask whether requests may pass: a wider match would take these
/// and not ask.
fn nothing(desired: &AttachedRoute) -> Arc<AttachedRoute> {
    let asking = |listener: &AttachedListener| {
        let entries = listener.entries.iter().filter(|entry| asks(&entry.route));
        AttachedListener {
            entries: entries.map(|entry| refused_entry(entry, UNASKED.into())).collect(),
            ..listener.clone()
        }
    };
    Arc::new(AttachedRoute {
        listeners: desired.listeners.iter().map(asking).collect(),
        clusters: Box::default(),
        ..desired.clone()
    })
}

/// A refused route that has no form before: it answers 500. Entries with regular expressions are left out, for these may be what
/// was refused.
fn failing(desired: &AttachedRoute, words: &Arc<str>) -> Arc<AttachedRoute> {
    let fail = |listener: &AttachedListener| {
        let plain = listener.entries.iter().filter(|entry| expressions(&entry.route).next().is_none());
        let entries = plain.map(|entry| refused_entry(entry, words.clone()));
        AttachedListener { entries: entries.collect(), ..listener.clone() }
    };
    Arc::new(AttachedRoute {
        listeners: desired.listeners.iter().map(fail).collect(),
        clusters: Box::default(),
        ..desired.clone()
    })
}

/// The desired form, but for entries that need a held cluster: they stay as they were served; else they are absent while the
/// cluster may still warm, and answer 500 for its share where it was refused. What would pass unasked as it was served answers 500 too.
fn patch(
    desired: &AttachedRoute,
    served: Option<&AttachedRoute>,
    held: &BTreeMap<ClusterName, Option<Arc<str>>>,
) -> AttachedRoute {
    let old = |listener: &AttachedListener, entry: &Entry| {
        let listener = served?.listeners.iter().find(|other| other.listener == listener.listener)?;
        let same = |other: &&Entry| other.place == entry.place && other.route.matches == entry.route.matches;
        listener.entries.iter().find(same).cloned()
    };
    let listeners = desired.listeners.iter().map(|listener| {
        let entries = listener.entries.iter().filter_map(|entry| {
            let Some(blocked) = needs(&entry.route, held) else { return Some(entry.clone()) };
            match (old(listener, entry), blocked) {
                (Some(old), blocked) if asks_fewer(&old.route, &entry.route) => {
                    Some(refused_entry(entry, blocked.unwrap_or_else(|| UNASKED.into())))
                }
                (Some(old), _) => Some(old),
                // Without it a wider match would take its requests, and let them pass unasked.
                (None, None) => asks(&entry.route).then(|| refused_entry(entry, UNASKED.into())),
                (None, Some(_)) => Some(without_clusters(entry, |name| held.get(name).cloned().flatten())),
            }
        });
        AttachedListener { entries: entries.collect(), ..listener.clone() }
    });
    let mut patched = AttachedRoute { listeners: listeners.collect(), ..desired.clone() };
    let mut clusters: Vec<ClusterTarget> = desired.clusters.to_vec();
    clusters.extend(served.iter().flat_map(|served| served.clusters.iter().cloned()));
    clusters.sort_unstable();
    clusters.dedup();
    patched.clusters = clusters.into();
    patched
}

/// Why a request is answered 500 that would pass without authorisation.
const UNASKED: &str = "who authorises these requests, or where they go, cannot be reached yet";

fn refused_entry(entry: &Entry, words: Arc<str>) -> Entry {
    let route =
        Route { action: fail(&entry.route.matches, words), filters: MaybeFilters::default(), ..(*entry.route).clone() };
    Entry { route: Arc::new(route), ..entry.clone() }
}

/// An entry without some clusters, by their reasons. As with references that lead nowhere, a destination answers 500 for its share and copies of requests
/// are left out. An entry answers 500 as a whole where nothing else has a share, and where it would pass unasked.
fn without_clusters(entry: &Entry, reason: impl Fn(&ClusterName) -> Option<Arc<str>>) -> Entry {
    let unasked = |filters: &MaybeFilters| filters.external_auth.iter().find_map(|auth| reason(&auth.cluster));
    if clusters(&entry.route).all(|name| reason(name).is_none()) {
        return entry.clone();
    }
    if let Some(words) = unasked(&entry.route.filters) {
        return refused_entry(entry, words);
    }
    let mut route = (*entry.route).clone();
    route.filters = without_copies(&route.filters, &reason);
    let Action::Forward(forward) = &mut route.action else { return Entry { route: Arc::new(route), ..entry.clone() } };
    let mut words = None;
    for destination in &mut forward.destinations {
        let own = match &destination.backend {
            Backend::Cluster(name) => reason(name),
            Backend::Broken(_) => None,
        };
        match own.or_else(|| unasked(&destination.filters)) {
            Some(own) => {
                destination.backend = Backend::Broken(own.clone());
                destination.filters = MaybeFilters::default();
                words.get_or_insert(own);
            }
            None => destination.filters = without_copies(&destination.filters, &reason),
        }
    }
    let has_share = |one: &Destination| one.weight > 0 && matches!(one.backend, Backend::Cluster(_));
    match words {
        Some(words) if !forward.destinations.iter().any(has_share) => refused_entry(entry, words),
        _ => Entry { route: Arc::new(route), ..entry.clone() },
    }
}

/// Filters without the copies of requests that some clusters would get.
fn without_copies(filters: &MaybeFilters, reason: &impl Fn(&ClusterName) -> Option<Arc<str>>) -> MaybeFilters {
    if filters.mirrors.iter().all(|mirror| reason(&mirror.cluster).is_none()) {
        return filters.clone();
    }
    let mut filters: Filters = (**filters).clone();
    filters.mirrors.retain(|mirror| reason(&mirror.cluster).is_none());
    filters.into()
}

/// Returns the words of a refusal of a held cluster that a route names; none inside if one may still warm.
fn needs(route: &Route, held: &BTreeMap<ClusterName, Option<Arc<str>>>) -> Option<Option<Arc<str>>> {
    let mut found = clusters(route).filter_map(|name| held.get(name));
    let first = found.next()?.clone();
    Some(first.filter(|_| found.all(Option::is_some)))
}

/// The clusters that a route names.
fn clusters(route: &Route) -> impl Iterator<Item = &ClusterName> {
    let destinations = match &route.action {
        Action::Forward(forward) => &*forward.destinations,
        _ => &[],
    };
    let mirrors = filters(route).flat_map(|filters| filters.mirrors.iter());
    let named = destinations.iter().filter_map(|destination| match &destination.backend {
        Backend::Cluster(name) => Some(name),
        _ => None,
    });
    mirrors.map(|mirror| &mirror.cluster).chain(named).chain(authorities(route).map(|auth| &auth.cluster))
}

/// The filters of a route and of its destinations.
fn filters(route: &Route) -> impl Iterator<Item = &MaybeFilters> {
    let destinations = match &route.action {
        Action::Forward(forward) => &*forward.destinations,
        _ => &[],
    };
    std::iter::once(&route.filters).chain(destinations.iter().map(|destination| &destination.filters))
}

/// Who is asked whether requests may pass.
fn authorities(route: &Route) -> impl Iterator<Item = &Arc<ExternalAuth>> {
    filters(route).flat_map(|filters| filters.external_auth.iter())
}

/// Whether anybody is asked.
fn asks(route: &Route) -> bool {
    authorities(route).next().is_some()
}

/// Whether a form asks fewer than another on any way that requests take in it: what the other would ask about would pass. Who is asked in place of
/// another is as any other change.
fn asks_fewer(form: &Route, desired: &Route) -> bool {
    let wanted = ways(desired);
    // On a way that the other does not know at least as many as on any that it does.
    let least = wanted.iter().map(|(_, count)| *count).min().unwrap_or_default();
    let of = |to: Option<&ClusterName>| wanted.iter().filter(|(other, _)| *other == to).map(|(_, count)| *count).max();
    ways(form).into_iter().any(|(to, count)| count < of(to).unwrap_or(least))
}

/// Where requests go, and how many are asked before; one way without a cluster where they are answered at once.
fn ways(route: &Route) -> Vec<(Option<&ClusterName>, usize)> {
    let own = route.filters.external_auth.len();
    let Action::Forward(forward) = &route.action else { return vec![(None, own)] };
    let ways = forward.destinations.iter().filter_map(|destination| match &destination.backend {
        Backend::Cluster(name) => Some((Some(name), own + destination.filters.external_auth.len())),
        Backend::Broken(_) => None,
    });
    ways.collect()
}

/// An earlier form in place of a refused one: what asks fewer than is wanted now answers 500, and so does what is to ask and was not there, unless
/// its match may be what was refused.
fn guarded(form: Arc<AttachedRoute>, desired: &AttachedRoute) -> Arc<AttachedRoute> {
    if !desired.listeners.iter().flat_map(|listener| listener.entries.iter()).any(|entry| asks(&entry.route)) {
        return form;
    }
    let listeners = form.listeners.iter().map(|listener| {
        let wanted = desired.listeners.iter().find(|other| other.listener == listener.listener);
        guarded_listener(listener, wanted.map(|wanted| &*wanted.entries).unwrap_or_default())
    });
    Arc::new(AttachedRoute { listeners: listeners.collect(), ..(*form).clone() })
}

/// The same for one listener.
fn guarded_listener(listener: &AttachedListener, wanted: &[Entry]) -> AttachedListener {
    if !wanted.iter().any(|entry| asks(&entry.route)) {
        return listener.clone();
    }
    let same = |one: &Entry, other: &Entry| one.route.matches == other.route.matches;
    let kept = listener.entries.iter().map(|entry| {
        // of several with one match the first gets the requests
        let wanted = wanted.iter().find(|wanted| same(wanted, entry));
        let lacks = wanted.is_some_and(|wanted| asks_fewer(&entry.route, &wanted.route));
        if lacks { refused_entry(entry, UNASKED.into()) } else { entry.clone() }
    });
    let is_new = |wanted: &&Entry| {
        let is_there = listener.entries.iter().any(|entry| same(entry, wanted));
        asks(&wanted.route) && expressions(&wanted.route).next().is_none() && !is_there
    };
    // Where the earlier form has another match in its place, behind all of that rule.
    let place = |entry: &Entry, free: u16| {
        let taken = listener.entries.iter().any(|other| (other.rank, other.place) == (entry.rank, entry.place));
        if taken { Place { matched: free, ..entry.place } } else { entry.place }
    };
    let added = wanted.iter().filter(is_new).zip((0..=u16::MAX).rev());
    let added = added.map(|(entry, free)| Entry { place: place(entry, free), ..refused_entry(entry, UNASKED.into()) });
    AttachedListener { entries: kept.chain(added).collect(), ..listener.clone() }
}
