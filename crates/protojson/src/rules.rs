//! The rules in Envoy's API (`validate.rules`, protoc-gen-validate), compiled once into tests.
//!
//! Kinds of rules that Envoy's API does not use (e-mail, URI, UUID, time stamps against now) are not compiled; a test
//! fails if a new Envoy brings one.

mod number;
mod text;

use std::collections::BTreeSet;

use hashbrown::HashMap;
use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, Value};
use proto::validate;
use proto::validate::field_rules::Type;

use crate::encode;

/// The rules of every message that has some, by full name.
#[derive(Debug, Default)]
pub(crate) struct RuleBook {
    messages: HashMap<String, MessageRules>,
    /// Rules that could not be compiled, in words. A test proves that there are none.
    pub(crate) strange: Vec<String>,
}

/// The rules of one message.
#[derive(Debug, Default)]
pub(crate) struct MessageRules {
    /// `oneof`s of which one field must be set.
    pub(crate) required_oneofs: Vec<RequiredOneof>,
    /// The rules of its fields, in the order of their numbers.
    pub(crate) fields: Vec<FieldRules>,
}

/// A `oneof` of which one field must be set.
#[derive(Debug)]
pub(crate) struct RequiredOneof {
    pub(crate) members: Vec<u32>,
    pub(crate) text: String,
}

/// The rules of one field.
#[derive(Debug)]
pub(crate) struct FieldRules {
    /// The field.
    pub(crate) field: FieldDescriptor,
    /// Its number.
    pub(crate) number: u32,
    /// What is wrong where it is absent. A scalar without presence is always there: an absent string is an empty one.
    pub(crate) absent: Vec<String>,
    /// What is inside it is not looked at.
    pub(crate) skip: bool,
    /// The rules of its value.
    pub(crate) rules: Rules,
}

/// The rules of a value.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// An empty value breaks none.
    pub(crate) ignore_empty: bool,
    pub(crate) tests: Vec<Test>,
    /// Of the items of a list.
    pub(crate) items: Option<Box<Rules>>,
    /// Of the keys of a map.
    pub(crate) keys: Option<Box<Rules>>,
    /// Of the values of a map.
    pub(crate) values: Option<Box<Rules>>,
}

/// One test of a value and the words for its failing.
pub(crate) struct Test {
    pub(crate) text: String,
    pub(crate) holds: Box<dyn Fn(&Value) -> bool + Send + Sync>,
}

impl Rules {
    /// What is wrong with a value itself.
    pub(crate) fn broken(&self, value: &Value) -> impl Iterator<Item = &str> {
        let tests = if self.ignore_empty && is_empty(value) { &[] } else { self.tests.as_slice() };
        tests.iter().filter(|test| !(test.holds)(value)).map(|test| &*test.text)
    }
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

impl std::fmt::Debug for Test {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.text)
    }
}

impl Test {
    fn new(text: impl Into<String>, holds: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Self {
        Self { text: text.into(), holds: Box::new(holds) }
    }
}

impl RuleBook {
    /// Compiles the rules of all messages of a pool.
    pub(crate) fn compile(pool: &DescriptorPool) -> Self {
        let mut book = Self::default();
        let field_rules = pool.get_extension_by_name("validate.rules");
        let required = pool.get_extension_by_name("validate.required");
        let (Some(field_rules), Some(required)) = (field_rules, required) else { return book };
        for message in pool.all_messages() {
            let mut rules =
                MessageRules { required_oneofs: required_oneofs(&message, &required), ..Default::default() };
            for field in message.fields() {
                let options = field.options();
                if !options.has_extension(&field_rules) {
                    continue;
                }
                let value = options.get_extension(&field_rules);
                rules.fields.extend(value.as_message().and_then(|value| book.field(&field, value)));
            }
            if !rules.fields.is_empty() || !rules.required_oneofs.is_empty() {
                book.messages.insert(message.full_name().to_owned(), rules);
            }
        }
        book
    }

    /// The rules of the message of that full name.
    pub(crate) fn of(&self, full_name: &str) -> Option<&MessageRules> {
        self.messages.get(full_name)
    }

    fn field(&mut self, field: &FieldDescriptor, rules: &DynamicMessage) -> Option<FieldRules> {
        let rules: validate::FieldRules = rules.transcode_to().ok()?;
        let tests = self.rules(field.full_name(), &field.kind(), &rules);
        let default = (!field.supports_presence()).then(|| field.default_value());
        // Within a oneof the rules of a field are only about the field that is set.
        let absent = match default {
            _ if is_required(&rules) && field.containing_oneof().is_none() => vec!["is required".to_owned()],
            Some(default) => tests.broken(&default).map(str::to_owned).collect(),
            None => Vec::new(),
        };
        let skip = rules.message.as_ref().is_some_and(|message| message.skip());
        Some(FieldRules { field: field.clone(), number: field.number(), absent, skip, rules: tests })
    }

    /// The rules of a value of a kind.
    fn rules(&mut self, name: &str, kind: &Kind, rules: &validate::FieldRules) -> Rules {
        let mut out = Rules::default();
        let Some(rules) = &rules.r#type else { return out };
        match rules {
            Type::Repeated(rules) => self.list(name, kind, rules, &mut out),
            Type::Map(rules) => self.map(name, kind, rules, &mut out),
            Type::Bool(rules) => out.tests.extend(
                rules
                    .r#const
                    .map(|wanted| Test::new(format!("must be {wanted}"), move |value| value.as_bool() == Some(wanted))),
            ),
            Type::Enum(rules) => enumeration(kind, rules, &mut out),
            Type::String(rules) => text::string(rules, &mut out),
            Type::Bytes(rules) => text::bytes(rules, &mut out),
            Type::Any(rules) => any(rules, &mut out),
            number => number::compile(number, &mut out),
        }
        let known = out.items.is_some() || out.keys.is_some() || out.values.is_some() || !out.tests.is_empty();
        let empty = rules.encoded_len() <= 2 || only_required(rules);
        if !known && !empty {
            self.strange.push(format!("{name}: {rules:?}"));
        }
        out
    }

