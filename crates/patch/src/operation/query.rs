//! The cost of a JSONPath before it is evaluated: thirty characters can ask for hours of work, and all other authors wait for it.

use jsonpath_rust::parser::model::{
    Comparable, Filter, FilterAtom, FnArg, JpQuery, Literal, Segment, Selector, Test, TestFunction,
};
use jsonpath_rust::parser::parse_json_path;
use regex::RegexBuilder;

use super::size::Size;

/// The longest JSONPath, in bytes: some ten steps with filters.
const MOST_BYTES: usize = 1024;

/// Bytes of a path for which the evaluation takes as long as for a value: it writes the path of each value that it finds.
const PATH: u64 = 100;

/// Sizes of a compiled regular expression, in bytes: the least that is counted, and the largest. `\p{L}` has about 20 KiB.
const LEAST_REGEX: usize = 1 << 10;
const MOST_REGEX: usize = 1 << 16;

/// Bytes of a compiled regular expression for each look that compiling costs, once for each value: 64 KiB take about 0.1 ms.
const COMPILED: u64 = 64;

/// Looks that parsing a class of characters costs: large ones (`\p{L}`, `[\d&&\w]`) are computed in about 10 µs and can leave nothing to compile.
const CLASS: u64 = 100;

/// Bytes of a compiled regular expression for each look at a byte of text: one state has some 30 bytes, and each may be tried in about 5 ns.
const MATCHED: u64 = 1 << 10;

/// The costly parts of a JSONPath.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shape {
    /// Levels that are left open (`..`): each but the first multiplies the work by the depth of the document.
    descents: u32,
    /// The product of the selectors side by side in each bracket (`[0, 1]`): so often a value can be found.
    selectors: u64,
    /// Steps of all filters: each is one look for each value.
    steps: u64,
    /// Looks for each value that regular expressions cost.
    compiled: u64,
    /// Looks for each byte of text that they cost.
    matched: u64,
}

/// A JSONPath that has been checked.
pub(super) struct Query {
    /// As parsed.
    pub(super) parsed: JpQuery,
    shape: Shape,
}

impl Query {
    /// Parses a JSONPath; the error says what of it is refused. The `$` at its begin may be left out.
    pub(super) fn new(query: &str) -> Result<Self, String> {
        if query.len() > MOST_BYTES {
            return Err(format!("it is longer than {MOST_BYTES} bytes"));
        }
        // Before the parser sees it: that takes three times as long for each function inside another.
        let mut shape = shape(query)?;
        let rooted = match query.chars().next() {
            Some('$') => query.to_owned(),
            Some('.' | '[') => format!("${query}"),
            _ => format!("$.{query}"),
        };
        let parsed = parse_json_path(&rooted).map_err(|error| in_short(&error.to_string()))?;
        parsed.segments.iter().try_for_each(|segment| of_segment(segment, &mut shape))?;
        Ok(Self { parsed, shape })
    }

    /// Looks that evaluating it on a document costs at most.
    pub(super) fn work(&self, document: Size) -> u64 {
        let Shape { descents, selectors, steps, compiled, matched } = self.shape;
        let values = document.values.saturating_add(document.paths / PATH);
        let each = values.saturating_mul(steps.saturating_add(compiled).saturating_add(1));
        let times = document.depth.saturating_pow(descents.saturating_sub(1)).saturating_mul(selectors);
        each.saturating_add(document.bytes.saturating_mul(matched)).saturating_mul(times)
    }
}

/// What a parser says, without the picture that it draws.
fn in_short(error: &str) -> String {
    let last = error.lines().rev().find_map(|line| line.trim().strip_prefix("= "));
    last.unwrap_or(error.lines().next().unwrap_or_default()).trim().to_owned()
}

