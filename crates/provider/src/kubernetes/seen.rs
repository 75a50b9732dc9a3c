//! [`Seen`]: an object as it came, with no more known of it than who it is and whether it may be news.

use std::borrow::Cow;
use std::fmt;

use api::json::METADATA;
use api::pod::PodStatus;
use api::{Kind, ObjectKey};
use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use smol_str::SmolStr;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::kubernetes::target::Resource;

/// Annotations that say nothing of what an object is: kubectl's copy of the whole, and when a slice was last looked at.
const FLEETING: [&str; 2] =
    ["kubectl.kubernetes.io/last-applied-configuration", "endpoints.kubernetes.io/last-change-trigger-time"];

/// An object of an API server.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) key: ObjectKey,
    /// In which version of its API it was read.
    pub(crate) api_version: &'static str,
    pub(crate) version: Version,
    /// Its `metadata.uid`, as JSON.
    pub(crate) uid: Option<Bytes>,
    /// `metadata.generation`; 0 where it has none.
    pub(crate) generation: i64,
    /// Hash of all that is kept of it.
    pub(crate) kept: u64,
    /// The whole, as JSON.
    pub(crate) text: Bytes,
    /// Its `status`, as JSON.
    pub(crate) status: Option<Bytes>,
}

/// `metadata.resourceVersion`. Those of one API server are numbers that grow, across kinds too.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Version(SmolStr);

impl Version {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Nothing can be said of the age of one that is no number.
    pub(crate) fn number(&self) -> Option<u64> {
        self.0.parse().ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Seen {
    /// Looks at the JSON of an object, once; a text where it does not say who it is.
    pub(crate) fn look(resource: Resource, text: &Bytes) -> Result<Self, String> {
        let json = std::str::from_utf8(text).map_err(|error| error.to_string())?;
        let Outer { metadata, status, kept } = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let metadata = metadata.ok_or("metadata is missing")?;
        let Metadata { name, namespace, version, uid, generation, kept: kept_too } = metadata;
        let name = name.filter(|name| !name.is_empty()).ok_or("metadata.name is missing, or is no string")?;
        // The status of other kinds nobody reads.
        let is_read = resource.kind() == Some(Kind::Pod);
        let of_status = status.filter(|_| is_read).map(pod_status).unwrap_or_default();
        Ok(Self {
            key: resource.key(namespace.as_deref().unwrap_or_default(), &name),
            api_version: resource.api_version(),
            version: Version::new(version.as_deref().unwrap_or_default()),
            uid: uid.map(|uid| text.slice_ref(uid.get().as_bytes())),
            generation,
            kept: kept.wrapping_add(kept_too).wrapping_add(of_status),
            text: text.clone(),
            status: status.map(|status| text.slice_ref(status.get().as_bytes())),
        })
    }
}

/// The event and the object of a line as API servers write them, without a look at the object: `{"type":"ADDED","object":{..}}`.
pub(crate) fn split(line: &str) -> Option<(&str, &str)> {
    let (event, rest) = line.strip_prefix("{\"type\":\"")?.split_once("\",\"object\":")?;
    let object = rest.trim_end().strip_suffix('}')?;
    event.bytes().all(|byte| byte.is_ascii_uppercase()).then_some((event, object))
}

/// The annotation of the bookmark that ends a list.
pub(crate) const LIST_END: &str = "k8s.io/initial-events-end";

/// The event and the object of a line of a watch.
///
/// # Errors
/// The line is no JSON of that form.
pub(crate) fn event(line: &str) -> serde_json::Result<(Cow<'_, str>, &str)> {
    match split(line) {
        Some((event, object)) => Ok((Cow::Borrowed(event), object)),
        None => serde_json::from_str(line).map(|Line { event, object }| (event.0, object.get())),
    }
}

/// One line of a watch.
#[derive(serde::Deserialize)]
pub(crate) struct Line<'a> {
    #[serde(borrow, rename = "type")]
    pub(crate) event: Word<'a>,
    #[serde(borrow)]
    pub(crate) object: &'a RawValue,
}

/// A page of a list.
#[derive(serde::Deserialize)]
pub(crate) struct Page<'a> {
    #[serde(default)]
    pub(crate) metadata: PageMetadata,
    #[serde(borrow, default)]
    pub(crate) items: Option<Vec<&'a RawValue>>,
}

