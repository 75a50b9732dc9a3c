//! `lab measure`: figures of a Chancery that serves the lab's cluster, one JSON line each. The lab is one of its own, with the definitions of the Gateway API
//! and Chancery as `deploy/kubernetes` installs it; `tools/bench` makes it.
//!
//! | name | measures |
//! |---|---|
//! | B13 | 1,000 routes attached to a Gateway and detached: until its count is right, and how often statuses are written; memory of each replica |
//! | B12 | 5,000 routes, 50 endpoint events a second: from a written object to a new answer through Envoy, of a route that is changed (B2) and of a new one |
//! | idle | CPU of each replica while nothing changes |

mod attach;
mod change;
mod objects;
mod probe;
mod program;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;

use crate::enter;
use crate::place::Place;

/// What is asked for.
#[derive(clap::Args)]
pub(crate) struct Wanted {
    /// Which figures; all without a name.
    #[arg(value_enum)]
    names: Vec<Name>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Name {
    #[value(name = "B13")]
    B13,
    #[value(name = "B12")]
    B12,
    #[value(name = "idle")]
    Idle,
}

/// Measures, inside the lab: a process that has entered it can have no threads, so that it takes another one.
pub(crate) fn run(place: &Place, wanted: &Wanted) -> anyhow::Result<ExitCode> {
    if !place.inside("kubeconfig").is_file() {
        let program = std::env::current_exe().context("finding this program")?.into_os_string();
        let words: Vec<_> = std::iter::once(program).chain(std::env::args_os().skip(1)).collect();
        return enter::exec(place, &words);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let is_wanted = |name: Name| wanted.names.is_empty() || wanted.names.contains(&name);
    runtime.block_on(async {
        let cluster = objects::Cluster { client: client(place).await?, place: place.clone() };
        // the one after the other leaves a cluster that is as it was
        if is_wanted(Name::Idle) {
            change::idle(&cluster).await.context("idle")?;
        }
        if is_wanted(Name::B13) {
            attach::run(&cluster).await.context("B13")?;
        }
        if is_wanted(Name::B12) {
            change::run(&cluster).await.context("B12")?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn client(place: &Place) -> anyhow::Result<kube::Client> {
    let read = Kubeconfig::read_from(place.inside("kubeconfig"))?;
    let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    Ok(kube::Client::try_from(config)?)
}

/// Prints a figure as the other benchmarks do; it is good if it is not above the limit.
fn figure(bench: &str, name: &str, n: usize, (value, unit): (f64, &str), limit: Option<f64>) {
    let ok = limit.map(|limit| value <= limit);
    let rounded: f64 = format!("{value:.3e}").parse().unwrap_or(value);
    println!(
        "{}",
        json!({ "bench": bench, "figure": name, "n": n, "value": rounded, "unit": unit, "limit": limit, "ok": ok, "peer": null })
    );
}

/// Milliseconds.
fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The smallest that at least so many of a hundred do not exceed.
fn percentile(samples: &mut [Duration], percent: usize) -> Duration {
    samples.sort_unstable();
    let index = (samples.len() * percent).div_ceil(100).saturating_sub(1);
    samples.get(index).copied().unwrap_or_default()
}
