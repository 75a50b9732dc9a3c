//! What replicas of Chancery say of the proxies that are connected to each of them. A proxy is connected to one replica, and only that one
//! knows what it acknowledged; the replica that leads writes the statuses of all.
//!
//! What is told is little, as versions are the same on every replica: which version of each listener proxies use, and what they refuse. Each
//! fleet is one text. Who leads puts what it hears beside what it knows itself; gates for its own proxies see only that a refusal of others
//! is one where none of its own disagrees.
//!
//! Of resources with patches it is told which of these were refused and accepted, so that who leads publishes, and says of policies, the same.
//!
//! Of a workload, which has one proxy and many resources, it is told what its proxy refuses, what it has not answered yet, and one digest of the
//! versions of all else. Who leads knows what the workload gets: where that has the same digest, the rest is in use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use provider::kubernetes::replicas::{Heard, Said, share};
use serde::{Deserialize, Serialize};
use store::{ClusterState, FactKey, ListenerState, Refusals, SecretRefusal};
use tokio::sync::watch;
use xds::{Event, TypeUrl, Version};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::facts::{objections, set_fact};
use super::{Core, is_workload};

use shortened::{SHARE, short, shortened};

mod shortened;
#[cfg(test)]
mod tests;

/// What is known of a fleet at one replica.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct FleetSaid {
    /// Proxies that are connected to it.
    #[serde(rename = "n")]
    connected: usize,
    /// By listener.
    #[serde(rename = "l", skip_serializing_if = "BTreeMap::is_empty")]
    listeners: BTreeMap<Arc<str>, Verdict>,
    /// Other resources that are refused, with the words.
    #[serde(rename = "r", skip_serializing_if = "BTreeMap::is_empty")]
    refused: BTreeMap<Named, Arc<str>>,
    /// Secrets among them of which proxies have no content before it.
    #[serde(rename = "s", skip_serializing_if = "BTreeSet::is_empty")]
    lacking: BTreeSet<Named>,
    /// What some proxies refuse and others may take.
    #[serde(rename = "d", skip_serializing_if = "BTreeMap::is_empty")]
    disputed: BTreeMap<Named, Arc<str>>,
    /// Resources that were refused with patches.
    #[serde(rename = "p", skip_serializing_if = "BTreeMap::is_empty")]
    patched: BTreeMap<Named, RefusalsSaid>,
    /// Of a workload: what its proxy has not answered yet.
    #[serde(rename = "w", skip_serializing_if = "BTreeSet::is_empty")]
    awaited: BTreeSet<Named>,
    /// Of a workload: all else.
    #[serde(rename = "a", skip_serializing_if = "Option::is_none")]
    answered: Option<Answered>,
    /// Entries for which there was no room.
    #[serde(rename = "o", skip_serializing_if = "is_zero")]
    omitted: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde asks for")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// What proxies made of a resource with patches, by the marks of these.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct RefusalsSaid {
    #[serde(rename = "r")]
    refused: BTreeMap<u64, Arc<str>>,
    #[serde(rename = "a")]
    accepted: BTreeSet<u64>,
}

/// What is told of a workload's proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct WorkloadSaid {
    /// With its words.
    pub(super) refused: BTreeMap<Named, Arc<str>>,
    pub(super) awaited: BTreeSet<Named>,
    pub(super) answered: Answered,
}

/// A digest of the names and versions of everything that a workload's proxy has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Answered(u64);

impl Answered {
    /// With this too, in any order.
    pub(super) fn and(self, name: &str, Version(version): Version) -> Self {
        Self(self.0.wrapping_add(xxh3_64_with_seed(&version.to_le_bytes(), xxh3_64(name.as_bytes()))))
    }
}

/// What proxies made of a version of a listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Verdict {
    #[serde(rename = "v")]
    version: Arc<str>,
    /// Their words against it.
    #[serde(rename = "x", skip_serializing_if = "Option::is_none")]
    refused: Option<Arc<str>>,
}

/// `<kind> <name>`: a listener and its routes can be of one name.
type Named = Arc<str>;

