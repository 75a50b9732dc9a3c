//! What a fleet's clients have acknowledged, as a file that grows with what changes.
//!
//! The format: `XDSF` and a format number, then records. A record is its length (8 bytes), a checksum of the length (8),
//! the checksum of what follows (16), and one protobuf message; numbers are big-endian. The first record holds the fleet's name and the number
//! of records that the file began with, each other one is a transaction: all of it is in force or nothing.
//!
//! A file gets its name once it holds what it begins with, and from then on records are only ever added. So a last record that is not all there is
//! what remains of a write that was cut off, and is no damage, if it was added: what was before it holds. Anything else that is wrong is damage, and nothing of the file is used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashSet;
use prost::Message;

use super::record::{Doubts, Key, Put, Record};
use super::{Format, SUM, SavedError, sum};
use crate::resource::{Need, Resource, TypeUrl};

/// Since 2 a route configuration says whether its hosts come by VHDS. What does not say so cannot be served to who knows no VHDS, so that
/// older files are of no use.
pub(super) const FORMAT: Format = Format { magic: *b"XDSF", number: 2 };

/// Length and checksums before a record.
const FRAME: usize = 2 * LENGTH + SUM;

const LENGTH: usize = size_of::<u64>();

/// A new file is written in records of about this size, so that no more of it is in memory at once.
const RECORD: usize = 1 << 20;

/// What a resource takes besides its body and names, about.
const AROUND: usize = 64;

/// Of whom a journal is.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Owner {
    #[prost(string, tag = "1")]
    pub(super) fleet: String,
    /// Records that were there when the file got its name; none in the files of earlier programs.
    #[prost(uint64, tag = "2")]
    pub(super) records: u64,
}

/// A change of what is saved.
pub(crate) enum Edit {
    /// A resource, and what is saved under its name.
    Put { resource: Arc<Resource>, base: Option<Arc<Resource>> },
    /// Nothing is to be saved under this name.
    Remove(Need),
}

/// What clients of one id may have without saying so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Doubt {
    pub(crate) needs: BTreeSet<Need>,
    /// How many clients had the id at once: each of them may be the one.
    pub(crate) heirs: usize,
}

/// What of a fleet is to be saved.
pub struct Unsaved {
    pub(crate) fleet: Arc<str>,
    pub(crate) whole: bool,
    pub(crate) edits: Vec<Edit>,
    pub(crate) doubts: Vec<(Arc<str>, Doubt)>,
    pub(crate) gone: bool,
}

impl Unsaved {
    pub(crate) fn gone(fleet: Arc<str>) -> Self {
        Self { fleet, whole: false, edits: Vec::new(), doubts: Vec::new(), gone: true }
    }

    /// Whose it is.
    #[must_use]
    pub fn fleet(&self) -> &Arc<str> {
        &self.fleet
    }

    /// The fleet is no more: its file goes.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// This is everything, and takes the place of the file; else it is added to it.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// The bytes, part by part. What is added to a file is one part.
    pub fn parts(&self) -> impl Iterator<Item = Vec<u8>> {
        let doubts = (!self.doubts.is_empty()).then(|| self.doubts());
        let (alone, together) = if self.whole { (doubts, None) } else { (None, doubts) };
        let groups = self.groups();
        let records = groups.len() as u64 + u64::from(alone.is_some());
        let owner = Owner { fleet: self.fleet.to_string(), records };
        let head = self.whole.then(|| [FORMAT.head(), framed(&owner)].concat());
        let alone = alone.map(|doubts| framed(&Record { doubts, ..Record::default() }));
        let records = groups.into_iter().map(record);
        let records = records.map(move |record| {
            let doubts = together.clone().unwrap_or_default();
            framed(&Record { doubts, ..record })
        });
        head.into_iter().chain(alone).chain(records)
    }

