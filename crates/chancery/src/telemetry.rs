//! Logs: one line per outcome, on standard error, as text or JSON; the level can be changed at run time. What proxies write to
//! standard output, their access logs, goes to ours as it is.

use std::fmt::{Debug, Result as FmtResult};
use std::io::{self, IsTerminal as _, Write};
use std::str::FromStr as _;

use clap::ValueEnum;
use infra::host::OUTPUT_TARGET;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber};
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{FilterExt as _, LevelFilter, filter_fn};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
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

/// The same of standard output, which has access logs: a line of these can have 128 KiB, which makes 32 MiB.
const WAITING_OUTPUT_LINES: usize = 256;

/// The log of the running process.
#[derive(Clone)]
pub(crate) struct Log {
    level: reload::Handle<EnvFilter, Registry>,
    dropped: [ErrorCounter; 2],
}

impl Log {
    /// Takes a level (`debug`) or directives (`info,xds=debug`); an error says what is wrong with them.
    pub(crate) fn set_level(&self, directives: &str) -> anyhow::Result<()> {
        self.level.reload(filter(directives)?)?;
        Ok(())
    }

    /// Lines that nobody was there to read.
    pub(crate) fn dropped_lines(&self) -> usize {
        self.dropped.iter().map(ErrorCounter::dropped_lines).sum()
    }
}

/// Installs the log for the whole process; called once. What waits is written when the guards are dropped, for at most a second each.
pub(crate) fn start(level: &str, format: LogFormat) -> anyhow::Result<(Log, [WorkerGuard; 2])> {
    let filter = filter(level).map_err(|error| anyhow::anyhow!("--log-level {level}: {error}"))?;
    let (filter, handle) = reload::Layer::new(filter);
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|text| text.is_empty());
    let waiting = |name, lines| NonBlockingBuilder::default().buffered_lines_limit(lines).thread_name(name);
    let (writer, written) = waiting("log", WAITING_LINES).finish(std::io::stderr());
    let (output, output_written) = waiting("output", WAITING_OUTPUT_LINES).finish(std::io::stdout());
    let log = Log { level: handle, dropped: [writer.error_counter(), output.error_counter()] };
    let writer = move || OneLine { inner: writer.clone(), has_colours: colours && format == LogFormat::Text };
    let lines = match format {
        LogFormat::Text => fmt::layer().with_writer(writer).with_ansi(colours).with_target(false).boxed(),
        LogFormat::Json => fmt::layer().json().with_writer(writer).flatten_event(true).boxed(),
    };
    let is_output = |metadata: &Metadata<'_>| metadata.target() == OUTPUT_TARGET;
    let output = fmt::layer().with_writer(output).event_format(AsItIs).with_filter(filter_fn(is_output));
    let lines = lines.with_filter(filter.and(filter_fn(move |metadata| !is_output(metadata))));
    tracing_subscriber::registry().with(lines).with(output).init();
    Ok((log, [written, output_written]))
}

/// A level, which is at most `info` for libraries, or directives of which each ends with one: a word that is none would be taken for the name of a part, and silence all others.
fn filter(directives: &str) -> anyhow::Result<EnvFilter> {
    for directive in directives.split(',') {
        let level = directive.rsplit_once('=').map_or(directive, |(_, level)| level).trim();
        anyhow::ensure!(
            LevelFilter::from_str(level).is_ok(),
            "{level:?} is no level; levels are error, warn, info, debug, trace and off"
        );
    }
    let is_beyond = |limit: LevelFilter| {
        directives.split(',').any(|level| LevelFilter::from_str(level.trim()).is_ok_and(|level| level > limit))
    };
    // Of what libraries write at these levels one line in a hundred is about us. Later directives replace earlier ones, so whoever
    // names one of them gets it.
    let quiet: String = if is_beyond(LevelFilter::INFO) {
        LIBRARIES.iter().map(|library| format!("{library}=info,")).collect()
    } else if is_beyond(LevelFilter::ERROR) {
        // What these warn of any client can cause as often as it likes, and they do not say which one did.
        CAUSED_BY_CLIENTS.iter().map(|library| format!("{library}=error,")).chain([TOLD_BY_US.to_owned()]).collect()
    } else {
        TOLD_BY_US.to_owned()
    };
    Ok(EnvFilter::try_new(quiet + directives)?)
}

/// Whoever asks an API server says what failed, and why; its client says that something did.
const TOLD_BY_US: &str = "kube_client=off,";

/// Libraries that read what clients send.
const CAUSED_BY_CLIENTS: [&str; 5] = ["h2", "hyper", "hyper_util", "rustls", "tokio_rustls"];

/// Libraries that write down every frame, and their neighbours.
const LIBRARIES: [&str; 9] =
    ["h2", "hyper", "hyper_util", "kube_client", "rustls", "tokio_rustls", "tonic", "tower", "mio"];

/// Writes each event as one line: texts of users, API servers, proxies and libraries may have line ends and codes of terminals in them, and none of these
/// begins a line of its own.
struct OneLine<W> {
    inner: W,
    /// Codes of terminals are the log's own: those in texts are escaped where the line is made.
    has_colours: bool,
}

impl<W: Write> Write for OneLine<W> {
    /// Takes an event, which comes whole.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let is_clean = |byte: &u8| !byte.is_ascii_control() && *byte != C1;
        let (line, end) = event.split_last_chunk::<1>().unwrap_or((event, b"\n"));
        if line.iter().all(is_clean) {
            self.inner.write_all(event)?;
        } else {
            let is_code = |c: char| c.is_control() && !(self.has_colours && c == '\u{1b}');
            let mut clean = String::from_utf8_lossy(line).replace(is_code, " ").into_bytes();
            clean.extend_from_slice(end);
            self.inner.write_all(&clean)?;
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The first byte of the control characters beyond ASCII, U+0080 to U+009F, in UTF-8.
const C1: u8 = 0xc2;

/// The message of an event and nothing else.
struct AsItIs;

impl<S: Subscriber + for<'s> LookupSpan<'s>, N: for<'w> FormatFields<'w> + 'static> FormatEvent<S, N> for AsItIs {
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> FmtResult {
        let mut message = Message(&mut writer, Ok(()));
        event.record(&mut message);
        message.1?;
        writer.write_char('\n')
    }
}

struct Message<'m, 'w>(&'m mut Writer<'w>, FmtResult);

impl Visit for Message<'_, '_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.1 = write!(self.0, "{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_is_one_line_whatever_is_in_it() {
        let written = |event: &str, has_colours: bool| {
            let mut inner = Vec::new();
            OneLine { inner: &mut inner, has_colours }.write_all(event.as_bytes()).unwrap();
            String::from_utf8(inner).unwrap()
        };
        let forged = "WARN a\n2026-11-27 INFO FORGED\r\u{1b}[2J\u{9b}1m é\u{a0}\n";
        assert_eq!(written(forged, false), "WARN a 2026-11-27 INFO FORGED  [2J 1m é\u{a0}\n");
        assert_eq!(written(forged, true), "WARN a 2026-11-27 INFO FORGED \u{1b}[2J 1m é\u{a0}\n");
        assert_eq!(written("plain é\n", false), "plain é\n");
        assert_eq!(written("", false), "");
    }
}
