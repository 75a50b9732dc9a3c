//! Logs: one line per outcome, on standard error, as text or JSON; the level can be changed at run time.

use std::io::IsTerminal as _;

use clap::ValueEnum;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// Changes the log level of the running process.
#[derive(Clone)]
pub(crate) struct LogLevel(reload::Handle<EnvFilter, Registry>);

impl LogLevel {
    /// Takes a level (`debug`) or directives (`info,xds=debug`); an error says what is wrong with them.
    pub(crate) fn set(&self, directives: &str) -> anyhow::Result<()> {
        self.0.reload(EnvFilter::try_new(directives)?)?;
        Ok(())
    }
}

/// Installs the log for the whole process; called once.
pub(crate) fn start(level: &str, format: LogFormat) -> anyhow::Result<LogLevel> {
    let filter = EnvFilter::try_new(level).map_err(|error| anyhow::anyhow!("--log-level {level}: {error}"))?;
    let (filter, handle) = reload::Layer::new(filter);
    let registry = tracing_subscriber::registry().with(filter);
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|text| text.is_empty());
    match format {
        LogFormat::Text => {
            registry.with(fmt::layer().with_writer(std::io::stderr).with_ansi(colours).with_target(false)).init()
        }
        LogFormat::Json => registry.with(fmt::layer().json().with_writer(std::io::stderr).flatten_event(true)).init(),
    }
    Ok(LogLevel(handle))
}
