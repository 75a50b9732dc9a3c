//! Small tasks between the core and the world: events in, the ready word, problems as log lines, the status file.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use infra::host::HostFact;
use tokio::sync::mpsc;
use tracing::{error, info, warn};
use xds::{Event, TypeUrl};

use crate::core::{Asking, Input, is_workload};

/// At most one status file, and one round of problems in the log, in this time.
const PAUSE: Duration = Duration::from_millis(250);

/// How long until a file that could not be written is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Hands what the supervisor of proxies sees to the core; ends with either side.
pub(super) async fn host(mut facts: mpsc::Receiver<HostFact>, inputs: mpsc::Sender<Input>) -> anyhow::Result<()> {
    while let Some(fact) = facts.recv().await {
        if inputs.send(Input::Host(fact)).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// Hands what the xDS server sees to the core, but for what nearly every acknowledgement says: that something is in use which
/// nobody refused. Only of listeners that is news; an edit of a route does not wake the core a second time.
pub(super) async fn proxies(mut events: mpsc::Receiver<Vec<Event>>, inputs: mpsc::Sender<Input>) -> anyhow::Result<()> {
    while let Some(mut seen) = events.recv().await {
        seen.retain(|event| match event {
            Event::Accepted { fleet, type_url, was_refused, .. } => {
                *was_refused || *type_url == TypeUrl::Listener || is_workload(fleet)
            }
            _ => true,
        });
        if !seen.is_empty() && inputs.send(Input::Xds(seen)).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// Says `ready` once: on standard error, and by making the file. That there is nothing to serve yet is said as well.
pub(super) async fn announce(asking: Asking, roots: Vec<PathBuf>, file: Option<PathBuf>) -> anyhow::Result<()> {
    if !asking.serving().await {
        return Ok(());
    }
    info!("ready");
    if asking.is_empty().await == Some(true) {
        let roots: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
        warn!("no objects in {} yet: files are read whose names end with .yaml, .yml or .json", roots.join(", "));
    }
    if let Some(file) = file {
        let mut outlet = Outlet::new("--ready-file", file);
        while !outlet.write(b"ready\n") {
            tokio::time::sleep(RETRY).await;
        }
    }
    std::future::pending().await
}

/// Logs each problem once when it appears, and once when it is gone.
pub(super) async fn problems(asking: Asking) -> anyhow::Result<()> {
    let mut revision = asking.problems();
    let (mut known, mut room) = (BTreeSet::new(), Room::new(Instant::now()));
    loop {
        let Some(now) = asking.problem_lines().await else { return Ok(()) };
        let mut withheld = 0_usize;
        let mut tell = |severity, line: &dyn Display| {
            if !room.take(Instant::now()) {
                withheld += 1;
                return;
            }
            match severity {
                api::Severity::Error => error!("{line}"),
                api::Severity::Warning => warn!("{line}"),
                api::Severity::Note => info!("{line}"),
            }
        };
        now.iter().filter(|told| !known.contains(*told)).for_each(|(severity, line)| tell(*severity, line));
        let now: BTreeSet<_> = now.into_iter().collect();
        for (_, line) in known.difference(&now) {
            tell(api::Severity::Note, &format_args!("resolved: {line}"));
        }
        if withheld > 0 {
            warn!(
                "{withheld} more problems came or went: more than {} in a minute are not logged; `chancery status problems` lists what \
                 there is",
                Room::MOST
            );
        }
        known = now;
        tokio::time::sleep(PAUSE).await;
        if revision.changed().await.is_err() {
            return Ok(());
        }
        // A file that is removed and written anew is not there for a moment, which is nothing to tell.
        tokio::time::sleep(2 * provider::file::VANISH_GRACE).await;
    }
}

/// How many more lines there may be: a proxy that refuses everything, and connects anew all the time, makes as many as it likes.
struct Room {
    since: Instant,
    left: u32,
}

impl Room {
    /// Lines in [`Self::WITHIN`] at most.
    const MOST: u32 = 1_000;
    const WITHIN: Duration = Duration::from_mins(1);

    fn new(now: Instant) -> Self {
        Self { since: now, left: Self::MOST }
    }

    /// Takes room for a line, if there is any.
    fn take(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= Self::WITHIN {
            *self = Self::new(now);
        }
        let some = self.left > 0;
        self.left -= u32::from(some);
        some
    }
}

/// Keeps all statuses in a file.
pub(super) async fn status_file(asking: Asking, file: PathBuf) -> anyhow::Result<()> {
    let mut outlet = Outlet::new("--status-file", file);
    let mut revision = asking.revision();
    loop {
        let Some(objects) = asking.objects().await else { return Ok(()) };
        let written = outlet.write(&objects);
        tokio::time::sleep(PAUSE).await;
        tokio::select! {
            changed = revision.changed() => if changed.is_err() { return Ok(()) },
            () = tokio::time::sleep(RETRY), if !written => {}
        }
    }
}

/// A file that is kept up to date for others.
struct Outlet {
    option: &'static str,
    file: PathBuf,
    /// Why it could not be written the last time.
    failure: Option<String>,
}

impl Outlet {
    fn new(option: &'static str, file: PathBuf) -> Self {
        Self { option, file, failure: None }
    }

    /// Replaces the file. False if that failed; each cause is told once.
    fn write(&mut self, text: &[u8]) -> bool {
        let failure = replace(&self.file, text).err().map(|error| error.to_string());
        if failure != self.failure {
            let (option, file) = (self.option, self.file.display());
            match &failure {
                Some(cause) => error!("{option} {file}: {cause}; it is tried again until it can be written"),
                None => info!("{option} {file}: written again"),
            }
        }
        self.failure = failure;
        self.failure.is_none()
    }
}

/// Replaces a file in one step: whoever reads sees the old text or the new.
fn replace(file: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    std::fs::write(&beside, text)?;
    std::fs::rename(&beside, file)
}

#[cfg(test)]
mod tests;
