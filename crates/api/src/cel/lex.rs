//! CEL text into tokens.

use super::CelError;

/// A token of CEL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Name(String),
    Int(i64),
    String(String),
    /// An operator or bracket.
    Mark(&'static str),
}

/// Operators and brackets, longer ones first.
const MARKS: &[&str] =
    &["&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "+", "-", "*", "?", ":", ".", ",", "(", ")", "[", "]"];

/// The tokens of a text.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, CelError> {
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = if let Some(found) = string(rest)? {
            found
        } else if first.is_ascii_alphabetic() || first == '_' {
            let length =
                rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(rest.len());
            (Token::Name(rest.get(..length).unwrap_or_default().to_owned()), length)
        } else if first.is_ascii_digit() {
            let length = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
            let digits = rest.get(..length).unwrap_or_default();
            (Token::Int(digits.parse().map_err(|_| CelError(format!("{digits} is too large")))?), length)
        } else {
            let mark = MARKS.iter().find(|mark| rest.starts_with(**mark));
            let mark = mark.ok_or_else(|| CelError(format!("{first:?} is not expected")))?;
            (Token::Mark(mark), mark.len())
        };
        out.push(token);
        rest = rest.get(length..).unwrap_or_default().trim_start();
    }
    Ok(out)
}

/// A string literal at the start of `text` and its length, if there is one.
fn string(text: &str) -> Result<Option<(Token, usize)>, CelError> {
    let raw = text.starts_with(['r', 'R']);
    let body = if raw { text.get(1..).unwrap_or_default() } else { text };
    let Some(quote) = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| body.starts_with(quote)) else {
        return Ok(None);
    };
    let inner = body.get(quote.len()..).unwrap_or_default();
    let mut out = String::new();
    let mut letters = inner.char_indices();
    while let Some((at, letter)) = letters.next() {
        if inner.get(at..).is_some_and(|rest| rest.starts_with(quote)) {
            let length = usize::from(raw) + quote.len() + at + quote.len();
            return Ok(Some((Token::String(out), length)));
        }
        if letter != '\\' || raw {
            out.push(letter);
            continue;
        }
        out.push(match letters.next().map(|(_, letter)| letter) {
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some(same @ ('\\' | '"' | '\'' | '`' | '?')) => same,
            other => return Err(CelError(format!("the escape \\{} is not known", other.unwrap_or(' ')))),
        });
    }
    Err(CelError("a string does not end".to_owned()))
}
