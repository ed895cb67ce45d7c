//! Sessions of the plain store.

use std::{ops::Range, time::Duration};

use idem_core::{
    StoreError,
    message::{SessionKey, SessionPlace},
    store::{Claim, ClaimRequest, OpenSession, Opened, OutOfPlace, SessionStore, Touched},
};

use crate::{
    flaw::Flaw,
    record::State,
    store::{PlainStore, Shared},
};

/// What is known of a session. Times count from the store's making.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    mark: u64,
    window: u64,
    life: Duration,
    opened_at: Duration,
    ends_at: Duration,
}

/// Whose answers the mark passes; or the answer, if nothing is to be claimed.
type Placed = Result<Range<u64>, Claim>;

impl PlainStore {
    /// A claim of a session's request.
    pub(crate) fn claim_placed(
        &self,
        request: &ClaimRequest,
        place: &SessionPlace,
    ) -> Result<Claim, StoreError> {
        if place.key() != request.key && !self.has(Flaw::BelievesTheKey) {
            return Err(StoreError::Refused("another key".into()));
        }
        let name = place.session.to_string();
        let mut shared = self.shared();
        let known = shared.sessions.get(&name).cloned();
        if self.has(Flaw::SessionsInTwoSteps) {
            drop(shared);
            std::thread::sleep(Duration::from_millis(1));
            shared = self.shared();
        }
        let (written, placed) = self.place(known, place);
        if let Some(written) = written {
            self.keep_records(&mut shared, &place.session, &written);
            shared.sessions.insert(name, written);
        }
        Ok(match placed {
            Err(answer) => answer,
            Ok(passed) => {
                if !self.has(Flaw::KeepsPassedAnswers) {
                    self.remove_answers(&mut shared, &place.session, passed);
                }
                drop(shared);
                self.claim_key(request)
            }
        })
    }

    fn place(&self, known: Option<Session>, place: &SessionPlace) -> (Option<Session>, Placed) {
        let known = known.filter(|session| self.lives(session));
        let Some(mut session) = known.filter(|_| !self.has(Flaw::RefusesSessions)) else {
            let runs = self.has(Flaw::RunsWithoutASession);
            return (
                None,
                if runs {
                    Ok(0..0)
                } else {
                    Err(Claim::OutOfPlace(OutOfPlace::SessionExpired))
                },
            );
        };
        let renewed = session.ends_at.max(self.now() + session.life);
        if !self.has(Flaw::ClaimIsNoSign) && !self.has(Flaw::OnlyWorkIsASign) {
            session.ends_at = renewed;
        }
        let (number, mark) = self.numbers(&session, place);
        if number < mark && !self.has(Flaw::RunsTheStale) {
            if self.has(Flaw::MovesTheMarkOfTheStale) {
                session.mark = mark;
            }
            return (Some(session), Err(Claim::OutOfPlace(OutOfPlace::Stale)));
        }
        let window = session.window;
        let beyond = number >= mark + window || number > SessionPlace::MAX_NUMBER;
        if beyond && !self.has(Flaw::HasNoWindow) {
            if self.has(Flaw::MovesTheMarkBeyond) {
                session.mark = mark;
            }
            let window = u32::try_from(window).expect("it was one");
            return (
                Some(session),
                Err(Claim::OutOfPlace(OutOfPlace::BeyondWindow { window })),
            );
        }
        let passed = self.passed(&session, mark);
        if !self.has(Flaw::KeepsTheMark) {
            session.mark = mark;
        }
        if self.has(Flaw::OnlyWorkIsASign) {
            session.ends_at = renewed;
        }
        (Some(session), Ok(passed))
    }

    /// The number, and the mark that it comes with.
    fn numbers(&self, session: &Session, place: &SessionPlace) -> (u64, u64) {
        let mut number = place.number;
        let mut mark = session.mark.max(place.awaited);
        if self.has(Flaw::CutsNumbers) {
            number &= u64::from(u32::MAX);
            mark &= u64::from(u32::MAX);
        }
        if self.has(Flaw::MarkMovesBack) {
            mark = place.awaited;
        }
        if self.has(Flaw::OrdersNumbers) {
            mark = mark.max(number);
        }
        (number, mark.min(1 << 60))
    }

    fn passed(&self, session: &Session, mark: u64) -> Range<u64> {
        let end = mark.min(session.mark + session.window);
        match () {
            () if self.has(Flaw::RemovesOneTooMany) => session.mark..mark + 1,
            () if self.has(Flaw::RemovesBelowTheMarkOnly) => {
                mark.saturating_sub(session.window)..mark
            }
            () => session.mark..end,
        }
    }

    fn lives(&self, session: &Session) -> bool {
        let life = if self.has(Flaw::EndsSessionsEarly) {
            session.life / 2
        } else {
            Duration::ZERO
        };
        self.now() + life < session.ends_at || self.has(Flaw::NeverEndsSessions)
    }

    /// Keeps its records for as long as it lives.
    fn keep_records(&self, shared: &mut Shared, key: &SessionKey, session: &Session) {
        if self.has(Flaw::ForgetsInSessions) {
            return;
        }
        for number in session.mark..session.mark + session.window {
            let record = shared.records.get_mut(&self.name(&key.request(number)));
            let now = self.now();
            if let Some(record) = record.filter(|record| record.forget_at > now) {
                record.forget_at = record.forget_at.max(session.ends_at);
            }
        }
    }

