//! Counts and logs what the monitoring ports refuse, by port and reason.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::warn;

use super::counters;

/// At most one line in the log for each port and reason within this time.
const LOG_PAUSE: Duration = Duration::from_mins(1);

/// A port that monitors use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Port {
    Health,
    Admin,
}

/// The reason why a connection was closed or a request refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    Evicted,
    Idle,
    HeadTooLarge,
    Malformed,
    Untaken,
    Host,
    Origin,
}

const PORTS: [(Port, &str); 2] = [(Port::Health, "health"), (Port::Admin, "admin")];

/// Each reason with its word in the metric and, where it is worth a line, its line in the log.
const REASONS: [(Reason, &str, Option<&str>); 7] = [
    (
        Reason::Evicted,
        "evicted",
        Some("all connections of the port are taken: the longest idle connection is closed for each new one"),
    ),
    // Every client that keeps a connection ends like this.
    (Reason::Idle, "idle", None),
    (Reason::HeadTooLarge, "head_too_large", Some("requests with too large a head are refused")),
    (Reason::Malformed, "malformed", Some("requests that are not HTTP/1 are refused")),
    (Reason::Untaken, "untaken", Some("connections of clients that do not read their answers are closed")),
    (Reason::Host, "host", Some("requests with a Host that is neither loopback nor named by --admin-host are refused")),
    (Reason::Origin, "origin", Some("requests of pages from another origin are refused")),
];

/// Shared by both ports.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals(Arc<[[Counter; REASONS.len()]; PORTS.len()]>);

#[derive(Debug, Default)]
struct Counter {
    count: AtomicU64,
    logged: Mutex<Option<Instant>>,
}

impl Refusals {
    /// Counts one, and logs it unless the same was logged lately.
    pub(super) fn note(&self, port: Port, reason: Reason) {
        let at = PORTS.iter().position(|(one, _)| *one == port);
        let which = REASONS.iter().position(|(one, ..)| *one == reason);
        let (Some(at), Some(which)) = (at, which) else { return };
        let (Some(counter), Some((_, word, line))) =
            (self.0.get(at).and_then(|row| row.get(which)), REASONS.get(which))
        else {
            return;
        };
        let count = counter.count.fetch_add(1, Ordering::Relaxed) + 1;
        let Some(line) = line else { return };
        let mut logged = counter.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.is_none_or(|at| at.elapsed() >= LOG_PAUSE) {
            *logged = Some(Instant::now());
            drop(logged);
            let port = PORTS.get(at).map(|(_, word)| *word).unwrap_or_default();
            warn!(port, reason = word, count, "{line}");
        }
    }

    /// Adds the family to an OpenMetrics text, before its end mark.
    pub(super) fn add_to(&self, text: &mut String) {
        let help = "Connections closed and requests refused at --health-listen and --admin-listen";
        let series = PORTS.iter().zip(self.0.iter()).flat_map(|((_, port), row)| {
            REASONS.iter().zip(row).map(move |((_, reason, _), counter)| {
                (format!("port=\"{port}\",reason=\"{reason}\""), counter.count.load(Ordering::Relaxed))
            })
        });
        counters::add(text, ("chancery_monitor_refusals", help), series);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_and_reason_is_a_series() {
        let refusals = Refusals::default();
        refusals.note(Port::Admin, Reason::Host);
        refusals.note(Port::Admin, Reason::Host);
        let mut text = "# TYPE chancery_a counter\nchancery_a_total 1\n# EOF\n".to_owned();
        refusals.add_to(&mut text);
        assert!(text.contains("chancery_monitor_refusals_total{port=\"admin\",reason=\"host\"} 2\n"), "{text}");
        assert!(text.contains("chancery_monitor_refusals_total{port=\"health\",reason=\"evicted\"} 0\n"), "{text}");
        assert_eq!(text.matches("chancery_monitor_refusals_total").count(), PORTS.len() * REASONS.len());
        assert!(text.ends_with(" 0\n# EOF\n") && text.matches("# EOF").count() == 1, "{text}");
    }
}
