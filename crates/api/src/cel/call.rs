//! Functions of CEL and of Kubernetes' libraries for it.

use std::borrow::Cow;
use std::net::IpAddr;

use super::eval::{eval, size_of_place};
use super::value::{Failure, Slots, Val};
use super::{CelError, Expr};

/// A function; of a method the first argument is the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Size,
    StartsWith,
    EndsWith,
    Contains,
    Split,
    Substring,
    LowerAscii,
    Duration,
    IsIp,
    Format(Format),
    Validate,
    HasValue,
}

/// A format of Kubernetes' format library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Dns1123Label,
    Dns1123Subdomain,
    QualifiedName,
}

/// Name, number of arguments, function.
const FUNCTIONS: &[(&str, usize, Function)] = &[
    ("size", 1, Function::Size),
    ("startsWith", 2, Function::StartsWith),
    ("endsWith", 2, Function::EndsWith),
    ("contains", 2, Function::Contains),
    ("split", 2, Function::Split),
    ("substring", 2, Function::Substring),
    ("lowerAscii", 1, Function::LowerAscii),
    ("duration", 1, Function::Duration),
    ("isIP", 1, Function::IsIp),
    ("validate", 2, Function::Validate),
    ("hasValue", 1, Function::HasValue),
];

impl Function {
    pub(super) fn find(name: &str, arguments: usize) -> Result<Self, CelError> {
        let found = FUNCTIONS.iter().find(|(known, count, _)| *known == name && *count == arguments);
        found.map(|(.., function)| *function).ok_or_else(|| CelError(format!("the function {name} is not known")))
    }

    pub(super) fn format(name: &str) -> Result<Self, CelError> {
        match name {
            "dns1123Label" => Ok(Self::Format(Format::Dns1123Label)),
            "dns1123Subdomain" => Ok(Self::Format(Format::Dns1123Subdomain)),
            "qualifiedName" => Ok(Self::Format(Format::QualifiedName)),
            _ => Err(CelError(format!("the format {name} is not known"))),
        }
    }
}

pub(super) fn call<'a>(function: Function, arguments: &'a [Expr], slots: &mut Slots<'a>) -> Result<Val<'a>, Failure> {
    if let (Function::Size, [of]) = (function, arguments)
        && let Some(size) = size_of_place(of, slots)
    {
        return size.map(Val::Int);
    }
    let mut values = [Val::Null, Val::Null];
    for (slot, argument) in values.iter_mut().zip(arguments) {
        *slot = eval(argument, slots)?;
    }
    Ok(match (function, values) {
        (Function::Size, [value, _]) => Val::Int(size(&value)?),
        (Function::StartsWith, [Val::String(text), Val::String(part)]) => Val::Bool(text.starts_with(&*part)),
        (Function::EndsWith, [Val::String(text), Val::String(part)]) => Val::Bool(text.ends_with(&*part)),
        (Function::Contains, [Val::String(text), Val::String(part)]) => Val::Bool(text.contains(&*part)),
        (Function::Split, [Val::String(text), Val::String(separator)]) => {
            Val::List(text.split(&*separator).map(|part| Val::String(Cow::Owned(part.to_owned()))).collect())
        }
        (Function::Substring, [Val::String(text), Val::Int(start)]) => {
            let rest = substring(&text, start).ok_or(Failure("the text has no such place"))?;
            Val::String(Cow::Owned(rest.to_owned()))
        }
        (Function::LowerAscii, [Val::String(text), _]) => Val::String(Cow::Owned(text.to_ascii_lowercase())),
        (Function::Duration, [Val::String(text), _]) => {
            let duration = crate::duration::parse(&text).ok_or(Failure("the text is no duration"))?;
            Val::Duration(duration.as_nanos())
        }
        (Function::IsIp, [Val::String(text), _]) => Val::Bool(text.parse::<IpAddr>().is_ok()),
        (Function::Format(format), _) => Val::Format(format),
        (Function::Validate, [Val::Format(format), Val::String(text)]) => Val::Objection(!format.holds(&text)),
        (Function::HasValue, [Val::Objection(objection), _]) => Val::Bool(objection),
        _ => return Err(Failure("a function does not take such values")),
    })
}

/// What stands from this character on.
fn substring(text: &str, start: i64) -> Option<&str> {
    let start = usize::try_from(start).ok()?;
    let mut ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    text.get(ends.nth(start)?..)
}

/// Characters of a string, items of a list, entries of a map.
fn size(value: &Val<'_>) -> Result<i64, Failure> {
    let size = match value {
        Val::String(text) => text.chars().count(),
        Val::List(items) => items.len(),
        Val::Part(part) => part.cursor.len() as usize,
        _ => return Err(Failure("this value has no size")),
    };
    i64::try_from(size).map_err(|_| Failure("the size is too large"))
}

impl Format {
    /// RFC 1123 as Kubernetes understands it: small letters only; and the names of labels.
    fn holds(self, text: &str) -> bool {
        match self {
            Self::Dns1123Label => crate::schema::is_dns_label(text),
            Self::Dns1123Subdomain => crate::schema::is_dns_subdomain(text),
            Self::QualifiedName => crate::schema::is_qualified_name(text),
        }
    }
}
