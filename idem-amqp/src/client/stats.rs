//! What a client has done so far.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// What a client and its clones have done so far.
///
/// Every call is in one of `in_flight`, `replies`, `given_up` and `unanswered`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ClientStats {
    /// Calls that were begun, those of sessions and their signs of life included.
    pub calls: u64,
    /// Calls that have neither ended nor been dropped.
    pub in_flight: u64,
    /// Calls whose callers wait no longer, though a reply may come: their deadline has passed, or they
    /// were dropped.
    pub given_up: u64,
    /// Calls to which no reply will come: no queue took any of their tries, or the client's runtime
    /// has ended.
    pub unanswered: u64,
    /// Requests that were sent, those that were sent again included.
    pub tries: u64,
    /// Replies that ended a call, refusals included.
    pub replies: u64,
    /// How many of the replies the other side repeated from memory, without handling the request again.
    pub replayed: u64,
    /// How many of the replies were refusals.
    pub refused: u64,
    /// Replies to calls that had ended, or been answered, or been dropped. They were ignored.
    pub late: u64,
    /// Messages in the reply queue that answer no call of this client. They were ignored.
    pub foreign: u64,
}

/// `calls=3 in_flight=0 given_up=0 unanswered=0 tries=4 replies=3 replayed=1 refused=0 late=0 foreign=0`
impl fmt::Display for ClientStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            calls,
            in_flight,
            given_up,
            unanswered,
            tries,
            replies,
            replayed,
            refused,
            late,
            foreign,
        } = self;
        write!(
            f,
            "calls={calls} in_flight={in_flight} given_up={given_up} unanswered={unanswered} \
             tries={tries} replies={replies} replayed={replayed} refused={refused} late={late} foreign={foreign}"
        )
    }
}

/// Whether a reply may come to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Outlook {
    #[default]
    Open,
    Hopeless,
}

/// Counts while the client lives.
#[derive(Debug, Default)]
pub(super) struct Counters {
    calls: AtomicU64,
    given_up: AtomicU64,
    unanswered: AtomicU64,
    tries: AtomicU64,
    replies: AtomicU64,
    replayed: AtomicU64,
    refused: AtomicU64,
    late: AtomicU64,
    foreign: AtomicU64,
}

impl Counters {
    /// The number of this call, from 0.
    pub(super) fn call(&self) -> u64 {
        self.calls.fetch_add(1, Relaxed)
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }

    /// A call has ended without a reply.
    pub(super) fn ended(&self, outlook: Outlook) {
        let count = match outlook {
            Outlook::Open => &self.given_up,
            Outlook::Hopeless => &self.unanswered,
        };
        count.fetch_add(1, Relaxed);
    }

    pub(super) fn tried(&self) {
        self.tries.fetch_add(1, Relaxed);
    }

    pub(super) fn replied(&self, replayed: bool, refused: bool) {
        self.replies.fetch_add(1, Relaxed);
        self.replayed.fetch_add(replayed.into(), Relaxed);
        self.refused.fetch_add(refused.into(), Relaxed);
    }

    pub(super) fn late(&self) {
        self.late.fetch_add(1, Relaxed);
    }

    pub(super) fn foreign(&self) {
        self.foreign.fetch_add(1, Relaxed);
    }

    pub(super) fn counts(&self, in_flight: u64) -> ClientStats {
        ClientStats {
            calls: self.calls.load(Relaxed),
            in_flight,
            given_up: self.given_up.load(Relaxed),
            unanswered: self.unanswered.load(Relaxed),
            tries: self.tries.load(Relaxed),
            replies: self.replies.load(Relaxed),
            replayed: self.replayed.load(Relaxed),
            refused: self.refused.load(Relaxed),
            late: self.late.load(Relaxed),
            foreign: self.foreign.load(Relaxed),
        }
    }
}
