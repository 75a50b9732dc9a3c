//! The evidence of SECURITY.md: each test that it names has to exist, so that no promise outlives its test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

#[cfg(test)]
mod tests;

/// The folder of tests that are named as `file::test`.
const ATTACKS: &str = "tests/tests/attacks";

/// The folder of those behind the word `lab`.
const IN_A_CLUSTER: &str = "lab/tests/attacks";

/// The name in the sentence that says how tests are named.
const PATTERN: &str = "file::test";

/// Names in SECURITY.md that no test has.
pub(super) fn breaches(root: &Path, sources: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join("SECURITY.md")).context("reading SECURITY.md")?;
    let files: Vec<TestFile> =
        sources.iter().filter_map(|file| TestFile::read(root, file).transpose()).collect::<Result<_, _>>()?;
    Ok(missing(&text, &files))
}

/// A source file that has tests.
struct TestFile {
    /// Path from the root of the repository.
    path: PathBuf,
    tests: BTreeSet<String>,
}

impl TestFile {
    /// Reads a file. None if it has no test.
    fn read(root: &Path, file: &Path) -> anyhow::Result<Option<Self>> {
        let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        let tests = tests_of(&text);
        let path = file.strip_prefix(root).unwrap_or(file).to_owned();
        Ok((!tests.is_empty()).then_some(Self { path, tests }))
    }

    /// True if the file shows it: `module::test`, or a test of that name.
    fn shows(&self, folder: &str, name: &str) -> bool {
        let Ok(below) = self.path.strip_prefix(folder) else { return false };
        let is_in = |module: &str| below.with_extension("").iter().any(|part| part == module);
        match name.split_once("::") {
            Some((module, test)) => is_in(module) && self.tests.contains(test),
            None => self.tests.contains(name),
        }
    }
}

/// Names of the functions behind an attribute such as `#[test]` or `#[tokio::test(..)]`, but for ignored ones: these show nothing.
fn tests_of(text: &str) -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    let (mut marked, mut ignored) = (false, false);
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[") {
            marked |= line.contains("test]") || line.contains("test(");
            ignored |= line.starts_with("#[ignore");
        } else if let Some((_, name)) = line.split_once("fn ").filter(|_| !line.starts_with("//")) {
            let end = name.find(|character: char| !character.is_alphanumeric() && character != '_');
            let name = name.get(..end.unwrap_or(name.len())).unwrap_or_default();
            if std::mem::take(&mut marked) & !std::mem::take(&mut ignored) {
                tests.insert(name.to_owned());
            }
        }
    }
    tests
}

/// Breaches of a text: every name in backticks that promises a test and has none.
fn missing(text: &str, files: &[TestFile]) -> Vec<String> {
    let mut breaches = Vec::new();
    let (mut line, mut before) = (1, "");
    for (index, part) in text.split('`').enumerate() {
        if index % 2 == 0 {
            before = part;
        } else if let Some(folder) = folder_of(before, part, files)
            && !files.iter().any(|file| file.shows(&folder, part))
        {
            breaches.push(format!(
                "SECURITY.md:{line}: no test below {folder} is named `{part}`: write it, or name the one that shows the promise"
            ));
        }
        line += part.matches('\n').count();
    }
    breaches
}

/// The folder where a name in backticks has to be found, by the word before it. None if the name is not that of a test.
fn folder_of(before: &str, name: &str, files: &[TestFile]) -> Option<String> {
    let word = before.rsplit(char::is_whitespace).find(|word| !word.is_empty()).unwrap_or_default();
    let room = format!("crates/{word}");
    match word {
        "lab" => Some(IN_A_CLUSTER.to_owned()),
        _ if !word.is_empty() && files.iter().any(|file| file.path.starts_with(&room)) => Some(room),
        _ => (name != PATTERN && name.contains("::")).then(|| ATTACKS.to_owned()),
    }
}
