//! Logs: one line per outcome, on standard error, as text or JSON; the level can be changed at run time.

use std::io::IsTerminal as _;

use clap::ValueEnum;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
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

/// Lines that wait for whoever reads them; more are dropped and counted. A reader that sleeps holds up nothing.
const WAITING_LINES: usize = 8_192;

/// The log of the running process.
#[derive(Clone)]
pub(crate) struct Log {
    level: reload::Handle<EnvFilter, Registry>,
    dropped: ErrorCounter,
}

impl Log {
    /// Takes a level (`debug`) or directives (`info,xds=debug`); an error says what is wrong with them.
    pub(crate) fn set_level(&self, directives: &str) -> anyhow::Result<()> {
        self.level.reload(EnvFilter::try_new(directives)?)?;
        Ok(())
    }

    /// Lines that nobody was there to read.
    pub(crate) fn dropped_lines(&self) -> usize {
        self.dropped.dropped_lines()
    }
}

/// Installs the log for the whole process; called once. What waits is written when the guard is dropped, for at most a second.
pub(crate) fn start(level: &str, format: LogFormat) -> anyhow::Result<(Log, WorkerGuard)> {
    let filter = EnvFilter::try_new(level).map_err(|error| anyhow::anyhow!("--log-level {level}: {error}"))?;
    let (filter, handle) = reload::Layer::new(filter);
    let registry = tracing_subscriber::registry().with(filter);
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|text| text.is_empty());
    let waiting = NonBlockingBuilder::default().buffered_lines_limit(WAITING_LINES).thread_name("log");
    let (writer, guard) = waiting.finish(std::io::stderr());
    let log = Log { level: handle, dropped: writer.error_counter() };
    match format {
        LogFormat::Text => {
            registry.with(fmt::layer().with_writer(writer).with_ansi(colours).with_target(false)).init();
        }
        LogFormat::Json => registry.with(fmt::layer().json().with_writer(writer).flatten_event(true)).init(),
    }
    Ok((log, guard))
}
