//! `Tree`: a parsed document whose every value knows its place.
//!
//! The values stand in one list in the order of the text, each with the index behind its last descendant. There is
//! no allocation per value, and strings are borrowed from the text wherever they stand there literally.

mod de;

use std::borrow::Cow;
use std::sync::LazyLock;

use xxhash_rust::xxh3::xxh3_64;

pub use self::de::Verbatim;
pub(crate) use self::de::{DecodeError, Pruned, deserialize, verbatim};

/// One document as a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Tree<'t> {
    pub(crate) nodes: Vec<Node<'t>>,
}

/// An empty map, for what is left out or cannot be read.
pub(crate) static NOTHING: LazyLock<Tree<'static>> = LazyLock::new(|| {
    let mut builder = Builder::default();
    builder.leaf(0, Value::Map(0));
    Tree { nodes: builder.nodes }
});

/// One value, or the name of a map's entry.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node<'t> {
    /// Byte in the document's text where it starts.
    pub(crate) start: u32,
    /// Index behind the last node that belongs to it.
    pub(crate) end: u32,
    pub(crate) value: Value<'t>,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'t> {
    Null,
    Bool(bool),
    Int(i64),
    /// A number that is no 64-bit integer, as written.
    Number(Box<str>),
    String(Cow<'t, str>),
    /// So many items.
    List(u32),
    /// So many entries: a string node, then the value's nodes, for each.
    Map(u32),
}

impl Value<'_> {
    /// What it is, for people.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

impl<'t> Tree<'t> {
    /// The whole document.
    pub(crate) fn root(&self) -> Cursor<'_, 't> {
        Cursor { tree: self, index: 0 }
    }

    pub(crate) fn node(&self, index: u32) -> Option<&Node<'t>> {
        self.nodes.get(index as usize)
    }
}

/// A value in a tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a, 't> {
    pub(crate) tree: &'a Tree<'t>,
    pub(crate) index: u32,
}

impl<'a, 't> Cursor<'a, 't> {
    pub(crate) fn value(self) -> &'a Value<'t> {
        self.tree.node(self.index).map_or(&Value::Null, |node| &node.value)
    }

    /// Byte in the text where the value starts.
    pub(crate) fn start(self) -> u32 {
        self.tree.node(self.index).map_or(0, |node| node.start)
    }

    fn end(self) -> u32 {
        self.tree.node(self.index).map_or(self.index + 1, |node| node.end)
    }

    pub(crate) fn as_str(self) -> Option<&'a str> {
        match self.value() {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn is_null(self) -> bool {
        matches!(self.value(), Value::Null)
    }

    /// How many items or entries it has.
    pub(crate) fn len(self) -> u32 {
        match self.value() {
            Value::List(count) | Value::Map(count) => *count,
            _ => 0,
        }
    }

    /// The items of a list; nothing for any other value.
    pub(crate) fn items(self) -> Items<'a, 't> {
        let count = if let Value::List(count) = self.value() { *count } else { 0 };
        Items { tree: self.tree, next: self.index + 1, left: count }
    }

    /// The entries of a map; nothing for any other value.
    pub(crate) fn entries(self) -> Entries<'a, 't> {
        let count = if let Value::Map(count) = self.value() { *count } else { 0 };
        Entries { items: Items { tree: self.tree, next: self.index + 1, left: count.saturating_mul(2) } }
    }

    /// The value of a map's entry; an entry that is null is as good as none.
    pub(crate) fn get(self, name: &str) -> Option<Self> {
        self.entries()
            .find(|(key, _)| key.as_str() == Some(name))
            .map(|(_, value)| value)
            .filter(|value| !value.is_null())
    }
}

/// Items of a list.
#[derive(Debug, Clone)]
pub(crate) struct Items<'a, 't> {
    tree: &'a Tree<'t>,
    next: u32,
    left: u32,
}

impl<'a, 't> Iterator for Items<'a, 't> {
    type Item = Cursor<'a, 't>;

