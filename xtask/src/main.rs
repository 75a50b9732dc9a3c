//! Repository chores: `cargo xtask <verb>`, one module per verb.

mod proto;
mod schemas;
mod tidy;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A verb: its name, what it does in one line, and the function behind it.
struct Verb {
    name: &'static str,
    about: &'static str,
    run: fn(&Chore<'_>) -> anyhow::Result<Outcome>,
}

/// Every verb, in the order of the help text.
const VERBS: &[Verb] = &[
    Verb {
        name: "proto",
        about: "write descriptors and Rust types of Envoy's API from the installed Envoy (--check: only compare)",
        run: proto::run,
    },
    Verb {
        name: "schemas",
        about: "write the schemas of Gateway API from its pinned Go module (--check: only compare)",
        run: schemas::run,
    },
    Verb {
        name: "tidy",
        about: "check the walls of the design: edges between rooms, file sizes, headers, orphan files, tests that SECURITY.md names",
        run: tidy::run,
    },
];

/// What a verb gets: the root of the repository and the words after its name.
struct Chore<'a> {
    root: &'a Path,
    args: &'a [String],
}

/// How a verb ended when nothing broke.
enum Outcome {
    /// Everything is as it should be.
    Fine,
    /// The verb did its work and found something wrong; it has said what.
    Wrong,
}

impl Chore<'_> {
    /// True if `--check` is given; any other word is refused.
    fn check_only(&self) -> anyhow::Result<bool> {
        match self.args {
            [] => Ok(false),
            [word] if word == "--check" => Ok(true),
            other => anyhow::bail!("unknown arguments {other:?}: only --check is known"),
        }
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((verb, args)) = words.split_first().and_then(|(name, args)| Some((find(name)?, args))) else {
        say(&usage());
        return ExitCode::from(2);
    };
    let root = repository_root();
    match (verb.run)(&Chore { root: &root, args }) {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::Wrong) => ExitCode::from(1),
        Err(error) => {
            say(&format!("xtask {}: {error:#}", verb.name));
            ExitCode::from(1)
        }
    }
}

fn find(name: &str) -> Option<&'static Verb> {
    VERBS.iter().find(|verb| verb.name == name)
}

fn usage() -> String {
    let mut text = String::from("usage: cargo xtask <verb>\n");
    for verb in VERBS {
        text.push_str(&format!("\n  {:<10} {}", verb.name, verb.about));
    }
    text
}

/// The folder above `xtask/`: the one fact that cargo gives at build time.
fn repository_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// One line for the person at the terminal. A closed standard error is nobody's fault.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
