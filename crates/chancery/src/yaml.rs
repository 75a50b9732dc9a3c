//! JSON values as YAML text: block style, keys in the order given, strings quoted only where YAML would read something else.

use std::fmt::Write as _;

use serde_json::Value;

/// One document per value, separated by `---`.
pub(crate) fn documents<'a>(values: impl IntoIterator<Item = &'a Value>) -> String {
    let mut text = String::new();
    for (index, value) in values.into_iter().enumerate() {
        if index > 0 {
            text.push_str("---\n");
        }
        text.push_str(&document(value));
    }
    text
}

/// One value as a YAML document that ends with a line feed.
pub(crate) fn document(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => block(&mut text, value, 0),
        Value::Array(list) if !list.is_empty() => block(&mut text, value, 0),
        scalar => {
            inline(&mut text, scalar);
            text.push('\n');
        }
    }
    text
}

fn block(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let _ = write!(text, "{:indent$}{}:", "", quoted(key));
                after_colon(text, value, indent);
            }
        }
        Value::Array(list) => {
            for item in list {
                item_block(text, item, indent);
            }
        }
        scalar => inline(text, scalar),
    }
}

fn after_colon(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            text.push('\n');
            block(text, value, indent + 2);
        }
        Value::Array(list) if !list.is_empty() => {
            text.push('\n');
            block(text, value, indent);
        }
        scalar => {
            text.push(' ');
            inline(text, scalar);
            text.push('\n');
        }
    }
}

/// A list item: its first line follows the dash.
fn item_block(text: &mut String, item: &Value, indent: usize) {
    let nested =
        matches!(item, Value::Object(map) if !map.is_empty()) || matches!(item, Value::Array(list) if !list.is_empty());
    let _ = write!(text, "{:indent$}- ", "");
    if nested {
        let mut inner = String::new();
        block(&mut inner, item, indent + 2);
        text.push_str(inner.get(indent + 2..).unwrap_or_default());
    } else {
        inline(text, item);
        text.push('\n');
    }
}

fn inline(text: &mut String, value: &Value) {
    match value {
        Value::String(string) => text.push_str(&quoted(string)),
        Value::Object(_) => text.push_str("{}"),
        Value::Array(_) => text.push_str("[]"),
        other => {
            let _ = write!(text, "{other}");
        }
    }
}

/// The string as it is where that is safe, else in JSON's double quotes, which YAML reads as well.
fn quoted(string: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./ ()%~,+=".contains(c);
    let first_is_safe = string.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '_');
    let word = !matches!(
        string.to_ascii_lowercase().as_str(),
        "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n" | "nan" | "inf"
    );
    if first_is_safe && word && !string.ends_with(' ') && string.chars().all(plain) {
        string.to_owned()
    } else {
        serde_json::to_string(string).unwrap_or_default()
    }
}
