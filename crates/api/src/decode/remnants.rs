//! Policies that guard and cannot be used: what can be read of them stays, so that what they guard is closed.

use super::Decoder;
use crate::kind::{Kind, Object};
use crate::policy_attachment::{loose, remnant};
use crate::problem::{Fault, Severity};
use crate::schema::{self, Schema};
use crate::tree::{Cursor, Value};

/// The fault for which a policy that cannot be used has to close what it is for. None for other kinds, and where it is certain that nothing in it
/// guards.
pub(super) fn lost(kind: Kind, checked: &schema::Checked) -> Option<Fault> {
    let errors = || checked.violations.iter().filter(|violation| violation.severity == Severity::Error);
    let is_harmless = checked.guards.is_empty() && errors().all(|error| error.path.starts_with("metadata"));
    if !kind.is_attached() || is_harmless {
        return None;
    }
    let fault = errors().next().map(|error| Fault { path: error.path.clone(), text: error.text.as_str().into() });
    Some(fault.unwrap_or_else(|| Fault { path: "metadata.name".into(), text: "the name is missing".into() }))
}

/// Reads the targets of a policy once more, where something is wrong with them.
pub(super) fn reread(object: &mut Object, root: Cursor<'_, '_>) {
    let Some(attachment) = object.attachment().filter(|attachment| attachment.is_faulty()) else { return };
    // A policy without targets and without guards closes nothing: it says nothing that could be for something.
    let is_empty = attachment.guards.is_empty()
        && attachment.lacks_targets_alone()
        && root.get("spec").is_some_and(|spec| matches!(spec.value(), Value::Map(_)));
    if let Some(attachment) = object.attachment_mut().filter(|_| !is_empty) {
        loose::read(root, attachment);
    }
}

impl Decoder<'_> {
    /// Policies in a list of their kind, as programs write it: they are not read, and what they guard is closed.
    pub(super) fn list_of(&mut self, kind: Kind, root: Cursor<'_, '_>) {
        let text = format!(
            "a {kind}List is not read; write each {kind} as a document of its own with apiVersion {}, or a List of apiVersion v1",
            kind.api_version()
        );
        let items = root.get("items").into_iter().flat_map(Cursor::items);
        let keys: Vec<_> = items.filter_map(|item| self.key(Some(kind), item, "", "")).map(Some).collect();
        let at = root.get("kind").unwrap_or(root);
        for key in if keys.is_empty() { vec![None] } else { keys } {
            self.add(key.as_ref(), at, Severity::Error, "kind", text.clone());
        }
        self.remnants(root, Some(kind), &Fault { path: "kind".into(), text: text.into() });
    }

    /// Keeps what can be read of policies in a document that cannot be used. `kind`: that of the document, or of its items, where it says another
    /// one or none.
    pub(super) fn remnants(&mut self, root: Cursor<'_, '_>, kind: Option<Kind>, fault: &Fault) {
        let texts = |field: &'static str| {
            let written = root.entries().filter(move |(name, _)| name.as_str() == Some(field));
            written.filter_map(|(_, value)| value.as_str())
        };
        // Where a border between documents is missing there are several.
        let is_one = texts("kind").nth(1).is_none();
        let group = texts("apiVersion").next().map(|version| version.split_once('/').map_or("", |(group, _)| group));
        let known = texts("kind").find_map(|word| remnant::meant(group.filter(|_| is_one), word));
        let is_list =
            known.is_some_and(|(_, is_list)| is_list) || texts("kind").any(|word| word.eq_ignore_ascii_case("List"));
        let kind = known.map(|(kind, _)| kind).or(kind);
        let items = root.get("items").filter(|items| is_list && items.items().next().is_some());
        if let Some(items) = items {
            return items.items().for_each(|item| self.remnants(item, kind, fault));
        }
        let Some(kind) = kind.filter(|kind| kind.is_attached()) else { return };
        let guards = schema::check(root, Schema::of(kind), false).guards;
        self.out.objects.extend(remnant::of_document(kind, root, guards, fault.clone()));
    }
}
