//! The lab: a Kubernetes of real programs on one machine without containers, in namespaces of its own that end with it.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program of the command line")]

mod certificates;
mod cluster;
mod conformance;
mod container;
mod definitions;
mod enter;
mod http;
mod keeper;
mod lifecycle;
mod measure;
mod network;
mod place;
mod process;
mod program;
mod simlet;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use place::Place;

/// Runs a Kubernetes of real programs (etcd, kube-apiserver, kube-controller-manager, kube-proxy) on this machine, in namespaces without a way
/// out. Its pods are processes.
#[derive(Parser)]
#[command(name = "lab")]
struct Arguments {
    /// The folder of its state, one for each lab; `target/lab` of the project unless given.
    #[arg(long, global = true, env = "LAB_STATE", value_name = "DIR")]
    state: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Starts it, unless it runs, and waits until it can be used.
    Up {
        /// The program that pods of Chancery's image run; without it the one beside this program, or the newest in `target`.
        #[arg(long, env = "LAB_CHANCERY", value_name = "FILE")]
        chancery: Option<PathBuf>,
    },
    /// Says what runs.
    Status,
    /// Ends it with all that runs in it.
    Down,
    /// Runs a command in it, with KUBECONFIG and kubectl: `lab exec kubectl get pods -A`.
    Exec {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
    },
    /// Runs a command in a container of a pod, a shell unless given: `lab enter -n shop web-0 -- env`.
    Enter {
        #[arg(short, long, default_value = "default")]
        namespace: String,
        pod: String,
        /// The first one unless given.
        #[arg(short, long)]
        container: Option<String>,
        #[arg(last = true)]
        command: Vec<OsString>,
    },
    /// Installs the definitions of the Gateway API.
    Definitions(definitions::Release),
    /// Runs the conformance suite of the Gateway API on what is installed: `lab conformance --test HTTPRouteSimpleSameNamespace`.
    Conformance(conformance::Wanted),
    /// Measures the Chancery that serves the cluster, and prints figures as JSON lines: `make bench B=B13`.
    Measure(measure::Wanted),
    /// Prints what a program of the control plane wrote: `lab logs kube-apiserver`; `lab` is the kubelet's, `audit`
    /// what Pods asked of the API server.
    Logs { program: String },
    /// Kills a program of the control plane (SIGKILL) and leaves it so: `lab stop kube-apiserver`.
    Stop { program: String },
    /// Starts it again and waits until it can be used.
    Start { program: String },
    /// The process that keeps the namespaces: whoever ends it ends the lab.
    #[command(hide = true)]
    Keep,
    /// The first process in them.
    #[command(hide = true)]
    Init,
    /// What runs the programs and the pods.
    #[command(hide = true)]
    Run,
    /// Holds the namespaces that the containers of a pod share.
    #[command(hide = true)]
    Sandbox { hostname: String, sysctls: Vec<String> },
    /// Runs a container, and gives its exit code.
    #[command(hide = true)]
    Container { spec: PathBuf },
    /// The first process of a container, until it becomes the container's program.
    #[command(hide = true)]
    ContainerInit { spec: PathBuf },
    /// Runs one more command in a container.
    #[command(hide = true)]
    Join {
        spec: PathBuf,
        pid: i32,
        /// Standard input is the command's; otherwise its end is the command's end.
        #[arg(long)]
        interactive: bool,
        #[arg(last = true)]
        command: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    match answer(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn answer(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let state = arguments.state;
    let place = || Place::find(state.as_deref());
    match arguments.verb {
        Verb::Up { chancery } => lifecycle::up(&place()?, chancery.as_deref()),
        Verb::Status => lifecycle::status(&place()?),
        Verb::Down => lifecycle::down(&place()?),
        Verb::Exec { command } => enter::exec(&place()?, &command),
        Verb::Enter { namespace, pod, container, command } => {
            enter::container(&place()?, &enter::Wanted { namespace, pod, container }, &command)
        }
        Verb::Definitions(release) => definitions::install(&place()?, &release),
        Verb::Conformance(wanted) => conformance::run(&place()?, &wanted),
        Verb::Measure(wanted) => measure::run(&place()?, &wanted),
        Verb::Logs { program } => lifecycle::logs(&place()?, &program),
        Verb::Stop { program } => lifecycle::stop(&place()?, &program),
        Verb::Start { program } => lifecycle::start(&place()?, &program),
        Verb::Keep => keeper::keep(&place()?),
        Verb::Init => keeper::init(&place()?),
        Verb::Run => cluster::run(place()?),
        Verb::Sandbox { hostname, sysctls } => container::sandbox::hold(&hostname, &sysctls),
        Verb::Container { spec } => container::run(&spec),
        Verb::ContainerInit { spec } => container::init::become_program(&spec),
        Verb::Join { spec, pid, interactive, command } => container::join::run(&spec, pid, interactive, &command),
    }
}
