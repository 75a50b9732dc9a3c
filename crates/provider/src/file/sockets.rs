//! Paths of Unix sockets that `Backend`s name, each with its target after links: Envoy follows them, and what a path says is not
//! where it leads.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use api::{Object, ObjectKey};
use store::{Batch, Change, Source};

#[cfg(test)]
mod tests;

/// The paths that the `Backend`s of one source name. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct SocketPaths(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    of: BTreeMap<ObjectKey, Vec<Arc<str>>>,
    /// By path: how many `Backend`s name it, and where it led last.
    leads: BTreeMap<Arc<str>, (usize, Arc<str>)>,
}

impl SocketPaths {
    /// Adds to a batch where the paths of its `Backend`s lead, so that both are known at once.
    pub fn add(&self, batch: &mut Batch) {
        let mut known = self.known();
        let mut found = Vec::new();
        for change in &batch.changes {
            match change {
                Change::Apply(Object::Backend(backend), _) => {
                    let sockets = backend.spec.endpoints.iter().filter_map(|endpoint| endpoint.unix.as_ref());
                    let paths = sockets.map(|unix| Arc::from(&*unix.path)).collect();
                    known.replace(&backend.meta.key, paths, &mut found);
                }
                Change::Delete(key) => known.replace(key, Vec::new(), &mut found),
                _ => {}
            }
        }
        batch.changes.extend(found);
    }

    /// Looks where all paths lead now. Gives those that lead elsewhere than before; none if there are none. It costs some system calls for
    /// each part of each path.
    pub fn look_again(&self) -> Option<Batch> {
        let mut changes = Vec::new();
        for (path, (_, before)) in &mut self.known().leads {
            let now = leads_to(path);
            if now != *before {
                *before = Arc::clone(&now);
                changes.push(Change::SocketPath(Arc::clone(path), Some(now)));
            }
        }
        (!changes.is_empty()).then_some(Batch { source: Source::File, changes, listed: false })
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// A `Backend` names these paths now.
    fn replace(&mut self, key: &ObjectKey, paths: Vec<Arc<str>>, found: &mut Vec<Change>) {
        for path in &paths {
            let (users, leads) = self.leads.entry(Arc::clone(path)).or_insert_with(|| (0, leads_to(path)));
            *users += 1;
            found.push(Change::SocketPath(Arc::clone(path), Some(Arc::clone(leads))));
        }
        let before = if paths.is_empty() { self.of.remove(key) } else { self.of.insert(key.clone(), paths) };
        for path in before.unwrap_or_default() {
            let Some((users, _)) = self.leads.get_mut(&path) else { continue };
            *users -= 1;
            if *users == 0 {
                self.leads.remove(&path);
                found.push(Change::SocketPath(path, None));
            }
        }
    }
}

/// Returns the path without links: its longest part that is there, resolved, with the rest behind it. A path that is not absolute stays as it is: the
/// translator refuses it.
fn leads_to(path: &str) -> Arc<str> {
    let whole = Path::new(path);
    let mut rest: Vec<Component<'_>> = Vec::new();
    let mut part = Some(whole).filter(|path| path.is_absolute());
    while let Some(present) = part {
        if let Ok(mut found) = std::fs::canonicalize(present) {
            found.extend(rest.iter().rev());
            return text(found);
        }
        // A link that leads to what is not there yet may lead anywhere once it is.
        if let Ok(target) = std::fs::read_link(present) {
            let mut found: PathBuf = present.parent().unwrap_or(Path::new("/")).join(target);
            found.extend(rest.iter().rev());
            return text(found);
        }
        rest.extend(present.components().next_back());
        part = present.parent();
    }
    path.into()
}

/// Returns a path as text; one that is none has replacements, so that it is below no folder that an operator named.
fn text(path: PathBuf) -> Arc<str> {
    path.to_string_lossy().as_ref().into()
}
