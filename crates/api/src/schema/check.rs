//! Checks a tree against a schema.

mod meant;
mod unknown;

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use unknown::Known;

use super::{Format, ListType, Property, Rule, Schema, Type, UnitKind, Word, nearest};
use crate::Kind;
use crate::cel::{Doubt, Doubts, Scope};
use crate::problem::{FieldPath, Severity, Unit};
use crate::tree::{Cursor, Value};

/// A document gives at most so many violations; one more says that there are others. Each costs a search for its line.
const MAX_VIOLATIONS: usize = 100;

/// Fields of a document that are not in the API, at most: beyond, the object is not read. Each may cost a search for the nearest field, some microseconds:
/// 10 ms in all.
const MAX_UNKNOWN: u32 = 1_000;

/// Texts of a document for which the nearest word is looked for, in addition to its unknown fields.
const MAX_NEAREST: u32 = 1_000;

/// Types of filters that the API has and that are not supported.
const REFUSED: [&str; 1] = ["ExtensionRef"];

/// Everything that is wrong with a tree.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) violations: Vec<Violation>,
    /// Nodes that must be read as if they were not there.
    pub(crate) pruned: Vec<u32>,
    /// Items that stay, so that those behind them keep their numbers, and have nothing in them that can be read.
    pub(crate) hollow: Vec<u32>,
    /// Fields that guard and are not built: [`MAX_VIOLATIONS`] at most.
    pub(crate) guards: Vec<FieldPath>,
    /// Whether something is wrong with the object as a whole.
    pub(crate) fatal: bool,
}

/// One thing that is wrong.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) path: FieldPath,
    pub(crate) severity: Severity,
    pub(crate) text: String,
    /// Byte in the text.
    pub(crate) start: u32,
    /// The part of the object that cannot be used because of it; none: the whole, or a part that is left out.
    pub(crate) unit: Option<Unit>,
}

/// Checks a whole object. With `quiet` no value is repeated in a text (for Secrets).
pub(crate) fn check<'a>(root: Cursor<'a, 'a>, schema: &'a Schema, quiet: bool) -> Checked {
    let mut checker = Checker {
        out: Checked::default(),
        path: Vec::new(),
        unit: None,
        dropped: None,
        failed_units: BTreeSet::new(),
        fatal_noted: false,
        unknown_fields: 0,
        nearest_left: MAX_NEAREST,
        quiet,
        silent: false,
        failed: false,
        doubts: Doubts::new(),
        address_type: root.get("addressType").and_then(Cursor::as_str),
        guard_names: &schema.guard_names,
    };
    checker.value(root, schema);
    checker.out
}

struct Checker<'a> {
    out: Checked,
    path: Vec<Step<'a>>,
    unit: Option<Unit>,
    /// The item that is left out if anything in it is wrong.
    dropped: Option<u32>,
    /// Units of which a fault is kept.
    failed_units: BTreeSet<Unit>,
    /// The first error of the object as a whole is kept.
    fatal_noted: bool,
    unknown_fields: u32,
    nearest_left: u32,
    quiet: bool,
    /// Only `failed` counts: trying the alternatives of `oneOf`.
    silent: bool,
    failed: bool,
    /// What is at fault so far, for the rules around it.
    doubts: Doubts<'a>,
    /// That of an `EndpointSlice`.
    address_type: Option<&'a str>,
    guard_names: &'a [(Box<str>, String)],
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Item(usize),
}

