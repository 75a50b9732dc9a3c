//! The full reader: all of YAML 1.2 on a complete parser, with anchors, merge keys, and errors worded for people.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use granit_parser::{Event, Options, Parser, ScalarStyle, Span, Tag};

use super::{MAX_COPIED, MAX_DEPTH, SyntaxError, scalar};
use crate::tree::{BYTES_A_NODE, Builder, FREE_NODES, Node, Tree, Value};

/// The tree of a document, or the first thing that is wrong with it.
pub(super) fn parse(text: &str) -> Result<Tree<'_>, SyntaxError> {
    let mut reader = Reader::new(text, false);
    for event in Parser::new_from_str_with_options(text, options()) {
        let (event, span) = event.map_err(|error| {
            let at = place(text, error.marker().byte_offset(), error.marker().index());
            let plain = || SyntaxError { at, message: plain(&error.info()) };
            conflict(text).or_else(|| tab(text, at)).or_else(|| template(text, at)).unwrap_or_else(plain)
        })?;
        let known = |error: &SyntaxError| conflict(text).or_else(|| template(text, error.at));
        reader.event(event, span).map_err(|error| known(&error).unwrap_or(error))?;
        if reader.builder.is_full() {
            let at = place(text, span.start.byte_offset(), span.start.index());
            let text = format!(
                "this document has too many values for its size: at most {FREE_NODES}, and one more for {BYTES_A_NODE} bytes of its text"
            );
            return Err(error(at, text));
        }
    }
    if reader.builder.nodes.is_empty() {
        reader.builder.leaf(0, Value::Null);
    }
    Ok(Tree { nodes: reader.builder.nodes })
}

/// The tree of a document up to the first thing that keeps a parser from going on, without regard to what is wrong before it: both entries of
/// a name that occurs twice, values without their tags, merge keys as they are written.
pub(super) fn parse_loosely(text: &str) -> Tree<'_> {
    let mut reader = Reader::new(text, true);
    for event in Parser::new_from_str_with_options(text, options()) {
        let Ok((event, span)) = event else { break };
        if reader.event(event, span).is_err() || reader.builder.is_full() {
            break;
        }
    }
    reader.break_off();
    if reader.builder.nodes.is_empty() {
        reader.builder.leaf(0, Value::Null);
    }
    Tree { nodes: reader.builder.nodes }
}

fn options() -> Options {
    let mut options = Options::default();
    options.emit_comments = false;
    options
}

struct Reader<'t> {
    text: &'t str,
    /// True: faults are passed over, as far as one can go on behind them.
    loose: bool,
    builder: Builder<'t>,
    open: Vec<Open>,
    /// The values that anchors name, as trees of their own.
    anchors: BTreeMap<usize, Rc<[Node<'t>]>>,
    copied: usize,
    documents: u32,
}

/// Text, notation and tag of a scalar.
type Scalar<'t> = (Cow<'t, str>, ScalarStyle, Option<Cow<'t, Tag>>);

