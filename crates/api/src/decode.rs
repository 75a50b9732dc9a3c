//! From a tree to an object and its problems.

mod remnants;
mod renamed;
mod unknown;

use std::sync::Arc;

use self::unknown::Unknown;
use crate::kind::{Kind, Object, Scope, build};
use crate::meta::{Labels, MoreMeta, ObjectMeta, Timestamp};
use crate::policy_attachment::remnant;
use crate::problem::{Fault, Place, Problem, Severity, UnitFaults};
use crate::resource::{Resource, Spec};
use crate::schema::{self, Schema};
use crate::tree::{self, Cursor, DecodeError, Pruned, Tree, Value, deserialize};
use crate::yaml::{self, Document, SyntaxError};
use crate::{FieldPath, ObjectKey};

/// The annotation in which `kubectl apply` keeps a copy of the whole object; it is not kept.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The longest part of a line that a problem shows, in bytes.
const MAX_SNIPPET: usize = 400;

/// Items that are left out of a list and remembered, so that those behind them keep their numbers in problems: more than any list of the API may have.
const MAX_DROPPED: usize = 1 << 12;

/// What a document holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decoded {
    /// The objects, usually one; a `kind: List` has any number. Objects with a fatal problem are left out, but for policies that guard: of these
    /// there is a [remnant](Object::is_remnant).
    pub objects: Vec<Object>,
    /// Everything that is wrong or worth knowing, in the order of the text.
    pub problems: Vec<Problem>,
}

impl Decoded {
    /// The object of a document that holds one.
    #[must_use]
    pub fn object(&self) -> Option<&Object> {
        self.objects.first()
    }
}

/// Where a tree comes from, to name places.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'o> {
    /// The file as the user named it; none for objects that do not come from text: their problems have no place.
    pub file: Option<&'o Arc<str>>,
    /// The text of the document that the tree was parsed from.
    pub text: &'o str,
    /// Line of the file on which that text starts, from 1.
    pub line: u32,
}

/// Reads one document of a file: parses it and decodes what it holds.
#[must_use]
pub fn read(document: &Document<'_>, file: &Arc<str>) -> Decoded {
    let origin = Origin { file: Some(file), text: document.text, line: document.line };
    match yaml::parse(document.text) {
        Ok(tree) => decode(&tree, origin),
        Err(error) => {
            let mut decoder = Decoder { origin, out: Decoded::default(), counted: Counted::default() };
            decoder.out.problems.push(origin.syntax_problem(&error));
            let tree = yaml::parse_loosely(document.text);
            // Without the message: it may repeat something of a text that is not to be shown.
            let fault = Fault { path: FieldPath::default(), text: "its document is no YAML".into() };
            decoder.remnants(tree.root(), None, &fault);
            decoder.out
        }
    }
}

/// Decodes a tree: checks it against the schema of its kind and applies the API's defaults.
///
/// An object is left out only if something is wrong that belongs to no smaller part of it. A namespaced object that
/// names no namespace is in `default`.
#[must_use]
pub fn decode(tree: &Tree<'_>, origin: Origin<'_>) -> Decoded {
    let mut decoder = Decoder { origin, out: Decoded::default(), counted: Counted::default() };
    let root = tree.root();
    if !root.is_null() {
        decoder.document(root);
    }
    decoder.out
}

/// What a check found that the typed object has to know.
#[derive(Debug)]
pub(crate) struct Marks {
    pruned: Pruned,
    faults: UnitFaults,
}

/// The resource of a kind; `root` has passed the kind's schema.
pub(crate) fn resource<S: Spec>(
    meta: ObjectMeta,
    root: Cursor<'_, '_>,
    marks: Marks,
) -> Result<Resource<S>, DecodeError> {
    let body = if S::FIELD.is_empty() { Some(root) } else { root.get(S::FIELD) };
    let body = body.filter(|body| !marks.pruned.has(body.index));
    let mut spec: S = match body {
        Some(body) => deserialize(body, &marks.pruned)?,
        None => deserialize(tree::NOTHING.root(), &marks.pruned)?,
    };
    spec.mark(marks.faults);
    if let Some(body) = body {
        spec.keep(|| tree::verbatim(body));
    }
    Ok(Resource { meta, spec })
}

/// Kinds whose objects can ask for sessions.
fn has_sessions(kind: Kind) -> bool {
    matches!(kind, Kind::HttpRoute | Kind::GrpcRoute | Kind::XBackend | Kind::XBackendTrafficPolicy)
}

/// One thing wrong, before its place is worked out.
#[derive(Clone)]
struct Found {
    start: u32,
    severity: Severity,
    path: FieldPath,
    text: String,
}

