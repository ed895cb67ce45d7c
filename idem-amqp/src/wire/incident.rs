//! What happens to a worker's connections, and what it does about it.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Something that happened to a worker's connections, channels or consumers. The worker has its own
/// answer to each, which it logs; nothing has to be done, unless it happens again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Incident {
    /// A node of the broker could not be reached, or did not answer in time.
    Unreachable,
    /// A node did not let the worker in: user, password or vhost are wrong there.
    Refused,
    /// The broker was silent for twice the heartbeat; the connection was given up.
    HeartbeatMissed,
    /// The broker closed the connection: its node was shut down, or an operator asked for it.
    ConnectionClosed,
    /// The connection broke: the other end is gone, or the network. Or no channel can be opened on it any
    /// more, because a queue was refused too often.
    ConnectionBroken,
    /// The broker closed a channel: a message was with its consumer for longer than the broker's
    /// consumer timeout, say.
    ChannelClosed,
    /// The broker cancelled a consumer: its queue was deleted, or moved to another node.
    ConsumerCancelled,
    /// A queue could not be declared or consumed as it is meant to be.
    QueueRefused,
    /// Settlements could not be sent: their channel had ended.
    Unsettled,
    /// The broker takes no messages on a connection: its memory or its disk is short.
    Blocked,
    /// It takes messages again.
    Unblocked,
}

impl Incident {
    /// All incidents, in the order in which [`Incidents::iter`] has them.
    pub const ALL: [Self; 11] = [
        Self::Unreachable,
        Self::Refused,
        Self::HeartbeatMissed,
        Self::ConnectionClosed,
        Self::ConnectionBroken,
        Self::ChannelClosed,
        Self::ConsumerCancelled,
        Self::QueueRefused,
        Self::Unsettled,
        Self::Blocked,
        Self::Unblocked,
    ];

    /// The incident's name in logs and metrics: `heartbeat-missed`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::HeartbeatMissed => "heartbeat-missed",
            Self::ConnectionClosed => "connection-closed",
            Self::ConnectionBroken => "connection-broken",
            Self::ChannelClosed => "channel-closed",
            Self::ConsumerCancelled => "consumer-cancelled",
            Self::QueueRefused => "queue-refused",
            Self::Unsettled => "unsettled",
            Self::Blocked => "blocked",
            Self::Unblocked => "unblocked",
        }
    }

    /// What happened and what is done about it, for the log.
    pub(crate) fn story(self) -> &'static str {
        match self {
            Self::Unreachable => {
                "a broker cannot be reached: check host and port of its URL, and whether it runs"
            }
            Self::Refused => {
                "a broker refuses the connection: check user, password and vhost of its URL"
            }
            Self::HeartbeatMissed => "the broker was silent for too long: connecting again",
            Self::ConnectionClosed => "the broker closed the connection: connecting again",
            Self::ConnectionBroken => {
                "the connection broke, or has no channel left: connecting again"
            }
            Self::ChannelClosed => "the broker closed a channel: opening another one",
            Self::ConsumerCancelled => "the broker cancelled a consumer: consuming again",
            Self::QueueRefused => "a queue cannot be consumed as it is: trying until it can",
            Self::Unsettled => {
                "settlements could not be sent: the broker delivers their messages again"
            }
            Self::Blocked => {
                "the broker takes no messages, its memory or disk is short: waiting until it does"
            }
            Self::Unblocked => "the broker takes messages again",
        }
    }

    pub(crate) fn index(self) -> usize {
        let at = Self::ALL.iter().position(|other| *other == self);
        at.expect("ALL has every incident")
    }
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// How often which incident happened to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Incidents([u64; Incident::ALL.len()]);

impl Incidents {
    /// How often this one happened.
    pub fn of(&self, incident: Incident) -> u64 {
        self.0[incident.index()]
    }

    /// Incidents and their counts, in the order of [`Incident::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Incident, u64)> + '_ {
        Incident::ALL.iter().copied().zip(self.0)
    }
}

/// `heartbeat_missed=1 blocked=2`: what did not happen is left out.
impl fmt::Display for Incidents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (incident, count) in self.iter().filter(|(_, count)| *count > 0) {
            write!(f, "{separator}{incident}={count}")?;
            separator = " ";
        }
        Ok(())
    }
}

/// Counts while the worker runs.
#[derive(Debug, Default)]
pub(crate) struct Tally([AtomicU64; Incident::ALL.len()]);

impl Tally {
    pub(crate) fn add(&self, incident: Incident) {
        self.0[incident.index()].fetch_add(1, Relaxed);
    }

    pub(crate) fn incidents(&self) -> Incidents {
        Incidents(std::array::from_fn(|at| self.0[at].load(Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_incident_has_a_name_of_its_own() {
        let labels: std::collections::HashSet<_> = Incident::ALL.map(Incident::label).into();
        assert_eq!(labels.len(), Incident::ALL.len());
    }

    /// At the start a worker may end with an error right after it.
    #[test]
    fn what_may_end_a_worker_promises_no_further_try_and_says_what_to_check() {
        for incident in [Incident::Unreachable, Incident::Refused] {
            let story = incident.story();
            for promise in ["trying", "tries", "again", "ever", "until", "connecting"] {
                assert!(!story.contains(promise), "{story}");
            }
            assert!(story.contains("check"), "{story}");
        }
    }

    #[test]
    fn only_what_happened_is_told() {
        let tally = Tally::default();
        assert_eq!(tally.incidents().to_string(), "");
        tally.add(Incident::Unblocked);
        tally.add(Incident::HeartbeatMissed);
        tally.add(Incident::HeartbeatMissed);
        let incidents = tally.incidents();
        assert_eq!(incidents.of(Incident::HeartbeatMissed), 2);
        assert_eq!(incidents.to_string(), "heartbeat-missed=2 unblocked=1");
    }
}
