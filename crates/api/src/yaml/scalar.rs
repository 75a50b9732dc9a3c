//! What a scalar without quotes means (YAML 1.2 core schema).

use std::borrow::Cow;

use crate::tree::Value;

/// Null, a boolean, a number, or else a string.
///
/// The words of YAML 1.1 (`yes`, `on`, `no`, `off`) are strings, as in YAML 1.2.
pub(super) fn resolve(text: Cow<'_, str>) -> Value<'_> {
    match text.as_bytes() {
        // Nearly all words: no other value starts with these letters.
        [b'a'..=b'e' | b'g'..=b'm' | b'o'..=b's' | b'u'..=b'z' | b'/' | b'_', ..] => Value::String(text),
        b"" | b"~" | b"null" | b"Null" | b"NULL" => Value::Null,
        b"true" | b"True" | b"TRUE" => Value::Bool(true),
        b"false" | b"False" | b"FALSE" => Value::Bool(false),
        [b'0'..=b'9' | b'+' | b'-' | b'.', ..] => number(text),
        _ => Value::String(text),
    }
}

fn number(text: Cow<'_, str>) -> Value<'_> {
    let bytes = text.as_bytes();
    let digits = match bytes {
        [b'+' | b'-', rest @ ..] => rest,
        all => all,
    };
    if digits.iter().all(u8::is_ascii_digit) {
        return match text.parse() {
            Ok(value) => Value::Int(value),
            Err(_) if digits.is_empty() => Value::String(text),
            Err(_) => Value::Number(text.into()),
        };
    }
    let based = match bytes {
        [b'0', b'x', ..] => text.get(2..).map(|digits| (digits, 16)),
        [b'0', b'o', ..] => text.get(2..).map(|digits| (digits, 8)),
        _ => None,
    };
    if let Some((digits, base)) = based
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        && let Ok(value) = i64::from_str_radix(digits, base)
    {
        return Value::Int(value);
    }
    if is_float(digits) || matches!(digits, b".inf" | b".Inf" | b".INF") || matches!(bytes, b".nan" | b".NaN" | b".NAN")
    {
        return Value::Number(text.into());
    }
    Value::String(text)
}

/// `[-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?`, the sign already gone.
fn is_float(bytes: &[u8]) -> bool {
    let run = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = run(bytes);
    let mut rest = bytes.get(whole..).unwrap_or_default();
    let mut fraction = 0;
    if let [b'.', tail @ ..] = rest {
        fraction = run(tail);
        rest = tail.get(fraction..).unwrap_or_default();
    }
    if whole + fraction == 0 {
        return false;
    }
    match rest {
        [] => true,
        [b'e' | b'E', b'+' | b'-', digits @ ..] | [b'e' | b'E', digits @ ..] => {
            !digits.is_empty() && run(digits) == digits.len()
        }
        _ => false,
    }
}
