//! From text to trees: YAML (several documents, anchors, merge keys) and JSON.
//!
//! Two readers give the same trees: `fast` reads the plain block style that nearly all objects are written in, at
//! several hundred megabytes per second, and gives up on anything else; then `full`, on a complete YAML parser, reads
//! the document anew and words the errors. A property test holds them equal.

mod documents;
mod fast;
mod flow;
mod full;
mod scalar;

use std::fmt;

pub use self::documents::{Document, documents};
use crate::tree::Tree;

/// Lists and maps may be nested so deep. Kubernetes' own objects stay below 30 levels.
pub const MAX_DEPTH: u32 = 100;

/// Aliases and merge keys may copy so many values per document: `1 << 18` values of 32 bytes are 8 MiB, a thousand times
/// what objects by hand need, and a "billion laughs" text stops there.
pub const MAX_COPIED: usize = 1 << 18;

/// Texts longer than this are refused, because places are 32-bit numbers.
pub const MAX_TEXT: usize = 1 << 31;

/// Why a text is not YAML. [`crate::Origin::syntax_problem`] makes a problem with line, column and snippet of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// Byte in the document's text.
    pub at: u32,
    /// What is wrong: lower case, no full stop at the end.
    pub message: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SyntaxError {}

/// Reads one document. An empty document (blank, or comments only) is a tree that is null.
///
/// # Errors
///
/// Text that is not YAML, names that occur twice in a map, names that are not strings, unknown tags, more than
/// [`MAX_DEPTH`] levels, more than [`MAX_COPIED`] copied values.
pub fn parse(text: &str) -> Result<Tree<'_>, SyntaxError> {
    if text.len() > MAX_TEXT {
        return Err(SyntaxError { at: 0, message: format!("the document is larger than {MAX_TEXT} bytes") });
    }
    match fast::parse(text) {
        Some(tree) => Ok(tree),
        None => full::parse(text),
    }
}

/// Reads what can be read of a document that [`parse`] refuses.
pub(crate) fn parse_loosely(text: &str) -> Tree<'_> {
    full::parse_loosely(if text.len() > MAX_TEXT { "" } else { text })
}

#[cfg(test)]
mod tests;
