//! Any bytes, and any records, as a fleet's journal: no panic, bounded memory, and what can be read is served to a client without one.
#![no_main]

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use prost::Message;
use xds::saved::SavedFleet;

/// Records of a journal at most.
const RECORDS: usize = 16;

const NAMES: [&str; 4] = ["a", "b", "a/b", "xdstp://a/b/c"];

#[derive(Clone, PartialEq, Message)]
struct Record {
    #[prost(message, repeated, tag = "1")]
    puts: Vec<Put>,
    #[prost(message, repeated, tag = "2")]
    gone: Vec<Key>,
    #[prost(message, repeated, tag = "3")]
    doubts: Vec<Doubts>,
}

#[derive(Clone, PartialEq, Message)]
struct Put {
    #[prost(message, optional, tag = "1")]
    key: Option<Key>,
    #[prost(bytes = "bytes", tag = "2")]
    version: Bytes,
    #[prost(message, repeated, tag = "3")]
    body: Vec<Piece>,
    #[prost(message, repeated, tag = "4")]
    needs: Vec<Slice>,
    #[prost(string, optional, tag = "5")]
    replaces: Option<String>,
    #[prost(uint32, tag = "6")]
    ttl_millis: u32,
    #[prost(uint32, tag = "7")]
    apart: u32,
    #[prost(uint32, tag = "8")]
    vhds: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Key {
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(string, tag = "2")]
    other: String,
    #[prost(string, tag = "3")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Piece {
    #[prost(bytes = "bytes", tag = "1")]
    bytes: Bytes,
    #[prost(uint32, tag = "2")]
    from: u32,
    #[prost(uint32, tag = "3")]
    count: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Slice {
    #[prost(message, repeated, tag = "1")]
    needs: Vec<Key>,
    #[prost(uint32, tag = "2")]
    from: u32,
    #[prost(uint32, tag = "3")]
    count: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Doubts {
    #[prost(string, tag = "1")]
    node: String,
    #[prost(message, repeated, tag = "2")]
    needs: Vec<Key>,
}

fuzz_target!(|data: &[u8]| {
    check(Bytes::copy_from_slice(data));
    let (first, second) = data.split_at(data.len() / 2);
    check(journal(&[first.to_vec(), second.to_vec()]));
    let mut source = Unstructured::new(data);
    let mut records = Vec::new();
    while !source.is_empty() && records.len() < RECORDS {
        records.push(record(&mut source).unwrap_or_default().encode_to_vec());
    }
    check(journal(&records));
});

/// A journal's begin, and records with their checksums.
fn journal(records: &[Vec<u8>]) -> Bytes {
    let mut file = b"XDSF\0\0\0\x01".to_vec();
    for content in [b"\x0a\x01f".to_vec()].iter().chain(records) {
        let length = (content.len() as u64).to_be_bytes();
        file.extend(length);
        file.extend(xxhash_rust::xxh3::xxh3_64(&length).to_be_bytes());
        file.extend(xxhash_rust::xxh3::xxh3_128(content).to_be_bytes());
        file.extend(content);
    }
    file.into()
}

fn check(bytes: Bytes) {
    let Ok(mut saved) = SavedFleet::read(&bytes) else { return };
    assert!(saved.intact() <= bytes.len());
    let before = saved.len();
    let secrets = saved.drop_secrets();
    let left = saved.len();
    assert_eq!(secrets, left < before);
    let (events, _seen) = tokio::sync::mpsc::channel(1);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let server = xds::Server::start(runtime.handle(), events);
    server.keep(true);
    let fleet = saved.fleet().clone();
    server.restore(saved);
    // what is written of it is read as the same
    server.save_again(&fleet);
    for unsaved in server.take_unsaved() {
        let written: Bytes = unsaved.parts().flatten().collect();
        let again = SavedFleet::read(&written).expect("what was written");
        assert_eq!((again.len(), again.intact()), (left, written.len()));
    }
}

fn record(source: &mut Unstructured<'_>) -> Result<Record> {
    Ok(Record { puts: list(source, put)?, gone: list(source, key)?, doubts: list(source, doubts)? })
}

fn put(source: &mut Unstructured<'_>) -> Result<Put> {
    let version = source.int_in_range(0..=7_u8)?;
    Ok(Put {
        key: if source.ratio(1, 32)? { None } else { Some(key(source)?) },
        version: u128::from(version).to_be_bytes().get(usize::from(version == 7)..).unwrap_or_default().to_vec().into(),
        body: list(source, piece)?,
        needs: list(source, slice)?,
        replaces: if source.arbitrary()? { Some(name(source)?) } else { None },
        ttl_millis: *source.choose(&[0, 0, 1, u32::MAX])?,
        apart: source.int_in_range(0..=1)?,
        vhds: source.int_in_range(0..=1)?,
    })
}

fn piece(source: &mut Unstructured<'_>) -> Result<Piece> {
    let bytes = vec![b'x'; source.int_in_range(0..=300)?].into();
    let (from, count) = run(source)?;
    Ok(Piece { bytes, from, count })
}

fn slice(source: &mut Unstructured<'_>) -> Result<Slice> {
    let (needs, (from, count)) = (list(source, key)?, run(source)?);
    Ok(Slice { needs, from, count })
}

/// Where something begins in the version before, and how long it is.
fn run(source: &mut Unstructured<'_>) -> Result<(u32, u32)> {
    Ok((*source.choose(&[0, 0, 1, 2, u32::MAX])?, *source.choose(&[0, 0, 0, 1, 2, 3, u32::MAX])?))
}

fn doubts(source: &mut Unstructured<'_>) -> Result<Doubts> {
    Ok(Doubts { node: name(source)?, needs: list(source, key)? })
}

fn key(source: &mut Unstructured<'_>) -> Result<Key> {
    Ok(Key { kind: source.int_in_range(0..=12)?, other: name(source)?, name: name(source)? })
}

fn name(source: &mut Unstructured<'_>) -> Result<String> {
    Ok((*source.choose(&NAMES)?).to_owned())
}

fn list<'a, T>(source: &mut Unstructured<'a>, one: impl Fn(&mut Unstructured<'a>) -> Result<T>) -> Result<Vec<T>> {
    (0..source.int_in_range(0..=3)?).map(|_| one(source)).collect()
}
