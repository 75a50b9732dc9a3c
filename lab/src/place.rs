//! Where the lab has its files.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// Folders that the lab uses.
#[derive(Clone)]
pub(crate) struct Place {
    /// The project's.
    root: PathBuf,
    /// Of a run: made anew at each start, gone after its end.
    state: PathBuf,
}

impl Place {
    /// The project is that of the working folder.
    pub(crate) fn find(state: Option<&Path>) -> anyhow::Result<Self> {
        let here = std::env::current_dir().context("the working folder")?;
        let root = here.ancestors().find(|folder| folder.join("lab/kube/go.mod").is_file());
        let Some(root) = root else { bail!("{} is not in the project's folder", here.display()) };
        let state = state.map_or_else(|| root.join("target/lab"), |state| here.join(state));
        // a path with links would be another one inside of a container
        let state = std::fs::canonicalize(&state).unwrap_or(state);
        Ok(Self { root: root.to_owned(), state })
    }

    /// A program that was built or fetched before.
    pub(crate) fn program(&self, name: &str) -> anyhow::Result<PathBuf> {
        let program = self.programs().join(name);
        if !program.is_file() {
            bail!("{} is missing; `make tools` builds it, once", program.display());
        }
        Ok(program)
    }

    pub(crate) fn programs(&self) -> PathBuf {
        self.root.join(".tools/lab/current/bin")
    }

    /// A file of the project.
    pub(crate) fn project(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    /// A file of the state that is seen from outside: logs, and what the verbs say to each other.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.state.join(name)
    }

    /// A file that is there only inside and ends with the lab: it is in memory.
    pub(crate) fn inside(&self, name: &str) -> PathBuf {
        self.state.join("run").join(name)
    }
}
