//! A message against the rules of its API, into every `Any`.

use std::fmt;

use prost_reflect::{DynamicMessage, FieldDescriptor, MapKey, ReflectMessage as _, Value};
use proto::google::protobuf::Any;

use crate::any::is_any;
use crate::error::{Path, Step};
use crate::print::key_text;
use crate::rules::{FieldRules, Rules};
use crate::well_known::WellKnown;
use crate::{MAX_DEPTH, Pool};

/// One rule that a message breaks, in words that follow its path: "must not be empty".
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Where, with camelCase names.
    pub path: Path,
    /// What the rule wants.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.0.is_empty() { write!(out, "{}", self.text) } else { write!(out, "{}: {}", self.path, self.text) }
    }
}

/// Every rule that a message breaks.
pub(crate) fn message(pool: &Pool, message: &DynamicMessage) -> Vec<Violation> {
    let mut checker = Checker { pool, place: Vec::new(), violations: Vec::new() };
    checker.message(message);
    checker.violations
}

struct Checker<'p> {
    pool: &'p Pool,
    place: Vec<Here<'p>>,
    violations: Vec<Violation>,
}

/// A [`Step`] that costs little: most are never shown.
pub(crate) enum Here<'p> {
    Ruled(&'p FieldDescriptor),
    Field(FieldDescriptor),
    Key(MapKey),
    Index(usize),
    /// Of an `Any`.
    Value,
}

impl Here<'_> {
    pub(crate) fn step(&self) -> Step {
        match self {
            Self::Ruled(field) => Step::Key(field.json_name().to_owned()),
            Self::Field(field) => Step::Key(field.json_name().to_owned()),
            Self::Key(key) => Step::Key(key_text(key)),
            Self::Index(index) => Step::Index(*index),
            Self::Value => Step::Key("value".to_owned()),
        }
    }
}

impl<'p> Checker<'p> {
    fn message(&mut self, message: &DynamicMessage) {
        let descriptor = message.descriptor();
        if is_any(&descriptor) {
            return self.any(message);
        }
        let rules = self.pool.rules().of(descriptor.full_name());
        for oneof in rules.map(|rules| rules.required_oneofs.as_slice()).unwrap_or_default() {
            if !oneof.members.iter().any(|number| message.has_field_by_number(*number)) {
                self.violation(oneof.text.clone());
            }
        }
        // Both are in the order of their numbers: the fields that are set, and those that have rules.
        let mut set = message.fields().peekable();
        for rules in rules.map(|rules| rules.fields.as_slice()).unwrap_or_default() {
            let number = rules.number;
            while let Some((field, value)) = set.next_if(|(field, _)| field.number() < number) {
                self.unruled(field, value);
            }
            let value = set.next_if(|(field, _)| field.number() == number).map(|(_, value)| value);
            if value.is_none() && rules.absent.is_empty() {
                continue;
            }
            self.within(Here::Ruled(&rules.field), |this| this.field(rules, value));
        }
        for (field, value) in set {
            self.unruled(field, value);
        }
    }

    fn unruled(&mut self, field: FieldDescriptor, value: &Value) {
        if matches!(value, Value::Message(_) | Value::List(_) | Value::Map(_)) {
            self.within(Here::Field(field), |this| this.descend(value));
        }
    }

    fn field(&mut self, rules: &FieldRules, value: Option<&Value>) {
        let Some(value) = value else { return rules.absent.iter().for_each(|text| self.violation(text.clone())) };
        self.rules(&rules.rules, value);
        if !rules.skip {
            self.descend(value);
        }
    }

    /// The tests of one value, of its items and of its entries.
    fn rules(&mut self, rules: &Rules, value: &Value) {
        let inner = unwrapped(value);
        let value = inner.as_ref().unwrap_or(value);
        for text in rules.broken(value) {
            self.violation(text.to_owned());
        }
        if let (Some(rules), Value::List(items)) = (&rules.items, value) {
            for (index, item) in items.iter().enumerate() {
                self.within(Here::Index(index), |this| this.rules(rules, item));
            }
        }
        if let Value::Map(entries) = value
            && (rules.keys.is_some() || rules.values.is_some())
        {
            let mut sorted: Vec<_> = entries.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| *key);
            for (key, value) in sorted {
                self.within(Here::Key(key.clone()), |this| {
                    for (rules, value) in [(&rules.keys, &Value::from(key.clone())), (&rules.values, value)] {
                        if let Some(rules) = rules {
                            this.rules(rules, value);
                        }
                    }
                });
            }
        }
    }

    /// Into the messages that a value is or holds.
    fn descend(&mut self, value: &Value) {
        match value {
            Value::Message(message) => self.message(message),
            Value::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.within(Here::Index(index), |this| this.descend(item));
                }
            }
            Value::Map(entries) => {
                let mut sorted: Vec<_> = entries.iter().collect();
                sorted.sort_unstable_by_key(|(key, _)| *key);
                for (key, value) in sorted {
                    self.within(Here::Key(key.clone()), |this| this.descend(value));
                }
            }
            _ => {}
        }
    }

    fn any(&mut self, message: &DynamicMessage) {
        let Ok(any) = message.transcode_to::<Any>() else { return };
        if any.type_url.is_empty() && any.value.is_empty() {
            return;
        }
        match self.pool.known(&any.type_url) {
            Ok(descriptor) => match DynamicMessage::decode(descriptor, any.value) {
                // A type with a JSON form of its own stands under `value` there.
                Ok(inner) if WellKnown::of(&inner.descriptor()).is_some() => {
                    self.within(Here::Value, |this| this.message(&inner));
                }
                Ok(inner) => self.message(&inner),
                Err(error) => self.violation(format!("invalid bytes: {error}")),
            },
            Err(reason) => self.violation(reason.to_string()),
        }
    }

    fn within(&mut self, step: Here<'p>, inner: impl FnOnce(&mut Self)) {
        self.place.push(step);
        if self.place.len() > MAX_DEPTH {
            self.violation(format!("nested deeper than {MAX_DEPTH} levels"));
        } else {
            inner(self);
        }
        self.place.pop();
    }

    fn violation(&mut self, text: String) {
        let path = Path(self.place.iter().map(Here::step).collect());
        self.violations.push(Violation { path, text });
    }
}

/// What a wrapper holds: its rules are about that.
fn unwrapped(value: &Value) -> Option<Value> {
    let message = value.as_message()?;
    let is_wrapper = WellKnown::of(&message.descriptor()) == Some(WellKnown::Wrapper);
    is_wrapper.then(|| message.get_field_by_number(1).map(std::borrow::Cow::into_owned)).flatten()
}
