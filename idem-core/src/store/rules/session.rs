//! The state machine of one session: the call, the session and the time in, what becomes of it out.

use std::ops::Range;

use crate::store::rules::record::micros;
use crate::{
    message::SessionPlace,
    store::{OpenSession, OutOfPlace},
};

#[cfg(test)]
mod tests;

/// The mark of a session that was closed: it has passed every number, so that none runs even if the
/// clock steps back to before the end.
const CLOSED: u64 = SessionPlace::MAX_NUMBER + 1;

/// How long a session that has ended is kept at least, in microseconds: longer than a call to a
/// store can be on its way.
const KEPT: i64 = 60_000_000;

/// What a store keeps for one session. Times are microseconds of the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    /// The lowest number whose answer is kept.
    pub(crate) mark: u64,
    pub(crate) window: u32,
    /// How long it lives without a sign of life.
    pub(crate) life: i64,
    pub(crate) ends_at: i64,
}

/// How much longer than a session its records are kept.
const AHEAD: i64 = 60 * 60 * 1_000_000;

/// What a session says to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Placed {
    /// Nothing is claimed. `None` leaves the session as it is.
    Outside(OutOfPlace, Option<Session>),
    /// The ordinary rules decide about the key.
    Inside(Session),
}

/// A store's call to open; `None` leaves the session as it is.
pub(crate) fn open(session: Option<&Session>, request: &OpenSession, now: i64) -> Option<Session> {
    let life = micros(request.life);
    session.is_none().then(|| Session {
        mark: 0,
        window: request.window.clamp(1, OpenSession::MAX_WINDOW),
        life,
        ends_at: now.saturating_add(life),
    })
}

/// The session's part of a store's call to claim.
pub(crate) fn place(session: Option<&Session>, place: &SessionPlace, now: i64) -> Placed {
    let Some(session) = touch(session, now) else {
        return Placed::Outside(OutOfPlace::SessionExpired, None);
    };
    let mark = session.mark.max(place.awaited);
    if place.number < mark {
        return Placed::Outside(OutOfPlace::Stale, Some(session));
    }
    let end = mark.saturating_add(session.window.into());
    if place.number >= end || place.number > SessionPlace::MAX_NUMBER {
        let window = session.window;
        return Placed::Outside(OutOfPlace::BeyondWindow { window }, Some(session));
    }
    Placed::Inside(Session { mark, ..session })
}

/// A sign of life; `None` if it comes too late.
pub(crate) fn touch(session: Option<&Session>, now: i64) -> Option<Session> {
    session.filter(|session| session.lives(now)).map(|session| {
        let ends_at = now.saturating_add(session.life).max(session.ends_at);
        Session {
            ends_at,
            ..*session
        }
    })
}

/// A store's call to close; `None` leaves the session as it is.
pub(crate) fn close(session: Option<&Session>, now: i64) -> Option<Session> {
    let session = session.filter(|session| session.lives(now))?;
    Some(Session {
        mark: CLOSED,
        ends_at: now,
        ..*session
    })
}

impl Session {
    fn lives(&self, now: i64) -> bool {
        self.mark < CLOSED && now < self.ends_at
    }

    /// The numbers that may have answers.
    pub(crate) fn answers(&self) -> Range<u64> {
        self.mark..self.mark.saturating_add(self.window.into())
    }

    /// Those of them that the mark has passed when the session has become this one.
    pub(crate) fn passed_by(&self, next: &Self) -> Range<u64> {
        let Range { start, end } = self.answers();
        start..next.mark.min(end)
    }

    /// Until when its records are to be kept at least, if this is the step to say so.
    ///
    /// What is forgotten would run again. With every sign of life the records would have to be
    /// written anew; so they are kept until an hour after the end, and written as the end comes into
    /// another hour.
    pub(crate) fn keeps_until(&self, next: &Self) -> Option<i64> {
        let hour = |time: i64| time.div_euclid(AHEAD);
        let later = hour(self.ends_at) < hour(next.ends_at);
        later.then(|| next.ends_at.saturating_add(AHEAD))
    }

    /// Until then it is kept though it has ended: a late copy of its opening finds it.
    pub(crate) fn remove_at(&self) -> i64 {
        self.ends_at.saturating_add(self.life.max(KEPT))
    }
}
