//! JSON Patch (RFC 6902), one operation at a time, on what a JSON pointer (RFC 6901) or a JSONPath (RFC 9535) names.
//!
//! It differs from the RFC where people who patch messages of protobuf expect it: `add` makes the parents that are missing, and a
//! member `statPrefix` is found under the name `stat_prefix` that it has in the proto file.

use std::fmt::Write as _;

use jsonpath_rust::query::js_path_process;
use serde_json::{Map, Value};

pub use self::budget::Budget;
use self::query::Query;
use self::size::Size;

mod budget;
mod query;
mod size;
#[cfg(test)]
mod tests;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Action<'a> {
    /// Sets a member, or puts an item into a list; `-` is behind the last.
    Add(&'a Value),
    /// Takes it away.
    Remove,
    /// Puts another in the place of what is there.
    Replace(&'a Value),
    /// Takes what is at this pointer away and adds it.
    Move(&'a str),
    /// Adds what is at this pointer.
    Copy(&'a str),
    /// Is an error unless this is there.
    Test(&'a Value),
}

/// Where it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// A JSONPath; with it the pointer begins at each place that it finds. The `$` at its begin may be left out.
    pub query: Option<&'a str>,
    /// A JSON pointer; empty is the whole.
    pub pointer: &'a str,
}

/// Why an operation cannot be done. The document is then half done: apply it to a copy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// A member that is not there.
    #[error("{} has no {name}{}", whole(at), there(members))]
    Missing {
        /// The pointer to what lacks it.
        at: String,
        /// Its name.
        name: String,
        /// The members that are there.
        members: Vec<String>,
    },
    /// An item that is not there.
    #[error("{} has {count} items, and no place {index}", whole(at))]
    NoItem {
        /// The pointer to the list.
        at: String,
        /// The number of its items.
        count: usize,
        /// As written.
        index: String,
    },
    /// A plain value where a pointer goes on.
    #[error("{} is {kind} and has nothing inside", whole(at))]
    Plain {
        /// The pointer to it.
        at: String,
        /// What it is.
        kind: &'static str,
    },
    /// No pointer.
    #[error("{0:?} is no JSON pointer: one begins with /")]
    Pointer(String),
    /// No JSONPath.
    #[error("{0:?} is no JSONPath: {1}")]
    Query(String, String),
    /// It would become larger than anything can be.
    #[error("the resource would have more than {} values, or more than {} MiB of text", size::MOST_VALUES, size::MOST_BYTES >> 20)]
    TooLarge,
    /// The operations on the resource would together cost more than its budget.
    #[error(
        "all patches of this resource together cost too much: fewer patches, fewer jsonPath of many values, fewer of .., of commas, of match and search"
    )]
    Spent,
    /// A pointer that goes too deep.
    #[error("a JSON pointer with more than {MOST_STEPS} steps")]
    TooDeep,
    /// A JSONPath that finds nothing.
    #[error("{0} finds nothing")]
    Nothing(String),
    /// The whole, where only a part will do.
    #[error("the whole cannot be taken away, and not be moved")]
    Whole,
    /// A part that would be moved into itself.
    #[error("{0} cannot be moved into itself")]
    IntoItself(String),
    /// A test that failed.
    #[error("{} is {found}, not {wanted}", whole(at))]
    Test {
        /// Where.
        at: String,
        /// What is there.
        found: String,
        /// What should be.
        wanted: String,
    },
}

/// So many of the members that are there are named.
const NAMED: usize = 12;

/// Steps of a pointer at most: a message is never nested so deep.
const MOST_STEPS: usize = 128;

/// Places that one JSONPath may change: each is a change of its own.
const MOST_PLACES: usize = 10_000;

/// Places to which one JSONPath may copy: the whole document is measured before each.
const MOST_COPIES: usize = 100;

/// The longest value that an error quotes, in characters.
const QUOTED: usize = 60;

fn whole(at: &str) -> &str {
    if at.is_empty() { "the whole" } else { at }
}

fn there(members: &[String]) -> String {
    if members.is_empty() {
        return "; it is empty".to_owned();
    }
    let mut text =
        format!("; there is {}", members.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", "));
    if members.len() > NAMED {
        let _ = write!(text, " and {} more", members.len() - NAMED);
    }
    text
}

/// Does one operation, with work of the budget.
///
/// # Errors
/// If it cannot be done, or the budget is spent; the document may have been changed by then.
pub fn apply(
    document: &mut Value,
    action: Action<'_>,
    place: Place<'_>,
    budget: &mut Budget,
) -> Result<(), OperationError> {
    let rest = tokens(place.pointer)?;
    let Some(query) = place.query else {
        fits(document, action, &rest, 1, budget)?;
        return at(document, action, &rest, budget);
    };
    let mut found = find(document, query, budget)?;
    if action == Action::Remove {
        // Items behind one that goes move up.
        found.reverse();
    }
    if let Some(first) = found.first() {
        fits(document, action, &[first, &*rest].concat(), found.len() as u64, budget)?;
    }
    let copies = matches!(action, Action::Copy(_));
    if copies && found.len() > MOST_COPIES {
        return Err(OperationError::Query(
            query.to_owned(),
            format!("it finds more than {MOST_COPIES} places, to which nothing is copied at once"),
        ));
    }
    found.into_iter().try_for_each(|mut path| {
        path.extend_from_slice(&rest);
        if copies {
            // What is copied can be another with each.
            fits(document, action, &path, 1, budget)?;
        }
        at(document, action, &path, budget)
    })
}