impl<'a> Checker<'a> {
    /// Checks a value and all below it; whether it is without errors.
    fn value(&mut self, at: Cursor<'a, 'a>, schema: &'a Schema) -> bool {
        if !fits(at.value(), schema.value_type) {
            let advice = advice(at.value(), schema).filter(|_| !self.quiet).unwrap_or_default();
            let wanted = match schema.words.is_empty() {
                true => expected(schema.value_type).to_owned(),
                false => format!("one of {}", all_of(&schema.words).join(", ")),
            };
            let text = format!("expected {wanted}, found {}{advice}", self.found(at));
            self.out.pruned.push(at.index);
            self.doubt(at, Doubt::Value);
            let around = self.unit;
            if schema.is_matches() || schema.properties.iter().any(|property| property.schema.is_matches()) {
                self.takes_nothing();
            }
            self.error(at, text);
            self.unit = around;
            return false;
        }
        let mut fine = match at.value() {
            Value::Map(_) => self.map(at, schema),
            Value::List(_) => self.list(at, schema),
            Value::String(text) => self.string(at, text, schema),
            Value::Int(number) => self.integer(at, *number, schema),
            _ => true,
        };
        let own = self.words(at, schema) & self.alternatives(at, schema);
        fine &= own;
        if !own || (!fine && !matches!(at.value(), Value::Map(_) | Value::List(_))) {
            self.doubt(at, Doubt::Value);
        }
        fine &= self.rules(at, schema, fine);
        // An empty list would mean something else.
        if !fine && !self.silent && schema.items().is_some_and(|items| items.unit == Some(UnitKind::DroppedButLast)) {
            self.out.fatal |= at.len() > 0 && at.items().all(|item| self.out.pruned.contains(&item.index));
        }
        fine
    }

    fn map(&mut self, at: Cursor<'a, 'a>, schema: &'a Schema) -> bool {
        let mut fine = self.size(at, at.len(), schema, "entries");
        if schema.value_type == Type::Any && schema.properties.is_empty() {
            return fine;
        }
        let mut known = None;
        for (name, value) in at.entries() {
            let word = name.as_str().unwrap_or_default();
            self.path.push(Step::Field(word));
            match (schema.property(word), schema.values()) {
                (Some(property), _) if property.schema.later && !property.schema.guards => self.later(name, word),
                (Some(property), _) if property.schema.later && !value.is_null() => self.unbuilt(),
                (None, None) if schema.others_guard => self.unbuilt(),
                // Where its fields stand beside it that is told instead.
                (Some(property), _) if value.is_null() && spills(at, schema, property) => {}
                (Some(property), _) if property.schema.guards && value.is_null() => {
                    self.hollow(name, word, "is empty, which is the same as without it");
                }
                // What has to have something in it says so by itself.
                (Some(property), _)
                    if property.schema.guards
                        && is_nothing(value)
                        && fits(value.value(), property.schema.value_type)
                        && !property.schema.needs_any()
                        && !self.has_defaults(at, value) =>
                {
                    // Rules may ask for something in it.
                    let is_fine = self.field(value, &property.schema);
                    fine &= is_fine;
                    if is_fine {
                        self.hollow(name, word, "has nothing in it: its defaults hold");
                    }
                }
                // Of labels to select by one without its value would be left out, and more selected.
                (None, Some(_)) if value.is_null() && schema.guards => {
                    fine = self.error(value, "a text is missing".to_owned())
                }
                (Some(_), _) | (None, Some(_)) if value.is_null() => {}
                (Some(property), _) => fine &= self.field(value, &property.schema),
                (None, Some(values)) => fine &= self.value(value, values),
                (None, None) if schema.value_type == Type::Any => {}
                (None, None) if self.unknown_fields >= MAX_UNKNOWN => self.too_many_unknown(name),
                (None, None) => {
                    self.unknown_fields += 1;
                    self.unknown(name, (word, value), known.get_or_insert_with(|| Known::of(at, schema)));
                }
            }
            self.path.pop();
        }
        self.required(at, schema) && fine
    }

    /// Whether no required field of a map is missing.
    fn required(&mut self, at: Cursor<'a, 'a>, schema: &'a Schema) -> bool {
        let mut fine = true;
        // An object has been found by these two, or by those of the list that it is in.
        let is_root = self.path.is_empty();
        let is_known = |name: &str| is_root && matches!(name, "apiVersion" | "kind");
        for property in schema.properties.iter().filter(|property| property.required && !is_known(&property.name)) {
            if at.get(&property.name).is_none() {
                self.doubt(at, Doubt::Field(&property.name));
                // Of `metadata:` with nothing below it the name was taken away.
                let (word, empty) = (&*property.name, at.entries().find(|(name, _)| name.as_str() == Some("metadata")));
                let (at, text) = match empty.filter(|_| word == "metadata") {
                    Some((name, _)) => {
                        (name, "metadata.name is missing: without a name this object is not read".to_owned())
                    }
                    None if word == "metadata" => (at, "metadata with the name is missing".to_owned()),
                    None => {
                        let meant = group_of(at, word).or_else(|| meant::named(at, property));
                        (at, format!("{word} is missing{}", meant.unwrap_or_default()))
                    }
                };
                fine = self.error(at, text);
            }
        }
        fine
    }

