//! A growing set of small numbers, one bit each.
#![expect(clippy::indexing_slicing, reason = "a word is made before it is indexed, in the same function")]

#[derive(Default)]
pub(crate) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// Returns whether the number was new.
    pub(crate) fn insert(&mut self, number: u32) -> bool {
        let (word, bit) = place(number);
        if word >= self.words.len() {
            self.words.resize(word + 1 + word / 4, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    pub(crate) fn remove(&mut self, number: u32) {
        let (word, bit) = place(number);
        if let Some(word) = self.words.get_mut(word) {
            *word &= !bit;
        }
    }

    /// Takes out the smallest number that is not below `from`.
    pub(crate) fn take_from(&mut self, from: u32) -> Option<u32> {
        let (first, bit) = place(from);
        let not_below = !(bit - 1);
        for (at, word) in self.words.iter_mut().enumerate().skip(first) {
            let left = if at == first { *word & not_below } else { *word };
            if left != 0 {
                let number = left.trailing_zeros();
                *word &= !(1 << number);
                // A word's place came from a number of 32 bits.
                return Some(at as u32 * 64 + number);
            }
        }
        None
    }

    pub(crate) fn contains(&self, number: u32) -> bool {
        let (word, bit) = place(number);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }
}

fn place(number: u32) -> (usize, u64) {
    ((number / 64) as usize, 1 << (number % 64))
}

/// Units that have to run: a list, and a set that keeps each of them in it once.
#[derive(Default)]
pub(crate) struct Dirty {
    list: Vec<u32>,
    set: Bits,
}

/// Room for so many numbers is kept from tick to tick: enough for an edit, and little for each of some hundred nodes.
pub(crate) const KEPT: usize = 64;

impl Dirty {
    pub(crate) fn insert(&mut self, unit: u32) {
        if self.set.insert(unit) {
            self.list.push(unit);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Moves the units into `into`, in rising order: neighbours in memory run one after the other.
    pub(crate) fn take(&mut self, into: &mut Vec<u32>) {
        into.clear();
        std::mem::swap(&mut self.list, into);
        // What the other list needed in a large tick is not kept for good.
        self.list.shrink_to(KEPT);
        into.sort_unstable();
        for unit in into.iter() {
            self.set.remove(*unit);
        }
    }
}

#[cfg(test)]
mod tests;
