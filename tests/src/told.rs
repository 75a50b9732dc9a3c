//! What `chancery validate` says of a text.

use crate::binary;

/// Every problem of a file as `line:column severity: text`.
///
/// # Errors
/// If the binary cannot be run.
pub fn pointed(text: &str) -> anyhow::Result<Vec<String>> {
    let place = tempfile::tempdir()?;
    let file = place.path().join("it.yaml");
    std::fs::write(&file, text)?;
    let output = binary::run(["validate", "-f", &file.display().to_string()], "")?;
    let shown = String::from_utf8(output.stdout)?;
    let paragraphs = shown.split("\n\n").filter_map(|paragraph| paragraph.split_once("\n  --> "));
    let place = |rest: &str| {
        let (_, place) = rest.lines().next().unwrap_or_default().split_once(".yaml:").unwrap_or_default();
        place.to_owned()
    };
    Ok(paragraphs.map(|(text, rest)| format!("{} {text}", place(rest))).collect())
}