    /// A field, which may fail without the object.
    fn field(&mut self, at: Cursor<'a, 'a>, schema: &'a Schema) -> bool {
        let around = self.unit;
        if schema.unit == Some(UnitKind::Whole) {
            self.unit = Some(Unit::WHOLE);
        }
        let fine = self.value(at, schema);
        self.unit = around;
        fine
    }

    fn list(&mut self, at: Cursor<'a, 'a>, schema: &'a Schema) -> bool {
        let mut fine = self.size(at, at.len(), schema, "items");
        let Some(items) = schema.items() else { return fine };
        let around = (self.unit, self.dropped);
        // Of a list that is too long, which is at fault as a whole, what is too much is not looked at.
        let most = schema.limits.most as usize;
        if !self.silent && at.len() as usize > most {
            self.out.pruned.extend(at.items().skip(most).map(|item| item.index));
        }
        for (index, item) in at.items().take(most).enumerate() {
            self.path.push(Step::Item(index));
            self.enter(items, index, item);
            if !self.value(item, items) {
                fine = false;
                let stays = !self.silent && matches!(items.unit, Some(UnitKind::Item | UnitKind::Inner));
                self.out.hollow.extend((stays && !fits(item.value(), items.value_type)).then_some(item.index));
            }
            (self.unit, self.dropped) = around;
            self.path.pop();
        }
        self.unique(at, schema) && fine
    }

    /// Goes into an item that may fail alone.
    fn enter(&mut self, items: &Schema, index: usize, item: Cursor<'_, '_>) {
        match items.unit {
            Some(UnitKind::Item) => self.unit = Some(Unit { item: index, inner: None }),
            Some(UnitKind::Inner) => self.unit = self.unit.map(|unit| Unit { inner: Some(index), ..unit }),
            Some(UnitKind::Dropped | UnitKind::DroppedButLast) => self.dropped = Some(item.index),
            Some(UnitKind::Whole) | None => {}
        }
    }

    /// No two items of a set, and no two items of a list with keys, may be the same. The later one is at fault; of those that fail alone the earlier
    /// one too: which of them is meant nobody knows, and the other may be the one that guards.
    fn unique(&mut self, at: Cursor<'a, 'a>, schema: &'a Schema) -> bool {
        let (Some(items), false) = (schema.items(), schema.list == ListType::Atomic || at.len() < 2) else {
            return true;
        };
        let mut seen: BTreeMap<Vec<String>, Option<(usize, Cursor<'a, 'a>)>> = BTreeMap::new();
        let alone = items.unit == Some(UnitKind::Item);
        let mut twice = Vec::new();
        for (index, item) in at.items().take(schema.limits.most as usize).enumerate() {
            let key = match &schema.list {
                ListType::Map(names) => names
                    .iter()
                    .map(|name| {
                        let default = || items.property(name)?.schema.default_value().map(|tree| tree.root());
                        label(item.get(name).or_else(default))
                    })
                    .collect(),
                _ => vec![label(Some(item))],
            };
            match seen.entry(key) {
                Entry::Vacant(place) => drop(place.insert(alone.then_some((index, item)))),
                Entry::Occupied(mut first) => {
                    twice.extend(first.get_mut().take().map(|first| (first, "a later")));
                    twice.push(((index, item), "an earlier"));
                }
            }
        }
        twice.is_empty() || self.same(items, schema, twice)
    }

