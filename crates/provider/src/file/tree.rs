//! [`Tree`]: which files there are under the roots, and where changes have to be looked for.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use api::{Problem, Severity};
use nix::errno::Errno;
use nix::sys::inotify::WatchDescriptor;

use crate::file::access::{Access, Area, Denied, Links, descriptor};
use crate::file::read;
use crate::file::report;
use crate::file::resolve::{Found, Resolution, resolve};
use crate::file::shares::{Real, Shares};
use crate::file::spot::{Spot, is_read, is_visible};
use crate::file::watches::{Lookup, Watches};

mod ways;

/// Directories may be nested so deep below a root; people stay below ten levels.
const MAX_DEPTH: usize = 64;

/// Ways that are not taken, as another one leads to the same directory, that one look says: a note at each.
const MAX_NOTES: usize = 64;

/// Looks at a path that changes each time; a link is swapped in microseconds, once.
const MAX_TRIES: usize = 8;

/// The roots, and the directories and links below them.
#[derive(Debug)]
pub(crate) struct Tree {
    roots: Vec<Root>,
    directories: BTreeMap<Arc<Spot>, Directory>,
    /// Roots and symbolic links, with the names that they lead over.
    links: BTreeMap<Arc<Spot>, Link>,
    /// The places that may be read, by the roots as they were when they were looked at last.
    access: Access,
    followed: Links,
    /// Roots within other roots, which are read by way of those.
    covered: Vec<PathBuf>,
    pub(crate) watches: Watches,
    shares: Shares,
    /// Directories that could not be watched for want of watches.
    unwatched: BTreeSet<Arc<Spot>>,
    /// Places to look at once more, as a directory that they lead to is read by no other way any more.
    again: BTreeSet<Arc<Spot>>,
    /// Ways that are not taken, and come before the one that is.
    contested: BTreeSet<Arc<Spot>>,
}

#[derive(Debug)]
struct Root {
    spot: Arc<Spot>,
    absolute: PathBuf,
    /// Its place, once it was there.
    area: Option<Area>,
}

#[derive(Debug, Default)]
struct Link {
    lookups: Vec<Lookup>,
    /// Where the last name that was there, or was missed, is.
    end: PathBuf,
}

#[derive(Debug)]
struct Directory {
    /// Its path without links.
    real: PathBuf,
    watch: Option<WatchDescriptor>,
    /// Its identity; none where it cannot be read.
    identity: Option<Real>,
}

/// What a look at a place, and at all below it, found.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Files to read, with their paths.
    pub(crate) files: Vec<(Arc<Spot>, PathBuf)>,
    /// What cannot be read, and why.
    pub(crate) troubles: Vec<Trouble>,
    /// True if the place itself does not exist.
    pub(crate) missing: bool,
    /// Notes of ways that are not taken.
    notes: usize,
    /// Places for which there was no room, each once.
    full: BTreeSet<Arc<Spot>>,
}

/// A place that cannot be read.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) spot: Arc<Spot>,
    pub(crate) problem: Problem,
    /// Whether what it gave before, and all below it, stays in force: it may well be there.
    pub(crate) keeps: bool,
    /// Whether that is for want of descriptors or memory, and says nothing of the place.
    pub(crate) wants: bool,
    /// There are too many directories: it is looked at again when there is room.
    pub(crate) is_beyond: bool,
}

impl Survey {
    fn trouble(&mut self, spot: &Arc<Spot>, keeps: bool, text: impl fmt::Display) {
        let problem = report::whole(&spot.display, text);
        self.troubles.push(Trouble { spot: spot.clone(), problem, keeps, wants: false, is_beyond: false });
    }

    fn unreadable(&mut self, spot: &Arc<Spot>, error: &io::Error) {
        let problem = report::whole(&spot.display, format_args!("cannot be read: {error}"));
        let wants = read::wants(error);
        self.troubles.push(Trouble { spot: spot.clone(), problem, keeps: true, wants, is_beyond: false });
    }

    /// Adds the problem of a file or link that is not read for what it is, or where it is.
    fn denied(&mut self, spot: &Arc<Spot>, denied: &Denied) {
        let problem = report::denied(&spot.display, denied);
        // Without a root nothing is complete: it is waited for.
        let keeps = spot.is_root();
        self.troubles.push(Trouble { spot: spot.clone(), problem, keeps, wants: false, is_beyond: false });
    }