/// See the module.
#[derive(Default)]
pub(super) struct Replicas {
    own: BTreeMap<Arc<str>, FleetSaid>,
    others: BTreeMap<Arc<str>, BTreeMap<Arc<str>, FleetSaid>>,
    /// What those said that are gone, as far as nobody has said anything since: their proxies are on their way to another replica.
    departed: BTreeMap<Arc<str>, FleetSaid>,
    heard: Arc<Heard>,
    /// Fleets of which something has to be told anew.
    changed: BTreeSet<Arc<str>>,
    /// Fleets that have less than [`SHARE`] because all together need more than there is.
    cut: BTreeSet<Arc<str>>,
    told: Option<watch::Sender<Arc<Said>>>,
}

impl Replicas {
    /// One that tells.
    pub(super) fn new(told: Option<watch::Sender<Arc<Said>>>) -> Self {
        Self { told, ..Self::default() }
    }

    /// Nobody else serves proxies.
    pub(super) fn are_none(&self) -> bool {
        self.told.is_none()
    }

    /// Notes what proxies here say. Gives what of it others may have said something of: that the last proxy has gone from here lets those count.
    pub(super) fn note(&mut self, event: &Event) -> Vec<(Arc<str>, Named)> {
        if self.told.is_none() {
            return Vec::new();
        }
        let (fleet, named) = match event {
            // Of a Gateway that is gone its proxies go later, which nobody has to know.
            Event::Gone { fleet, .. } if !self.own.contains_key(fleet) => return Vec::new(),
            Event::Connected { fleet, connected, .. } | Event::Gone { fleet, connected, .. } => {
                let hears = self.hears();
                let said = self.fleet(fleet);
                said.connected = *connected;
                return if hears && *connected == 0 { about(fleet, said).collect() } else { Vec::new() };
            }
            Event::Accepted { fleet, type_url: TypeUrl::Listener, name, version, .. } => {
                let verdict = Verdict { version: shown(*version), refused: None };
                self.fleet(fleet).listeners.insert(Arc::clone(name), verdict);
                (fleet, named(&TypeUrl::Listener, name))
            }
            Event::Refused { fleet, type_url: TypeUrl::Listener, name, version, text, .. } => {
                let verdict = Verdict { version: shown(*version), refused: Some(short(text)) };
                self.fleet(fleet).listeners.insert(Arc::clone(name), verdict);
                (fleet, named(&TypeUrl::Listener, name))
            }
            Event::Accepted { fleet, type_url, name, .. } => {
                let (said, named) = (self.fleet(fleet), named(type_url, name));
                said.refused.remove(&named);
                said.lacking.remove(&named);
                (fleet, named)
            }
            Event::ClusterWarm { fleet, name } => {
                self.fleet(fleet).refused.remove(&named(&TypeUrl::Cluster, name));
                (fleet, named(&TypeUrl::Cluster, name))
            }
            Event::Refused { fleet, type_url, name, text, has_previous, .. } => {
                let (said, named) = (self.fleet(fleet), named(type_url, name));
                said.refused.insert(Arc::clone(&named), short(text));
                if *type_url == TypeUrl::Secret && !has_previous {
                    said.lacking.insert(Arc::clone(&named));
                } else {
                    said.lacking.remove(&named);
                }
                (fleet, named)
            }
            Event::Disputed { fleet, type_url, name, by } => {
                let (disputed, named) = (&mut self.fleet(fleet).disputed, named(type_url, name));
                if by.is_empty() {
                    disputed.remove(&named)
                } else {
                    disputed.insert(Arc::clone(&named), short(&objections(by)))
                };
                (fleet, named)
            }
            _ => return Vec::new(),
        };
        self.hears().then(|| (Arc::clone(fleet), named)).into_iter().collect()
    }

    /// So many proxies of a workload are connected here. That is known where nobody is told as well.
    pub(super) fn note_workload(&mut self, fleet: &Arc<str>, connected: usize) {
        if connected > 0 {
            self.fleet(fleet).connected = connected;
        } else if self.own.remove(fleet).is_some() {
            self.note_change(fleet);
        }
    }