    /// Items that are the same as others: each with where the other stands.
    fn same(&mut self, items: &Schema, schema: &Schema, twice: Vec<((usize, Cursor<'a, 'a>), &'static str)>) -> bool {
        let around = (self.unit, self.dropped);
        let mut fine = true;
        // Of others the earlier one stays, or all of the list is at fault.
        let alone = items.unit == Some(UnitKind::Item);
        for ((index, item), other) in twice {
            let what = match &schema.list {
                ListType::Map(names) => {
                    let follows = if alone { ": neither is used; remove or rename one" } else { "" };
                    format!("{other} item has the same {}{follows}", names.join(" and "))
                }
                _ => "the same item occurs twice".to_owned(),
            };
            // Most likely a copy that was to be changed: nobody knows in what.
            self.doubt(item, Doubt::Value);
            self.path.push(Step::Item(index));
            self.enter(items, index, item);
            fine &= self.error(item, what);
            (self.unit, self.dropped) = around;
            self.path.pop();
        }
        fine
    }

    fn string(&mut self, at: Cursor<'a, 'a>, text: &str, schema: &Schema) -> bool {
        let limits = &schema.limits;
        let mut fine = true;
        // A string has at least a quarter as many characters as bytes.
        if text.len() < limits.least as usize || text.len() > limits.most as usize {
            fine = self.size(at, u32::try_from(text.chars().count()).unwrap_or(u32::MAX), schema, "characters");
        }
        if let Some(pattern) = schema.pattern.as_ref().filter(|pattern| fine && !pattern.matches(text)) {
            let meant = meant::host(pattern, text);
            let text = format!("expected {}, found {}{meant}", pattern.wanted(), self.found(at));
            fine = self.error(at, text);
        }
        let (holds, wanted) = match schema.format {
            None => return fine,
            Some(Format::Ipv4) => (text.parse::<Ipv4Addr>().is_ok(), "an IPv4 address"),
            Some(Format::Ipv6) => (text.parse::<Ipv6Addr>().is_ok(), "an IPv6 address"),
            Some(Format::Ip) => (text.is_empty() || is_of_one::<IpAddr>(text), "an IP address of one machine"),
            Some(Format::SliceAddress) => match self.address_type {
                Some("IPv4") => (is_of_one::<Ipv4Addr>(text), "an IPv4 address, of which addressType is"),
                Some("IPv6") => (is_of_one::<Ipv6Addr>(text), "an IPv6 address, of which addressType is"),
                _ => (!text.is_empty(), "a name"),
            },
            // Of what may be read in a Secret as well, the rest is written elsewhere.
            Some(Format::Base64) if self.quiet => {
                (crate::base64::decode(text).is_some(), "base64 (plain text goes below stringData)")
            }
            Some(Format::Base64) => (crate::base64::decode(text).is_some(), "base64"),
            Some(Format::Timestamp) => (crate::meta::Timestamp::parse(text).is_some(), "a time as in RFC 3339"),
        };
        holds && fine || {
            let text = format!("expected {wanted}, found {}", self.found(at));
            self.error(at, text)
        }
    }

    fn integer(&mut self, at: Cursor<'a, 'a>, number: i64, schema: &Schema) -> bool {
        let (least, most) = (schema.limits.minimum, schema.limits.maximum);
        if schema.value_type == Type::Any || (least..=most).contains(&number) {
            return true;
        }
        self.out.pruned.push(at.index);
        let bounds = match (least, most) {
            (least, i64::MAX) => format!("{least} or more"),
            (i64::MIN, most) => format!("{most} or less"),
            (least, most) => format!("{least} to {most}"),
        };
        self.error(at, format!("{number} is not in the range {bounds}"))
    }

    /// Bounds on characters, items or entries.
    fn size(&mut self, at: Cursor<'a, 'a>, size: u32, schema: &Schema, what: &str) -> bool {
        let (least, most) = (schema.limits.least, schema.limits.most);
        if size < least {
            self.doubt(at, Doubt::Size);
            return self.error(at, format!("has {size} {what}, at least {least} must be there"));
        }
        if size > most {
            // Rules compare items with each other: of more than there may be that would take time without bound.
            self.doubt(at, Doubt::Value);
            return self.error(at, format!("has {size} {what}, at most {most} are allowed"));
        }
        true
    }

    fn words(&mut self, at: Cursor<'a, 'a>, schema: &Schema) -> bool {
        let allowed = |word: &Word| match (word, at.value()) {
            (Word::String(one), Value::String(two)) => **one == **two,
            (Word::Int(one), Value::Int(two)) => one == two,
            _ => false,
        };
        if schema.words.is_empty() || schema.words.iter().any(allowed) {
            return true;
        }
        let all = all_of(&schema.words);
        let mut text = format!("{} is not one of {}", self.found(at), all.join(", "));
        let looks = self.nearest_left > 0;
        self.nearest_left = self.nearest_left.saturating_sub(1);
        if let Some(near) = at.as_str().filter(|_| looks).and_then(|word| nearest(word, all.iter().map(String::as_str)))
        {
            let _ = write!(text, "; did you mean {near}?");
        }
        self.error(at, text)
    }

    fn alternatives(&mut self, at: Cursor<'a, 'a>, schema: &'a Schema) -> bool {
        let holding = |checker: &mut Self, alternatives: &'a [Schema]| {
            alternatives.iter().filter(|alternative| checker.would_hold(at, schema, alternative)).count()
        };
        let mut fine = true;
        if !schema.one_of.is_empty() {
            fine = match holding(self, &schema.one_of) {
                1 => true,
                0 => self.none_holds(at, schema),
                _ => self.error(at, "this combination of fields is not valid".to_owned()),
            };
        }
        if !schema.any_of.is_empty() && holding(self, &schema.any_of) == 0 {
            fine = self.error(at, "this combination of fields is not valid".to_owned());
        }
        if schema.not.as_deref().is_some_and(|not| self.would_hold(at, schema, not)) {
            fine = self.error(at, "this combination of fields is not valid".to_owned());
        }
        fine
    }

