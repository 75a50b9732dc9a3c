//! Where a field is written: for what was found wrong long after the text was read.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::decode::Origin;
use crate::kind::Kind;
use crate::tree::Cursor;
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
    let snippet = (object.kind() != Some(Kind::Secret)).then(|| origin.snippet(start));
    Some((origin.place(start)?, snippet))
}

/// The field at the end of the path, or the last one on the way that is written.
fn walk<'a, 't>(from: Cursor<'a, 't>, path: &FieldPath) -> Cursor<'a, 't> {
    let mut at = from;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let (name, indices) = part.split_once('[').unwrap_or((part, ""));
        let Some(field) = at.get(name) else { return at };
        at = field;
        for index in indices.split('[').filter_map(|index| index.strip_suffix(']')) {
            let item = index.parse().ok().and_then(|index| at.items().nth(index));
            let Some(item) = item else { return at };
            at = item;
        }
    }
    at
}
