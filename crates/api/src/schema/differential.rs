//! Every rule of every schema beside an independent implementation of CEL, on objects made by chance.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, Program, Value as Other};
use serde_json::Value as Json;

use super::Schema;
use super::chance::{Dice, made};
use crate::cel::Scope;
use crate::kind::Kind;
use crate::tree::{Cursor, Value};

/// Objects of a kind: enough that every rule meets values that it holds for and values that it does not.
const fn objects(kind: Kind) -> u64 {
    match kind {
        Kind::Gateway | Kind::ListenerSet | Kind::Backend | Kind::BackendTlsPolicy | Kind::EnvoyGateway => 300,
        Kind::XBackend | Kind::XBackendTrafficPolicy | Kind::XTelemetryPolicy => 600,
        kind if kind.is_route() => 300,
        _ => 60,
    }
}

#[test]
fn every_rule_answers_as_an_independent_implementation_does() {
    let mut seen = Seen::default();
    for kind in Kind::ALL {
        let schema = Schema::of(*kind);
        for number in 0..objects(*kind) {
            let mut dice = Dice::new(number * 1_000 + *kind as u64 + 1);
            let text = made(("", schema), &mut dice, 0).to_string();
            let tree = crate::yaml::parse(&text).expect("what was made is JSON");
            seen.compare(Scope { cursor: tree.root(), schema, doubts: None });
        }
    }
    assert!(seen.rules.len() > 90, "{} rules were compared", seen.rules.len());
    let one_sided: Vec<_> =
        seen.rules.iter().filter(|(_, sum)| sum.yes == 0 || sum.no == 0).map(|(text, _)| text).collect();
    // Rules about sizes beyond what is made here have one answer only.
    assert!(one_sided.len() <= 5, "rules with one answer only: {one_sided:#?}");
}

#[derive(Default)]
struct Seen {
    rules: BTreeMap<String, Sum>,
    programs: BTreeMap<String, Option<Program>>,
}

#[derive(Default)]
struct Sum {
    yes: u32,
    no: u32,
}

impl Seen {
    /// Compares the rules of a value and of all values below it.
    fn compare(&mut self, scope: Scope<'_>) {
        for rule in &scope.schema.rules {
            let ours = rule.program.holds(scope) == Ok(true);
            let text = rule.text.to_string();
            let program = self.programs.entry(text.clone()).or_insert_with(|| Program::compile(&text).ok());
            let Some(program) = program else { panic!("the other implementation does not compile {text}") };
            let mut context = Context::default().with_all();
            context.add_variable_from_value("self", other(scope));
            let theirs = matches!(program.execute(&context), Ok(Other::Bool(true)));
            assert_eq!(ours, theirs, "{text}\non {}", defaulted(scope));
            let sum = self.rules.entry(text).or_default();
            sum.yes += u32::from(ours);
            sum.no += u32::from(!ours);
        }
        for property in &scope.schema.properties {
            scope.field(&property.name).into_iter().for_each(|field| self.compare(field));
        }
        if scope.is_list() {
            scope.items().for_each(|item| self.compare(item));
        }
    }
}

/// A value with its defaults filled in, as the API server would show it to the rules.
fn defaulted(scope: Scope<'_>) -> Json {
    match scope.cursor.value() {
        Value::List(_) => scope.items().map(defaulted).collect(),
        Value::Map(_) => {
            let written = scope.cursor.entries().filter_map(|(name, _)| name.as_str());
            let listed = scope.schema.properties.iter().map(|property| &*property.name);
            let names: std::collections::BTreeSet<&str> = written.chain(listed).collect();
            names.into_iter().filter_map(|name| Some((name.to_owned(), defaulted(scope.field(name)?)))).collect()
        }
        _ => Cursor::to_json(scope.cursor),
    }
}

fn other(scope: Scope<'_>) -> Other {
    fn convert(value: Json) -> Other {
        match value {
            Json::Null => Other::Null,
            Json::Bool(value) => Other::Bool(value),
            Json::Number(number) => Other::Int(number.as_i64().expect("only integers are made")),
            Json::String(text) => Other::String(Arc::new(text)),
            Json::Array(items) => Other::List(Arc::new(items.into_iter().map(convert).collect())),
            Json::Object(fields) => {
                let both =
                    fields.into_iter().flat_map(|(name, value)| spellings(name).map(move |name| (name, value.clone())));
                let convert = |(name, value)| (Key::String(Arc::new(name)), convert(value));
                Other::Map(Map { map: Arc::new(both.map(convert).collect()) })
            }
        }
    }
    convert(defaulted(scope))
}

/// Rules may write a field whose name is a reserved word as it is or as `__name__`; Gateway API does both.
fn spellings(name: String) -> impl Iterator<Item = String> {
    let escaped = (name == "namespace").then(|| format!("__{name}__"));
    std::iter::once(name).chain(escaped)
}