    /// Whether a value obeys a further schema, without telling anybody. Defaults come from the value's own schema.
    fn would_hold(&mut self, at: Cursor<'a, 'a>, own: &'a Schema, further: &'a Schema) -> bool {
        let (silent, failed) = (self.silent, self.failed);
        let pruned = self.out.pruned.len();
        (self.silent, self.failed) = (true, false);
        if let Value::Map(_) = at.value() {
            for property in &further.properties {
                match (Scope { cursor: at, schema: own, doubts: None }).field(&property.name) {
                    Some(field) => drop(self.value(field.cursor, &property.schema)),
                    None => self.failed |= property.required,
                }
            }
        } else {
            self.value(at, further);
        }
        let held = !self.failed;
        (self.silent, self.failed) = (silent, failed);
        self.out.pruned.truncate(pruned);
        held
    }

    /// None of the alternatives holds: at the field that keeps the one from holding that is meant by its words, such as a `type`.
    fn none_holds(&mut self, at: Cursor<'a, 'a>, schema: &'a Schema) -> bool {
        let scope = Scope { cursor: at, schema, doubts: None };
        let says = |property: &Property| {
            let field = scope.field(&property.name).and_then(|field| field.cursor.as_str());
            property.schema.words.iter().any(|word| matches!(word, Word::String(one) if Some(&**one) == field))
        };
        let meant = schema.one_of.iter().find(|alternative| alternative.properties.iter().any(says));
        let others = meant.into_iter().flat_map(|meant| &meant.properties).filter(|property| !says(property));
        for property in others {
            let is_address = property.schema.any_of.iter().any(|one| one.format == Some(Format::Ipv4));
            if let Some(value) = at.get(&property.name).filter(|_| is_address) {
                self.path.push(Step::Field(&property.name));
                self.error(value, format!("expected an IP address, found {}", self.found(value)));
                self.path.pop();
                return false;
            }
        }
        self.error(at, "this combination of fields is not valid".to_owned())
    }