    fn next(&mut self) -> Option<Cursor<'a, 't>> {
        self.left = self.left.checked_sub(1)?;
        let item = Cursor { tree: self.tree, index: self.next };
        self.next = item.end();
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

/// Names and values of a map.
#[derive(Debug, Clone)]
pub(crate) struct Entries<'a, 't> {
    items: Items<'a, 't>,
}

impl<'a, 't> Iterator for Entries<'a, 't> {
    type Item = (Cursor<'a, 't>, Cursor<'a, 't>);

    fn next(&mut self) -> Option<Self::Item> {
        Some((self.items.next()?, self.items.next()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (count, _) = self.items.size_hint();
        (count / 2, Some(count / 2))
    }
}

/// Builds the list of nodes of a tree from the events of a reader.
#[derive(Debug)]
pub(crate) struct Builder<'t> {
    pub(crate) nodes: Vec<Node<'t>>,
    /// Largest number of nodes that may be added one by one.
    limit: usize,
    /// True once a node was left out because of the limit.
    full: bool,
}

impl Default for Builder<'_> {
    /// A builder of a tree whose size is bounded elsewhere.
    fn default() -> Self {
        Self { nodes: Vec::new(), limit: usize::MAX, full: false }
    }
}

/// Values that any document may have: 8 MiB of them, at 32 bytes each.
pub(crate) const FREE_NODES: usize = 1 << 18;

/// Bytes of a document for which it may have one value more. Objects as an API server writes them, without blanks, have six bytes a value. So a tree has 6.4
/// times the bytes of its text at most, and 8 MiB.
pub(crate) const BYTES_A_NODE: usize = 5;

/// For texts of this size all the room is reserved that they may need: what is not used costs no memory, and a growing list would be there twice.
const LARGE_TEXT: usize = 1 << 20;

impl<'t> Builder<'t> {
    /// A builder for a text of so many bytes.
    pub(crate) fn for_text(bytes: usize) -> Self {
        let limit = FREE_NODES + bytes / BYTES_A_NODE;
        let mut nodes = Vec::new();
        // Block YAML of Kubernetes objects has about one node per ten bytes.
        let is_reserved = bytes >= LARGE_TEXT && nodes.try_reserve_exact(limit).is_ok();
        if !is_reserved {
            nodes.reserve(bytes / 10 + 16);
        }
        Self { nodes, limit, full: false }
    }

    /// Returns true if the text has more values than one of its size may have.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    fn push(&mut self, node: Node<'t>) {
        self.full |= self.nodes.len() >= self.limit;
        if !self.full {
            self.nodes.push(node);
        }
    }

    pub(crate) fn leaf(&mut self, start: u32, value: Value<'t>) {
        let end = self.here() + 1;
        self.push(Node { start, end, value });
    }

    /// Opens a list or map; [`Self::close`] wants its index back.
    pub(crate) fn open(&mut self, start: u32) -> u32 {
        let at = self.here();
        self.push(Node { start, end: at + 1, value: Value::Null });
        at
    }

    pub(crate) fn close(&mut self, at: u32, value: Value<'t>) {
        let end = self.here();
        if let Some(node) = self.nodes.get_mut(at as usize) {
            node.end = end;
            node.value = value;
        }
    }

    /// The index of the next node.
    pub(crate) fn here(&self) -> u32 {
        u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)
    }

    /// A name that the map of so many entries at `at` has twice: the second one.
    pub(crate) fn duplicate(&self, at: u32, count: u32) -> Option<&Node<'t>> {
        let mut names = Vec::with_capacity(if count as usize > FEW { count as usize } else { 0 });
        let mut few: [&str; FEW] = [""; FEW];
        let mut next = at + 1;
        for seen in 0..count {
            let node = self.nodes.get(next as usize)?;
            let Value::String(name) = &node.value else { return None };
            if count as usize > FEW {
                // A hash in place of the name: half the memory, and most comparisons touch no name.
                names.push((xxh3_64(name.as_bytes()) as u32, next));
            } else {
                let before = few.get(..seen as usize).unwrap_or_default();
                if before.contains(&&**name) {
                    return Some(node);
                }
                few.get_mut(seen as usize).map(|slot| *slot = name)?;
            }
            next = self.nodes.get(next as usize + 1)?.end;
        }
        names.sort_unstable();
        let groups = names.chunk_by_mut(|one, two| one.0 == two.0).filter(|group| group.len() > 1);
        let second = groups.filter_map(|group| self.second(group)).min()?;
        self.nodes.get(second as usize)
    }

    /// Returns the first name that repeats another one, among names with one hash.
    fn second(&self, group: &mut [(u32, u32)]) -> Option<u32> {
        let name = |index: u32| self.nodes.get(index as usize).map(|node| &node.value);
        let text = |index: u32| if let Some(Value::String(text)) = name(index) { &**text } else { "" };
        group.sort_unstable_by(|one, two| text(one.1).cmp(text(two.1)).then(one.1.cmp(&two.1)));
        let pairs = group.windows(2).filter_map(|pair| match pair {
            [one, two] if text(one.1) == text(two.1) => Some(two.1),
            _ => None,
        });
        pairs.min()
    }
}

/// Maps up to this many entries are compared entry by entry, larger ones are sorted.
const FEW: usize = 16;

#[cfg(test)]
impl Tree<'_> {
    /// The tree as JSON, for tests.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        self.root().to_json()
    }
}

#[cfg(test)]
impl Cursor<'_, '_> {
    pub(crate) fn to_json(self) -> serde_json::Value {
        match self.value() {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Int(value) => (*value).into(),
            Value::Number(text) => serde_json::json!({ "number": text }),
            Value::String(text) => text.to_string().into(),
            Value::List(_) => self.items().map(Self::to_json).collect(),
            Value::Map(_) => self
                .entries()
                .map(|(name, value)| (name.as_str().unwrap_or_default().to_owned(), value.to_json()))
                .collect(),
        }
    }
}