    /// What is to be told of a workload is another.
    pub(super) fn touch(&mut self, fleet: &Arc<str>) {
        if self.own.contains_key(fleet) {
            self.note_change(fleet);
        }
    }

    /// Workloads of which something is to be told anew.
    pub(super) fn changed_workloads(&self) -> Vec<Arc<str>> {
        self.changed.iter().filter(|fleet| is_workload(fleet)).cloned().collect()
    }

    /// What is to be told of a workload.
    pub(super) fn say(&mut self, fleet: &Arc<str>, workload: WorkloadSaid) {
        let WorkloadSaid { refused, awaited, answered } = workload;
        if let Some(said) = self.own.get_mut(fleet) {
            said.refused = refused.into_iter().map(|(named, words)| (named, short(&words))).collect();
            (said.awaited, said.answered) = (awaited, Some(answered));
        }
    }

    /// Whether a workload has a proxy here.
    pub(super) fn has_workload(&self, fleet: &str) -> bool {
        self.own.get(fleet).is_some_and(|said| said.connected > 0)
    }

    /// What another replica says of a workload of which it has a proxy.
    pub(super) fn workload(&self, fleet: &str) -> Option<WorkloadSaid> {
        let mut all = self.others.values().filter_map(|fleets| fleets.get(fleet));
        let FleetSaid { refused, awaited, answered, .. } = all.find(|said| said.connected > 0)?;
        let (refused, awaited) = (refused.clone(), awaited.clone());
        Some(WorkloadSaid { refused, awaited, answered: answered.unwrap_or_default() })
    }

    /// What proxies here made of a resource with patches; none: nothing is known of it any more.
    pub(super) fn note_refusals(&mut self, key: &FactKey, refusals: Option<&Refusals>) {
        if self.told.is_none() || (refusals.is_none() && !self.own.contains_key(&key.fleet)) {
            return;
        }
        let patched = &mut self.fleet(&key.fleet).patched;
        match refusals {
            Some(Refusals { words, accepted, .. }) => {
                let refused = words.iter().map(|(mark, words)| (*mark, short(words))).collect();
                patched.insert(Arc::clone(&key.name), RefusalsSaid { refused, accepted: accepted.clone() });
            }
            None => drop(patched.remove(&key.name)),
        }
    }

    /// Adds what others say of a resource with patches.
    pub(super) fn add_refusals(&self, key: &FactKey, refusals: &mut Refusals) {
        for said in self.others.values().filter_map(|fleets| fleets.get(&key.fleet)?.patched.get(&key.name)) {
            refusals.words.extend(said.refused.iter().map(|(mark, words)| (*mark, Arc::clone(words))));
            refusals.accepted.extend(&said.accepted);
        }
    }

    /// Whether others have proxies of a Gateway that use what they got.
    fn is_live(&self, fleet: &str) -> bool {
        let live =
            |said: &FleetSaid| said.connected > 0 && said.listeners.values().any(|verdict| verdict.refused.is_none());
        self.others.values().filter_map(|fleets| fleets.get(fleet)).any(live)
    }

    /// A listener or another resource is there no more.
    pub(super) fn forget(&mut self, fleet: &Arc<str>, type_url: &TypeUrl, name: &Arc<str>) {
        if self.told.is_none() {
            return;
        }
        let Some(said) = self.own.get_mut(fleet) else { return };
        let gone = said.listeners.remove(name).is_some_and(|_| *type_url == TypeUrl::Listener);
        let named = named(type_url, name);
        said.lacking.remove(&named);
        if gone | said.refused.remove(&named).is_some() | said.disputed.remove(&named).is_some() {
            self.changed.insert(Arc::clone(fleet));
        }
    }

    /// A Gateway is gone. What others say of it until now is about that one, and not about another that is made under its name.
    pub(super) fn forget_fleet(&mut self, fleet: &Arc<str>) {
        self.departed.remove(fleet);
        self.others.values_mut().for_each(|said| drop(said.remove(fleet)));
        if self.own.remove(fleet).is_some() {
            self.note_change(fleet);
        }
    }