    /// The rules of a value. Where it is not `sound` (its structure, or what is in it), those that read nothing of what is at fault, so that all is told at once.
    fn rules(&mut self, at: Cursor<'a, 'a>, schema: &'a Schema, sound: bool) -> bool {
        if self.doubts.contains(&(at.index, Doubt::Value)) {
            return true;
        }
        let mut fine = true;
        let mut doubtful = Vec::new();
        let has_units = schema.items().is_some_and(|items| items.unit.is_some());
        for rule in &schema.rules {
            let scope = Scope { cursor: at, schema, doubts: (!sound).then_some(&self.doubts) };
            if has_units && let Some(failing) = rule.program.failing_items(scope) {
                fine &= self.items_fail(at, schema, failing.into_iter(), rule);
                continue;
            }
            match rule.program.holds(scope) {
                Ok(true) => continue,
                Err(error) if error.is_doubt() => continue,
                Ok(false) => fine = self.broken(at, schema, &rule.message),
                // Kubernetes refuses it too: as a rule what the rule asks for is not there.
                Err(_) => fine = self.error(at, sentence(&rule.message)),
            }
            doubtful.push(rule);
        }
        // For those around it; the rules of one value do not look at each other.
        let fields = |rule: &'a Rule| rule.program.fields().into_iter().map(Doubt::Field);
        match at.value() {
            Value::Map(_) => doubtful.into_iter().flat_map(fields).for_each(|field| self.doubt(at, field)),
            Value::List(_) => {}
            _ if doubtful.is_empty() => {}
            _ => self.doubt(at, Doubt::Value),
        }
        fine
    }

    /// A rule of a list does not hold for these items; true if there are none.
    fn items_fail(
        &mut self,
        at: Cursor<'a, 'a>,
        schema: &'a Schema,
        failing: impl Iterator<Item = usize>,
        rule: &Rule,
    ) -> bool {
        let (Some(items), mut fine) = (schema.items(), true) else { return true };
        for index in failing {
            let Some(item) = at.items().nth(index) else { continue };
            let around = (self.unit, self.dropped);
            self.path.push(Step::Item(index));
            self.enter(items, index, item);
            fine = self.error(item, sentence(&rule.message));
            (self.unit, self.dropped) = around;
            self.path.pop();
        }
        fine
    }

    /// A rule does not hold: at the field that its message begins with, if that is written.
    fn broken(&mut self, at: Cursor<'a, 'a>, schema: &'a Schema, message: &str) -> bool {
        let named = message.split_whitespace().next().and_then(|word| schema.property(word));
        let Some((property, value)) = named.and_then(|property| Some((property, at.get(&property.name)?))) else {
            return self.error(at, sentence(message));
        };
        self.path.push(Step::Field(&property.name));
        self.error(value, sentence(message) + &meant::path(message, value));
        self.path.pop();
        false
    }

    /// Without its matches a rule would take every request: its only one is at fault.
    fn takes_nothing(&mut self) {
        self.unit = self.unit.map(|unit| Unit { inner: Some(0), ..unit });
    }

    /// Settings that have to be there and all of which have a default, so that nothing in them says something: `externalAuth.http` and `.grpc`, and
    /// `tls` of a port at which clients are asked for nothing, whatever holds elsewhere, or of all ports beside those that are named.
    fn has_defaults(&self, around: Cursor<'_, '_>, value: Cursor<'_, '_>) -> bool {
        let is_one = match *self.path {
            [.., Step::Field("externalAuth"), Step::Field("http" | "grpc")]
            | [.., Step::Field("perPort"), Step::Item(_), Step::Field("tls")] => true,
            [.., Step::Field("frontend"), Step::Field("default")] => {
                let asks = |port: Cursor<'_, '_>| port.get("tls").is_some_and(|tls| tls.get("validation").is_some());
                around.get("perPort").is_some_and(|ports| ports.items().any(asks))
            }
            _ => false,
        };
        is_one && !value.is_null()
    }

    /// A guard with nothing in it: whoever wrote it meant something.
    fn hollow(&mut self, name: Cursor<'a, 'a>, word: &str, what: &str) {
        self.add(name, Severity::Warning, format!("{word} {what}"));
    }

    /// Reports a further field that is not in the API. It may be a misspelt guard: the object is not read.
    fn too_many_unknown(&mut self, name: Cursor<'a, 'a>) {
        if self.silent {
            self.failed = true;
            return;
        }
        if !self.out.fatal || !self.fatal_noted {
            let around = (self.unit.take(), self.dropped.take());
            self.error(
                name,
                format!("more than {MAX_UNKNOWN} fields of this object are not in the API: it is not read"),
            );
            (self.unit, self.dropped) = around;
        }
    }

    fn later(&mut self, name: Cursor<'a, 'a>, word: &str) {
        self.add(name, Severity::Warning, format!("{word} is not supported by this version and is ignored"));
    }

