//! [`Observed`]: the statuses that objects have on the API server, as far as whoever writes ours has to know.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::status::OwnStatus;
use api::{Kind, ObjectKey};
use hashbrown::{HashMap, HashSet};
use serde::Serialize;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use smol_str::SmolStr;
use tokio::sync::{Notify, watch};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::kubernetes::discovery::Served;
use crate::kubernetes::seen::{Seen, Version, Word};
use crate::kubernetes::status::referenced;

/// For each object that can have a status of ours a hash of what is ours in the status that it has, so that what is there already is not
/// written. A clone is the same table.
#[derive(Clone)]
pub struct Observed(Arc<Inner>);

struct Inner {
    controller: Box<str>,
    manager: Box<str>,
    /// Objects of which what is ours changed on the server, while somebody wants to know.
    changed: Mutex<Option<HashSet<ObjectKey>>>,
    news: Notify,
    /// Whether there are Gateways and classes at all.
    gateways: watch::Sender<bool>,
    /// Held for one look at a time.
    rows: Mutex<Rows>,
}

#[derive(Default)]
struct Rows {
    /// Some 100 bytes each, and what is kept of them.
    objects: HashMap<ObjectKey, Row>,
    /// Bytes that are kept.
    kept: usize,
    /// Of those that have a class, or are one.
    belonging: HashMap<ObjectKey, Belongs>,
}

struct Row {
    standing: Standing,
    /// Hash of the status as it was written: where it is the same nothing is looked at.
    written: u64,
    /// What a write needs, if there was room ([`MOST_KEPT`]).
    kept: Option<Box<Kept>>,
}

/// An object as it came last: its identity and its status.
struct Kept {
    version: Version,
    uid: Box<str>,
    generation: i64,
    /// Empty where it has none.
    status: Box<[u8]>,
}

/// To which class an object belongs, and who writes that.
#[derive(Debug)]
enum Belongs {
    /// A class, with the manager other than ours that wrote its status last.
    Itself(SmolStr),
    /// A Gateway, to the class of this name.
    To(SmolStr),
    /// A ListenerSet, to the class of this Gateway.
    Through(ObjectKey),
}

/// An object with its identity and its status alone.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a> {
    api_version: String,
    kind: &'a str,
    metadata: Metadata<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    uid: &'a str,
    generation: i64,
    resource_version: &'a str,
}

/// Bytes that are kept of objects, so that the statuses of some 7,000 routes are replaced without a request for them first. An object that came when
/// there was no room is read first.
const MOST_KEPT: usize = 8 << 20;

/// Bytes of a UID (RFC 9562).
const UID: usize = 36;

impl Rows {
    fn insert(&mut self, key: &ObjectKey, row: Row) -> Option<Row> {
        self.kept += row.bytes();
        let old = self.objects.insert(key.clone(), row);
        self.kept -= old.as_ref().map_or(0, Row::bytes);
        old
    }

    fn remove(&mut self, key: &ObjectKey) {
        self.kept -= self.objects.remove(key).as_ref().map_or(0, Row::bytes);
        self.belonging.remove(key);
    }

    /// What a write of an object needs, if there is room for it in place of what is kept of it.
    fn keep(&self, seen: &Seen) -> Option<Box<Kept>> {
        let status = seen.status.as_deref().unwrap_or_default();
        let kept = Kept::of(seen, status.into());
        let before = self.objects.get(&seen.key).map_or(0, Row::bytes);
        let has_room = self.kept - before + kept.bytes() <= MOST_KEPT;
        (has_room && !seen.version.is_empty()).then(|| Box::new(kept))
    }
}

impl Row {
    fn bytes(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.bytes())
    }
}

impl Kept {
    fn of(seen: &Seen, status: Box<[u8]>) -> Self {
        let uid = seen.uid.as_deref().and_then(|uid| serde_json::from_slice(uid).ok()).unwrap_or_default();
        Self { version: seen.version.clone(), uid, generation: seen.generation, status }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + UID + self.status.len()
    }
}

/// What the API server has of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// In which version of its API it is read.
    pub api_version: &'static str,
    /// [`Observed::hash`] of its status.
    pub own: u64,
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").field("controller", &self.0.controller).finish_non_exhaustive()
    }
}

