//! Reading once, without following changes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::file::access::Links;
use crate::file::catalog::Catalog;
use crate::file::document::Document;
use crate::file::read::{self, Outcome, Pace, read_all};
use crate::file::spot::Spot;
use crate::file::tree::Tree;
use crate::file::{Loaded, current_directory, document, report};

/// Something to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A directory or a file. Unlike [`super::watch`], this reads open descriptors as well: standard input, and pipes of a shell's `<(...)`.
    Path(PathBuf),
    /// A text that was read already, such as standard input.
    Text {
        /// What people see in place of the file's name, for example `<stdin>`.
        name: Arc<str>,
        /// The content; anything but UTF-8 becomes a problem.
        bytes: Vec<u8>,
    },
}

/// Reads directories and files, on all cores. The order of the result depends on names and lines only.
#[must_use]
pub fn load(roots: &[PathBuf]) -> Loaded {
    load_following(roots, Links::WithinRoots)
}

/// The same where these links are followed.
pub(crate) fn load_following(roots: &[PathBuf], links: Links) -> Loaded {
    let mut catalog = Catalog::default();
    load_paths(&mut catalog, (roots, links));
    Loaded::new(catalog.commit())
}

/// Reads directories, files and texts. Of equal identities the first one counts: paths in their order, then texts.
#[must_use]
pub fn load_inputs(inputs: &[Input]) -> Loaded {
    load_inputs_following(inputs, Links::WithinRoots)
}

/// The same where these links are followed.
#[must_use]
pub fn load_inputs_following(inputs: &[Input], links: Links) -> Loaded {
    let mut catalog = Catalog::default();
    let (pipes, roots): (Vec<&Path>, Vec<&Path>) = inputs.iter().filter_map(path).partition(|path| is_descriptor(path));
    load_paths(&mut catalog, (&roots.into_iter().map(Path::to_owned).collect::<Vec<_>>(), links));
    let mut texts: Vec<(Arc<str>, std::io::Result<Vec<u8>>)> = Vec::new();
    for path in pipes {
        let bytes = File::open(path).and_then(|mut file| read::bounded(&mut file, 0));
        texts.push((path.to_string_lossy().into(), bytes));
    }
    for input in inputs {
        if let Input::Text { name, bytes } = input {
            texts.push((name.clone(), Ok(bytes.clone())));
        }
    }
    for (at, (name, bytes)) in texts.into_iter().enumerate() {
        let spot = Spot::root(u32::try_from(inputs.len() + at).unwrap_or(u32::MAX), &name);
        match bytes {
            Ok(bytes) => match str::from_utf8(&bytes) {
                Ok(text) => {
                    let old: &[Document] = &[];
                    catalog.put(&spot, document::parse(&name, text, old, &|| true).unwrap_or_default());
                }
                Err(error) => catalog.trouble(&spot, read::not_utf8(&name, &bytes, error)),
            },
            Err(error) => catalog.trouble(&spot, report::whole(&name, format_args!("cannot be read: {error}"))),
        }
    }
    Loaded::new(catalog.commit())
}

fn load_paths(catalog: &mut Catalog, (roots, links): (&[PathBuf], Links)) {
    let current = match current_directory(roots) {
        Ok(current) => current,
        Err(error) => {
            let spot = Spot::root(0, ".");
            catalog.trouble(&spot, report::whole(&spot.display, error));
            return;
        }
    };
    let mut tree = Tree::new((roots, links), &current, Default::default());
    for root in tree.roots() {
        let survey = tree.survey(&root);
        let outcomes = read_all(&survey.files, catalog, (tree.access(), Pace::Whole));
        for ((spot, _), outcome) in survey.files.iter().zip(outcomes) {
            match outcome {
                Outcome::Documents(parsed) => catalog.put(spot, parsed),
                Outcome::Trouble(problem) | Outcome::Unreadable { problem, .. } => catalog.trouble(spot, problem),
                // Nothing is costly where all is read whole.
                Outcome::Gone | Outcome::Costly { .. } => {}
            }
        }
        for trouble in survey.troubles {
            catalog.trouble(&trouble.spot, trouble.problem);
        }
    }
}

fn path(input: &Input) -> Option<&Path> {
    match input {
        Input::Path(path) => Some(path),
        Input::Text { .. } => None,
    }
}

/// Returns true if a path names an open descriptor of this process, which is read to its end whatever it is: the user who started the process has chosen it.
/// It has no place in a directory, even if the shell made it a file.
fn is_descriptor(path: &Path) -> bool {
    let is_number = |name: &Path| name.to_str().is_some_and(|name| name.parse::<u32>().is_ok());
    let is_below = |folder: &&str| path.strip_prefix(folder).is_ok_and(is_number);
    path == Path::new("/dev/stdin") || ["/dev/fd", "/proc/self/fd"].iter().any(is_below)
}