    /// Notes a guard that is not built. The use of the object says what follows from it.
    fn unbuilt(&mut self) {
        if !self.silent && self.out.guards.len() < MAX_VIOLATIONS {
            self.out.guards.push(self.field_path());
        }
    }

    /// Notes what is at fault.
    fn doubt(&mut self, at: Cursor<'a, 'a>, doubt: Doubt<'a>) {
        if !self.silent {
            self.doubts.insert((at.index, doubt));
        }
    }

    /// Notes an error; always false.
    fn error(&mut self, at: Cursor<'a, 'a>, text: String) -> bool {
        self.failed = true;
        if !self.silent {
            match (self.unit, self.dropped) {
                (_, Some(item)) => self.out.pruned.push(item),
                (None, None) => self.out.fatal = true,
                (Some(_), None) => {}
            }
        }
        self.add(at, Severity::Error, text);
        false
    }

    fn add(&mut self, at: Cursor<'a, 'a>, severity: Severity, text: String) {
        if self.silent {
            return;
        }
        let unit = self.unit.filter(|_| self.dropped.is_none() && severity == Severity::Error);
        // The first fault of each unit is kept whatever their number: without one a unit would be taken as good. So is the first of the object, without
        // which nothing would say why it is not read.
        let kept = match unit {
            Some(unit) => self.failed_units.insert(unit),
            None if severity == Severity::Error && self.dropped.is_none() => {
                !std::mem::replace(&mut self.fatal_noted, true)
            }
            None => false,
        };
        let count = self.out.violations.len();
        if count > MAX_VIOLATIONS && !kept {
            return;
        }
        let text = if count == MAX_VIOLATIONS { format!("{text} (and there are more problems)") } else { text };
        self.out.violations.push(Violation { path: self.field_path(), severity, text, start: at.start(), unit });
    }

    fn field_path(&self) -> FieldPath {
        written(&self.path, true).into()
    }

    /// A value for people: short, and nothing of a Secret.
    fn found(&self, at: Cursor<'_, '_>) -> String {
        let value = at.value();
        match value {
            Value::String(text) if !self.quiet => {
                let short: String = text.chars().take(60).collect();
                if short.len() < text.len() { format!("{short:?}...") } else { format!("{short:?}") }
            }
            Value::Int(number) if !self.quiet => number.to_string(),
            Value::Number(text) if !self.quiet && text.len() <= 60 => text.to_string(),
            Value::Bool(truth) if !self.quiet => truth.to_string(),
            other => other.type_name().to_owned(),
        }
    }
}

