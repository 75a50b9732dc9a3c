//! From inotify's events to what has to be looked at: [`Agenda`].
//!
//! Nothing is read here. Events say *that* a place has to be looked at, and what is there then is what counts; so
//! events that come late, twice, or about places that have changed again do no harm.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::inotify::InotifyEvent;

use crate::file::access::Access;
use crate::file::spot::{Spot, is_read, is_visible};
use crate::file::tree::Tree;
use crate::file::watches::Lookup;
use pending::{Happened, Pending};
use spreads::{REST, Spreads};

mod pending;
mod spreads;
#[cfg(test)]
mod tests;

/// What has to be done about a place. Later ones include earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Look {
    /// Its permissions may be others: only of interest if it could not be read.
    Again,
    /// It may be gone.
    Gone,
    /// It is there again, empty, to be written now.
    Empty,
    /// It came to be, perhaps only to be written now.
    Created,
    /// A file there is complete.
    Read,
    /// Anything may be there.
    Survey,
}

/// What has to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    pub(crate) looks: BTreeMap<Arc<Spot>, Look>,
    /// Files that were written to and not closed since. Reading them would give half of what is meant; their closing
    /// is an event.
    pub(crate) writing: BTreeSet<Arc<Spot>>,
    /// Events that are noted, and not yet spread to the places that they concern.
    pending: Pending,
    spreads: Spreads,
}

impl Agenda {
    /// Notes an event. However many places it concerns, that costs the same.
    pub(crate) fn note(&mut self, event: InotifyEvent) {
        self.pending.note(event);
    }

    /// Puts on the agenda what the events since the last time ask for, once for each place that they concern. Events of names over which very many ways lead wait
    /// if there were others a moment ago ([`Spreads`]).
    pub(crate) fn spread(&mut self, tree: &mut Tree, now: Instant) {
        let Pending { names, lost, overflowed, .. } = std::mem::take(&mut self.pending);
        if overflowed {
            // Events are lost, so everything has to be looked at, and whoever was writing may have finished.
            self.writing.clear();
            for root in tree.roots() {
                self.add(root, Look::Survey);
            }
        }
        for watch in lost {
            if let Some(lost) = tree.watches.lost(watch) {
                let dependent = lost.lookups.into_values().flatten();
                lost.directories.into_iter().chain(dependent).for_each(|spot| self.add(spot, Look::Survey));
            }
        }
        self.spreads.begin(now);
        // Of events about one file the last one counts, under whatever name it is known.
        let mut names: Vec<(Lookup, Happened)> = names.into_iter().collect();
        names.sort_unstable_by_key(|(_, happened)| happened.last());
        for (lookup, happened) in names {
            self.spread_name(lookup, happened, tree);
        }
    }

    fn spread_name(&mut self, lookup: Lookup, happened: Happened, tree: &Tree) {
        let (watch, name) = &lookup;
        let Some(watched) = tree.watches.watched(*watch) else { return };
        let dependent = watched.lookups.get(name);
        if let Some(spots) = dependent
            && let Some(first) = spots.first()
            && !self.spreads.take(first, spots.len())
        {
            self.pending.keep(lookup, happened);
            return;
        }
        for spot in dependent.into_iter().flatten() {
            let is_awaited =
                || tree.end(spot, *watch, name).is_some_and(|end| created(end, tree.access()) == Created::Empty);
            let is_awaited = happened.created > 0 && is_awaited();
            self.spread_to_dependent(&happened, spot, is_awaited);
        }
        if is_visible(name) {
            for spot in watched.directories.iter().map(|directory| directory.join(name)) {
                self.spread_to_entry(&happened, name, spot);
            }
        }
    }

    /// Something happened to a name that the way to this place leads over. `is_awaited`: a file was created there, to be written now.
    fn spread_to_dependent(&mut self, happened: &Happened, spot: &Arc<Spot>, is_awaited: bool) {
        let created = if is_awaited { 0 } else { happened.created };
        match happened.ended().max(created) {
            ended if happened.modified > ended => drop(self.writing.insert(Arc::clone(spot))),
            0 => {}
            _ => drop(self.writing.remove(spot)),
        }
        // A link whose name is not read leads to a file now, and not to nothing.
        let closed = if spot.is_read() { Look::Read } else { Look::Survey };
        let looks = [
            (happened.closed, closed),
            (happened.changed, Look::Again),
            (happened.went, Look::Gone),
            (happened.came, Look::Survey),
            (happened.created, if is_awaited { Look::Empty } else { Look::Survey }),
        ];
        self.add_each(spot, looks);
    }