    fn list(&mut self, name: &str, kind: &Kind, rules: &validate::RepeatedRules, out: &mut Rules) {
        out.ignore_empty = rules.ignore_empty();
        size(rules.min_items, rules.max_items, "items", out);
        if rules.unique() {
            let kind = kind.clone();
            out.tests.push(Test::new("must not hold one item twice", move |value| {
                let mut seen = BTreeSet::new();
                value.as_list().unwrap_or_default().iter().all(|item| seen.insert(encode::value(&kind, item)))
            }));
        }
        out.items = rules.items.as_ref().map(|rules| Box::new(self.rules(name, kind, rules)));
    }

    fn map(&mut self, name: &str, kind: &Kind, rules: &validate::MapRules, out: &mut Rules) {
        out.ignore_empty = rules.ignore_empty();
        size(rules.min_pairs, rules.max_pairs, "entries", out);
        let Kind::Message(entry) = kind else { return };
        let (key, value) = (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
        out.keys = rules.keys.as_ref().map(|rules| Box::new(self.rules(name, &key, rules)));
        out.values = rules.values.as_ref().map(|rules| Box::new(self.rules(name, &value, rules)));
    }
}

/// Whether a field must be set.
fn is_required(rules: &validate::FieldRules) -> bool {
    let by_type = match &rules.r#type {
        Some(Type::Duration(rules)) => rules.required(),
        Some(Type::Any(rules)) => rules.required(),
        Some(Type::Timestamp(rules)) => rules.required(),
        _ => false,
    };
    by_type || rules.message.as_ref().is_some_and(|message| message.required())
}

fn required_oneofs(message: &MessageDescriptor, required: &prost_reflect::ExtensionDescriptor) -> Vec<RequiredOneof> {
    let mut oneofs = Vec::new();
    for oneof in message.oneofs() {
        if oneof.options().get_extension(required).as_bool() != Some(true) {
            continue;
        }
        let names: Vec<String> = oneof.fields().map(|field| field.json_name().to_owned()).collect();
        let text = format!("one of {} is required", names.join(", "));
        oneofs.push(RequiredOneof { members: oneof.fields().map(|field| field.number()).collect(), text });
    }
    oneofs
}

fn size(min: Option<u64>, max: Option<u64>, what: &'static str, out: &mut Rules) {
    let len = |value: &Value| match value {
        Value::List(items) => items.len() as u64,
        Value::Map(entries) => entries.len() as u64,
        _ => 0,
    };
    if let Some(min) = min {
        out.tests.push(Test::new(format!("must have at least {min} {what}"), move |value| len(value) >= min));
    }
    if let Some(max) = max {
        out.tests.push(Test::new(format!("must have at most {max} {what}"), move |value| len(value) <= max));
    }
}

fn enumeration(kind: &Kind, rules: &validate::EnumRules, out: &mut Rules) {
    let Kind::Enum(descriptor) = kind else { return };
    let name = {
        let descriptor = descriptor.clone();
        move |number: &i32| descriptor.get_value(*number).map_or(number.to_string(), |value| value.name().to_owned())
    };
    let names = |numbers: &[i32]| numbers.iter().map(&name).collect::<Vec<_>>().join(", ");
    if let Some(wanted) = rules.r#const {
        let text = format!("must be {}", name(&wanted));
        out.tests.push(Test::new(text, move |value| value.as_enum_number() == Some(wanted)));
    }
    if rules.defined_only() {
        let text = format!("must be a value of {}", descriptor.full_name());
        let descriptor = descriptor.clone();
        out.tests.push(Test::new(text, move |value| {
            value.as_enum_number().is_some_and(|number| descriptor.get_value(number).is_some())
        }));
    }
    if !rules.r#in.is_empty() {
        let (text, allowed) = (format!("must be one of {}", names(&rules.r#in)), rules.r#in.clone());
        out.tests
            .push(Test::new(text, move |value| value.as_enum_number().is_some_and(|number| allowed.contains(&number))));
    }
    if !rules.not_in.is_empty() {
        let (text, refused) = (format!("must not be {}", names(&rules.not_in)), rules.not_in.clone());
        out.tests
            .push(Test::new(text, move |value| value.as_enum_number().is_none_or(|number| !refused.contains(&number))));
    }
}

fn any(rules: &validate::AnyRules, out: &mut Rules) {
    let type_url = |value: &Value| value.as_message().map(crate::any::type_url);
    if !rules.r#in.is_empty() {
        let (text, allowed) = (format!("must be a {}", rules.r#in.join(", ")), rules.r#in.clone());
        out.tests.push(Test::new(text, move |value| type_url(value).is_some_and(|url| allowed.contains(&url))));
    }
    if !rules.not_in.is_empty() {
        let (text, refused) = (format!("must not be a {}", rules.not_in.join(", ")), rules.not_in.clone());
        out.tests.push(Test::new(text, move |value| type_url(value).is_none_or(|url| !refused.contains(&url))));
    }
}

/// Rules that say no more than that the field must be set, or what an empty value means.
fn only_required(rules: &Type) -> bool {
    match rules {
        Type::Duration(rules) => *rules == validate::DurationRules { required: rules.required, ..Default::default() },
        Type::Any(rules) => *rules == validate::AnyRules { required: rules.required, ..Default::default() },
        _ => false,
    }
}