    fn remove_answers(&self, shared: &mut Shared, session: &SessionKey, numbers: Range<u64>) {
        for number in numbers {
            let name = self.name(&session.request(number));
            let record = shared.records.get(&name);
            let is_answer =
                record.is_some_and(|record| !matches!(record.state, State::InProgress { .. }));
            if is_answer || self.has(Flaw::RemovesWhatIsInProgress) {
                shared.remove(&name);
            }
        }
    }
}

impl SessionStore for PlainStore {
    async fn open(&self, request: &OpenSession) -> Result<Opened, StoreError> {
        let mut shared = self.shared();
        let name = request.session.to_string();
        let known = shared.sessions.get(&name).cloned();
        if self.has(Flaw::SessionsInTwoSteps) {
            drop(shared);
            std::thread::sleep(Duration::from_millis(1));
            shared = self.shared();
        }
        let window = if self.has(Flaw::CapsWindows) {
            u64::from(request.window).min(64)
        } else {
            u64::from(request.window)
        };
        if let Some(known) = known.filter(|_| !self.has(Flaw::OpensAgain)) {
            if self.has(Flaw::ReopeningChanges) {
                let (life, ends_at) = (request.life, self.now() + request.life);
                let changed = Session {
                    window,
                    life,
                    ends_at,
                    ..known
                };
                shared.sessions.insert(name, changed);
            }
            return Ok(Opened::Known);
        }
        let session = Session {
            mark: 0,
            window,
            life: request.life,
            opened_at: self.now(),
            ends_at: self.now() + request.life,
        };
        shared.sessions.insert(name, session);
        Ok(Opened::New)
    }

    async fn touch(&self, session: &SessionKey) -> Result<Touched, StoreError> {
        let mut shared = self.shared();
        let known = shared.sessions.get_mut(session.as_str());
        let revives = self.has(Flaw::TouchRevives);
        let known = known.filter(|known| self.lives(known) || revives);
        Ok(match known {
            None => Touched::Expired,
            Some(known) => {
                if !self.has(Flaw::TouchIsNoSign) {
                    known.ends_at = known.ends_at.max(self.now() + known.life);
                }
                let known = known.clone();
                self.keep_records(&mut shared, session, &known);
                Touched::Living
            }
        })
    }

    async fn close(&self, session: &SessionKey) -> Result<(), StoreError> {
        let mut shared = self.shared();
        let name = session.as_str();
        if self.has(Flaw::ClosesTheUnknown) && !shared.sessions.contains_key(name) {
            let now = self.now();
            let closed = Session {
                mark: 0,
                window: 1,
                life: Duration::from_mins(5),
                opened_at: now,
                ends_at: now,
            };
            shared.sessions.insert(name.to_owned(), closed);
        }
        let known = shared.sessions.get_mut(name);
        let Some(known) = known.filter(|known| self.lives(known)) else {
            return Ok(());
        };
        let answers = known.mark..known.mark + known.window;
        if !self.has(Flaw::CloseIsForgotten) {
            known.ends_at = known.ends_at.min(self.now());
            known.mark = SessionPlace::MAX_NUMBER + 1;
        }
        if self.has(Flaw::CloseForgetsTheSession) {
            shared.sessions.remove(name);
        }
        if !self.has(Flaw::CloseKeepsAnswers) {
            self.remove_answers(&mut shared, session, answers);
        }
        Ok(())
    }

    async fn expire(&self, batch: u32) -> Result<u32, StoreError> {
        let mut shared = self.shared();
        let batch = match () {
            () if self.has(Flaw::ExpiresNothing) => 0,
            () if self.has(Flaw::ExpiresTooMany) => usize::MAX,
            () => batch as usize,
        };
        let sessions = shared.sessions.iter();
        let ended: Vec<_> = sessions
            .filter(|(_, session)| self.may_be_removed(session))
            .map(|(name, session)| (name.clone(), session.clone()))
            .take(batch)
            .collect();
        for (name, session) in &ended {
            shared.sessions.remove(name);
            for number in session.mark..session.mark + session.window {
                self.expire_answer(&mut shared, &format!("{name}~{number}"));
            }
        }
        if self.has(Flaw::ExpiresEverything) && !ended.is_empty() {
            shared.records.clear();
        }
        Ok(u32::try_from(ended.len()).expect("so many fit no test"))
    }
}

impl PlainStore {
    fn may_be_removed(&self, session: &Session) -> bool {
        let kept = match () {
            () if self.has(Flaw::KeepsShortSessionsShort) => session.life,
            () => session.life.max(Duration::from_mins(1)),
        };
        match () {
            () if self.has(Flaw::ExpiresTheLiving) => {
                session.opened_at + session.life <= self.now()
            }
            () if self.has(Flaw::ExpiresAtOnce) => session.ends_at <= self.now(),
            () => session.ends_at + kept <= self.now(),
        }
    }

    fn expire_answer(&self, shared: &mut Shared, name: &str) {
        let record = shared.records.get(name);
        let is_answer =
            record.is_some_and(|record| !matches!(record.state, State::InProgress { .. }));
        if is_answer && !self.has(Flaw::ExpiryLeavesAnswers)
            || self.has(Flaw::RemovesWhatIsInProgress)
        {
            shared.remove(name);
        }
    }
}
