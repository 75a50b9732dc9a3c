//! Text → JSON value, and the place in the text of a path in that value.

use std::fmt;

use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;
use serde_saphyr::{Location, Spanned};

use crate::error::{Error, Path, Position, Reason, Step};

/// Parses one YAML or JSON document.
///
/// # Errors
/// A syntax error, with its place.
pub(crate) fn parse(text: &str) -> Result<Json, Error> {
    serde_saphyr::from_str(text).map_err(|error| {
        let position = error.location().and_then(position);
        let text = error.without_snippet().to_string();
        Error { path: Path::default(), position, reason: Box::new(Reason::Syntax(text)) }
    })
}

/// The error with its place in the text that it came from, if the path can be followed there.
///
/// The text is parsed a second time for that: errors are rare, and positions would make every good parse slower.
pub(crate) fn locate(error: Error, text: &str) -> Error {
    let root: Result<Spanned<Node>, _> = serde_saphyr::from_str(text);
    let position = root.ok().and_then(|root| find(&root, &error.path, error.reason.is_about_the_name()));
    Error { position, ..error }
}

/// Follows the path as far as it goes. For something that is missing this is the place of what should hold it.
fn find(root: &Spanned<Node>, path: &Path, name: bool) -> Option<Position> {
    let mut node = root;
    let mut place = node.referenced;
    for step in &path.0 {
        match (step, &node.value) {
            (Step::Index(index), Node::List(items)) => {
                node = items.get(*index)?;
                place = node.referenced;
            }
            (Step::Key(wanted), Node::Map(entries)) => {
                let Some((key, value)) = entries.iter().find(|(key, _)| key.value == *wanted) else { break };
                node = value;
                place = if name { key.referenced } else { node.referenced };
            }
            _ => break,
        }
    }
    position(place)
}

fn position(location: Location) -> Option<Position> {
    (location.line() > 0).then(|| Position { line: location.line(), column: location.column() })
}

/// The shape of a document, with places and without values.
enum Node {
    Leaf,
    List(Vec<Spanned<Node>>),
    Map(Vec<(Spanned<String>, Spanned<Node>)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

/// Scalars are all the same here.
macro_rules! leaves {
    ($($visit:ident: $kind:ty),*) => {
        $(fn $visit<E>(self, _: $kind) -> Result<Node, E> {
            Ok(Node::Leaf)
        })*
    };
}

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("any value")
    }

    leaves!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_some<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Node::Map(map))
    }

    fn visit_newtype_struct<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Node::Leaf)
    }
}
