//! Which of the objects that make one resource are in it, once a proxy has refused what they came to together.
//!
//! A proxy does not say whose part it means, and keeps what it had. So what it accepted last is the ground (of what an earlier process had from it only
//! the bytes are known, of an object that it is in them), each object that is another since then is a suspect, and a suspect that is left out is in the resource as it was then, if it was. As a rule one alone is to blame: each is left out in turn, and
//! nothing changes for anybody until the proxy accepts what is left. Where several are, they come one after the other on top of what was accepted. Where
//! nothing is known of what the proxy has, so that there is no such ground, all pairs and what is more are left out first: whoever stays in loses nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::ObjectKey;
use ir::RawResource;
use itertools::Itertools as _;
use memchr::memmem;
use store::Refusals;
use xxhash_rust::xxh3::Xxh3;

#[cfg(test)]
mod tests;

/// An object's resource.
pub(crate) type Offer<'a> = (&'a ObjectKey, &'a Arc<RawResource>);

/// What a resource is made of: of each object its own, in the order of their rank.
pub(crate) type MadeOf = Vec<(ObjectKey, Arc<RawResource>)>;

/// So many suspects are left out in turn, each for one answer of the proxy; of more, halves are tried.
const IN_TURN: usize = 32;

/// So many sets of suspects are left out in turn where there is no ground, each for one answer, a millisecond or two of which nobody notices anything:
/// all that there are of up to nine suspects, all pairs of 32.
const SETS_IN_TURN: usize = 528;

/// What is known of a resource that several objects make.
#[derive(Clone, Copy, Default)]
pub(crate) struct Known<'a> {
    /// What proxies refused.
    pub(crate) refusals: Option<&'a Refusals>,
    /// What they accepted last.
    pub(crate) accepted: &'a [(ObjectKey, Arc<RawResource>)],
    /// The resource that they had accepted when this process began, as long as nothing is known of a later one.
    pub(crate) before: Option<&'a [u8]>,
    /// Nobody tells what they accept: it is what they do not refuse. Only one that is to blame alone can be found then.
    pub(crate) is_silent: bool,
}

/// What is tried next, or has been found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Objects that are left out as they are, with the proxy's words.
    pub(crate) refused: BTreeMap<ObjectKey, Arc<str>>,
    /// Objects that are left out until it is known who is to blame.
    pub(crate) waiting: BTreeSet<ObjectKey>,
}

/// What a proxy said to a selection.
enum Answer {
    Refused(Arc<str>),
    Accepted,
    None,
}

/// Chooses from offers in the order of their rank.
pub(crate) fn choose<'a>(offers: Vec<Offer<'a>>, known: Known<'a>) -> (Vec<Offer<'a>>, Verdict) {
    let is_quiet = known.refusals.is_none_or(|refusals| refusals.words.is_empty());
    if is_quiet {
        return (offers, Verdict::default());
    }
    let trial = Trial::of(&offers, known);
    let (counted, blamed) = trial.next();
    let chosen: Vec<_> = trial.selection(&counted).map(|(offer, _)| offer).collect();
    // Whoever gets nothing would lose what it has.
    let chosen = if chosen.is_empty() { offers.clone() } else { chosen };
    let name = |at: &usize| offers.get(*at).map(|(object, _)| (*object).clone());
    let left_out = trial.suspects.iter().filter(|at| !counted.contains(at) && !blamed.contains_key(at));
    let waiting = left_out.filter_map(name).collect();
    let refused = blamed.iter().filter_map(|(at, words)| Some((name(at)?, Arc::clone(words)))).collect();
    (chosen, Verdict { refused, waiting })
}

/// The mark of what a resource is made of, the same on every replica.
pub(crate) fn mark<'a>(made_of: impl Iterator<Item = Offer<'a>>) -> u64 {
    mark_of(made_of.map(own_mark))
}

/// The mark of what objects of these marks make.
fn mark_of(marks: impl Iterator<Item = u64>) -> u64 {
    let mut hasher = Xxh3::new();
    marks.for_each(|own| hasher.update(&own.to_le_bytes()));
    hasher.digest()
}

/// The mark of one object with its own.
fn own_mark((object, resource): Offer<'_>) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(format!("\n{object}\n{:?}\n", resource.endpoints).as_bytes());
    let pieces = resource.parts.iter().map(|part| &part.bytes).chain(&resource.tail).chain([&resource.bytes]);
    pieces.for_each(|bytes| {
        hasher.update(&bytes.len().to_le_bytes());
        hasher.update(bytes);
    });
    hasher.digest()
}

/// Whether all that an object makes is somewhere in the bytes of a whole.
fn is_in(whole: &[u8], resource: &RawResource) -> bool {
    let own = resource.says_more.then_some(&resource.bytes);
    let mut pieces = own.into_iter().chain(resource.parts.iter().map(|part| &part.bytes)).chain(&resource.tail);
    resource.endpoints.is_none() && pieces.all(|piece| memmem::find(whole, piece).is_some())
}

/// An object.
struct Slot<'a> {
    /// With its own, and the mark of that.
    wanted: (Offer<'a>, u64),
    /// The same with what of it was accepted last.
    accepted: Option<(Offer<'a>, u64)>,
}

struct Trial<'a> {
    slots: Vec<Slot<'a>>,
    /// The places of those that are another since.
    suspects: Vec<usize>,
    known: Known<'a>,
}

