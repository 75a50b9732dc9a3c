//! Against another implementation: protobuf's own Python runtime, on messages of every type that are made up, and on what has to be refused.
//!
//! Both must read the same from every JSON text, under both spellings of names, and print the same of every message. What differs is in
//! [`DIFFERENCES`], with the reason.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(unreachable_pub, reason = "the generator is public to the fuzz targets, which are a workspace of their own")]

#[path = "../../../fuzz/src/messages.rs"]
mod messages;

use std::io::Write as _;
use std::process::{Command, Stdio};

use arbitrary::Unstructured;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use messages::Maker;
use protojson::{canonical, from_json, from_text, to_json};
use serde::Deserialize;
use serde_json::{Value, json};

const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.tools/grpc-clients/python-1.85.1/bin/python");
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python.py");
const DESCRIPTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/descriptors/envoy.binpb");

/// Messages that are made up, of every type at least one.
const MESSAGES: usize = 2_000;
/// Choices from which one is made.
const CHOICES: usize = 1_500;

/// What Python says of one text.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    parsed: String,
    camel: String,
    snake: String,
    again: String,
    of_bytes: String,
    error: Option<String>,
}

fn ask(questions: &[Value]) -> Vec<Answer> {
    let mut python = Command::new(PYTHON)
        .arg(SCRIPT)
        .arg(DESCRIPTORS)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{PYTHON}: {error}; run `make tools`"));
    let mut input = python.stdin.take().unwrap();
    let lines: String = questions.iter().map(|question| format!("{question}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "the script failed; run `make tools`");
    writer.join().unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Answer> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), questions.len());
    answers
}

/// A message of a type, and what was made up for it.
struct Made {
    name: String,
    text: String,
    bytes: Vec<u8>,
}

/// Made of choices that are the same each time.
fn made() -> Vec<Made> {
    let (maker, mut rng) = (Maker::envoy(), fastrand::Rng::with_seed(7));
    let names: Vec<String> = maker.names().iter().cycle().take(MESSAGES.max(maker.names().len())).cloned().collect();
    let made = names.into_iter().map(|name| {
        let choices: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(CHOICES).collect();
        let json = maker.json(&mut Unstructured::new(&choices), &name).unwrap();
        let bytes = from_json(&name, &json).unwrap_or_else(|error| panic!("{name}: {error}: {json}")).to_vec();
        Made { name, text: json.to_string(), bytes }
    });
    made.collect()
}

#[test]
fn messages_of_every_type_are_read_and_printed_alike() {
    let made = made();
    let with_any = made.iter().filter(|made| made.text.matches("@type").count() > 1).count();
    assert!(with_any > MESSAGES / 25, "only {with_any} have more than one Any");
    let questions: Vec<Value> = made.iter().map(question).collect();
    let mut failures = Vec::new();
    for (made, answer) in made.iter().zip(ask(&questions)) {
        if let Err(difference) = compare(made, &answer) {
            failures.push(format!("{}: {difference}\n  {}", made.name, made.text));
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), made.len(), failures.join("\n"));
}

fn question(made: &Made) -> Value {
    let printed =
        to_json(&made.name, &made.bytes).unwrap_or_else(|error| panic!("{}: {error}: {}", made.name, made.text));
    json!({
        "name": made.name,
        "json": made.text,
        "bytes": STANDARD.encode(&made.bytes),
        "printed": printed.to_string(),
    })
}

fn compare(made: &Made, answer: &Answer) -> Result<(), String> {
    if let Some(error) = &answer.error {
        return Err(format!("Python refuses it: {error}"));
    }
    let Made { name, bytes, .. } = made;
    for (what, theirs) in [("the text", &answer.parsed), ("what we print", &answer.again)] {
        let theirs = canonical(name, &STANDARD.decode(theirs).unwrap()).map_err(|error| error.to_string())?;
        if theirs != *bytes {
            let ours = to_json(name, bytes).map_err(|error| error.to_string())?;
            let theirs = to_json(name, &theirs).map_err(|error| error.to_string())?;
            return Err(format!("{what} is read as\n    {theirs}\n  and by us as\n    {ours}"));
        }
    }
    let ours = to_json(name, bytes).map_err(|error| error.to_string())?;
    for (what, theirs) in [("camel", &answer.camel), ("snake", &answer.snake), ("of bytes", &answer.of_bytes)] {
        let theirs: Value = serde_json::from_str(theirs).map_err(|error| format!("{what}: {error}"))?;
        if what != "snake" && !is_same(&theirs, &ours) {
            return Err(format!("printed ({what}) as\n    {theirs}\n  and by us as\n    {ours}"));
        }
        let read =
            from_json(name, &theirs).map_err(|error| format!("what Python prints ({what}) is refused: {error}"))?;
        if read != *bytes {
            return Err(format!("what Python prints ({what}) is read as something else: {theirs}"));
        }
    }
    Ok(())
}