    /// Tells what has changed to the replica that leads: each fleet in its share of the room.
    pub(super) fn tell(&mut self) {
        let (Some(told), false) = (&self.told, self.changed.is_empty()) else { return };
        let mut changed = std::mem::take(&mut self.changed);
        // One that had to be cut may have more room now.
        changed.append(&mut self.cut);
        let text = |fleet: &str, room: usize| {
            let own = self.own.get(fleet).filter(|own| own.connected > 0);
            own.and_then(|own| shortened(own, room))
        };
        told.send_modify(|said| {
            let said = Arc::make_mut(said);
            for fleet in changed {
                match text(&fleet, SHARE) {
                    Some(text) => said.insert(fleet.to_string(), text),
                    None => said.remove(&*fleet),
                };
            }
            let share = share(said.iter().map(|(fleet, text)| (&**fleet, &**text)));
            for (fleet, said) in said.iter_mut().filter(|(fleet, text)| fleet.len() + text.len() > share) {
                *said = text(fleet, share.saturating_sub(fleet.len())).unwrap_or_default();
                self.cut.insert(fleet.as_str().into());
            }
        });
    }

    /// Whether others say anything.
    pub(super) fn hears(&self) -> bool {
        !self.others.is_empty() || !self.departed.is_empty()
    }

    /// Takes what the others say now. Gives what of it is new.
    fn hear(&mut self, heard: Arc<Heard>) -> BTreeSet<(Arc<str>, Named)> {
        let mut news = BTreeSet::new();
        let before = std::mem::replace(&mut self.heard, Arc::clone(&heard));
        for replica in before.keys().filter(|replica| !heard.contains_key(*replica)) {
            for (fleet, mut said) in self.others.remove(replica).unwrap_or_default() {
                news.extend(about(&fleet, &said));
                said.connected = 0;
                self.departed.insert(fleet, said);
            }
        }
        for (replica, said) in heard.iter() {
            let old = before.get(replica);
            if old.is_some_and(|old| Arc::ptr_eq(old, said)) {
                continue;
            }
            let known = self.others.entry(Arc::clone(replica)).or_default();
            let differs = |fleet: &String| old.and_then(|old| old.get(fleet)) != said.get(fleet);
            let fleets: BTreeSet<&String> = said.keys().chain(old.into_iter().flat_map(|old| old.keys())).collect();
            for fleet in fleets.into_iter().filter(|fleet| differs(fleet)) {
                let new: Option<FleetSaid> = said.get(fleet).and_then(|text| serde_json::from_str(text).ok());
                let fleet: Arc<str> = fleet.as_str().into();
                let old = known.remove(&fleet);
                news.extend(old.iter().chain(&new).flat_map(|said| about(&fleet, said)));
                match (new, old) {
                    (Some(new), _) => drop(known.insert(Arc::clone(&fleet), new)),
                    // Its last proxy has left for another replica.
                    (None, Some(mut old)) => {
                        old.connected = 0;
                        self.departed.insert(fleet, old);
                    }
                    (None, None) => {}
                }
            }
        }
        news
    }

    /// Something of a fleet has to be told anew, if there is anybody to tell.
    fn note_change(&mut self, fleet: &Arc<str>) {
        if self.told.is_some() {
            self.changed.insert(Arc::clone(fleet));
        }
    }

    fn fleet(&mut self, fleet: &Arc<str>) -> &mut FleetSaid {
        self.note_change(fleet);
        self.own.entry(Arc::clone(fleet)).or_default()
    }