impl Observed {
    /// Returns the name of this controller.
    pub(crate) fn controller(&self) -> &str {
        &self.0.controller
    }

    /// Returns the name under which the API server notes our writes.
    pub(crate) fn manager(&self) -> &str {
        &self.0.manager
    }

    /// An empty table; entries of lists that are signed with this controller's name are ours.
    #[must_use]
    pub fn new(controller: &str) -> Self {
        Self(Arc::new(Inner {
            controller: controller.into(),
            manager: manager(controller).into(),
            changed: Mutex::default(),
            news: Notify::new(),
            gateways: watch::Sender::new(false),
            rows: Mutex::default(),
        }))
    }

    /// What the server has of an object, if it is there and can have a status of ours.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Standing> {
        self.rows().objects.get(key).map(|row| row.standing)
    }

    /// An object as it came last, with its identity and its status alone; none where its status is not kept.
    pub(crate) fn object(&self, key: &ObjectKey) -> Option<Value> {
        let kind = key.kind()?;
        let rows = self.rows();
        let Row { standing, kept, .. } = rows.objects.get(key)?;
        let Kept { version, uid, generation, status } = kept.as_deref()?;
        let metadata = Metadata {
            name: key.name(),
            namespace: Some(key.namespace()).filter(|namespace| !namespace.is_empty()),
            uid,
            generation: *generation,
            resource_version: version.as_str(),
        };
        let status = Some(status).filter(|status| !status.is_empty()).map(|status| serde_json::from_slice(status));
        let object = Object {
            api_version: format!("{}/{}", kind.group(), standing.api_version),
            kind: key.kind_name(),
            metadata,
            status: status.transpose().ok()?,
        };
        serde_json::to_value(object).ok()
    }

    /// Returns the name of the class that an object belongs to, itself or through its Gateway.
    pub(crate) fn class_of(&self, key: &ObjectKey) -> Option<SmolStr> {
        if key.kind() == Some(Kind::GatewayClass) {
            return Some(key.name().into());
        }
        let rows = self.rows();
        let class = |key: &ObjectKey| match rows.belonging.get(key)? {
            Belongs::To(class) => Some(class.clone()),
            _ => None,
        };
        match rows.belonging.get(key)? {
            Belongs::Through(gateway) => class(gateway),
            _ => class(key),
        }
    }

    /// Returns the manager other than ours that wrote the status of a class last.
    pub(crate) fn other_writer(&self, class: &ObjectKey) -> Option<SmolStr> {
        match self.rows().belonging.get(class)? {
            Belongs::Itself(writer) => Some(writer.clone()),
            _ => None,
        }
    }

    /// Objects in whose status something of ours may have been left: those with an entry of ours, and each `ListenerSet`, whose status says not
    /// whose it is.
    #[must_use]
    pub fn with_ours(&self) -> Vec<ObjectKey> {
        let can_be_left =
            |kind: Kind| kind == Kind::ListenerSet || matches!(kind.own_status(), Some(OwnStatus::Entries(..)));
        let rows = self.rows();
        let left =
            rows.objects.iter().filter(|(key, row)| row.standing.own != 0 && key.kind().is_some_and(can_be_left));
        left.map(|(key, _)| key.clone()).collect()
    }

    /// Whether the server has the kinds `Gateway` and `GatewayClass`. As long as it does not, nobody knows which there are: their definitions
    /// may come later than we do.
    #[must_use]
    pub fn has_gateways(&self) -> watch::Receiver<bool> {
        self.0.gateways.subscribe()
    }

    /// Notes what the server has.
    pub(crate) fn note_kinds(&self, served: &Served) {
        let now = [Kind::Gateway, Kind::GatewayClass].iter().all(|kind| served.contains_key(kind));
        self.0.gateways.send_if_modified(|before| std::mem::replace(before, now) != now);
    }

    /// The classes that there are, with the version of the API in which each is read.
    pub(crate) fn classes(&self) -> Vec<(ObjectKey, &'static str)> {
        let rows = self.rows();
        let classes = rows.objects.iter().filter(|(key, _)| key.kind() == Some(Kind::GatewayClass));
        classes.map(|(key, row)| (key.clone(), row.standing.api_version)).collect()
    }

    /// The hash of what is ours in a status, given as JSON; 0 where there is nothing of ours. The order of fields does not matter, and one
    /// that is null is none.
    #[must_use]
    pub fn hash(&self, kind: Kind, status: &str) -> u64 {
        let mut reader = serde_json::Deserializer::from_str(status);
        match kind.own_status() {
            None => 0,
            Some(OwnStatus::Whole) => Hashed::deserialize(&mut reader).map_or(0, |hashed| hashed.hash),
            Some(OwnStatus::Entries(list, _)) => {
                Entries { list, controller: &self.0.controller }.deserialize(&mut reader).unwrap_or_default()
            }
        }
    }

    /// Notes an object that came.
    pub(crate) fn note(&self, seen: &Seen) {
        let Some(kind) = seen.key.kind().filter(|kind| kind.own_status().is_some()) else { return };
        let status = seen.status.as_deref().unwrap_or_default();
        let written = xxh3_64(status);
        let api_version = seen.api_version;
        let belongs = belongs(kind, seen, self.manager());
        let mut rows = self.rows();
        match belongs {
            Some(belongs) => drop(rows.belonging.insert(seen.key.clone(), belongs)),
            None => drop(rows.belonging.remove(&seen.key)),
        }
        if let Some(row) = rows.objects.get_mut(&seen.key).filter(|row| row.written == written) {
            row.standing.api_version = api_version;
            if let Some(kept) = &mut row.kept {
                **kept = Kept::of(seen, std::mem::take(&mut kept.status));
            }
            return;
        }
        let own = self.hash(kind, std::str::from_utf8(status).unwrap_or_default());
        let row = Row { standing: Standing { api_version, own }, written, kept: rows.keep(seen) };
        let old = rows.insert(&seen.key, row);
        if old.is_none_or(|old| old.standing.own != own) {
            self.tell(&seen.key);
        }
    }

    /// Objects of which what is ours is not on the server what it was: because we wrote it, or because somebody else did. Waits for the first.
    pub async fn changed(&self) -> Vec<ObjectKey> {
        loop {
            let changed: Vec<ObjectKey> = self.changes().iter_mut().flat_map(HashSet::drain).collect();
            if !changed.is_empty() {
                return changed;
            }
            self.0.news.notified().await;
        }
    }

    /// Begins to note what changes, or ends it.
    pub(crate) fn note_changes(&self, wanted: bool) {
        *self.changes() = wanted.then(HashSet::new);
    }

    fn tell(&self, key: &ObjectKey) {
        if let Some(changed) = self.changes().as_mut() {
            changed.insert(key.clone());
            self.0.news.notify_one();
        }
    }

    fn changes(&self) -> MutexGuard<'_, Option<HashSet<ObjectKey>>> {
        self.0.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The object is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.rows().remove(key);
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.0.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// To which class an object says that it belongs.
fn belongs(kind: Kind, seen: &Seen, ours: &str) -> Option<Belongs> {
    if !matches!(kind, Kind::Gateway | Kind::GatewayClass | Kind::ListenerSet) {
        return None;
    }
    let object: Value = serde_json::from_slice(&seen.text).ok()?;
    match kind {
        Kind::GatewayClass => other_writer(&object, ours).map(Belongs::Itself),
        Kind::Gateway => {
            object.pointer("/spec/gatewayClassName").and_then(Value::as_str).map(|name| Belongs::To(name.into()))
        }
        _ => {
            let parent = object.pointer("/spec/parentRef");
            parent.and_then(|parent| referenced(parent, seen.key.namespace())).map(Belongs::Through)
        }
    }
}