/// Whether two values are the same to a reader of JSON, for whom 1 and 1.0 are.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let same = |(name, value): (&String, &Value)| other.get(name).is_some_and(|other| is_same(value, other));
            one.len() == other.len() && one.iter().all(same)
        }
        _ => one == other,
    }
}

const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";
const LISTENER: &str = "envoy.config.listener.v3.Listener";
const ANY: &str = "google.protobuf.Any";

/// What is refused by both: a type and a text.
const REFUSED: &[(&str, &str)] = &[
    // names
    (CLUSTER, r#"{"nmae": "a"}"#),
    (CLUSTER, r#"{"type": "STATIC", "cluster_type": {"name": "a"}}"#),
    (CLUSTER, r#"{"lbPolicy": "RING_HASHH"}"#),
    // kinds
    (CLUSTER, r#""a""#),
    (CLUSTER, "7"),
    (CLUSTER, r#"{"name": 5}"#),
    (CLUSTER, r#"{"name": true}"#),
    (CLUSTER, r#"{"name": ["a"]}"#),
    (CLUSTER, r#"{"respectDnsTtl": "true"}"#),
    (CLUSTER, r#"{"respectDnsTtl": 1}"#),
    (CLUSTER, r#"{"healthChecks": {}}"#),
    (CLUSTER, r#"{"healthChecks": [null]}"#),
    (CLUSTER, r#"{"metadata": {"filterMetadata": []}}"#),
    // integers
    ("google.protobuf.UInt32Value", "-1"),
    ("google.protobuf.UInt32Value", "4294967296"),
    ("google.protobuf.UInt32Value", "1.5"),
    ("google.protobuf.UInt32Value", r#""""#),
    ("google.protobuf.UInt32Value", r#""0x10""#),
    ("google.protobuf.UInt32Value", r#"" 1""#),
    ("google.protobuf.UInt32Value", "true"),
    ("google.protobuf.Int32Value", "2147483648"),
    ("google.protobuf.Int32Value", "-2147483649"),
    ("google.protobuf.Int64Value", "9223372036854775808"),
    ("google.protobuf.Int64Value", r#""-9223372036854775809""#),
    ("google.protobuf.UInt64Value", "18446744073709551616"),
    ("google.protobuf.UInt64Value", r#""-1""#),
    // floats, bytes
    ("google.protobuf.FloatValue", "1e39"),
    ("google.protobuf.FloatValue", r#""nan""#),
    ("google.protobuf.FloatValue", r#""""#),
    ("google.protobuf.DoubleValue", r#""a""#),
    ("google.protobuf.BytesValue", "7"),
    ("google.protobuf.BytesValue", r#""a""#),
    // times
    ("google.protobuf.Duration", "1"),
    ("google.protobuf.Duration", r#""1""#),
    ("google.protobuf.Duration", r#""s""#),
    ("google.protobuf.Duration", r#""1m""#),
    ("google.protobuf.Duration", r#""1.5.5s""#),
    ("google.protobuf.Duration", r#""315576000001s""#),
    ("google.protobuf.Duration", r#""-315576000001s""#),
    ("google.protobuf.Timestamp", "0"),
    ("google.protobuf.Timestamp", r#""2026-01-01""#),
    ("google.protobuf.Timestamp", r#""2026-01-01T00:00:00""#),
    ("google.protobuf.Timestamp", r#""2026-13-01T00:00:00Z""#),
    ("google.protobuf.Timestamp", r#""2026-02-30T00:00:00Z""#),
    ("google.protobuf.Timestamp", r#""2026-01-01T25:00:00Z""#),
    ("google.protobuf.Timestamp", r#""10000-01-01T00:00:00Z""#),
    ("google.protobuf.Timestamp", r#""0000-01-01T00:00:00Z""#),
    ("google.protobuf.FieldMask", "7"),
    ("google.protobuf.Timestamp", r#""2026-01-01T00:00Z""#),
    ("google.protobuf.Timestamp", r#""2026-01-01T00:00:00+0100""#),
    ("google.protobuf.Timestamp", r#""2026-01-01T00:00:00.1234567891Z""#),
    ("google.protobuf.Duration", r#"".5s""#),
    ("google.protobuf.Duration", r#""--1s""#),
    ("google.protobuf.Duration", r#""1e3s""#),
    ("google.protobuf.FieldMask", r#""a_b""#),
    ("google.protobuf.BytesValue", r#""a*==""#),
    (CLUSTER, r#"{"name": null, "name": "a", "name": "b"}"#),
    (CLUSTER, "null"),
    (CLUSTER, r#"{"name": "\ud800"}"#),
    (CLUSTER, r#"{"metadata": {"filterMetadata": {"a": null}}}"#),
    ("envoy.config.core.v3.DataSource", r#"{"inlineString": "a", "inlineBytes": null, "filename": "b"}"#),
    // structures
    ("google.protobuf.Struct", "[]"),
    ("google.protobuf.ListValue", "{}"),
    // Any
    (ANY, r#"{"value": "AA=="}"#),
    (ANY, r#"{"@type": 7}"#),
    (ANY, r#"{"@type": ""}"#),
    (ANY, r#"{"@type": "type.googleapis.com/google.protobuf.Duration"}"#),
    (ANY, r#"{"@type": "type.googleapis.com/google.protobuf.Empty", "value": {}}"#),
    (ANY, r#"{"@type": "type.googleapis.com/no.Such"}"#),
    (ANY, r#"{"@type": "type.googleapis.com/no.Such", "a": 1}"#),
    (ANY, r#"{"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "nmae": 1}"#),
    (ANY, r#"{"@type": "type.googleapis.com/google.protobuf.Duration", "value": "1"}"#),
    (ANY, r#"{"@type": "type.googleapis.com/google.protobuf.Any", "value": {"@type": "no.Such"}}"#),
    (LISTENER, r#"{"filterChains": [{"filters": [{"typedConfig": {"a": 1}}]}]}"#),
];

/// What one of the two refuses and the other does not: a type, a text, who takes it, and why.
const DIFFERENCES: &[(&str, &str, Takes, &str)] = &[
    (CLUSTER, r#"{"lb_policy": 0, "lbPolicy": 1}"#, Takes::Python, ALIAS),
    (CLUSTER, "[]", Takes::Python, EMPTY_LIST),
    (CLUSTER, r#"{"metadata": []}"#, Takes::Python, EMPTY_LIST),
    (CLUSTER, r#"{"lbPolicy": 1.5}"#, Takes::Python, ENUM),
    (CLUSTER, r#"{"lbPolicy": true}"#, Takes::Python, ENUM),
    (CLUSTER, r#"{"lbPolicy": 4294967296}"#, Takes::Python, ENUM),
    ("google.protobuf.FloatValue", r#""inf""#, Takes::Python, FLOAT),
    ("google.protobuf.FloatValue", "true", Takes::Python, FLOAT),
    ("google.protobuf.DoubleValue", r#""1e999""#, Takes::Python, FLOAT),
    ("google.protobuf.UInt32Value", r#""1_0""#, Takes::Python, PYTHON_NUMBERS),
    ("google.protobuf.Duration", r#"" 1s""#, Takes::Python, PYTHON_NUMBERS),
    ("google.protobuf.Duration", r#""+1s""#, Takes::Python, PYTHON_NUMBERS),
    ("google.protobuf.Duration", r#""1.s""#, Takes::Python, PYTHON_NUMBERS),
    ("google.protobuf.Duration", r#""1.1234567890s""#, Takes::Python, "no more than nine digits are kept"),
    ("google.protobuf.BytesValue", r#""AB==""#, Takes::Python, "bits that stand for nothing and would be lost"),
    ("google.protobuf.BytesValue", r#""+_==""#, Takes::Python, "two alphabets in one text"),
    (ANY, r#"{"@type": "envoy.config.cluster.v3.Cluster"}"#, Takes::Python, "Envoy wants a slash before the name"),
    (ANY, r#"{"@type": "a.b/no.Such", "value": "AA=="}"#, Takes::We, "the form in which an unknown type is printed"),
    (
        ANY,
        r#"{"@type": "a.b/google.protobuf.Duration", "value": "1s", "a": 1}"#,
        Takes::Python,
        "a field that there is not: Python looks at `value` alone",
    ),
];

const PYTHON_NUMBERS: &str = "a number has digits and a point between them: Python calls int() on each side";
const ALIAS: &str = "a field given under both names: Python keeps the last one that it sees";
const EMPTY_LIST: &str = "a list without items is no object: Python goes over its members and finds none";
const ENUM: &str =
    "an enum's value is a name or a whole number of 32 bits: Python calls int() on what is there and cuts off the rest";
const FLOAT: &str =
    "the mapping knows NaN, Infinity and -Infinity, and no flag is a number: Python calls float() on what is there";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    We,
    Python,
}

#[test]
fn what_is_refused_is_refused_by_both_but_for_what_is_listed() {
    let mut failures = Vec::new();
    let cases = REFUSED.iter().map(|(name, text)| (*name, *text, None));
    let cases: Vec<_> =
        cases.chain(DIFFERENCES.iter().map(|(name, text, takes, _)| (*name, *text, Some(*takes)))).collect();
    let questions: Vec<Value> = cases.iter().map(|(name, text, _)| json!({ "name": name, "json": text })).collect();
    for ((name, text, expected), answer) in cases.iter().zip(ask(&questions)) {
        let ours = from_text(name, text).map_err(|error| error.to_string());
        let found = [(Takes::We, ours.is_ok()), (Takes::Python, answer.error.is_none())];
        let takes: Vec<Takes> = found.into_iter().filter(|(_, takes)| *takes).map(|(who, _)| who).collect();
        if takes != expected.iter().copied().collect::<Vec<_>>() {
            failures.push(format!("{name} {text}: taken by {takes:?}\n  {:?}\n  {ours:?}", answer.error));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