    /// Adds a directory that is not read for want of room, or its folder.
    fn beyond(&mut self, spot: &Arc<Spot>, most: usize) {
        if self.full.insert(spot.clone()) {
            let text = format_args!(
                "not read: {most} directories are the limit, of which the last quarter is for folders that have less than an eighth; it is read when \
                 there is room: remove directories, name deeper roots, or raise the kernel setting fs.inotify.max_user_watches where it is \
                 below 75000"
            );
            let problem = report::whole(&spot.display, text);
            self.troubles.push(Trouble { spot: spot.clone(), problem, keeps: true, wants: false, is_beyond: true });
        }
    }

    /// Adds a note of a way that is not taken.
    fn second_way(&mut self, spot: &Arc<Spot>, first: &Spot) {
        self.notes += 1;
        if self.notes <= MAX_NOTES {
            let text = format_args!("not read: it leads to a directory that is read as {} already", first.display);
            let problem = Problem { severity: Severity::Note, ..report::whole(&spot.display, text) };
            self.troubles.push(Trouble { spot: spot.clone(), problem, keeps: false, wants: false, is_beyond: false });
        }
    }

    fn unwatched(&mut self, spot: &Arc<Spot>, error: Errno) {
        let remedy = match error {
            Errno::ENOSPC => "raise the kernel setting fs.inotify.max_user_watches",
            _ => "check the directory and its permissions",
        };
        let text = format_args!("cannot be watched, so changes in it go unnoticed: {error}; {remedy}");
        self.trouble(spot, false, text);
    }
}

impl Tree {
    /// The roots as given, relative to `current`; those that lie within another one are left out.
    pub(crate) fn new(
        (given, links): (&[PathBuf], Links),
        current: &Path,
        (watches, shares): (Watches, Shares),
    ) -> Self {
        let absolute: Vec<PathBuf> = given.iter().map(|path| current.join(path)).collect();
        let found: Vec<Option<PathBuf>> = absolute.iter().map(|path| settled(path)).collect();
        let is_covered = |at: usize| {
            let others = found.iter().enumerate().filter(|(other, _)| *other != at);
            let mut covering = others.filter(|(other, root)| covers(root.as_deref(), found.get(at), *other < at));
            covering.next().is_some()
        };
        let (mut roots, mut covered) = (Vec::new(), Vec::new());
        for (at, (path, absolute)) in given.iter().zip(absolute).enumerate() {
            if !is_covered(at) {
                let spot = Spot::root(u32::try_from(roots.len()).unwrap_or(u32::MAX), &path.to_string_lossy());
                // Links of one root may lead into another one, which is looked at later.
                let area = Area::of(&absolute);
                roots.push(Root { spot, absolute, area });
            } else {
                covered.push(absolute);
            }
        }
        let mut tree = Self {
            roots,
            directories: BTreeMap::new(),
            links: BTreeMap::new(),
            access: Access::default(),
            followed: links,
            covered,
            watches,
            shares,
            unwatched: BTreeSet::new(),
            again: BTreeSet::new(),
            contested: BTreeSet::new(),
        };
        tree.set_access();
        tree
    }

    /// Returns the places that may be read.
    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    fn set_access(&mut self) {
        let covered: Vec<Area> = self.covered.iter().filter_map(|path| Area::of(path)).collect();
        self.access =
            Access::new(self.followed, self.roots.iter().filter_map(|root| root.area.as_ref()).chain(&covered));
    }

    /// Notes where a root is, and checks that it may be read there.
    fn place_root(&mut self, spot: &Arc<Spot>, resolution: &Resolution) -> Result<(), Denied> {
        let permitted = self.access.permits(&resolution.real, true);
        let area = permitted.is_ok().then(|| Area::found(resolution));
        if let Some(root) = self.roots.get_mut(spot.root_index()).filter(|root| root.area != area) {
            root.area = area;
            self.set_access();
        }
        permitted
    }

    /// Returns true if it is known where a root is.
    pub(crate) fn is_placed(&self, root: &Spot) -> bool {
        self.roots.get(root.root_index()).is_some_and(|root| root.area.is_some())
    }

    /// The places of the roots.
    pub(crate) fn roots(&self) -> Vec<Arc<Spot>> {
        self.roots.iter().map(|root| root.spot.clone()).collect()
    }

