//! Where a field is written: for what was found wrong long after the text was read.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::decode::Origin;
use crate::kind::Kind;
use crate::tree::Cursor;
use crate::yaml::{self, Document, documents};
use crate::{FieldPath, ObjectKey, Place};

/// A text, ready to be searched for fields.
#[derive(Debug)]
pub struct Located<'t>(Vec<Document<'t>>);

impl<'t> Located<'t> {
    /// Splits the text; documents are parsed when something in them is sought.
    #[must_use]
    pub fn new(text: &'t str) -> Self {
        Self(documents(text).collect())
    }

    /// The place of a field of the object that was written at this line (from 1), with its line as written; of a field that is not
    /// written, the place of what it would be inside. None if the text has changed: that object is not there any more.
    /// Nothing is shown of a Secret.
    #[must_use]
    pub fn find(
        &self,
        file: &Arc<str>,
        line: u32,
        object: &ObjectKey,
        path: &FieldPath,
    ) -> Option<(Place, Option<Box<str>>)> {
        let index = self.0.partition_point(|document| document.line <= line).checked_sub(1)?;
        let document = self.0.get(index)?;
        let tree = yaml::parse(document.text).ok()?;
        let root = tree.root();
        let written = std::iter::once(root).chain(root.get("items").into_iter().flat_map(Cursor::items));
        let found = written.into_iter().find(|candidate| is(*candidate, object))?;
        let start = walk(found, path).start();
        let origin = Origin { file: Some(file), text: document.text, line: document.line };
        let snippet = (object.kind() != Some(Kind::Secret)).then(|| origin.snippet(start));
        Some((origin.place(start)?, snippet))
    }
}

/// Whether this is the text of the object, as far as names tell.
fn is(candidate: Cursor<'_, '_>, object: &ObjectKey) -> bool {
    let text = |cursor: Cursor<'_, '_>, field: &str| cursor.get(field)?.as_str().map(str::to_owned);
    let name = candidate.get("metadata").and_then(|metadata| text(metadata, "name"));
    text(candidate, "kind").as_deref() == Some(object.kind_name())
        && name.as_deref().unwrap_or_default() == object.name()
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
