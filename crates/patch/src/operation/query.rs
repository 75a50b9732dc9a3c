//! Bounds of what a JSONPath costs: thirty characters can ask for hours of work, and all other authors wait for it.

use serde_json::Value;

use super::size::Size;

/// The longest JSONPath, in bytes: some ten steps with filters.
const MOST_BYTES: usize = 1024;

/// What evaluating a JSONPath may cost, in values that are looked at. Each takes about 100 ns and 100 bytes: 0.1 s and 100 MB.
const MOST_COST: u64 = 1_000_000;

/// Values whose look costs as much as one regular expression: it is compiled again for each value that the filter sees.
const REGEX: u64 = 1_000;

/// What of a JSONPath makes it costly.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shape {
    /// Levels that are left open (`..`): each but the first multiplies the work by the depth of the document.
    descents: u32,
    /// The product of the selectors side by side in each bracket (`[0, 1]`): so often a value can be found.
    selectors: u64,
    /// Filters with `match` or `search`.
    regexes: u64,
}

/// Refuses a JSONPath that would cost too much on this document; the error says what of it.
pub(super) fn check(query: &str, document: &Value) -> Result<(), String> {
    if query.len() > MOST_BYTES {
        return Err(format!("it is longer than {MOST_BYTES} bytes"));
    }
    let shape = shape(query)?;
    let Size { values, depth, .. } = Size::of(document);
    let deep = depth.saturating_pow(shape.descents.saturating_sub(1));
    let each = shape.selectors.saturating_mul(1 + shape.regexes.saturating_mul(REGEX));
    if values.saturating_mul(deep).saturating_mul(each) > MOST_COST {
        return Err(format!(
            "it would cost too much on the {values} values of this resource: fewer of .., of commas, of match and search"
        ));
    }
    Ok(())
}

/// Reads the shape. A filter may compare what is in one place below `@`; a search of its own for each value would cost the square of the document.
fn shape(query: &str) -> Result<Shape, String> {
    let mut shape = Shape { selectors: 1, ..Shape::default() };
    // Of each open bracket: its selectors, and whether it holds a filter.
    let mut open: Vec<(u64, bool)> = Vec::new();
    let mut rest = query.char_indices().peekable();
    let mut quote = None;
    while let Some((at, letter)) = rest.next() {
        let is_next = |wanted: &str| query.get(at..).is_some_and(|rest| rest.starts_with(wanted));
        let in_filter = open.iter().any(|(_, is_filter)| *is_filter);
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
            (None, 'm') if is_next("match") && in_filter => shape.regexes += 1,
            (None, 's') if is_next("search") && in_filter => shape.regexes += 1,
            (None, '[') => open.push((1, false)),
            (None, '?') => open.iter_mut().for_each(|(_, is_filter)| *is_filter = true),
            (None, ',') => open.iter_mut().for_each(|(selectors, _)| *selectors += 1),
            (None, ']') => {
                shape.selectors = shape.selectors.saturating_mul(open.pop().map_or(1, |(selectors, _)| selectors))
            }
            _ => {}
        }
    }
    Ok(shape)
}
