//! A message against the rules of its API, into every `Any`.

use std::fmt;

use prost_reflect::{DynamicMessage, FieldDescriptor, ReflectMessage as _, Value};
use proto::google::protobuf::Any;

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
    let mut checker = Checker { pool, path: Path::default(), violations: Vec::new() };
    checker.message(message);
    checker.violations
}

struct Checker<'p> {
    pool: &'p Pool,
    path: Path,
    violations: Vec<Violation>,
}

impl Checker<'_> {
    fn message(&mut self, message: &DynamicMessage) {
        let descriptor = message.descriptor();
        if WellKnown::of(&descriptor) == Some(WellKnown::Any) {
            return self.any(message);
        }
        let pool = self.pool;
        let rules = pool.rules().of(descriptor.full_name());
        for oneof in rules.map(|rules| rules.required_oneofs.as_slice()).unwrap_or_default() {
            if !oneof.members.iter().any(|number| message.has_field_by_number(*number)) {
                self.violation(oneof.text.clone());
            }
        }
        for field in descriptor.fields() {
            let rules = rules.and_then(|rules| rules.fields.get(&field.number()));
            if rules.is_none() && !message.has_field(&field) {
                continue;
            }
            self.within(Step::Key(field.json_name().to_owned()), |this| this.field(message, &field, rules));
        }
    }

    fn field(&mut self, message: &DynamicMessage, field: &FieldDescriptor, rules: Option<&FieldRules>) {
        let present = message.has_field(field);
        let Some(FieldRules { required, skip, rules }) = rules else {
            if present {
                self.descend(&message.get_field(field));
            }
            return;
        };
        // Within a oneof the rules of a field are only about the field that is set.
        if *required && !present && field.containing_oneof().is_none() {
            return self.violation("is required".to_owned());
        }
        // A scalar without presence is always there: an absent string is an empty one.
        if present || !field.supports_presence() {
            let value = message.get_field(field);
            self.rules(rules, &value);
            if present && !skip {
                self.descend(&value);
            }
        }
    }

    /// The tests of one value, of its items and of its entries.
    fn rules(&mut self, rules: &Rules, value: &Value) {
        let inner = unwrapped(value);
        let value = inner.as_ref().unwrap_or(value);
        if rules.ignore_empty && is_empty(value) {
            return;
        }
        for test in &rules.tests {
            if !(test.holds)(value) {
                self.violation(test.text.clone());
            }
        }
        if let (Some(rules), Value::List(items)) = (&rules.items, value) {
            for (index, item) in items.iter().enumerate() {
                self.within(Step::Index(index), |this| this.rules(rules, item));
            }
        }
        if let Value::Map(entries) = value
            && (rules.keys.is_some() || rules.values.is_some())
        {
            let mut sorted: Vec<_> = entries.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| *key);
            for (key, value) in sorted {
                self.within(Step::Key(key_text(key)), |this| {
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
                    self.within(Step::Index(index), |this| this.descend(item));
                }
            }
            Value::Map(entries) => {
                let mut sorted: Vec<_> = entries.iter().collect();
                sorted.sort_unstable_by_key(|(key, _)| *key);
                for (key, value) in sorted {
                    self.within(Step::Key(key_text(key)), |this| this.descend(value));
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
                    self.within(Step::Key("value".to_owned()), |this| this.message(&inner));
                }
                Ok(inner) => self.message(&inner),
                Err(error) => self.violation(format!("invalid bytes: {error}")),
            },
            Err(reason) => self.violation(reason.to_string()),
        }
    }

    fn within(&mut self, step: Step, inner: impl FnOnce(&mut Self)) {
        self.path.0.push(step);
        if self.path.0.len() > MAX_DEPTH {
            self.violation(format!("nested deeper than {MAX_DEPTH} levels"));
        } else {
            inner(self);
        }
        self.path.0.pop();
    }

    fn violation(&mut self, text: String) {
        self.violations.push(Violation { path: self.path.clone(), text });
    }
}

/// What a wrapper holds: its rules are about that.
fn unwrapped(value: &Value) -> Option<Value> {
    let message = value.as_message()?;
    let is_wrapper = WellKnown::of(&message.descriptor()) == Some(WellKnown::Wrapper);
    is_wrapper.then(|| message.get_field_by_number(1).map(std::borrow::Cow::into_owned)).flatten()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::List(items) => items.is_empty(),
        Value::Map(entries) => entries.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::U32(number) => *number == 0,
        Value::U64(number) => *number == 0,
        Value::I32(number) | Value::EnumNumber(number) => *number == 0,
        Value::I64(number) => *number == 0,
        Value::F32(number) => *number == 0.0,
        Value::F64(number) => *number == 0.0,
        Value::Bool(flag) => !flag,
        Value::Message(_) => false,
    }
}
