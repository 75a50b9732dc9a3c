//! Records of the fuzzer's choice. One in some dozen parts is none that the program writes.

use bytes::Bytes;

use super::{Doubts, KINDS, Key, Piece, Put, Record, Slice};
use crate::saved::fuzzing::Choose;

/// Places where a run of what the version before had can begin, and lengths.
const PLACES: [u32; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, u32::MAX];

impl Record {
    pub(in crate::saved) fn chosen(choose: &mut Choose<'_>, names: &[&str]) -> Self {
        let puts = several(choose, |choose| Put::chosen(choose, names));
        let gone = several(choose, |choose| Key::chosen(choose, names));
        let doubts = several(choose, |choose| Doubts {
            node: name(choose, names),
            needs: several(choose, |choose| Key::chosen(choose, names)),
            heirs: choose(2),
        });
        Self { puts, gone, doubts }
    }
}

impl Put {
    fn chosen(choose: &mut Choose<'_>, names: &[&str]) -> Self {
        let version = match choose(31) {
            30 => Bytes::new(),
            31 => Bytes::from_owner([0; 16]),
            number => Bytes::from_owner(u128::from(number % 6 + 1).to_be_bytes()),
        };
        Self {
            key: if choose(31) == 31 { None } else { Some(Key::chosen(choose, names)) },
            version,
            body: several(choose, Piece::chosen),
            needs: several(choose, |choose| Slice::chosen(choose, names)),
            replaces: if choose(3) == 3 { Some(name(choose, names)) } else { None },
            ttl_millis: PLACES.get(choose(15) as usize).copied().unwrap_or_default(),
            apart: choose(1) == 1,
            vhds: choose(1) == 1,
        }
    }
}

impl Key {
    fn chosen(choose: &mut Choose<'_>, names: &[&str]) -> Self {
        // the known kinds, any other and two that do not exist yet
        Self { kind: choose(KINDS.len() as u32 + 2), other: name(choose, names), name: name(choose, names) }
    }
}

impl Piece {
    fn chosen(choose: &mut Choose<'_>) -> Self {
        let bytes = vec![b'x'; choose(300) as usize].into();
        let (from, count) = run(choose);
        Self { bytes, from, count }
    }
}

impl Slice {
    fn chosen(choose: &mut Choose<'_>, names: &[&str]) -> Self {
        let needs = several(choose, |choose| Key::chosen(choose, names));
        let (from, count) = run(choose);
        Self { needs, from, count }
    }
}

/// Where something begins in the version before, and how long it is.
fn run(choose: &mut Choose<'_>) -> (u32, u32) {
    let mut place = || PLACES.get(choose(15) as usize).copied().unwrap_or_default();
    (place(), place())
}

fn name(choose: &mut Choose<'_>, names: &[&str]) -> String {
    let last = names.len().saturating_sub(1) as u32;
    names.get(choose(last) as usize).copied().unwrap_or_default().to_owned()
}

fn several<T>(choose: &mut Choose<'_>, mut one: impl FnMut(&mut Choose<'_>) -> T) -> Vec<T> {
    (0..choose(3)).map(|_| one(choose)).collect()
}
