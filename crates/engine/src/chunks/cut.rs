//! Where a sorted list of keys is cut: a function of the keys alone.

use std::ops::Range;

/// The largest piece size that can be asked for.
pub(super) const MAX_SIZE: usize = 1 << 20;

/// No piece is longer than this many times the size asked for. With random hashes one segment in 55 is (e^-4), so the
/// cap costs little. Whoever chooses names without any border on purpose gets pieces by counting, and changes that cost
/// the whole group: what they would cost without pieces.
const CAP: usize = 4;

/// One piece of a list.
pub(super) struct Part {
    pub(super) rows: Range<usize>,
    /// Its first key is a border: it begins a segment.
    pub(super) border: bool,
}

pub(super) fn cut(members: &[u32], size: usize, hash: impl Fn(u32) -> u64) -> Vec<Part> {
    let mask = size.next_power_of_two() as u64 - 1;
    let mut parts = Vec::new();
    for segment in split(members, 0..members.len(), mask, &hash) {
        let border = members.get(segment.start).is_some_and(|row| hash(*row) & mask == 0);
        let first = parts.len();
        shorten(members, segment, (mask, size), &hash, &mut parts);
        if let Some(part) = parts.get_mut(first) {
            part.border = border;
        }
    }
    parts
}

/// Cuts at every key of the range whose hash is zero under the mask.
fn split(members: &[u32], range: Range<usize>, mask: u64, hash: &impl Fn(u32) -> u64) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = range.start;
    for at in range.clone().skip(1) {
        if members.get(at).is_some_and(|row| hash(*row) & mask == 0) {
            parts.push(start..at);
            start = at;
        }
    }
    if start < range.end {
        parts.push(start..range.end);
    }
    parts
}

/// Cuts a segment that is too long: at weaker and weaker borders, and by counting where the hashes give none.
fn shorten(
    members: &[u32],
    range: Range<usize>,
    (mask, size): (u64, usize),
    hash: &impl Fn(u32) -> u64,
    parts: &mut Vec<Part>,
) {
    let part = |rows| Part { rows, border: false };
    if range.len() <= size * CAP {
        parts.push(part(range));
    } else if mask >> 1 == 0 {
        let end = range.end;
        parts.extend(range.step_by(size).map(|start| part(start..end.min(start + size))));
    } else {
        for range in split(members, range, mask >> 1, hash) {
            shorten(members, range, (mask >> 1, size), hash, parts);
        }
    }
}
