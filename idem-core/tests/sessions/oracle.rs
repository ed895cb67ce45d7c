//! The model: what a store that keeps sessions must answer, written from the contract alone.

use std::collections::BTreeMap;

use idem_core::store::{Claim, Lease, Opened, Touched, Write};

use super::call::{Ask, LEASE, LIFE, WINDOW};

/// All that a store is expected to know, with times in units.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    now: u32,
    /// Whether the store removes sessions by itself, and their answers when their time has come.
    by_itself: bool,
    sessions: BTreeMap<u8, Session>,
    records: BTreeMap<(u8, u8), Record>,
}

#[derive(Debug, Clone, Copy)]
struct Session {
    mark: u8,
    ends_at: u32,
}

#[derive(Debug, Clone, Copy)]
struct Record {
    token: i64,
    attempts: u32,
    in_doubt: bool,
    owner: u8,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Working { until: u32 },
    Done { outcome: u8 },
    Failed,
}

/// The answer to a claim.
#[derive(Debug, PartialEq)]
pub(crate) enum Expected {
    Acquired {
        /// If it was acquired before by this owner.
        token: Option<i64>,
        attempt: u32,
        in_doubt: bool,
    },
    Held,
    Completed(u8),
    Stale,
    Expired,
    Beyond,
}

impl Oracle {
    pub(crate) fn new(by_itself: bool) -> Self {
        Self {
            by_itself,
            ..Self::default()
        }
    }

    pub(crate) fn advance(&mut self, by: u32) {
        self.now += by;
    }

    pub(crate) fn open(&mut self, client: u8) -> Opened {
        let now = self.now;
        if self.by_itself {
            self.sessions.retain(|_, session| !session.is_over(now));
        }
        let opened = Session {
            mark: 0,
            ends_at: now + LIFE,
        };
        match self.sessions.insert(client, opened) {
            None => Opened::New,
            Some(known) => {
                self.sessions.insert(client, known);
                Opened::Known
            }
        }
    }

    pub(crate) fn touch(&mut self, client: u8) -> Touched {
        let now = self.now;
        let session = self.sessions.get_mut(&client);
        match session.filter(|session| session.ends_at > now) {
            None => Touched::Expired,
            Some(session) => {
                session.ends_at = now + LIFE;
                Touched::Living
            }
        }
    }

    pub(crate) fn close(&mut self, client: u8) {
        let now = self.now;
        let session = self.sessions.get_mut(&client);
        if let Some(session) = session.filter(|session| session.ends_at > now) {
            session.ends_at = now;
            let numbers = u32::from(session.mark)..u32::from(session.mark) + WINDOW;
            // What is in progress now outlives the session, and is not removed with it.
            session.mark = u8::MAX;
            self.remove_answers(client, |number| numbers.contains(&number.into()));
        }
    }

    /// How many sessions are removed; all that may be, if they fit.
    pub(crate) fn expire(&mut self) -> u32 {
        let now = self.now;
        let sessions = self.sessions.iter();
        let over: Vec<(u8, Session)> = sessions
            .filter(|(_, session)| session.is_over(now))
            .map(|(client, session)| (*client, *session))
            .collect();
        for (client, session) in &over {
            self.sessions.remove(client);
            let numbers = u32::from(session.mark)..u32::from(session.mark) + WINDOW;
            self.remove_answers(*client, |number| numbers.contains(&number.into()));
        }
        u32::try_from(over.len()).expect("there are two clients")
    }

    /// What a claim must be answered; the session has heard it.
    pub(crate) fn claim(&mut self, ask: Ask) -> Expected {
        if self.touch(ask.client) == Touched::Expired {
            return Expected::Expired;
        }
        let session = self.sessions.get_mut(&ask.client).expect("it lives");
        let mark = session.mark.max(ask.awaited);
        if ask.number < mark {
            return Expected::Stale;
        }
        if u32::from(ask.number) >= u32::from(mark) + WINDOW {
            return Expected::Beyond;
        }
        // At most a window: what lies above is of an earlier session of the same key.
        let end = u32::from(mark).min(u32::from(session.mark) + WINDOW);
        let passed = u32::from(session.mark)..end;
        session.mark = mark;
        self.remove_answers(ask.client, |number| passed.contains(&number.into()));
        self.ordinary(ask)
    }

    fn ordinary(&self, ask: Ask) -> Expected {
        let new = |attempt, in_doubt| Expected::Acquired {
            token: None,
            attempt,
            in_doubt,
        };
        let Some(record) = self.records.get(&(ask.client, ask.number)) else {
            return new(1, false);
        };
        match record.phase {
            Phase::Done { outcome } => Expected::Completed(outcome),
            Phase::Working { .. } if record.owner == ask.owner => Expected::Acquired {
                token: Some(record.token),
                attempt: record.attempts,
                in_doubt: record.in_doubt,
            },
            Phase::Working { until } if until > self.now => Expected::Held,
            Phase::Working { .. } => new(record.attempts + 1, true),
            Phase::Failed if record.owner == ask.owner => Expected::Held,
            Phase::Failed => new(record.attempts + 1, record.in_doubt),
        }
    }

    /// Takes note of a claim that was acquired.
    pub(crate) fn note(&mut self, ask: Ask, claim: &Claim) {
        if let Claim::Acquired(lease) = claim {
            let record = Record {
                token: lease.token.get(),
                attempts: lease.attempt,
                in_doubt: lease.in_doubt,
                owner: ask.owner,
                phase: Phase::Working {
                    until: self.now + LEASE,
                },
            };
            self.records.insert((ask.client, ask.number), record);
        }
    }

    pub(crate) fn complete(&mut self, of: (u8, u8), lease: &Lease, outcome: u8) -> Write {
        self.write(of, lease, |record| match record.phase {
            Phase::Working { .. } => {
                record.phase = Phase::Done { outcome };
                Write::Applied
            }
            Phase::Done { .. } => Write::Applied,
            Phase::Failed => Write::Fenced,
        })
    }

    pub(crate) fn fail(&mut self, of: (u8, u8), lease: &Lease) -> Write {
        self.write(of, lease, |record| match record.phase {
            Phase::Working { .. } => {
                record.phase = Phase::Failed;
                record.in_doubt = false;
                Write::Applied
            }
            Phase::Failed => Write::Applied,
            Phase::Done { .. } => Write::Fenced,
        })
    }

    fn write(
        &mut self,
        of: (u8, u8),
        lease: &Lease,
        change: impl FnOnce(&mut Record) -> Write,
    ) -> Write {
        let record = self.records.get_mut(&of);
        record
            .filter(|record| record.token == lease.token.get())
            .map_or(Write::Fenced, change)
    }

    fn remove_answers(&mut self, client: u8, gone: impl Fn(u8) -> bool) {
        self.records.retain(|(of, number), record| {
            let is_answer = !matches!(record.phase, Phase::Working { .. });
            !(*of == client && gone(*number) && is_answer)
        });
    }
}

impl Session {
    /// Whether it may be removed.
    fn is_over(self, now: u32) -> bool {
        self.ends_at + LIFE <= now
    }
}