    /// What each says of a fleet, ourselves included, and whether it has proxies.
    fn all<'a>(&'a self, fleet: &'a str) -> impl Iterator<Item = (&'a FleetSaid, bool)> {
        let others = self.others.values().filter_map(move |fleets| fleets.get(fleet));
        let all = self.own.get(fleet).into_iter().chain(others);
        all.map(|said| (said, said.connected > 0)).chain(self.departed.get(fleet).map(|said| (said, false)))
    }

    /// What a listener's version is worth, and who disagrees.
    fn listener(&self, fleet: &str, name: &str, version: Version) -> (Option<ListenerState>, Option<Arc<str>>) {
        let version = shown(version);
        let (mut accepted, mut behind, mut against) = (false, false, Vec::new());
        for (said, there) in self.all(fleet) {
            let Some(verdict) = said.listeners.get(name) else { continue };
            match &verdict.refused {
                _ if verdict.version != version => behind |= there,
                Some(words) if there => against.push(&**words),
                Some(_) => {}
                None => accepted = true,
            }
        }
        let words = || Arc::from(against.join("; "));
        match (accepted, against.is_empty()) {
            (true, true) => ((!behind).then_some(ListenerState::Accepted), None),
            (true, false) => (Some(ListenerState::Accepted), Some(words())),
            (false, false) => (Some(ListenerState::Refused(words())), None),
            (false, true) => (None, None),
        }
    }

    /// The words against another resource, and whether some proxies take it.
    fn refusal(&self, fleet: &str, named: &str) -> (Option<Arc<str>>, bool) {
        let there = || self.all(fleet).filter(|(_, there)| *there);
        let words: Vec<&str> = there().filter_map(|(said, _)| said.refused.get(named)).map(|words| &**words).collect();
        // One that has omitted something may have refused it as well.
        let takes = |said: &FleetSaid| said.connected > 0 && said.omitted == 0 && !said.refused.contains_key(named);
        let taken = there().any(|(said, _)| takes(said));
        ((!words.is_empty()).then(|| words.join("; ").into()), taken)
    }

    /// Returns true if proxies have a content before a secret that is refused: where those of one replica have none, all have to do without.
    fn has_previous(&self, fleet: &str, named: &str) -> bool {
        !self.all(fleet).any(|(said, there)| there && said.lacking.contains(named))
    }

    /// Disputes within replicas.
    fn disputes(&self, fleet: &str, named: &str) -> Option<Arc<str>> {
        let there = self.all(fleet).filter(|(_, there)| *there);
        let words: Vec<&str> = there.filter_map(|(said, _)| said.disputed.get(named)).map(|words| &**words).collect();
        (!words.is_empty()).then(|| words.join("; ").into())
    }
}

impl Core {
    /// Takes what other replicas say; true if a tick is due.
    pub(super) fn note_replicas(&mut self, heard: Arc<Heard>) -> bool {
        let news = self.replicas.hear(heard);
        news.iter().fold(false, |due, (fleet, named)| {
            let news = if is_workload(fleet) {
                let key = FactKey { fleet: Arc::clone(fleet), name: Arc::clone(named) };
                self.settle_refusals(&key) | self.settle_workload(fleet)
            } else {
                self.settle_fact(fleet, named)
            };
            news | due
        })
    }

    /// Writes what follows from all that replicas say of a thing; true if that is news.
    pub(super) fn settle_fact(&mut self, fleet: &Arc<str>, named: &Named) -> bool {
        let Some((type_url, name)) = split(named) else { return false };
        let key = FactKey::new(Arc::clone(fleet), Arc::clone(&name));
        let mut dispute = self.replicas.disputes(fleet, named);
        let whole = FactKey::new(Arc::clone(fleet), Arc::clone(named));
        let mut news = self.settle_refusals(&whole) | self.settle_live(fleet);
        if type_url == TypeUrl::Listener {
            let Some(version) = self.listeners.get(&key).copied() else { return news };
            let (state, against) = self.replicas.listener(fleet, &name, version);
            dispute = dispute.or(against);
            let (store, graph) = self.translator.store();
            news |= match state {
                Some(state) => set_fact(graph, store.tables().listener_state, key, state),
                None => graph.remove(store.tables().listener_state, &key),
            };
        } else {
            let (words, taken) = self.replicas.refusal(fleet, named);
            let (words, against) = if taken { (None, words) } else { (words, None) };
            dispute = dispute.or(against);
            news |= match type_url {
                TypeUrl::Secret => {
                    let has_previous = self.replicas.has_previous(fleet, named);
                    let refusal = words.map(|words| SecretRefusal { words, has_previous });
                    self.set_secret_refusal(key, refusal)
                }
                type_url => self.set_refusal(&type_url, key, words),
            };
        }
        let (store, graph) = self.translator.store();
        let disputes = store.tables().disputes;
        news | match dispute {
            Some(words) => set_fact(graph, disputes, whole, words),
            None => graph.remove(disputes, &whole),
        }
    }

