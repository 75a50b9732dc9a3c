//! Objects made by chance out of their schemas, for tests.

use serde_json::{Map as JsonMap, Value as Json, json};

use super::{Schema, Type};

/// Words that rules compare with, good and bad ones.
const WORDS: &[&str] =
    &["", "a", "a.b", "*.a.b", "1s", "2s", "0s", "soon", "Cluster", "k8s.io/x", "a.b/c", "10.0.0.1", "::1", "*"];

/// The same for fields of some names, so that they meet more often.
const NAMED: &[(&str, &[&str])] = &[
    ("group", &["", "gateway.networking.x-k8s.io", "gateway.networking.k8s.io", "certificates.k8s.io"]),
    ("kind", &["Service", "XBackend", "ClusterTrustBundle"]),
    ("name", &["a", "b"]),
    ("protocol", &["HTTP", "HTTPS", "TLS", "TCP"]),
    ("type", &["IPAddress", "Hostname"]),
    ("value", &["/a", "/a//b", "/x/./", "/..", "/x/../y", "/.", "%2F", "/a%2f", "/#", "X", "a.b"]),
];

/// Numbers that look like chance and are the same on every run.
pub(crate) struct Dice {
    state: u64,
    /// One value in so many has a wrong type; 0: none.
    pub(crate) wrong: usize,
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        // Seeds that follow each other would begin with nearly the same rolls.
        let mixed = (seed ^ (seed >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self { state: mixed ^ (mixed >> 31), wrong: 0 }
    }

    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.state >> 33).expect("31 bits") % sides
    }
}

/// A value of the right types for a field, but for the share that the dice say.
pub(crate) fn made((name, schema): (&str, &Schema), dice: &mut Dice, depth: u32) -> Json {
    if depth > 0 && dice.wrong > 0 && dice.roll(dice.wrong) == 0 {
        return [json!(null), json!(-1), json!("x"), json!([1]), json!({"x": 1}), json!(true), json!(1_u64 << 40)]
            [dice.roll(7)]
        .clone();
    }
    match schema.value_type {
        Type::Object => {
            let mut fields = JsonMap::new();
            for property in &schema.properties {
                // Rules run where the structure holds, so what is required is there.
                let wanted = property.required || depth < 1 || dice.roll(2) == 0;
                if wanted && !property.schema.later {
                    fields.insert(property.name.to_string(), made((&property.name, &property.schema), dice, depth + 1));
                }
            }
            if let Some(values) = schema.values() {
                (0..dice.roll(3)).for_each(|number| {
                    fields.insert(
                        format!("{}{number}", WORDS[dice.roll(WORDS.len())]),
                        made((name, values), dice, depth + 1),
                    );
                });
            }
            Json::Object(fields)
        }
        Type::List => {
            let count = dice.roll(4);
            (0..count)
                .map(|_| schema.items().map_or(Json::Null, |items| made((name, items), dice, depth + 1)))
                .collect()
        }
        Type::Integer | Type::IntOrString | Type::Number => json!(dice.roll(4)),
        Type::Boolean => json!(dice.roll(2) == 0),
        Type::String | Type::Any => word(name, schema, dice),
    }
}

fn word(name: &str, schema: &Schema, dice: &mut Dice) -> Json {
    let words = schema.words.len();
    if words > 0 && dice.roll(10) > 0 {
        return match &schema.words[dice.roll(words)] {
            super::Word::String(text) => json!(text),
            super::Word::Int(number) => json!(number),
        };
    }
    let words = NAMED.iter().find(|(of, _)| *of == name).map_or(WORDS, |(_, words)| words);
    json!(words[dice.roll(words.len())])
}
