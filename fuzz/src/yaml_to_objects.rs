//! Any text as a file: reading it never panics, what it says is bounded, and every place that it names is in the text.

use std::sync::Arc;

/// One input.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let file: Arc<str> = "file.yaml".into();
    let lines = text.split('\n').count();
    let mut last = 0;
    for document in api::yaml::documents(text) {
        assert!(document.line > last && document.line as usize <= lines, "documents are in order and inside the text");
        last = document.line;
        let decoded = api::read(&document, &file);
        assert_eq!(decoded, api::read(&document, &file), "reading is a function of the text");
        for problem in &decoded.problems {
            if let Some(place) = &problem.place {
                assert!(place.line >= document.line && place.line as usize <= lines + 1, "{problem}");
                assert!(place.column >= 1, "{problem}");
            }
        }
    }
}