/// The path of these steps; without numbers it is that of every item.
fn written(steps: &[Step<'_>], numbered: bool) -> String {
    let mut path = String::new();
    for step in steps {
        let _ = match step {
            Step::Field(name) if path.is_empty() => write!(path, "{name}"),
            Step::Field(name) => write!(path, ".{name}"),
            Step::Item(index) if numbered => write!(path, "[{index}]"),
            Step::Item(_) => write!(path, "[]"),
        };
    }
    path
}

/// A message of a rule as we word problems: no capital in front, no full stop behind.
fn sentence(message: &str) -> String {
    let message = message.trim().trim_end_matches('.');
    let mut letters = message.chars();
    let first = letters.next();
    // Names of the API keep their capitals.
    let is_name = letters.as_str().chars().take_while(|letter| !letter.is_whitespace()).any(char::is_uppercase);
    match first {
        Some(first) if !is_name => first.to_lowercase().chain(letters).collect(),
        _ => message.to_owned(),
    }
}

/// Whether fields of an empty property stand beside it, where there are none of these names.
fn spills(around: Cursor<'_, '_>, schema: &Schema, empty: &Property) -> bool {
    let mut names = around.entries().filter_map(|(name, _)| name.as_str());
    names.any(|name| schema.property(name).is_none() && empty.schema.takes(name))
}

/// Whether a text is an address, and not the one that stands for all.
fn is_of_one<T: std::str::FromStr + Into<IpAddr>>(text: &str) -> bool {
    text.parse::<T>().is_ok_and(|address| !address.into().is_unspecified())
}

/// The words of a field; nobody is sent to one that is refused in turn.
fn all_of(words: &[Word]) -> Vec<String> {
    let supported = |word: &&Word| !matches!(word, Word::String(text) if REFUSED.contains(&&**text));
    let text = |word: &Word| match word {
        Word::String(text) => text.to_string(),
        Word::Int(number) => number.to_string(),
    };
    words.iter().filter(supported).map(text).collect()
}

/// How a value of the wrong type was probably meant.
fn advice(value: &Value<'_>, schema: &Schema) -> Option<String> {
    match (value, schema.value_type) {
        (Value::String(text), Type::Integer) if text.parse::<i64>().is_ok() => Some("; remove the quotes".to_owned()),
        (Value::String(_), Type::Integer) => {
            let is_port = (schema.limits.minimum, schema.limits.maximum) == (1, 65_535);
            is_port.then(|| "; write its number".to_owned())
        }
        (Value::Bool(truth), Type::String) if schema.words.is_empty() => Some(format!("; write \"{truth}\"")),
        (Value::Int(number), Type::String) => {
            schema.pattern.as_ref().filter(|pattern| pattern.is_duration()).map(|_| format!("; write {number}s"))
        }
        (Value::String(_) | Value::Int(_), Type::Object) => {
            let written = short(value)?;
            // What has to be there, or else what may be: words of a list are not meant.
            let some_required = schema.properties.iter().any(|property| property.required);
            let mut meant = schema.properties.iter().filter(|property| match some_required {
                true => property.required,
                false => property.schema.words.is_empty() && fits(value, property.schema.value_type),
            });
            let (only, more) = (meant.next()?, meant.next());
            let is_it = more.is_none() && fits(value, only.schema.value_type);
            is_it.then(|| format!("; write {{{}: {written}}}", only.name))
        }
        (Value::String(_) | Value::Int(_) | Value::Map(_), Type::List) => {
            schema.items().filter(|items| fits(value, items.value_type))?;
            Some(
                short(value)
                    .map_or_else(|| "; put it into a list".to_owned(), |written| format!("; write [{written}]")),
            )
        }
        _ => None,
    }
}

/// A text or a number as it may be written beside others.
fn short(value: &Value<'_>) -> Option<String> {
    match value {
        Value::String(text) if text.len() <= 60 => Some(format!("{text:?}")),
        Value::Int(number) => Some(number.to_string()),
        _ => None,
    }
}

/// What a reference without its group should have: nobody guesses that it is "" for a Service.
fn group_of(reference: Cursor<'_, '_>, word: &str) -> Option<String> {
    let kind = reference.get("kind").filter(|_| word == "group")?.as_str()?;
    let known = Kind::ALL.iter().find(|known| known.name() == kind)?;
    Some(format!("; of a {kind} it is {:?}", known.group()))
}

/// A value as a word that tells it from others.
fn label(at: Option<Cursor<'_, '_>>) -> String {
    match at.map(Cursor::value) {
        None => String::new(),
        Some(Value::String(text)) => format!("s{text}"),
        Some(Value::Int(number)) => format!("i{number}"),
        Some(other) => format!("{other:?}"),
    }
}

fn fits(value: &Value<'_>, wanted: Type) -> bool {
    match wanted {
        Type::Any => true,
        Type::Object => matches!(value, Value::Map(_)),
        Type::List => matches!(value, Value::List(_)),
        Type::String => matches!(value, Value::String(_)),
        Type::Integer => matches!(value, Value::Int(_)),
        Type::Number => matches!(value, Value::Int(_) | Value::Number(_)),
        Type::Boolean => matches!(value, Value::Bool(_)),
        Type::IntOrString => matches!(value, Value::Int(_) | Value::String(_)),
    }
}

fn expected(wanted: Type) -> &'static str {
    match wanted {
        Type::Any => "a value",
        Type::Object => "a map",
        Type::List => "a list",
        Type::String => "a string",
        Type::Integer => "an integer",
        Type::Number => "a number",
        Type::Boolean => "true or false",
        Type::IntOrString => "an integer or a string",
    }
}

/// Nothing at all, or a map without entries.
fn is_nothing(value: Cursor<'_, '_>) -> bool {
    match value.value() {
        Value::Null => true,
        Value::Map(_) => value.len() == 0,
        _ => false,
    }
}