/// Reads the shape. A filter may compare what is in one place below `@`; a search of its own for each value would cost the square of the document.
fn shape(query: &str) -> Result<Shape, String> {
    let mut shape = Shape { selectors: 1, ..Shape::default() };
    // Of each open bracket: its selectors, and whether it holds a filter.
    let mut open: Vec<(u64, bool)> = Vec::new();
    // Of each open parenthesis: whether it holds the arguments of a function.
    let mut calls: Vec<bool> = Vec::new();
    let mut rest = query.char_indices().peekable();
    let (mut quote, mut before) = (None, ' ');
    while let Some((at, letter)) = rest.next() {
        let is_next = |wanted: &str| query.get(at..).is_some_and(|rest| rest.starts_with(wanted));
        let in_filter = open.iter().any(|(_, is_filter)| *is_filter);
        if quote.is_none() && in_filter && matches!(letter, '@' | '.' | '[') {
            shape.steps += 1;
        }
        match (quote, letter) {
            (Some(_), '\\') => drop(rest.next()),
            (Some(end), letter) if end == letter => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '?') if in_filter => return Err("it has a filter inside a filter".to_owned()),
            (None, '*' | '$' | ':') if in_filter => {
                return Err(format!("a filter of it has {letter}: it can compare what is at one place below @"));
            }
            (None, '.') if is_next("..") && in_filter => {
                return Err("a filter of it has ..: it can compare what is at one place below @".to_owned());
            }
            (None, '.') if is_next("..") => {
                shape.descents += 1;
                let _second = rest.next();
            }
            (None, '(') => {
                let is_call = before.is_alphanumeric() || before == '_';
                if is_call && calls.contains(&true) {
                    return Err("a filter of it has a function inside a function".to_owned());
                }
                calls.push(is_call);
            }
            (None, ')') => drop(calls.pop()),
            (None, '[') => open.push((1, false)),
            (None, '?') => open.iter_mut().for_each(|(_, is_filter)| *is_filter = true),
            (None, ',') => open.iter_mut().for_each(|(selectors, _)| *selectors += 1),
            (None, ']') => {
                shape.selectors = shape.selectors.saturating_mul(open.pop().map_or(1, |(selectors, _)| selectors));
            }
            _ => {}
        }
        if !letter.is_whitespace() {
            before = letter;
        }
    }
    Ok(shape)
}

/// Counts the functions of a segment.
fn of_segment(segment: &Segment, shape: &mut Shape) -> Result<(), String> {
    match segment {
        Segment::Descendant(inner) => of_segment(inner, shape),
        Segment::Selector(selector) => of_selector(selector, shape),
        Segment::Selectors(selectors) => selectors.iter().try_for_each(|selector| of_selector(selector, shape)),
    }
}

fn of_selector(selector: &Selector, shape: &mut Shape) -> Result<(), String> {
    match selector {
        Selector::Filter(filter) => of_filter(filter, shape),
        _ => Ok(()),
    }
}

fn of_filter(filter: &Filter, shape: &mut Shape) -> Result<(), String> {
    match filter {
        Filter::Or(filters) | Filter::And(filters) => filters.iter().try_for_each(|filter| of_filter(filter, shape)),
        Filter::Atom(FilterAtom::Filter { expr, .. }) => of_filter(expr, shape),
        Filter::Atom(FilterAtom::Test { expr, .. }) => match &**expr {
            Test::Function(function) => of_function(function, shape),
            Test::RelQuery(_) | Test::AbsQuery(_) => Ok(()),
        },
        Filter::Atom(FilterAtom::Comparison(comparison)) => {
            let (left, right) = comparison.vals();
            [left, right].into_iter().try_for_each(|side| match side {
                Comparable::Function(function) => of_function(function, shape),
                Comparable::Literal(_) | Comparable::SingularQuery(_) => Ok(()),
            })
        }
    }
}

/// Counts a function. Functions that are no part of RFC 9535 compare each item of a list with each of another.
fn of_function(function: &TestFunction, shape: &mut Shape) -> Result<(), String> {
    match function {
        TestFunction::Custom(name, _) => {
            Err(format!("a filter of it has {name}(): use length(), count(), value(), match() or search()"))
        }
        TestFunction::Match(_, pattern) | TestFunction::Search(_, pattern) => {
            let FnArg::Literal(Literal::String(pattern)) = pattern else {
                return Err("the pattern of match() and search() has to be a text in quotes".to_owned());
            };
            of_pattern(pattern, shape)
        }
        TestFunction::Length(_) | TestFunction::Value(_) | TestFunction::Count(_) => Ok(()),
    }
}

/// Counts a regular expression, by the size of its program: the evaluation compiles it for each value.
fn of_pattern(pattern: &str, shape: &mut Shape) -> Result<(), String> {
    if pattern.contains("(?") {
        return Err(format!("the pattern {pattern:?} has (?, which is no part of RFC 9485"));
    }
    // The evaluation anchors it for match().
    let anchored = format!("^(?:{pattern})$");
    let mut limit = LEAST_REGEX;
    while let Err(error) = RegexBuilder::new(&anchored).size_limit(limit).build() {
        if !matches!(error, regex::Error::CompiledTooBig(_)) {
            return Err(format!("the pattern {pattern:?} is no regular expression"));
        }
        if limit >= MOST_REGEX {
            return Err(format!("the pattern {pattern:?} has more than {} KiB as a program", MOST_REGEX >> 10));
        }
        limit *= 2;
    }
    let classes = pattern.bytes().filter(|byte| matches!(byte, b'\\' | b'[')).count() as u64;
    shape.compiled += limit as u64 / COMPILED + classes * CLASS + pattern.len() as u64;
    shape.matched += limit as u64 / MATCHED;
    Ok(())
}
