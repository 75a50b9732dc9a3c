//! Targets of a policy that is not written as it has to be, as far as it is clear what is meant: what they name is not left open.

use super::{PolicyAttachment, PolicyTargetSelector};
use crate::kind::Kind;
use crate::reference::PolicyTargetRef;
use crate::schema::nearest;
use crate::tree::{Cursor, Pruned, Value, deserialize};

/// Names of the fields with targets.
const FIELDS: [&str; 3] = ["targetRef", "targetRefs", "targetSelectors"];

/// Fields of a policy that are looked at for misspelt targets: four times what the largest policy kind has. Each costs three comparisons of words,
/// below 10 µs: 1 ms in all.
const MAX_FIELDS: usize = 128;

/// Targets and selectors that are read: four times what the API allows. A policy with more is for everything in its namespace.
const MAX_TARGETS: usize = 64;

/// Reads the targets of a policy from its whole document.
pub(crate) fn read(root: Cursor<'_, '_>, attachment: &mut PolicyAttachment) {
    let (mut found, mut further) = (Found::default(), Vec::new());
    for (name, value) in fields(root).take(MAX_FIELDS) {
        let word = name.as_str().unwrap_or_default();
        match meant(word) {
            Some("targetSelectors") => {
                found.is_unread |= matches!(value.value(), Value::Map(_));
                found.each(value, Found::selector);
            }
            Some(field) => {
                // Others read the field of this name too, and faults count its items.
                let is_exact = field == "targetRef" && word == field && matches!(value.value(), Value::Map(_));
                found.is_single = is_exact && found.single.is_none();
                let before = found.targets.len();
                found.each(value, Found::target);
                if word != "targetRefs" {
                    further.extend(found.targets.drain(before..));
                }
            }
            None => continue,
        }
        if !FIELDS.contains(&word) {
            found.is_unread = true;
            attachment.guards = attachment.guards.iter().filter(|path| !is_at(path, word)).cloned().collect();
        }
    }
    let is_named = found.single.is_some() || !found.targets.is_empty() || !further.is_empty();
    let reads_nothing = !is_named && found.selectors.is_empty();
    attachment.target_ref = found.single.map(Box::new);
    attachment.target_refs = found.targets.into();
    attachment.target_selectors = found.selectors.into();
    attachment.further = further.into();
    attachment.for_all = found.for_all || reads_nothing;
    attachment.remnant = found.is_unread || reads_nothing;
}

/// The fields of what may be the spec: whatever its case, in a list, or next to it.
fn fields<'a, 't>(root: Cursor<'a, 't>) -> impl Iterator<Item = (Cursor<'a, 't>, Cursor<'a, 't>)> {
    let specs = root.entries().filter(|(name, _)| name.as_str().is_some_and(|name| name.eq_ignore_ascii_case("spec")));
    let inside = specs.flat_map(|(_, spec)| {
        let own = spec.entries();
        own.chain(spec.items().flat_map(Cursor::entries))
    });
    inside.chain(root.entries())
}

/// The field with targets that a name means.
fn meant(word: &str) -> Option<&'static str> {
    let exact = FIELDS.into_iter().find(|field| field.eq_ignore_ascii_case(word));
    exact.or_else(|| nearest(word, FIELDS))
}

/// True for the path of a field of the spec, and of what is in it.
fn is_at(path: &str, word: &str) -> bool {
    let rest = path.strip_prefix("spec.").and_then(|path| path.strip_prefix(word));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[derive(Default)]
struct Found {
    /// The next target is that of `targetRef`.
    is_single: bool,
    single: Option<PolicyTargetRef>,
    /// Number of targets that were read, of all fields.
    count: usize,
    targets: Vec<PolicyTargetRef>,
    selectors: Vec<PolicyTargetSelector>,
    /// Something is written of which neither kind nor name can be read.
    for_all: bool,
    /// Something is not written so that it is certain what it is for.
    is_unread: bool,
}

impl Found {
    fn each(&mut self, value: Cursor<'_, '_>, read: impl Fn(&mut Self, Cursor<'_, '_>)) {
        match value.value() {
            Value::Null => {}
            Value::Map(_) => read(self, value),
            Value::List(_) => value.items().for_each(|item| read(self, item)),
            _ => (self.for_all, self.is_unread) = (true, true),
        }
    }

    fn has_room(&mut self, count: usize) -> bool {
        let has_room = count < MAX_TARGETS;
        (self.for_all, self.is_unread) = (self.for_all || !has_room, self.is_unread || !has_room);
        has_room
    }

    fn target(&mut self, item: Cursor<'_, '_>) {
        if !self.has_room(self.count) {
            return;
        }
        self.count += 1;
        let target = PolicyTargetRef {
            group: text(item, "group").unwrap_or_default(),
            kind: text(item, "kind").unwrap_or_default(),
            name: text(item, "name").unwrap_or_default(),
            section_name: text(item, "sectionName"),
        };
        let (kind, name) = (Kind::of_policy_target(&target.kind), !target.name.is_empty());
        self.is_unread |= kind.is_none() || !name;
        self.for_all |= kind.is_none() && !name;
        match std::mem::take(&mut self.is_single) {
            true => self.single = Some(target),
            false => self.targets.push(target),
        }
    }

    fn selector(&mut self, item: Cursor<'_, '_>) {
        if !self.has_room(self.selectors.len()) {
            return;
        }
        const KNOWN: [&str; 5] = ["group", "kind", "matchLabels", "matchExpressions", "namespaces"];
        let is_known = |(name, _): (Cursor<'_, '_>, _)| name.as_str().is_some_and(|name| KNOWN.contains(&name));
        let whole = deserialize::<PolicyTargetSelector>(item, &Pruned::default()).ok();
        let whole = whole.filter(|whole| item.entries().all(is_known) && whole.labels.defect().is_none());
        self.is_unread |= whole.is_none();
        // What cannot be read of its labels selects all of its kind.
        let selector = whole.unwrap_or_else(|| PolicyTargetSelector {
            kind: text(item, "kind").unwrap_or_default(),
            namespaces: item.get("namespaces").and_then(|namespaces| deserialize(namespaces, &Pruned::default()).ok()),
            ..PolicyTargetSelector::default()
        });
        let has_kind = Kind::of_policy_target(&selector.kind).is_some();
        (self.for_all, self.is_unread) = (self.for_all || !has_kind, self.is_unread || !has_kind);
        self.selectors.push(selector);
    }
}

/// The text of a field, which may be a number; none where it is written twice.
fn text(item: Cursor<'_, '_>, name: &str) -> Option<Box<str>> {
    let mut written = item.entries().filter(|(field, _)| field.as_str() == Some(name));
    let (Some((_, value)), None) = (written.next(), written.next()) else { return None };
    match value.value() {
        Value::String(text) => Some(text.trim().into()),
        Value::Int(number) => Some(number.to_string().into()),
        Value::Number(number) => Some(number.clone()),
        _ => None,
    }
}
