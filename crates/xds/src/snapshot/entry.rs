//! What is kept under one name.

use std::sync::Arc;

use crate::resource::{Mark, Need, Resource, TypeUrl, Version};

/// A resource as it was put.
pub(crate) struct Item {
    /// The resource.
    pub(crate) resource: Arc<Resource>,
    /// When it was put: a later item of a name has a higher number.
    pub(crate) seq: u64,
    /// A route configuration with the hosts of VHDS inside: what it was made from, the route configuration first, then the hosts,
    /// latest first.
    pub(crate) parts: Box<[Arc<Self>]>,
}

impl Item {
    pub(crate) fn new(resource: Arc<Resource>, seq: u64) -> Arc<Self> {
        Arc::new(Self { resource, seq, parts: Box::default() })
    }

    /// Under which a snapshot keeps it.
    pub(crate) fn key(&self) -> Key {
        match *self.parts {
            [] => Key::Put(Need::new(self.resource.type_url.clone(), Arc::clone(self.name()))),
            _ => Key::Inlined(Arc::clone(self.name())),
        }
    }

    /// Itself; or of what it was made from what is later than the change number `seq`, the route configuration always.
    pub(crate) fn parts_since(self: &Arc<Self>, seq: u64) -> impl Iterator<Item = &Arc<Self>> {
        let (first, hosts) = self.parts.split_first().unwrap_or((self, &[]));
        std::iter::once(first).chain(hosts.iter().take_while(move |host| host.seq > seq))
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.resource.name
    }

    pub(crate) fn version(&self) -> Version {
        self.resource.version
    }
}

/// Under which a snapshot keeps an item. Outside of the fleet both are a kind and a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// A resource as it was put.
    Put(Need),
    /// The route configuration of this name with the hosts of VHDS inside.
    Inlined(Arc<str>),
}

impl Key {
    pub(crate) fn type_url(&self) -> &TypeUrl {
        match self {
            Self::Put(need) => &need.type_url,
            Self::Inlined(_) => &TypeUrl::Route,
        }
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        match self {
            Self::Put(Need { name, .. }) | Self::Inlined(name) => name,
        }
    }

    /// What it is called outside.
    pub(crate) fn need(&self) -> Need {
        Need::new(self.type_url().clone(), Arc::clone(self.name()))
    }
}

/// One name of one kind.
pub(crate) struct Entry {
    pub(super) current: Arc<Item>,
    /// The newest version that a client has acknowledged.
    pub(super) accepted: Option<Arc<Item>>,
    /// What was current before, if it was not accepted by the time it was replaced: a client may still say that it has it.
    pub(super) previous: Option<Arc<Item>>,
    /// `current` was refused: the fleet stays on `accepted`.
    pub(super) refused: bool,
    /// Removed by the publisher, but something that may still be in use needs it.
    pub(super) leaving: bool,
    /// The version that was last reported as accepted (or warm) to the outside.
    pub(super) reported: Option<Mark>,
    /// Some version was so since there are clients.
    pub(super) was_reported: bool,
    /// What is saved.
    pub(super) saved: Option<Arc<Item>>,
}

impl Entry {
    pub(super) fn new(current: Arc<Item>) -> Self {
        let (accepted, previous, reported, saved) = (None, None, None, None);
        Self { current, accepted, previous, refused: false, leaving: false, reported, was_reported: false, saved }
    }

    /// What clients should have.
    pub(crate) fn target(&self) -> Option<&Arc<Item>> {
        if self.refused { self.accepted.as_ref() } else { Some(&self.current) }
    }

    /// The version that was put last, refused or not.
    pub(crate) fn current(&self) -> &Arc<Item> {
        &self.current
    }

    /// The newest version that a client has acknowledged.
    pub(crate) fn accepted(&self) -> Option<&Arc<Item>> {
        self.accepted.as_ref()
    }

    /// Returns true if a version that a client may be sent needs a secret.
    pub(super) fn needs_secret(&self) -> bool {
        let versions = [Some(&self.current), self.accepted.as_ref()].into_iter().flatten();
        versions.flat_map(|item| item.resource.needs()).any(|need| need.type_url == TypeUrl::Secret)
    }

    /// The accepted version, if it is another one than the current.
    pub(super) fn older(&self) -> Option<&Arc<Item>> {
        self.accepted.as_ref().filter(|accepted| !Arc::ptr_eq(accepted, &self.current))
    }
}

/// Whoever sees the resources of a fleet: what there is under a name.
pub(crate) trait Look<'a>: Sized {
    /// All that is kept under it.
    fn entry(self, type_url: &TypeUrl, name: &str) -> Option<&'a Entry>;

    /// What clients should have.
    fn target(self, type_url: &TypeUrl, name: &str) -> Option<&'a Arc<Item>> {
        self.entry(type_url, name)?.target()
    }

    /// The version that was put last, refused or not.
    fn current(self, type_url: &TypeUrl, name: &str) -> Option<&'a Arc<Item>> {
        Some(&self.entry(type_url, name)?.current)
    }

    /// The newest version that a client has acknowledged.
    fn accepted(self, type_url: &TypeUrl, name: &str) -> Option<&'a Arc<Item>> {
        self.entry(type_url, name)?.accepted.as_ref()
    }

    /// What was current before, if nobody had acknowledged it.
    fn previous(self, type_url: &TypeUrl, name: &str) -> Option<&'a Arc<Item>> {
        self.entry(type_url, name)?.previous.as_ref()
    }
}
