//! The state machine of one session. A session is a client's numbered requests, of which the store
//! keeps the answers that the client still awaits.
//!
//! The functions are pure: the call, the session and the time go in, and what becomes of the
//! session comes out. Stores call them while nobody else can change the session.
//!
//! What must stay true:
//!
//! - No request below the mark and none of an ended session is ever acquired.
//! - A request that is refused moves no mark.
//! - No answer from the mark on is forgotten while the session lives.
// docs/decisions/0018

use std::ops::Range;

use crate::store::rules::record::micros;
use crate::{
    message::SessionPlace,
    store::{OpenSession, OutOfPlace},
};

#[cfg(test)]
mod tests;

/// The mark of a session that was closed: it has passed every number. Its end alone would not do.
/// If the clock stepped back to before it, the session would live again with its answers gone, and
/// requests that were answered would run.
const CLOSED: u64 = SessionPlace::MAX_NUMBER + 1;

/// How long a session that has ended is kept at least, in microseconds: longer than a copy of a
/// call to a store can be on its way.
const KEPT: i64 = 60_000_000;

/// What a store keeps for one session. Times are microseconds of the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    /// The lowest number whose answer is kept. Requests below it are stale.
    pub(crate) mark: u64,
    /// How many numbers from the mark on may be in use. It never changes.
    pub(crate) window: u32,
    /// How long it lives without a sign of life, in microseconds.
    pub(crate) life: i64,
    /// When it ends unless there is a sign of life before.
    pub(crate) ends_at: i64,
}

/// How much longer than a session its records are kept, in microseconds: an hour.
const AHEAD: i64 = 60 * 60 * 1_000_000;

/// What a session says to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Placed {
    /// Nothing is claimed, and the requester is told why. The session is to be written, because a
    /// request is a sign of life; `None` leaves it as it is.
    Outside(OutOfPlace, Option<Session>),
    /// The ordinary rules decide about the key. The session is written in the same step, with its
    /// mark moved.
    Inside(Session),
}

/// A store's call to open: the session to write; `None` leaves it as it is.
pub(crate) fn open(session: Option<&Session>, request: &OpenSession, now: i64) -> Option<Session> {
    let life = micros(request.life);
    // Also if the session has ended. This may be a late copy of its opening, and a new session with
    // mark 0 would let late copies of answered requests run.
    session.is_none().then(|| Session {
        mark: 0,
        window: request.window.clamp(1, OpenSession::MAX_WINDOW),
        life,
        ends_at: now.saturating_add(life),
    })
}

/// The session's part of a store's call to claim: whether the request is inside the window.
pub(crate) fn place(session: Option<&Session>, place: &SessionPlace, now: i64) -> Placed {
    let Some(session) = touch(session, now) else {
        return Placed::Outside(OutOfPlace::SessionExpired, None);
    };
    // The client awaits no answer below `awaited`, so those answers can go. A late request with a
    // lower `awaited` never moves the mark back: the answers are gone.
    let mark = session.mark.max(place.awaited);
    if place.number < mark {
        // With the mark as it was. A number below what the request itself awaits is a client's
        // mistake, and must not cost the answers of its other requests.
        return Placed::Outside(OutOfPlace::Stale, Some(session));
    }
    // Without this limit one request with a huge number could fill the store with answers.
    let end = mark.saturating_add(session.window.into());
    if place.number >= end || place.number > SessionPlace::MAX_NUMBER {
        let window = session.window;
        return Placed::Outside(OutOfPlace::BeyondWindow { window }, Some(session));
    }
    Placed::Inside(Session { mark, ..session })
}

/// A sign of life: the session to write; `None` if it comes too late or there is none.
pub(crate) fn touch(session: Option<&Session>, now: i64) -> Option<Session> {
    session.filter(|session| session.lives(now)).map(|session| {
        // Never earlier, also if the clock has stepped back: its client counts on the life that it
        // has.
        let ends_at = now.saturating_add(session.life).max(session.ends_at);
        Session {
            ends_at,
            ..*session
        }
    })
}

/// A store's call to close: the session to write; `None` leaves it as it is, because it has ended
/// already or there is none.
pub(crate) fn close(session: Option<&Session>, now: i64) -> Option<Session> {
    let session = session.filter(|session| session.lives(now))?;
    Some(Session {
        mark: CLOSED,
        ends_at: now,
        ..*session
    })
}

impl Session {
    /// Whether it is neither closed nor past its end.
    fn lives(&self, now: i64) -> bool {
        self.mark < CLOSED && now < self.ends_at
    }

    /// The numbers that may have answers: a window from the mark on.
    pub(crate) fn answers(&self) -> Range<u64> {
        self.mark..self.mark.saturating_add(self.window.into())
    }

    /// The numbers whose answers go when the session becomes `next`, because the mark has passed
    /// them.
    pub(crate) fn passed_by(&self, next: &Self) -> Range<u64> {
        let Range { start, end } = self.answers();
        // Not beyond the window: a session that is closed has its mark far above all numbers.
        start..next.mark.min(end)
    }

    /// Until when its records are to be kept at least, if this is the step to say so.
    ///
    /// What is forgotten would run again. But to write all records anew with every sign of life
    /// would cost too much. So they are kept until an hour after the end, and written only when the
    /// end comes into another hour of the clock.
    pub(crate) fn keeps_until(&self, next: &Self) -> Option<i64> {
        let hour = |time: i64| time.div_euclid(AHEAD);
        let later = hour(self.ends_at) < hour(next.ends_at);
        later.then(|| next.ends_at.saturating_add(AHEAD))
    }

    /// The time from which the session may be removed. Until then it is kept though it has ended, so that a late copy
    /// of its opening finds it and begins nothing.
    pub(crate) fn remove_at(&self) -> i64 {
        self.ends_at.saturating_add(self.life.max(KEPT))
    }
}