    /// The path of a place in the file system.
    pub(crate) fn path(&self, spot: &Spot) -> PathBuf {
        self.roots.get(spot.root_index()).map(|root| spot.in_root(&root.absolute)).unwrap_or_default()
    }

    /// Whether a directory or a link is known at a place.
    pub(crate) fn contains(&self, spot: &Spot) -> bool {
        self.directories.contains_key(spot) || self.links.contains_key(spot)
    }

    /// Where the way that leads over a root or a link ends, if it ends with this name in that watched directory.
    pub(crate) fn end(&self, spot: &Spot, watch: WatchDescriptor, name: &OsStr) -> Option<&Path> {
        let link = self.links.get(spot)?;
        let (last, its_name) = link.lookups.last()?;
        (*last == watch && its_name == name).then_some(&link.end)
    }

    /// Looks at a place as if for the first time. Watches are set before anything is listed, so that no change is
    /// lost between the two.
    pub(crate) fn survey(&mut self, spot: &Arc<Spot>) -> Survey {
        let released = self.forget(spot);
        let mut survey = Survey::default();
        self.look(spot, &mut survey);
        // Links come behind the rest of their directory.
        survey.files.sort_unstable_by(|(one, _), (two, _)| one.cmp(two));
        for (way, real) in released {
            self.compare_ways(&way, &real);
        }
        survey
    }

    /// Tries once more to watch what could not be watched. Returns what can be now.
    pub(crate) fn watch_again(&mut self) -> Vec<Arc<Spot>> {
        let mut watched = Vec::new();
        while let Some(spot) = self.unwatched.first().cloned() {
            let real = self.directories.get(&spot).map(|directory| directory.real.clone());
            if let Some(opened) = real.and_then(|real| self.access.directory(&real).ok()) {
                let Ok(watch) = self.watches.directory(&descriptor(&opened), &spot) else { break };
                self.directories.entry(spot.clone()).and_modify(|directory| directory.watch = watch);
            }
            self.unwatched.remove(&spot);
            watched.push(spot);
        }
        watched
    }

    /// Returns true if some directory could not be watched for want of watches.
    pub(crate) fn wants_watches(&self) -> bool {
        !self.unwatched.is_empty()
    }

    /// Forgets the directories and links at and below a place, and releases their watches. Returns the directories that were read there,
    /// each with its way.
    fn forget(&mut self, top: &Arc<Spot>) -> Vec<(Arc<Spot>, Real)> {
        let mut released = Vec::new();
        let below = |range: &mut dyn Iterator<Item = &Arc<Spot>>| -> Vec<Arc<Spot>> {
            range.take_while(|spot| spot.is_under(top)).cloned().collect()
        };
        for spot in below(&mut self.directories.range(top.clone()..).map(|(spot, _)| spot)) {
            let Some(directory) = self.directories.remove(&spot) else { continue };
            self.unwatched.remove(&spot);
            if let Some(watch) = directory.watch {
                self.watches.release_directory(watch, &spot);
            }
            if let Some(identity) = directory.identity {
                self.shares.release(&identity);
                released.push((spot, identity));
            }
        }
        self.shares.forget(top);
        for spot in below(&mut self.links.range(top.clone()..).map(|(spot, _)| spot)) {
            self.release(&spot);
        }
        released
    }

    /// Forgets a link, and releases the watches on its way.
    fn release(&mut self, spot: &Arc<Spot>) {
        for lookup in self.links.remove(spot).unwrap_or_default().lookups {
            self.watches.release_lookup(&lookup, spot);
        }
    }

    /// Looks at a place whose parent is known: a root, or an entry of a directory.
    fn look(&mut self, spot: &Arc<Spot>, survey: &mut Survey) {
        let Some((parent, name)) = spot.parent_and_name() else {
            if let Some(root) = self.roots.get(spot.root_index()) {
                let absolute = root.absolute.clone();
                self.follow(spot, Path::new("/"), &absolute, survey);
            }
            return;
        };
        let Some(directory) = self.directories.get(&parent) else {
            // The parent went in the meantime, and whoever looks at it will not find this.
            survey.missing = true;
            return;
        };
        let real = directory.real.clone();
        match self.access.about(&real.join(name)).map(|found| found.file_type()) {
            Ok(kind) if kind.is_symlink() => self.follow(spot, &real, Path::new(name), survey),
            Ok(kind) if kind.is_dir() => self.list(spot, real.join(name), survey),
            Ok(_) if is_read(name) => survey.files.push((spot.clone(), self.path(spot))),
            Ok(_) => survey.missing = true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => survey.missing = true,
            Err(error) => survey.unreadable(spot, &error),
        }
    }

