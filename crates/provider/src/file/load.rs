//! Reading once, without following changes.

use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::file::catalog::Catalog;
use crate::file::read::{self, Outcome, read_all};
use crate::file::spot::Spot;
use crate::file::tree::Tree;
use crate::file::watches::Watches;
use crate::file::{Loaded, current_directory, document, report};

/// Something to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A directory or a file. Unlike [`super::watch`], this reads pipes as well, such as those of a shell's `<(...)`.
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
    let inputs: Vec<Input> = roots.iter().cloned().map(Input::Path).collect();
    load_inputs(&inputs)
}

/// Reads directories, files and texts. Of equal identities the first one counts: paths in their order, then texts.
#[must_use]
pub fn load_inputs(inputs: &[Input]) -> Loaded {
    let mut catalog = Catalog::default();
    let (pipes, roots): (Vec<&Path>, Vec<&Path>) = inputs.iter().filter_map(path).partition(|path| is_pipe(path));
    load_paths(&mut catalog, &roots.into_iter().map(Path::to_owned).collect::<Vec<_>>());
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
                Ok(text) => catalog.put(&spot, document::parse(&name, text, &[])),
                Err(error) => catalog.trouble(&spot, read::not_utf8(&name, &bytes, error)),
            },
            Err(error) => catalog.trouble(&spot, report::whole(&name, format_args!("cannot be read: {error}"))),
        }
    }
    Loaded::new(catalog.commit())
}

fn load_paths(catalog: &mut Catalog, roots: &[PathBuf]) {
    let current = match current_directory(roots) {
        Ok(current) => current,
        Err(error) => {
            let spot = Spot::root(0, ".");
            catalog.trouble(&spot, report::whole(&spot.display, error));
            return;
        }
    };
    let mut tree = Tree::new(roots, &current, Watches::default());
    for root in tree.roots() {
        let survey = tree.survey(&root);
        let outcomes = read_all(&survey.files, catalog);
        for ((spot, _), outcome) in survey.files.iter().zip(outcomes) {
            match outcome {
                Outcome::Documents(parsed) => catalog.put(spot, parsed),
                Outcome::Trouble(problem) | Outcome::Unreadable { problem, .. } => catalog.trouble(spot, problem),
                Outcome::Gone => {}
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

/// Whether a path is read as it is: a pipe, a device, or standard input and its like, which have no place in a directory
/// even if the shell made them files.
fn is_pipe(path: &Path) -> bool {
    let is_descriptor = ["/dev/stdin", "/dev/fd", "/proc"].iter().any(|place| path.starts_with(place));
    path.metadata().is_ok_and(|about| {
        let kind = about.file_type();
        kind.is_fifo() || kind.is_char_device() || is_descriptor && kind.is_file()
    })
}