struct Decoder<'o> {
    origin: Origin<'o>,
    out: Decoded,
    counted: Counted,
}

/// Lines and columns up to a byte of a text: most problems come in the order of the text, and each is counted from the one before.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    at: usize,
    /// Line breaks before it.
    lines: usize,
    /// Characters between the last of these and it.
    columns: usize,
}

impl Counted {
    /// The same up to another byte.
    fn up_to(self, text: &str, start: usize) -> Self {
        let start = text.floor_char_boundary(start.min(text.len()));
        let from = if start < self.at { Self::default() } else { self };
        let between = text.get(from.at..start).unwrap_or_default();
        let lines = memchr::memchr_iter(b'\n', between.as_bytes()).count();
        let columns = match between.rfind('\n') {
            Some(newline) => between.get(newline + 1..).unwrap_or_default().chars().count(),
            None => from.columns + between.chars().count(),
        };
        Self { at: from.at + between.len(), lines: from.lines + lines, columns }
    }
}

impl Decoder<'_> {
    /// An object, or a list of them.
    fn document(&mut self, root: Cursor<'_, '_>) {
        self.document_in(root, None);
    }

    /// The same inside a list of one kind, which an item without `apiVersion` and `kind` is of.
    fn document_in(&mut self, root: Cursor<'_, '_>, list: Option<(&str, &str, Kind)>) {
        let Value::Map(_) = root.value() else {
            let text = format!("an object is a map with apiVersion and kind, this is {}", root.value().type_name());
            return self.add(None, root, Severity::Error, "", text);
        };
        let text = |name: &str| root.get(name).and_then(Cursor::as_str);
        let untyped = list.filter(|_| root.get("apiVersion").is_none() && root.get("kind").is_none());
        let (Some(version), Some(kind)) =
            untyped.map_or((text("apiVersion"), text("kind")), |(version, kind, _)| (Some(version), Some(kind)))
        else {
            let missing = if text("kind").is_some() { "apiVersion" } else { "kind" };
            let text = format!("{missing} is missing, or is no string");
            self.add(None, root, Severity::Error, missing, text.clone());
            return self.remnants(root, None, &Fault { path: missing.into(), text: text.into() });
        };
        if version == "v1" && kind == "List" {
            return self.items(root, None);
        }
        let (group, short) = version.split_once('/').unwrap_or(("", version));
        let item = kind.strip_suffix("List").filter(|_| root.get("items").is_some());
        if let Some((item, known)) = item.and_then(|item| Some((item, Kind::find(group, item)?))) {
            return self.items(root, Some((version, item, known)));
        }
        if kind.eq_ignore_ascii_case("List") && root.get("items").is_some() {
            let text = "a list of objects has apiVersion v1 and kind List: nothing in it is read";
            self.add(None, root.get("kind").unwrap_or(root), Severity::Error, "kind", text.to_owned());
            return self.remnants(root, None, &Fault { path: "kind".into(), text: text.into() });
        }
        match Kind::find(group, kind) {
            Some(known) if known.versions().contains(&short) => self.object(known, root),
            Some(known) => {
                let text = format!("version {short} of {kind} is not read; write {}", known.api_version());
                let key = self.key(Some(known), root, group, kind).filter(|_| known.is_attached());
                let at = root.get("apiVersion").unwrap_or(root);
                self.add(key.as_ref(), at, Severity::Error, "apiVersion", text.clone());
                self.remnants(root, Some(known), &Fault { path: "apiVersion".into(), text: text.into() });
            }
            None => match remnant::meant(Some(group), kind).filter(|(_, is_list)| *is_list) {
                Some((policy, _)) => self.list_of(policy, root),
                None => self.unknown_kind(root, group, kind),
            },
        }
    }

    /// The objects of a list, which is of one kind or of any.
    fn items(&mut self, root: Cursor<'_, '_>, list: Option<(&str, &str, Kind)>) {
        match root.get("items") {
            Some(items) if matches!(items.value(), Value::List(_) | Value::Null) => {
                items.items().filter(|item| !item.is_null()).for_each(|item| self.document_in(item, list));
            }
            other => {
                let text = "a list has its objects in items, a list".to_owned();
                self.add(None, other.unwrap_or(root), Severity::Error, "items", text.clone());
                self.remnants(root, list.map(|(.., kind)| kind), &Fault { path: "items".into(), text: text.into() });
            }
        }
    }

    /// A kind that we do not read.
    fn unknown_kind(&mut self, root: Cursor<'_, '_>, group: &str, kind: &str) {
        let Unknown { severity, field, text, meant } = unknown::kind(group, kind);
        let policy = meant.filter(|meant| meant.is_attached());
        let key = self.key(policy, root, group, kind);
        let path = if severity == Severity::Error { field } else { "" };
        self.add(key.as_ref(), root.get(field).unwrap_or(root), severity, path, text.clone());
        if policy.is_some() {
            self.remnants(root, policy, &Fault { path: field.into(), text: text.into() });
        }
    }

    fn object(&mut self, kind: Kind, root: Cursor<'_, '_>) {
        let quiet = matches!(kind, Kind::Secret | Kind::EnvoySecret);
        let renamed = if has_sessions(kind) { renamed::sessions(root) } else { None };
        let (root, earlier) = match &renamed {
            Some((tree, found)) => (tree.root(), &**found),
            None => (root, &[][..]),
        };
        let checked = schema::check(root, Schema::of(kind), quiet);
        let key = self.key(Some(kind), root, kind.group(), kind.name());
        for found in earlier {
            let problem = self.problem(key.as_ref(), found.clone(), quiet);
            self.out.problems.push(problem);
        }
        let lost = remnants::lost(kind, &checked).filter(|_| checked.fatal || key.is_none());
        let mut found = UnitFaults { guards: checked.guards, ..UnitFaults::default() };
        for violation in checked.violations {
            let schema::Violation { path, severity, text, start, unit } = violation;
            let fault = || Fault { path: path.clone(), text: text.as_str().into() };
            if let Some(unit) = unit {
                found.faults.push((unit, fault()));
            } else if severity == Severity::Warning && path.starts_with("spec.") {
                found.ignored.push(fault());
            }
            let violation = Found { start, severity, path, text };
            let problem = self.problem(key.as_ref(), violation, quiet);
            self.out.problems.push(problem);
        }
        if let Some(fault) = lost {
            self.remnants(root, Some(kind), &fault);
        }
        if checked.fatal {
            return;
        }
        let Some(key) = key else { return self.nameless(root) };
        let pruned = Pruned::new(checked.pruned, checked.hollow);
        let mut meta = meta(key.clone(), root, &pruned);
        if let Some(more) = meta.more.as_mut().filter(|_| kind.is_unbuilt_policy()) {
            // Only its attachment is read.
            more.annotations = Labels::default();
        }
        let marks = Marks { pruned, faults: found };
        match build(kind, meta, root, marks) {
            Ok(mut object) => {
                remnants::reread(&mut object, root);
                self.out.objects.push(object);
            }
            Err(error) => {
                let text = format!("this object cannot be read: {error}");
                self.add(Some(&key), root, Severity::Error, "", text.clone());
                self.remnants(root, Some(kind), &Fault { path: FieldPath::default(), text: text.into() });
            }
        }
    }

    fn nameless(&mut self, root: Cursor<'_, '_>) {
        let metadata = root.get("metadata");
        let field = |name: &str| metadata.and_then(|metadata| metadata.get(name));
        let at = field("name").or(metadata).unwrap_or(root);
        let generated =
            if field("generateName").is_some() { " (generateName makes one only on an API server)" } else { "" };
        let text = format!("metadata.name is missing: without a name this object is not read{generated}");
        self.add(None, at, Severity::Error, "metadata.name", text);
    }

    /// The key of an object, if it has a name.
    fn key(&self, kind: Option<Kind>, root: Cursor<'_, '_>, group: &str, kind_name: &str) -> Option<ObjectKey> {
        let metadata = root.get("metadata");
        let text = |name: &str| metadata.and_then(|metadata| metadata.get(name)).and_then(Cursor::as_str);
        let namespace = match kind.map(Kind::scope) {
            Some(Scope::Cluster) => "",
            Some(Scope::Namespaced) => text("namespace").filter(|namespace| !namespace.is_empty()).unwrap_or("default"),
            None => text("namespace").unwrap_or_default(),
        };
        match (kind, text("name")) {
            (Some(kind), Some(name)) => Some(ObjectKey::of(kind, namespace, name)),
            (Some(Kind::EnvoyGateway), None) => Some(ObjectKey::of(Kind::EnvoyGateway, "", "")),
            (None, Some(name)) => Some(ObjectKey::new(group, kind_name, namespace, name)),
            (_, None) => None,
        }
    }

    fn add(&mut self, key: Option<&ObjectKey>, at: Cursor<'_, '_>, severity: Severity, path: &str, text: String) {
        let found = Found { start: at.start(), severity, path: path.into(), text };
        let problem = self.problem(key, found, false);
        self.out.problems.push(problem);
    }

    fn problem(&mut self, key: Option<&ObjectKey>, found: Found, quiet: bool) -> Problem {
        self.counted = self.counted.up_to(self.origin.text, found.start as usize);
        let place = self.origin.place_of(self.counted);
        self.origin.problem(key, (found, place), quiet)
    }
}

