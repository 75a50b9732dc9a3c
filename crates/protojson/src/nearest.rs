//! The nearest of the names that there are, for a name that there is not.

/// Longest name that is compared: the work is the product of two lengths.
const LONGEST: usize = 128;

/// More edits than this are another word, not a typing error.
const MOST_EDITS: usize = 4;

/// The candidate with the fewest single-character edits from `wanted`, if these are few and at most a third of its
/// length; of equals the first.
pub(crate) fn of<'a>(wanted: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    if wanted.len() > LONGEST {
        return None;
    }
    let bound = wanted.len().div_ceil(3).min(MOST_EDITS);
    candidates
        .filter(|name| name.len().abs_diff(wanted.len()) <= bound && name.len() <= LONGEST)
        .filter_map(|name| Some((edits(wanted, name, bound)?, name)))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, name)| name.to_owned())
}

/// Levenshtein's distance over bytes, letter case ignored; none as soon as it must be more than `bound`.
fn edits(left: &str, right: &str, bound: usize) -> Option<usize> {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, a) in left.bytes().enumerate() {
        let mut diagonal = index;
        let mut before = index + 1;
        let mut next = vec![before];
        for (b, above) in right.bytes().zip(row.iter().skip(1)) {
            let change = diagonal + usize::from(!a.eq_ignore_ascii_case(&b));
            before = change.min(above + 1).min(before + 1);
            diagonal = *above;
            next.push(before);
        }
        row = next;
        if row.iter().all(|edits| *edits > bound) {
            return None;
        }
    }
    row.last().copied().filter(|edits| *edits <= bound)
}