/// A list or map that is not complete.
struct Open {
    at: u32,
    is_map: bool,
    anchor: usize,
    /// Items, or names and values together.
    parts: u32,
    /// Names of a map that are merge keys, as indexes of nodes.
    merges: Vec<u32>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str, loose: bool) -> Self {
        Self {
            text,
            loose,
            builder: Builder::for_text(text.len()),
            open: Vec::new(),
            anchors: BTreeMap::new(),
            copied: 0,
            documents: 0,
        }
    }

    /// Closes what is open. A name without its value has none.
    fn break_off(&mut self) {
        while let Some(open) = self.open.pop() {
            let parts = if open.is_map && !open.parts.is_multiple_of(2) {
                self.builder.leaf(0, Value::Null);
                open.parts + 1
            } else {
                open.parts
            };
            let value = if open.is_map { Value::Map(parts / 2) } else { Value::List(parts) };
            self.builder.close(open.at, value);
            self.count(1);
        }
    }

    fn event(&mut self, event: Event<'t>, span: Span) -> Result<(), SyntaxError> {
        let start = place(self.text, span.start.byte_offset(), span.start.index());
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(error(start, "a second document begins here; put `---` between documents"));
                }
            }
            Event::Scalar(text, style, anchor, tag) => self.scalar((text, style, tag), anchor, start)?,
            Event::SequenceStart(_, anchor, tag) => self.begin(false, anchor, tag.as_deref(), start)?,
            Event::MappingStart(_, anchor, tag) => self.begin(true, anchor, tag.as_deref(), start)?,
            Event::SequenceEnd | Event::MappingEnd => self.end()?,
            Event::Alias(anchor) => self.alias(anchor, start)?,
            _ => {}
        }
        Ok(())
    }

    fn scalar(&mut self, scalar: Scalar<'t>, anchor: usize, start: u32) -> Result<(), SyntaxError> {
        let (text, style, tag) = scalar;
        let plain = style == ScalarStyle::Plain;
        let value = match tag.as_deref().map(|tag| tag.core_suffix()) {
            None if plain => scalar::resolve(text),
            None | Some(Some("str" | "binary")) => Value::String(text),
            Some(_) if self.loose => {
                if plain {
                    scalar::resolve(text)
                } else {
                    Value::String(text)
                }
            }
            Some(Some(wanted @ ("int" | "float" | "bool" | "null"))) => tagged(wanted, text, start)?,
            Some(_) => return Err(error(start, "this tag is not known; write the value without a tag")),
        };
        if self.wants_name() {
            return self.name(value, plain, start);
        }
        let at = self.builder.here();
        self.builder.leaf(start, value);
        self.anchor(anchor, at)?;
        self.count(1);
        Ok(())
    }

    /// A name in a map.
    fn name(&mut self, value: Value<'t>, plain: bool, start: u32) -> Result<(), SyntaxError> {
        let at = self.builder.here();
        let name = match value {
            Value::String(name) => name,
            // It is no name that anything is looked up by.
            _ if self.loose => Cow::Borrowed(""),
            other => {
                let text = format!("a name must be a string, this is {}; put quotes around it", other.type_name());
                return Err(error(start, text));
            }
        };
        if plain && name == "<<" {
            self.open.last_mut().into_iter().for_each(|open| open.merges.push(at));
        }
        self.builder.leaf(start, Value::String(name));
        self.count(1);
        Ok(())
    }

    fn begin(&mut self, is_map: bool, anchor: usize, tag: Option<&Tag>, start: u32) -> Result<(), SyntaxError> {
        let wanted = if is_map { "map" } else { "seq" };
        if !self.loose && tag.is_some_and(|tag| tag.core_suffix() != Some(wanted)) {
            return Err(error(start, "this tag is not known; write the value without a tag"));
        }
        if self.wants_name() {
            return Err(error(start, "a name must be a string, this is a list or map"));
        }
        if self.open.len() >= MAX_DEPTH as usize {
            return Err(error(start, format!("lists and maps are nested deeper than {MAX_DEPTH} levels")));
        }
        let at = self.builder.open(start);
        self.open.push(Open { at, is_map, anchor, parts: 0, merges: Vec::new() });
        Ok(())
    }

    fn end(&mut self) -> Result<(), SyntaxError> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        if open.is_map {
            let mut count = open.parts / 2;
            if let Some(node) = self.builder.duplicate(open.at, count).filter(|_| !self.loose) {
                let name = if let Value::String(name) = &node.value { name } else { "" };
                let whole = self.open.is_empty() && (name == "apiVersion" || name == "kind");
                let meant = if whole { "; is a line with --- missing before it?" } else { "" };
                return Err(error(node.start, format!("{name:?} occurs twice in this map{meant}")));
            }
            if !open.merges.is_empty() && !self.loose {
                count = self.merge(&open, count)?;
            }
            self.builder.close(open.at, Value::Map(count));
        } else {
            self.builder.close(open.at, Value::List(open.parts));
        }
        self.anchor(open.anchor, open.at)?;
        self.count(1);
        Ok(())
    }

    fn alias(&mut self, anchor: usize, start: u32) -> Result<(), SyntaxError> {
        if self.wants_name() {
            return Err(error(start, "an alias cannot be a name"));
        }
        let Some(nodes) = self.anchors.get(&anchor).cloned() else {
            return Err(error(start, "this alias stands inside the value that it names"));
        };
        self.spend(nodes.len(), start)?;
        // Places stay those of the anchor: that is where the text to mend is.
        self.append(&nodes, 0);
        self.count(1);
        Ok(())
    }

    /// Replaces the merge keys of a map by the entries of the maps that they name, entries of its own first.
    fn merge(&mut self, open: &Open, count: u32) -> Result<u32, SyntaxError> {
        let mut nodes = self.builder.nodes.split_off(open.at as usize);
        nodes.iter_mut().for_each(|node| node.end -= open.at);
        nodes.first_mut().into_iter().for_each(|root| root.value = Value::Map(count));
        let tree = Tree { nodes };
        let start = tree.root().start();
        let is_merge = |index: u32| open.merges.iter().any(|merge| merge - open.at == index);
        let (own, merged): (Vec<_>, Vec<_>) = tree.root().entries().partition(|(name, _)| !is_merge(name.index));
        let mut sources = Vec::new();
        for (_, value) in merged {
            match value.value() {
                Value::List(_) => sources.extend(value.items()),
                _ => sources.push(value),
            }
        }
        if let Some(bad) = sources.iter().find(|source| !matches!(source.value(), Value::Map(_))) {
            return Err(error(bad.start(), "a merge key takes a map or a list of maps"));
        }
        self.builder.open(start);
        let mut taken: BTreeSet<&str> = BTreeSet::new();
        for (name, value) in own.into_iter().chain(sources.into_iter().flat_map(|source| source.entries())) {
            if name.as_str().is_some_and(|name| taken.insert(name)) {
                let end = tree.node(value.index).map_or(value.index, |node| node.end);
                let part = tree.nodes.get(name.index as usize..end as usize).unwrap_or_default();
                self.spend(part.len(), name.start())?;
                self.append(part, name.index);
            }
        }
        u32::try_from(taken.len()).map_err(|_| error(start, "too many entries"))
    }

    /// Appends nodes that stood at `from`.
    fn append(&mut self, nodes: &[Node<'t>], from: u32) {
        let at = self.builder.here();
        self.builder.nodes.extend(nodes.iter().map(|node| Node { end: node.end - from + at, ..node.clone() }));
    }

    fn spend(&mut self, nodes: usize, start: u32) -> Result<(), SyntaxError> {
        self.copied += nodes;
        if self.copied > MAX_COPIED {
            return Err(error(start, format!("aliases and merge keys copy more than {MAX_COPIED} values")));
        }
        Ok(())
    }

    fn wants_name(&self) -> bool {
        self.open.last().is_some_and(|open| open.is_map && open.parts.is_multiple_of(2))
    }

    fn count(&mut self, parts: u32) {
        if let Some(open) = self.open.last_mut() {
            open.parts += parts;
        }
    }

    /// Keeps a copy of the value at `at`, if it has an anchor: a merge may move the original.
    fn anchor(&mut self, anchor: usize, at: u32) -> Result<(), SyntaxError> {
        let nodes = self.builder.nodes.get(at as usize..).unwrap_or_default();
        let start = nodes.first().map_or(0, |node| node.start);
        if anchor != 0 {
            let copy: Vec<_> = nodes.iter().map(|node| Node { end: node.end - at, ..node.clone() }).collect();
            self.spend(copy.len(), start)?;
            self.anchors.insert(anchor, copy.into());
        }
        Ok(())
    }
}

