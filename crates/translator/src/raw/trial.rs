//! Which of the objects that make one resource are in it, once a proxy has refused what they came to together.
//!
//! A proxy does not say whose part it means, and keeps what it had. So what it accepted last is the ground (of what an earlier process had from it only
//! the bytes are known, of an object that it is in them), each object that is another since then is a suspect, and a suspect that is left out is in the resource as it was then, if it was. As a rule one alone is to blame: each is left out in turn, and
//! nothing changes for anybody until the proxy accepts what is left. Where several are, they come one after the other on top of what was accepted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::ObjectKey;
use ir::RawResource;
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
    let chosen = trial.selection(&counted);
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
    let mut hasher = Xxh3::new();
    for (object, resource) in made_of {
        hasher.update(format!("\n{object}\n{:?}\n", resource.endpoints).as_bytes());
        let pieces = resource.parts.iter().map(|part| &part.bytes).chain(&resource.tail).chain([&resource.bytes]);
        pieces.for_each(|bytes| {
            hasher.update(&bytes.len().to_le_bytes());
            hasher.update(bytes);
        });
    }
    hasher.digest()
}

/// Whether all that an object makes is somewhere in the bytes of a whole.
fn is_in(whole: &[u8], resource: &RawResource) -> bool {
    let own = resource.says_more.then_some(&resource.bytes);
    let mut pieces = own.into_iter().chain(resource.parts.iter().map(|part| &part.bytes)).chain(&resource.tail);
    resource.endpoints.is_none() && pieces.all(|piece| memmem::find(whole, piece).is_some())
}

struct Trial<'a> {
    /// Each object with its own, and with what of it was accepted last.
    slots: Vec<(Offer<'a>, Option<&'a Arc<RawResource>>)>,
    /// The places of those that are another since.
    suspects: Vec<usize>,
    known: Known<'a>,
}

impl<'a> Trial<'a> {
    fn of(offers: &[Offer<'a>], known: Known<'a>) -> Self {
        let accepted: BTreeMap<&ObjectKey, &Arc<RawResource>> =
            known.accepted.iter().map(|(object, resource)| (object, resource)).collect();
        let slots: Vec<_> = offers.iter().map(|offer| (*offer, accepted.get(offer.0).copied())).collect();
        let is_suspect =
            |(_, ((_, wanted), accepted)): &(usize, &(Offer<'a>, Option<&Arc<RawResource>>))| match accepted {
                Some(accepted) => *accepted != *wanted,
                None => !known.before.is_some_and(|before| is_in(before, wanted)),
            };
        let suspects = slots.iter().enumerate().filter(is_suspect).map(|(at, _)| at).collect();
        Self { slots, suspects, known }
    }

    /// What the resource is made of where these suspects are in it as they are.
    fn selection(&self, counted: &[usize]) -> Vec<Offer<'a>> {
        let offer = |(at, ((object, wanted), accepted)): (usize, &(Offer<'a>, Option<&'a Arc<RawResource>>))| {
            let is_left_out = self.suspects.contains(&at) && !counted.contains(&at);
            if is_left_out { accepted.map(|accepted| (*object, accepted)) } else { Some((*object, *wanted)) }
        };
        self.slots.iter().enumerate().filter_map(offer).collect()
    }

    fn answer(&self, counted: &[usize]) -> Answer {
        let mark = mark(self.selection(counted).into_iter());
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
        let in_turn = if self.suspects.len() <= IN_TURN { &self.suspects[..] } else { &[] };
        // The last come first: who is there longer is less likely to be to blame.
        for out in in_turn.iter().rev() {
            let rest: Vec<usize> = self.suspects.iter().filter(|at| *at != out).copied().collect();
            match self.answer(&rest) {
                Answer::Refused(_) => {}
                Answer::Accepted => return (rest, BTreeMap::from([(*out, words)])),
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
