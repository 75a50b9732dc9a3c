//! Any bytes as a fleet's journal: no panic, bounded memory, and what can be read is served to a client without one.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use xds::saved::SavedFleet;

/// A journal's begin, and two records with their checksums, whose content is what the fuzzer says.
fn journal(content: &[u8]) -> Vec<u8> {
    let (first, second) = content.split_at(content.len() / 2);
    let mut file = b"XDSF\0\0\0\x01".to_vec();
    for content in [&b"\x0a\x01f"[..], first, second] {
        let length = (content.len() as u64).to_be_bytes();
        file.extend(length);
        file.extend(xxhash_rust::xxh3::xxh3_64(&length).to_be_bytes());
        file.extend(xxhash_rust::xxh3::xxh3_128(content).to_be_bytes());
        file.extend(content);
    }
    file
}

fuzz_target!(|data: &[u8]| {
    for bytes in [Bytes::copy_from_slice(data), journal(data).into()] {
        let Ok(mut saved) = SavedFleet::read(&bytes) else { continue };
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
});
