//! Where a field is written: for what was found wrong long after the text was read.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::decode::Origin;
use crate::kind::Kind;
use crate::tree::{Cursor, Value};
use crate::yaml::{self, Document, documents};
use crate::{FieldPath, ObjectKey, Place};

/// What is sought in a text.
#[derive(Debug, Clone, Copy)]
pub struct Sought<'a> {
    /// The object, as far as its kind and name tell.
    pub object: &'a ObjectKey,
    /// The line on which its document was written, from 1.
    pub line: u32,
    /// The field.
    pub path: &'a FieldPath,
}

/// Where a field is, and its line as written; nothing is shown of a Secret.
pub type Found = (Place, Option<Box<str>>);

/// The places of fields, one for each that is sought; of a field that is not written, the place of what it would be inside. None
/// if the text has changed: that object is not there any more. Each document in which something is sought is parsed once.
#[must_use]
pub fn places(file: &Arc<str>, text: &str, sought: &[Sought<'_>]) -> Vec<Option<Found>> {
    let documents: Vec<Document<'_>> = documents(text).collect();
    let mut by_document: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, one) in sought.iter().enumerate() {
        let before = documents.partition_point(|document| document.line <= one.line);
        by_document.entry(before).or_default().push(at);
    }
    let mut found = vec![None; sought.len()];
    for (before, wanted) in by_document {
        let Some(document) = before.checked_sub(1).and_then(|index| documents.get(index)) else { continue };
        let Ok(tree) = yaml::parse(document.text) else { continue };
        let objects = objects(tree.root());
        let origin = Origin { file: Some(file), text: document.text, line: document.line };
        for at in wanted {
            if let (Some(one), Some(place)) = (sought.get(at), found.get_mut(at)) {
                *place = place_in(&objects, &origin, one);
            }
        }
    }
    found
}

/// The objects of a document by kind and name.
type Objects<'a, 't> = BTreeMap<(&'a str, &'a str), Cursor<'a, 't>>;

fn objects<'a, 't>(root: Cursor<'a, 't>) -> Objects<'a, 't> {
    let mut objects = Objects::new();
    for one in std::iter::once(root).chain(root.get("items").into_iter().flat_map(Cursor::items)) {
        let name = one.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Cursor::as_str);
        let kind = one.get("kind").and_then(Cursor::as_str).unwrap_or_default();
        objects.entry((kind, name.unwrap_or_default())).or_insert(one);
    }
    objects
}

fn place_in(objects: &Objects<'_, '_>, origin: &Origin<'_>, sought: &Sought<'_>) -> Option<Found> {
    let object = sought.object;
    let root = *objects.get(&(object.kind_name(), object.name()))?;
    // Of an object as a whole its name is the place.
    let name = || root.get("metadata").and_then(|metadata| metadata.get("name")).unwrap_or(root);
    let start = if sought.path.is_empty() { name().start() } else { walk(root, sought.path).start() };
    let snippet = (!matches!(object.kind(), Some(Kind::Secret | Kind::EnvoySecret))).then(|| origin.snippet(start));
    Some((origin.place(start)?, snippet))
}

/// The field at the end of the path, or the last one on the way that is written.
fn walk<'a, 't>(from: Cursor<'a, 't>, path: &FieldPath) -> Cursor<'a, 't> {
    let (mut at, mut rest) = (from, &**path);
    while let Some((step, after)) = step(rest) {
        let next = match step.parse().ok().filter(|_| !matches!(at.value(), Value::Map(_))) {
            Some(index) => at.items().nth(index),
            None => at.get(&step).or_else(|| other_spelling(at, &step)),
        };
        let Some(next) = next else { return at };
        (at, rest) = (next, after);
    }
    at
}

/// The first step of a path, and the rest: `name.rest`, `[0].rest` or `["any name"].rest`.
fn step(path: &str) -> Option<(Cow<'_, str>, &str)> {
    let path = path.strip_prefix('.').unwrap_or(path);
    if let Some(quoted) = path.strip_prefix("[\"") {
        let mut escaped = false;
        let end = quoted.find(|char| {
            char == '"' && !escaped || {
                escaped = char == '\\' && !escaped;
                false
            }
        })?;
        let (name, rest) = quoted.split_at_checked(end)?;
        let plain = serde_json::from_str(&format!("\"{name}\"")).map_or(Cow::Borrowed(name), Cow::Owned);
        return Some((plain, rest.strip_prefix("\"]")?));
    }
    if let Some(inside) = path.strip_prefix('[') {
        let (name, rest) = inside.split_once(']')?;
        return Some((name.into(), rest));
    }
    let (name, rest) = path.split_at_checked(path.find(['.', '[']).unwrap_or(path.len()))?;
    (!name.is_empty()).then_some((name.into(), rest))
}

/// The field of a protobuf message under its other name: `connect_timeout` is `connectTimeout`.
fn other_spelling<'a, 't>(at: Cursor<'a, 't>, name: &str) -> Option<Cursor<'a, 't>> {
    let same = |one: &str| {
        let letters = |text: &str| {
            text.chars().filter(|char| *char != '_').map(|char| char.to_ascii_lowercase()).collect::<String>()
        };
        letters(one) == letters(name)
    };
    let (_, value) = at.entries().find(|(key, _)| key.as_str().is_some_and(same))?;
    (!value.is_null()).then_some(value)
}
