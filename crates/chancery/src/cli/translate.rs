//! `chancery translate`: what files become, without starting anything.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value};

use super::{DataFormat, Outcome};
use crate::offline::Offline;

/// Arguments of `chancery translate`.
#[derive(Debug, Args)]
pub(crate) struct TranslateArgs {
    /// Files and folders with YAML or JSON; `-` is standard input
    #[arg(long = "file", short = 'f', value_name = "PATH", required = true)]
    files: Vec<PathBuf>,
    /// What to print; several give one object with a key each
    #[arg(long = "to", value_enum, value_delimiter = ',', default_values_t = [Stage::Status])]
    stages: Vec<Stage>,
    /// How to print
    #[arg(long, short, value_enum, default_value_t = DataFormat::Yaml)]
    output: DataFormat,
    /// Print private keys in Envoy's configuration, so that Envoy can run it
    #[arg(long)]
    show_secrets: bool,
}

/// A stage of the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stage {
    /// Statuses, in Kubernetes shape
    Status,
    /// Resolved intent
    Ir,
    /// A complete static configuration that Envoy accepts
    Envoy,
}

/// Prints the stages. Problems go to standard error; they are no failure of this verb, `validate` is the one that judges.
pub(crate) fn run(args: &TranslateArgs) -> anyhow::Result<Outcome> {
    let offline = Offline::load(&args.files)?;
    let stage = |stage: Stage| -> anyhow::Result<(String, Value)> {
        Ok(match stage {
            Stage::Status => ("status".to_owned(), offline.status()),
            Stage::Ir => ("ir".to_owned(), offline.ir()?),
            Stage::Envoy => ("envoy".to_owned(), offline.envoy(args.show_secrets)?),
        })
    };
    let value = match args.stages.as_slice() {
        [only] => stage(*only)?.1,
        several => Value::Object(several.iter().map(|one| stage(*one)).collect::<anyhow::Result<Map<_, _>>>()?),
    };
    let text = match args.output {
        DataFormat::Json => format!("{}\n", serde_json::to_string_pretty(&value)?),
        DataFormat::Yaml => crate::yaml::document(&value),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    for problem in offline.problems().iter().filter(|problem| problem.severity != api::Severity::Note) {
        let _ = writeln!(std::io::stderr(), "{}", crate::diagnostics::text(problem).trim_end());
    }
    Ok(Outcome::Fine)
}