impl Origin<'_> {
    fn problem(&self, object: Option<&ObjectKey>, (found, place): (Found, Option<Place>), quiet: bool) -> Problem {
        let Found { start, severity, path, text } = found;
        let snippet = place.as_ref().filter(|_| !quiet).map(|_| self.snippet(start));
        Problem { object: object.cloned(), path, place, snippet, ..Problem::unbound(severity, text) }
    }

    /// The problem of a text that does not parse. Nothing is shown of a text that may hold a Secret.
    #[must_use]
    pub fn syntax_problem(&self, error: &SyntaxError) -> Problem {
        let (path, text) = (FieldPath::default(), error.message.clone());
        let found = Found { start: error.at, severity: Severity::Error, path, text };
        self.problem(None, (found, self.place(error.at)), may_hold_secret(self.text))
    }

    /// The place of a byte of the document's text.
    #[must_use]
    pub fn place(&self, start: u32) -> Option<Place> {
        self.place_of(Counted::default().up_to(self.text, start as usize))
    }

    fn place_of(&self, counted: Counted) -> Option<Place> {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let (line, column) =
            (self.line.saturating_add(number(counted.lines)), number(counted.columns).saturating_add(1));
        Some(Place { file: self.file?.clone(), line, column })
    }

    /// The line of a byte of the document's text.
    pub(crate) fn snippet(&self, start: u32) -> Box<str> {
        let start = (start as usize).min(self.text.len());
        let begin = self.text.get(..start).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1);
        let line = self.text.get(begin..).and_then(|rest| rest.lines().next()).unwrap_or_default();
        let end = (0..=line.len().min(MAX_SNIPPET)).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
        line.get(..end).unwrap_or_default().into()
    }
}

