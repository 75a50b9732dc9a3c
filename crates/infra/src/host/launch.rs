//! How one proxy is started: its bootstrap and its arguments, and a digest by which a running one is known again.

use std::path::PathBuf;

use ir::Infra;
use xxhash_rust::xxh3::Xxh3;

use super::layout::BOOTSTRAP;
use super::{Envoy, HostOptions};

/// The worker threads of a proxy for which nothing else was asked, at most: one machine runs several proxies, and a
/// worker costs memory for its own connection pools.
const MAX_DEFAULT_CONCURRENCY: usize = 8;

/// One log line per message, whatever it holds: `[level][component] text`, line breaks escaped.
const LOG_FORMAT: &str = "[%l][%n] %v";

/// Levels by component that hold unless the user sets them. `config` repeats refused configuration word for word, private
/// keys included, at `warning`; what is refused comes to us over xDS anyway.
const QUIET_COMPONENTS: [(&str, &str); 1] = [("config", "error")];

/// A start of Envoy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    /// It gets another parent than this process.
    pub(crate) orphan: bool,
    pub(crate) args: Vec<String>,
    /// Number of the first arguments, which a running Envoy cannot change.
    pub(crate) fixed: usize,
    /// What is written to `bootstrap.json`.
    pub(crate) bootstrap: String,
    /// A digest of all that a running Envoy cannot change: equal means that it can be kept. Log levels are not in it.
    pub(crate) identity: String,
    /// Envoy's log level.
    pub(crate) log_level: String,
    /// Log levels by component, our own included.
    pub(crate) component_log_levels: Vec<(String, String)>,
}

impl Launch {
    /// How this proxy is started with this Envoy.
    pub(crate) fn new(infra: &Infra, envoy: &Envoy, bootstrap: String, options: &HostOptions) -> Self {
        let asked = &infra.options;
        let concurrency = asked.concurrency.unwrap_or_else(default_concurrency);
        let mut fixed = vec![
            "-c".to_owned(),
            // Below its folder, where it is started: all users of a machine can read the arguments.
            BOOTSTRAP.to_owned(),
            // For its successor, to which it passes its sockets: see `handover`.
            "--socket-mode".to_owned(),
            "600".to_owned(),
            "--parent-shutdown-time-s".to_owned(),
            "0".to_owned(),
            "--skip-hot-restart-parent-stats".to_owned(),
            "--concurrency".to_owned(),
            concurrency.to_string(),
            "--drain-time-s".to_owned(),
            options.listener_drain.as_secs().to_string(),
            // Who keeps a connection to a listener that has changed is told so with the next answer, and not after minutes.
            "--drain-strategy".to_owned(),
            "immediate".to_owned(),
            "--log-format".to_owned(),
            LOG_FORMAT.to_owned(),
            "--log-format-escaped".to_owned(),
        ];
        fixed.extend(asked.extra_args.iter().map(ToString::to_string));
        let identity = digest(envoy, &fixed, &bootstrap);
        let log_level = asked.log_level.as_deref().unwrap_or(&options.log_level).to_owned();
        let component_log_levels = component_log_levels(infra);
        let mut args = fixed;
        let fixed = args.len();
        args.extend(["--log-level".to_owned(), log_level.clone(), "--component-log-level".to_owned()]);
        args.push(join_levels(&component_log_levels));
        let (program, orphan) = (envoy.path.clone(), options.orphans);
        Self { program, orphan, args, fixed, bootstrap, identity, log_level, component_log_levels }
    }

    /// The levels by component as Envoy wants them: `config:error,upstream:debug`.
    pub(crate) fn component_levels(&self) -> String {
        join_levels(&self.component_log_levels)
    }
}

fn join_levels(levels: &[(String, String)]) -> String {
    levels.iter().map(|(component, level)| format!("{component}:{level}")).collect::<Vec<_>>().join(",")
}

fn component_log_levels(infra: &Infra) -> Vec<(String, String)> {
    let asked = &infra.options.component_log_levels;
    let quiet = QUIET_COMPONENTS.iter().filter(|(name, _)| !asked.iter().any(|(asked, _)| &**asked == *name));
    let quiet = quiet.map(|(component, level)| ((*component).to_owned(), (*level).to_owned()));
    quiet.chain(asked.iter().map(|(component, level)| (component.to_string(), level.to_string()))).collect()
}

fn default_concurrency() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u32::try_from(cores.min(MAX_DEFAULT_CONCURRENCY)).unwrap_or(1)
}

/// Every part goes in with its length, so that no two lists read the same.
fn digest(envoy: &Envoy, args: &[String], bootstrap: &str) -> String {
    let mut hasher = Xxh3::new();
    let path = envoy.path.to_string_lossy();
    let parts = [path.as_ref(), &envoy.version, bootstrap].into_iter().chain(args.iter().map(String::as_str));
    for part in parts {
        hasher.update(&part.len().to_le_bytes());
        hasher.update(part.as_bytes());
    }
    format!("{:032x}", hasher.digest128())
}

#[cfg(test)]
mod tests;