    /// The edits of each record.
    fn groups(&self) -> Vec<&[Edit]> {
        if !self.whole {
            return vec![&self.edits];
        }
        let mut size = 0;
        let full = |_: &Edit, edit: &Edit| {
            size += edit.size();
            let full = size > RECORD;
            size = if full { edit.size() } else { size };
            !full
        };
        self.edits.chunk_by(full).collect()
    }

    fn doubts(&self) -> Vec<Doubts> {
        let doubts = self.doubts.iter().map(|(node, Doubt { needs, heirs })| Doubts {
            node: node.to_string(),
            needs: needs.iter().map(Key::of).collect(),
            heirs: u32::try_from(*heirs).unwrap_or(u32::MAX),
        });
        doubts.collect()
    }
}

/// Bodies can hold private keys.
impl std::fmt::Debug for Unsaved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Unsaved({}, {} changes)", self.fleet, self.edits.len())
    }
}

impl Edit {
    fn size(&self) -> usize {
        match self {
            Self::Put { resource, .. } => size(resource),
            Self::Remove(_) => AROUND,
        }
    }
}

fn record(edits: &[Edit]) -> Record {
    let mut record = Record::default();
    for edit in edits {
        match edit {
            Edit::Put { resource, base } => record.puts.push(Put::of(resource, base.as_deref())),
            Edit::Remove(need) => record.gone.push(Key::of(need)),
        }
    }
    record
}

fn framed(message: &impl Message) -> Vec<u8> {
    sealed(&message.encode_to_vec())
}

/// A record of this content.
pub(super) fn sealed(content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u64).to_be_bytes();
    [&length[..], &sum_of_length(length), &sum(content), content].concat()
}

fn sum_of_length(length: [u8; LENGTH]) -> [u8; LENGTH] {
    xxhash_rust::xxh3::xxh3_64(&length).to_be_bytes()
}

/// About what a resource takes.
fn size(resource: &Resource) -> usize {
    let needs: usize = resource.needs().map(|need| AROUND / 8 + need.name.len()).sum();
    AROUND + resource.name.len() + resource.size() + needs
}

/// What a fleet's clients had acknowledged when the process ended.
#[derive(Default)]
pub struct SavedFleet {
    pub(crate) fleet: Arc<str>,
    pub(crate) resources: BTreeMap<Need, Arc<Resource>>,
    pub(crate) doubts: BTreeMap<Arc<str>, Doubt>,
    intact: usize,
    /// Pieces and slices of all resources.
    held: usize,
}

impl SavedFleet {
    /// Reads a file.
    ///
    /// # Errors
    /// The bytes are something else, of another format, or damaged.
    pub fn read(bytes: &Bytes) -> Result<Self, SavedError> {
        let records = FORMAT.rest(bytes)?;
        let owner = frame(&records)?.ok_or(SavedError::Damaged)?;
        let mut rest = records.slice(FRAME + owner.len()..);
        let Owner { fleet, records: mut whole } = Owner::decode(owner).map_err(|_| SavedError::Damaged)?;
        let mut saved = Self { fleet: fleet.into(), ..Self::default() };
        let mut names: HashSet<Arc<str>> = HashSet::new();
        let mut share = |name: &str| Arc::clone(names.get_or_insert_with(name, |name| name.into()));
        while let Some(record) = frame(&rest)? {
            rest = rest.slice(FRAME + record.len()..);
            let record = Record::decode(record).map_err(|_| SavedError::Damaged)?;
            saved.apply(record, bytes.len(), &mut share)?;
            whole = whole.saturating_sub(1);
        }
        if whole > 0 {
            return Err(SavedError::Damaged);
        }
        saved.intact = bytes.len() - rest.len();
        Ok(saved)
    }

    /// These resources of a fleet.
    pub fn of(fleet: impl Into<Arc<str>>, resources: impl IntoIterator<Item = Resource>) -> Self {
        let key = |resource: &Resource| Need::new(resource.type_url.clone(), Arc::clone(&resource.name));
        let resources = resources.into_iter().map(|resource| (key(&resource), resource.into())).collect();
        Self { fleet: fleet.into(), resources, ..Self::default() }
    }

