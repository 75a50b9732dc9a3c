//! A list of row numbers per unit, four bytes where the list has one element.
#![expect(clippy::indexing_slicing, reason = "a place holds only positions that were issued here")]

use crate::slab::{NIL, fill_to, make_room, trim};

/// Marks a place that holds a position in `many`. Rows stay below it ([`crate::slab::MAX_ROWS`]).
const MANY: u32 = 1 << 31;

#[derive(Default)]
pub(crate) struct Lists {
    /// Per unit: `NIL` for nothing, a row, or a position in `many`.
    places: Vec<u32>,
    many: Vec<Vec<u32>>,
    free: Vec<u32>,
}

impl Lists {
    pub(crate) fn get(&self, unit: u32) -> &[u32] {
        match self.places.get(unit as usize) {
            None | Some(&NIL) => &[],
            Some(place) if place & MANY != 0 => &self.many[(place & !MANY) as usize],
            Some(place) => std::slice::from_ref(place),
        }
    }

    /// Makes room for this many units, if there are none yet.
    pub(crate) fn make_room(&mut self, units: usize) {
        make_room(&mut self.places, units);
    }

    /// Gives back room that was made in vain.
    pub(crate) fn trim(&mut self) {
        trim(&mut self.places);
    }

    pub(crate) fn set(&mut self, unit: u32, rows: &[u32]) {
        if self.get(unit) == rows {
            return;
        }
        fill_to(&mut self.places, unit as usize, NIL);
        let place = self.places[unit as usize];
        let list = (place != NIL && place & MANY != 0).then_some(place & !MANY);
        self.places[unit as usize] = match (rows, list) {
            ([], _) => self.single(list, NIL),
            ([row], _) => self.single(list, *row),
            (rows, Some(list)) => {
                let kept = &mut self.many[list as usize];
                kept.clear();
                kept.extend_from_slice(rows);
                place
            }
            (rows, None) => self.several(rows) | MANY,
        };
    }

    fn single(&mut self, list: Option<u32>, place: u32) -> u32 {
        if let Some(list) = list {
            self.many[list as usize] = Vec::new();
            self.free.push(list);
        }
        place
    }

    /// There is at most one list per unit and there are fewer units than `MANY`: the cast loses nothing.
    fn several(&mut self, rows: &[u32]) -> u32 {
        if let Some(list) = self.free.pop() {
            self.many[list as usize] = rows.to_vec();
            return list;
        }
        self.many.push(rows.to_vec());
        (self.many.len() - 1) as u32
    }
}

#[cfg(test)]
mod tests;
