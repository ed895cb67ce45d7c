//! Sessions: what a queue's clients are granted, and how they are spoken with.

use std::time::Duration;

mod control;
mod place;
mod stats;

pub(crate) use control::{Control, Granted, new_id, reserved};
pub(crate) use place::place;
pub(crate) use stats::SessionCounters;
pub use stats::SessionStats;

/// What the sessions of a queue are granted: see
/// [`consume_in_sessions`](crate::WorkerBuilder::consume_in_sessions).
///
/// | | unless set | |
/// |---|---|---|
/// | [`window`](Self::window) | 5 | requests that a client may have under way |
/// | [`life`](Self::life) | 5 min | without a sign of life, until a session ends |
/// | [`expire_every`](Self::expire_every) | 1 min | between two removals of sessions that have ended |
///
/// ```
/// use std::time::Duration;
/// use idem_amqp::{MemoryStore, Worker, prelude::*, session::Sessions};
/// # #[derive(serde::Deserialize)] struct CreateLease { name: String }
/// # #[idempotent(key = message_id(), scope = "leases.grant")]
/// # async fn grant(lease: CreateLease) -> Result<u64, Failed> { Ok(lease.name.len() as u64) }
///
/// let sessions = Sessions::default().window(16).life(Duration::from_mins(10));
/// let worker = Worker::builder(MemoryStore::new()).consume_in_sessions::<grant>("leases", sessions);
/// # drop(worker);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sessions {
    window: u32,
    life: Duration,
    expire_every: Duration,
}

impl Sessions {
    /// The widest window.
    pub const MAX_WINDOW: u32 = idem_core::store::OpenSession::MAX_WINDOW;

    /// The shortest life: three heartbeats, and the way of each, must fit into it.
    pub const MIN_LIFE: Duration = Duration::from_secs(1);

    /// The longest life: a session whose client has died keeps its answers for that long.
    pub const MAX_LIFE: Duration = Duration::from_hours(24);

    /// How many requests of one session may be under way, 1 to 1024; 5 unless set. One further on is
    /// refused, and does not run.
    ///
    /// Sessions that are open keep the window and the life that they were opened with.
    pub const fn window(mut self, requests: u32) -> Self {
        self.window = requests;
        self
    }

    /// How long a session lives without a sign of life, 1 s to 24 h; 5 min unless set. Clients send
    /// one every third of it. A client whose connection is being replaced gives none, so let it be
    /// minutes.
    pub const fn life(mut self, life: Duration) -> Self {
        self.life = life;
        self
    }

    /// How often the worker removes sessions that have ended, with their answers, from the store;
    /// every minute unless set. They are refused from the moment on at which they end. If several
    /// queues serve sessions, the shortest interval counts for all.
    pub const fn expire_every(mut self, interval: Duration) -> Self {
        self.expire_every = interval;
        self
    }

    pub(crate) const fn lives(&self) -> Duration {
        self.life
    }

    pub(crate) const fn expires_every(&self) -> Duration {
        self.expire_every
    }

    pub(crate) const fn granted(&self) -> Granted {
        Granted {
            window: self.window,
            life: self.life,
        }
    }

    /// What makes it impossible, if anything does.
    pub(crate) fn objection(&self) -> Option<&'static str> {
        if !(1..=Self::MAX_WINDOW).contains(&self.window) {
            Some("the window must be 1 to 1024 requests")
        } else if !(Self::MIN_LIFE..=Self::MAX_LIFE).contains(&self.life) {
            Some("the life must be 1 s to 24 h")
        } else if self.expire_every.is_zero() {
            Some("the interval between removals must be above zero")
        } else {
            None
        }
    }
}

impl Default for Sessions {
    /// A window of 5 and a life of 5 min.
    fn default() -> Self {
        Self {
            window: 5,
            life: Duration::from_mins(5),
            expire_every: Duration::from_mins(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_sessions_are_objected_to() {
        let default = Sessions::default();
        let millis = Duration::from_millis;
        let table = [
            (default, true),
            (default.window(1), true),
            (default.window(0), false),
            (default.window(1024), true),
            (default.window(1025), false),
            (default.life(millis(1000)), true),
            (default.life(millis(999)), false),
            (default.life(millis(86_400_000)), true),
            (default.life(millis(86_400_001)), false),
            (default.expire_every(Duration::ZERO), false),
            (default.expire_every(millis(1)), true),
        ];
        for (sessions, possible) in table {
            assert_eq!(sessions.objection().is_none(), possible, "{sessions:?}");
        }
    }
}