    /// Notes whether a Gateway has proxies elsewhere that use what they got.
    fn settle_live(&mut self, fleet: &Arc<str>) -> bool {
        let live = self.replicas.is_live(fleet);
        let (store, graph) = self.translator.store();
        let table = store.tables().live_elsewhere;
        if live == graph.get(table, fleet).is_some() {
            return false;
        }
        if live {
            graph.set(table, Arc::clone(fleet), ());
        } else {
            graph.remove(table, fleet);
        }
        true
    }

    /// The same of a listener.
    pub(super) fn settle_listener(&mut self, key: &FactKey) -> bool {
        self.settle_fact(&key.fleet, &named(&TypeUrl::Listener, &key.name))
    }

    fn set_refusal(&mut self, type_url: &TypeUrl, key: FactKey, words: Option<Arc<str>>) -> bool {
        let (store, graph) = self.translator.store();
        let tables = store.tables();
        if [TypeUrl::Cluster, TypeUrl::Endpoints].contains(type_url) {
            let refused = matches!(graph.get(tables.cluster_state, &key), Some(ClusterState::Refused(_)));
            return match words {
                Some(words) => self.set_cluster(key, ClusterState::Refused(words)),
                None => refused && self.set_cluster(key, ClusterState::Warm),
            };
        }
        match words {
            Some(words) => set_fact(graph, tables.route_refusals, key, words),
            None => graph.remove(tables.route_refusals, &key),
        }
    }

    /// Sets or removes the refusal of a secret; true if that is a change. A secret that is not published here has none.
    fn set_secret_refusal(&mut self, key: FactKey, refusal: Option<SecretRefusal>) -> bool {
        let is_published = self.secrets.contains_key(&key);
        let (store, graph) = self.translator.store();
        let table = store.tables().secret_refusals;
        match refusal.filter(|_| is_published) {
            Some(refusal) => set_fact(graph, table, key, refusal),
            None => graph.remove(table, &key),
        }
    }
}

/// What a fleet's words are about.
fn about<'a>(fleet: &'a Arc<str>, said: &'a FleetSaid) -> impl Iterator<Item = (Arc<str>, Named)> + use<'a> {
    let listeners = said.listeners.keys().map(|name| named(&TypeUrl::Listener, name));
    let others = said.refused.keys().chain(said.disputed.keys()).chain(said.patched.keys()).cloned();
    // Of a workload everything is settled at once.
    let whole = is_workload(fleet).then(Named::default);
    listeners.chain(others).chain(whole).map(|named| (Arc::clone(fleet), named))
}

/// Kinds that proxies can refuse.
const KINDS: [TypeUrl; 7] = [
    TypeUrl::Listener,
    TypeUrl::Cluster,
    TypeUrl::Endpoints,
    TypeUrl::Secret,
    TypeUrl::Route,
    TypeUrl::VirtualHost,
    TypeUrl::ExtensionConfig,
];

/// The last word of a type URL.
pub(super) fn kind(type_url: &TypeUrl) -> &str {
    type_url.as_str().rsplit('.').next().unwrap_or_default()
}

fn named(type_url: &TypeUrl, name: &str) -> Named {
    format!("{} {name}", kind(type_url)).into()
}

pub(super) fn split(named: &str) -> Option<(TypeUrl, Arc<str>)> {
    let (word, name) = named.split_once(' ')?;
    let type_url = KINDS.iter().find(|type_url| kind(type_url) == word)?;
    Some((type_url.clone(), name.into()))
}

fn shown(Version(version): Version) -> Arc<str> {
    format!("{version:032x}").into()
}