    /// Follows a root or a link, and watches every name on the way.
    fn follow(&mut self, spot: &Arc<Spot>, from: &Path, path: &Path, survey: &mut Survey) {
        let resolution = self.resolve_watched(spot, from, path);
        let is_root = spot.is_root();
        let permitted = match &resolution.found {
            Found::Directory | Found::File if is_root => self.place_root(spot, &resolution),
            Found::Directory | Found::File => self.access.permits(&resolution.real, false),
            _ => Ok(()),
        };
        let Resolution { real, found, .. } = resolution;
        match permitted.map_or_else(Found::Stopped, |()| found) {
            Found::Directory => {
                if let Some(outer) = self.leads_back(spot, &real) {
                    let text =
                        format_args!("the link leads back to {outer}, which would never end; it is not followed");
                    survey.trouble(spot, false, text);
                } else {
                    self.list(spot, real, survey);
                }
            }
            Found::File if spot.is_read() => survey.files.push((spot.clone(), self.path(spot))),
            Found::File => survey.missing = true,
            Found::Missing { dangling } => {
                survey.missing = true;
                if is_root {
                    survey.trouble(spot, true, "no such file or directory");
                } else if dangling {
                    survey.trouble(spot, false, "the link leads to nothing; remove it, or put back what it leads to");
                }
            }
            Found::Circle => {
                survey.trouble(spot, is_root, "links lead round in a circle; remove or correct one of them")
            }
            Found::Long => survey.denied(spot, &Denied::Long),
            Found::Stopped(denied) => {
                if !is_root {
                    // Changes elsewhere do not matter. The link itself is watched with its directory.
                    self.release(spot);
                }
                survey.denied(spot, &denied);
            }
            Found::Failed(error) => survey.unreadable(spot, &error),
        }
    }

    /// Resolves until nothing changed between the look and the watch; from then on changes are events.
    fn resolve_watched(&mut self, spot: &Arc<Spot>, from: &Path, path: &Path) -> Resolution {
        let access = self.access.clone();
        let look = || match spot.is_root() {
            true => resolve(from, path, &mut |_| Ok(())),
            false => resolve(from, path, &mut |next| access.permits_name(next)),
        };
        let mut resolution = look();
        for _ in 0..MAX_TRIES {
            self.watch_lookups(spot, &resolution);
            let before = std::mem::replace(&mut resolution, look());
            if before.lookups == resolution.lookups {
                break;
            }
        }
        resolution
    }

    fn watch_lookups(&mut self, spot: &Arc<Spot>, resolution: &Resolution) {
        // A file that is missing is as a rule about to be written.
        let is_file = matches!(resolution.found, Found::File | Found::Missing { .. });
        let link = self.links.entry(spot.clone()).or_default();
        let mut lookups = resolution.lookups.iter().peekable();
        while let Some(lookup) = lookups.next() {
            let is_last = lookups.peek().is_none();
            let directory = descriptor(&*lookup.opened);
            link.lookups.extend(self.watches.lookup(&directory, &lookup.name, spot, is_file && is_last));
            if is_last {
                link.end = lookup.directory.join(&lookup.name);
            }
        }
    }

    /// The directory around this place that its link leads to, if it does: a circle.
    fn leads_back(&self, spot: &Arc<Spot>, real: &Path) -> Option<Arc<str>> {
        let mut around = spot.parent_and_name().map(|(parent, _)| parent);
        while let Some(outer) = around {
            if let Some((outer, _)) = self.directories.get_key_value(&outer).filter(|(_, found)| found.real == real) {
                return Some(outer.display.clone());
            }
            around = outer.parent_and_name().map(|(parent, _)| parent);
        }
        None
    }

