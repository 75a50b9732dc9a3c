//! The command line: every verb, its options and its exit code (0 fine, 1 problems found, 2 wrong usage).

mod certs;
mod columns;
mod descriptors;
mod explain;
mod orphan;
mod permissions;
mod proxy;
mod run;
mod running;
mod shutdown;
mod status;
mod stop;
mod translate;
mod validate;

pub(crate) use permissions::{PermissionArgs, by_each_name};
pub(crate) use run::{InsecureXds, KubernetesArgs, OnExit, RunArgs, WorkloadLabels, XdsTls};

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use provider::file::Links;
use provider::kubernetes::Connection;

/// Turns Gateway API objects into what each Envoy needs, delivers it, and says what became of every line.
#[derive(Debug, Parser)]
#[command(name = "chancery", version, about, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Serve a folder of YAML with real Envoys, or a Kubernetes cluster, in the foreground
    Run(Box<run::RunArgs>),
    /// Show what a set of files becomes: statuses, resolved intent, or Envoy's own resources
    Translate(translate::TranslateArgs),
    /// Check files and point at what is wrong, line by line; exit code 1 if anything is
    Validate(validate::ValidateArgs),
    /// End the Chancery of a state folder and drain its Envoys, also those that an earlier Chancery left
    Stop(stop::StopArgs),
    /// Show the statuses and problems of a running Chancery
    Status(status::StatusArgs),
    /// Say which objects make what a workload's Envoy gets, and which do not and why
    Explain(explain::ExplainArgs),
    /// Show the proxies that are connected to a running Chancery, and what one of them has
    Proxy(proxy::ProxyArgs),
    /// Show who signs the certificate of xDS in a cluster, and who signs next; replace who signs
    Certs(certs::CertsArgs),
    /// Print the version of Chancery and of the Envoy it is made for
    Version,
    /// Drain the Envoy of this Pod: what a Pod's `preStop` hook calls
    #[command(hide = true)]
    Shutdown(shutdown::ShutdownArgs),
    /// Start an Envoy that lives on when this process ends
    #[command(name = infra::host::orphan::VERB, hide = true)]
    Orphan(orphan::OrphanArgs),
    /// Print a completion script for a shell
    Completion {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

/// The links in folders that are followed.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct LinkArgs {
    /// Follow symbolic links that lead out of the folders that are read: problems may then show lines of any file that Chancery can read. Without it such a
    /// link is a warning. Links within the folders, and the folders that are named, are followed anyway
    #[arg(long)]
    follow_links: bool,
}

impl LinkArgs {
    /// Returns the links that are followed.
    pub(crate) fn links(self) -> Links {
        Links::follow(self.follow_links)
    }
}

/// Where a running Chancery keeps its state, and where others find it.
#[derive(Debug, Clone, Args)]
pub(crate) struct StateDir {
    /// State folder [default: $XDG_STATE_HOME/chancery, else ~/.local/state/chancery]
    #[arg(long, env = "CHANCERY_STATE_DIR", value_name = "DIR", global = true)]
    state_dir: Option<PathBuf>,
}

impl StateDir {
    /// One is named.
    pub(crate) fn is_given(&self) -> bool {
        self.state_dir.is_some()
    }

    /// The folder; an error names the option if none can be derived.
    pub(crate) fn path(&self) -> anyhow::Result<PathBuf> {
        let from = |name: &str| std::env::var_os(name).filter(|text| !text.is_empty()).map(PathBuf::from);
        self.state_dir
            .clone()
            .or_else(|| from("XDG_STATE_HOME").map(|base| base.join("chancery")))
            .or_else(|| from("HOME").map(|home| home.join(".local/state/chancery")))
            .ok_or_else(|| anyhow::anyhow!("no state folder: HOME is not set, so give --state-dir DIR"))
    }
}

/// Which cluster, and where Chancery is in it.
#[derive(Debug, Clone, Args)]
pub(crate) struct ClusterArgs {
    /// How to reach the API server of a cluster [default: $KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE", global = true)]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", global = true)]
    context: Option<String>,
    /// Namespace of Chancery in the cluster [default: chancery-system]
    #[arg(long, value_name = "NAME", global = true)]
    chancery_namespace: Option<String>,
    /// Only what is in this namespace. Where no Chancery runs in the default namespace it is taken as Chancery's, with a warning: the next release
    /// takes it so no more
    #[arg(long, short, value_name = "NAME", global = true)]
    namespace: Option<String>,
    /// Service of Chancery, by which an installation is known [default: chancery]
    #[arg(long, value_name = "NAME", global = true)]
    service: Option<String>,
}