/// A scalar with a tag such as `!!int`.
fn tagged<'t>(wanted: &str, text: Cow<'t, str>, start: u32) -> Result<Value<'t>, SyntaxError> {
    let value = scalar::resolve(text);
    let fits = match value {
        Value::Int(_) => matches!(wanted, "int" | "float"),
        Value::Number(_) => wanted == "float",
        Value::Bool(_) => wanted == "bool",
        Value::Null => wanted == "null",
        _ => false,
    };
    if fits { Ok(value) } else { Err(error(start, format!("the tag !!{wanted} does not fit this value"))) }
}

/// The words of the parser, which are about its grammar, as words about what is written.
fn plain(message: &str) -> String {
    const WORDS: &[(&str, &str)] = &[
        (
            "did not find expected key",
            "this line does not fit the map around it: look at its indentation, and for a missing colon",
        ),
        (
            "did not find expected '-' indicator",
            "this line does not fit the list around it: look at its indentation, and for a missing dash",
        ),
        (
            "did not find expected node content",
            "a value is missing here, or has a character that needs quotes around it",
        ),
        ("expected ',' or ']'", "a comma or the closing ] of a list is missing"),
        ("expected ',' or '}'", "a comma or the closing } of a map is missing"),
        ("EOF while parsing a flow sequence", "the closing ] of a list is missing"),
        ("EOF while parsing a flow mapping", "the closing } of a map is missing"),
        ("EOF while parsing an implicit flow mapping", "the closing ] of a list is missing"),
        ("is only valid inside a block", "a list cannot begin here: a bracket before it may be open"),
        ("illegal placement of ':'", "a colon is not allowed here: a bracket or quote before it may be open"),
        ("unclosed bracket", "a bracket is not closed"),
        ("unclosed quote", "a quote is not closed"),
        (
            "mapping values are not allowed",
            "a colon is not allowed here: look at the indentation, or put quotes around the value",
        ),
        ("mapping keys are not allowed", "a name is not allowed here: look at the indentation"),
        ("block sequence entries are not allowed", "a list cannot begin here: write it on a line of its own"),
        ("simple key expected ':'", "a colon is missing after this name"),
        ("simple key is no longer valid", "a colon is missing after this name"),
        ("invalid indentation in multiline quoted scalar", "a quote before this line is not closed"),
        ("invalid indentation", "the indentation is wrong here"),
        ("wrongly indented line", "the indentation of this line of text is wrong"),
        ("invalid trailing content", "nothing can follow a closing quote"),
        ("unknown escape character", "this is not an escape that double quotes know; use single quotes, or write \\\\"),
        ("found unknown anchor", "there is no anchor of this name"),
        ("unexpected document indicator", "a quote is not closed before the document ends"),
    ];
    let known = WORDS.iter().find(|(theirs, _)| message.contains(theirs));
    known.map_or(message, |(_, ours)| ours).to_owned()
}

