//! What the processes of Chancery take, as the kernel counts it.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, ensure};

/// How such a process is started in a Pod.
const PROGRAM: &str = "/usr/local/bin/chancery\0run\0";

/// A replica.
#[derive(Clone, Debug)]
pub(super) struct Replica {
    pid: u32,
}

/// All that run.
pub(super) fn replicas() -> anyhow::Result<Vec<Replica>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("listing processes")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(PROGRAM)) {
            found.push(Replica { pid });
        }
    }
    ensure!(!found.is_empty(), "no Chancery runs in the lab");
    Ok(found)
}

impl Replica {
    /// CPU time so far, of all its threads.
    pub(super) fn cpu(&self) -> anyhow::Result<Duration> {
        let mut sum = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.pid)).context("a replica has ended")? {
            let text = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            sum += text.split(' ').next().and_then(|word| word.parse::<u64>().ok()).unwrap_or_default();
        }
        Ok(Duration::from_nanos(sum))
    }

    /// Resident memory in MB.
    pub(super) fn memory(&self) -> anyhow::Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid)).context("a replica has ended")?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kibibytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kibibytes * 1024.0 / 1e6)
    }
}
