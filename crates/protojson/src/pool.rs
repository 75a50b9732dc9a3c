//! The descriptors of all messages, loaded once on first use, and the operations over them.

use std::sync::OnceLock;

use bytes::Bytes;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use proto::google::protobuf::Any;
use serde_json::Value as Json;

use crate::check::{self, Violation};
use crate::error::{Error, Path, Reason};
use crate::print::Names;
use crate::rules::RuleBook;
use crate::{encode, nearest, position, print, read};

/// Every file descriptor of the Envoy that we ship against (an encoded `google.protobuf.FileDescriptorSet`), written by
/// `cargo xtask proto`.
pub const DESCRIPTORS: &[u8] = include_bytes!("../descriptors/envoy.binpb");

/// The pool of the process.
static POOL: OnceLock<Pool> = OnceLock::new();

/// A set of message descriptors and what can be done with it.
#[derive(Debug)]
pub struct Pool {
    descriptors: DescriptorPool,
    /// Compiled on the first check: most processes print and never check.
    rules: OnceLock<RuleBook>,
}

impl Pool {
    /// All messages of the Envoy that we ship against, and those that were [installed](Self::install). The first call takes about 20 ms and 20 MB.
    #[must_use]
    pub fn envoy() -> &'static Self {
        POOL.get_or_init(|| Self::new(ours()))
    }

    /// Makes this the pool of the whole process: to be called before anything else here, once.
    ///
    /// # Errors
    /// The pool itself, if one is in use.
    pub fn install(self) -> Result<(), Box<Self>> {
        POOL.set(self).map_err(Box::new)
    }

    /// All messages of the Envoy that we ship against.
    #[must_use]
    pub fn of_envoy() -> Self {
        Self::new(ours())
    }

    /// Adds the messages of a descriptor set (an encoded `google.protobuf.FileDescriptorSet`), its rules included. A file of a name that is known is
    /// left out: ours counts.
    ///
    /// # Errors
    /// If the bytes are not one, or it lacks a file that another one imports, or says otherwise what a known name is.
    pub fn add(&mut self, descriptor_set: &[u8]) -> Result<(), Error> {
        let added = self.descriptors.decode_file_descriptor_set(descriptor_set);
        self.rules = OnceLock::new();
        added.map_err(|error| Reason::Bytes(error.to_string()).at(&Path::default()))
    }

    /// Messages of a descriptor set (an encoded `google.protobuf.FileDescriptorSet`) of your own.
    ///
    /// # Errors
    /// If the bytes are not one, or it lacks a file that another one imports.
    pub fn decode(descriptor_set: &[u8]) -> Result<Self, Error> {
        match DescriptorPool::decode(descriptor_set) {
            Ok(descriptors) => Ok(Self::new(descriptors)),
            Err(error) => Err(Reason::Bytes(error.to_string()).at(&Path::default())),
        }
    }

    fn new(descriptors: DescriptorPool) -> Self {
        Self { descriptors, rules: OnceLock::new() }
    }

    /// Full names of all messages, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.descriptors.all_messages().map(|one| one.full_name().to_owned()).collect();
        names.sort_unstable();
        names
    }

    /// True if the message of that full name or type URL is known.
    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// See [`crate::to_json`].
    ///
    /// # Errors
    /// As there.
    pub fn to_json(&self, name: &str, bytes: &[u8]) -> Result<Json, Error> {
        print::message(self, &self.parse(name, bytes)?, Names::Json)
    }

    /// See [`crate::to_proto_json`].
    ///
    /// # Errors
    /// As there.
    pub fn to_proto_json(&self, name: &str, bytes: &[u8]) -> Result<Json, Error> {
        print::message(self, &self.parse(name, bytes)?, Names::Proto)
    }

    /// See [`crate::any_to_json`].
    ///
    /// # Errors
    /// As there.
    pub fn any_to_json(&self, any: &Any) -> Result<Json, Error> {
        print::any(self, any)
    }

    /// See [`crate::from_json`].
    ///
    /// # Errors
    /// As there.
    pub fn from_json(&self, name: &str, json: &Json) -> Result<Bytes, Error> {
        let message = read::message(self, &self.named(name)?, json, None)?;
        Ok(encode::message(self, &message))
    }

    /// See [`crate::from_text`].
    ///
    /// # Errors
    /// As there.
    pub fn from_text(&self, name: &str, text: &str) -> Result<Bytes, Error> {
        let json = position::parse(text)?;
        self.from_json(name, &json).map_err(|error| position::locate(error, text))
    }

    /// See [`crate::canonical`].
    ///
    /// # Errors
    /// As there.
    pub fn canonical(&self, name: &str, bytes: &[u8]) -> Result<Bytes, Error> {
        Ok(encode::message(self, &self.parse(name, bytes)?))
    }

    /// See [`crate::check()`].
    #[must_use]
    pub fn check(&self, name: &str, bytes: &[u8]) -> Vec<Violation> {
        match self.parse(name, bytes) {
            Ok(message) => check::message(self, &message),
            Err(error) => vec![Violation { path: error.path, text: error.reason.to_string() }],
        }
    }

    /// The descriptor of a full name or type URL.
    pub(crate) fn find(&self, name: &str) -> Option<MessageDescriptor> {
        self.descriptors.get_message_by_name(proto::full_name(name))
    }

    /// As [`Self::find`]; where there is none, why, with the nearest name that there is.
    pub(crate) fn known(&self, name: &str) -> Result<MessageDescriptor, Reason> {
        self.find(name).ok_or_else(|| {
            let wanted = proto::full_name(name);
            let names = self.names();
            let nearest = nearest::of(wanted, names.iter().map(String::as_str));
            // Of another package or version.
            let short = |name: &str| name.rsplit('.').next().map(str::to_owned);
            let mut alike = names.iter().filter(|name| short(name) == short(wanted));
            let only = alike.next().filter(|_| alike.next().is_none());
            let nearest = nearest.or_else(|| only.cloned());
            Reason::UnknownMessage { name: wanted.to_owned(), nearest }
        })
    }

    pub(crate) fn rules(&self) -> &RuleBook {
        self.rules.get_or_init(|| RuleBook::compile(&self.descriptors))
    }

    pub(crate) fn named(&self, name: &str) -> Result<MessageDescriptor, Error> {
        self.known(name).map_err(|reason| reason.at(&Path::default()))
    }

    fn parse(&self, name: &str, bytes: &[u8]) -> Result<DynamicMessage, Error> {
        DynamicMessage::decode(self.named(name)?, bytes)
            .map_err(|error| Reason::Bytes(error.to_string()).at(&Path::default()))
    }
}

/// The set is part of the program and a test loads it; were it broken, every name would be unknown.
fn ours() -> DescriptorPool {
    DescriptorPool::decode(DESCRIPTORS).unwrap_or_default()
}
