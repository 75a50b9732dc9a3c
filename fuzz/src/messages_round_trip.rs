//! Any message of Envoy's API from JSON to bytes and back: made up by its descriptor, or any text. What is read is what is printed, and what is
//! wrong with it is the same before and after.

use std::sync::LazyLock;

use arbitrary::{Result, Unstructured};
use protojson::{Pool, Unknown};

use crate::messages::Maker;

static MAKER: LazyLock<Maker> = LazyLock::new(Maker::envoy);

/// One input: which message, then what is in it.
pub fn run(data: &[u8]) {
    let _ = message(&mut Unstructured::new(data));
}

fn message(u: &mut Unstructured<'_>) -> Result<()> {
    let name = u.choose(MAKER.names())?;
    if u.ratio(1_u8, 4_u8)? {
        if let Ok(bytes) = protojson::from_text(name, &String::from_utf8_lossy(u.bytes(u.len())?)) {
            round_trip(name, &bytes);
        }
        return Ok(());
    }
    let json = MAKER.json(u, name)?;
    let (read, _) = Pool::envoy().read(name, &json, Unknown::Refuse).unwrap_or_else(|error| panic!("{error}: {json}"));
    let bytes = read.to_bytes();
    assert_eq!(read.check(), protojson::check(name, &bytes), "rules are about what is there, however it came: {json}");
    round_trip(name, &bytes);
    Ok(())
}

/// From canonical bytes to JSON and back.
fn round_trip(name: &str, bytes: &[u8]) {
    let canonical = protojson::canonical(name, bytes);
    assert_eq!(canonical.as_deref(), Ok(bytes), "what is read is canonical");
    let json = protojson::to_json(name, bytes).unwrap_or_else(|error| panic!("{name} cannot be printed: {error}"));
    let again = protojson::from_json(name, &json).unwrap_or_else(|error| panic!("{error}: {json}"));
    assert_eq!(again, bytes, "what is printed is read as it was: {json}");
}
