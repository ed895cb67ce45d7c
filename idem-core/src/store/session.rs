//! Sessions: clients that number their requests, and say which answers they still await.

use std::time::Duration;

use crate::{
    message::SessionKey,
    store::{Store, StoreError},
};

/// A store that keeps sessions, and decides about their requests together with the session.
///
/// A client opens a session and numbers its requests. With each it tells the lowest number whose
/// answer it still awaits: the session's mark. The store keeps the answers from the mark on and
/// drops those below. A session that gives no sign of life ends, and its answers with it.
///
/// An implementation keeps these rules beside those of [`Store`], and answers `true` to
/// [`keeps`](Store::keeps) for sessions; the conformance suite (list `SessionStore`) holds it to
/// them.
///
/// 1. [`Store::claim`] with a [position](crate::store::ClaimRequest::position) in a session looks at the session and
///    claims the key in one atomic step, serialised with [`expire`](Self::expire) and with all
///    other claims of that session.
/// 2. A session that is unknown or has ended, on the store's clock, answers
///    [`OutOfPlace::SessionExpired`](crate::store::OutOfPlace::SessionExpired), whether it was removed yet or not.
///    It never lives again: one that was [closed](Self::close) not even if the clock steps back to
///    before its end. One that ran out may, then, with all its answers as they are.
/// 3. The mark moves to the awaited number, and never back. A number below the mark is
///    [`OutOfPlace::Stale`](crate::store::OutOfPlace::Stale), one from mark and window on is
///    [`OutOfPlace::BeyondWindow`](crate::store::OutOfPlace::BeyondWindow): nothing is written but the sign of
///    life, not even the mark. Inside the window exactly the ordinary rules of
///    [`Store::claim`] decide.
/// 4. Answers that the mark passes are removed with it, at most a window of them. One that is in
///    progress is left alone: its completion applies, and it is forgotten after its retention.
///    A record from the mark on is not forgotten while the session lives, whatever its retention;
///    for that it must have been written with [`MIN_RETENTION`](crate::message::SessionPlace::MIN_RETENTION) at
///    least, and the session's life be [`MAX_LIFE`](OpenSession::MAX_LIFE) at most.
/// 5. Every claim and every [`touch`](Self::touch) that finds the session living prolongs it: it
///    ends no sooner than its life from now.
/// 6. [`open`](Self::open) of a session that is known, ended or not, changes nothing.
/// 7. [`expire`](Self::expire) removes sessions that ended at least their own life ago, and at least
///    a minute ago, with their answers, but none that is in progress. Several at once share the work, and a
///    [`purge`](crate::store::Purge::purge) is in nobody's way.
/// 8. No number of a session that has ended is ever acquired again, even if its opening comes once
///    more, late: that is what ended sessions are kept for. Once it is removed, a session of the
///    same key is a new one, so use a key for one session only.
/// 9. `Err` means *unknown*; every call may be repeated without harm.
///
/// # Cancel safety
/// A dropped future leaves the write unknown, as an `Err` does.
pub trait SessionStore: Store {
    /// Begins a session, unless it is known.
    ///
    /// # Errors
    /// If the store cannot tell; the session may have been opened.
    fn open(
        &self,
        request: &OpenSession,
    ) -> impl Future<Output = Result<Opened, StoreError>> + Send;

    /// Takes note of a sign of life.
    ///
    /// # Errors
    /// If the store cannot tell; the session may have been prolonged.
    fn touch(
        &self,
        session: &SessionKey,
    ) -> impl Future<Output = Result<Touched, StoreError>> + Send;

    /// Ends a session now, as if its mark had passed every number: its answers are removed, but
    /// none that is in progress. Does nothing to one that is unknown or has ended.
    ///
    /// # Errors
    /// If the store cannot tell; the session may have ended.
    fn close(&self, session: &SessionKey) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Removes at most `batch` sessions that ended at least their own life ago, and at least a
    /// minute ago, and says how many.
    /// Fewer than `batch` means that none are left for now but those that somebody else is at.
    /// A store that forgets by itself has nothing to do here.
    ///
    /// # Errors
    /// If the store cannot tell; sessions may have been removed.
    fn expire(&self, batch: u32) -> impl Future<Output = Result<u32, StoreError>> + Send;
}

/// What a session is opened with.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenSession {
    /// A name that no other session has or had.
    pub session: SessionKey,
    /// How many numbers from the mark on may be in use: 5, unless set.
    pub window: u32,
    /// How long it lives without a sign of life: 5 min, unless set.
    pub life: Duration,
}

impl OpenSession {
    /// The widest window; a wider one is cut to it, and one of zero is one of 1.
    pub const MAX_WINDOW: u32 = 1024;

    /// The longest life; a longer one is cut to it.
    pub const MAX_LIFE: Duration = Duration::from_hours(24);

    /// A session with a window of 5 and a life of 5 min.
    pub fn new(session: impl Into<SessionKey>) -> Self {
        Self {
            session: session.into(),
            window: 5,
            life: Duration::from_mins(5),
        }
    }

    /// Lets this many numbers from the mark on be in use, at least 1 and at most
    /// [`MAX_WINDOW`](Self::MAX_WINDOW).
    pub fn window(mut self, window: u32) -> Self {
        self.window = window.clamp(1, Self::MAX_WINDOW);
        self
    }

    /// Ends the session this long after its last sign of life, [`MAX_LIFE`](Self::MAX_LIFE) at most.
    pub fn life(mut self, life: Duration) -> Self {
        self.life = life.min(Self::MAX_LIFE);
        self
    }
}

/// The answer to [`SessionStore::open`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// The session begins now.
    New,
    /// It was known, and may have ended; nothing was changed.
    Known,
}

/// The answer to [`SessionStore::touch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a session that has ended takes no more requests"]
pub enum Touched {
    /// It lives, for its whole life from now.
    Living,
    /// It has ended, or is unknown.
    Expired,
}