impl ClusterArgs {
    /// One of them is given.
    pub(crate) fn is_given(&self) -> bool {
        [&self.context, &self.chancery_namespace, &self.service].into_iter().any(Option::is_some)
            || self.kubeconfig.is_some()
    }

    /// The API server.
    pub(crate) fn connection(&self) -> Connection {
        Connection { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() }
    }

    /// Its Service. The lease of the leader has the same name.
    pub(crate) fn service(&self) -> &str {
        self.service.as_deref().unwrap_or("chancery")
    }

    /// Where Chancery is.
    pub(crate) fn chancery_namespace(&self) -> &str {
        self.chancery_namespace.as_deref().unwrap_or("chancery-system")
    }

    /// The same for a verb that shows no objects: the option by which objects are chosen elsewhere names it too, for one more release.
    pub(crate) fn chancery_namespace_by_each_name(&self) -> anyhow::Result<&str> {
        match (&self.chancery_namespace, &self.namespace) {
            (None, Some(namespace)) => {
                warn_of_namespace(namespace)?;
                Ok(namespace)
            }
            _ => Ok(self.chancery_namespace()),
        }
    }

    /// The namespace of the requested objects.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The namespace that may be meant as Chancery's, as it was before objects were chosen by it.
    pub(crate) fn old_namespace(&self) -> Option<&str> {
        self.namespace().filter(|_| self.chancery_namespace.is_none())
    }
}

/// Says that an option has another meaning now.
pub(crate) fn warn_of_namespace(namespace: &str) -> anyhow::Result<()> {
    let words =
        "is taken as the namespace of Chancery, which it will not be in the next release: write --chancery-namespace";
    Ok(writeln!(std::io::stderr(), "warning: --namespace {namespace} {words} {namespace}")?)
}

/// How a verb prints what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns for people
    Table,
    /// More columns, which are not cut
    Wide,
    /// Names only, one on a line
    Name,
    /// YAML
    Yaml,
    /// JSON
    Json,
}

/// How machines read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DataFormat {
    /// YAML
    Yaml,
    /// JSON
    Json,
}

/// How a verb ended when nothing broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Exit code 0.
    Fine,
    /// Exit code 1: the verb did its work and found something wrong.
    Problems,
}

/// Parses the command line and runs the verb.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    match dispatch(cli.verb) {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::Problems) => ExitCode::from(1),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "chancery: {error:#}");
            ExitCode::from(if error.is::<WrongUsage>() { 2 } else { 1 })
        }
    }
}

/// What the command line asks for cannot be meant, in words. Exit code 2.
#[derive(Debug)]
pub(crate) struct WrongUsage(String);

impl std::error::Error for WrongUsage {}

impl std::fmt::Display for WrongUsage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl WrongUsage {
    /// An error if this does not hold.
    pub(crate) fn unless(holds: bool, words: impl FnOnce() -> String) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self(words())) }
    }
}

fn dispatch(verb: Verb) -> anyhow::Result<Outcome> {
    match verb {
        Verb::Run(args) => run::run(*args),
        Verb::Translate(args) => translate::run(&args),
        Verb::Validate(args) => validate::run(&args),
        Verb::Stop(args) => stop::run(&args),
        Verb::Status(args) => status::run(&args),
        Verb::Explain(args) => explain::run(&args),
        Verb::Proxy(args) => proxy::run(&args),
        Verb::Certs(args) => certs::run(&args),
        Verb::Shutdown(args) => shutdown::run(&args),
        Verb::Orphan(args) => orphan::run(&args),
        Verb::Version => version(),
        Verb::Completion { shell } => completion(shell),
    }
}

fn version() -> anyhow::Result<Outcome> {
    writeln!(std::io::stdout(), "chancery {} (Envoy {})", env!("CARGO_PKG_VERSION"), infra::host::ENVOY_VERSION)?;
    Ok(Outcome::Fine)
}

fn completion(shell: clap_complete::Shell) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "chancery", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(Outcome::Fine)
}

/// True if people look at standard output and want colours (`NO_COLOR` is honoured).
pub(crate) fn colours() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|text| text.is_empty())
}

/// A reader that went away (`chancery status | head`) is not an error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe))
}