    /// Watches a directory, lists it, and looks at what is in it.
    fn list(&mut self, spot: &Arc<Spot>, real: PathBuf, survey: &mut Survey) {
        if spot.depth() > MAX_DEPTH {
            return survey.trouble(
                spot,
                false,
                format_args!("not read: {MAX_DEPTH} levels are the limit; name deeper roots"),
            );
        }
        if !self.shares.fits(&spot.share()) {
            let place = self.shares.wait(spot);
            return survey.beyond(&place, self.shares.most());
        }
        let found = match self.access.directory(&real) {
            Ok(found) => found,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                survey.missing = true;
                if spot.is_root() {
                    survey.trouble(spot, true, "no such file or directory");
                }
                return;
            }
            Err(error) => {
                // Its permissions are watched with its parent.
                self.directories.insert(spot.clone(), Directory { real, watch: None, identity: None });
                return survey.unreadable(spot, &error);
            }
        };
        let identity = match found.metadata().map(|about| self.shares.take(spot, about.dev(), about.ino())) {
            Ok(Ok(identity)) => Some(identity),
            Ok(Err(first)) => {
                self.contest(spot, &first);
                return survey.second_way(spot, &first);
            }
            Err(error) => return survey.unreadable(spot, &error),
        };
        let path = descriptor(&found);
        let watch = self.watches.directory(&path, spot).unwrap_or_else(|error| {
            if error == Errno::ENOSPC {
                self.unwatched.insert(spot.clone());
            }
            survey.unwatched(spot, error);
            None
        });
        let listed = entries(&path);
        self.directories.insert(spot.clone(), Directory { real: real.clone(), watch, identity });
        match listed {
            Ok(names) => {
                let (links, others): (Vec<_>, Vec<_>) =
                    names.into_iter().partition(|(_, kind)| matches!(kind, Kind::Link));
                // A directory is read as what it is where a link next to it leads there as well.
                for (name, kind) in others.into_iter().chain(links) {
                    let entry = spot.join(&name);
                    match kind {
                        Kind::Link => self.follow_entry(&entry, &real, &name, survey),
                        Kind::Directory => self.list_entry(&entry, real.join(&name), survey),
                        Kind::File => survey.files.push((entry.clone(), self.path(&entry))),
                    }
                }
            }
            Err(error) => survey.unreadable(spot, &error),
        }
    }

    /// What is wrong with one entry does not concern the directory that it is in.
    fn follow_entry(&mut self, entry: &Arc<Spot>, real: &Path, name: &OsStr, survey: &mut Survey) {
        let missing = std::mem::take(&mut survey.missing);
        self.follow(entry, real, Path::new(name), survey);
        survey.missing = missing;
    }

    fn list_entry(&mut self, entry: &Arc<Spot>, real: PathBuf, survey: &mut Survey) {
        let missing = std::mem::take(&mut survey.missing);
        self.list(entry, real, survey);
        survey.missing = missing;
    }
}

enum Kind {
    Link,
    Directory,
    File,
}

/// The entries of a directory that concern us, sorted.
fn entries(directory: &Path) -> io::Result<Vec<(OsString, Kind)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if !is_visible(&name) {
            continue;
        }
        match entry.file_type() {
            Ok(kind) if kind.is_symlink() => entries.push((name, Kind::Link)),
            Ok(kind) if kind.is_dir() => entries.push((name, Kind::Directory)),
            Ok(_) if is_read(&name) => entries.push((name, Kind::File)),
            Ok(_) => {}
            // It went between the listing and the look.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    entries.sort_by(|(one, _), (two, _)| one.cmp(two));
    Ok(entries)
}

/// The path of something that is there, as written but for `.` and `..`. Where links lead is not looked at: they may lead elsewhere
/// tomorrow. None if `..` leads over one.
fn settled(path: &Path) -> Option<PathBuf> {
    let real = fs::canonicalize(path).ok()?;
    let mut written = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(written.pop()),
            other => written.push(other),
        }
    }
    (written == real || !path.components().any(|part| part == Component::ParentDir)).then_some(written)
}

/// Whether the files of `inner` are read by way of the root `outer` already. Of two equal roots the earlier one counts.
fn covers(outer: Option<&Path>, inner: Option<&Option<PathBuf>>, is_earlier: bool) -> bool {
    let (Some(outer), Some(Some(inner))) = (outer, inner) else { return false };
    match inner.strip_prefix(outer) {
        Ok(rest) if rest.as_os_str().is_empty() => is_earlier,
        Ok(rest) => {
            let is_file_read = inner.is_dir() || rest.file_name().is_some_and(is_read);
            is_file_read && rest.iter().all(is_visible)
        }
        Err(_) => false,
    }
}
