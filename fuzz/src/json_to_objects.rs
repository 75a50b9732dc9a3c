//! Any text as an object of an API server: reading it never panics, is a function of the text, and gives an object of the kind that was asked for.

use api::Kind;

/// One input: the kind, then the text.
pub fn run(data: &[u8]) {
    let Some((kind, text)) = data.split_first() else { return };
    let kinds = Kind::ALL;
    let (Some(kind), Ok(text)) = (kinds.get(usize::from(*kind) % kinds.len()), std::str::from_utf8(text)) else {
        return;
    };
    let Ok(decoded) = api::json::read(*kind, text) else { return };
    assert_eq!(decoded, api::json::read(*kind, text).unwrap_or_default(), "reading is a function of the text");
    assert!(decoded.objects.len() <= 1, "an object is one");
    for object in &decoded.objects {
        assert_eq!(object.kind(), *kind);
        assert!(object.references().is_sorted(), "references are sorted");
    }
    assert!(decoded.problems.iter().all(|problem| problem.place.is_none()), "there are no lines");
}
