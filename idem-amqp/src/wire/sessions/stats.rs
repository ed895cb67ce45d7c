//! How often clients registered, gave signs of life and went.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// What a worker did for sessions, beside their requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SessionStats {
    /// Sessions that were opened.
    pub opened: u64,
    /// Sessions that were closed by their clients.
    pub closed: u64,
    /// Signs of life of sessions that lived.
    pub heartbeats: u64,
    /// Signs of life of sessions that had ended, or were never opened: their clients were told so.
    pub expired: u64,
    /// Keys that were reserved.
    pub reserved: u64,
    /// Messages in the queue of registrations that are none: refused.
    pub undecodable: u64,
    /// What was asked and not answered, because the store was away. Clients ask again.
    pub unanswered: u64,
    /// Answers that nobody was told: the client was gone, or had said no `reply_to`, or the broker did
    /// not take them. What was asked was done, but for openings and keys that nobody would have heard of.
    pub undelivered: u64,
}

/// `sessions: opened=3 closed=1 heartbeats=12`: what did not occur is left out.
impl fmt::Display for SessionStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sessions:")?;
        let counts = [
            ("opened", self.opened),
            ("closed", self.closed),
            ("heartbeats", self.heartbeats),
            ("expired", self.expired),
            ("reserved", self.reserved),
            ("undecodable", self.undecodable),
            ("unanswered", self.unanswered),
            ("undelivered", self.undelivered),
        ];
        let mut occurred = counts.iter().filter(|(_, count)| *count > 0);
        occurred.try_for_each(|(what, count)| write!(f, " {what}={count}"))
    }
}

/// Counts while the worker runs.
#[derive(Debug, Default)]
pub(crate) struct SessionCounters {
    pub(crate) opened: Counter,
    pub(crate) closed: Counter,
    pub(crate) heartbeats: Counter,
    pub(crate) expired: Counter,
    pub(crate) reserved: Counter,
    pub(crate) undecodable: Counter,
    pub(crate) unanswered: Counter,
    pub(crate) undelivered: Counter,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl SessionCounters {
    pub(crate) fn counts(&self) -> SessionStats {
        SessionStats {
            opened: self.opened.get(),
            closed: self.closed.get(),
            heartbeats: self.heartbeats.get(),
            expired: self.expired.get(),
            reserved: self.reserved.get(),
            undecodable: self.undecodable.get(),
            unanswered: self.unanswered.get(),
            undelivered: self.undelivered.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_occurred_is_told() {
        let counters = SessionCounters::default();
        counters.opened.add();
        counters.unanswered.add();
        counters.unanswered.add();
        assert_eq!(
            counters.counts().to_string(),
            "sessions: opened=1 unanswered=2"
        );
    }
}
