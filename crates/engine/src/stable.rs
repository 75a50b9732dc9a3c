//! A hash that never changes: not between processes, machines or versions. The borders of pieces come from it.

use std::sync::Arc;

/// A 64-bit hash without a seed: equal input gives equal output on every replica and after every restart.
///
/// It is not for tables: whoever chooses the keys can choose collisions. [`crate::Graph::chunks`] uses it because
/// replicas must cut a group alike, and bounds what a bad choice can do.
#[derive(Clone, Debug)]
pub struct StableHasher {
    state: u64,
}

/// Digits of pi (as in many ciphers: numbers with nothing up their sleeve).
const START: u64 = 0x243f_6a88_85a3_08d3;
const STEP: u64 = 0x1319_8a2e_0370_7344 | 1;
const END: u64 = 0xa409_3822_299f_31d0 | 1;

impl Default for StableHasher {
    fn default() -> Self {
        StableHasher { state: START }
    }
}

impl StableHasher {
    /// Adds one number.
    pub fn number(&mut self, number: u64) {
        self.state = fold(self.state ^ number, STEP).wrapping_add(number.rotate_left(32));
    }

    /// Adds bytes, and their length, so that `("ab", "c")` and `("a", "bc")` differ.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            let mut number = [0; 8];
            number.copy_from_slice(word);
            self.number(u64::from_le_bytes(number));
        }
        let rest = words.remainder();
        if !rest.is_empty() {
            let number = rest.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte));
            self.number(number);
        }
    }

    /// The hash of all that was added.
    #[must_use]
    pub fn finish(&self) -> u64 {
        fold(self.state ^ END, STEP) ^ self.state.rotate_left(23)
    }
}

/// The two halves of a 128-bit product, laid over each other.
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    (product as u64) ^ ((product >> 64) as u64)
}

/// A key whose content can be hashed the same everywhere.
///
/// This is not [`std::hash::Hash`], because a key may answer that from a cached, seeded hash. Implement it by adding
/// every part that `Eq` compares. Equal keys must add equal parts.
pub trait Stable {
    /// Adds the content of `self`.
    fn stable(&self, hasher: &mut StableHasher);
}

/// The hash of one key.
#[must_use]
pub fn stable_hash<T: Stable + ?Sized>(key: &T) -> u64 {
    let mut hasher = StableHasher::default();
    key.stable(&mut hasher);
    hasher.finish()
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Stable for $number {
            fn stable(&self, hasher: &mut StableHasher) {
                hasher.number(*self as u64);
            }
        }
    )*};
}

numbers! { u8 u16 u32 u64 usize i8 i16 i32 i64 isize bool char }

impl Stable for str {
    fn stable(&self, hasher: &mut StableHasher) {
        hasher.bytes(self.as_bytes());
    }
}

impl Stable for String {
    fn stable(&self, hasher: &mut StableHasher) {
        self.as_str().stable(hasher);
    }
}

impl<T: Stable> Stable for [T] {
    fn stable(&self, hasher: &mut StableHasher) {
        hasher.number(self.len() as u64);
        for item in self {
            item.stable(hasher);
        }
    }
}

impl<T: Stable> Stable for Vec<T> {
    fn stable(&self, hasher: &mut StableHasher) {
        self.as_slice().stable(hasher);
    }
}

impl<T: Stable> Stable for Option<T> {
    fn stable(&self, hasher: &mut StableHasher) {
        hasher.number(u64::from(self.is_some()));
        if let Some(value) = self {
            value.stable(hasher);
        }
    }
}

impl<T: Stable + ?Sized> Stable for &T {
    fn stable(&self, hasher: &mut StableHasher) {
        (**self).stable(hasher);
    }
}

impl<T: Stable + ?Sized> Stable for Arc<T> {
    fn stable(&self, hasher: &mut StableHasher) {
        (**self).stable(hasher);
    }
}

impl<T: Stable + ?Sized> Stable for Box<T> {
    fn stable(&self, hasher: &mut StableHasher) {
        (**self).stable(hasher);
    }
}

impl<T: Stable> Stable for std::cmp::Reverse<T> {
    fn stable(&self, hasher: &mut StableHasher) {
        self.0.stable(hasher);
    }
}

macro_rules! tuples {
    ($(($($part:ident)*))*) => {$(
        impl<$($part: Stable),*> Stable for ($($part,)*) {
            #[expect(non_snake_case, reason = "a part of the tuple is named like its type")]
            fn stable(&self, hasher: &mut StableHasher) {
                let ($($part,)*) = self;
                $($part.stable(hasher);)*
            }
        }
    )*};
}

tuples! { (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) }

#[cfg(test)]
mod tests;