/// Refuses an operation that would make the document too large, before anything is copied: the next could make it twice as large again. Takes the
/// work of measuring, copying and comparing.
fn fits(
    document: &mut Value,
    action: Action<'_>,
    path: &[String],
    times: u64,
    budget: &mut Budget,
) -> Result<(), OperationError> {
    let part = match action {
        Action::Add(value) | Action::Replace(value) | Action::Test(value) => Size::of(value),
        Action::Copy(from) => Size::of(existing(document, &tokens(from)?)?),
        Action::Remove | Action::Move(_) => return Ok(()),
    };
    budget.spend(part.work().saturating_mul(times))?;
    if matches!(action, Action::Test(_)) {
        return Ok(());
    }
    // Parents that are missing are made.
    let parents = path.iter().fold(Size::default(), |size, step| Size {
        values: size.values + 1,
        bytes: size.bytes + step.len() as u64,
        ..size
    });
    let added = Size { values: part.values + parents.values, bytes: part.bytes + parents.bytes, ..part };
    let whole = Size::of(document);
    budget.spend(whole.work())?;
    whole.with(added, times)
}

/// Does it at one place.
fn at(document: &mut Value, action: Action<'_>, path: &[String], budget: &mut Budget) -> Result<(), OperationError> {
    budget.spend(path.len() as u64)?;
    match action {
        Action::Add(value) => add(document, path, value.clone(), budget),
        Action::Remove => remove(document, path, budget).map(drop),
        Action::Replace(value) => {
            *existing(document, path)? = value.clone();
            Ok(())
        }
        Action::Move(from) => {
            let from = tokens(from)?;
            if path.len() > from.len() && path.starts_with(&from) {
                return Err(OperationError::IntoItself(pointer(&from)));
            }
            let value = remove(document, &from, budget)?;
            add(document, path, value, budget)
        }
        Action::Copy(from) => {
            let value = existing(document, &tokens(from)?)?.clone();
            add(document, path, value, budget)
        }
        Action::Test(wanted) => {
            let found = existing(document, path)?;
            if found == wanted {
                return Ok(());
            }
            Err(OperationError::Test { at: pointer(path), found: quoted(found), wanted: quoted(wanted) })
        }
    }
}

/// The steps of a pointer.
fn tokens(pointer: &str) -> Result<Vec<String>, OperationError> {
    if pointer.is_empty() {
        return Ok(Vec::new());
    }
    let steps = pointer.strip_prefix('/').ok_or_else(|| OperationError::Pointer(pointer.to_owned()))?;
    if steps.split('/').nth(MOST_STEPS).is_some() {
        return Err(OperationError::TooDeep);
    }
    Ok(steps.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect())
}

fn pointer(path: &[String]) -> String {
    path.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect()
}

/// Every place that a JSONPath finds, in the order of the document, each once.
fn find(document: &Value, query: &str, budget: &mut Budget) -> Result<Vec<Vec<String>>, OperationError> {
    let wrong = |why: String| OperationError::Query(query.to_owned(), why);
    let parsed = Query::new(query).map_err(wrong)?;
    let size = Size::of(document);
    let work = parsed.work(size);
    if budget.is_above(work) {
        return Err(wrong(format!(
            "it would cost too much on the {} values of this resource: fewer of .., of commas, of match and search",
            size.values
        )));
    }
    budget.spend(work)?;
    let nodes = js_path_process(&parsed.parsed, document).map_err(|error| wrong(error.to_string()))?;
    let mut places: Vec<*const Value> = nodes.into_iter().map(|node| std::ptr::from_ref(node.val())).collect();
    places.sort_unstable();
    let mut found = Vec::new();
    walk(document, &mut Vec::new(), &mut |path, value| {
        if found.len() <= MOST_PLACES && places.binary_search(&std::ptr::from_ref(value)).is_ok() {
            found.push(path.to_vec());
        }
    });
    if found.len() > MOST_PLACES {
        return Err(wrong(format!("it finds more than {MOST_PLACES} places")));
    }
    if found.is_empty() {
        return Err(OperationError::Nothing(query.to_owned()));
    }
    Ok(found)
}