/// A line that git leaves where a merge did not succeed.
fn conflict(text: &str) -> Option<SyntaxError> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end();
        let (word, _) = bare.split_once(' ').unwrap_or((bare, ""));
        if ["<<<<<<<", ">>>>>>>", "|||||||"].contains(&word) || bare == "=======" {
            let message =
                format!("{word} is a conflict marker of git: keep one of the two versions and remove the markers");
            return Some(error(u32::try_from(start).ok()?, message));
        }
        start += line.len();
    }
    None
}

/// The usual cause of errors that are hard to understand: a tab in the indentation of this line or the next.
fn tab(text: &str, at: u32) -> Option<SyntaxError> {
    let begin = text.get(..at as usize)?.rfind('\n').map_or(0, |newline| newline + 1);
    let mut start = begin;
    for line in text.get(begin..)?.split_inclusive('\n').take(2) {
        let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
        if let Some(tab) = line.get(..indent).and_then(|indent| indent.find('\t')) {
            return Some(error(u32::try_from(start + tab).ok()?, "a tab cannot indent YAML; use spaces"));
        }
        start += line.len();
    }
    None
}

/// The braces of a template that was not rendered, in the line of an error: YAML takes them for maps.
fn template(text: &str, at: u32) -> Option<SyntaxError> {
    let begin = text.get(..at as usize)?.rfind('\n').map_or(0, |newline| newline + 1);
    let line = text.get(begin..)?.lines().next()?;
    let braces = line.find("{{").filter(|open| line.get(*open..).is_some_and(|rest| rest.contains("}}")))?;
    let message = "this looks like a template: render it first, for instance with helm template, and use the result";
    Some(error(u32::try_from(begin + braces).ok()?, message))
}

fn error(at: u32, message: impl Into<String>) -> SyntaxError {
    SyntaxError { at, message: message.into() }
}

/// The byte of a marker, which may know its character only.
fn place(text: &str, byte: Option<usize>, index: usize) -> u32 {
    let byte = byte.unwrap_or_else(|| text.char_indices().nth(index).map_or(text.len(), |(at, _)| at));
    u32::try_from(byte).unwrap_or(u32::MAX)
}