impl<'a> Trial<'a> {
    fn of(offers: &[Offer<'a>], known: Known<'a>) -> Self {
        let accepted: BTreeMap<&ObjectKey, &Arc<RawResource>> =
            known.accepted.iter().map(|(object, resource)| (object, resource)).collect();
        let marked = |offer: Offer<'a>| (offer, own_mark(offer));
        let slot = |offer: &Offer<'a>| {
            let accepted = accepted.get(offer.0).map(|accepted| marked((offer.0, accepted)));
            Slot { wanted: marked(*offer), accepted }
        };
        let slots: Vec<Slot<'a>> = offers.iter().map(slot).collect();
        let is_suspect = |slot: &Slot<'a>| match (slot.wanted.0, slot.accepted) {
            ((_, wanted), Some(((_, accepted), _))) => accepted != wanted,
            ((_, wanted), None) => !known.before.is_some_and(|before| is_in(before, wanted)),
        };
        let suspects = slots.iter().positions(is_suspect).collect();
        Self { slots, suspects, known }
    }

    /// What the resource is made of where these suspects are in it as they are, with the marks of that.
    fn selection(&self, counted: &[usize]) -> impl Iterator<Item = (Offer<'a>, u64)> {
        let mut is_left_out = vec![false; self.slots.len()];
        let mut mark = |which: &[usize], out| {
            which.iter().for_each(|at| is_left_out.get_mut(*at).into_iter().for_each(|slot| *slot = out));
        };
        mark(&self.suspects, true);
        mark(counted, false);
        let slots = self.slots.iter().zip(is_left_out);
        slots.filter_map(|(slot, is_left_out)| if is_left_out { slot.accepted } else { Some(slot.wanted) })
    }

    fn answer(&self, counted: &[usize]) -> Answer {
        let mark = mark_of(self.selection(counted).map(|(_, own)| own));
        let refused = self.known.refusals.and_then(|refusals| refusals.words.get(&mark));
        let accepted = || self.known.refusals.is_some_and(|refusals| refusals.accepted.contains(&mark));
        match refused {
            Some(words) => Answer::Refused(Arc::clone(words)),
            // What has no suspect in it is what was accepted last, or nothing.
            None if counted.is_empty() || self.known.is_silent || accepted() => Answer::Accepted,
            None => Answer::None,
        }
    }

    /// The suspects that are in it next, and those that are to blame.
    fn next(&self) -> (Vec<usize>, BTreeMap<usize, Arc<str>>) {
        let Answer::Refused(words) = self.answer(&self.suspects) else {
            return (self.suspects.clone(), BTreeMap::new());
        };
        for out in self.in_turn() {
            let rest = self.suspects.iter().filter(|at| !out.contains(at)).copied().collect_vec();
            match self.answer(&rest) {
                Answer::Refused(_) => {}
                Answer::Accepted => return (rest, out.into_iter().map(|at| (at, Arc::clone(&words))).collect()),
                Answer::None => return (rest, BTreeMap::new()),
            }
        }
        if self.known.is_silent {
            // Without its answers nothing more can be found out, and with all of them it keeps what it has.
            let blamed = self.suspects.iter().map(|at| (*at, Arc::clone(&words)));
            return (self.suspects.clone(), blamed.collect());
        }
        self.one_by_one()
    }

    /// The sets of suspects that are left out in turn. The last come first: who is there longer is less likely to be to blame.
    fn in_turn(&self) -> impl Iterator<Item = Vec<usize>> {
        let suspects: Vec<usize> = self.suspects.iter().rev().copied().collect();
        let count = if suspects.len() <= IN_TURN { suspects.len() } else { 0 };
        let has_ground = !self.known.accepted.is_empty() || self.known.before.is_some();
        let sizes = if has_ground || self.known.is_silent { 1..=count.min(1) } else { 1..=count.saturating_sub(1) };
        sizes.flat_map(move |size| suspects.clone().into_iter().combinations(size)).take(SETS_IN_TURN)
    }

    /// Adds suspects to what was accepted as far as proxies take them, and leaves out each that they do not.
    fn one_by_one(&self) -> (Vec<usize>, BTreeMap<usize, Arc<str>>) {
        let (mut counted, mut blamed): (Vec<usize>, _) = (Vec::new(), BTreeMap::new());
        let mut rest = &self.suspects[..];
        while let Some(first_bad) = self.first_refused(&counted, rest) {
            match first_bad {
                Search::Try(upto) => {
                    counted.extend(rest.iter().take(upto));
                    break;
                }
                Search::Found(at, words) => {
                    counted.extend(rest.iter().take(at));
                    blamed.extend(rest.get(at).map(|guilty| (*guilty, words)));
                    rest = rest.get(at + 1..).unwrap_or_default();
                }
            }
        }
        (counted, blamed)
    }

    /// The first of the rest that is refused on top of those that count; none if there is none left.
    fn first_refused(&self, counted: &[usize], rest: &[usize]) -> Option<Search> {
        if rest.is_empty() {
            return None;
        }
        let with = |upto: usize| [counted, rest.get(..upto).unwrap_or_default()].concat();
        let Answer::Refused(mut words) = self.answer(&with(rest.len())) else { return Some(Search::Try(rest.len())) };
        let (mut good, mut bad) = (0, rest.len());
        while bad - good > 1 {
            let middle = good.midpoint(bad);
            match self.answer(&with(middle)) {
                Answer::Refused(said) => (bad, words) = (middle, said),
                Answer::Accepted => good = middle,
                Answer::None => return Some(Search::Try(middle)),
            }
        }
        Some(Search::Found(good, words))
    }
}

/// What is known of the first that is refused.
enum Search {
    /// So many are to be tried.
    Try(usize),
    /// It is this one.
    Found(usize, Arc<str>),
}
