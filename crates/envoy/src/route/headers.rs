//! Header changes: merging two levels into one, and Envoy's form of them.

use std::sync::Arc;

use ir::route::HeaderChanges;
use proto::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use proto::envoy::config::core::v3::{HeaderValue, HeaderValueOption};

/// Names to remove, and headers to set and add. Within one level Envoy removes, then sets, then adds.
///
/// The host and pseudo headers are left out: Envoy refuses the whole configuration that changes them here.
pub(super) fn mutations(changes: &HeaderChanges) -> (Vec<String>, Vec<HeaderValueOption>) {
    if changes.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let removed = changes.remove.iter().filter(|name| is_changeable(name)).map(|name| name.as_ref().to_owned());
    let set = changes.set.iter().map(|pair| (pair, HeaderAppendAction::OverwriteIfExistsOrAdd));
    let added = changes.add.iter().map(|pair| (pair, HeaderAppendAction::AppendIfExistsOrAdd));
    let written = set.chain(added).filter(|((name, _), _)| is_changeable(name));
    (removed.collect(), written.map(|((name, value), action)| option(name, value, action)).collect())
}

/// First the changes of `outer`, then those of `inner`, as one level.
pub(super) fn merge(outer: &HeaderChanges, inner: &HeaderChanges) -> HeaderChanges {
    if inner.is_empty() {
        return outer.clone();
    }
    let survives = |name: &Arc<str>| !inner.remove.contains(name) && !inner.set.iter().any(|(set, _)| set == name);
    let keep = |pairs: &[(Arc<str>, Arc<str>)]| -> Vec<_> {
        pairs.iter().filter(|(name, _)| survives(name)).cloned().collect()
    };
    let mut merged = HeaderChanges { remove: outer.remove.clone(), set: keep(&outer.set), add: keep(&outer.add) };
    merged.remove.extend(inner.remove.iter().filter(|name| !outer.remove.contains(name)).cloned());
    merged.set.extend(inner.set.iter().cloned());
    merged.add.extend(inner.add.iter().cloned());
    merged
}

pub(super) fn option(name: &str, value: &str, action: HeaderAppendAction) -> HeaderValueOption {
    HeaderValueOption {
        header: Some(HeaderValue { key: name.to_owned(), value: literal(value), ..HeaderValue::default() }),
        append_action: action as i32,
        keep_empty_value: value.is_empty(),
        ..HeaderValueOption::default()
    }
}

/// Envoy reads `%` as the start of a command.
pub(super) fn literal(text: &str) -> String {
    if text.contains('%') { text.replace('%', "%%") } else { text.to_owned() }
}

/// `HeaderUtility::isModifiableHeader` of Envoy.
fn is_changeable(name: &str) -> bool {
    !name.starts_with(':') && name != "host"
}
