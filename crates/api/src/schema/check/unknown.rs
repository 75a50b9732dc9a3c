//! Fields that are not there in the API.

use std::cell::OnceCell;

use super::{Checker, Doubt, Property, Schema, Severity, Unit, Value, nearest, written};
use crate::tree::Cursor;

/// Fields of earlier versions, the field that stands beside them now, and what holds what they held.
const MOVED: [(&str, &str, &str); 5] = [
    ("sessionName", "cookie", "cookie.name"),
    ("cookieConfig", "cookie", "cookie"),
    // those of a BackendTLSPolicy
    ("tls", "validation", "validation"),
    ("caCertRefs", "caCertificateRefs", "caCertificateRefs"),
    ("wellKnownCACerts", "wellKnownCACertificates", "wellKnownCACertificates"),
];

/// Fields of earlier versions that guarded, and where what guards now is.
const FORMER: [(&str, &str); 2] = [("frontendValidation", "spec.tls.frontend"), ("resourceName", "spec.to[].name")];

/// Of so many items it is looked at where a field is lacking: there may be as many fields that are not there.
const LOOKED_AT: usize = 16;

/// The fields of a map that the API has.
pub(super) struct Known<'a> {
    around: Cursor<'a, 'a>,
    schema: &'a Schema,
    fields: Vec<(&'a Property, Cursor<'a, 'a>)>,
    /// Fields of these that nothing is in, with the paths to them.
    emptied: OnceCell<Vec<(String, &'a Property)>>,
}

impl<'a> Known<'a> {
    /// A look at each entry: made once for a map.
    pub(super) fn of(around: Cursor<'a, 'a>, schema: &'a Schema) -> Self {
        let known = |(name, value): (Cursor<'a, 'a>, _)| Some((schema.property(name.as_str()?)?, value));
        Self { around, schema, fields: around.entries().filter_map(known).collect(), emptied: OnceCell::new() }
    }

    /// The nearest field that nothing is in and that can have one of this name in it.
    fn emptied(&self, word: &str) -> Option<&(String, &'a Property)> {
        let found = self.emptied.get_or_init(|| {
            let mut found = Vec::new();
            gather_emptied(self.around, self.schema, "", &mut found);
            found
        });
        // Any word may be a label.
        let is_near = |path: &str| !path.contains('.');
        let takes = |schema: &Schema| schema.takes(word);
        found.iter().find(|(path, property)| takes(&property.schema) && (is_near(path) || !property.schema.is_open()))
    }

    /// Whether a field is not written, or is null.
    fn lacks(&self, name: &str) -> bool {
        !self.fields.iter().any(|(property, value)| *property.name == *name && !value.is_null())
    }

    /// What is written there and has no field of this name: it was meant to be in there.
    fn lacking(&self, word: &str) -> Option<String> {
        let lacks = |value: Cursor<'a, 'a>| matches!(value.value(), Value::Map(_)) && value.get(word).is_none();
        self.fields.iter().find_map(|(property, value)| {
            let has_field = |schema: &Schema| schema.property(word).is_some();
            let is_field = has_field(&property.schema) && lacks(*value);
            let is_of_items =
                property.schema.items().is_some_and(has_field) && value.items().take(LOOKED_AT).any(lacks);
            let dots = if is_of_items { "[]." } else { "." };
            (is_field || is_of_items).then(|| format!("{}{dots}{word}", property.name))
        })
    }
}

impl<'a> Checker<'a> {
    pub(super) fn unknown(&mut self, name: Cursor<'a, 'a>, (word, value): (&str, Cursor<'a, 'a>), beside: &Known<'a>) {
        let schema = beside.schema;
        if self.beside_empty(name, word, beside) {
            return;
        }
        let known = schema.properties.iter().map(|property| &*property.name);
        let near = nearest(word, known.clone());
        near.into_iter().for_each(|near| self.doubt(beside.around, Doubt::Field(near)));
        let moved = MOVED.iter().find(|(old, new, _)| *old == word && known.clone().any(|one| one == *new));
        let meant = near.map(|near| format!("; did you mean {near}?"));
        let meant = meant.or(moved.map(|(.., now)| format!("; it is {now} now")));
        let belongs = beside.lacking(word).map(|field| format!("; it belongs in {}{field}", self.around()));
        let meant = meant.or(belongs.clone()).unwrap_or_default();
        // In a match the default of what is missing takes requests that were never meant.
        let missing = |name: &str| beside.lacks(name);
        let open = |name: &str| {
            missing(name) && schema.properties.iter().any(|property| *property.name == *name && !property.required)
        };
        let empty = schema.properties.iter().all(|property| missing(&property.name));
        // What a match without any field takes is everything, of an HTTPRoute and of a GRPCRoute.
        let whole = ["path", "method"].into_iter().find(|name| empty && open(name));
        let default = if open("value") { Some("value") } else { whole };
        // An empty list narrows nothing, wherever it stands.
        let is_empty = matches!(value.value(), Value::List(_)) && value.len() == 0;
        let guard = self.guard_elsewhere(word).filter(|_| !is_empty);
        if near.is_none() && !is_empty && self.guards_rule(name, word) {
            return;
        }
        let lacking = near.filter(|near| open(near)).or(default);
        if let Some(lacking) = lacking.filter(|_| self.unit.is_some_and(|unit| unit.inner.is_some())) {
            let text =
                format!("{word} is not a field here and {lacking} is missing: this match takes no request{meant}");
            self.error(name, text);
            return;
        }
        if schema.guards && word == "matchExpressions" {
            let text = format!("{word} is not a field here: without it more would be selected; write matchLabels");
            self.error(name, text);
            return;
        }
        if let Some(guard) = near.filter(|near| missing(near)).and_then(|near| schema.property(near))
            && guard.schema.guards
        {
            return self.unguarded(name, &format!("{word} is not a field here and {} is missing", guard.name), guard);
        }
        let elsewhere = guard.map(|place| format!("; it belongs in {place}"));
        // Another field of that name is nearer than the guard.
        if let (Some(belongs), Some(_)) = (belongs.filter(|belongs| elsewhere.as_ref() != Some(belongs)), guard) {
            self.error(name, format!("{word} is not a field here{belongs}"));
            return;
        }
        if let Some(meant) = elsewhere.or(schema.guards.then_some(meant.clone())) {
            self.error(name, unmeant(word, &meant));
            return;
        }
        self.add(name, Severity::Warning, format!("{word} is not a field here and is ignored{meant}"));
    }

    /// `path:` with its fields beside it in place of below it: another match than was meant.
    fn beside_empty(&mut self, name: Cursor<'a, 'a>, word: &str, beside: &Known<'a>) -> bool {
        let Some((path, empty)) = beside.emptied(word) else { return false };
        let text = format!("{word} is not a field here; {path} is empty: indent {word} below it");
        if !empty.schema.guards {
            self.add(name, Severity::Error, text);
            return true;
        }
        let around = self.unit;
        if empty.schema.is_matches() {
            self.takes_nothing();
        }
        self.error(name, text);
        self.unit = around;
        true
    }

    /// In a match stands a filter of the whole rule, or what is nearly called so: the match is as it is meant, and its rule at fault.
    fn guards_rule(&mut self, name: Cursor<'a, 'a>, word: &str) -> bool {
        const FILTERS: &str = "spec.rules[].filters";
        let Some(unit) = self.unit.filter(|unit| unit.inner.is_some()) else { return false };
        // `type` is nothing of filters alone.
        let of_filters = |(name, place): &&(Box<str>, String)| place.starts_with(FILTERS) && **name != *"type";
        let filters = || self.guard_names.iter().filter(of_filters);
        let Some(meant) = nearest(word, filters().map(|(name, _)| &**name)) else { return false };
        let place = filters().find(|(name, _)| **name == *meant).map_or(FILTERS, |(_, place)| place);
        let text = unmeant(word, &format!("; it belongs in {place}"));
        self.unit = Some(Unit { inner: None, ..unit });
        self.error(name, text);
        self.unit = Some(unit);
        true
    }

    /// The path to what is looked at, without its last field and without numbers.
    fn around(&self) -> String {
        let above = self.path.split_last().map_or(&[][..], |(_, above)| above);
        written(above, false) + if above.is_empty() { "" } else { "." }
    }

    /// Where a field belongs that narrows or guards there.
    fn guard_elsewhere(&self, word: &str) -> Option<&'a str> {
        let named = self.guard_names.iter().find(|(name, _)| **name == *word);
        let place = named.map(|(_, place)| place.as_str());
        let former = FORMER.iter().find(|(name, _)| *name == word).map(|(_, place)| *place);
        place.or(former.filter(|former| self.guard_names.iter().any(|(_, place)| place == former)))
    }

    /// A misspelt field without which more would be taken than is meant: what has it is not used.
    fn unguarded(&mut self, name: Cursor<'a, 'a>, what: &str, guard: &Property) {
        let around = self.unit;
        let follows = if guard.schema.is_matches() {
            self.takes_nothing();
            "this rule takes no request"
        } else {
            "without it this would mean something else"
        };
        self.error(name, format!("{what}: {follows}; did you mean {}?", guard.name));
        self.unit = around;
    }
}

/// Fields that nothing is in, nearest first, each path once.
fn gather_emptied<'a>(
    around: Cursor<'a, 'a>,
    schema: &'a Schema,
    above: &str,
    found: &mut Vec<(String, &'a Property)>,
) {
    let mut below = Vec::new();
    for (name, value) in around.entries() {
        let Some(property) = name.as_str().and_then(|word| schema.property(word)) else { continue };
        let path = format!("{above}{}", property.name);
        match value.value() {
            Value::Null if found.iter().all(|(other, _)| *other != path) => found.push((path, property)),
            Value::Map(_) => below.push((value, &property.schema, path + ".")),
            Value::List(_) => {
                let items = property.schema.items().into_iter();
                below.extend(
                    items
                        .flat_map(|schema| value.items().map(move |item| (item, schema)))
                        .map(|(item, schema)| (item, schema, format!("{path}[]."))),
                );
            }
            _ => {}
        }
    }
    below.into_iter().for_each(|(value, schema, path)| gather_emptied(value, schema, &path, found));
}

fn unmeant(word: &str, remedy: &str) -> String {
    format!("{word} is not a field here: without it more would be taken than is meant{remedy}")
}
