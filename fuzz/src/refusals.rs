//! Any words of a client about what it refuses: what is handed on is short, in one line, and holds nothing of a secret.

use xds::TypeUrl;
use xds::fuzzing::refusal;

const LONGEST: usize = 1000;

/// One input.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let shown = refusal(&TypeUrl::Cluster, &text);
    assert!(!shown.is_empty() && shown.chars().count() <= LONGEST && !shown.contains(char::is_control));
    for sign in ["-----BEGIN", "private_key", "inline_bytes", "inline_string", "generic_secret"] {
        assert!(!shown.contains(sign), "{shown}");
    }
    // of a secret's refusal no word is handed on: what is shown is one of a few texts of ours
    let mark = "\u{1F512}";
    let shown = refusal(&TypeUrl::Secret, &format!("{mark}{text}{mark}"));
    assert!(!shown.contains(mark) && shown.is_ascii(), "{shown}");
    assert_eq!(shown, refusal(&TypeUrl::Secret, &text));
}