/// Shows every value with its path.
fn walk(value: &Value, path: &mut Vec<String>, seen: &mut impl FnMut(&[String], &Value)) {
    seen(path, value);
    let mut inside = |step: String, inner: &Value, path: &mut Vec<String>| {
        path.push(step);
        walk(inner, path, &mut *seen);
        path.pop();
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(name, inner)| inside(name.clone(), inner, path)),
        Value::Array(items) => items.iter().enumerate().for_each(|(at, inner)| inside(at.to_string(), inner, path)),
        _ => {}
    }
}

/// What is at a path.
fn existing<'d>(document: &'d mut Value, path: &[String]) -> Result<&'d mut Value, OperationError> {
    let mut here = document;
    for (depth, step) in path.iter().enumerate() {
        let before = || pointer(path.get(..depth).unwrap_or_default());
        here = match here {
            Value::Object(members) => {
                let name = known(members, step);
                if !members.contains_key(&name) {
                    return Err(missing(before(), step, members));
                }
                // It is there.
                members.entry(name).or_insert(Value::Null)
            }
            Value::Array(items) => {
                let count = items.len();
                let no_item = || OperationError::NoItem { at: before(), count, index: step.clone() };
                index(step).and_then(|at| items.get_mut(at)).ok_or_else(no_item)?
            }
            plain => return Err(OperationError::Plain { at: before(), kind: kind(plain) }),
        };
    }
    Ok(here)
}

/// Takes away what is at a path.
fn remove(document: &mut Value, path: &[String], budget: &mut Budget) -> Result<Value, OperationError> {
    let (last, parents) = path.split_last().ok_or(OperationError::Whole)?;
    match existing(document, parents)? {
        Value::Object(members) => {
            let name = known(members, last);
            let missing = || missing(pointer(parents), last, members);
            if !members.contains_key(&name) {
                return Err(missing());
            }
            budget.shift(members.len())?;
            Ok(members.shift_remove(&name).unwrap_or_default())
        }
        Value::Array(items) => match index(last).filter(|at| *at < items.len()) {
            Some(at) => {
                budget.shift(items.len() - at)?;
                Ok(items.remove(at))
            }
            None => Err(OperationError::NoItem { at: pointer(parents), count: items.len(), index: last.clone() }),
        },
        plain => Err(OperationError::Plain { at: pointer(parents), kind: kind(plain) }),
    }
}

/// Puts a value at a path, with the parents that are missing.
fn add(document: &mut Value, path: &[String], value: Value, budget: &mut Budget) -> Result<(), OperationError> {
    let Some((last, parents)) = path.split_last() else {
        *document = value;
        return Ok(());
    };
    let mut here = document;
    for (depth, (step, next)) in parents.iter().zip(path.iter().skip(1)).enumerate() {
        let before = || pointer(path.get(..depth).unwrap_or_default());
        // What is to hold a place of a list is one.
        let fresh =
            || if next == "-" || index(next).is_some() { Value::Array(Vec::new()) } else { Value::Object(Map::new()) };
        here = match here {
            Value::Object(members) => {
                let name = known(members, step);
                members.entry(name).or_insert_with(fresh)
            }
            Value::Array(items) => {
                let count = items.len();
                let at = if step == "-" { Some(count) } else { index(step) };
                if at == Some(count) {
                    items.push(fresh());
                }
                let no_item = || OperationError::NoItem { at: before(), count, index: step.clone() };
                at.and_then(|at| items.get_mut(at)).ok_or_else(no_item)?
            }
            plain => return Err(OperationError::Plain { at: before(), kind: kind(plain) }),
        };
    }
    match here {
        Value::Object(members) => {
            let name = known(members, last);
            members.insert(name, value);
        }
        Value::Array(items) => {
            let at = if last == "-" { Some(items.len()) } else { index(last) };
            let Some(at) = at.filter(|at| *at <= items.len()) else {
                let (at, index) = (pointer(parents), last.clone());
                return Err(OperationError::NoItem { at, count: items.len(), index });
            };
            budget.shift(items.len() - at)?;
            items.insert(at, value);
        }
        plain => return Err(OperationError::Plain { at: pointer(parents), kind: kind(plain) }),
    }
    Ok(())
}

/// The name under which a member stands: as written, or as a proto file would write it.
fn known(members: &Map<String, Value>, step: &str) -> String {
    if members.contains_key(step) {
        return step.to_owned();
    }
    let mut snake = String::with_capacity(step.len() + 4);
    for letter in step.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    if members.contains_key(&snake) { snake } else { step.to_owned() }
}

fn missing(at: String, step: &str, members: &Map<String, Value>) -> OperationError {
    OperationError::Missing { at, name: step.to_owned(), members: members.keys().cloned().collect() }
}

/// A place in a list: no sign, no zeros in front.
fn index(step: &str) -> Option<usize> {
    let plain = step == "0" || (!step.starts_with('0') && step.bytes().all(|byte| byte.is_ascii_digit()));
    plain.then(|| step.parse().ok()).flatten()
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

fn quoted(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
