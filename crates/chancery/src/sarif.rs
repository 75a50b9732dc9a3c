//! Problems as SARIF 2.1.0 (OASIS), which code reviews and editors show at their lines.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use api::{Place, Problem, Severity};
use serde_json::{Value, json};

/// The schema by which others check it.
const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// Stands for the folder that relative paths begin at, which the viewer of the log knows.
const ROOT: &str = "%SRCROOT%";

/// One log with one run. Files below `folder` have paths that begin there, so that the log is the same on every machine.
pub(crate) fn log<'p>(problems: impl Iterator<Item = &'p Problem>, folder: &Path) -> Value {
    let mut rules: BTreeMap<String, usize> = BTreeMap::new();
    let mut results: Vec<Value> = Vec::new();
    for problem in problems {
        let next = rules.len();
        let index = *rules.entry(rule(problem)).or_insert(next);
        results.push(result(problem, index, folder));
    }
    let mut rules: Vec<(String, usize)> = rules.into_iter().collect();
    rules.sort_by_key(|(_, index)| *index);
    let rules: Vec<Value> = rules.into_iter().map(|(id, _)| json!({ "id": id })).collect();
    let driver = json!({ "name": "chancery", "version": env!("CARGO_PKG_VERSION"), "rules": rules });
    let run = json!({ "tool": { "driver": driver }, "columnKind": "unicodeCodePoints", "results": results });
    json!({ "$schema": SCHEMA, "version": "2.1.0", "runs": [run] })
}

/// The reason of a refusal; otherwise the kind and the field without numbers of items, so that all findings of a field have one rule.
fn rule(problem: &Problem) -> String {
    if let Some(refusal) = problem.refusal {
        return refusal.word().to_owned();
    }
    let Some(object) = &problem.object else { return "file".to_owned() };
    let mut field = String::new();
    let mut inside = false;
    for letter in problem.path.chars() {
        inside = (inside || letter == '[') && letter != ']';
        if !inside && letter != ']' {
            field.push(letter);
        }
    }
    if field.is_empty() { object.kind_name().to_owned() } else { format!("{}/{field}", object.kind_name()) }
}

fn result(problem: &Problem, index: usize, folder: &Path) -> Value {
    let level = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let mut location = serde_json::Map::new();
    if let Some(place) = problem.place.as_ref().filter(|place| !place.file.starts_with('<')) {
        location.insert("physicalLocation".to_owned(), physical(problem, place, folder));
    }
    if let Some(object) = &problem.object {
        let path = if problem.path.is_empty() { String::new() } else { format!("/{}", &*problem.path) };
        let name = format!("{}/{}{path}", object.kind_name(), full_name(object));
        location.insert("logicalLocations".to_owned(), json!([{ "fullyQualifiedName": name }]));
    }
    let mut result =
        json!({ "ruleId": rule(problem), "ruleIndex": index, "level": level, "message": { "text": &*problem.text } });
    if let (Value::Object(fields), false) = (&mut result, location.is_empty()) {
        fields.insert("locations".to_owned(), json!([location]));
    }
    result
}

fn full_name(object: &api::ObjectKey) -> String {
    match object.namespace() {
        "" => object.name().to_owned(),
        namespace => format!("{namespace}/{}", object.name()),
    }
}

fn physical(problem: &Problem, place: &Place, folder: &Path) -> Value {
    // Lines and columns begin at 1; an object of which only the file is known has line 0.
    let mut region = json!({ "startLine": place.line.max(1), "startColumn": place.column.max(1) });
    if let (Value::Object(fields), Some(snippet)) = (&mut region, &problem.snippet) {
        fields.insert("snippet".to_owned(), json!({ "text": &**snippet }));
    }
    json!({ "artifactLocation": artifact(&place.file, folder), "region": region })
}

/// A path below the folder is relative to it, any other a URI of its own.
fn artifact(file: &str, folder: &Path) -> Value {
    let whole = plain(&folder.join(file));
    match whole.strip_prefix(plain(folder)) {
        Ok(below) => json!({ "uri": encoded(&below.to_string_lossy()), "uriBaseId": ROOT }),
        Err(_) => json!({ "uri": format!("file://{}", encoded(&whole.to_string_lossy())) }),
    }
}

/// The path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                let _at_the_root = plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// A path as that of a URI (RFC 3986): what is neither unreserved nor a slash is written by its bytes.
fn encoded(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => text.push(char::from(byte)),
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests;
