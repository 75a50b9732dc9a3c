//! Counters of clients that were refused, slowed down or ended, by reason: for metrics. A log line says the same, but not each time.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a client is refused, slowed down or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// All places of the listener are taken, and none by a silent connection.
    Places,
    /// Places are short, and the identity or source address has more than its share.
    Share,
    /// A silent connection made room for a new one.
    Silent,
    /// There was no TLS handshake, or none in time.
    Handshake,
    /// The identity has as many connections as one may have.
    Connections,
    /// No call came in time.
    NoCall,
    /// The identity has as many calls under way as one may have.
    Calls,
    /// More calls, requests or large answers in a time than a client or an identity may have.
    Rate,
    /// More names than a client or an identity may have.
    Names,
    /// A request is too large, or was not complete in time.
    Request,
    /// More keepalive pings than a client may send.
    Pings,
    /// More changes of HTTP/2 settings than a client may send.
    Settings,
    /// A header block that is larger than clients are allowed to send.
    HeaderBlock,
    /// More HTTP/2 frames or header blocks in a time than a client or an identity may send.
    Frames,
    /// More bytes or small frames on a connection than are kept until they are taken.
    Buffer,
    /// The client did not take what it was sent.
    SlowReader,
    /// The identity may not have what it asks for.
    Identity,
    /// The message of a client cannot be understood.
    Malformed,
}

impl RefusalReason {
    /// Every reason.
    pub const ALL: [Self; 18] = [
        Self::Places,
        Self::Share,
        Self::Silent,
        Self::Handshake,
        Self::Connections,
        Self::NoCall,
        Self::Calls,
        Self::Rate,
        Self::Names,
        Self::Request,
        Self::Pings,
        Self::Settings,
        Self::HeaderBlock,
        Self::Frames,
        Self::Buffer,
        Self::SlowReader,
        Self::Identity,
        Self::Malformed,
    ];

    /// The value of a label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Places => "places",
            Self::Share => "share",
            Self::Silent => "silent",
            Self::Handshake => "handshake",
            Self::Connections => "connections",
            Self::NoCall => "no_call",
            Self::Calls => "calls",
            Self::Rate => "rate",
            Self::Names => "names",
            Self::Request => "request",
            Self::Pings => "pings",
            Self::Settings => "settings",
            Self::HeaderBlock => "header_block",
            Self::Frames => "frames",
            Self::Buffer => "buffer",
            Self::SlowReader => "slow_reader",
            Self::Identity => "identity",
            Self::Malformed => "malformed",
        }
    }
}

/// Counters since the start, one for each reason.
#[derive(Default)]
pub(super) struct RefusalCounters([AtomicU64; RefusalReason::ALL.len()]);

impl RefusalCounters {
    /// It happened once more.
    pub(super) fn count(&self, reason: RefusalReason) {
        if let Some(counter) = self.0.get(reason as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns how often each has happened.
    pub(super) fn all(&self) -> Vec<(RefusalReason, u64)> {
        RefusalReason::ALL
            .into_iter()
            .zip(&self.0)
            .map(|(reason, count)| (reason, count.load(Ordering::Relaxed)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_counter_of_its_own() {
        let refusals = RefusalCounters::default();
        RefusalReason::ALL.into_iter().for_each(|reason| refusals.count(reason));
        assert!(refusals.all().into_iter().all(|(_, count)| count == 1));
        let mut labels = RefusalReason::ALL.map(RefusalReason::as_str).to_vec();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), RefusalReason::ALL.len());
    }
}
