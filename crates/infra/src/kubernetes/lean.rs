//! Metadata of objects, reduced as it is read: authors write most of it, megabytes in one object.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, ObjectMeta, OwnerReference, Time};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::apply::APPLIED;
use super::fields::MANAGER;
use super::name::{LABELS, is_gateway};

#[cfg(test)]
mod tests;

/// Longest value of a label or annotation that is kept: the longest of a label. The annotation has 16 bytes.
const LONGEST_VALUE: usize = 63;

/// Longest name of an owner that is kept: the longest name of an object. An API server does not bound those of references.
const LONGEST_NAME: usize = 253;

/// Managers of which the names are kept, for a line of a log.
const MANAGERS: usize = 8;

/// Longest set of own fields that is read, in bytes of JSON. A Deployment's has some 6 KB; parsed, one takes up to 14 times as much, so 1 MB. With a longer one it
/// is not known that an object is as it was applied.
const LONGEST_SET: usize = 64 << 10;

/// Reads the fields of metadata that are used: who an object is, whose, the labels and the annotation of Chancery, the Gateway that owns it, and Chancery's own set
/// of fields. That is some KB at most.
///
/// # Errors
/// It is no metadata of an object.
pub(super) fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Lean {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        generation: Option<i64>,
        deletion_timestamp: Option<Time>,
        #[serde(default)]
        labels: Labels,
        #[serde(default)]
        annotations: Annotations,
        #[serde(default)]
        owner_references: Owners,
        #[serde(default)]
        managed_fields: Managers,
    }
    let lean = Lean::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: lean.name,
        namespace: lean.namespace,
        uid: lean.uid,
        resource_version: lean.resource_version,
        generation: lean.generation,
        deletion_timestamp: lean.deletion_timestamp,
        labels: Some(lean.labels.0).filter(|labels| !labels.is_empty()),
        annotations: Some(lean.annotations.0).filter(|annotations| !annotations.is_empty()),
        owner_references: lean.owner_references.0.map(|owner| vec![owner]),
        managed_fields: Some(lean.managed_fields.0).filter(|entries| !entries.is_empty()),
        ..ObjectMeta::default()
    })
}

#[derive(Default)]
struct Labels(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Named(&LABELS).deserialize(deserializer).map(Self)
    }
}

#[derive(Default)]
struct Annotations(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Named(&[APPLIED]).deserialize(deserializer).map(Self)
    }
}

/// Reads the entries of a map that have these names, and no others.
struct Named(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Named {
    type Value = BTreeMap<String, String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Named {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("labels or annotations")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(BTreeMap::new())
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut found = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if !self.0.contains(&&*name) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value: String = map.next_value()?;
            if value.len() <= LONGEST_VALUE {
                found.insert(name, value);
            }
        }
        Ok(found)
    }
}

/// The first Gateway that owns an object.
#[derive(Default)]
struct Owners(Option<OwnerReference>);

impl<'de> Deserialize<'de> for Owners {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        each(deserializer, |found: &mut Self, owner: OwnerReference| {
            if found.0.is_none() && is_gateway(&owner) && owner.name.len() <= LONGEST_NAME {
                let OwnerReference { api_version, kind, name, .. } = owner;
                found.0 = Some(OwnerReference { api_version, kind, name, ..OwnerReference::default() });
            }
        })
    }
}

/// Chancery's own entry with its fields, and the names of some others.
#[derive(Default)]
struct Managers(Vec<ManagedFieldsEntry>);

impl<'de> Deserialize<'de> for Managers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Entry {
            manager: Option<String>,
            operation: Option<String>,
            subresource: Option<String>,
            fields_v1: Option<Box<RawValue>>,
        }
        each(deserializer, |found: &mut Self, entry: Entry| {
            let Entry { manager, operation, subresource, fields_v1 } = entry;
            let is_own = manager.as_deref() == Some(MANAGER)
                && operation.as_deref() == Some("Apply")
                && subresource.as_deref().unwrap_or_default().is_empty();
            let is_further = found.0.len() < MANAGERS && found.0.iter().all(|known| known.manager != manager);
            let is_shown = is_further && manager.as_ref().is_some_and(|name| name.len() <= LONGEST_NAME);
            if !(is_own || is_shown) {
                return;
            }
            let text = fields_v1.filter(|fields| is_own && fields.get().len() <= LONGEST_SET);
            let fields = text.and_then(|fields| serde_json::from_str(fields.get()).ok());
            let operation = operation.filter(|_| is_own);
            let entry =
                ManagedFieldsEntry { manager, operation, fields_v1: fields.map(FieldsV1), ..Default::default() };
            // A server has one entry of this kind at most.
            if is_own {
                found.0.retain(|known| known.operation.is_none());
            }
            found.0.push(entry);
        })
    }
}

/// Reads a sequence item by item, without keeping more than one.
fn each<'de, D, T, A>(deserializer: D, take: fn(&mut A, T)) -> Result<A, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
    A: Default,
{
    struct Items<A, T>(fn(&mut A, T));
    impl<'de, A: Default, T: Deserialize<'de>> Visitor<'de> for Items<A, T> {
        type Value = A;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a sequence")
        }

        fn visit_unit<E>(self) -> Result<A, E> {
            Ok(A::default())
        }

        fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<A, S::Error> {
            let mut all = A::default();
            while let Some(item) = items.next_element()? {
                (self.0)(&mut all, item);
            }
            Ok(all)
        }
    }
    deserializer.deserialize_any(Items(take))
}
