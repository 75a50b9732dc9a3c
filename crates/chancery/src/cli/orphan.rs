//! The hidden verb by which Chancery starts an Envoy whose parent is not Chancery.

use std::ffi::OsString;

use clap::Args;
use infra::host::orphan::{FIRST, SECOND, become_program, start};

use super::{Outcome, WrongUsage};

/// Arguments of `chancery orphan`.
#[derive(Debug, Args)]
pub(crate) struct OrphanArgs {
    /// `first PROGRAM ARGS` or `second PARENT PROGRAM ARGS`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    words: Vec<OsString>,
}

pub(crate) fn run(args: &OrphanArgs) -> anyhow::Result<Outcome> {
    match args.words.as_slice() {
        [step, program, rest @ ..] if step == FIRST => start(program, rest)?,
        [step, parent, program, rest @ ..] if step == SECOND => {
            let parent = parent.to_string_lossy().parse()?;
            let error = become_program(parent, program, rest);
            return Err(anyhow::Error::new(error).context(format!("cannot start {}", program.display())));
        }
        _ => return Err(WrongUsage("it is a verb for Chancery itself".to_owned()).into()),
    }
    Ok(Outcome::Fine)
}
