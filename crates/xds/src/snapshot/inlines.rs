//! Route configurations with the hosts of VHDS inside ([`crate::inline`]), kept beside those that they are made from; and with that what
//! clients of each variant see.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::names::Names;
use super::{Entry, Item, Key, Look, Snapshot};
use crate::inline::inlined;
use crate::resource::{Need, TypeUrl, route_configuration_of};
use crate::wire::Variant;

/// What clients of one variant see of a snapshot.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    snapshot: &'a Snapshot,
    variant: Variant,
    /// See [`Self::without_secrets`].
    secrets: bool,
}

impl<'a> View<'a> {
    /// The view of a client that may not have secrets: for it there are neither secrets nor the resources that need one.
    pub(crate) fn without_secrets(self, without: bool) -> Self {
        Self { secrets: self.secrets && !without, ..self }
    }

    /// The virtual hosts of a route configuration that travel by themselves.
    pub(crate) fn hosts_of(self, route_configuration: &'a str) -> impl Iterator<Item = &'a Arc<Item>> {
        let delta = self.variant == Variant::Delta;
        delta.then(|| self.snapshot.hosts_of(route_configuration)).into_iter().flatten()
    }
}

impl<'a> Look<'a> for View<'a> {
    fn entry(self, type_url: &TypeUrl, name: &str) -> Option<&'a Entry> {
        let whole = self.variant == Variant::Sotw && *type_url == TypeUrl::Route;
        let inlined = whole.then(|| self.snapshot.inlines.get(name)).flatten();
        let entry = inlined.or_else(|| self.snapshot.entry(type_url, name));
        entry.filter(|entry| self.secrets || !(*type_url == TypeUrl::Secret || entry.needs_secret()))
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Inlines {
    entries: Names<Entry>,
    /// Some client needs them.
    needed: bool,
    /// They are there. Where nobody needs them any more they stay until one would have to be put together anew, so that a client that comes
    /// and goes costs nothing.
    made: bool,
    /// By name: the number of the first since when it has not been without one.
    since: BTreeMap<Arc<str>, u64>,
    /// Those to be put together anew.
    stale: BTreeSet<Arc<str>>,
    /// By name: groups of hosts that stand inside in their accepted version, or not at all, until what is tried without them is taken or
    /// known to be bad. The last is tried next.
    kept_back: BTreeMap<Arc<str>, Vec<BTreeSet<Arc<str>>>>,
}

impl Inlines {
    pub(super) fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    pub(super) fn table(&mut self) -> &mut Names<Entry> {
        &mut self.entries
    }

    /// Something changed that they may be made from.
    pub(super) fn note(&mut self, changed: &Need) {
        if self.made {
            self.stale.extend(match changed.type_url {
                TypeUrl::Route => Some(Arc::clone(&changed.name)),
                TypeUrl::VirtualHost => route_configuration_of(&changed.name).map(Arc::from),
                _ => None,
            });
        }
    }
}

impl Snapshot {
    /// What clients of this variant see.
    pub(crate) fn view(&self, variant: Variant) -> View<'_> {
        View { snapshot: self, variant, secrets: true }
    }

    /// The number after which a part of this item is new to a client that uses the item number `before` of its name: who has one that was
    /// made of parts has had all that there were then.
    pub(crate) fn made_since(&self, item: &Item, before: u64) -> u64 {
        self.inlines.since.get(item.name()).filter(|first| before >= **first).map_or(0, |_| before)
    }

    /// Whether this is part of a route configuration that some client has with its hosts inside.
    pub(crate) fn is_inside(&self, key: &Key) -> bool {
        let route = match key {
            Key::Put(Need { type_url: TypeUrl::Route, name }) => Some(&**name),
            Key::Put(Need { type_url: TypeUrl::VirtualHost, name }) => route_configuration_of(name),
            _ => None,
        };
        self.inlines.needed && route.is_some_and(|route| self.inlines.get(route).is_some())
    }

    /// Whether some client needs route configurations with the hosts of VHDS inside.
    pub(crate) fn set_inlines(&mut self, needed: bool) {
        self.inlines.needed = needed;
        if needed && !std::mem::replace(&mut self.inlines.made, true) {
            let all: Vec<Arc<str>> = self.targets(&TypeUrl::Route).map(|route| Arc::clone(route.name())).collect();
            self.inlines.stale.extend(all);
            self.inline_stale();
        }
    }

    /// Puts route configurations together of which a part has changed, or lets all go if nobody needs them.
    pub(super) fn inline_stale(&mut self) {
        if !self.inlines.needed && !self.inlines.stale.is_empty() {
            return self.drop_inlines();
        }
        while let Some(name) = self.inlines.stale.pop_first() {
            let route = self.target(&TypeUrl::Route, &name).cloned();
            let kept_back = self.inlines.kept_back.get(&name);
            let is_kept_back = |host: &Arc<Item>| {
                kept_back.is_some_and(|groups| groups.iter().any(|hosts| hosts.contains(host.name())))
            };
            let inside =
                |host| if is_kept_back(host) { self.accepted(&TypeUrl::VirtualHost, host.name()) } else { Some(host) };
            let mut hosts: Vec<Arc<Item>> = self.hosts_of(&name).filter_map(inside).cloned().collect();
            if let Some((route, whole)) = route.and_then(|route| Some((inlined(&route.resource, &hosts)?, route))) {
                hosts.sort_by_key(|host| std::cmp::Reverse(host.seq));
                let parts = std::iter::once(whole).chain(hosts).collect();
                self.inlines.since.entry(Arc::clone(&name)).or_insert(self.seq + 1);
                self.put(Arc::new(route), parts);
            } else {
                self.inlines.since.remove(&name);
                self.inlines.kept_back.remove(&name);
                self.take_away(&Key::Inlined(name));
            }
            self.sweep();
        }
    }

    /// These hosts of a route configuration stay back.
    pub(crate) fn keep_back(&mut self, route_configuration: &Arc<str>, hosts: BTreeSet<Arc<str>>) {
        self.inlines.kept_back.entry(Arc::clone(route_configuration)).or_default().push(hosts);
        self.inlines.stale.insert(Arc::clone(route_configuration));
        self.inline_stale();
    }

    /// What stayed back last of a route configuration stands inside again, as if it were put now: which it is.
    pub(crate) fn let_in(&mut self, route_configuration: &str) -> Vec<Key> {
        let groups = self.inlines.kept_back.get_mut(route_configuration);
        let hosts = groups.and_then(Vec::pop).unwrap_or_default();
        let keys = hosts.into_iter().map(|host| Key::Put(Need::new(TypeUrl::VirtualHost, host)));
        let keys: Vec<Key> = keys.filter(|key| self.at(key).is_some() && !self.is_refused(key)).collect();
        keys.iter().for_each(|key| self.put_again(key));
        self.inline_stale();
        keys
    }

    fn drop_inlines(&mut self) {
        self.inlines.made = false;
        let gone: Vec<Key> = self.inlines.entries.values().map(|entry| entry.current.key()).collect();
        gone.iter().for_each(|key| self.take_away(key));
        self.inlines = Inlines::default();
        self.sweep();
    }
}
