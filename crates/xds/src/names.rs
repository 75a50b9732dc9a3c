//! Names of the form `xdstp://authority/type/id?key=value&key=value` (TP1, the structured names of xDS), which every other part of this
//! crate takes for what it finds: text.
//!
//! Two of them are the same if they differ in the order of their context parameters only, so what comes in is brought into one order
//! ([`canonical`]). `xdstp://authority/type/path/*` is a glob collection: all resources one step below that path, with the same
//! context parameters. Who subscribes to one gets its members, and each that comes; one that goes is removed by its own name. A
//! collection that has no members is answered as a name that does not exist, and remembered.
//!
//! What of TP1 and TP2 is not served: list collections and redirects, which would be resources that somebody publishes (a kind like any
//! other); directives (`#entry=`, `#alt=`), which are instructions to a client and never asked for: such a name is one that does not
//! exist; dynamic parameters (TP2), which choose between variants of a resource: of each there is one, and a resource locator gets it
//! whatever its parameters. LEDS is served as far as it is a glob collection of `LbEndpoint`, if somebody publishes these.

use std::borrow::Cow;

#[cfg(test)]
mod tests;

/// The name that asks for everything of a kind.
pub(crate) const EVERYTHING: &str = "*";

const SCHEME: &str = "xdstp://";

/// The name with its context parameters in order.
pub(crate) fn canonical(name: &str) -> Cow<'_, str> {
    let Some((path, parameters)) = split(name).filter(|(_, parameters)| parameters.contains('&')) else {
        return Cow::Borrowed(name);
    };
    let mut sorted: Vec<&str> = parameters.split('&').collect();
    if sorted.is_sorted() {
        return Cow::Borrowed(name);
    }
    sorted.sort_unstable();
    Cow::Owned(format!("{path}?{}", sorted.join("&")))
}

/// Whether this is the name of a glob collection.
pub(crate) fn is_collection(name: &str) -> bool {
    split(name).is_some_and(|(path, _)| path.ends_with("/*"))
}

/// The glob collection that a resource of this name, in order, is in.
pub(crate) fn collection_of(name: &str) -> Option<String> {
    let (path, parameters) = split(name)?;
    let (parent, last) = path.rsplit_once('/').filter(|(parent, _)| parent.len() > SCHEME.len())?;
    let mark = if parameters.is_empty() { "" } else { "?" };
    (last != "*").then(|| format!("{parent}/*{mark}{parameters}"))
}

/// Path and context parameters of a structured name without directives.
fn split(name: &str) -> Option<(&str, &str)> {
    let structured = name.starts_with(SCHEME) && !name.contains('#');
    structured.then(|| name.split_once('?').unwrap_or((name, "")))
}