    /// Something happened to an entry of a directory that is read.
    fn spread_to_entry(&mut self, happened: &Happened, name: &OsStr, spot: Arc<Spot>) {
        match happened.ended() {
            ended if happened.modified > ended => {
                if is_read(name) {
                    self.writing.insert(Arc::clone(&spot));
                }
            }
            0 => {}
            _ => drop(self.writing.remove(&spot)),
        }
        let looks = [
            (if is_read(name) { happened.closed } else { 0 }, Look::Read),
            (happened.changed, Look::Again),
            (happened.went, Look::Gone),
            (happened.came, Look::Survey),
            (happened.created, Look::Created),
        ];
        self.add_each(&spot, looks);
    }

    fn add_each<const N: usize>(&mut self, spot: &Arc<Spot>, looks: [(u64, Look); N]) {
        for (_, look) in looks.into_iter().filter(|(at, _)| *at > 0) {
            self.add(Arc::clone(spot), look);
        }
    }

    /// Returns the time until events that wait are spread; none if none wait.
    pub(crate) fn rest(&self) -> Option<Duration> {
        (!self.pending.names.is_empty()).then_some(REST)
    }

    /// Returns true if events of names may wait that the way to this place leads over.
    pub(crate) fn is_resting(&self, spot: &Spot) -> bool {
        !self.pending.names.is_empty() && self.spreads.is_spent(spot)
    }

    /// Puts a look on the agenda. Of two the more thorough one is taken; a file that was complete and then went, or
    /// was created, may be anything by now.
    pub(crate) fn add(&mut self, spot: Arc<Spot>, look: Look) {
        let present = self.looks.entry(spot).or_insert(look);
        let (less, more) = (look.min(*present), look.max(*present));
        *present = if more == Look::Read && less < Look::Read && less > Look::Again { Look::Survey } else { more };
    }

    /// Takes the next place to look at, those above before those below.
    pub(crate) fn next(&mut self) -> Option<(Arc<Spot>, Look)> {
        self.looks.pop_first()
    }

    /// Whether what was read there just now may be out of date already: it will be looked at again, now or later.
    pub(crate) fn is_changing(&self, spot: &Spot) -> bool {
        self.writing.contains(spot) || self.looks.get(spot).is_some_and(|look| *look > Look::Again)
    }

    /// A place is looked at as if for the first time: what was pending at and below it is done with that. Whoever was
    /// writing a file may finish unheard while watches are set anew; `is_watched_anew` says whether that is so for the
    /// place itself.
    pub(crate) fn done_below(&mut self, top: &Arc<Spot>, is_watched_anew: bool) {
        let below = self.looks.range(top.clone()..).map(|(spot, _)| spot).take_while(|spot| spot.is_under(top));
        for spot in below.cloned().collect::<Vec<_>>() {
            self.looks.remove(&spot);
        }
        let is_kept = !is_watched_anew && self.writing.contains(top);
        remove_under(&mut self.writing, top);
        if is_kept {
            self.writing.insert(Arc::clone(top));
        }
    }
}

/// Removes a place and all below it.
pub(crate) fn remove_under(spots: &mut BTreeSet<Arc<Spot>>, top: &Arc<Spot>) {
    let under: Vec<_> = spots.range(Arc::clone(top)..).take_while(|spot| spot.is_under(top)).cloned().collect();
    for spot in &under {
        spots.remove(spot);
    }
}

/// What a name that came to be is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Created {
    /// It went again.
    Nothing,
    /// An empty file that somebody is about to write: its closing will be an event.
    Empty,
    /// A file with content, made by a link to it, or written to already.
    File,
    /// A link, a directory, or something that cannot be looked at.
    Other,
}

/// Looks at a name that came to be, without following links.
pub(crate) fn created(path: &Path, access: &Access) -> Created {
    match access.about(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Created::Nothing,
        Err(_) => Created::Other,
        Ok(about) if !about.is_file() => Created::Other,
        Ok(about) if about.size() == 0 && about.nlink() == 1 => Created::Empty,
        Ok(_) => Created::File,
    }
}
