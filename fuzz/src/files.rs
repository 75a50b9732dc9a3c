//! Any bytes as several files: loading never panics, of one identity one object is in force, and who wins does not depend on chance.

use std::collections::BTreeSet;

use provider::file::{Input, load_inputs};

/// One input.
pub fn run(data: &[u8]) {
    // A byte that no text has parts the files.
    let parts = data.split(|byte| *byte == 0xff).take(4).enumerate();
    let inputs: Vec<Input> =
        parts.map(|(at, bytes)| Input::Text { name: format!("{at}.yaml").into(), bytes: bytes.to_vec() }).collect();
    let loaded = load_inputs(&inputs);
    let mut seen = BTreeSet::new();
    for (object, _) in &loaded.objects {
        assert!(seen.insert(store::identity(object.key())), "{} is in force twice", object.key());
    }
    assert_eq!(loaded, load_inputs(&inputs), "loading is a function of the texts");
}
