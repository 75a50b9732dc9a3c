//! Of each identity, where the object that is in force comes from. The object itself is in the engine's table only.

use std::sync::Arc;

use api::ObjectKey;
use hashbrown::HashMap;

use crate::batch::{Origin, Source};

/// Where an object that is in force comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InForce {
    pub(crate) origin: Origin,
    pub(crate) source: Source,
}

/// All of them. There are as many as objects, so each takes 16 bytes: its place is a number.
#[derive(Debug, Default)]
pub(crate) struct AllInForce {
    /// Its order never reaches output.
    rows: HashMap<ObjectKey, Row>,
    places: Places,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    place: u32,
    line: u32,
}

impl AllInForce {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<InForce> {
        let Row { place, line } = *self.rows.get(key)?;
        let Place { file, source, .. } = self.places.all.get(place as usize)?;
        Some(InForce { origin: Origin { file: Arc::clone(file), line }, source: *source })
    }

    pub(crate) fn set(&mut self, key: ObjectKey, InForce { origin: Origin { file, line }, source }: InForce) {
        let place = self.places.enter(file, source);
        if let Some(old) = self.rows.insert(key, Row { place, line }) {
            self.places.leave(old.place);
        }
    }

    /// Makes room for so many more.
    pub(crate) fn make_room(&mut self, objects: usize) {
        self.rows.reserve(objects);
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        if let Some(old) = self.rows.remove(key) {
            self.places.leave(old.place);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
}

/// Files of sources with numbers, each as long as an object names it.
#[derive(Debug, Default)]
struct Places {
    all: Vec<Place>,
    free: Vec<u32>,
    find: HashMap<(Arc<str>, Source), u32>,
    /// The number that was looked up last: objects come file by file.
    last: usize,
}

#[derive(Debug)]
struct Place {
    file: Arc<str>,
    source: Source,
    objects: usize,
}

impl Places {
    fn enter(&mut self, file: Arc<str>, source: Source) -> u32 {
        let is_last = |last: &&mut Place| last.objects > 0 && last.source == source && Arc::ptr_eq(&last.file, &file);
        if let Some(last) = self.all.get_mut(self.last).filter(is_last) {
            last.objects += 1;
            return self.last as u32;
        }
        let number = match self.find.get(&(Arc::clone(&file), source)) {
            Some(number) => *number,
            None => self.add(file, source),
        };
        self.last = number as usize;
        if let Some(place) = self.all.get_mut(number as usize) {
            place.objects += 1;
        }
        number
    }

    /// There are no more places than objects, and of these the engine holds fewer than 2^31: the cast loses nothing.
    fn add(&mut self, file: Arc<str>, source: Source) -> u32 {
        let place = Place { file: Arc::clone(&file), source, objects: 0 };
        let number = match self.free.pop() {
            Some(number) => {
                if let Some(free) = self.all.get_mut(number as usize) {
                    *free = place;
                }
                number
            }
            None => {
                self.all.push(place);
                (self.all.len() - 1) as u32
            }
        };
        self.find.insert((file, source), number);
        number
    }

    fn leave(&mut self, number: u32) {
        let Some(place) = self.all.get_mut(number as usize) else { return };
        place.objects = place.objects.saturating_sub(1);
        if place.objects == 0 {
            self.find.remove(&(std::mem::replace(&mut place.file, Arc::from("")), place.source));
            self.free.push(number);
        }
    }
}

#[cfg(test)]
mod tests;
