//! Fields of sessions under the names that they had in Gateway API 1.2: read as what they are called now.

use super::{Cursor, FieldPath, Found, Severity, Tree, Value};
use crate::tree::Builder;

/// The field that named the cookie or the header.
const NAME: &str = "sessionName";

/// The field that held the settings of the cookie.
const COOKIE: &str = "cookieConfig";

/// Returns the object with today's names, and a warning for each field that has an earlier one; none where there is no such field. Nothing there guards: a
/// session says which backend a client gets again.
pub(super) fn sessions<'t>(root: Cursor<'_, 't>) -> Option<(Tree<'t>, Vec<Found>)> {
    let spec = root.get("spec")?;
    let rules = spec.get("rules").into_iter().flat_map(Cursor::items).enumerate();
    let of_rules = rules.map(|(index, rule)| (FieldPath::from(format!("spec.rules[{index}]")), rule));
    let holders = std::iter::once((FieldPath::from("spec"), spec)).chain(of_rules);
    let mut found = Vec::new();
    for (path, holder) in holders {
        let Some(persistence) = holder.get("sessionPersistence") else { continue };
        if let Some(session) = Session::of(persistence) {
            found.extend(session.warnings(persistence, &path.field("sessionPersistence")));
        }
    }
    if found.is_empty() {
        return None;
    }
    let mut builder = Builder::default();
    copy(root, &mut builder);
    Some((Tree { nodes: builder.nodes }, found))
}

/// A session with earlier fields that nothing of today's stands next to.
struct Session<'a, 't> {
    /// Today's field: `cookie` or `header`.
    field: &'static str,
    name: Option<Cursor<'a, 't>>,
    settings: Option<Cursor<'a, 't>>,
}

impl<'a, 't> Session<'a, 't> {
    fn of(persistence: Cursor<'a, 't>) -> Option<Self> {
        let is_header = match persistence.get("type").map(Cursor::value) {
            None | Some(Value::Null) => false,
            Some(Value::String(word)) => match &**word {
                "Cookie" => false,
                "Header" => true,
                _ => return None,
            },
            Some(_) => return None,
        };
        let (name, settings) = (persistence.get(NAME), persistence.get(COOKIE));
        let (field, settings) = if is_header { ("header", None) } else { ("cookie", settings) };
        let is_map = settings.is_none_or(|settings| matches!(settings.value(), Value::Map(_)));
        let is_old = name.is_some() || settings.is_some();
        (is_old && is_map && persistence.get(field).is_none()).then_some(Self { field, name, settings })
    }

    /// A name that belongs to the session as it was written.
    fn holds(&self, name: &str) -> bool {
        name == NAME && self.name.is_some() || name == COOKIE && self.settings.is_some()
    }

    fn warnings(&self, persistence: Cursor<'_, '_>, path: &FieldPath) -> Vec<Found> {
        let entries = persistence.entries().filter_map(|(name, _)| Some((name.start(), name.as_str()?)));
        let old = entries.filter(|(_, name)| self.holds(name));
        let warning = |(start, name): (u32, &str)| {
            let now = if name == NAME { format!("{}.name", self.field) } else { self.field.to_owned() };
            let text = format!("{name} is {now} now, and is read as that: write {now}");
            Found { start, severity: Severity::Warning, path: path.field(name), text }
        };
        old.map(warning).collect()
    }

    /// Writes the whole with today's field in the place of the earlier ones.
    fn write(&self, persistence: Cursor<'_, 't>, to: &mut Builder<'t>) {
        let (at, mut count) = (to.open(persistence.start()), 1);
        for (name, value) in persistence.entries() {
            // Today's field is null, if it is there.
            if !name.as_str().is_some_and(|name| self.holds(name) || name == self.field) {
                copy(name, to);
                copy(value, to);
                count += 1;
            }
        }
        let start = self.settings.or(self.name).map_or(0, Cursor::start);
        to.leaf(start, Value::String(self.field.into()));
        let (inner, mut fields) = (to.open(start), 0);
        for (name, value) in self.settings.into_iter().flat_map(Cursor::entries) {
            copy(name, to);
            copy(value, to);
            fields += 1;
        }
        let is_named = self.settings.is_some_and(|settings| settings.get("name").is_some());
        if let Some(name) = self.name.filter(|_| !is_named) {
            to.leaf(name.start(), Value::String("name".into()));
            copy(name, to);
            fields += 1;
        }
        to.close(inner, Value::Map(fields));
        to.close(at, Value::Map(count));
    }
}

/// Copies a value. Its depth is bounded by the reader of the text.
fn copy<'t>(from: Cursor<'_, 't>, to: &mut Builder<'t>) {
    let open = match from.value() {
        Value::List(_) | Value::Map(_) => to.open(from.start()),
        leaf => return to.leaf(from.start(), leaf.clone()),
    };
    from.items().for_each(|item| copy(item, to));
    for (name, value) in from.entries() {
        copy(name, to);
        let session = (name.as_str() == Some("sessionPersistence")).then(|| Session::of(value)).flatten();
        match session {
            Some(session) => session.write(value, to),
            None => copy(value, to),
        }
    }
    to.close(open, from.value().clone());
}
