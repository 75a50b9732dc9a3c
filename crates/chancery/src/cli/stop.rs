//! `chancery stop`: ends the Chancery of a state folder and its Envoys, or those that an earlier one left.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use infra::host::{Holder, Layout, LeftEnvoy, StateLock};
use tokio::task::JoinSet;

use super::run::duration;
use super::{Outcome, StateDir};

/// Arguments of `chancery stop`.
#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    #[command(flatten)]
    state: StateDir,
    /// Leave the Envoys running: the next `chancery run` on the same state folder takes them over
    #[arg(long)]
    keep_proxies: bool,
    /// Graceful drain timeout of each Envoy whose Gateway sets none (`drainTimeout`), for example `10s` or `500ms`
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration, conflicts_with = "keep_proxies")]
    drain_time: Duration,
    /// How long to wait until a running Chancery is gone, for example one that drains already
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    timeout: Duration,
}

/// Returns once nothing runs any more; exit code 1 if something still does.
pub(crate) fn run(args: &StopArgs) -> anyhow::Result<Outcome> {
    let state = args.state.path()?;
    let owner = std::fs::metadata(&state).with_context(|| format!("no state folder {}", state.display()))?;
    if rustix::process::geteuid().is_root() && owner.uid() != 0 {
        return Err(run_as(owner.uid(), owner.gid(), &state));
    }
    infra::host::own_state_folder(&state, false)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let _lock = end_chancery(&state, args.timeout).await?;
        let layout = Layout::open(&state, std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).as_deref())?;
        let outcome = end_envoys(&layout, args).await?;
        layout.close();
        Ok(outcome)
    })
}

/// Becomes the user whose folder it is, as the Envoys are that user's, and starts again; returns only with an error. Root follows no path that
/// another user wrote.
fn run_as(user: u32, group: u32, state: &Path) -> anyhow::Error {
    let start = || -> anyhow::Result<std::io::Error> {
        Ok(Command::new(std::env::current_exe()?)
            .args(std::env::args_os().skip(1))
            .env("CHANCERY_STATE_DIR", std::path::absolute(state)?)
            .uid(user)
            .gid(group)
            .exec())
    };
    let error = start().map_or_else(|error| error, Into::into);
    error.context(format!("running as user {user}, to whom {} belongs", state.display()))
}

/// Ends a running Chancery without its Envoys, and takes the state folder, so that no other starts meanwhile.
async fn end_chancery(state: &Path, timeout: Duration) -> anyhow::Result<StateLock> {
    let waited = async {
        let mut asked = None;
        loop {
            let mut holder = match Holder::find(state)? {
                Ok(lock) => return anyhow::Ok(lock),
                Err(holder) => holder,
            };
            if asked != Some(holder.pid) {
                asked = Some(holder.pid);
                say(&format!("stopping Chancery (process {})", holder.pid))?;
                holder.ask_to_leave();
            }
            holder.ended().await;
            say(&format!("Chancery (process {}) is gone", holder.pid))?;
        }
    };
    let words = || format!("Chancery still runs after {timeout:?} (--timeout)");
    tokio::time::timeout(timeout, waited).await.with_context(words)?
}

/// Drains all Envoys at once, or names those that go on.
async fn end_envoys(layout: &Layout, args: &StopArgs) -> anyhow::Result<Outcome> {
    let found = LeftEnvoy::find(layout);
    if found.is_empty() {
        say(&format!("no Envoy runs from {}", layout.state().display()))?;
        return Ok(Outcome::Fine);
    }
    let mut ends = JoinSet::new();
    for envoy in found {
        let name = format!("the Envoy of {} (process {})", envoy.fleet.as_str(), envoy.pid);
        if args.keep_proxies {
            let words = if envoy.is_draining() { "drains, and goes on" } else { "goes on serving" };
            say(&format!("{name} {words}"))?;
            continue;
        }
        say(&format!("draining {name}, {:?} at most", envoy.drain_timeout.unwrap_or(args.drain_time)))?;
        let bound = args.drain_time;
        ends.spawn(async move { (envoy.end(bound).await, name) });
    }
    let mut outcome = Outcome::Fine;
    while let Some(ended) = ends.join_next().await {
        let (is_gone, name) = ended?;
        if is_gone {
            say(&format!("{name} is gone"))?;
        } else {
            outcome = Outcome::Problems;
            writeln!(std::io::stderr(), "{name} could not be ended")?;
        }
    }
    Ok(outcome)
}

fn say(words: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{words}")
}