/// Returns true if a text that does not parse may be, or contain, a Secret: some field `kind`, however it is written, has a value with that word, on its
/// line or the next one. A reference to a Secret hides the line as well.
fn may_hold_secret(text: &str) -> bool {
    memchr::memmem::find_iter(text.as_bytes(), "kind").any(|at| {
        let rest = text.get(at + "kind".len()..).unwrap_or_default();
        let rest = rest.trim_start_matches(|letter: char| letter.is_whitespace() || "\"'".contains(letter));
        let value = rest.strip_prefix(':').unwrap_or_default().trim_start();
        value.lines().take(2).any(|line| line.contains("Secret") || line.contains('\\'))
    })
}

fn meta(key: ObjectKey, root: Cursor<'_, '_>, pruned: &Pruned) -> ObjectMeta {
    let mut meta = ObjectMeta::new(key);
    let Some(metadata) = root.get("metadata") else { return meta };
    let text = |name: &str| metadata.get(name).and_then(Cursor::as_str);
    if let Some(Value::Int(generation)) = metadata.get("generation").map(Cursor::value) {
        meta.generation = *generation;
    }
    let strings = |name: &str| -> Labels {
        let entries = metadata.get(name).into_iter().flat_map(Cursor::entries);
        let kept = entries.filter(|(name, value)| !pruned.has(value.index) && name.as_str() != Some(LAST_APPLIED));
        kept.filter_map(|(name, value)| Some((name.as_str()?, value.as_str()?))).collect()
    };
    meta.labels = strings("labels");
    let more = MoreMeta {
        creation_timestamp: text("creationTimestamp").and_then(Timestamp::parse),
        annotations: strings("annotations"),
        uid: text("uid").unwrap_or_default().into(),
        resource_version: text("resourceVersion").unwrap_or_default().into(),
        dropped: meta.key.kind().map(|kind| dropped(kind, root, pruned)).unwrap_or_default(),
    };
    meta.more = (more != MoreMeta::default()).then(|| Box::new(more));
    meta
}

/// The items that are left out of the lists of which that is possible.
fn dropped(kind: Kind, root: Cursor<'_, '_>, pruned: &Pruned) -> Box<[(FieldPath, usize)]> {
    if pruned.is_empty() {
        return Box::default();
    }
    let of_list = |path: &'static [&'static str]| {
        let list = path.iter().try_fold(root, |at, name| at.get(name));
        let items = list.into_iter().flat_map(Cursor::items).enumerate();
        let dropped = items.filter(|(_, item)| !pruned.keeps(*item)).take(MAX_DROPPED);
        dropped.map(|(index, _)| (path.join(".").into(), index))
    };
    schema::lists_that_drop(kind).flat_map(of_list).collect()
}

#[cfg(test)]
mod tests;