/// `metadata` of a list, and of a bookmark.
#[derive(serde::Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PageMetadata {
    pub(crate) resource_version: Option<String>,
    #[serde(rename = "continue")]
    pub(crate) next: Option<String>,
    pub(crate) annotations: std::collections::BTreeMap<String, String>,
}

/// What a bookmark says.
#[derive(serde::Deserialize)]
pub(crate) struct Bookmark {
    pub(crate) metadata: PageMetadata,
}

/// A string, borrowed where it stands in the text literally.
#[derive(serde::Deserialize)]
#[serde(transparent)]
pub(crate) struct Word<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

struct Outer<'a> {
    metadata: Option<Metadata<'a>>,
    status: Option<&'a RawValue>,
    kept: u64,
}

impl<'de: 'a, 'a> Deserialize<'de> for Outer<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OuterVisitor).map(|outer: Outer<'de>| outer)
    }
}

struct OuterVisitor;

impl<'de> Visitor<'de> for OuterVisitor {
    type Value = Outer<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Outer<'de>, M::Error> {
        let mut outer = Outer { metadata: None, status: None, kept: 0 };
        while let Some(Word(name)) = map.next_key()? {
            match &*name {
                "metadata" => outer.metadata = Some(map.next_value()?),
                "status" => outer.status = Some(map.next_value()?),
                "apiVersion" | "kind" => drop(map.next_value::<IgnoredAny>()?),
                _ => outer.kept = outer.kept.wrapping_add(entry(&name, map.next_value()?)),
            }
        }
        Ok(outer)
    }
}

#[derive(Default)]
struct Metadata<'a> {
    name: Option<Cow<'a, str>>,
    namespace: Option<Cow<'a, str>>,
    version: Option<Cow<'a, str>>,
    uid: Option<&'a RawValue>,
    generation: i64,
    kept: u64,
}

impl<'de: 'a, 'a> Deserialize<'de> for Metadata<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MetadataVisitor).map(|metadata: Metadata<'de>| metadata)
    }
}

struct MetadataVisitor;

impl<'de> Visitor<'de> for MetadataVisitor {
    type Value = Metadata<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Metadata<'de>, M::Error> {
        let mut metadata = Metadata::default();
        while let Some(Word(name)) = map.next_key()? {
            let is_version = name == "resourceVersion";
            if !is_version && !METADATA.contains(&&*name) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value: &'de RawValue = map.next_value()?;
            let word = || serde_json::from_str::<Word<'de>>(value.get()).ok().map(|Word(text)| text);
            match &*name {
                "resourceVersion" => metadata.version = word(),
                "name" => metadata.name = word(),
                "namespace" => metadata.namespace = word(),
                "annotations" => metadata.kept = metadata.kept.wrapping_add(annotations(value)),
                _ => {
                    match &*name {
                        "uid" => metadata.uid = Some(value),
                        "generation" => metadata.generation = value.get().parse().unwrap_or_default(),
                        _ => {}
                    }
                    metadata.kept = metadata.kept.wrapping_add(entry(&name, value));
                }
            }
        }
        Ok(metadata)
    }
}

/// The hash of a field. Fields are added up, so that their order does not matter.
fn entry(name: &str, value: &RawValue) -> u64 {
    xxh3_64_with_seed(value.get().as_bytes(), xxh3_64_with_seed(name.as_bytes(), 0))
}

/// The hash of what is read of a Pod's status.
fn pod_status(status: &RawValue) -> u64 {
    let read = serde_json::from_str::<PodStatus>(status.get());
    read.map_or_else(|_| entry("status", status), |read| xxh3_64_with_seed(format!("{read:?}").as_bytes(), 1))
}

/// The hash of all annotations but the fleeting ones.
fn annotations(value: &RawValue) -> u64 {
    serde_json::from_str::<Annotations>(value.get()).map_or_else(|_| entry("annotations", value), |found| found.0)
}

struct Annotations(u64);

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reading;
        impl<'de> Visitor<'de> for Reading {
            type Value = Annotations;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("annotations")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Annotations, M::Error> {
                let mut hash = 0_u64;
                while let Some(Word(name)) = map.next_key()? {
                    if FLEETING.contains(&&*name) {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        hash = hash.wrapping_add(entry(&name, map.next_value()?).rotate_left(1));
                    }
                }
                Ok(Annotations(hash))
            }
        }
        deserializer.deserialize_map(Reading)
    }
}

#[cfg(test)]
mod tests;
