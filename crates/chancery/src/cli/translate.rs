//! `chancery translate`: what files become, without starting anything.

use std::io::{BufWriter, Write as _};
use std::mem::ManuallyDrop;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value};

use super::descriptors::DescriptorArgs;
use super::{DataFormat, LinkArgs, Outcome, PermissionArgs};
use crate::offline::Offline;

/// Arguments of `chancery translate`.
#[derive(Debug, Args)]
pub(crate) struct TranslateArgs {
    /// The same, with an option
    #[arg(long = "file", short = 'f', value_name = "PATH")]
    files: Vec<PathBuf>,
    /// Files and folders with YAML or JSON; `-` is standard input
    #[arg(value_name = "PATH", required_unless_present = "files")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    links: LinkArgs,
    #[command(flatten)]
    descriptors: DescriptorArgs,
    #[command(flatten)]
    permissions: PermissionArgs,
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
    /// A complete static configuration that Envoy can run, by name where there are several Gateways or workloads; with HTTPS only if --show-secrets
    /// puts the keys in
    Envoy,
}

/// Prints the stages. Problems go to standard error; they are no failure of this verb, `validate` is the one that judges.
pub(crate) fn run(args: &TranslateArgs) -> anyhow::Result<Outcome> {
    args.descriptors.install()?;
    if args.stages.contains(&Stage::Envoy) {
        // Takes as long as reading a thousand routes: beside it, not after it, where another thread is to be had.
        let _beside = std::thread::Builder::new().spawn(protojson::Pool::envoy);
    }
    // Neither is freed: the process ends right after, and that frees both at once.
    let paths = [&args.files[..], &args.paths].concat();
    let offline = ManuallyDrop::new(Offline::load(&paths, args.links.links(), &args.permissions)?);
    let stage = |stage: Stage| -> anyhow::Result<(String, Value)> {
        Ok(match stage {
            Stage::Status => ("status".to_owned(), offline.status()),
            Stage::Ir => ("ir".to_owned(), offline.ir()?),
            Stage::Envoy => ("envoy".to_owned(), offline.envoy(args.show_secrets)?),
        })
    };
    let value = ManuallyDrop::new(match args.stages.as_slice() {
        [only] => stage(*only)?.1,
        several => Value::Object(several.iter().map(|one| stage(*one)).collect::<anyhow::Result<Map<_, _>>>()?),
    });
    let mut out = BufWriter::with_capacity(1 << 16, std::io::stdout());
    match args.output {
        DataFormat::Json => {
            serde_json::to_writer_pretty(&mut out, &*value).map_err(std::io::Error::from)?;
            out.write_all(b"\n")?;
        }
        DataFormat::Yaml => out.write_all(crate::yaml::document(&value).as_bytes())?,
    }
    out.flush()?;
    for problem in offline.problems().iter().filter(|problem| problem.severity != api::Severity::Note) {
        let _ = writeln!(std::io::stderr(), "{}", crate::diagnostics::text(problem).trim_end());
    }
    Ok(Outcome::Fine)
}