    /// Whose it is.
    #[must_use]
    pub fn fleet(&self) -> &Arc<str> {
        &self.fleet
    }

    /// The resources.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.resources.values().map(|resource| &**resource)
    }

    /// How many resources there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.resources.len()
    }

    /// There is nothing to know.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.doubts.is_empty()
    }

    /// So many bytes of the file hold; what is behind them is the rest of a write that was cut off.
    #[must_use]
    pub fn intact(&self) -> usize {
        self.intact
    }

    /// About so many bytes would do for all of it.
    #[must_use]
    pub fn size(&self) -> usize {
        self.resources.values().map(|resource| size(resource)).sum()
    }

    /// Forgets the secrets. True if there were any: they are still in the file then.
    pub fn drop_secrets(&mut self) -> bool {
        let before = self.resources.len();
        self.resources.retain(|need, _| need.type_url != TypeUrl::Secret);
        self.resources.len() < before
    }

    /// Listeners and clusters that need a secret which is not there: no client that lacks them gets them.
    pub fn without_secrets(&self) -> impl Iterator<Item = &Need> {
        let lacks = |need: &Need| need.type_url == TypeUrl::Secret && !self.resources.contains_key(need);
        self.resources.iter().filter(move |(_, resource)| resource.needs().any(lacks)).map(|(name, _)| name)
    }

    /// Brings one record into force. `most` bounds the pieces of all resources: each was written once, as one byte at least.
    fn apply(
        &mut self,
        record: Record,
        most: usize,
        share: &mut impl FnMut(&str) -> Arc<str>,
    ) -> Result<(), SavedError> {
        let parts = |resource: &Arc<Resource>| resource.body.len() + resource.needs.len();
        for key in &record.gone {
            let gone = self.resources.remove(&key.need(share));
            self.held -= gone.as_ref().map_or(0, parts);
        }
        for mut put in record.puts {
            let need = put.key.take().ok_or(SavedError::Damaged)?.need(share);
            let base = self.resources.get(&need);
            let resource = Arc::new(put.resource(&need, base.map(|base| &**base), most, share)?);
            self.held = self.held - base.map_or(0, parts) + parts(&resource);
            if self.held > most || resource.version.0 == 0 {
                return Err(SavedError::Damaged);
            }
            self.resources.insert(need, resource);
        }
        for Doubts { node, needs, heirs } in record.doubts {
            let needs: BTreeSet<Need> = needs.iter().map(|key| key.need(share)).collect();
            let node = share(&node);
            if needs.is_empty() {
                self.doubts.remove(&node)
            } else {
                self.doubts.insert(node, Doubt { needs, heirs: heirs as usize })
            };
        }
        Ok(())
    }
}

/// Bodies can hold private keys.
impl std::fmt::Debug for SavedFleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SavedFleet({}, {} resources)", self.fleet, self.resources.len())
    }
}

/// The content of the record at the beginning of `bytes`; none at the end of what was written whole.
fn frame(bytes: &Bytes) -> Result<Option<Bytes>, SavedError> {
    let Some((head, content)) = bytes.split_first_chunk::<FRAME>() else { return Ok(None) };
    // a place in the file was made, and the write never came to it
    if head.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let damaged = SavedError::Damaged;
    let Some((length, rest)) = head.split_first_chunk::<LENGTH>() else { return Err(damaged) };
    let Some((of_length, of_content)) = rest.split_first_chunk::<LENGTH>() else { return Err(damaged) };
    if *of_length != sum_of_length(*length) {
        return Err(damaged);
    }
    let length = usize::try_from(u64::from_be_bytes(*length)).unwrap_or(usize::MAX);
    let Some(own) = content.get(..length) else { return Ok(None) };
    match *of_content == sum(own) {
        true => Ok(Some(bytes.slice_ref(own))),
        false if own.len() == content.len() => Ok(None),
        false => Err(damaged),
    }
}
