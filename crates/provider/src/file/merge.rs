//! From the documents of a file as it was to those as it is: what stays untouched, and what a broken document keeps.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use api::{Object, ObjectKey};
use hashbrown::{HashMap, HashSet};
use store::identity;

use crate::file::document::{Document, Lost, Parsed};

/// The part of a file that differs. What stands before and behind it is the same text on the same lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Middle {
    /// Documents as they were.
    pub(crate) old: Range<usize>,
    /// Documents as they are.
    pub(crate) new: Range<usize>,
}

/// Finds the part that differs.
pub(crate) fn middle(old: &[Document], new: &[Parsed]) -> Middle {
    let stays = |at: usize, parsed: &Parsed| matches!(parsed, Parsed::Same { index, line } if *index == at && old.get(at).is_some_and(|old| old.line == *line));
    let prefix = new.iter().enumerate().take_while(|(at, parsed)| stays(*at, parsed)).count();
    let rest = (old.len().saturating_sub(prefix)).min(new.len().saturating_sub(prefix));
    let backwards = new.iter().rev().zip((0..old.len()).rev()).take(rest);
    let suffix = backwards.take_while(|(parsed, at)| stays(*at, parsed)).count();
    Middle { old: prefix..old.len() - suffix, new: prefix..new.len() - suffix }
}

/// The documents that take the place of `middle.old`.
///
/// A document that cannot be understood keeps what it gave last: the object of its own identity if that can be read,
/// else those of the documents that stood in its place, between the nearest ones that are unchanged.
pub(crate) fn documents(old: &[Document], new: Vec<Parsed>, middle: &Middle) -> Vec<Document> {
    let mut new: Vec<Parsed> = new.into_iter().skip(middle.new.start).take(middle.new.len()).collect();
    if new.iter().filter_map(Parsed::lost).any(|lost| *lost != Lost::default()) {
        let mut keeping = Keeping::new(old, &new, middle);
        keeping.by_identity(&mut new);
        for gap in gaps(&new, &middle.old) {
            keeping.by_position(&mut new, gap);
        }
    }
    let settle = |parsed| match parsed {
        Parsed::Same { index, line } => old.get(index).map(|document| document.moved_to(line)),
        Parsed::New { document, .. } => Some(document),
    };
    new.into_iter().filter_map(settle).collect()
}

/// What stands between two unchanged documents.
struct Gap {
    new: Range<usize>,
    old: Range<usize>,
}

fn gaps(new: &[Parsed], old: &Range<usize>) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let (mut from_new, mut from_old) = (0, old.start);
    for (at, parsed) in new.iter().enumerate() {
        // A document that moved up in the file parts nothing.
        if let Parsed::Same { index, .. } = parsed
            && *index >= from_old
        {
            gaps.push(Gap { new: from_new..at, old: from_old..*index });
            (from_new, from_old) = (at + 1, index + 1);
        }
    }
    gaps.push(Gap { new: from_new..new.len(), old: from_old..old.end });
    gaps
}

/// Which old documents are not taken up by the new text, and so are there to be kept.
struct Keeping<'o> {
    old: &'o [Document],
    /// Old documents in the middle that neither live on nor were kept already, and gave something that the new text
    /// does not give.
    free: BTreeSet<usize>,
}

impl<'o> Keeping<'o> {
    fn new(old: &'o [Document], new: &[Parsed], middle: &Middle) -> Self {
        let mut given = HashSet::new();
        let mut free: BTreeSet<usize> = middle.old.clone().collect();
        for parsed in new {
            match parsed {
                Parsed::Same { index, .. } => drop(free.remove(index)),
                Parsed::New { document, .. } => given.extend(document.identities()),
            }
        }
        let has_news = |document: &Document| document.identities().any(|key| !given.contains(&key));
        free.retain(|index| old.get(*index).is_some_and(has_news));
        Self { old, free }
    }

    /// Objects that say who they are: the one of that identity is kept.
    fn by_identity(&mut self, new: &mut [Parsed]) {
        let mut last: HashMap<ObjectKey, (usize, (&'o Object, u128))> = HashMap::new();
        for index in &self.free {
            for (object, source) in self.objects(*index) {
                last.entry(identity(object.key())).or_insert((*index, (object, source)));
            }
        }
        for parsed in new.iter_mut() {
            let Parsed::New { document, lost, .. } = parsed else { continue };
            let kept: Vec<_> = lost.named.iter().filter_map(|key| last.remove(key)).collect();
            for (index, _) in &kept {
                if self.objects(*index).count() == 1 {
                    self.free.remove(index);
                }
            }
            document.keep(kept.into_iter().map(|(_, (object, source))| (object.clone(), source)).collect());
        }
    }

    /// The others keep what stood in their place, one document each, the last one all that is left.
    fn by_position(&mut self, new: &mut [Parsed], gap: Gap) {
        let is_lost = |parsed: &&mut Parsed| parsed.lost().is_some_and(|lost| lost.all);
        let nameless: Vec<&mut Parsed> = new.get_mut(gap.new).unwrap_or_default().iter_mut().filter(is_lost).collect();
        let mut free: VecDeque<usize> = self.free.range(gap.old).copied().collect();
        let last = nameless.len().saturating_sub(1);
        for (at, parsed) in nameless.into_iter().enumerate() {
            let count = if at == last { free.len() } else { free.len().min(1) };
            let kept = free.drain(..count).flat_map(|index| self.objects(index));
            if let Parsed::New { document, .. } = parsed {
                document.keep(kept.map(|(object, source)| (object.clone(), source)).collect());
            }
        }
    }

    fn objects(&self, index: usize) -> impl Iterator<Item = (&'o Object, u128)> + use<'o> {
        self.old.get(index).into_iter().flat_map(Document::sourced)
    }
}