/// Returns the manager other than ours that has something of `Accepted` in a status (`metadata.managedFields`) and wrote since we did; entries have
/// the second of the last write. What another wrote before us, and left as it is, stays in its name.
fn other_writer(object: &Value, ours: &str) -> Option<SmolStr> {
    const PARTS: [&str; 4] = [".", "f:status", "f:reason", "f:message"];
    let entries = object.pointer("/metadata/managedFields")?.as_array()?;
    let has_accepted = |entry: &&Value| {
        let conditions = entry.pointer("/fieldsV1/f:status/f:conditions");
        let accepted = conditions.and_then(|conditions| conditions.get("k:{\"type\":\"Accepted\"}"));
        accepted.is_some_and(|fields| PARTS.iter().any(|part| fields.get(*part).is_some()))
    };
    let word = |entry: &'_ Value, field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (own, others): (Vec<&Value>, Vec<&Value>) =
        entries.iter().filter(has_accepted).partition(|entry| word(entry, "manager") == ours);
    let last = others.into_iter().max_by_key(|entry| word(entry, "time"))?;
    let is_since = own.iter().all(|entry| word(entry, "time") <= word(last, "time"));
    Some(word(last, "manager").into()).filter(|manager: &SmolStr| is_since && !manager.is_empty())
}

