//! Changes of headers: which are possible, and which do nothing.

use std::sync::Arc;

use api::http_route::{HeaderFilter, HeaderValue};
use ir::route::HeaderChanges;

use super::super::matching::{REPEATED, lower, repeated};
use super::{check_token, plain};

/// Changes in normal form: names in small letters, of one name the first entry counts.
pub(super) fn changes(filter: &HeaderFilter) -> Result<HeaderChanges, String> {
    let remove = filter.remove.iter().map(|name| changeable(name)).collect::<Result<_, _>>()?;
    let changes = HeaderChanges { remove, set: values(&filter.set)?, add: values(&filter.add)? };
    let mut written = changes.set.iter().chain(&changes.add);
    match written.find(|(name, _)| OF_CONNECTION.contains(&&**name)) {
        Some((name, _)) => Err(format!(
            "header {name} cannot be changed: it is about the connection, of which the proxy itself tells clients and backends"
        )),
        None => Ok(changes),
    }
}

/// Envoy takes these from every response after a route has changed it. In a request to a backend they would stay, and the backend would answer with another
/// protocol that no client asked for (RFC 9110, 7.6.1).
const OF_CONNECTION: [&str; 3] = ["connection", "upgrade", "proxy-connection"];

/// Fields that have no effect, and why: items of `set` and `add` whose name an earlier one has.
pub(super) fn ignored(filter: &HeaderFilter) -> impl Iterator<Item = (String, &'static str)> {
    [("set", &filter.set), ("add", &filter.add)].into_iter().flat_map(|(field, list)| {
        let again = repeated(list.iter().map(|header| &*header.name));
        again.map(move |index| (format!("{field}[{index}].name"), REPEATED))
    })
}

/// Of a response what is there again when it leaves.
pub(super) fn put_back(filter: &HeaderFilter) -> impl Iterator<Item = (String, &'static str)> {
    const DATE: &str = "this has no effect: a response without Date gets one from the proxy (RFC 9110, 6.6.1); leave it out, or set another value";
    let removed = filter.remove.iter().enumerate().filter(|(_, name)| name.eq_ignore_ascii_case("date"));
    removed.map(|(index, _)| (format!("remove[{index}]"), DATE))
}

/// Names and values.
type Headers = Vec<(Arc<str>, Arc<str>)>;

fn values(list: &[HeaderValue]) -> Result<Headers, String> {
    let mut out: Headers = Vec::with_capacity(list.len());
    for header in list {
        let name = changeable(&header.name)?;
        plain(&header.value, "a header value")?;
        if !out.iter().any(|(other, _)| *other == name) {
            out.push((name, (&*header.value).into()));
        }
    }
    Ok(out)
}

/// A header that a route can change: not the host, which `URLRewrite` changes, and not those that say where a message ends (RFC 9112, 6):
/// with another end its rest is the next message of the connection, which can be anybody's.
fn changeable(name: &str) -> Result<Arc<str>, String> {
    check_token(name)?;
    let name = lower(name);
    match &*name {
        "host" => Err("header Host cannot be changed, use URLRewrite.hostname".into()),
        "content-length" | "transfer-encoding" => {
            Err(format!("header {name} cannot be changed: it says where a message ends"))
        }
        _ => Ok(name),
    }
}

#[cfg(test)]
mod tests;
