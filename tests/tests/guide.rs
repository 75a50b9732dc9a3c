//! The operator's guide has what a status can say.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;

use tests::binary::root;

/// Files of the translator that write conditions or give reasons for them.
const WRITERS: [&str; 8] = [
    "status.rs",
    "status",
    "gateway.rs",
    "listener.rs",
    "listener",
    "reference.rs",
    "http_route/attach.rs",
    "http_route/filter.rs",
];

/// The words in a file, or in those of a folder, that are written as conditions and reasons are: `InvalidParameters`.
fn words(path: &Path, found: &mut BTreeSet<String>) {
    if path.is_dir() {
        std::fs::read_dir(path).unwrap().for_each(|entry| words(&entry.unwrap().path(), found));
        return;
    }
    let text = std::fs::read_to_string(path).unwrap();
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let literals = code.flat_map(|line| line.split('"').skip(1).step_by(2));
    found.extend(literals.filter(|literal| is_word(literal)).map(str::to_owned));
}

fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let starts = bytes.len() > 1 && bytes[0].is_ascii_uppercase() && bytes[1].is_ascii_lowercase();
    starts && bytes.iter().all(u8::is_ascii_alphabetic)
}

#[test]
fn every_condition_and_reason_stands_in_the_table() {
    let table = |guide: &str, title: &str| {
        let guide = std::fs::read_to_string(root().join("docs").join(guide)).unwrap();
        let (_, table) = guide.split_once(&format!("\n## {title}\n")).unwrap();
        table.split("\n## ").next().unwrap().to_owned()
    };
    let conditions = "What conditions mean";
    let raw = table("raw-envoy.md", conditions) + &table("raw-envoy.md", "Patches on what a Gateway generates");
    let tables = table("kubernetes.md", conditions) + &raw;
    let told: BTreeSet<&str> = tables.split(|letter: char| !letter.is_ascii_alphabetic()).collect();
    let mut written = BTreeSet::new();
    WRITERS.iter().for_each(|path| words(&root().join("crates/translator/src").join(path), &mut written));
    assert!(written.contains("InvalidParameters") && written.contains("BackendNotFound"), "{written:?}");
    let missing: Vec<_> = written.iter().filter(|word| !told.contains(word.as_str())).collect();
    assert!(missing.is_empty(), "no guide says what these mean: {missing:?}");
}
