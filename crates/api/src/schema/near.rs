//! The nearest valid word to a mistyped one.

/// The word of `known` that was probably meant: equal but for case, its beginning, at most a third of the letters away (and three), or the only one with
/// this end (`Prefix` for `PathPrefix`).
#[must_use]
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let limit = (word.chars().count() / 3).clamp(1, 3);
    let lower = word.to_lowercase();
    let mut with_end = (0, None);
    let close = known
        .into_iter()
        .map(|candidate| {
            let known = candidate.to_lowercase();
            if lower.len() >= 4 && known.ends_with(&lower) {
                with_end = (with_end.0 + 1, Some(candidate));
            }
            // The beginning of a word is as good as one mistake: `match` for `matches`.
            let beginning =
                lower.len() >= 3 && known.starts_with(&lower) && (1..=3).contains(&(known.len() - lower.len()));
            (if beginning { 1 } else { distance(&lower, &known, limit) }, candidate)
        })
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate);
    close.or_else(|| with_end.1.filter(|_| with_end.0 == 1))
}

/// Letters to insert, remove, replace, or swap with their neighbour; `usize::MAX` as soon as it is certain that they are more than `limit`. Long words are
/// not compared (a bound on the cost).
fn distance(one: &str, two: &str, limit: usize) -> usize {
    let (one, two): (Vec<char>, Vec<char>) = (one.chars().take(65).collect(), two.chars().take(65).collect());
    if one.len().abs_diff(two.len()) > limit || one.len() > 64 || two.len() > 64 {
        return usize::MAX;
    }
    let mut before: Vec<usize> = vec![0; two.len() + 1];
    let mut previous: Vec<usize> = (0..=two.len()).collect();
    let mut current: Vec<usize> = Vec::with_capacity(two.len() + 1);
    let mut least_before = 0;
    for (row, from) in one.iter().enumerate() {
        current.clear();
        current.push(row + 1);
        for (column, to) in two.iter().enumerate() {
            let cell = |line: &[usize], at: usize| line.get(at).copied().unwrap_or(usize::MAX - 1);
            let swapped = row > 0 && column > 0 && one.get(row - 1) == Some(to) && two.get(column - 1) == Some(from);
            let mut best = (cell(&previous, column) + usize::from(from != to))
                .min(cell(&previous, column + 1) + 1)
                .min(cell(&current, column) + 1);
            if swapped {
                best = best.min(cell(&before, column - 1) + 1);
            }
            current.push(best);
        }
        // A later row builds on this one or, by a swap, on the one before.
        let least = current.iter().copied().min().unwrap_or(0);
        if least > limit && least_before > limit {
            return usize::MAX;
        }
        least_before = least;
        std::mem::swap(&mut before, &mut previous);
        std::mem::swap(&mut previous, &mut current);
    }
    previous.last().copied().unwrap_or(0)
}