/// The name under which the API server notes who writes: the controller's as far as it may be so long, without signs that mean something in a
/// query.
fn manager(controller: &str) -> String {
    let plain = |sign: char| if sign.is_ascii_alphanumeric() || "-._/".contains(sign) { sign } else { '-' };
    controller.chars().take(LONGEST_MANAGER).map(plain).collect()
}

/// In signs (`fieldManager` of the API server).
const LONGEST_MANAGER: usize = 128;

/// When a condition changed last does not tell one status from another.
const SINCE: &str = "lastTransitionTime";

/// The hash of the entries of a list that a controller signed.
struct Entries<'c> {
    list: &'static str,
    controller: &'c str,
}

impl<'de> DeserializeSeed<'de> for Entries<'_> {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a status")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<u64, M::Error> {
        let mut own = 0;
        while let Some(Word(name)) = map.next_key()? {
            if name != self.list {
                map.next_value::<serde::de::IgnoredAny>()?;
                continue;
            }
            let entries: Vec<Hashed> = map.next_value::<Option<_>>()?.unwrap_or_default();
            let ours = entries.iter().filter(|entry| entry.controller.as_deref() == Some(self.controller));
            own = ours.fold(0, |hash, entry| xxh3_64_with_seed(&entry.hash.to_le_bytes(), hash));
        }
        Ok(own)
    }
}

/// The hash of a value, and, of a map, what its `controllerName` says.
#[derive(Default)]
struct Hashed {
    hash: u64,
    controller: Option<Box<str>>,
}

impl Hashed {
    fn of(tag: u64, bytes: &[u8]) -> Self {
        Self { hash: xxh3_64_with_seed(bytes, tag), ..Self::default() }
    }
}

impl<'de> Deserialize<'de> for Hashed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HashedVisitor)
    }
}

struct HashedVisitor;

impl<'de> Visitor<'de> for HashedVisitor {
    type Value = Hashed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Hashed, E> {
        Ok(Hashed::default())
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Hashed, E> {
        Ok(Hashed::of(1, &[value.into()]))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Hashed, E> {
        Ok(Hashed::of(2, &value.to_le_bytes()))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Hashed, E> {
        Ok(Hashed::of(2, &value.to_le_bytes()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Hashed, E> {
        Ok(Hashed::of(3, &value.to_bits().to_le_bytes()))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Hashed, E> {
        Ok(Hashed::of(4, text.as_bytes()))
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<Hashed, S::Error> {
        let mut hash = 5;
        while let Some(item) = items.next_element::<Hashed>()? {
            hash = xxh3_64_with_seed(&item.hash.to_le_bytes(), hash);
        }
        Ok(Hashed { hash, ..Hashed::default() })
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Hashed, M::Error> {
        let mut all = Hashed { hash: 6, ..Hashed::default() };
        while let Some(Word(name)) = map.next_key()? {
            let hash = if name == "controllerName" {
                let Word(text) = map.next_value()?;
                let hash = Hashed::of(4, text.as_bytes()).hash;
                all.controller = Some(text.into());
                hash
            } else {
                map.next_value::<Hashed>()?.hash
            };
            if hash != 0 && name != SINCE {
                all.hash = all.hash.wrapping_add(xxh3_64_with_seed(name.as_bytes(), hash));
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests;
